"""The scorer: how much of the rubric the sections fulfil, as one JSON object on stdout."""

import json
import re
from pathlib import Path

LONGEST_SENTENCE = 25
"""Words; more than that counts as a violation."""


def rubric() -> dict[str, str]:
    """The sections that are wanted, and the word that must stand in each."""
    text = Path("rubric.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^- (.+?): (.+)$", text, flags=re.M))


def violations(text: str) -> list[str]:
    """Sentences that are too long, and lines that stand there twice: padding."""
    sentences = re.split(r"[.!?\n]", text)
    long = [each.strip() for each in sentences if len(each.split()) > LONGEST_SENTENCE]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [*long, *sorted({line for line in lines if lines.count(line) > 1})]


def main() -> None:
    """Print the score, the metrics, and words that the editor reads."""
    found = json.loads(Path("work/sections.json").read_text(encoding="utf-8"))
    wanted = rubric()
    there = [name for name in wanted if found.get(name)]
    right = [name for name in there if wanted[name].lower() in found[name].lower()]
    text = Path("SKILL.md").read_text(encoding="utf-8")
    wrong = violations(text)
    missing = [name for name in wanted if name not in right]
    print(
        json.dumps(
            {
                "score": len(right) / len(wanted),
                "metrics": {
                    "coverage": len(there) / len(wanted),
                    "violation_count": len(wrong),
                    "length_tokens": len(re.findall(r"\w+|[^\w\s]", text)),
                },
                "feedback": f"missing: {', '.join(missing) or 'nothing'}; wrong: {wrong or 'none'}",
            }
        )
    )


if __name__ == "__main__":
    main()
