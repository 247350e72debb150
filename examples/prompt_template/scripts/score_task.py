"""The scorer: the share of right labels, whether the placeholders are there, and the length."""

# ruff: noqa: T201

import json
import re
from pathlib import Path
from string import Formatter

from run_task import TEMPLATE

PLACEHOLDERS = {"labels", "ticket"}


def main() -> None:
    """Print one JSON object."""
    rows = json.loads(Path("work/answers.json").read_text(encoding="utf-8"))
    template = TEMPLATE.read_text(encoding="utf-8")
    wrong = [row for row in rows if row["answer"] != row["label"]]
    named = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    told = [f"'{row['ticket']}': {row['answer']} (should be {row['label']})" for row in wrong]
    metrics = {
        "placeholders_kept": sorted(named) == sorted(PLACEHOLDERS),
        "length_tokens": len(re.findall(r"\w+|[^\w\s]", template)),
    }
    score = round(1 - len(wrong) / len(rows), 4)
    print(json.dumps({"score": score, "metrics": metrics, "feedback": "\n".join(told)}))


if __name__ == "__main__":
    main()
