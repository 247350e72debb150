"""Phases: limits, patience, which axes are alive, and the phase of texts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Role
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Origin, Surface, TextSurface, Value
from burnish.core.trials import TrialDetails
from burnish.models.roles import ModelRole
from burnish.runs.probe import Probed
from burnish.runs.run import Run
from burnish.strategies.coordinate.headroom import DeadAxis
from burnish.strategies.coordinate.numeric import at_unit
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.trials import (
    AttemptResult,
    CoordinateAttempt,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Incumbent,
    Memory,
    Rejected,
    TrialRunner,
    failing,
    gradient_lines,
    rejection_lines,
    trace_texts,
)

AxisType = TypeVar("AxisType", bound=Surface)

DEAD_AXES = "dead_axes"
"""Why a phase ends that has no axis left."""
_SHARES = (0.0, 0.5, 1.0)
"""Where in its range a number is tried."""
_SUFFIX = " (and so on)"
"""What a text is given to see whether anybody reads it."""


@dataclass(frozen=True, kw_only=True)
class _Probing:
    """Tries the axes of one phase on what was measured, before anything is paid for them."""

    run: Run
    cycle: int
    phase: str

    async def alive(self, axes: Sequence[AxisType], incumbent: Incumbent) -> tuple[AxisType, ...]:
        """The axes worth tuning from here; the others are announced.

        A choice may wake what sleeps now, such as the weights of a search beside its mode: what
        stands beside a choice that is alive itself is kept.
        """
        probes = {axis.id: await self._probed(axis, incumbent) for axis in axes}
        waking = {
            _owner(axis)
            for axis in axes
            if isinstance(axis, ChoiceSurface) and probes[axis.id].reaches
        }
        dead = [a for a in axes if not probes[a.id].reaches and _owner(a) not in waking]
        for axis in dead:
            self._announce(axis, probes[axis.id])
        return tuple(axis for axis in axes if axis not in dead)

    async def _probed(self, axis: Surface, incumbent: Incumbent) -> Probed:
        now = incumbent.candidate.values[axis.id]
        origin = Origin(by="coordinate", kind="probe", note=axis.id)
        others = [
            incumbent.candidate.child({axis.id: value}, origin=origin)
            for value in _other_values(axis, now)
        ]
        if not others:
            return Probed(reaches=True)
        return await self.run.probe(others, measured=incumbent.train)

    def _announce(self, axis: Surface, probed: Probed) -> None:
        dead = DeadAxis(axis=axis.id, cycle=self.cycle, phase=self.phase, runs=probed.runs)
        self.run.tell(dead, f"cycle:{self.cycle}:{self.phase}:dead:{axis.id}")


def _other_values(axis: Surface, now: Value) -> tuple[Value, ...]:
    """Values that stand for all that an axis may become; without the one that it has."""
    values: Sequence[Value] = ()
    match axis:
        case ChoiceSurface():
            values = axis.choices
        case NumberSurface():
            values = [at_unit(axis, share) for share in _SHARES]
        case TextSurface():
            values = [f"{now}{_SUFFIX}"]
        case _:
            pass
    return tuple(dict.fromkeys(value for value in values if value != now))


def _owner(axis: Surface) -> str:
    """What the axis belongs to: `tools[name=archive]` of `tools[name=archive].top_k`."""
    return axis.id.rpartition(".")[0]


# -- What all phases share ------------------------------------------------------------------------


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
        self.probing = _Probing(run=run, cycle=cycle, phase=self.name)
        self.trying = TrialRunner(run, settings, cycle=cycle, phase=self.name, memory=memory)
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

    def count(self, tried: AttemptResult) -> None:
        """Keep the books of the phase."""
        self.trials += 1
        self.accepts += tried.accepted
        self.idle = 0 if tried.accepted else self.idle + 1

    def end(self, incumbent: Incumbent, reason: str) -> PhaseEnd:
        """The phase as it ended."""
        return PhaseEnd(
            incumbent=incumbent, reason=reason, accepts=self.accepts, trials=self.trials
        )


# -- The phase of texts ---------------------------------------------------------------------------


_REMEMBERED = 3
"""Rejected diagnoses that the critic is told of."""
_MAX_CHARS = 8000
"""For a text without a bound of its own."""


class TextualPhase(Phase):
    """Texts, one a trial, in turn, until patience is out or nothing fails."""

    name = "textual"

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        limits: PhaseLimits,
        memory: Memory,
        critic: Role[CritiqueRequest, Gradient],
        applier: Role[EditRequest, Edit],
    ) -> None:
        super().__init__(run, settings, cycle=cycle, limits=limits, memory=memory)
        self._critic = critic
        self._applier = applier
        self._secrets = run.secrets
        self._texts: Sequence[str] = settings.texts

    @property
    def axis(self) -> str:
        """Whose turn it is."""
        return self._texts[self.trials % len(self._texts)]

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Edit one text after the other, each on top of what was accepted."""
        named = [self.surfaces[name] for name in self.settings.texts]
        self._texts = [axis.id for axis in await self.probing.alive(named, incumbent)]
        if not self._texts:
            return self.end(incumbent, DEAD_AXES)
        while not (reason := self.over(incumbent)):
            tried = await self._edit(self.axis, incumbent)
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Without a failure that may be shown there is nothing to diagnose."""
        if self._traces(incumbent):
            return ""
        return "failures_not_to_show" if failing(incumbent.train, self.metrics) else "no_failures"

    def need(self, incumbent: Incumbent) -> Spend:
        """A trial, and the two roles."""
        critique = self._critic.estimate(self._critique(self.axis, incumbent))
        edit = self._applier.estimate(self._commission(self.axis, incumbent, "(none)"))
        return self.trying.need + critique + edit

    async def _edit(self, axis: str, incumbent: Incumbent) -> AttemptResult:
        critique = self._critique(axis, incumbent)
        # The same text with the same failures may be diagnosed again: another draw, another view.
        draw = self.run.trial
        try:
            gradient = await self.run.ask(self._critic, critique, draw=draw)
        except RoleFailed as error:
            return self._turned_away(axis, incumbent, error.message)
        critic = {**_played_by(self._critic), **gradient.model_dump(mode="json")}
        if gradient.confidence < self.settings.min_confidence:
            why = f"low confidence: {gradient.confidence:.2f}"
            return self._turned_away(axis, incumbent, why, critic=critic)
        commission = self._commission(axis, incumbent, gradient_lines([gradient]))
        try:
            edit = await self.run.ask(self._applier, commission, draw=draw)
        except RoleFailed as error:
            failed: Json = {**_played_by(self._applier), "error": error.message}
            return self._turned_away(axis, incumbent, error.message, critic=critic, applier=failed)
        answer: dict[str, Json] = edit.model_dump(mode="json", exclude={"new_text"})
        applier: Json = {**_played_by(self._applier), **answer}
        attempt = _attempt(axis, edit.new_text, critic=critic, applier=applier)
        tried = await self.trying.attempt(attempt, incumbent)
        if not tried.accepted:
            rejected = Rejected(gradient=gradient, reason=tried.reason)
            self.memory.rejected.setdefault(axis, []).append(rejected)
        return tried

    def _turned_away(
        self, axis: str, incumbent: Incumbent, why: str, **sources: Json
    ) -> AttemptResult:
        attempt = _attempt(axis, _text(axis, incumbent), **sources)
        return self.trying.turned_away(attempt, incumbent, why)

    def _critique(self, axis: str, incumbent: Incumbent) -> CritiqueRequest:
        return CritiqueRequest(
            axis=axis,
            current_text=_text(axis, incumbent),
            failing_traces="\n\n".join(self._traces(incumbent)),
            previous_gradients=rejection_lines(self.memory.rejected.get(axis, [])[-_REMEMBERED:]),
        )

    def _traces(self, incumbent: Incumbent) -> list[str]:
        failures = failing(incumbent.train, self.metrics)
        return trace_texts(failures, self.run.dataset.train, secrets=self._secrets)

    def _commission(self, axis: str, incumbent: Incumbent, gradient: str) -> EditRequest:
        surface = self.surfaces[axis]
        assert isinstance(surface, TextSurface)
        return EditRequest(
            axis=axis,
            current_text=_text(axis, incumbent),
            gradient=gradient,
            max_chars=surface.max_chars or _MAX_CHARS,
        )


def _played_by(role: Role[Any, Any]) -> dict[str, Json]:
    """Which model plays a role, for the audit row; nothing where none does."""
    return {"model": role.client.ref.label} if isinstance(role, ModelRole) else {}


def _text(axis: str, incumbent: Incumbent) -> str:
    return str(incumbent.candidate.values[axis])


def _attempt(axis: str, text: str, **sources: Json) -> CoordinateAttempt:
    """A text for an axis, with what the roles said of it."""
    source: dict[str, Json] = {"kind": "textual", **sources}
    return CoordinateAttempt(
        values={axis: text},
        note=axis,
        details=TrialDetails(axis_target=axis, proposal_source=source),
    )
