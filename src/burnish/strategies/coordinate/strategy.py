"""The strategy `coordinate`: phases in cycles, every accept kept, until a cycle brings nothing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, TextSurface
from burnish.runs.run import Run
from burnish.strategies.coordinate.phases import (
    DemonstrationPhase,
    NumericPhase,
    PhaseEnd,
    TextualPhase,
)
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.trying import Trying
from burnish.strategies.coordinate.wording import CritiqueRequest, Edit, EditRequest, Gradient

VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Coordinate:
    """Coordinate descent: demonstrations, then numbers, then texts, again and again.

    Each phase starts from what the one before it reached, and each accept inside a phase moves
    the incumbent, so that wins stack. A numeric phase has a study of its own: what was learned
    under another text is not believed.
    """

    settings: CoordinateSettings = field(default_factory=CoordinateSettings)
    critic: Role[CritiqueRequest, Gradient] | None = None
    applier: Role[EditRequest, Edit] | None = None
    name: str = "coordinate"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide; limits on phases may not change either."""
        return short_id([VERSION, asdict(self.settings)])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Critic and applier, where texts are tuned."""
        return [role for role in (self.critic, self.applier) if role is not None]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """What the settings speak of must be there, and of the right kind."""
        surfaces = {surface.id: surface for surface in target.surfaces}
        demos = (self.settings.demonstrations,) if self.settings.demonstrations else ()
        wanted = [
            *((name, (NumberSurface, ChoiceSurface)) for name in self.settings.numbers),
            *((name, (TextSurface,)) for name in self.settings.texts),
            *((name, (DemosSurface,)) for name in demos),
        ]
        found = [
            Problem(where=name, message="there is no such surface, or it is of another kind")
            for name, kinds in wanted
            if not isinstance(surfaces.get(name), kinds)
        ]
        if not wanted:
            found.append(Problem(message="there is nothing to tune: no axis is given"))
        if self.settings.texts and (self.critic is None or self.applier is None):
            found.append(Problem(message="texts need a critic and an applier"))
        return found

    async def search(self, run: Run) -> None:
        """Measure the baseline, then go through the phases until a whole cycle is dry."""
        trying = Trying(run, self.settings, cycle=0, phase="baseline")
        if run.stop_reason(trying.need) is not None:
            return
        incumbent = await trying.baseline()
        rejected: dict[str, list[Gradient]] = {}
        for cycle in range(1, self.settings.max_cycles + 1):
            accepts = 0
            for phase in self._phases(run, cycle, rejected):
                data = {"cycle": cycle, "phase": phase.name}
                run.announce("phase_started", f"cycle:{cycle}:{phase.name}", {**data})
                end = await phase.go(incumbent)
                incumbent = end.incumbent
                accepts += end.accepts
                self._tell(run, cycle, phase.name, end)
                if run.stopped is not None:
                    return
            if not accepts:
                run.announce("dry_cycle", f"cycle:{cycle}:dry", {"cycle": cycle})
                return

    def _phases(
        self, run: Run, cycle: int, rejected: dict[str, list[Gradient]]
    ) -> list[DemonstrationPhase | NumericPhase | TextualPhase]:
        settings = self.settings
        phases: list[DemonstrationPhase | NumericPhase | TextualPhase] = []
        if settings.demonstrations:
            limits = settings.demonstration_phase
            phases.append(DemonstrationPhase(run, settings, cycle=cycle, limits=limits))
        if settings.numbers:
            limits = settings.numeric_phase
            phases.append(NumericPhase(run, settings, cycle=cycle, limits=limits))
        if settings.texts and self.critic is not None and self.applier is not None:
            phases.append(
                TextualPhase(
                    run,
                    settings,
                    cycle=cycle,
                    critic=self.critic,
                    applier=self.applier,
                    rejected=rejected,
                )
            )
        return phases

    def _tell(self, run: Run, cycle: int, phase: str, end: PhaseEnd) -> None:
        data = {
            "cycle": cycle,
            "phase": phase,
            "reason": end.reason,
            "trials": end.trials,
            "accepts": end.accepts,
        }
        run.announce("phase_ended", f"cycle:{cycle}:{phase}:end", {**data})
