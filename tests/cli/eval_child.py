"""`burnish eval` of a slow scripted agent, in a process of its own: `eval_child.py SECONDS …`."""

import sys
from dataclasses import replace
from pathlib import Path

import typer

from burnish.cli.evaluation import EvalRequest, evaluate_agent
from burnish.core.errors import BurnishError
from burnish.projects.dialects import Flags
from burnish.projects.measurements import PreparedMeasurement
from burnish.runs.directory import Project
from burnish.testing.doubles import CallCounter
from tests.reports.measured import asking, measurement

CALLS = Path("calls.txt")


def main() -> None:
    """Measure twelve cases; --resume RUN goes on."""
    seconds, *rest = sys.argv[1:]
    resume = rest[1] if rest[:1] == ["--resume"] else None

    def load(path: Path, flags: Flags, *, resume: Path | None = None) -> PreparedMeasurement:
        cases = asking(*(f"case-{n:02}" for n in range(12)))
        counter = CallCounter(path=CALLS)
        measuring = measurement(
            Path("results"),
            lambda case, draw: "yes",
            cases,
            seconds=float(seconds),
            counter=counter,
        )
        project = Project(file=str(path.resolve()))
        return replace(measuring, setup=replace(measuring.setup, project=project))

    asked = EvalRequest(agent=Path("agent.yaml"), resume=resume, progress="json")
    try:
        evaluate_agent(asked, load=load)
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except BurnishError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
