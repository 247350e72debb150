"""Measure the shop's agent from a program: `python measure.py`."""

# ruff: noqa: T201

from pathlib import Path

from shop import call_agent

from burnish import evaluate

HERE = Path(__file__).parent


def main() -> None:
    """Say what passes, and why the rest does not."""
    found = evaluate(call_agent, cases=HERE / "cases.jsonl", metric=HERE / "metrics.yaml")
    print(f"equality {found.score('equality'):.2f}")
    print(found.explain())


if __name__ == "__main__":
    main()
