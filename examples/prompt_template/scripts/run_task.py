"""The runner: fills the template for every case, asks, and writes the answers.

`answer` stands in for a model: it does what the prompt says, and only that. Call yours here.
"""

# ruff: noqa: T201

import json
import re
import sys
from pathlib import Path

TEMPLATE = Path("prompts/sort_ticket.txt")
LABELS = ("billing", "access", "bug", "other")
_RULE = re.compile(r"^- (?P<words>.+): (?P<label>\w+)$", re.MULTILINE)


def answer(prompt: str) -> str:
    """The label of the first rule of the prompt that fits its ticket."""
    rules, _, ticket = prompt.rpartition("Ticket:")
    fitting = (
        rule["label"]
        for rule in _RULE.finditer(rules)
        if any(word.strip().lower() in ticket.lower() for word in rule["words"].split(","))
    )
    label = next(fitting, "other")
    return label if "label and nothing else" in rules else f"This looks like {label} to me."


def main(cases: str) -> None:
    """Write work/answers.json; a template that cannot be filled ends the run."""
    template = TEMPLATE.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in Path(cases).read_text(encoding="utf-8").splitlines()]
    answers = [
        {**row, "answer": answer(template.format(labels=", ".join(LABELS), ticket=row["ticket"]))}
        for row in rows
    ]
    Path("work").mkdir(exist_ok=True)
    Path("work/answers.json").write_text(json.dumps(answers, indent=1), encoding="utf-8")
    print(f"{len(answers)} tickets of {cases}")


if __name__ == "__main__":
    main(sys.argv[1])
