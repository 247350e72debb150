"""Measuring an agent: from a file to a run of the strategy `measure`, and what it found."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.models.keys import load_dotenv
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
    """Only these, by name."""
    metric_file: Path | None = None
    """Metrics from here instead of from where the agent says."""
    judge: str | None = None
    """A model: who judges where a metric names nobody."""


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


def prepare_evaluation(path: Path, wanted: Wanted) -> Measurement:
    """What a file describes, ready to be measured: by what kind of file it is."""
    from burnish.projects.eval_recorded import prepare_recorded

    load_dotenv(path.resolve().parent, os.environ)
    return prepare_recorded(path, wanted)
