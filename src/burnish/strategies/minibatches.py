"""Minibatches: how a search looks at a few cases of train, and what it remembers and shows."""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from burnish.core.cases import Case, Dataset, Split
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean
from burnish.core.formatting import Section, number
from burnish.core.money import Spend
from burnish.core.surfaces import EPSILON, Candidate
from burnish.core.trials import Trial
from burnish.journal.executors import together
from burnish.runs.directory import RunRecord
from burnish.runs.events import BASELINE
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.report_sections import score_table
from burnish.runs.run import Run

Minibatch: TypeAlias = tuple[Case, ...]


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


class MinibatchPlugin(StrategyPlugin):
    """A plug-in of a search in rounds that compare scores on a minibatch first."""

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def turn(self, trial: Trial) -> str:
        return "cycle" if trial.phase == BASELINE else "round"


def minibatch_line(
    cases: Sequence[str], before: float | None, after: float | None, *, beside: str
) -> str:
    """The scores of a candidate and of what it is compared with, for `runs show --trial`."""
    scores = f"score of {beside} {number(before)}, candidate {number(after)}"
    return f"minibatch {', '.join(cases)}: {scores}"


def score_of(result: CaseResult, objective: Objective) -> float | None:
    """The score of one run."""
    alone = Evaluation(candidate="", split=Split.TRAIN, results=(result,))
    return objective.case_score(alone, result.case)


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
            score = score_of(result, self.objective)
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
            scores = [score_of(run, self.objective) for run in runs]
            numbers = [score for score in scores if score is not None]
            if numbers and mean(numbers) < below:
                cases.add(case)
        return cases

    def best_replies(self, case: str, most: int, *, besides: str = "") -> list[Reply]:
        """The best distinct replies to a case other than the current one."""
        each = {reply.text: reply for reply in self.replies[case][::-1] if reply.text != besides}
        return list(each.values())[::-1][:most]

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
        self, parents: Sequence[Candidate], number: int, *, room: Callable[[int], None]
    ) -> list[tuple[Minibatch, Evaluation]]:
        """The next minibatch of each parent; where results are reused, the next with a failure.

        `number` is the round; `room` is called with the number of looks before each repetition.
        """
        settings = self._settings
        choosy = settings.reuse and settings.skip_perfect
        looks: dict[int, tuple[Minibatch, Evaluation]] = {}
        for turn in range(self.in_a_pass):
            slots = [
                slot
                for slot in range(len(parents))
                if slot not in looks or (choosy and self.perfect(looks[slot][1]))
            ]
            if not slots:
                break
            if turn:
                room(len(slots))
            batches = [
                self._known_failures(parents[slot], number, slot) or self._next(slot)
                for slot in slots
            ]
            evaluations = await self.look(
                [(parents[slot], batch) for slot, batch in zip(slots, batches, strict=True)]
            )
            looks |= dict(zip(slots, zip(batches, evaluations, strict=True), strict=True))
        return [looks[slot] for slot in range(len(parents))]

    async def look(self, looks: Sequence[tuple[Candidate, Minibatch]]) -> list[Evaluation]:
        """Evaluate candidates; with a new draw each time, unless results are reused."""
        evaluations = await together(
            self._run.evaluate(
                candidate,
                split=Split.TRAIN,
                cases=batch,
                repeats=self._settings.repeats,
                draw=0 if self._settings.reuse else self._memory.next_draw(candidate.id, batch),
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

    def teaches_nothing(self, parent: Candidate) -> bool:
        """Whether every case was looked at, none is known to fail, and no look would be new."""
        if not (self._settings.reuse and self._settings.skip_perfect):
            return False
        seen = self._memory.train[parent.id]
        return all(case.id in seen for case in self._cases) and not self._failing(parent)

    def evidence(self, parent: Candidate, number: int) -> tuple[Minibatch, Evaluation] | None:
        """A minibatch of cases that are known to fail, with their latest runs; for nothing."""
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = min(len(cases), self._settings.minibatch)
        batch = tuple(self._run.rng("evidence", number).sample(cases, size))
        seen = self._memory.train[parent.id]
        results = [run for case in batch for run in seen[case.id][-self._settings.repeats :]]
        known = Evaluation(candidate=parent.id, split=Split.TRAIN, results=tuple(results))
        return (batch, known) if batch else None

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
