"""A command line tool that turns a commit note into a line of release notes.

It stands for a tool whose inside is none of your business, such as a coding agent. At every start
it reads HOUSE.md and skills/release-notes/SKILL.md in its workspace, and it does what they say:

    python notes.py --workspace DIR "fix: the menu opens twice"
"""

# ruff: noqa: T201

import argparse
import json
import re
import sys
from pathlib import Path

_KINDS = re.compile(r"'(\w+)' as '(\w+)'")
_BARE = re.compile(r"without a kind as '(\w+)'")


def main() -> int:
    """The line on stdout, below a banner or as JSON; 3 for a note that no rule covers."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--workspace", type=Path, required=True)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("note")
    given = arguments.parse_args()
    house = (given.workspace / "HOUSE.md").read_text(encoding="utf-8")
    skill = (given.workspace / "skills" / "release-notes" / "SKILL.md").read_text(encoding="utf-8")
    try:
        line = written(given.note, house, skill)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 3
    print(json.dumps({"line": line}) if given.json else f"notes 0.4\n> {line}")
    return 0


def written(note: str, house: str, skill: str) -> str:
    """The line, by the rules of both files."""
    kind, colon, rest = note.partition(": ")
    word = dict(_KINDS.findall(skill)).get(kind, kind)
    if not colon:
        bare = _BARE.search(skill)
        if bare is None:
            raise LookupError("the note has no kind, and no rule says what to do without one")
        word, rest = bare[1], note
    if "issue numbers" in house:
        rest = re.sub(r" \(#\d+\)", "", rest)
    return f"{word}: {rest}"


if __name__ == "__main__":
    sys.exit(main())
