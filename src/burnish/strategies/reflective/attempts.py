"""Attempts of reflective search, its settings, and the pool that good attempts join.

An attempt is a rewrite or a merge on its way to a verdict. The pool has the measured candidates:
their Pareto frontier, whom to build on, and whom to merge.
"""

import random
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from burnish.core.cases import Case, Split
from burnish.core.comparisons import Pair, cases, compare, decide, paired, versus
from burnish.core.content import AtLeastOne, Json, NoneOrMore
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.surfaces import EPSILON, Candidate, Origin, Value, diff
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails, Verdict
from burnish.runs.run import Run
from burnish.runs.spec import StrategySettings
from burnish.strategies.partial_evaluations import Heat, Stopped
from burnish.system.settings import Door

ParentSelection: TypeAlias = Literal[
    "trail", "pareto", "current_best", "epsilon_greedy", "top_k_pareto"
]
"""`trail` builds on the last candidate that beat its parent on a minibatch, and uses holdout
only now and then; the others build on candidates that were run over holdout."""
FieldSelection: TypeAlias = Literal["round_robin", "all", "random"]
FrontierType: TypeAlias = Literal["instance", "objective", "hybrid", "cartesian"]


class ReflectiveSettings(StrategySettings):
    """How the search works."""

    fields: Annotated[tuple[str, ...], Door(file=False)] = ()
    """The text surfaces to rewrite; all of the target's if none is named."""
    parent_selection: ParentSelection = "trail"
    """Which candidate a round builds on."""
    field_selection: FieldSelection = "round_robin"
    """Which texts a round rewrites."""
    frontier: FrontierType = "instance"
    """What candidates are compared by when parents are chosen."""
    minibatch: AtLeastOne = 3
    """Train cases that a round reflects on."""
    history_top_k: Annotated[int, Field(ge=0, le=5)] = 2
    """Earlier replies to each case, best first, that the reflector sees."""
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    skip_perfect: bool = True
    """Leave out cases with `perfect_score`, and rounds in which all cases have it."""
    merge: bool = False
    """Now and then merge two candidates that are good at different cases."""
    max_merges: NoneOrMore = 5
    """The most merges in a run."""
    merge_overlap: AtLeastOne = 5
    """Holdout cases that both sides of a merge must have in common."""
    reuse: bool = True
    """Reuse measurements of a candidate; otherwise each evaluation is a new draw."""
    racing: bool = True
    """Stop evaluating when the verdict is clear; run a provisional winner again."""
    proposals_per_round: AtLeastOne = 1
    """Rewrites that are proposed side by side."""

    @property
    def may_use_part_of_holdout(self) -> bool:
        """Whether small limits make it decide on a part of holdout."""
        return self.racing and self.parent_selection == "trail"


ENDS = {
    "no_failures": "no failing case is left to diagnose",
    "nothing_new": "too many rounds without a candidate worth running",
    "reflector_failed": "the reflector no longer gives usable answers",
    "baseline_missing": "the baseline could not be measured",
}
"""Why a search ends, in words, beyond its budget."""
REFLECTIVE, MERGE = "reflective", "merge"
"""Kinds of attempts, which are the phases of their trials; a person's own is another."""
OUTDONE = "outdone"
"""The code of an attempt that beat its parent while another of its round did better still."""


@dataclass(frozen=True, kw_only=True)
class ReflectiveAttempt:
    """What is known so far; each stage returns a copy with more in it."""

    kind: str
    round: int
    parents: tuple[Candidate, ...]
    """What it was made from; of two, the better first."""
    fields: tuple[str, ...] = ()
    minibatch: tuple[Case, ...] = ()
    before: Evaluation | None = None
    """The parent on the minibatch."""
    left_out: int = 0
    """Failed cases that could not be shown."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    proposals: tuple[Proposal, ...] = ()
    source: Mapping[str, Json] | None = None
    """Who sent it, if a person did."""
    candidate: Candidate | None = None
    skipped: str = ""
    """Why there is no candidate although nothing is wrong."""
    problems: tuple[Problem, ...] = ()
    after: Evaluation | None = None
    """The candidate on the minibatch."""
    heat: Heat | None = None
    """The candidate on holdout."""
    decision: Decision | None = None

    @property
    def parent(self) -> Candidate:
        return self.parents[0]

    @property
    def verdict(self) -> Verdict | None:
        return self.decision.verdict if self.decision else None

    @property
    def over(self) -> bool:
        """Whether there is nothing more to find out."""
        rejected = self.verdict not in (None, Verdict.ACCEPT)
        return rejected or bool(self.skipped or self.problems)

    def trial(self, objective: Objective) -> Trial:
        why = (Problem(message=self.skipped),) if self.skipped else self.problems
        details = ReflectiveDetails(
            proposal_source=self.source,
            parents=tuple(each.id for each in self.parents),
            minibatch=tuple(case.id for case in self.minibatch),
            parent_score=None if self.before is None else objective.measure(self.before).score,
            candidate_score=None if self.after is None else objective.measure(self.after).score,
            diagnosis=dict(self.diagnosis),
            failed_cases_left_out=self.left_out,
            skipped=self.skipped or None,
            whole_holdout=self.heat is not None and self.heat.whole,
        )
        unchanged = replace(self.parent, origin=Origin(kind="parent", by=REFLECTIVE))
        return Trial(
            candidate=self.candidate or unchanged,
            phase=self.kind,
            cycle=self.round,
            touched=self.fields,
            proposals=self.proposals,
            problems=why,
            train=None if self.after is None else SplitResult.of(self.after, objective),
            holdout=None if self.heat is None else SplitResult.of(self.heat.evaluation, objective),
            decision=None if why else self.decision,
            details=details.to_json(),
        )


@dataclass(frozen=True, kw_only=True)
class ReflectiveDetails(TrialDetails):
    """What the journal keeps about an attempt beyond what every trial has."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional - {
        *("parent_score", "skipped", "whole_holdout"),
    }

    parents: tuple[str, ...] = ()
    minibatch: tuple[str, ...] = ()
    """The train cases that the reflector was shown."""
    candidate_score: float | None = None
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    """By text, what the reflector says is wrong with it."""
    failed_cases_left_out: int = 0
    """Failing cases that the reflector was not shown."""

    @property
    def holdout_is_whole(self) -> bool:
        """Whether all of holdout was run; true for trials that do not say, such as the baseline."""
        return self.whole_holdout is not False


# -- The pool --------------------------------------------------------------------------------------


Standards: TypeAlias = Mapping[Hashable, float]
"""How one candidate scores on each thing that the frontier compares."""
_Fronts: TypeAlias = Mapping[Hashable, frozenset[int]]
"""For each of these things, the numbers of the candidates that are best at it."""

EPSILON_GREEDY = 0.1
"""How often `epsilon_greedy` takes anyone instead of the best."""
TOP_K = 5
"""Of how many of the frontier `top_k_pareto` takes one."""
SUBSAMPLE = 5
"""Holdout cases on which a merged candidate must hold its own before it is run over all."""


def standards(evaluation: Evaluation, objective: Objective, kind: FrontierType) -> Standards:
    """How a candidate scores on each thing that this type of frontier compares."""
    values: dict[Hashable, float] = {}
    if kind in ("instance", "hybrid"):
        scores = ((case, objective.case_score(evaluation, case)) for case in evaluation.cases)
        values |= {("case", case): score for case, score in scores if score is not None}
    if kind in ("objective", "hybrid"):
        values |= {("metric", metric): mean for metric, mean in _means(evaluation, objective)}
    if kind == "cartesian":
        values |= {
            (case, metric): mean
            for case in evaluation.cases
            for metric, mean in _means(evaluation.only({case}), objective)
        }
    return values


def _means(evaluation: Evaluation, objective: Objective) -> Iterator[tuple[str, float]]:
    for metric in objective.weights:
        if (mean := evaluation.mean_of(metric)) is not None:
            yield metric, mean


class Fronts:
    """Who is best at each thing, with ties, as candidates come."""

    def __init__(self) -> None:
        self._best: dict[Hashable, dict[int, float]] = {}
        """For each thing, the scores of those that are best at it, by their numbers."""

    def add(self, number: int, scores: Standards) -> None:
        """Compare another candidate with the best so far; who was passed once never leads again."""
        for thing, score in scores.items():
            front = {**self._best.get(thing, {}), number: score}
            least = max(front.values()) - EPSILON
            self._best[thing] = {each: value for each, value in front.items() if value >= least}

    @property
    def now(self) -> _Fronts:
        """The candidates that are best at each thing."""
        return {thing: frozenset(front) for thing, front in self._best.items()}


def without_dominated(fronts: _Fronts, scores: Sequence[float]) -> _Fronts:
    """Leave out, worst first, every candidate that is nowhere the only best one."""
    remaining = {number for front in fronts.values() for number in front}
    for number in sorted(remaining, key=lambda each: (scores[each], -each)):
        others = remaining - {number}
        if all(front & others for front in fronts.values() if number in front):
            remaining = others
    return {thing: front & remaining for thing, front in fronts.items()}


def presence(fronts: _Fronts) -> Counter[int]:
    """At how many things each candidate is best."""
    return Counter(number for front in fronts.values() for number in sorted(front))


@dataclass(frozen=True, kw_only=True)
class Member:
    """A candidate in the pool."""

    candidate: Candidate
    holdout: Evaluation
    score: float
    """On holdout; 0 if it is unknown."""
    standards: Standards


class Pool:
    """Candidates in the order in which they came; the first is the baseline."""

    def __init__(self, objective: Objective, frontier: FrontierType) -> None:
        self._objective = objective
        self._frontier: FrontierType = frontier
        self.members: list[Member] = []
        self._fronts = Fronts()
        self._leader = 0
        self._parents: dict[str, tuple[str, ...]] = {}
        """The parents of every candidate seen, in the pool or not."""

    def add(self, candidate: Candidate, holdout: Evaluation, *, leads: bool) -> Member:
        """Add a measured candidate."""
        compared = holdout
        if self.members:
            # A metric that applied to the incumbent but not to this candidate counts as its worst.
            incumbent = self.incumbent.holdout
            compared = paired(holdout, incumbent, self._objective.weights).own_at(0.0)
        member = Member(
            candidate=candidate,
            holdout=holdout,
            score=self._objective.measure(compared).score or 0.0,
            standards=standards(compared, self._objective, self._frontier),
        )
        self._fronts.add(len(self.members), member.standards)
        self.members.append(member)
        self.remember(candidate)
        if leads:
            self._leader = len(self.members) - 1
        return member

    @property
    def incumbent(self) -> Member:
        return self.members[self._leader]

    def parent(self, selection: ParentSelection, rng: random.Random) -> Member:
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
        """Who is best at what, without dominated members."""
        return without_dominated(self._fronts.now, [member.score for member in self.members])

    def remember(self, candidate: Candidate) -> None:
        """Remember the parents of a candidate: others may descend from it."""
        self._parents.setdefault(candidate.id, candidate.parents)

    def holds(self, candidate: Candidate) -> bool:
        return any(each.candidate.id == candidate.id for each in self.members)

    def ancestors(self, member: Member) -> list[Member]:
        """The members that a member descends from, directly or not."""
        names: set[str] = set()
        queue = list(member.candidate.parents)
        while queue:
            name = queue.pop()
            if name not in names:
                names.add(name)
                queue += self._parents.get(name, ())
        return [each for each in self.members if each.candidate.id in names]


# -- Merging --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lineage:
    """Two members and the ancestor they share."""

    ancestor: Member
    pair: tuple[Member, Member]

    @property
    def better(self) -> Member:
        """The one with the higher score; the earlier at a tie."""
        return max(self.pair, key=lambda each: each.score)


def mergeable(pool: Pool, *, overlap: int) -> list[Lineage]:
    """Pairs on the frontier that share an ancestor and do not descend from each other."""
    numbers = sorted(presence(pool.frontier()))
    pairs = combinations([pool.members[number] for number in numbers], 2)
    return [
        lineage
        for one, other in pairs
        if len(set(one.holdout.cases) & set(other.holdout.cases)) >= overlap
        for lineage in _lineages(pool, one, other)
    ]


def _lineages(pool: Pool, one: Member, other: Member) -> Iterator[Lineage]:
    """Shared ancestors that both are no worse than, and of which only one changed some text."""
    mine, theirs = pool.ancestors(one), pool.ancestors(other)
    if one in theirs or other in mine:
        return
    shared = [each for each in mine if each in theirs]
    for ancestor in sorted(shared, key=lambda each: each.candidate.id):
        complementary = any(
            (one.candidate.values[name] == text) != (other.candidate.values[name] == text)
            for name, text in ancestor.candidate.values.items()
        )
        if complementary and ancestor.score <= min(one.score, other.score) + EPSILON:
            yield Lineage(ancestor, (one, other))


def merged(lineage: Lineage, rng: random.Random) -> Candidate:
    """Each text from whoever changed it; if both did, from the better, at a tie at random."""
    one, other = lineage.pair
    values: dict[str, Value] = {}
    for name, original in lineage.ancestor.candidate.values.items():
        texts = (one.candidate.values[name], other.candidate.values[name])
        changed = [text for text in texts if text != original]
        if len(changed) < 2 or texts[0] == texts[1]:
            values[name] = changed[0] if changed else original
        elif abs(one.score - other.score) <= EPSILON:
            values[name] = rng.choice(texts)
        else:
            values[name] = lineage.better.candidate.values[name]
    origin = Origin(kind="merge", by="reflective", note="merge of two")
    return Candidate(values=values, parents=(one.candidate.id, other.candidate.id), origin=origin)


def merge_cases(
    lineage: Lineage, holdout: Sequence[Case], objective: Objective, rng: random.Random
) -> tuple[Case, ...]:
    """A few cases: where one is better, where the other is, and where neither is."""
    groups: dict[int, list[Case]] = {1: [], -1: [], 0: []}
    for case in holdout:
        one, other = (objective.case_score(each.holdout, case.id) for each in lineage.pair)
        if one is not None and other is not None:
            gain = one - other
            groups[0 if abs(gain) <= EPSILON else (1 if gain > 0 else -1)].append(case)
    share = -(-SUBSAMPLE // 3)
    chosen = [c for group in groups.values() for c in rng.sample(group, min(share, len(group)))]
    rest = [case for case in holdout if case not in chosen]
    more = rng.sample(rest, min(max(0, SUBSAMPLE - len(chosen)), len(rest)))
    return tuple([*chosen, *more][:SUBSAMPLE])


def as_good_as(merged: Evaluation, sides: Sequence[Evaluation], objective: Objective) -> Decision:
    """Whether a merged candidate scores no less than the better of its two sides."""
    pairs = [Pair(candidate=merged, incumbent=side) for side in sides]
    compared = [compare(pair, objective, max_missing=1.0) for pair in pairs]
    measured = [(each.candidate.score, each.incumbent.score) for each in compared]
    scores = [(new, old) for new, old in measured if new is not None and old is not None]
    if not scores:
        return decide("merge", "missing", "cannot tell: scores are missing", {})
    new, best = min(scores, key=lambda each: each[0] - each[1])
    left, sign, right = versus(new, best)
    code = "better" if new >= best - EPSILON else "worse"
    reason = f"{left} on {cases(len(merged.cases))} {sign} the better side's {right}"
    return decide("merge", code, reason, {"score": new, "better_side": best})


class Merges:
    """Makes one candidate of two, as often as the settings allow."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool) -> None:
        self._run = run
        self._settings = settings
        self._pool = pool
        self._ids: set[str] = set()
        self.due = False
        """Whether the pool has grown since the last look for a merge."""

    def next(self, number: int) -> tuple[Lineage, ReflectiveAttempt] | None:
        """A merge for this round, if one is due and two candidates complement each other."""
        allowed = self._settings.merge and len(self._ids) < self._settings.max_merges
        if not (allowed and self.due):
            return None
        self.due = False
        rng = self._run.rng("merge", number)
        lineages = mergeable(self._pool, overlap=self._settings.merge_overlap)
        rng.shuffle(lineages)
        for lineage in lineages:
            candidate = merged(lineage, rng)
            if candidate.id not in self._ids and not self._pool.holds(candidate):
                self._ids.add(candidate.id)
                return lineage, _merge(number, lineage, candidate)
        return None

    async def screened(self, attempt: ReflectiveAttempt, lineage: Lineage) -> ReflectiveAttempt:
        """In the classic loop, a merge must be no worse than either side on a few cases."""
        if attempt.over or attempt.candidate is None or self._settings.racing:
            return attempt
        run, repeats = self._run, self._settings.repeats
        rng = run.rng("merge cases", attempt.round)
        few = merge_cases(lineage, run.dataset.holdout, run.objective, rng)
        if run.stop_reason(run.estimate(Split.HOLDOUT, cases=few, repeats=repeats)) is not None:
            raise Stopped
        evaluation = await run.evaluate(
            attempt.candidate, split=Split.HOLDOUT, cases=few, repeats=repeats
        )
        sides = [each.holdout.only({case.id for case in few}) for each in lineage.pair]
        decision = as_good_as(evaluation, sides, run.objective)
        return replace(attempt, heat=Heat(evaluation=evaluation, whole=False), decision=decision)


def _merge(number: int, lineage: Lineage, candidate: Candidate) -> ReflectiveAttempt:
    better = lineage.better
    other = next(each for each in lineage.pair if each is not better)
    return ReflectiveAttempt(
        kind=MERGE,
        round=number,
        parents=(better.candidate, other.candidate),
        candidate=candidate,
        fields=tuple(change.surface for change in diff(better.candidate, candidate)),
    )
