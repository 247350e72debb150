"""The pool: measured candidates, their Pareto frontier, minibatches and memory."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from burnish.core.cases import Case, Split
from burnish.core.evaluations import CaseResult, Evaluation, Objective, mean
from burnish.core.money import Spend
from burnish.core.pairing import paired
from burnish.core.surfaces import EPSILON, Candidate
from burnish.journal.executors import together
from burnish.runs.run import Run
from burnish.strategies.reflective.records import Reply, score_of
from burnish.strategies.reflective.settings import FrontierType, ParentSelection, ReflectiveSettings

Standards: TypeAlias = Mapping[Hashable, float]
"""How one candidate does at each thing there is to be best at."""
_Fronts: TypeAlias = Mapping[Hashable, frozenset[int]]
"""For each thing, the candidates that are best at it, by number."""


def standards(evaluation: Evaluation, objective: Objective, kind: FrontierType) -> Standards:
    """How a candidate does at each thing that the type of frontier looks at."""
    values: dict[Hashable, float] = {}
    if kind in ("instance", "hybrid"):
        scores = ((case, objective.case_score(evaluation, case)) for case in evaluation.cases)
        values |= {("case", case): score for case, score in scores if score is not None}
    if kind in ("objective", "hybrid"):
        means = ((metric, evaluation.mean_of(metric)) for metric in objective.weights)
        values |= {("metric", metric): mean for metric, mean in means if mean is not None}
    if kind == "cartesian":
        values |= _cells(evaluation, objective)
    return values


def fronts_of(members: Sequence[Standards]) -> _Fronts:
    """Who is best at each thing; ties stand side by side."""
    best: dict[Hashable, float] = {}
    for does in members:
        for thing, score in does.items():
            best[thing] = max(score, best.get(thing, score))
    return {
        thing: frozenset(
            number
            for number, does in enumerate(members)
            if thing in does and does[thing] >= score - EPSILON
        )
        for thing, score in best.items()
    }


def without_dominated(fronts: _Fronts, scores: Sequence[float]) -> _Fronts:
    """Leave out, the worst first, whoever is nowhere best alone."""
    there = {number for front in fronts.values() for number in front}
    for number in sorted(there, key=lambda each: (scores[each], -each)):
        others = there - {number}
        if all(front & others for front in fronts.values() if number in front):
            there = others
    return {thing: front & there for thing, front in fronts.items()}


def presence(fronts: _Fronts) -> Counter[int]:
    """At how many things each candidate is best."""
    return Counter(number for front in fronts.values() for number in sorted(front))


def _cells(evaluation: Evaluation, objective: Objective) -> dict[Hashable, float]:
    cells: dict[Hashable, float] = {}
    for case in evaluation.cases:
        alone = evaluation.only({case})
        means = ((metric, alone.mean_of(metric)) for metric in objective.weights)
        cells |= {(case, metric): mean for metric, mean in means if mean is not None}
    return cells


# -- What a search remembers ----------------------------------------------------------------------


_REMEMBERED = 3
"""Rewrites turned down that the reflector is told of."""


@dataclass(frozen=True, kw_only=True)
class TurnedDown:
    """A rewrite that brought nothing."""

    diagnosis: str
    reason: str


@dataclass
class SearchMemory:
    """Grows as the search goes on; the same again on a replay."""

    objective: Objective
    train: dict[str, dict[str, list[CaseResult]]] = field(
        default_factory=lambda: defaultdict[str, dict[str, list[CaseResult]]](dict)
    )
    """By candidate and case, every run on train."""
    replies: dict[str, list[Reply]] = field(
        default_factory=lambda: defaultdict[str, list[Reply]](list)
    )
    """By case, what was said, the best first."""
    turned_down: dict[tuple[str, str], list[TurnedDown]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], list[TurnedDown]](list)
    )
    """By parent and field."""

    def saw(self, evaluation: Evaluation) -> None:
        """Remember runs on train."""
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

    def draws(self, candidate: str, cases: Sequence[Case]) -> int:
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
        """The best things said to a case, each once, other than what is said now."""
        each = {reply.text: reply for reply in self.replies[case][::-1] if reply.text != besides}
        return list(each.values())[::-1][:most]

    def rejections(self, parent: str, name: str) -> str:
        """What was turned down lately, one a line."""
        latest = self.turned_down[parent, name][-_REMEMBERED:]
        return "\n".join(f"- {each.diagnosis} → {each.reason}" for each in latest) or "(none)"


# -- Minibatches ----------------------------------------------------------------------------------


def minibatch(
    cases: Sequence[Case], size: int, number: int, shuffle: Callable[[int], random.Random]
) -> tuple[Case, ...]:
    """The cases of one minibatch; the last of a pass is filled up from the pass's beginning."""
    size = min(size, len(cases))
    in_a_pass = -(-len(cases) // size)
    number_of_pass, place = divmod(number, in_a_pass)
    order = list(cases)
    shuffle(number_of_pass).shuffle(order)
    chosen = order[place * size : (place + 1) * size]
    return (*chosen, *order[: size - len(chosen)])


# -- Looks at train -------------------------------------------------------------------------------


Minibatch: TypeAlias = tuple[Case, ...]


class Train:
    """Looks at candidates on a few cases of train, several side by side.

    Each proposal of a round has a slot. What one slot sees and chooses may not depend on which
    of them is faster: all choose before any looks, and results are taken in the slots' order.
    """

    def __init__(self, run: Run, settings: ReflectiveSettings, memory: SearchMemory) -> None:
        self._run = run
        self._settings = settings
        self._memory = memory
        self._cases = run.dataset.train
        self._looked: dict[int, int] = {}
        """By slot, how many minibatches were taken."""

    @property
    def in_a_pass(self) -> int:
        """Minibatches in which every case is looked at."""
        return -(-len(self._cases) // self._settings.minibatch)

    @property
    def need(self) -> Spend:
        """What one look costs."""
        batch = self._cases[: self._settings.minibatch]
        return self._run.estimate(Split.TRAIN, cases=batch, repeats=self._settings.repeats)

    async def instructive(
        self, parents: Sequence[Candidate], number: int, *, room: Callable[[int], None]
    ) -> list[tuple[Minibatch, Evaluation]]:
        """The next minibatches; where results are used again, the next that teach something.

        `number` is the round; `room` is called before so many look once more.
        """
        looked_at: dict[int, tuple[Minibatch, Evaluation]] = {}
        for looks in range(self.in_a_pass):
            slots = [
                n for n in range(len(parents)) if n not in looked_at or self._dull(looked_at[n][1])
            ]
            if not slots:
                break
            if looks:
                room(len(slots))
            batches = [self._batch(parents[slot], number, slot) for slot in slots]
            ours = [parents[slot] for slot in slots]
            seen = await self.look(list(zip(ours, batches, strict=True)))
            looked_at |= dict(zip(slots, zip(batches, seen, strict=True), strict=True))
        return [looked_at[slot] for slot in range(len(parents))]

    async def look(self, looks: Sequence[tuple[Candidate, Minibatch]]) -> list[Evaluation]:
        """How candidates do; a new draw each time, unless what was seen is used again."""
        evaluations = await together(
            self._run.evaluate(
                candidate,
                split=Split.TRAIN,
                cases=batch,
                repeats=self._settings.repeats,
                draw=0 if self._settings.reuse else self._memory.draws(candidate.id, batch),
            )
            for candidate, batch in looks
        )
        for each in evaluations:
            self._memory.saw(each)
        return evaluations

    def perfect(self, evaluation: Evaluation) -> bool:
        """Whether every case is as good as it has to be; what is missing is not."""
        bar = self._settings.perfect_score - EPSILON
        scores = [self._run.objective.case_score(evaluation, case) for case in evaluation.cases]
        return all(score is not None and score >= bar for score in scores)

    def teaches_nothing(self, parent: Candidate) -> bool:
        """Whether every case was looked at, none is known to fail, and no look would be new."""
        if not (self._settings.reuse and self._settings.skip_perfect):
            return False
        seen = self._memory.train[parent.id]
        return all(case.id in seen for case in self._cases) and not self._failing(parent)

    def _failing(self, parent: Candidate) -> set[str]:
        return self._memory.failing(parent.id, below=self._settings.perfect_score - EPSILON)

    def _dull(self, before: Evaluation) -> bool:
        """Whether to look at another minibatch: a look that was had before costs nothing."""
        return self._settings.reuse and self._settings.skip_perfect and self.perfect(before)

    def _batch(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        return self._known_failures(parent, number, slot) or self._next(slot)

    def _known_failures(self, parent: Candidate, number: int, slot: int) -> Minibatch:
        """Every other time, where results are used again, only cases that are known to fail."""
        rng = self._run.rng("failures", number, slot)
        if not self._settings.reuse or rng.random() < 0.5:
            return ()
        failing = self._failing(parent)
        cases = [case for case in self._cases if case.id in failing]
        size = self._settings.minibatch
        return tuple(rng.sample(cases, size)) if len(cases) >= size else ()

    def _next(self, slot: int) -> Minibatch:
        # Each slot has minibatches of its own: which comes first may not depend on who is faster.
        looked = self._looked.get(slot, 0)
        self._looked[slot] = looked + 1
        return minibatch(
            self._cases,
            self._settings.minibatch,
            looked * self._settings.proposals_per_round + slot,
            lambda number: self._run.rng("minibatches", number),
        )


# -- The pool -------------------------------------------------------------------------------------


EPSILON_GREEDY = 0.1
"""How often `epsilon_greedy` takes anyone instead of the best."""
TOP_K = 5
"""Of how many of the frontier `top_k_pareto` takes one."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A candidate in the pool."""

    candidate: Candidate
    holdout: Evaluation
    score: float
    """On holdout; the lowest there is where nobody can tell."""
    compared: Evaluation
    """Holdout as others are held against it: where a metric applied to who led and does not apply
    any more, at its worst."""
    does: Standards


class Pool:
    """Candidates in the order in which they came; the first is the baseline."""

    def __init__(self, objective: Objective, frontier: FrontierType) -> None:
        self._objective = objective
        self._frontier: FrontierType = frontier
        self.members: list[Member] = []
        self.leader = 0
        """The number of the incumbent."""
        self._parents: dict[str, tuple[str, ...]] = {}
        """Of every candidate that was met, in the pool or not."""

    def add(self, candidate: Candidate, holdout: Evaluation, *, leads: bool) -> Member:
        """Take a candidate in."""
        compared = holdout
        if self.members:
            before = self.incumbent.holdout
            compared = paired(holdout, before, self._objective.weights).own_at(0.0)
        score = self._objective.measure(compared).score
        member = Member(
            candidate=candidate,
            holdout=holdout,
            score=0.0 if score is None else score,
            compared=compared,
            does=standards(compared, self._objective, self._frontier),
        )
        self.members.append(member)
        self.met(candidate)
        if leads:
            self.leader = len(self.members) - 1
        return member

    @property
    def incumbent(self) -> Member:
        """Who leads."""
        return self.members[self.leader]

    def parent(self, selection: ParentSelection, rng: random.Random) -> Member:
        """Whom to build on."""
        if selection in ("current_best", "trail"):
            return self.incumbent
        if selection == "epsilon_greedy":
            anyone = rng.random() < EPSILON_GREEDY
            return rng.choice(self.members) if anyone else self.incumbent
        counts = presence(self.frontier())
        numbers = sorted(counts)
        if selection == "top_k_pareto":
            numbers = sorted(numbers, key=lambda each: (-self.members[each].score, each))[:TOP_K]
        if not numbers:
            return self.incumbent
        chosen = rng.choices(numbers, weights=[counts[each] for each in numbers])[0]
        return self.members[chosen]

    def frontier(self) -> _Fronts:
        """Who is best at what, the dominated left out."""
        fronts = fronts_of([member.does for member in self.members])
        return without_dominated(fronts, [member.score for member in self.members])

    def best_at_metrics(self) -> dict[str, list[int]]:
        """For each metric, the numbers of the candidates with the best mean."""
        objective = [
            standards(member.compared, self._objective, "objective") for member in self.members
        ]
        fronts = fronts_of(objective)
        return {
            metric: sorted(fronts.get(("metric", metric), frozenset()))
            for metric in self._objective.weights
        }

    def met(self, candidate: Candidate) -> None:
        """Remember where a candidate comes from: others may descend from it."""
        self._parents.setdefault(candidate.id, candidate.parents)

    def holds(self, candidate: Candidate) -> bool:
        """Whether a candidate is in the pool."""
        return any(each.candidate.id == candidate.id for each in self.members)

    def ancestors(self, member: Member) -> set[str]:
        """The ids of the members that a member descends from, whatever lies between."""
        names: set[str] = set()
        waiting = list(member.candidate.parents)
        while waiting:
            name = waiting.pop()
            if name not in names:
                names.add(name)
                waiting += self._parents.get(name, ())
        return names & {each.candidate.id for each in self.members}

    def named(self, name: str) -> Member:
        """The member with this candidate."""
        return next(each for each in self.members if each.candidate.id == name)


@dataclass(frozen=True)
class Lineage:
    """Two members and what they have in common."""

    ancestor: Member
    pair: Sequence[Member]

    @cached_property
    def better(self) -> Member:
        """The one with the higher score; the earlier at a tie."""
        return max(self.pair, key=lambda each: each.score)
