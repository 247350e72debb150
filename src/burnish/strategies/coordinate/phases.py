"""What all phases share: limits, patience, and the reasons to end."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from burnish.core.money import Spend
from burnish.core.surfaces import Surface
from burnish.runs.run import Run
from burnish.strategies.coordinate.memory import Memory
from burnish.strategies.coordinate.probing import Probing
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.trying import Incumbent, Tried, Trying

NOTHING_TO_GAIN = "nothing_to_gain"
STOPPED = "stopped"


@dataclass(frozen=True, kw_only=True)
class PhaseEnd:
    """Where a phase left things, and why it ended."""

    incumbent: Incumbent
    reason: str
    accepts: int = 0
    trials: int = 0


class Phase(ABC):
    """One stretch of trials of one kind. It ends by itself and says why."""

    name = ""

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        limits: PhaseLimits,
        memory: Memory,
    ) -> None:
        self.run = run
        self.settings = settings
        self.limits = limits
        self.memory = memory
        self.probing = Probing(run=run, cycle=cycle, phase=self.name)
        self.trying = Trying(run, settings, cycle=cycle, phase=self.name, memory=memory)
        self.surfaces: dict[str, Surface] = {s.id: s for s in run.target.surfaces}
        self.metrics = list(run.objective.weights)
        self.trials = 0
        self.accepts = 0
        self.idle = 0

    @abstractmethod
    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Try until there is a reason to end."""

    @abstractmethod
    def nothing_left(self, incumbent: Incumbent) -> str:
        """Why there is nothing left to try; empty when there is."""

    def need(self, incumbent: Incumbent) -> Spend:
        """What the next trial may cost."""
        del incumbent
        return self.trying.need

    def over(self, incumbent: Incumbent) -> str:
        """Why the phase is over; empty when it is not.

        The budget is looked at last: where there is nothing more to do, it is not what ended it.
        """
        if incumbent.perfect:
            return NOTHING_TO_GAIN
        if self.trials >= self.limits.max_trials:
            return "max_trials"
        if self.idle >= self.limits.patience:
            return "patience"
        if reason := self.nothing_left(incumbent):
            return reason
        return "" if self.run.stop_reason(self.need(incumbent)) is None else STOPPED

    def count(self, tried: Tried) -> None:
        """Keep the books of the phase."""
        self.trials += 1
        self.accepts += tried.accepted
        self.idle = 0 if tried.accepted else self.idle + 1

    def end(self, incumbent: Incumbent, reason: str) -> PhaseEnd:
        """The phase as it ended."""
        return PhaseEnd(
            incumbent=incumbent, reason=reason, accepts=self.accepts, trials=self.trials
        )
