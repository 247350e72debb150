"""The runner: reads SKILL.md as an assistant's loader does, and writes its parts for the scorer."""

# ruff: noqa: T201

import json
import re
import sys
from pathlib import Path

SKILL = Path("skills/release_notes/SKILL.md")
HEADER = re.compile(r"\A---\nname: [\w-]+\ndescription: .+\n---\n")


def main() -> None:
    """Write work/parts.json; a file that no assistant would load ends the run."""
    text = SKILL.read_text(encoding="utf-8")
    header = HEADER.match(text)
    if header is None:
        sys.exit(f"{SKILL} does not begin with its name and description: no assistant loads it")
    found = re.split(r"^## +(.+)$", text[header.end() :], flags=re.MULTILINE)
    names, bodies = found[1::2], found[2::2]
    parts = {name.strip(): body.strip() for name, body in zip(names, bodies, strict=True)}
    Path("work").mkdir(exist_ok=True)
    Path("work/parts.json").write_text(json.dumps(parts, indent=1), encoding="utf-8")
    print(f"{len(parts)} sections: {', '.join(parts)}")


if __name__ == "__main__":
    main()
