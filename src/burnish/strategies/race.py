"""A race over holdout: candidates run block by block, until they are clearly no better."""

import math
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

from burnish.core.cases import Case, Split
from burnish.core.comparisons import Pair, cases, paired
from burnish.core.evaluations import Evaluation, Objective, Penalties
from burnish.core.gates import min_gain
from burnish.core.money import Spend, total
from burnish.core.statistics import Race
from burnish.core.surfaces import Candidate
from burnish.core.trials import Decision, Verdict
from burnish.journal.executors import together
from burnish.runs.run import Run

BLOCK = 8
"""Cases between two looks at a race."""
_ENOUGH_ALIKE = 6
"""Results that repeat, after which the target is taken to be deterministic."""


class Stopped(Exception):
    """Not an error: there is a reason to stop, and the current trial is dropped."""


@dataclass(frozen=True, kw_only=True)
class Heat:
    """The result of running a candidate over holdout."""

    evaluation: Evaluation
    whole: bool
    lost: Decision | None = None
    """Why it was stopped early."""
    behind: bool = False
    """Whether it is worse than chance alone would make it."""


async def race(run: Run, candidates: Sequence[Candidate], course: "Course") -> list[Heat]:
    """Race candidates against the incumbent's results, block by block side by side.

    Each runs to the end while it may win. Speed must not decide what is left of the budget, so
    limits are checked only when every lane is at the end of a block.
    """
    lanes = [_Lane(run, each, course) for each in candidates]
    async with AsyncExitStack() as stack:
        for lane in lanes:
            await stack.enter_async_context(aclosing(lane.blocks))
        while running := [lane for lane in lanes if lane.heat is None]:
            if run.stop_reason(total(lane.need for lane in running)) is not None:
                raise Stopped
            await together(lane.step() for lane in running)
    return [lane.heat for lane in lanes if lane.heat is not None]


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a candidate is run over, and against whom."""

    order: Sequence[Case]
    incumbent: Evaluation
    repeats: int
    block: int
    early: bool
    """Whether it may end before every case was run."""
    draw: int = 0
    earlier: Evaluation | None = None
    """The first run, when this is the second."""
    slack: float | None = None
    """How much lower its score may be in the end; None if it must win."""


class _Lane:
    """One candidate on its way over the course."""

    def __init__(self, run: Run, candidate: Candidate, course: Course) -> None:
        self._run = run
        self._course = course
        self._evaluation = Evaluation(candidate=candidate.id, split=Split.HOLDOUT, results=())
        self.blocks = run.blocks(
            candidate,
            split=Split.HOLDOUT,
            cases=course.order,
            repeats=course.repeats,
            draw=course.draw,
            block_size=course.block,
        )
        self.heat: Heat | None = None
        """None until it is over."""

    @property
    def need(self) -> Spend:
        done, course = len(self._evaluation.cases), self._course
        due = course.order[done : done + course.block]
        return self._run.estimate(Split.HOLDOUT, cases=due, repeats=course.repeats)

    async def step(self) -> None:
        """Run the next block, and check whether the race is over."""
        part = await anext(self.blocks)
        self._evaluation = _both(self._evaluation, part)
        self.heat = self._heat()
        if self.heat is not None:
            await self.blocks.aclose()

    def _heat(self) -> Heat | None:
        course, evaluation = self._course, self._evaluation
        earlier = course.earlier
        if course.early and earlier is not None and self._repeats(earlier):
            return Heat(evaluation=earlier, whole=True)
        race = race_so_far(evaluation, course, self._run.objective)
        if len(evaluation.cases) == len(course.order):
            return Heat(evaluation=_both(earlier, evaluation), whole=True, behind=race.far_behind)
        if (lost := lost_by(race)) is None:
            return None
        # A second run that ended early is not recorded: its cases are not all there.
        seen = earlier or evaluation
        return Heat(evaluation=seen, whole=seen is earlier, lost=lost, behind=race.far_behind)

    def _repeats(self, earlier: Evaluation) -> bool:
        """Whether the second run has so far matched the first, often enough to believe it."""
        later, score = self._evaluation, self._run.objective.case_score
        enough = len(later.cases) >= min(_ENOUGH_ALIKE, len(self._course.order))
        return enough and all(score(earlier, case) == score(later, case) for case in later.cases)


class Holdout:
    """Runs candidates over holdout, all of them in one order."""

    def __init__(self, run: Run, *, repeats: int, racing: bool = True) -> None:
        self._run = run
        self._repeats = repeats
        self._racing = racing
        order = list(run.dataset.holdout)
        if racing:
            run.rng("race order").shuffle(order)
        self._order = tuple(order)
        self._early = racing and run.objective.penalties == Penalties()

    def decide_on(self, count: int) -> None:
        """Use only so many cases, the first of the order."""
        self._order = self._order[:count]

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that decide, as the dataset has them."""
        chosen = {case.id for case in self._order}
        return tuple(case for case in self._run.dataset.holdout if case.id in chosen)

    @property
    def once(self) -> Spend:
        """What it costs to run a candidate over them."""
        return self._run.estimate(Split.HOLDOUT, cases=self._order, repeats=self._repeats)

    @property
    def first_need(self) -> Spend:
        first = self._order[:BLOCK] if self._early else self._order
        return self._run.estimate(Split.HOLDOUT, cases=first, repeats=self._repeats)

    @property
    def least(self) -> Spend:
        """The least it costs to make a candidate lead: little more than one run if the target is
        deterministic."""
        return self.once + self.first_need if self._racing else self.once

    @property
    def need(self) -> Spend:
        """The most it costs to make a candidate lead."""
        return self.once.times(2 if self._racing else 1)

    async def heats(
        self,
        candidates: Sequence[Candidate],
        incumbent: Evaluation,
        *,
        draw: int = 0,
        earlier: Evaluation | None = None,
    ) -> list[Heat]:
        """Race candidates against the incumbent's results, side by side."""
        early = self._racing and may_end_early(incumbent, self._run.objective)
        course = Course(
            order=self._order,
            incumbent=incumbent,
            repeats=self._repeats,
            block=BLOCK if early else len(self._order),
            early=early,
            draw=draw,
            earlier=earlier,
        )
        return await race(self._run, candidates, course)

    async def again(self, candidate: Candidate, first: Evaluation, incumbent: Evaluation) -> Heat:
        """Run a provisional winner a second time: half of what looked like a gain is often luck."""
        if not self._racing:
            return Heat(evaluation=first, whole=True)
        draw = self._repeats
        return (await self.heats([candidate], incumbent, draw=draw, earlier=first))[0]

    async def decided(
        self, candidate: Candidate, heat: Heat, incumbent: Evaluation
    ) -> tuple[Heat, Decision]:
        """Decide against the incumbent; what would win is run again first."""
        decision = self._gain(heat.evaluation, incumbent)
        if decision.accepted:
            heat = await self.again(candidate, heat.evaluation, incumbent)
            decision = heat.lost or self._gain(heat.evaluation, incumbent)
            if decision.verdict is Verdict.REJECT:
                reason = f"run again: {decision.reason}"
                decision = replace(decision, code="luck", reason=reason)
        return heat, decision

    def _gain(self, candidate: Evaluation, incumbent: Evaluation) -> Decision:
        pair = Pair(candidate=candidate, incumbent=incumbent)
        return min_gain(objective=self._run.objective, validation=pair)


def race_so_far(done: Evaluation, course: Course, objective: Objective) -> Race:
    """The gains of the cases that were run, and what the others can add."""
    ended = set(done.cases)
    both = paired(_both(course.earlier, done), course.incumbent, objective.weights).known
    gains: list[float] = []
    room: list[float] = []
    promised: list[float] = []
    for case in course.order:
        new = objective.case_score(both, case.id)
        old = objective.case_score(course.incumbent, case.id)
        if case.id in ended:
            gains += [] if new is None or old is None else [new - old]
            continue
        # In a second run one half of each case is known already.
        room.append((1.0 if new is None else (new + 1.0) / 2) - (old or 0.0))
        promised.append(0.0 if new is None or old is None else (new - old) / 2)
    slack = None if course.slack is None else course.slack * len(course.order)
    return Race(gains=tuple(gains), room=tuple(room), promised=math.fsum(promised), slack=slack)


def may_end_early(incumbent: Evaluation, objective: Objective) -> bool:
    """Whether a race can be clear before its end: nothing bounds what a case may cost."""
    return objective.penalties == Penalties() and adds_up(incumbent, objective)


def adds_up(evaluation: Evaluation, objective: Objective) -> bool:
    """Whether the score of the whole is the mean of the cases: every metric applies to each."""
    results = [result for result in evaluation.results if not result.outcome.missing]
    return all(result.applies(metric) for result in results for metric in objective.weights)


def lost_by(race: Race) -> Decision | None:
    """Why a race is not worth going on with, or None."""
    hope = race.hope()
    if hope == "open" or not race.gains:
        return None
    n, left, ahead = len(race.gains), len(race.room), race.ahead
    reason = f"after {cases(n)} {ahead:+.2f}, "
    if hope == "hopeless":
        reason += f"and the {left} left can add no more than {race.best_end - ahead:.2f}"
    else:
        reason += f"which the {left} left are not likely to make up"
    numbers = {"gain_so_far": ahead, "cases": float(n), "cases_left": float(left)}
    return Decision(gate="race", verdict=Verdict.REJECT, code=hope, reason=reason, numbers=numbers)


def _both(first: Evaluation | None, second: Evaluation) -> Evaluation:
    return second if first is None else replace(first, results=(*first.results, *second.results))
