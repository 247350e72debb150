"""The scorer: the time that the runner took, and how many answers were wrong."""

# ruff: noqa: T201
import json
import sys
from pathlib import Path


def main(path: str) -> None:
    """Print one JSON object; `path` has the right answers, which no candidate can read."""
    ran = json.loads(Path("work/run.json").read_text(encoding="utf-8"))
    right = json.loads(Path(path).read_text(encoding="utf-8"))
    wrong = [
        f"{name}: {ran['answers'].get(name)}, right is {answer}"
        for name, answer in right.items()
        if ran["answers"].get(name) != answer
    ]
    told = {
        "cpu_seconds": ran["cpu_seconds"],
        "metrics": {"wrong_answers": len(wrong)},
        "feedback": "; ".join(wrong) or "all answers are right",
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
