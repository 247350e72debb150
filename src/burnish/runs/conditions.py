"""What a run works under: everything but how its strategy searches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from burnish.core.cases import Dataset
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric, Target
from burnish.effects.budget import Budget
from burnish.runs.evaluating import CasePolicy
from burnish.runs.exporting import Exporter
from burnish.runs.header import Project


class Closable(Protocol):
    """Something that is held open for a run."""

    async def close(self) -> None:
        """Let go of it."""
        ...


class StrategyIdentity(Protocol):
    """What a run knows of the strategy that searches in it."""

    @property
    def name(self) -> str:
        """What the command line and run.json call it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What is optimised in a run, on which cases, by which measure, and how far."""

    target: Target
    metrics: tuple[Metric, ...]
    objective: Objective
    dataset: Dataset
    strategy: StrategyIdentity
    seed: int = 42
    budget: Budget = field(default_factory=Budget)
    concurrency: int = 8
    case_policy: CasePolicy = field(default_factory=CasePolicy)
    grace_seconds: float = 30.0
    """A run that is to stop finishes the trial under way; where no call ends for so long, the trial
    is dropped."""
    test_repeats: int = 1
    stop_callbacks: Mapping[str, Callable[[], bool]] = field(
        default_factory=dict[str, Callable[[], bool]]
    )
    """User callables by label; one that gives True stops the run."""
    exporter: Exporter | None = None
    """How accepted candidates lie in the run's folder; a folder each unless it says otherwise."""
    project: Project = field(default_factory=Project)
    notes: tuple[str, ...] = ()
    """What the user should know before the start, such as a price that is unknown."""
    resources: tuple[Closable, ...] = ()
    """What is let go of when the run is closed: connections, engines."""
