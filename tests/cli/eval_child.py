"""`burnish eval` of a slow scripted agent, in a process of its own: `eval_child.py SECONDS …`."""

import sys
from pathlib import Path

import typer

from burnish.cli.eval_asking import Asked
from burnish.cli.eval_running import evaluate_agent
from burnish.core.errors import BurnishError
from burnish.projects.evaluating import Measurement, Wanted
from burnish.testing.doubles import CallCounter
from tests.reports.measured import asking, measurement

CALLS = Path("calls.txt")


def main() -> None:
    """Measure twelve cases; --resume RUN goes on."""
    seconds, *rest = sys.argv[1:]
    resume = rest[1] if rest[:1] == ["--resume"] else None

    def prepare(path: Path, wanted: Wanted) -> Measurement:
        cases = asking(*(f"case-{n:02}" for n in range(12)))
        counter = CallCounter(path=CALLS)
        return measurement(
            Path("results"),
            lambda case, draw: "yes",
            cases,
            seconds=float(seconds),
            counter=counter,
        )

    asked = Asked(agent=Path("agent.yaml"), resume=resume, progress="json")
    try:
        evaluate_agent(asked, prepare=prepare)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except BurnishError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
