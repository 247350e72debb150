"""The editor of this starter: adds the next section that SKILL.md does not have yet.

A model does this better. The script is here so that the task runs before you have named one.
"""

from pathlib import Path

SECTIONS = {
    "Output format": "A list. Each item names one problem and how to solve it.",
    "Examples": "Before: *It is to be noted that results vary.* After: *Results vary.*",
    "Limits": "Do not rewrite the text. Do not judge its author.",
}


def main() -> None:
    """Edit the SKILL.md of this folder, which is a copy."""
    path = Path("SKILL.md")
    text = path.read_text(encoding="utf-8")
    for name, body in SECTIONS.items():
        if f"## {name}" not in text:
            path.write_text(f"{text.rstrip()}\n\n## {name}\n\n{body}\n", encoding="utf-8")
            print(f"added the section {name}")
            return
    print("nothing is missing any more")


if __name__ == "__main__":
    main()
