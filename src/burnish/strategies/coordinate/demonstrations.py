"""Phases that search points: numbers and choices, and which demonstrations to show."""

import json
import math
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, cast

from burnish.core.cases import Case, Outcome, ToolCall
from burnish.core.content import Json, short_id
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.surfaces import (
    ChoiceSurface,
    DemonstratedCall,
    Demonstration,
    DemosSurface,
    NumberSurface,
    Origin,
    Scalar,
    Value,
)
from burnish.core.trials import TrialDetails
from burnish.strategies.coordinate import numeric
from burnish.strategies.coordinate.numeric import (
    CANDIDATES,
    SAMPLER_QUANTILE,
    Observation,
    Point,
    SearchSpace,
    best_expected_improvement,
)
from burnish.strategies.coordinate.phases import DEAD_AXES, Phase
from burnish.strategies.coordinate.trials import CoordinateAttempt, Incumbent
from burnish.system.redaction import MARKER

_Chooser: TypeAlias = Literal["start", "chance", "model"]
"""Who chose a point: the phase for its start, chance, or TPE."""
_POOL = 16
"""Examples to choose from: enough for variety, few enough to learn which are good."""
_COUNT = "count"
_RESULT_CHARS = 600
"""How much of a tool's result is shown: its use can be seen from the beginning."""
_DRAWS = 256
"""How often chance looks for something new."""


@dataclass(frozen=True, kw_only=True)
class _Suggested:
    """A point to try, as the journal keeps it."""

    point: Mapping[str, Scalar]


@dataclass(kw_only=True, eq=False)
class PointPhase(Phase):
    """A phase that searches a space of points with a fresh study."""

    space: SearchSpace = field(init=False)
    size: float = field(init=False)
    """How many different things can be tried."""
    observations: list[Observation] = field(default_factory=list[Observation], init=False)
    """What the study knows, the incumbent's own point first."""
    seen: set[Hashable] = field(default_factory=set[Hashable], init=False)
    queue: list[Point] = field(default_factory=list[Point], init=False)
    """Points to try before the study is asked."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.study = f"{self.name}-phase-{self.cycle}"
        self._warm_up = numeric.warm_up(min(self.limits.patience, self.limits.max_trials))

    @abstractmethod
    def values(self, point: Point) -> Mapping[str, Value]:
        """The surfaces' values at a point."""

    @abstractmethod
    def note(self, point: Point, before: Incumbent) -> str:
        """A point in a few words."""

    @abstractmethod
    def key(self, point: Point) -> Hashable:
        """Equal for points that mean the same."""

    def observe(self, point: Point, loss: float | None) -> None:
        """Add a point to the study; one that could not be measured is neither good nor bad."""
        self.seen.add(self.key(point))
        if loss is not None:
            self.observations.append(Observation(point=point, loss=loss))

    async def go(self, incumbent: Incumbent) -> tuple[Incumbent, str]:
        """Ask the study, try, and report back, until there is a reason to end."""
        reason = await self.open_study(incumbent)
        while not (reason := reason or self.over(incumbent)):
            point, attempt = await self.next(incumbent)
            result = await self.runner.attempt(attempt, incumbent)
            worst = max([1.0, *(each.loss for each in self.observations)])
            self.observe(point, worst if result.unfit else result.loss)
            incumbent = result.incumbent
            self.count(result)
        return incumbent, reason

    @abstractmethod
    async def open_study(self, incumbent: Incumbent) -> str:
        """Lay out the space and the first points; why there is nothing to search, if so."""

    async def next(self, incumbent: Incumbent) -> tuple[Point, CoordinateAttempt]:
        """The next point to try: one of the first, or what the study suggests."""
        by, point = ("start", self.queue.pop(0)) if self.queue else await self._ask()
        attempt = CoordinateAttempt(
            values=self.values(point),
            note=self.note(point, incumbent),
            details=self._explained(point, by),
        )
        return point, attempt

    def nothing_left(self, incumbent: Incumbent) -> str:
        del incumbent
        if len(self.seen) >= self.size:
            return "space_exhausted"
        if len(self.observations) <= self._warm_up + 1:
            return ""
        rng = self.run.rng(self.study, "expected improvement", len(self.observations))
        improvement = best_expected_improvement(self.space, self.observations, rng)
        return "converged" if improvement < self.settings.numeric_convergence_eps else ""

    async def _ask(self) -> tuple[_Chooser, Point]:
        """The study's next point; kept in the journal, since another optuna may say otherwise."""
        space, observations, start = self.space, tuple(self.observations), self._warm_up
        seed = self.run.rng(self.study, self.trials).getrandbits(31)
        request: Json = {
            "study": self.study,
            "ask": self.trials,
            "seed": seed,
            "known": short_id([[list(map(str, space.key(o.point))), o.loss] for o in observations]),
        }
        suggested = await self.run.remember(
            "suggestion",
            request,
            _Suggested,
            lambda: _Suggested(
                point=numeric.suggest_new(
                    space, observations, seed=seed, start=start, seen=self.seen
                )
            ),
        )
        return "model" if len(observations) >= start else "chance", suggested.point

    def _explained(self, point: Point, by: _Chooser) -> TrialDetails:
        """Why this point, for the audit row.

        The sampler does not tell the densities that it used, so these fields of the format are
        empty.
        """
        source: dict[str, Json] = {
            "kind": self.name,
            "numeric_study_id": self.study,
            "params": {**point},
            "chosen_by": by,
            "tpe_n_observations_this_study": len(self.observations),
            "tpe_quantile": SAMPLER_QUANTILE,
            "candidates_evaluated": CANDIDATES if by == "model" else 1,
            "selected_candidate_score": None,
            "axis_marginals": None,
        }
        return TrialDetails(proposal_source=source)


class NumericPhase(PointPhase):
    """Numbers and choices together, from the incumbent's own point."""

    name: ClassVar[str] = "numeric"

    async def open_study(self, incumbent: Incumbent) -> str:
        named = [
            surface
            for name in self.settings.numbers
            if isinstance(surface := self.surfaces[name], NumberSurface | ChoiceSurface)
        ]
        axes = await self.alive(named, incumbent)
        if not axes:
            return DEAD_AXES
        self.space = SearchSpace(axes=axes)
        self.size = self.space.size
        here = {axis.id: cast("Scalar", incumbent.candidate.values[axis.id]) for axis in axes}
        if self.space.contains(here):
            self.observe(here, incumbent.loss)
        return ""

    def values(self, point: Point) -> Mapping[str, Value]:
        return {**point}

    def key(self, point: Point) -> Hashable:
        return self.space.key(point)

    def note(self, point: Point, before: Incumbent) -> str:
        new = [
            f"{name.rpartition('#')[2].rpartition('.')[2]} "
            f"{format(value, '.3g') if isinstance(value, float) else value}"
            for name, value in point.items()
            if before.candidate.values[name] != value
        ]
        return ", ".join(new) or "as before"


# -- Which demonstrations to show -----------------------------------------------------------------


def _right_runs(measured: Evaluation, metrics: Sequence[str]) -> dict[str, Outcome]:
    """By case, a run that passed or has the best score, if possible without a failed tool."""
    runs: dict[str, Outcome] = {}
    for result in measured.results:
        outcome = result.outcome
        if not _right(result, metrics) or not outcome.output:
            continue
        first = runs.setdefault(result.case, outcome)
        if _stumbled(first) and not _stumbled(outcome):
            runs[result.case] = outcome
    return runs


def _right(result: CaseResult, metrics: Sequence[str]) -> bool:
    verdict = result.passed(metrics)
    values = [result.value(metric) for metric in metrics if result.applies(metric)]
    return verdict is True if verdict is not None else bool(values) and set(values) == {1.0}


def _stumbled(outcome: Outcome) -> bool:
    return any(call.error for call in _calls_of(outcome))


def _calls_of(outcome: Outcome) -> list[ToolCall]:
    return [call for step in outcome.trace.steps for call in step.tools]


def _labelled(case: Case) -> Demonstration:
    """What should happen; with calls if the case knows the result of each of them."""
    expected = case.turns[-1].expected_calls or ()
    complete = all(call.result is not None for call in expected)
    calls = tuple(map(_shown, expected)) if complete else ()
    return Demonstration(input=case.input, output=case.expected or "", case=case.id, calls=calls)


def _shown(call: ToolCall) -> DemonstratedCall:
    text = f"the tool failed: {call.error}" if call.error else call.result
    if not isinstance(text, str):
        text = json.dumps(text, ensure_ascii=False, separators=(",", ":"))
    if len(text) > _RESULT_CHARS:
        end = f"… [the first {_RESULT_CHARS} of {len(text)} characters]"
        text = f"{text[:_RESULT_CHARS]}{end}"
    return DemonstratedCall.of(call.name, call.arguments, text)


def pool_of(
    cases: Sequence[Case],
    measured: Evaluation,
    metrics: Sequence[str],
    surface: DemosSurface,
    *,
    shown: Sequence[Demonstration] = (),
) -> tuple[Demonstration, ...]:
    """Worked examples: those shown now, then what the agent got right, then what the labels say.

    What it got right is shown as it happened, tools included. Only cases of one turn: a
    demonstration is a question and an answer.
    """
    used = {demo.case for demo in shown if demo.case}
    fit = [
        case
        for case in cases
        if case.id not in used
        and len(case.turns) == 1
        and not (case.history or case.scenario or case.turns[0].attachments)
    ]
    right = _right_runs(measured, metrics)
    traces = [
        Demonstration(
            input=case.input,
            output=right[case.id].output,
            case=case.id,
            calls=tuple(map(_shown, _calls_of(right[case.id]))),
        )
        for case in fit
        if case.id in right
    ]
    demos = [demo for demo in traces if _may_be_shown(demo, surface)]
    traced = {demo.case for demo in demos}
    labels = [_labelled(case) for case in fit if case.id not in traced and case.expected]
    demos += [demo for demo in labels if _may_be_shown(demo, surface)]
    return tuple([*shown, *demos][:_POOL])


def space_of(pool: Sequence[Demonstration], surface: DemosSurface) -> SearchSpace:
    """How many, including none, and which in which place."""
    most = min(surface.max_demos, len(pool))
    count = NumberSurface(id=_COUNT, low=0, high=most, integer=True)
    places = [ChoiceSurface(id=_place(n), choices=tuple(range(len(pool)))) for n in range(most)]
    return SearchSpace(axes=(count, *places))


def first_points(
    pool: Sequence[Demonstration],
    surface: DemosSurface,
    *,
    shown: Sequence[Demonstration] = (),
) -> list[Point]:
    """Points to start with: the first 2, 4 and 8 of the pool; or none, if some are shown now."""
    most = min(surface.max_demos, len(pool))
    order = {_place(n): n for n in range(most)}
    numbers = (0,) if shown else (2, 4, 8)
    counts = dict.fromkeys(min(count, most) for count in numbers)
    return [{_COUNT: count, **order} for count in counts]


def shown(
    pool: Sequence[Demonstration], point: Point, surface: DemosSurface
) -> tuple[Demonstration, ...]:
    """The demonstrations of a point; each once, and as many as there is room for."""
    chosen = dict.fromkeys(int(point[_place(n)]) for n in range(int(point[_COUNT])))
    demos: list[Demonstration] = []
    for demo in (pool[index] for index in chosen):
        if sum(each.size for each in demos) + demo.size <= _room(surface):
            demos.append(demo)
    return tuple(demos)


def ways_to_show(pool: Sequence[Demonstration], surface: DemosSurface) -> int:
    """How many ways there are to show them: subsets in every order, including the empty one."""
    most = min(surface.max_demos, len(pool))
    return sum(math.perm(len(pool), count) for count in range(most + 1))


def point_of(
    pool: Sequence[Demonstration], demos: Sequence[Demonstration], surface: DemosSurface
) -> Point | None:
    """The point that shows these demonstrations; None if the pool does not have them."""
    if any(demo not in pool for demo in demos):
        return None
    most = min(surface.max_demos, len(pool))
    places = [pool.index(demo) for demo in demos][:most]
    rest = [index for index in range(len(pool)) if index not in places]
    filled = [*places, *rest][:most]
    return {_COUNT: len(places), **{_place(n): index for n, index in enumerate(filled)}}


def _place(number: int) -> str:
    return f"place-{number + 1}"


def _may_be_shown(demo: Demonstration, surface: DemosSurface) -> bool:
    """It fits, and nothing was taken out of it that might have been a secret."""
    return demo.size <= _room(surface) and MARKER not in str(demo)


def _room(surface: DemosSurface) -> float:
    return math.inf if surface.max_chars is None else surface.max_chars


class DemonstrationPhase(PointPhase):
    """Which worked examples to show, and in which order."""

    name: ClassVar[str] = "demonstrations"

    async def open_study(self, incumbent: Incumbent) -> str:
        surface = self.surfaces[self.settings.demonstrations]
        assert isinstance(surface, DemosSurface)
        self.surface: DemosSurface = surface
        now = incumbent.candidate.values[surface.id]
        shown = now if isinstance(now, tuple) else ()
        self.pool = pool_of(
            self.run.dataset.train, incumbent.train, self.metrics, surface, shown=shown
        )
        if not self.pool or not surface.max_demos:
            return "no_examples"
        self.space = space_of(self.pool, surface)
        self.size = ways_to_show(self.pool, surface)
        here = point_of(self.pool, shown, surface)
        if here is not None:
            self.observe(here, incumbent.loss)
        for point in first_points(self.pool, surface, shown=shown):
            candidate = incumbent.candidate.child(self.values(point), origin=Origin()).id
            if candidate in self.memory.losses:
                self.observe(point, self.memory.losses[candidate])
            else:
                self.queue.append(point)
        return ""

    async def _ask(self) -> tuple[_Chooser, Point]:
        """The study's next point; if that shows what was tried before, another one by chance.

        Many points show the same: TPE would suggest showing nothing again and again.
        """
        by, point = await super()._ask()
        other = self._another() if self.key(point) in self.seen else None
        return (by, point) if other is None else ("chance", other)

    def nothing_left(self, incumbent: Incumbent) -> str:
        # Not every way to show them need fit, so chance may find nothing new before that.
        if () in self.seen and self._another() is None:
            return "space_exhausted"
        return super().nothing_left(incumbent)

    def _another(self) -> Point | None:
        rng = self.run.rng(self.study, "another", self.trials)
        most = min(self.surface.max_demos, len(self.pool))
        for _ in range(_DRAWS):
            order = rng.sample(range(len(self.pool)), most)
            places = {_place(n): index for n, index in enumerate(order)}
            point: Point = {_COUNT: rng.randint(1, most), **places}
            if self.key(point) not in self.seen:
                return point
        return None

    def values(self, point: Point) -> Mapping[str, Value]:
        return {self.surface.id: shown(self.pool, point, self.surface)}

    def key(self, point: Point) -> Hashable:
        return shown(self.pool, point, self.surface)

    def note(self, point: Point, before: Incumbent) -> str:
        del before
        count = len(shown(self.pool, point, self.surface))
        return f"{count or 'no'} demo{'' if count == 1 else 's'}"
