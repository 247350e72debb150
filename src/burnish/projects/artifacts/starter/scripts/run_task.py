"""The runner: takes the candidate's SKILL.md apart and writes its sections for the scorer."""

import json
import re
from pathlib import Path


def sections(text: str) -> dict[str, str]:
    """The text under each heading of the second level."""
    parts = re.split(r"^## +(.+)$", text, flags=re.M)
    return {name.strip(): body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def main() -> None:
    """Write work/sections.json."""
    found = sections(Path("SKILL.md").read_text(encoding="utf-8"))
    Path("work").mkdir(exist_ok=True)
    Path("work/sections.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(f"{len(found)} sections: {', '.join(found)}")


if __name__ == "__main__":
    main()
