"""Phases of trials: when they end, which axes are worth tuning, and the phase of texts.

Before them, the headroom check after the baseline, and the expected cost of the search.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, TypeVar

from burnish.core.cases import Split, closed_labels
from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.formatting import cell, counted, number, spending
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import (
    EPSILON,
    NO_LIMIT,
    Candidate,
    ChoiceSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
    at_unit,
)
from burnish.core.trials import TrialDetails
from burnish.datasets.checks import smallest_difference
from burnish.models.roles import ModelRole
from burnish.runs.candidate_checks import Probed
from burnish.runs.events import Event, EventData, read_all
from burnish.runs.progress import asking, shown_by
from burnish.runs.run import Run
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

# -- Headroom --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The expected cost of one trial and of the whole run, including the baseline."""

    train: Spend
    """One candidate over train, as often as it is repeated."""
    holdout: Spend
    roles: Spend
    """A critic and an applier, once each."""
    sealed: Spend
    """Baseline and best after the search: in the sealed test, or measured again."""
    least_trials: int
    """When nothing helps: every phase of the first cycle runs out of patience."""
    most_trials: int
    least: Spend
    most: Spend


def expected(
    settings: CoordinateSettings,
    *,
    baseline: Spend,
    train: Spend,
    holdout: Spend,
    roles: Spend,
    sealed: Spend,
) -> Expected:
    """The whole search, by what its parts cost."""
    few = _trials_if_nothing_helps(settings)
    many = {name: settings.max_cycles * e.max_trials for name, e in settings.phases.items()}
    least, most = sum(few.values()), sum(many.values())
    always = holdout if settings.holdout_policy == "every_trial" else NOTHING
    start = baseline + sealed
    return Expected(
        train=train,
        holdout=holdout,
        roles=roles,
        sealed=sealed,
        least_trials=least,
        most_trials=most,
        least=start + (train + always).times(least) + roles.times(few.get("textual", 0)),
        most=start + (train + holdout).times(most) + roles.times(many.get("textual", 0)),
    )


def _trials_if_nothing_helps(settings: CoordinateSettings) -> dict[str, int]:
    """By phase, the trials of a run in which nothing is accepted."""
    return {name: min(e.patience, e.max_trials) for name, e in settings.phases.items()}


_OUTLOOKS = {
    "nothing_to_gain": "nothing to gain: the loss on train is 0, so nothing is tried",
    "within_noise": "no gain can be told from noise: even a loss of 0 on train would be within it; "
    "use more cases or repeats to reduce it",
}


@dataclass(frozen=True, kw_only=True)
class Headroom(EventData):
    """How much there is to gain, how much of it can be seen, and what looking for it costs."""

    kinds: ClassVar[tuple[str, ...]] = ("headroom",)

    repeats: int
    accept_sigma: float
    loss: float
    """Of the baseline, on train: no gain is larger."""
    train_std: float | None
    """The spread over repeats: the noise floor. None where one repeat shows none."""
    holdout_std: float | None
    holdout_cases: int
    holdout_pass_rate: float | None
    least_shown: float | None
    """The smallest change of the holdout's pass rate that it would find; None where it has none."""
    costs: Expected
    measured: bool
    """Whether costs are what the baseline really cost; else they only count calls."""

    @property
    def bar(self) -> float | None:
        """The gain on train that counts, if the next candidate wavers as much as the baseline."""
        std = self.train_std
        return None if std is None else self.accept_sigma * math.sqrt(2) * std

    @property
    def outlook(self) -> str:
        """`nothing_to_gain`, `within_noise` where even a loss of 0 would not count, or empty."""
        if self.loss <= EPSILON:
            return "nothing_to_gain"
        clear = self.accept_sigma * (self.train_std or 0.0)
        return "within_noise" if self.loss < clear - EPSILON else ""

    def to_json(self) -> dict[str, Json]:
        """With what follows from it, for those who read the events."""
        return {**super().to_json(), "outlook": self.outlook, "bar": self.bar}


@dataclass(frozen=True, kw_only=True)
class DeadAxis(EventData):
    """An axis that is left out of a phase: its changes reach no request."""

    kinds: ClassVar[tuple[str, ...]] = ("dead_axis",)

    axis: str = ""
    cycle: int = 0
    phase: str = ""
    runs: int = 0
    """The measured runs that were checked."""

    @property
    def words(self) -> str:
        """The axis, and why it is left out."""
        return (
            f"{self.axis} is not tuned in this phase: its changes reach no request; "
            f"{counted(self.runs, 'measured run')} would be the same"
        )


def headroom_of(
    run: Run, settings: CoordinateSettings, incumbent: Incumbent, costs: Expected
) -> Headroom:
    """What the measured baseline tells."""
    train = run.objective.measure(incumbent.train)
    held = None if incumbent.holdout is None else run.objective.measure(incumbent.holdout)
    cases, rate = (held.cases, held.pass_rate) if held else (0, None)
    least = smallest_difference(cases, pass_rate=0.5 if rate is None else rate)
    many = settings.repeats > 1
    return Headroom(
        repeats=settings.repeats,
        accept_sigma=settings.accept_sigma,
        loss=train.loss or 0.0,
        train_std=train.std if many else None,
        holdout_std=held.std if held and many else None,
        holdout_cases=cases,
        holdout_pass_rate=rate,
        least_shown=None if math.isinf(least) else least,
        costs=costs,
        measured=not run.forked,
    )


def costs_ahead(
    run: Run,
    settings: CoordinateSettings,
    roles: Sequence[Role[Any, Any]],
    paid: Mapping[Split, Spend],
) -> Expected:
    """What a trial really cost, as often as there may be trials; `paid` was for the baseline.

    What a run forked from another has not paid for tells nothing: there calls are estimated.
    """
    baseline = total(paid.values())
    if run.forked:
        paid = {split: run.estimate(split, repeats=settings.repeats) for split in paid}
    train = paid[Split.TRAIN]
    ran = settings.repeats * len(run.dataset.train)
    last = run.deciding_split if run.confirmations.wanted else Split.TEST
    measured = 2 * run.setup.test_repeats * len(run.dataset.cases(last))
    return expected(
        settings,
        baseline=baseline,
        train=train,
        holdout=paid.get(Split.HOLDOUT, NOTHING),
        roles=asking(roles),
        sealed=Spend.of(round(amount * measured / ran) for amount in train.amounts),
    )


def headroom_lines(headroom: Headroom) -> Iterator[str]:
    """What the baseline shows: the noise, what holdout can show, and what the search will cost."""
    labels = {
        "noise": "noise",
        "holdout": "holdout",
        "outlook": "outlook",
        "costs": "the run",
    }
    yield from (f"{labels[name]:<9}{words}" for name, words in _facts(headroom))


def _facts(headroom: Headroom) -> Iterator[tuple[str, str]]:
    yield "noise", _noise_words(headroom)
    if cases := headroom.holdout_cases:
        rate = headroom.holdout_pass_rate
        yield "holdout", shown_by(cases, 0.5 if rate is None else rate)
    if headroom.outlook:
        yield "outlook", _OUTLOOKS[headroom.outlook]
    if headroom.outlook != "nothing_to_gain":
        yield "costs", _cost_words(headroom)


def _noise_words(headroom: Headroom) -> str:
    """`±0.021 on train, ±0.034 on holdout over 3 repeats: a gain on train counts from …`."""
    if headroom.train_std is None or headroom.bar is None:
        return "not measured: repeats is 1"
    held = "" if headroom.holdout_std is None else f", ±{number(headroom.holdout_std)} on holdout"
    over = counted(headroom.repeats, "repeat")
    counts = f"from about {headroom.bar:.3f} on" if headroom.bar else "however small it is"
    return (
        f"±{number(headroom.train_std)} on train{held} over {over}: a gain on train counts {counts}"
    )


def _cost_words(headroom: Headroom) -> str:
    costs = headroom.costs
    least, most = (
        spending(spend, tokens=False) if headroom.measured else f"{counted(spend.calls, 'call')}"
        for spend in (costs.least, costs.most)
    )
    few, many = (counted(n, "trial") for n in (costs.least_trials, costs.most_trials))
    return f"about {least} if nothing helps ({few}), at most about {most} ({many})"


def headroom_points(events: Sequence[Event]) -> Iterator[str]:
    """The points of the report about the headroom check."""
    labels = {
        "noise": "noise of the baseline",
        "holdout": "what holdout can show",
        "outlook": "outlook at the start",
        "costs": "expected at the start",
    }
    for headroom in islice(read_all(events, Headroom), 1):
        yield from (f"{labels[name]}: {words}" for name, words in _facts(headroom))


def dead_axes(events: Sequence[Event]) -> Iterator[str]:
    """The points of the report on axes that reached nothing, by when they were left out."""
    by_axis: dict[str, list[str]] = {}
    for dead in read_all(events, DeadAxis):
        by_axis.setdefault(dead.axis, []).append(str(dead.cycle))
    for axis, cycles in by_axis.items():
        yield (
            f"**dead axis `{cell(axis, 100)}`** (cycle {', '.join(cycles)}): its changes reached "
            "no request in the measured runs that were checked, so it was not tuned there"
        )


# -- Phases ----------------------------------------------------------------------------------------


_AxisType = TypeVar("_AxisType", bound=Surface)

DEAD_AXES, NOTHING_TO_GAIN = "dead_axes", "nothing_to_gain"
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
            result = await self._edit(self._axis, incumbent)
            incumbent = result.incumbent
            self.count(result)
        return incumbent, reason

    @property
    def _axis(self) -> str:
        return self._alive[self.trials % len(self._alive)]

    def nothing_left(self, incumbent: Incumbent) -> str:
        return "" if with_room(incumbent.train, self.metrics) else "no_failures"

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
            labels=", ".join(closed_labels(self.run.dataset.train)),
        )

    def _traces(self, incumbent: Incumbent) -> list[str]:
        failures = with_room(incumbent.train, self.metrics)
        return trace_texts(failures, self.run.dataset.train)

    def _edit_request(self, axis: str, incumbent: Incumbent, gradient: str) -> EditRequest:
        surface = self.surfaces[axis]
        assert isinstance(surface, TextSurface)
        return EditRequest(
            axis=axis,
            current_text=str(incumbent.candidate.values[axis]),
            gradient=gradient,
            max_chars=surface.max_chars or NO_LIMIT,
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
