"""Why a run ends, and what a stopper looks at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from burnish.core.money import NOTHING, Spend


@dataclass(frozen=True, kw_only=True)
class StopReason:
    """A stable code for programs, and a sentence for people."""

    code: str
    detail: str = ""


FINISHED = StopReason(code="finished", detail="the strategy had nothing left to try")


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where a run stands: everything a pure stopper may decide on, from recorded trials only."""

    spent: Spend = NOTHING
    trials: int = 0
    """Trials recorded, the baseline not counted."""
    proposals: int = 0
    """Answers of proposing roles used."""
    since_accept: int = 0
    """Trials since the last accept."""
    best_score: float | None = None
    """The incumbent's score, where a trial told one."""
    best_pass_rate: float | None = None
    """The share of cases in which the incumbent passes everything; None where any is missing."""
    best_passing: Mapping[str, bool] = field(default_factory=dict[str, bool])
    """Whether the incumbent passes each metric on every case."""
    best_means: Mapping[str, float] = field(default_factory=dict[str, float])
    """The incumbent's mean of each metric of which nothing is missing."""
    tracked_candidates: int = 0
    """Candidates accepted or kept in a pool so far, the baseline included."""


Stopper: TypeAlias = Callable[[Standing], StopReason | None]
"""Pure: the same standing gives the same answer, so a replay stops where the run did."""
