"""Measuring an agent: from a file to a run of the strategy `measure`, and what it found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure

RESULTS = Path("results") / "eval"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks of a measurement beyond what the file says."""

    cases: Path | None = None
    repeats: int | None = None
    concurrency: int | None = None
    metrics: Sequence[str] = ()
    judge: str | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """An agent, its cases and metrics, ready to be measured."""

    name: str
    setup: Setup
    measure: Measure
    root: Path
    """Where its runs lie."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that are measured."""
        return self.setup.dataset.train

    @property
    def evaluation(self) -> Evaluation | None:
        """What was found; None before the run, and when a limit stopped it."""
        return self.measure.evaluation


Preparing = Callable[[Path, Wanted], Measurement]
