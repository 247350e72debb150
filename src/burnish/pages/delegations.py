"""What pages show about delegations, beyond what they show about every run.

This room knows no delegation: a command or a service hands in where it reads them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from burnish.core.formatting import Drawing
from burnish.pages.charts import Chart, drawn
from burnish.pages.run_result import ShownChange

REFINEMENTS = "refinements"
"""The part of an address between a delegation and one of its refinements."""


def is_refinement(key: str) -> bool:
    """Whether the key of a page names a refinement below its run."""
    return f"/{REFINEMENTS}/" in key


@dataclass(frozen=True, kw_only=True)
class RefinementLine:
    """A refinement in a list."""

    name: str
    ended: str
    """How it ended, in words; or that it goes on."""
    iterations: int
    loss: str
    """Of the seed and of the best."""
    folder: Path
    """Of its run."""
    has_page: bool = True
    """Whether its run has begun."""
    running: bool = False
    resumable: bool = False
    """Whether it was interrupted and nobody refines now."""
    most_iterations: int = 0
    """How many it may have."""
    can_have_more: bool = False
    """Whether it ran all of them, and goes on if it may have more."""


@dataclass(frozen=True, kw_only=True)
class IterationLine:
    """One iteration of a refinement."""

    number: int
    models: str
    """The tier, the manager and the worker, as far as they are known."""
    status: str
    loss: str
    is_best: bool = False
    note: str = ""
    gradient: tuple[str, ...] = ()
    """What it was told to repair."""


@dataclass(frozen=True, kw_only=True)
class BestFiles:
    """BEST: the best deliverable so far."""

    run: str
    loss: str
    why: str = ""
    """Why it is the best: its loss, or somebody's choice."""
    files: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DelegationPart:
    """What the page of a delegation or of a refinement has beyond that of any run."""

    task: str
    seed: str = ""
    """The run that a refinement began with; empty for a delegation."""
    home: Path
    """The folder that has BEST."""
    iterations: tuple[IterationLine, ...] = ()
    refinements: tuple[RefinementLine, ...] = ()
    best: BestFiles | None = None

    @property
    def idle(self) -> bool:
        """Whether no refinement goes on."""
        return not any(line.running for line in self.refinements)


@dataclass(frozen=True, kw_only=True)
class TaskRunLine:
    """A finished run of a task of an experiment."""

    name: str
    folder: Path
    status: str
    loss: str


@dataclass(frozen=True, kw_only=True)
class TaskLine:
    """A task of an experiment."""

    name: str
    prompt: str
    mode: str
    inputs: tuple[str, ...] = ()
    """The tasks whose results it starts from."""
    runs: tuple[TaskRunLine, ...] = ()
    refinements: tuple[RefinementLine, ...] = ()
    best: BestFiles | None = None


@dataclass(frozen=True, kw_only=True)
class ExperimentCard:
    """An experiment with its tasks."""

    key: str
    name: str
    goal: str = ""
    created: str = ""
    tasks: tuple[TaskLine, ...] = ()
    trouble: str = ""
    """Why it cannot be read."""


@dataclass(frozen=True, kw_only=True)
class TextVersion:
    """A version of a policy text."""

    number: int
    content: str
    parent: int | None = None
    """None for the shipped one."""
    created: str = ""
    active: bool = False
    pinned: bool = False
    change: ShownChange | None = None
    """From its parent."""


@dataclass(frozen=True, kw_only=True)
class PolicyText:
    """A policy text with all of its versions, the shipped one first."""

    name: str
    versions: tuple[TextVersion, ...]

    @property
    def active(self) -> TextVersion:
        return next(each for each in self.versions if each.active)

    @property
    def pinned(self) -> TextVersion | None:
        return next((each for each in self.versions if each.pinned), None)

    @property
    def in_use(self) -> TextVersion:
        """The version that runs read."""
        return self.pinned or self.active


@dataclass(frozen=True, kw_only=True)
class SuiteEpoch:
    """One pass over a suite of tasks."""

    number: int
    suite: int
    """The version of the suite: an edited one is another."""
    loss: float | None
    ended: str


@dataclass(frozen=True, kw_only=True)
class SuiteLine:
    """A suite of tasks on which policy texts were trained."""

    name: str
    epochs: tuple[SuiteEpoch, ...]


class DelegationSource(Protocol):
    """Reads delegations for pages."""

    def refinements(self, folder: Path) -> Sequence[RefinementLine]:
        """The refinements beside a run, the oldest first; none if it is no delegation."""
        ...

    def part(self, folder: Path) -> DelegationPart | None:
        """What is known about the delegation or refinement in a folder; None for another run."""
        ...

    def experiments(self) -> Sequence[ExperimentCard]:
        """Every experiment, the newest first."""
        ...

    def policy(self, experiment: str = "") -> Sequence[PolicyText]:
        """The policy texts, or those of an experiment."""
        ...

    def suites(self, experiment: str = "") -> Sequence[SuiteLine]:
        """The suites on which these texts were trained."""
        ...


class NoDelegations:
    """For pages that show none."""

    def refinements(self, folder: Path) -> Sequence[RefinementLine]:
        del folder
        return ()

    def part(self, folder: Path) -> DelegationPart | None:
        del folder
        return None

    def experiments(self) -> Sequence[ExperimentCard]:
        return ()

    def policy(self, experiment: str = "") -> Sequence[PolicyText]:
        del experiment
        return ()

    def suites(self, experiment: str = "") -> Sequence[SuiteLine]:
        del experiment
        return ()


def loss_chart(suites: Sequence[SuiteLine]) -> Chart | None:
    """The mean loss of every epoch of every suite; None if there are none."""
    epochs = [(suite, epoch) for suite in suites for epoch in suite.epochs]
    if not epochs:
        return None
    names = list(dict.fromkeys(f"{suite.name} #{epoch.suite}" for suite, epoch in epochs))
    drawing = Drawing(
        title="The loss of every epoch",
        labels=tuple(f"{epoch.ended} ({epoch.number})" for _, epoch in epochs),
        series={
            name: tuple(
                epoch.loss if f"{suite.name} #{epoch.suite}" == name else None
                for suite, epoch in epochs
            )
            for name in names
        },
        unit="mean loss",
        label="ended (epoch)",
        note="Lower is better. Losses of two versions of a suite cannot be compared.",
    )
    return drawn(drawing, "epochs")
