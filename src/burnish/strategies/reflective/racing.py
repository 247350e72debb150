"""Holdout: candidates run over all of it, or only until it is clear that they will not lead."""

from collections.abc import Sequence
from contextlib import AsyncExitStack, aclosing

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Split
from burnish.core.evaluations import Evaluation
from burnish.core.money import Spend, total
from burnish.core.objectives import Penalties
from burnish.effects.executors import together
from burnish.runs.run import Run
from burnish.strategies.reflective.heats import Course, Heat, Lane, adds_up
from burnish.strategies.reflective.settings import ReflectiveSettings

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
