"""Attempts: a rewrite or a merge on its way from its parents to a verdict."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar

from burnish.core.cases import Case, Split
from burnish.core.comparisons import Pair, cases, compare, decide, versus
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.money import Spend
from burnish.core.surfaces import EPSILON, Candidate, Origin, Value, diff
from burnish.core.trials import (
    Decision,
    Proposal,
    SplitResult,
    Standing,
    Trial,
    TrialDetails,
    Verdict,
)
from burnish.journal.limits import Budget
from burnish.runs.run import Run
from burnish.strategies.reflective.pool import Lineage, Member, Pool, presence
from burnish.strategies.reflective.race import Heat, Stopped
from burnish.strategies.reflective.settings import ReflectiveSettings

REFLECTIVE, MERGE = "reflective", "merge"
"""Kinds of attempts, which are the phases of their trials."""
_NOBODY = Origin(kind="parent", by=REFLECTIVE)
"""Of the candidate in a row in which nothing was proposed: its parent, as it was."""
PERFECT = "subsample perfect"
NOTHING_TO_SHOW = "nothing to show"
_OUTDONE = "outdone"
"""The code of what did better than its parent, beside something that did better still."""


@dataclass(frozen=True, kw_only=True)
class ReflectiveAttempt:
    """What is known so far; each stage gives the next one, with more in it."""

    kind: str
    round: int
    parents: tuple[Candidate, ...]
    fields: tuple[str, ...] = ()
    minibatch: tuple[Case, ...] = ()
    before: Evaluation | None = None
    """The parent on the minibatch."""
    left_out: int = 0
    """Failed cases that could not be shown."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    proposals: tuple[Proposal, ...] = ()
    candidate: Candidate | None = None
    skipped: str = ""
    """Why there is no candidate, though nothing is wrong."""
    problems: tuple[Problem, ...] = ()
    after: Evaluation | None = None
    """The candidate on the minibatch."""
    heat: Heat | None = None
    """The candidate on holdout."""
    decision: Decision | None = None
    """What turned it down, or let it lead."""

    @property
    def over(self) -> bool:
        """Whether there is nothing more to find out."""
        turned_down = self.decision is not None and not self.decision.accepted
        return bool(self.skipped or self.problems) or turned_down

    @property
    def kept(self) -> bool:
        """Whether it is built on, though it does not lead."""
        return self.decision is not None and self.decision.verdict is Verdict.KEEP

    @property
    def outdone(self) -> bool:
        """Whether it was good, and another proposal of its round better."""
        return self.decision is not None and self.decision.code == _OUTDONE

    @property
    def unknown(self) -> bool:
        """Whether too much is missing to tell what it is worth."""
        return self.decision is not None and self.decision.verdict is Verdict.CANNOT_TELL

    @property
    def why(self) -> str:
        """Why it was turned down, or not."""
        reason = self.decision.reason if self.decision else ""
        return self.skipped or "; ".join(map(str, self.problems)) or reason

    @property
    def parent(self) -> Candidate:
        """What it was made from; of two, the better."""
        return self.parents[0]

    def trial(self, objective: Objective) -> Trial:
        """The row of the ledger."""
        why = (Problem(message=self.skipped),) if self.skipped else self.problems
        return Trial(
            candidate=self.candidate or replace(self.parent, origin=_NOBODY),
            phase=self.kind,
            cycle=self.round,
            touched=self.fields,
            proposals=self.proposals,
            problems=why,
            train=None if self.after is None else SplitResult.of(self.after, objective),
            holdout=None if self.heat is None else SplitResult.of(self.heat.evaluation, objective),
            decision=None if why else self.decision,
            details=self._details(objective).to_json(),
        )

    def _details(self, objective: Objective) -> "ReflectiveDetails":
        return ReflectiveDetails(
            parents=tuple(each.id for each in self.parents),
            minibatch=tuple(case.id for case in self.minibatch),
            parent_score=_score(self.before, objective),
            candidate_score=_score(self.after, objective),
            diagnosis=dict(self.diagnosis),
            failed_cases_left_out=self.left_out,
            skipped=self.skipped or None,
            whole_holdout=self.heat is not None and self.heat.whole,
        )


@dataclass(frozen=True, kw_only=True)
class ReflectiveDetails(TrialDetails):
    """What a round keeps of each of its trials."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional - {
        *("parent_score", "skipped", "whole_holdout"),
    }

    parents: tuple[str, ...] = ()
    """The ids of the candidates that this one was made of."""
    minibatch: tuple[str, ...] = ()
    """The few cases of train that were reflected on."""
    candidate_score: float | None = None
    """On the minibatch."""
    diagnosis: Mapping[str, str] = field(default_factory=dict[str, str])
    """By text, what the reflector said is wrong with it."""
    failed_cases_left_out: int = 0
    """Failing cases that the reflector was not shown."""

    @property
    def holdout_is_whole(self) -> bool:
        """Whether all of holdout was run; a trial that does not tell, such as the start, did."""
        return self.whole_holdout is not False


def _score(evaluation: Evaluation | None, objective: Objective) -> float | None:
    return None if evaluation is None else objective.measure(evaluation).score


# -- Merging --------------------------------------------------------------------------------------


SUBSAMPLE = 5
"""Holdout cases on which a merged candidate must hold its own before it is run over all."""


def mergeable(pool: Pool, *, overlap: int) -> list[Lineage]:
    """Pairs of the frontier that descend from one candidate and from neither of each other."""
    numbers = sorted(presence(pool.frontier()))
    pairs = combinations([pool.members[number] for number in numbers], 2)
    return [
        lineage
        for one, other in pairs
        if len(set(one.holdout.cases) & set(other.holdout.cases)) >= overlap
        for lineage in _lineages(pool, one, other)
    ]


def merged(lineage: Lineage, rng: random.Random) -> Candidate:
    """Each text from whoever changed it; where both did, from the better, by lot at a tie."""
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


def deciding_cases(
    lineage: Lineage, holdout: Sequence[Case], objective: Objective, rng: random.Random
) -> tuple[Case, ...]:
    """A few cases: where one is better, where the other is, and where neither is."""
    one, other = lineage.pair
    groups: dict[int, list[Case]] = {1: [], -1: [], 0: []}
    for case in holdout:
        scores = [objective.case_score(each.holdout, case.id) for each in (one, other)]
        both = [score for score in scores if score is not None]
        if len(both) == 2:
            gain = both[0] - both[1]
            groups[0 if abs(gain) <= EPSILON else (1 if gain > 0 else -1)].append(case)
    share = -(-SUBSAMPLE // 3)
    chosen = [c for group in groups.values() for c in rng.sample(group, min(share, len(group)))]
    rest = [case for case in holdout if case not in chosen]
    more = rng.sample(rest, min(max(0, SUBSAMPLE - len(chosen)), len(rest)))
    return tuple([*chosen, *more][:SUBSAMPLE])


def as_good_as(merged: Evaluation, sides: Sequence[Evaluation], objective: Objective) -> Decision:
    """Whether a merged candidate scores no less than the better of its two sides."""
    pairs = [Pair(candidate=merged, incumbent=side) for side in sides]
    seen = [compare(pair, objective, max_missing=1.0) for pair in pairs]
    measured = [(s.candidate.score, s.incumbent.score) for s in seen]
    scores = [(new, old) for new, old in measured if new is not None and old is not None]
    if not scores:
        return decide("merge", "missing", "cannot tell: scores are missing", {})
    new, best = min(scores, key=lambda each: each[0] - each[1])
    left, sign, right = versus(new, best)
    code = "better" if new >= best - EPSILON else "worse"
    reason = f"{left} on {cases(len(merged.cases))} {sign} the better side's {right}"
    return decide("merge", code, reason, {"score": new, "better_side": best})


def _lineages(pool: Pool, one: Member, other: Member) -> Iterator[Lineage]:
    """Common ancestors that both improved on, each in texts of its own."""
    mine, theirs = pool.ancestors(one), pool.ancestors(other)
    if one.candidate.id in theirs or other.candidate.id in mine:
        return
    for name in sorted(mine & theirs):
        ancestor = pool.named(name)
        better = ancestor.score <= min(one.score, other.score) + EPSILON
        if better and _complementary(ancestor.candidate, one.candidate, other.candidate):
            yield Lineage(ancestor, (one, other))


def _complementary(ancestor: Candidate, one: Candidate, other: Candidate) -> bool:
    """Whether some text was changed by one of them only: otherwise there is nothing to merge."""
    return any(
        (one.values[name] == original) != (other.values[name] == original)
        for name, original in ancestor.values.items()
    )


# -- Merges ---------------------------------------------------------------------------------------


class Merges:
    """Makes one candidate of two, as often as is allowed."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool) -> None:
        self._run = run
        self._settings = settings
        self._pool = pool
        self._made: set[str] = set()
        self.due = False
        """Whether someone came into the pool since it was last looked at."""

    def next(self, number: int) -> tuple[Lineage, Candidate] | None:
        """A merge, if one is due and two candidates have something to give to each other."""
        allowed = self._settings.merge and len(self._made) < self._settings.max_merges
        if not (allowed and self.due):
            return None
        self.due = False
        rng = self._run.rng("merge", number)
        lineages = mergeable(self._pool, overlap=self._settings.merge_overlap)
        rng.shuffle(lineages)
        for lineage in lineages:
            candidate = merged(lineage, rng)
            if candidate.id not in self._made and not self._pool.holds(candidate):
                self._made.add(candidate.id)
                return lineage, candidate
        return None

    def attempt(self, number: int, lineage: Lineage, candidate: Candidate) -> ReflectiveAttempt:
        """The merge as an attempt; of its two parents, the better is the first."""
        better = lineage.better
        other = next(each for each in lineage.pair if each is not better)
        return ReflectiveAttempt(
            kind=MERGE,
            round=number,
            parents=(better.candidate, other.candidate),
            candidate=candidate,
            fields=tuple(change.surface for change in diff(better.candidate, candidate)),
        )

    async def held_its_own(self, attempt: ReflectiveAttempt, lineage: Lineage) -> ReflectiveAttempt:
        """In the classic loop, a merge must be no worse than either side on a few cases."""
        if attempt.over or attempt.candidate is None or self._settings.racing:
            return attempt
        run, repeats = self._run, self._settings.repeats
        rng = run.rng("merge cases", attempt.round)
        few = deciding_cases(lineage, run.dataset.holdout, run.objective, rng)
        if run.stop_reason(run.estimate(Split.HOLDOUT, cases=few, repeats=repeats)) is not None:
            raise Stopped
        evaluation = await run.evaluate(
            attempt.candidate, split=Split.HOLDOUT, cases=few, repeats=repeats
        )
        sides = [each.holdout.only({case.id for case in few}) for each in lineage.pair]
        held = as_good_as(evaluation, sides, run.objective)
        return replace(attempt, heat=Heat(evaluation=evaluation, whole=False), decision=held)


# -- The trail ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _LastChance:
    """Whether the limits leave no room for another round, as the journal keeps it."""

    now: bool


class Trail:
    """Where the search stands; without a trail, wherever the selection says."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool) -> None:
        self._run = run
        self._settings = settings
        self._pool = pool
        self._tip: Candidate | None = None
        """None where the tip is the incumbent."""
        self._asked = 0
        """Metric calls that were spent when holdout was last asked."""
        self._undecided: ReflectiveAttempt | None = None
        """The attempt that made the tip, while holdout was not asked about it."""

    @property
    def waiting(self) -> bool:
        """Whether holdout was never asked about the tip."""
        return self._undecided is not None

    @property
    def followed_here(self) -> bool:
        """Whether there is a trail."""
        return self._settings.parent_selection == "trail"

    def parent(self, rng: random.Random) -> Candidate:
        """Whom to build on."""
        if self.followed_here and self._tip is not None:
            return self._tip
        return self._pool.parent(self._settings.parent_selection, rng).candidate

    async def followed(
        self, attempts: Sequence[ReflectiveAttempt], room: Spend, *, asks: int
    ) -> list[ReflectiveAttempt]:
        """The attempts, of which the best is the next tip; holdout is asked if that is due.

        Asking costs as much as was spent since it was asked before: so at most half of the
        budget goes into deciding. Where it may be the last chance, it is asked at once.
        """
        passed = [each for each in attempts if not each.over]
        if not self.followed_here or not passed:
            return list(attempts)
        best = max(passed, key=lambda each: _gain(each, self._run.objective))
        whole = self._run.estimate(Split.HOLDOUT, repeats=self._settings.repeats).metric_calls
        due = self._spent - self._asked >= whole
        due = due or await self.last_chance(room, asks=asks, screened=True)
        return [
            each if each.over else (_next(each, due=due) if each is best else _outdone(each))
            for each in attempts
        ]

    def attempt(self, number: int) -> ReflectiveAttempt:
        """The tip as an attempt of its own, to be decided on holdout."""
        made = self._undecided
        assert made is not None
        return ReflectiveAttempt(
            kind=made.kind,
            round=number,
            parents=made.parents,
            fields=made.fields,
            candidate=made.candidate,
        )

    def settled(self, attempt: ReflectiveAttempt) -> None:
        """Go on from here."""
        candidate, heat = attempt.candidate, attempt.heat
        if not self.followed_here or candidate is None or attempt.problems:
            return
        leads = attempt.decision is not None and attempt.decision.accepted
        if heat is not None and (leads or attempt.kind != MERGE):
            self._asked, self._undecided = self._spent, None
            # A tip that is far behind was luck on the minibatches; one that is not may get there.
            self._tip = None if leads or heat.behind else candidate
        elif heat is None and attempt.kept:
            self._tip, self._undecided = candidate, attempt

    async def last_chance(self, room: Spend, *, asks: int, screened: bool = False) -> bool:
        """Whether the limits leave no room for another round and for holdout after it.

        `room` is what these cost, `asks` how often the reflector is asked in a round; `screened`
        says that the round under way is paid for. The answer is kept in the journal: a resume
        with other limits does not rewrite what was done. A fork has limits of its own, and does
        not take it from the run before.
        """
        run = self._run
        count = self._settings.proposals_per_round
        chance = await run.remember(
            "last chance",
            {
                "trial": run.trial,
                "screened": screened,
                "forked_from": run.directory.header.forked_from,
            },
            _LastChance,
            lambda: _LastChance(
                now=nearly_over(
                    run.budget, run.standing, room + run.reserve, trials=count, proposals=asks
                )
            ),
        )
        return chance.now

    @property
    def _spent(self) -> int:
        return self._run.spent.metric_calls


def nearly_over(
    budget: Budget, standing: Standing, need: Spend, *, trials: int = 1, proposals: int = 1
) -> bool:
    """Whether a limit that can be foreseen would be reached by one more round.

    Of a round's candidates one is built on at most.
    """
    counts = (
        (budget.max_trials, standing.trials + trials),
        (budget.patience, standing.since_accept + trials),
        (budget.max_proposals, standing.proposals + proposals),
        (budget.max_tracked_candidates, standing.tracked_candidates + 1),
    )
    near = any(limit is not None and count >= limit for limit, count in counts)
    return near or budget.spend_limit(standing.spent, need) is not None


def _next(attempt: ReflectiveAttempt, *, due: bool) -> ReflectiveAttempt:
    assert attempt.decision is not None
    if due:
        return attempt
    decision = replace(attempt.decision, verdict=Verdict.KEEP, code="kept")
    return replace(attempt, decision=decision)


def _outdone(attempt: ReflectiveAttempt) -> ReflectiveAttempt:
    assert attempt.decision is not None
    reason = f"{attempt.decision.reason}, but another proposal of the round did better"
    outdone = replace(attempt.decision, verdict=Verdict.REJECT, code=_OUTDONE, reason=reason)
    return replace(attempt, decision=outdone)


def _gain(attempt: ReflectiveAttempt, objective: Objective) -> float:
    """How much better than its parent an attempt did on its minibatch."""
    assert attempt.after is not None
    assert attempt.before is not None
    pair = Pair(candidate=attempt.after, incumbent=attempt.before)
    return compare(pair, objective, max_missing=1.0).gain
