"""The strategy `coordinate`: phases in cycles until a cycle brings nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from burnish.core.cases import Case
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, TextSurface
from burnish.runs.events import PhaseEnded, PhaseStarted, SearchEnded
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.run import Run
from burnish.strategies.coordinate import headroom
from burnish.strategies.coordinate.demonstrations import DemonstrationPhase, NumericPhase
from burnish.strategies.coordinate.numeric import WARM_UP, warm_up
from burnish.strategies.coordinate.phases import NOTHING_TO_GAIN, STOPPED, Phase, TextualPhase
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.trials import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Incumbent,
    Memory,
    TrialRunner,
    applier,
    critic,
)

_VERSION = 2


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
        """A hash of the settings that decide. How many cycles there may be is a budget."""
        settings = {k: v for k, v in self.settings.model_dump().items() if k != "max_cycles"}
        return short_id([_VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Critic and applier, where texts are tuned."""
        return [role for role in (self.critic, self.applier) if role is not None]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """What the settings speak of must be there, and of the right kind."""
        surfaces = {surface.id: surface for surface in target.surfaces}
        demos = (self.settings.demonstrations,) if self.settings.demonstrations else ()
        axes = [
            *((name, (NumberSurface, ChoiceSurface)) for name in self.settings.numbers),
            *((name, (TextSurface,)) for name in self.settings.texts),
            *((name, (DemosSurface,)) for name in demos),
        ]
        problems = [
            Problem(where=name, message="there is no such surface, or it is of another kind")
            for name, kinds in axes
            if not isinstance(surfaces.get(name), kinds)
        ]
        if not problems:
            problems += self._out_of_bounds(target, [name for name, _ in axes])
        if not axes:
            problems.append(Problem(message="there is nothing to tune: no axis is given"))
        if self.settings.texts and (self.critic is None or self.applier is None):
            problems.append(Problem(message="texts need a critic and an applier"))
        return problems

    def _out_of_bounds(self, target: Target, names: Sequence[str]) -> list[Problem]:
        """A start outside its own bounds: every candidate that keeps it would be turned away."""
        surfaces = {surface.id: surface for surface in target.surfaces}
        values = target.baseline.values
        return [
            replace(problem, remedy="change the value it starts with, or the bounds of the axis")
            for name in names
            for problem in surfaces[name].problems(values[name])
        ]

    async def search(self, run: Run) -> None:
        """Measure the baseline, then go through the phases until a whole cycle is dry."""
        memory = Memory()
        trying = TrialRunner(run, self.settings, cycle=0, phase="baseline", memory=memory)
        if run.stop_reason(trying.need) is not None:
            return
        incumbent = await trying.baseline()
        self._tell_headroom(run, trying, incumbent)
        cycle, reason = 0, NOTHING_TO_GAIN if incumbent.perfect else ""
        if not reason and run.stop_reason() is not None:
            reason = STOPPED
        while not reason:
            cycle += 1
            before, incumbent = incumbent, await self._cycle(run, cycle, incumbent, memory)
            reason = self._over(run, cycle, before, incumbent)
        if reason != STOPPED:
            _tell_end(run, cycle, reason)

    def _tell_headroom(self, run: Run, trying: TrialRunner, incumbent: Incumbent) -> None:
        """How much there is to gain, and what looking for it will cost, before it does."""
        costs = headroom.costs_ahead(run, self.settings, self.roles, trying.paid)
        run.tell(headroom.headroom_of(run, self.settings, incumbent, costs), "headroom")

    def _over(self, run: Run, cycle: int, before: Incumbent, after: Incumbent) -> str:
        """Why the whole search is over; empty when it is not."""
        if run.stopped is not None:
            return STOPPED
        if after.perfect:
            return NOTHING_TO_GAIN
        if after is before:
            return "dry_cycle"
        # What is recorded happened: a limit that was lowered since does not undo it.
        return "max_cycles" if cycle >= self.settings.max_cycles and not run.replaying else ""

    async def _cycle(self, run: Run, cycle: int, incumbent: Incumbent, memory: Memory) -> Incumbent:
        """One phase after the other, each from where the one before it got to."""
        for phase in self._phases(run, cycle, memory):
            if incumbent.perfect:
                break
            run.tell(PhaseStarted(cycle=cycle, phase=phase.name), f"cycle:{cycle}:{phase.name}")
            end = await phase.go(incumbent)
            incumbent = end.incumbent
            over = PhaseEnded(
                cycle=cycle,
                phase=phase.name,
                reason=end.reason,
                trials=end.trials,
                accepts=end.accepts,
            )
            # A phase that was stopped goes on when the run is resumed, and then ends again.
            last = f"stopped:{run.trial}" if end.reason == STOPPED else "end"
            run.tell(over, f"cycle:{cycle}:{phase.name}:{last}")
            if run.stopped is not None:
                break
        return incumbent

    def _phases(self, run: Run, cycle: int, memory: Memory) -> Iterator[Phase]:
        settings = self.settings
        if settings.demonstrations:
            limits = settings.demonstration_phase
            yield DemonstrationPhase(run, settings, cycle=cycle, limits=limits, memory=memory)
        if settings.numbers:
            limits = settings.numeric_phase
            yield NumericPhase(run, settings, cycle=cycle, limits=limits, memory=memory)
        if settings.texts and self.critic is not None and self.applier is not None:
            yield TextualPhase(
                run,
                settings,
                cycle=cycle,
                limits=settings.textual_phase,
                memory=memory,
                critic=self.critic,
                applier=self.applier,
            )


def _tell_end(run: Run, cycle: int, reason: str) -> None:
    """Say why the search ended by itself; with more cycles allowed it may end again."""
    run.tell(SearchEnded(cycle=cycle, reason=reason), f"cycle:{cycle}:{reason}")


# -- Coordinate descent from a description --------------------------------------------------------


CRITIC = RoleNeed(
    name="critic",
    help="Who diagnoses texts: provider:name.",
    instead=("applier", "proposer", "reflector"),
)
APPLIER = RoleNeed(
    name="applier", help="Who edits them.", instead=("critic", "proposer", "reflector")
)


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The search over a target; None, with what is wrong kept, where it cannot be."""
    numbers, texts = parts.numbers(), parts.texts()
    demonstrations = parts.demonstrations() if parts.cases_demonstrate else ()
    settings: CoordinateSettings = building.spec.strategy.settings
    notes: list[str] = []
    refs = (building.named(CRITIC), building.named(APPLIER))
    if texts and None in refs and parts.own_model is None and (numbers or demonstrations):
        # Numbers and demonstrations need nobody who writes.
        notes.append(_left_out(parts))
        texts = ()
    critic_parts = applier_parts = None
    if texts:
        diagnosing, editing = (building.writer(need, parts) for need in (CRITIC, APPLIER))
        critic_parts = None if diagnosing is None else building.asked("critic", diagnosing)
        applier_parts = None if editing is None else building.asked("applier", editing)
        if critic_parts is None or applier_parts is None:
            return None
    chosen = settings.model_copy(
        update={
            "numbers": numbers,
            "texts": texts,
            "demonstrations": demonstrations[0] if demonstrations else "",
        }
    )
    _check(building, parts, chosen)
    notes += _notes(parts, chosen)
    if not parts.dataset.holdout:
        chosen = chosen.model_copy(update={"holdout_policy": "skip"})
    return StrategyParts(
        strategy=Coordinate(
            settings=chosen,
            critic=None if critic_parts is None else critic(*critic_parts),
            applier=None if applier_parts is None else applier(*applier_parts),
        ),
        client=None if applier_parts is None else applier_parts[0],
        notes=tuple(notes),
    )


def _left_out(parts: TargetParts) -> str:
    return (
        f"the textual phase is left out: {parts.no_model}. Name a critic in the file, or with "
        "--critic PROVIDER:NAME or BURNISH_CRITIC"
    )


def _check(building: Building, parts: TargetParts, settings: CoordinateSettings) -> None:
    problems = building.problems
    if (settings.numbers or settings.demonstrations) and find_spec("optuna") is None:
        message = "searching over numbers and demonstrations needs optuna"
        problems.add("target", message, "pip install 'burnish[numeric]'")
    if (
        settings.demonstrations
        and parts.dataset.train
        and not any(map(_showable, parts.dataset.train))
    ):
        at = parts.places.get(settings.demonstrations, ("target",))
        message = "no case of train can be shown: it takes one turn, and no files"
        problems.add(at, message, "add such cases, or remove the axis")
    noisy = [name for name in settings.numbers if name in parts.noisy]
    if settings.repeats == 1 and noisy:
        message = (
            f"{' and '.join(noisy)} makes answers vary, and one repeat cannot tell by how much"
        )
        problems.add("strategy.settings.repeats", message, "set it to 2 or more")


def _showable(case: Case) -> bool:
    return len(case.turns) == 1 and not case.turns[0].attachments


def _notes(parts: TargetParts, settings: CoordinateSettings) -> Iterator[str]:
    if not parts.cases_demonstrate and parts.demonstrations():
        yield f"left as they are by this strategy: {', '.join(parts.demonstrations())}"
    if parts.steady:  # What follows is about noise, and about few points that noise blurs.
        return
    if settings.repeats == 1 and not any(name in parts.noisy for name in settings.numbers):
        yield (
            "repeats is 1: a candidate shows no noise of its own, so the bar is "
            f"{settings.accept_sigma:g} × the incumbent's, which is 0 as well; take 2 or more "
            "unless the agent always answers alike"
        )
    limits = settings.numeric_phase
    if settings.numbers and limits.max_trials < WARM_UP:
        start = warm_up(min(limits.patience, limits.max_trials))
        yield (
            f"numeric_phase.max_trials is {limits.max_trials}, below the usual warm-up of "
            f"{WARM_UP} points: the model is asked after {start}, and has little to go by"
        )
