"""Holdout: candidates run over all of it, or until it is clear that they will not win."""

import math
from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace

from burnish.core.cases import Case, Split
from burnish.core.comparisons import cases
from burnish.core.evaluations import Evaluation, Objective, Penalties
from burnish.core.money import Spend, total
from burnish.core.pairing import paired
from burnish.core.statistics import Race
from burnish.core.surfaces import Candidate
from burnish.core.trials import Decision, Verdict
from burnish.journal.executors import together
from burnish.runs.run import Run
from burnish.strategies.reflective.settings import ReflectiveSettings

_ENOUGH_ALIKE = 6
"""Runs that come out again as they did, after which chance is taken to play no part."""


@dataclass(frozen=True, kw_only=True)
class Heat:
    """What came of running a candidate over holdout."""

    evaluation: Evaluation
    whole: bool
    """Whether every case was run."""
    lost: Decision | None = None
    """Why it was ended early."""
    behind: bool = False
    """Whether it is worse than chance alone would make it."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a candidate is run over, and against whom."""

    order: Sequence[Case]
    incumbent: Evaluation
    repeats: int
    block: int
    """Cases between two looks at how it stands."""
    early: bool
    """Whether it may end before every case was run."""
    draw: int = 0
    """The first draw."""
    earlier: Evaluation | None = None
    """In a second run, the first."""


class Lane:
    """One candidate under way."""

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
        """What the next block costs."""
        done, course = len(self._evaluation.cases), self._course
        due = course.order[done : done + course.block]
        return self._run.estimate(Split.HOLDOUT, cases=due, repeats=course.repeats)

    async def step(self) -> None:
        """Run the next block, and look how it stands."""
        part = await anext(self.blocks)
        self._evaluation = replace(
            self._evaluation, results=(*self._evaluation.results, *part.results)
        )
        self.heat = self._heat()
        if self.heat is not None:
            await self.blocks.aclose()

    def _heat(self) -> Heat | None:
        course, objective = self._course, self._run.objective
        earlier, evaluation = course.earlier, self._evaluation
        if (
            course.early
            and earlier is not None
            and _alike(earlier, evaluation, objective, course.order)
        ):
            return Heat(evaluation=earlier, whole=True)
        race = standing(evaluation, course, objective)
        if len(evaluation.cases) == len(course.order):
            return Heat(evaluation=_both(earlier, evaluation), whole=True, behind=race.far_behind)
        if (lost := lost_by(race)) is None:
            return None
        # Of a second run that was ended, nothing is in the books: its cases are not all there.
        seen = earlier or evaluation
        return Heat(evaluation=seen, whole=seen is earlier, lost=lost, behind=race.far_behind)


def standing(done: Evaluation, course: Course, objective: Objective) -> Race:
    """The gains of the cases that were run, and what those to come can add."""
    both, ended = _both(course.earlier, done), set(done.cases)
    both = paired(both, course.incumbent, objective.weights).known
    gains: list[float] = []
    room: list[float] = []
    promised: list[float] = []
    for case in course.order:
        new = objective.case_score(both, case.id)
        old = objective.case_score(course.incumbent, case.id)
        if case.id in ended:
            gains += [] if new is None or old is None else [new - old]
            continue
        # Of a second run half is known; of what is missing, nothing is.
        room.append((1.0 if new is None else (new + 1.0) / 2) - (old or 0.0))
        promised.append(0.0 if new is None or old is None else (new - old) / 2)
    return Race(gains=tuple(gains), room=tuple(room), promised=math.fsum(promised))


def adds_up(evaluation: Evaluation, objective: Objective) -> bool:
    """Whether the score of the whole is the mean of the cases: every metric speaks of each."""
    results = [result for result in evaluation.results if not result.outcome.missing]
    return all(result.applies(metric) for result in results for metric in objective.weights)


def lost_by(race: Race) -> Decision | None:
    """Why going on is not worth it, if it is not."""
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


def _alike(
    earlier: Evaluation, later: Evaluation, objective: Objective, order: Sequence[Case]
) -> bool:
    """Whether the second run says what the first one said, often enough to believe it."""
    score = objective.case_score
    if len(later.cases) < min(_ENOUGH_ALIKE, len(order)):
        return False
    return all(score(earlier, case) == score(later, case) for case in later.cases)


def _both(first: Evaluation | None, second: Evaluation) -> Evaluation:
    return second if first is None else replace(first, results=(*first.results, *second.results))


# -- Holdout --------------------------------------------------------------------------------------


BLOCK = 8
"""Cases between two looks at how a race stands."""


class Stopped(Exception):
    """No error: there is a reason to stop, and the trial under way is dropped whole."""


class Holdout:
    """Runs candidates over holdout, all of them in one order."""

    def __init__(self, run: Run, settings: ReflectiveSettings) -> None:
        self._run = run
        self._settings = settings
        order = list(run.dataset.holdout)
        if settings.racing:
            run.rng("race order").shuffle(order)
        self.order: Sequence[Case] = tuple(order)
        # Nothing bounds what a case may cost, so with penalties nothing is clear before the end.
        self._early = settings.racing and run.objective.penalties == Penalties()

    @property
    def first_need(self) -> Spend:
        """What it costs to run as much as anything can be told from."""
        first = self.order[:BLOCK] if self._early else self.order
        return self._run.estimate(Split.HOLDOUT, cases=first, repeats=self._settings.repeats)

    @property
    def least(self) -> Spend:
        """What it costs at least to make a candidate lead: where chance plays no part, little
        more than to run it once."""
        once = self._run.estimate(Split.HOLDOUT, repeats=self._settings.repeats)
        return once + self.first_need if self._settings.racing else once

    @property
    def need(self) -> Spend:
        """What it costs at most to make a candidate lead."""
        runs = 2 if self._settings.racing else 1
        return self._run.estimate(Split.HOLDOUT, repeats=runs * self._settings.repeats)

    async def all(self, candidate: Candidate) -> Evaluation:
        """The whole of it, as it stands."""
        repeats = self._settings.repeats
        return await self._run.evaluate(candidate, split=Split.HOLDOUT, repeats=repeats)

    async def heats(self, candidates: Sequence[Candidate], incumbent: Evaluation) -> list[Heat]:
        """Run candidates against the incumbent's results, each to the end if there is hope."""
        course = self._course(incumbent)
        return await self._run_out([Lane(self._run, each, course) for each in candidates])

    async def again(self, candidate: Candidate, first: Evaluation, incumbent: Evaluation) -> Heat:
        """Run a provisional winner a second time: half of what looked like a gain is often luck."""
        if not self._settings.racing:
            return Heat(evaluation=first, whole=True)
        course = self._course(incumbent, draw=self._settings.repeats, earlier=first)
        return (await self._run_out([Lane(self._run, candidate, course)]))[0]

    def _course(
        self, incumbent: Evaluation, *, draw: int = 0, earlier: Evaluation | None = None
    ) -> Course:
        early = self._early and adds_up(incumbent, self._run.objective)
        return Course(
            order=self.order,
            incumbent=incumbent,
            repeats=self._settings.repeats,
            block=BLOCK if early else len(self.order),
            early=early,
            draw=draw,
            earlier=earlier,
        )

    async def _run_out(self, lanes: Sequence[Lane]) -> list[Heat]:
        """Every lane to its end, block by block side by side.

        Who is faster may not decide what is left of the budget, so limits are looked at only
        where all stand at the end of a block.
        """
        async with AsyncExitStack() as stack:
            for lane in lanes:
                await stack.enter_async_context(aclosing(lane.blocks))
            while waiting := [lane for lane in lanes if lane.heat is None]:
                if self._run.stop_reason(total(lane.need for lane in waiting)) is not None:
                    raise Stopped
                await together(lane.step() for lane in waiting)
        return [lane.heat for lane in lanes if lane.heat is not None]
