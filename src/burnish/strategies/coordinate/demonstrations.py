"""Demonstrations: worked examples, which to show, and phases that search points."""

import json
import math
import random
from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.evaluations import Evaluation
from burnish.core.outcomes import Outcome, ToolCall
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
from burnish.runs.run import Run
from burnish.strategies.coordinate import numeric
from burnish.strategies.coordinate.numeric import (
    CANDIDATES,
    QUANTILE,
    Densities,
    Observation,
    Point,
    SearchSpace,
    best_expected_improvement,
    ratio,
)
from burnish.strategies.coordinate.phases import DEAD_AXES, Phase, PhaseEnd
from burnish.strategies.coordinate.settings import CoordinateSettings, PhaseLimits
from burnish.strategies.coordinate.trials import AttemptResult, CoordinateAttempt, Incumbent, Memory
from burnish.system.redaction import MARKER

_Chooser: TypeAlias = Literal["start", "chance", "model"]
"""Who chose a point: nobody (it is where such a phase starts), chance, or TPE."""
_WORST = 1.0
"""The loss of a point that is not to be had."""


@dataclass(frozen=True, kw_only=True)
class _Suggested:
    """A point to try, as the journal keeps it."""

    point: Mapping[str, Scalar]


class PointPhase(Phase):
    """A phase that searches a space of points with a fresh study."""

    space: SearchSpace
    whole: float
    """How many different things can be tried."""

    def __init__(
        self,
        run: Run,
        settings: CoordinateSettings,
        *,
        cycle: int,
        limits: PhaseLimits,
        memory: Memory,
    ) -> None:
        super().__init__(run, settings, cycle=cycle, limits=limits, memory=memory)
        self.study = f"{self.name}-phase-{cycle}"
        self.observations: list[Observation] = []
        """What the study is told, the incumbent's own point first."""
        self.seen: set[Hashable] = set()
        self._warm_up = numeric.warm_up(min(limits.patience, limits.max_trials))

    @abstractmethod
    def values(self, point: Point) -> Mapping[str, Value]:
        """The surfaces' values at a point."""

    @abstractmethod
    def note(self, point: Point, before: Incumbent) -> str:
        """A point in a few words."""

    @abstractmethod
    def key(self, point: Point) -> Hashable:
        """The same for two points that are the same thing to try."""

    def begin(self, here: Point | None, incumbent: Incumbent) -> None:
        """Tell the new study where the search stands."""
        if here is None:
            return
        self.seen.add(self.key(here))
        if incumbent.loss is not None:
            self.observations.append(Observation(point=here, loss=incumbent.loss))

    async def search(self, start: Incumbent, first: Sequence[Point] = ()) -> PhaseEnd:
        """Ask, try, tell, until there is a reason to end."""
        incumbent, waiting = start, list(first)
        while not (reason := self.over(incumbent)):
            by, point = ("start", waiting.pop(0)) if waiting else await self._ask()
            attempt = CoordinateAttempt(
                values=self.values(point),
                note=self.note(point, incumbent),
                details=self._explained(point, by),
            )
            tried = await self.trying.attempt(attempt, incumbent)
            self._tell(point, tried)
            incumbent = tried.incumbent
            self.count(tried)
        return self.end(incumbent, reason)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Every point was tried, or the model expects nothing of any."""
        del incumbent
        if len(self.seen) >= self.whole:
            return "space_exhausted"
        if len(self.observations) <= self._warm_up + 1:
            return ""
        rng = self.run.rng(self.study, "expected improvement", len(self.observations))
        hoped = best_expected_improvement(self.space, self.observations, rng)
        return "converged" if hoped < self.settings.numeric_convergence_eps else ""

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
            lambda: _Suggested(point=numeric.suggest(space, observations, seed=seed, start=start)),
        )
        return "model" if len(observations) >= start else "chance", suggested.point

    def _tell(self, point: Point, tried: AttemptResult) -> None:
        """A point nobody could measure is not told: missing is neither good nor bad."""
        self.seen.add(self.key(point))
        if tried.unfit:
            worst = max([_WORST, *(each.loss for each in self.observations)])
            self.observations.append(Observation(point=point, loss=worst))
        elif tried.loss is not None:
            self.observations.append(Observation(point=point, loss=tried.loss))

    def _explained(self, point: Point, by: _Chooser) -> TrialDetails:
        """Why this point, for the audit row."""
        marginals = Densities.of(self.space, self.observations).marginals(point)
        source: dict[str, Json] = {
            "kind": self.name,
            "numeric_study_id": self.study,
            "params": {**point},
            "chosen_by": by,
            "tpe_n_observations_this_study": len(self.observations),
            "tpe_quantile": QUANTILE,
            "candidates_evaluated": CANDIDATES if by == "model" else 1,
            "selected_candidate_score": ratio(marginals),
            "axis_marginals": {name: asdict(m) for name, m in marginals.items()},
        }
        return TrialDetails(proposal_source=source)


class NumericPhase(PointPhase):
    """Numbers and choices, together, while everything else stands still."""

    name = "numeric"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search from the incumbent's own point, which is the first thing the study is told."""
        named = [
            surface
            for name in self.settings.numbers
            if isinstance(surface := self.surfaces[name], NumberSurface | ChoiceSurface)
        ]
        axes = await self.probing.alive(named, incumbent)
        if not axes:
            return self.end(incumbent, DEAD_AXES)
        self.space = SearchSpace(axes=axes)
        self.whole = self.space.size
        here = {axis.id: cast("Scalar", incumbent.candidate.values[axis.id]) for axis in axes}
        self.begin(here if self.space.contains(here) else None, incumbent)
        return await self.search(incumbent)

    def values(self, point: Point) -> Mapping[str, Value]:
        """The point itself."""
        return {**point}

    def key(self, point: Point) -> Hashable:
        """The point itself, spelled one way."""
        return self.space.key(point)

    def note(self, point: Point, before: Incumbent) -> str:
        """The values that differ from the incumbent's."""
        new = [
            f"{name.rpartition('#')[2].rpartition('.')[2]} {_short(value)}"
            for name, value in point.items()
            if before.candidate.values[name] != value
        ]
        return ", ".join(new) or "as before"


def _short(value: Scalar) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


# -- Worked examples made from cases --------------------------------------------------------------


_RESULT_CHARS = 600
"""How much of what a tool gave is shown: how it is used can be seen from the beginning of it."""


def _right_runs(measured: Evaluation, metrics: Sequence[str]) -> dict[str, Outcome]:
    """By case, a run that passed; one in which no tool failed, where there is one."""
    runs: dict[str, Outcome] = {}
    for result in measured.results:
        outcome = result.outcome
        if not result.passed(metrics) or not outcome.output:
            continue
        first = runs.setdefault(result.case, outcome)
        if _stumbled(first) and not _stumbled(outcome):
            runs[result.case] = outcome
    return runs


def _traced(case: Case, outcome: Outcome) -> Demonstration:
    """What happened, in the agent's own words: what it was asked, the tools it used, its answer."""
    calls = tuple(map(_shown, _calls_of(outcome)))
    return Demonstration(input=case.input, output=outcome.output, case=case.id, calls=calls)


def _labelled(case: Case) -> Demonstration:
    """What should happen. Calls are shown where the case knows what each of them gives back."""
    expected = case.turns[-1].expected_calls or ()
    complete = all(call.result is not None for call in expected)
    calls = tuple(map(_shown, expected)) if complete else ()
    return Demonstration(input=case.input, output=case.expected or "", case=case.id, calls=calls)


def _calls_of(outcome: Outcome) -> list[ToolCall]:
    """Every use of a tool, in order."""
    return [call for step in outcome.trace.steps for call in step.tools]


def _shown(call: ToolCall) -> DemonstratedCall:
    result = f"the tool failed: {call.error}" if call.error else _text(call.result)
    return DemonstratedCall.of(call.name, call.arguments, _beginning(result))


def _text(result: Json) -> str:
    """A result as a model reads it."""
    if isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


def _beginning(text: str) -> str:
    if len(text) <= _RESULT_CHARS:
        return text
    return f"{text[:_RESULT_CHARS]}… [the first {_RESULT_CHARS} of {len(text)} characters]"


def _stumbled(outcome: Outcome) -> bool:
    return any(call.error for call in _calls_of(outcome))


# -- Demonstrations -------------------------------------------------------------------------------


_POOL = 16
"""Examples to choose from: enough for variety, few enough to learn which are good."""
_COUNT = "count"
_FIRST_COUNTS = (2, 4, 8)
"""The first trials: how much do any demonstrations help?"""


def pool_of(
    cases: Sequence[Case],
    measured: Evaluation,
    metrics: Sequence[str],
    surface: DemosSurface,
    *,
    shown: Sequence[Demonstration] = (),
) -> tuple[Demonstration, ...]:
    """Worked examples: those shown now, then what the agent got right, then what the labels say.

    What it got right is shown as it happened, tools included: that is how a right answer is come
    by. Only cases of one turn: a demonstration is a question and an answer.
    """
    there = {demo.case for demo in shown if demo.case}
    fit = [case for case in cases if case.id not in there and _stands_alone(case)]
    right = _right_runs(measured, metrics)
    traces = [_traced(case, right[case.id]) for case in fit if case.id in right]
    demos = [demo for demo in traces if _may_be_shown(demo, surface)]
    had = {demo.case for demo in demos}
    labels = [_labelled(case) for case in fit if case.id not in had and case.expected]
    demos += [demo for demo in labels if _may_be_shown(demo, surface)]
    return tuple([*shown, *demos][:_POOL])


def space_of(pool: Sequence[Demonstration], surface: DemosSurface) -> SearchSpace:
    """How many, none included, and which stands where."""
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
    """Points to start with: the first few of the pool; where some are shown, none of them."""
    most = min(surface.max_demos, len(pool))
    order = {_place(n): n for n in range(most)}
    numbers = (0,) if shown else _FIRST_COUNTS
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


def _drawn(pool: Sequence[Demonstration], surface: DemosSurface, rng: random.Random) -> Point:
    """A point by chance that shows something."""
    most = min(surface.max_demos, len(pool))
    order = rng.sample(range(len(pool)), most)
    places = {_place(n): index for n, index in enumerate(order)}
    return {_COUNT: rng.randint(1, most), **places}


def ways_to_show(pool: Sequence[Demonstration], surface: DemosSurface) -> int:
    """How many different showings there are: subsets in every order, the empty one included."""
    most = min(surface.max_demos, len(pool))
    return sum(math.perm(len(pool), count) for count in range(most + 1))


def point_of(
    pool: Sequence[Demonstration], demos: Sequence[Demonstration], surface: DemosSurface
) -> Point | None:
    """The point that shows these demonstrations; None where the pool does not have them."""
    if any(demo not in pool for demo in demos):
        return None
    most = min(surface.max_demos, len(pool))
    places = [pool.index(demo) for demo in demos][:most]
    rest = [index for index in range(len(pool)) if index not in places]
    filled = [*places, *rest][:most]
    return {_COUNT: len(places), **{_place(n): index for n, index in enumerate(filled)}}


def _place(number: int) -> str:
    return f"place-{number + 1}"


def _stands_alone(case: Case) -> bool:
    more = case.history or case.scenario or case.turns[0].attachments
    return len(case.turns) == 1 and not more


def _may_be_shown(demo: Demonstration, surface: DemosSurface) -> bool:
    """It fits, and nothing was taken out of it that might have been a secret."""
    return demo.size <= _room(surface) and MARKER not in str(demo)


def _room(surface: DemosSurface) -> float:
    return math.inf if surface.max_chars is None else surface.max_chars


# -- The phase of demonstrations ------------------------------------------------------------------


_DRAWS = 256
"""How often chance is asked for something that was not tried yet."""


class DemonstrationPhase(PointPhase):
    """Which worked examples to show, and in which order."""

    name = "demonstrations"

    async def go(self, incumbent: Incumbent) -> PhaseEnd:
        """Search over the examples that train has to offer."""
        surface = self.surfaces[self.settings.demonstrations]
        assert isinstance(surface, DemosSurface)
        self.surface: DemosSurface = surface
        now = incumbent.candidate.values[surface.id]
        shown = now if isinstance(now, tuple) else ()
        self.pool = pool_of(
            self.run.dataset.train, incumbent.train, self.metrics, surface, shown=shown
        )
        if not self.pool or not surface.max_demos:
            return self.end(incumbent, "no_examples")
        self.space = space_of(self.pool, surface)
        self.whole = ways_to_show(self.pool, surface)
        self.begin(point_of(self.pool, shown, surface), incumbent)
        first = first_points(self.pool, surface, shown=shown)
        return await self.search(incumbent, self._new(first, incumbent))

    def _new(self, points: Sequence[Point], incumbent: Incumbent) -> list[Point]:
        """The points that are still to be tried; of the others the study is told what came out."""
        new: list[Point] = []
        for point in points:
            tried = incumbent.candidate.child(self.values(point), origin=Origin()).id
            if tried not in self.memory.losses:
                new.append(point)
            else:
                self._tell(
                    point, AttemptResult(incumbent=incumbent, loss=self.memory.losses[tried])
                )
        return new

    async def _ask(self) -> tuple[_Chooser, Point]:
        """The study's next point; another one by chance where that shows what was tried before.

        Many points show the same: TPE would ask for nothing at all again and again.
        """
        by, point = await super()._ask()
        other = self._another() if self.key(point) in self.seen else None
        return (by, point) if other is None else ("chance", other)

    def nothing_left(self, incumbent: Incumbent) -> str:
        """Also where chance finds nothing new: not every way to show them need fit."""
        if () in self.seen and self._another() is None:
            return "space_exhausted"
        return super().nothing_left(incumbent)

    def _another(self) -> Point | None:
        rng = self.run.rng(self.study, "another", self.trials)
        points = (_drawn(self.pool, self.surface, rng) for _ in range(_DRAWS))
        return next((point for point in points if self.key(point) not in self.seen), None)

    def values(self, point: Point) -> Mapping[str, Value]:
        """The demonstrations of a point."""
        return {self.surface.id: shown(self.pool, point, self.surface)}

    def key(self, point: Point) -> Hashable:
        """What is shown: places beyond the count do not matter."""
        return shown(self.pool, point, self.surface)

    def note(self, point: Point, before: Incumbent) -> str:
        """How many."""
        del before
        count = len(shown(self.pool, point, self.surface))
        return f"{count or 'no'} demo{'' if count == 1 else 's'}"
