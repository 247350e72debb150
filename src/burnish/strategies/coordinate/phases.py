"""Phases of trials: when they end, which axes are worth tuning, and the phase of texts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from burnish.core.cases import spelled_labels
from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Role
from burnish.core.surfaces import (
    NO_LIMIT,
    Candidate,
    ChoiceSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import TrialDetails
from burnish.models.roles import ModelRole
from burnish.runs.candidate_checks import Probed
from burnish.runs.events import PERSON
from burnish.runs.run import Run
from burnish.strategies.coordinate.headroom import DeadAxis
from burnish.strategies.coordinate.trials import (
    AttemptResult,
    CoordinateAttempt,
    CoordinateSettings,
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    Incumbent,
    Memory,
    PhaseLimits,
    TrialRunner,
    trace_texts,
    with_room,
)
from burnish.strategies.scales import at_unit

_AxisType = TypeVar("_AxisType", bound=Surface)

DEAD_AXES, NOTHING_TO_GAIN, PINNED = "dead_axes", "nothing_to_gain", "pinned"
STOPPED = "stopped"
"""Some of the reasons why a phase ends."""
_REMEMBERED = 3
"""Rejected diagnoses that the critic sees."""


@dataclass(kw_only=True, eq=False)
class Phase(ABC):
    """Trials of one kind, until there is a reason to end."""

    name: ClassVar[str] = ""

    run: Run
    settings: CoordinateSettings
    cycle: int
    limits: PhaseLimits
    memory: Memory
    trials: int = field(default=0, init=False)
    accepts: int = field(default=0, init=False)
    _idle: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.runner = TrialRunner(
            self.run, self.settings, cycle=self.cycle, phase=self.name, memory=self.memory
        )
        self.surfaces: dict[str, Surface] = {s.id: s for s in self.run.target.surfaces}
        self.metrics = list(self.run.objective.weights)

    @abstractmethod
    async def go(self, incumbent: Incumbent) -> tuple[Incumbent, str]:
        """Make trials; who leads then, and why the phase ended."""

    @abstractmethod
    def nothing_left(self, incumbent: Incumbent) -> str:
        """Why there is nothing left to try; empty when there is."""

    def need(self, incumbent: Incumbent) -> Spend:
        del incumbent
        return self.runner.need

    def over(self, incumbent: Incumbent) -> str:
        """Why the phase is over; empty when it is not.

        The budget comes last: if there is nothing more to do, it is not what ended the phase.
        """
        if incumbent.perfect:
            return NOTHING_TO_GAIN
        if self.trials >= self.limits.max_trials:
            return "max_trials"
        if self._idle >= self.limits.patience:
            return "patience"
        if reason := self.nothing_left(incumbent):
            return reason
        return "" if self.run.stop_reason(self.need(incumbent)) is None else STOPPED

    async def steered(self, incumbent: Incumbent) -> AttemptResult | None:
        """Take in what people sent; the result of a person's own candidate, if there is one.

        It counts for the limits of the run, and not for those of the phase.
        """
        suggestion = await self.run.steering.next()
        if suggestion is None:
            return None
        attempt = CoordinateAttempt(
            values=suggestion.changes(incumbent.candidate),
            note=suggestion.origin.note,
            details=suggestion.details,
            origin=suggestion.origin,
        )
        runner = TrialRunner(
            self.run, self.settings, cycle=self.cycle, phase=PERSON, memory=self.memory
        )
        return await runner.attempt(attempt, incumbent)

    def count(self, result: AttemptResult) -> None:
        self.trials += 1
        self.accepts += result.accepted
        self._idle = 0 if result.accepted else self._idle + 1

    async def alive(self, axes: Sequence[_AxisType], incumbent: Incumbent) -> tuple[_AxisType, ...]:
        """The axes whose changes reach a request of a measured run; the others are announced.

        Axes of one owner may wake each other up: `top_k` is dead while `min_similarity_score`
        lets nothing through. So an axis is dead only if it is dead with its neighbours at the
        ends of their ranges too. A choice that is alive keeps all of its neighbours, such as the
        weights of a search beside its mode.
        """
        probes = {axis.id: await self._probe(axis, incumbent.candidate, incumbent) for axis in axes}
        waking = {
            _owner(axis)
            for axis in axes
            if isinstance(axis, ChoiceSurface) and probes[axis.id].reaches
        }
        dead = [
            axis.id
            for axis in axes
            if not probes[axis.id].reaches
            and _owner(axis) not in waking
            and not await self._wakes(axis, axes, incumbent)
        ]
        for name in dead:
            event = DeadAxis(axis=name, cycle=self.cycle, phase=self.name, runs=probes[name].runs)
            self.run.tell(event, f"cycle:{self.cycle}:{self.name}:dead:{name}")
        return tuple(axis for axis in axes if axis.id not in dead)

    async def _wakes(self, axis: Surface, axes: Sequence[Surface], incumbent: Incumbent) -> bool:
        """Whether a dead axis reaches something once its neighbours are elsewhere."""
        neighbours = [each for each in axes if each is not axis and _owner(each) == _owner(axis)]
        origin = Origin(by="coordinate", kind="probe", note=f"beside {axis.id}")
        for values in _at_their_ends(neighbours):
            start = incumbent.candidate.child(values, origin=origin)
            if start.id == incumbent.candidate.id or self.run.target.check(start):
                continue
            if (await self._probe(axis, start, incumbent)).reaches:
                return True
        return False

    async def _probe(self, axis: Surface, start: Candidate, incumbent: Incumbent) -> Probed:
        """Whether an axis matters under a candidate, in the measured runs of the incumbent."""
        origin = Origin(by="coordinate", kind="probe", note=axis.id)
        others = [
            start.child({axis.id: value}, origin=origin)
            for value in _other_values(axis, start.values[axis.id])
        ]
        if not others:
            return Probed(reaches=True)
        return await self.run.probe(others, measured=incumbent.train, before=start)


def _owner(axis: Surface) -> str:
    """What an axis belongs to: the tool or the model that it is a field of."""
    return axis.id.rpartition(".")[0]


def _at_their_ends(axes: Sequence[Surface]) -> list[dict[str, Value]]:
    """Numbers and choices at both ends of their ranges: each alone, and all together."""
    ends: dict[str, tuple[Value, Value]] = {}
    for axis in axes:
        if isinstance(axis, ChoiceSurface):
            ends[axis.id] = axis.choices[0], axis.choices[-1]
        elif isinstance(axis, NumberSurface):
            ends[axis.id] = at_unit(axis, 0.0), at_unit(axis, 1.0)
    alone = [{name: end} for name, both in ends.items() for end in both]
    together = [{name: both[side] for name, both in ends.items()} for side in (0, 1)]
    return [*alone, *together] if len(ends) > 1 else alone


def _other_values(axis: Surface, now: Value) -> tuple[Value, ...]:
    """A few values that represent all that an axis may become, without its current one."""
    values: Sequence[Value] = ()
    match axis:
        case ChoiceSurface():
            values = axis.choices
        case NumberSurface():
            values = [at_unit(axis, share) for share in (0.0, 0.5, 1.0)]
        case TextSurface():
            values = [f"{now} (and so on)"]
        case _:
            pass
    return tuple(dict.fromkeys(value for value in values if value != now))


@dataclass(kw_only=True, eq=False)
class TextualPhase(Phase):
    """Texts, one a trial, in turn: the critic diagnoses, the applier edits."""

    name: ClassVar[str] = "textual"

    critic: Role[CritiqueRequest, Gradient]
    applier: Role[EditRequest, Edit]

    async def go(self, incumbent: Incumbent) -> tuple[Incumbent, str]:
        axes = await self.alive([self.surfaces[name] for name in self.settings.texts], incumbent)
        self._alive = [axis.id for axis in axes]
        if not self._alive:
            return incumbent, DEAD_AXES
        while not (reason := self.over(incumbent)):
            if (own := await self.steered(incumbent)) is not None:
                incumbent = own.incumbent
                continue
            if not self._texts:
                continue  # the last one was pinned just now
            result = await self._edit(self._axis, incumbent)
            incumbent = result.incumbent
            self.count(result)
        return incumbent, reason

    @property
    def _texts(self) -> list[str]:
        return self.run.steering.free(self._alive)

    @property
    def _axis(self) -> str:
        return self._texts[self.trials % len(self._texts)]

    def nothing_left(self, incumbent: Incumbent) -> str:
        if not self._texts:
            return PINNED
        if self._traces(incumbent):
            return ""
        return "failures_not_to_show" if with_room(incumbent.train, self.metrics) else "no_failures"

    def need(self, incumbent: Incumbent) -> Spend:
        critique = self.critic.estimate(self._critique(self._axis, incumbent))
        edit = self.applier.estimate(self._edit_request(self._axis, incumbent, "(none)"))
        return self.runner.need + critique + edit

    async def _edit(self, axis: str, incumbent: Incumbent) -> AttemptResult:
        critique = self._critique(axis, incumbent)
        # The same text with the same failures may be diagnosed again: another draw, another view.
        draw = self.run.trial
        try:
            gradient = await self.run.ask(self.critic, critique, draw=draw)
        except RoleFailed as error:
            return self._reject(axis, incumbent, error.message)
        critic = {**_played_by(self.critic), **gradient.model_dump(mode="json")}
        if gradient.confidence < self.settings.min_confidence:
            why = f"low confidence: {gradient.confidence:.2f}"
            return self._reject(axis, incumbent, why, critic=critic)
        request = self._edit_request(axis, incumbent, gradient.words)
        try:
            edit = await self.run.ask(self.applier, request, draw=draw)
        except RoleFailed as error:
            failed: Json = {**_played_by(self.applier), "error": error.message}
            return self._reject(axis, incumbent, error.message, critic=critic, applier=failed)
        answer: dict[str, Json] = edit.model_dump(mode="json", exclude={"new_text"})
        applier: Json = {**_played_by(self.applier), **answer}
        attempt = _attempt(axis, edit.new_text, critic=critic, applier=applier)
        result = await self.runner.attempt(attempt, incumbent)
        if not result.accepted:
            tried = f"{gradient.failing_pattern} Tried: {gradient.suggested_change_direction}"
            line = f"- {' '.join(tried.split())} → {result.reason}"
            self.memory.rejected.setdefault(axis, []).append(line)
        return result

    def _reject(self, axis: str, incumbent: Incumbent, why: str, **sources: Json) -> AttemptResult:
        attempt = _attempt(axis, str(incumbent.candidate.values[axis]), **sources)
        return self.runner.reject(attempt, incumbent, why)

    def _critique(self, axis: str, incumbent: Incumbent) -> CritiqueRequest:
        rejected = self.memory.rejected.get(axis, [])[-_REMEMBERED:]
        return CritiqueRequest(
            axis=axis,
            current_text=str(incumbent.candidate.values[axis]),
            failing_traces="\n\n".join(self._traces(incumbent)),
            previous_gradients="\n".join(rejected),
            labels=", ".join(spelled_labels(self.run.dataset.train)),
            hints=self.run.steering.hints,
        )

    def _traces(self, incumbent: Incumbent) -> list[str]:
        failures = with_room(incumbent.train, self.metrics)
        return trace_texts(failures, self.run.dataset.train, secrets=self.run.secrets)

    def _edit_request(self, axis: str, incumbent: Incumbent, gradient: str) -> EditRequest:
        surface = self.surfaces[axis]
        assert isinstance(surface, TextSurface)
        return EditRequest(
            axis=axis,
            current_text=str(incumbent.candidate.values[axis]),
            gradient=gradient,
            max_chars=surface.max_chars or NO_LIMIT,
            hints=self.run.steering.hints,
        )


def _played_by(role: Role[Any, Any]) -> dict[str, Json]:
    """The model that plays a role, if any, for the audit row."""
    return {"model": role.client.ref.label} if isinstance(role, ModelRole) else {}


def _attempt(axis: str, text: str, **sources: Json) -> CoordinateAttempt:
    source: dict[str, Json] = {"kind": "textual", **sources}
    return CoordinateAttempt(
        values={axis: text},
        note=axis,
        details=TrialDetails(axis_target=axis, proposal_source=source),
    )
