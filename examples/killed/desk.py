"""Improves the rules of an agent; `KILL_AT=40 python desk.py` is killed in its 40th call."""

# ruff: noqa: T201

import os
import re
import signal
from pathlib import Path

import burnish

HERE = Path(__file__).parent
RULES = HERE / "rules.md"
CALLS = Path("results/killed.calls.txt")


def answer(ticket: str) -> str:
    """The agent. It reads its rules at every call; a few lines stand in for its model."""
    rules = RULES.read_text(encoding="utf-8")
    _count_call(rules)
    label = re.findall(r"invoice|parcel|login", ticket)[0]
    return label if "one word" in rules else f"This is about your {label}."


def _count_call(rules: str) -> None:
    """One line for each call that begins; at a chosen one the process is killed."""
    with CALLS.open("a+", encoding="utf-8") as calls:
        calls.write("call\n")
        calls.seek(0)
        number = len(calls.readlines())
    if number == int(os.environ.get("KILL_AT", "0")):
        print(f"kill -9 in call {number}, while rules.md says: {rules.strip()}", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def rewrite(_: list[dict[str, str]]) -> str:
    """The reflector: yours is a model's name, or a function that asks one."""
    return "Answer with one word: invoice, parcel or login."


def main() -> None:
    """Search, or go on with the search that was killed."""
    CALLS.parent.mkdir(exist_ok=True)
    labels = [(n, label) for n in range(16) for label in ("invoice", "parcel", "login")]
    result = burnish.optimize(
        str(HERE / "desk.yaml"),
        cases=[(f"Where is my {label} {n}?", label) for n, label in labels],
        metric="equality",
        reflector=rewrite,
        folder="results/killed",
    )
    print(result)
    print(f"calls of the agent: {len(CALLS.read_text(encoding='utf-8').splitlines())}")


if __name__ == "__main__":
    main()
