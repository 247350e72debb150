"""The scorer: the time that the runner took, and how many answers were wrong."""

# ruff: noqa: T201
import json
import sys
from pathlib import Path

from cases import read_cases


def main(path: str) -> None:
    """Print one JSON object."""
    ran = json.loads(Path("work/run.json").read_text(encoding="utf-8"))
    pairs = list(zip(read_cases(path), ran["answers"], strict=True))
    wrong = [
        f"{case['name']}: {given}, right is {case['answer']}"
        for case, given in pairs
        if given != case["answer"]
    ]
    told = {
        "cpu_seconds": ran["cpu_seconds"],
        "metrics": {"wrong_answers": len(wrong)},
        "feedback": "; ".join(wrong) or "all answers are right",
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1])
