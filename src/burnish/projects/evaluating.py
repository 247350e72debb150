"""What is asked of a measurement, and a measurement that is ready to run, with its result."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure

RESULTS = Path("results") / "eval"


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the command line asks of a measurement beyond what the file says."""

    cases: Path | None = None
    """A file of cases, in place of those that the agent brings."""
    case_list: tuple[Case, ...] | None = None
    """The same from a program."""
    repeats: int | None = None
    concurrency: int | None = None
    metrics: Sequence[str] = ()
    """Only these, by name."""
    metric_file: Path | None = None
    """Metrics from here instead of from where the agent says."""
    judge: str | None = None
    """A model: who judges where a metric names nobody."""

    @property
    def replaces_cases(self) -> bool:
        """Whether the cases that the agent brings do not count, so that nobody reads them."""
        return self.cases is not None or self.case_list is not None

    def read_cases(self) -> tuple[Case, ...]:
        """The cases that replace those of the agent."""
        if self.case_list is not None:
            return self.case_list
        return () if self.cases is None else read_some_cases(self.cases)


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
