"""Evaluations of a part of the cases: minibatches of train, and races over holdout.

A minibatch is how a search looks at a few cases, and what it remembers and shows. In a race,
candidates run block by block, until they are clearly no better.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from burnish.core.cases import Case, Dataset, Split
from burnish.core.comparisons import Pair
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Penalties, mean
from burnish.core.formatting import Section, number
from burnish.core.gates import min_gain
from burnish.core.money import Spend, total
from burnish.core.protocols import HoldsPrompts
from burnish.core.surfaces import EPSILON, Candidate
from burnish.core.trials import Decision, Trial, Verdict
from burnish.journal.executors import together
from burnish.runs import progress
from burnish.runs.directory import RunRecord
from burnish.runs.events import BASELINE, TrialRecorded
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import score_table
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.races import Course, RaceSoFar, lost_by, may_end_early

# -- Minibatches -----------------------------------------------------------------------------------


Minibatch: TypeAlias = tuple[Case, ...]
_ENOUGH_AGAIN = 60
"""Later runs of cases without a failure after which a candidate is believed to have none: of one
that fails in a run of twenty, they would show a failure with a probability of 95 %."""
_ENOUGH_REPEATED = 20
"""Later runs after which an agent is believed to be deterministic, if none differs from an earlier
one. An agent whose answers are labels gives the same one whenever it is right, so it takes many."""


def require_splits(dataset: Dataset, search: str) -> None:
    """Such a search needs cases to learn from and others to decide on."""
    splits = {"train": dataset.train, "holdout": dataset.holdout}
    problems = [
        Problem(where=name, message=f"{search} needs cases here")
        for name, cases in splits.items()
        if not cases
    ]
    if problems:
        raise ConfigError(problems)


_ROOMY = 92
"""From this width on, lines about part of holdout do not shift the others."""


class MinibatchLines(ProgressLines):
    """Trials by the round, each against its parent on a minibatch."""

    def trial(self, trial: TrialRecorded, width: int) -> str:
        index = trial.trial if trial.index is None else trial.index
        label = f"[{(trial.phase or 'trial')[0]}{trial.cycle!s:>3}.{index}]"
        name = f"{label} {progress.note_words(trial, width)}"
        if not trial.measured:
            return progress.turned_away_line(name, trial, width)
        usd, seconds = progress.spent_words(trial)
        # On a few cases there is no spread to speak of, but a parent to compare with.
        batch = f"{'——':<19}"
        if trial.parent_train is not None:
            batch = f"batch {number(trial.parent_train)} → {number(trial.train)}"
        held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
        if trial.part_of_holdout:
            held = f"{held} of {trial.holdout_cases} cases"
        parts = [
            (0, name),
            (4, batch),
            (1, f"{held:<{22 if width >= _ROOMY else 10}}"),
            (0, f"{progress.outcome(trial):<8}"),
            (2, usd),
            (3, seconds),
        ]
        return progress.fitted(parts, width)


class MinibatchPlugin(StrategyPlugin):
    """A plug-in of a search in rounds that compare scores on a minibatch first."""

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def turn(self, trial: Trial) -> str:
        return "cycle" if trial.phase == BASELINE else "round"


def agent_lines(setup: Setup) -> Iterator[str]:
    """The lines of `--dry-run` about the agent: where its prompts are, and how it is called."""
    if isinstance(setup.target, HoldsPrompts):
        yield f"agent     {setup.target.prompts_summary}"
    yield from progress.agent_line(setup)


def minibatch_line(
    cases: Sequence[str], before: float | None, after: float | None, *, beside: str
) -> str:
    """The scores of a candidate and of what it is compared with, for `runs show --trial`."""
    scores = f"score of {beside} {number(before)}, candidate {number(after)}"
    return f"minibatch {', '.join(cases)}: {scores}"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An earlier reply to a case, and its score."""

    score: float
    text: str


@dataclass
class SearchMemory:
    """What the search has seen on train; the same again on a replay."""

    objective: Objective
    train: dict[str, dict[str, list[CaseResult]]] = field(
        default_factory=lambda: defaultdict[str, dict[str, list[CaseResult]]](dict)
    )
    """By candidate and case, every run on train."""
    replies: dict[str, list[Reply]] = field(
        default_factory=lambda: defaultdict[str, list[Reply]](list)
    )
    """By case, best first."""
    rejected: dict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[str]](list)
    )
    """By parent and field, each rejected diagnosis with the reason, as a line."""

    def add(self, evaluation: Evaluation) -> None:
        by_case = self.train[evaluation.candidate]
        for result in evaluation.results:
            runs = by_case.setdefault(result.case, [])
            if any(run.draw == result.draw for run in runs):
                continue
            runs.append(result)
            score = self.objective.run_score(result)
            if score is not None and result.outcome.output:
                replies = self.replies[result.case]
                replies.append(Reply(score=score, text=result.outcome.output))
                replies.sort(key=lambda reply: -reply.score)

    def evaluation(self, candidate: str) -> Evaluation:
        """All results of a candidate on train."""
        runs = [run for each in self.train[candidate].values() for run in each]
        return Evaluation(candidate=candidate, split=Split.TRAIN, results=tuple(runs))

    def next_draw(self, candidate: str, cases: Sequence[Case]) -> int:
        """The first draw that none of these cases has been run under."""
        runs = [run for case in cases for run in self.train[candidate].get(case.id, ())]
        return max((run.draw for run in runs), default=-1) + 1

    def failing(self, candidate: str, *, below: float) -> set[str]:
        """The train cases on which a candidate is known to score less than this."""
        cases: set[str] = set()
        for case, runs in self.train[candidate].items():
            scores = [self.objective.run_score(run) for run in runs]
            numbers = [score for score in scores if score is not None]
            if numbers and mean(numbers) < below:
                cases.add(case)
        return cases

    def best_replies(self, case: str, most: int, *, besides: str = "") -> list[Reply]:
        """The best distinct replies to a case other than the current one."""
        each = {reply.text: reply for reply in self.replies[case][::-1] if reply.text != besides}
        return list(each.values())[::-1][:most]

    @property
    def repeats_itself(self) -> bool:
        """Whether many runs gave the same as an earlier run of their case, and none another."""
        alike = 0
        for by_case in self.train.values():
            for runs in by_case.values():
                first, *later = map(self._given, runs)
                if any(each != first for each in later):
                    return False
                alike += len(later)
        return alike >= _ENOUGH_REPEATED

    def _given(self, run: CaseResult) -> tuple[tuple[str, ...], float | None]:
        return run.outcome.replies, self.objective.run_score(run)

    def rejections(self, parent: str, name: str) -> str:
        """The latest three rejections of rewrites of this text."""
        return "\n".join(self.rejected[parent, name][-3:])


def minibatch(
    cases: Sequence[Case], size: int, number: int, shuffle: Callable[[int], random.Random]
) -> Minibatch:
    """The cases of one minibatch; the last of a pass is filled up from the start of the pass."""
    size = min(size, len(cases))
    in_a_pass = -(-len(cases) // size)
    number_of_pass, place = divmod(number, in_a_pass)
    order = list(cases)
    shuffle(number_of_pass).shuffle(order)
    chosen = order[place * size : (place + 1) * size]
    return (*chosen, *order[: size - len(chosen)])


@dataclass(frozen=True, kw_only=True)
class LookSettings:
    """How a search looks at train."""

    minibatch: int
    """Cases of one look."""
    repeats: int
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    skip_perfect: bool = True
    """Whether minibatches are left out in which every case has that score."""
    reuse: bool = True
    """Whether results of a candidate are reused; otherwise each look is a new draw."""
    slots: int = 1
    """Looks that are taken side by side."""


class Train:
    """Evaluates candidates on a few cases of train, several side by side.

    Each proposal of a round has a slot. What a slot sees and chooses must not depend on which
    of them is faster: all choose before any looks, and results are taken in the slots' order.
    """

    def __init__(self, run: Run, settings: LookSettings, memory: SearchMemory) -> None:
        self._run = run
        self._settings = settings
        self._memory = memory
        self._cases = run.dataset.train
        self._looked: dict[int, int] = {}
        """By slot, how many minibatches were taken."""
        self.in_a_pass = -(-len(self._cases) // settings.minibatch)
        """Minibatches that cover every case."""

    def cost(self, size: int) -> Spend:
        """What a look at so many cases is expected to cost."""
        batch = self._cases[:size]
        return self._run.estimate(Split.TRAIN, cases=batch, repeats=self._settings.repeats)

    async def instructive(
        self,
        parents: Sequence[Candidate],
        number: int,
        *,
        again: bool,
        room: Callable[[int], None],
    ) -> list[tuple[Minibatch, Evaluation]]:
        """The next minibatch of each parent; where results are reused, the next with a failure.

        `number` is the round. With `again`, cases that were right are run again under new draws, as
        long as that may show a failure. `room` is called with the number of looks before each
        repetition.
        """
        settings = self._settings
        choosy = settings.reuse and settings.skip_perfect
        looks: dict[int, tuple[Minibatch, Evaluation]] = {}

        def goes_on(slot: int, turn: int) -> bool:
            if slot not in looks:
                return True
            left = turn < self.in_a_pass or not self.teaches_nothing(parents[slot], again=again)
            return choosy and left and self.perfect(looks[slot][1])

        for turn in count():
            slots = [slot for slot in range(len(parents)) if goes_on(slot, turn)]
            if not slots:
                break
            if turn:
                room(len(slots))
            batches = [
                self._known_failures(parents[slot], number, slot) or self._next(slot)
                for slot in slots
            ]
            evaluations = await self.look(
                [(parents[slot], batch) for slot, batch in zip(slots, batches, strict=True)],
                again=again,
            )
            for slot, batch, evaluation in zip(slots, batches, evaluations, strict=True):
                known = self._known(parents[slot], batch) if settings.reuse else evaluation
                looks[slot] = batch, known
        return [looks[slot] for slot in range(len(parents))]

    async def look(
        self, looks: Sequence[tuple[Candidate, Minibatch]], *, again: bool = False
    ) -> list[Evaluation]:
        """Evaluate candidates; with a new draw each time, unless results are reused."""
        evaluations = await together(
            self._run.evaluate(
                candidate,
                split=Split.TRAIN,
                cases=batch,
                repeats=self._settings.repeats,
                draw=self._draw(candidate, batch, again=again),
            )
            for candidate, batch in looks
        )
        for each in evaluations:
            self._memory.add(each)
        return evaluations

    def perfect(self, evaluation: Evaluation) -> bool:
        """Whether every case has the perfect score; a missing one has not."""
        bar = self._settings.perfect_score - EPSILON
        scores = [self._run.objective.case_score(evaluation, case) for case in evaluation.cases]
        return all(score is not None and score >= bar for score in scores)

    def teaches_nothing(self, parent: Candidate, *, again: bool) -> bool:
        """Whether every case was looked at and none is known to fail.

        With `again`, also whether running them under new draws is not worth while either.
        """
        if not (self._settings.reuse and self._settings.skip_perfect):
            return False
        clean = min(self._runs(parent)) > 0 and not self._failing(parent)
        return clean and not (again and self._may_fail(parent))

    def _draw(self, candidate: Candidate, batch: Minibatch, *, again: bool) -> int:
        """The first draw of a look.

        Where results are reused, all cases have their turn under one draw before there is another,
        which only comes if no case has failed so far.
        """
        if not self._settings.reuse:
            return self._memory.next_draw(candidate.id, batch)
        runs = self._runs(candidate)
        if again and not self._failing(candidate) and self._may_fail(candidate):
            return min(runs)
        return max(0, max(runs) - self._settings.repeats)

    def _may_fail(self, candidate: Candidate) -> bool:
        """Whether more runs of cases that were right may still show a failure."""
        later = sum(runs - 1 for runs in self._runs(candidate) if runs)
        return later < _ENOUGH_AGAIN and not self._is_deterministic

    @property
    def _is_deterministic(self) -> bool:
        """Whether many runs were the same as before, and none another, on holdout either."""
        scores: dict[str, set[float | None]] = defaultdict(set)
        for run in self._run.offers.results(self._run.incumbent.id):
            scores[run.case].add(self._run.objective.run_score(run))
        return self._memory.repeats_itself and all(len(each) == 1 for each in scores.values())

    def _runs(self, candidate: Candidate) -> list[int]:
        """How often each case was run."""
        seen = self._memory.train[candidate.id]
        return [len(seen.get(case.id, ())) for case in self._cases]

    def _known(self, candidate: Candidate, batch: Minibatch) -> Evaluation:
        """What is known of a candidate on these cases: where results are reused, by every run."""
        seen, repeats = self._memory.train[candidate.id], self._settings.repeats
        results: list[CaseResult] = []
        for case in batch:
            runs = seen[case.id]
            if not self._settings.reuse or len(runs) == repeats:
                results += runs[-repeats:]
            else:
                # A later run that is missing takes nothing away from what is known.
                scored = [run for run in runs if self._run.objective.run_score(run) is not None]
                results += scored or runs
        return Evaluation(candidate=candidate.id, split=Split.TRAIN, results=tuple(results))

    def evidence(self, parent: Candidate, number: int) -> tuple[Minibatch, Evaluation] | None:
        """A minibatch of cases that are known to fail, with their latest runs; for nothing."""
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = min(len(cases), self._settings.minibatch)
        batch = tuple(self._run.rng("evidence", number).sample(cases, size))
        return (batch, self._known(parent, batch)) if batch else None

    def _failing(self, parent: Candidate) -> set[str]:
        return self._memory.failing(parent.id, below=self._settings.perfect_score - EPSILON)

    def _known_failures(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        """Every other time, where results are reused, only cases that are known to fail."""
        rng = self._run.rng("failures", number, slot)
        if not self._settings.reuse or rng.random() < 0.5:
            return ()
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = self._settings.minibatch
        return tuple(rng.sample(cases, size)) if len(cases) >= size else ()

    def _next(self, slot: int) -> Minibatch:
        looked = self._looked.get(slot, 0)
        self._looked[slot] = looked + 1
        return minibatch(
            self._cases,
            self._settings.minibatch,
            looked * self._settings.slots + slot,
            lambda number: self._run.rng("minibatches", number),
        )


# -- Races -----------------------------------------------------------------------------------------


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


async def race(run: Run, candidates: Sequence[Candidate], course: Course) -> list[Heat]:
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


class _Lane:
    """One candidate on its way over the course."""

    def __init__(self, run: Run, candidate: Candidate, course: Course) -> None:
        self._run = run
        self._course = course
        self._evaluation = Evaluation(candidate=candidate.id, split=Split.HOLDOUT, results=())
        self._so_far = RaceSoFar(course, run.objective)
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
        self._so_far.add(part)
        self.heat = self._heat()
        if self.heat is not None:
            await self.blocks.aclose()

    def _heat(self) -> Heat | None:
        course, evaluation = self._course, self._evaluation
        earlier = course.earlier
        if course.early and earlier is not None and self._repeats(earlier):
            return Heat(evaluation=earlier, whole=True)
        race = self._so_far.race
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

    def is_solved(self, incumbent: Evaluation) -> bool:
        """Whether no candidate could be better than the incumbent's results."""
        loss = self._run.objective.measure(incumbent).loss
        return loss is not None and loss <= EPSILON

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
            first = heat.evaluation
            heat = await self.again(candidate, first, incumbent)
            if heat.lost or heat.evaluation is not first:
                decision = heat.lost or self._gain(heat.evaluation, incumbent)
            if decision.verdict is Verdict.REJECT:
                reason = f"run again: {decision.reason}"
                decision = replace(decision, code="luck", reason=reason)
        return heat, decision

    def _gain(self, candidate: Evaluation, incumbent: Evaluation) -> Decision:
        pair = Pair(candidate=candidate, incumbent=incumbent)
        return min_gain(objective=self._run.objective, validation=pair)


def _both(first: Evaluation | None, second: Evaluation) -> Evaluation:
    return second if first is None else replace(first, results=(*first.results, *second.results))
