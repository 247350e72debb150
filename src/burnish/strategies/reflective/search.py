"""The strategy `reflective`: rounds of reflecting, rewriting, screening and deciding."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import OfferRule, improves_on_minibatch
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, TextSurface
from burnish.core.trials import MAX_MISSING, SplitResult, Trial, Verdict
from burnish.runs.events import BASELINE, SearchEnded
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.run import Run
from burnish.strategies.partial_evaluations import (
    Holdout,
    LookSettings,
    Minibatch,
    SearchMemory,
    Stopped,
    Train,
    require_splits,
)
from burnish.strategies.reflective.attempts import (
    OUTDONE,
    REFLECTIVE,
    Merges,
    Pool,
    ReflectiveAttempt,
    ReflectiveSettings,
)
from burnish.strategies.reflective.reflection import (
    Proposer,
    Reflection,
    ReflectRequest,
)
from burnish.strategies.requirements import require_baseline
from burnish.strategies.trail import Trail, choose_holdout, fits, short_round

_VERSION = 3
IDLE_ROUNDS = 12
"""Rounds in a row without a candidate to run after which the search ends: so many, or two passes
over train if that is more."""


@dataclass(frozen=True, kw_only=True)
class Reflective:
    """Reflective search over the texts of a target."""

    reflector: Role[ReflectRequest, Reflection]
    settings: ReflectiveSettings = field(default_factory=ReflectiveSettings)
    name: str = "reflective"
    unit: str = ""
    """The number of each run in whose unit the winner is judged, if that is not the score."""

    @property
    def fingerprint(self) -> str:
        return short_id([_VERSION, self.settings.model_dump()])

    @property
    def offer_rule(self) -> OfferRule:
        if self.unit:
            return OfferRule(primary=self.unit, direction="maximize", accept_sigma=0.0)
        return OfferRule(accept_sigma=0.0)

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [self.reflector]

    def fields(self, target: Target) -> list[str]:
        """The texts to rewrite."""
        texts = [s.id for s in target.surfaces if isinstance(s, TextSurface)]
        return [name for name in texts if name in self.settings.fields or not self.settings.fields]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """The target must have texts, including those that are named, each within its bounds."""
        texts = {s.id: s for s in target.surfaces if isinstance(s, TextSurface)}
        problems = [
            Problem(where=name, message="there is no such text surface")
            for name in self.settings.fields
            if name not in texts
        ]
        if not texts:
            problems.append(Problem(message="there is no text to rewrite"))
        for name in self.fields(target):
            problems += texts[name].problems(target.baseline.values[name])
        return problems

    async def search(self, run: Run) -> None:
        require_splits(run.dataset, "reflective search")
        settings = self.settings
        memory = SearchMemory(objective=run.objective)
        proposer = Proposer(run, settings, self.reflector, memory)
        rounds = _Rounds(run, settings, proposer, self.fields(run.target), memory)
        await rounds.choose_holdout()
        if run.stop_reason(rounds.baseline_cost) is not None:
            return
        await rounds.baseline()
        if ended := await self._go(run, rounds):
            event = SearchEnded(cycle=rounds.number, reason=ended)
            run.tell(event, f"round:{rounds.number}:{ended}")

    async def _go(self, run: Run, rounds: "_Rounds") -> str:
        """Make rounds until there is a reason to stop; why there is nothing left to try, if so."""
        ended = ""
        try:
            while not ended and run.stop_reason(rounds.need) is None:
                await rounds.next()
                run.answering.require(self.reflector.name, after=GIVE_UP_AFTER)
                ended = rounds.ended
                if ended and await rounds.finish(ended):
                    ended = ""
        except Stopped:
            return ""
        return ended


def _looks(settings: ReflectiveSettings) -> LookSettings:
    return LookSettings(
        minibatch=settings.minibatch,
        repeats=settings.repeats,
        perfect_score=settings.perfect_score,
        skip_perfect=settings.skip_perfect,
        reuse=settings.reuse,
        slots=settings.proposals_per_round,
    )


class _Rounds:
    """Makes rounds; every attempt of a round is recorded, however it ends."""

    def __init__(
        self,
        run: Run,
        settings: ReflectiveSettings,
        proposer: Proposer,
        fields: Sequence[str],
        memory: SearchMemory,
    ) -> None:
        self._run = run
        self._settings = settings
        self._fields = tuple(fields)
        self._train = Train(run, _looks(settings), memory)
        self._holdout = Holdout(run, repeats=settings.repeats, racing=settings.racing)
        self._proposer = proposer
        self._pool = Pool(run.objective, settings.frontier)
        texts = len(self._fields) if settings.field_selection == "all" else 1
        self._asks = texts * settings.proposals_per_round
        """Requests to the reflector in a round."""
        self._trail = _Trail(run, settings, self._pool, asks=self._asks)
        self._merges = Merges(run, settings, self._pool)
        self.number = 0
        self._idle = 0
        """Rounds in a row in which no candidate was run."""
        self._short_of_ideas = False
        """Whether the last round was a short one without a candidate to run."""
        self._turns: dict[str, int] = {}
        """By parent, whose turn it is among the fields."""
        self._has_short_rounds = self._trail.active or not settings.racing
        """Whether limits decide how a search ends. With races and without a trail they do not: a
        run that goes on with more budget is the run that had it from the start."""

    async def choose_holdout(self) -> None:
        """Decide on a part of holdout if the limits leave too few rounds beside all of it."""
        if self._settings.may_use_part_of_holdout:
            repeats, cost = self._settings.repeats, self._round_cost()
            await choose_holdout(self._run, self._holdout, repeats=repeats, round_cost=cost)

    @property
    def baseline_cost(self) -> Spend:
        """What it costs to measure the baseline."""
        return self._holdout.once

    async def baseline(self) -> None:
        run, start = self._run, self._run.target.baseline
        cases, repeats = self._holdout.cases, self._settings.repeats
        evaluation = await run.evaluate(start, split=Split.HOLDOUT, cases=cases, repeats=repeats)
        result = SplitResult.of(evaluation, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
        run.advance(start)
        self._pool.add(start, evaluation, leads=True)
        require_baseline(run, evaluation, max_missing=MAX_MISSING)

    @property
    def need(self) -> Spend:
        """The least it costs to get another candidate to lead."""
        if self._trail.undecided is not None:
            return self._holdout.first_need
        whole = self._round_cost() + self._holdout.least
        return (
            whole
            if self._fits(whole) or not self._evidence(self.number + 1)
            else self._short_cost(0)
        )

    @property
    def ended(self) -> str:
        """Why the search is over although no limit is reached; empty while it is not."""
        if self._proposer.failures >= IDLE_ROUNDS:
            return "reflector_failed"
        if self._learned_all():
            return "no_failures"
        patience = max(IDLE_ROUNDS, 2 * self._train.in_a_pass)
        return "nothing_new" if self._idle >= patience else ""

    def _learned_all(self) -> bool:
        """Whether there is only one candidate to build on, and no train case left to learn from."""
        if self._settings.parent_selection not in ("trail", "current_best"):
            return False
        if self._settings.merge and self._merges.due:
            return False
        parent = self._trail.parent(self._run.rng("parent", self.number))
        return self._train.teaches_nothing(parent, again=self._looks_again)

    @property
    def _looks_again(self) -> bool:
        """Whether cases that were right are run again before there is nothing left to learn.

        A tip is raced or left instead, and nothing could win where holdout is solved.
        """
        return self._trail.tip is None and not self._holdout.is_solved(self._pool.incumbent.holdout)

    async def next(self) -> None:
        """One round. Raises Stopped when there is a reason to stop inside it."""
        self.number += 1
        attempts = await self._due()
        screened_on = None if attempts else await self._screening()
        if screened_on is not None:
            attempts = await self._reflect_again(screened_on)
        attempts = attempts or await self._merge() or await self._reflect()
        measured = any(each.after or each.heat for each in attempts)
        self._idle = 0 if measured else self._idle + 1
        self._short_of_ideas = screened_on is not None and not measured
        for attempt in attempts:
            await self._settle(attempt)

    async def finish(self, ended: str) -> bool:
        """Decide on the tip of the trail, or leave it; whether the search goes on from there."""
        if self._trail.undecided is None:
            return ended == "no_failures" and self._trail.leave()
        self.number += 1
        self._idle = 0
        for attempt in await self._race([self._trail.attempt(self.number)]):
            await self._settle(attempt)
        return True

    async def _due(self) -> list[ReflectiveAttempt]:
        """The tip of the trail, if this may be the last chance to run it over holdout."""
        if self._trail.undecided is None:
            return []
        if await self._trail.last_chance(self._round_cost() + self._holdout.need):
            return await self._race([self._trail.attempt(self.number)])
        self._require_room(self._round_cost())
        return []

    async def _merge(self) -> list[ReflectiveAttempt]:
        merge = self._merges.next(self.number)
        if merge is None:
            return []
        lineage, attempt = merge
        checked = await self._check([attempt])
        return await self._race([await self._merges.screened(checked[0], lineage)])

    async def _reflect(self) -> list[ReflectiveAttempt]:
        proposed = await self._proposer.propose(await self._start())
        screened = await self._screen(await self._check(proposed))
        if self._trail.active:
            room = self._round_cost() + self._holdout.need
            screened = await self._trail.follow(screened, room, once=self._holdout.once)
        return await self._race(screened)

    async def _reflect_again(self, screened_on: int) -> list[ReflectiveAttempt]:
        """A short round, on what is known of a parent: it pays for what is left to decide."""
        known = self._evidence(self.number)
        assert known is not None
        proposed = await self._proposer.propose([self._attempt(0, *known)])
        checked = await self._check(proposed)
        screened = await self._screen(checked, most=screened_on) if screened_on else checked
        return await self._race(screened)

    def _evidence(self, number: int) -> tuple[Candidate, Minibatch, Evaluation] | None:
        """Cases on which the parent of a short round is known to fail, if there are any."""
        if self._short_of_ideas or not self._has_short_rounds:
            return None
        chosen = self._trail.parent(self._run.rng("parent", number, 0))
        for parent in (chosen, self._pool.incumbent.candidate):
            if known := self._train.evidence(parent, number):
                return parent, *known
        return None

    async def _screening(self) -> int | None:
        """On how many cases the rewrite of a short round is screened; None for a whole round."""
        if not self._has_short_rounds:
            return None

        def known() -> int:
            evidence = self._evidence(self.number)
            return len(evidence[1]) if evidence else 0

        whole = self._round_cost() + self._holdout.least
        return await short_round(self._run, whole, known=known, cost=self._short_cost)

    async def _start(self) -> list[ReflectiveAttempt]:
        """For each proposal a parent, a minibatch, and how the parent does on it."""
        slots = range(self._settings.proposals_per_round)
        parents = [self._trail.parent(self._run.rng("parent", self.number, n)) for n in slots]
        looks = await self._train.instructive(
            parents,
            self.number,
            again=self._looks_again,
            room=lambda n: self._require_room(self._round_cost(looks=n) + self._holdout.least),
        )
        return [self._attempt(n, parents[n], *looks[n]) for n in slots]

    def _attempt(
        self, slot: int, parent: Candidate, batch: Minibatch, before: Evaluation
    ) -> ReflectiveAttempt:
        perfect = self._settings.skip_perfect and self._train.perfect(before)
        return ReflectiveAttempt(
            kind=REFLECTIVE,
            round=self.number,
            parents=(parent,),
            minibatch=batch,
            before=before,
            fields=self._choose_fields(parent, slot),
            skipped="subsample perfect" if perfect else "",
        )

    def _choose_fields(self, parent: Candidate, slot: int) -> tuple[str, ...]:
        fields = self._fields
        if self._settings.field_selection == "all":
            return fields
        if self._settings.field_selection == "random":
            return (self._run.rng("field", self.number, slot).choice(fields),)
        turn = self._turns.get(parent.id, 0)
        self._turns[parent.id] = turn + 1
        return (fields[turn % len(fields)],)

    async def _check(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """Reject bad candidates before anything is spent on them."""
        checked: list[ReflectiveAttempt] = []
        ids: set[str] = set()
        for attempt in attempts:
            candidate = attempt.candidate
            if attempt.over or candidate is None:
                checked.append(attempt)
                continue
            problems = await self._run.check(candidate, parent=attempt.parent)
            if not problems and candidate.id in ids:
                problems = [Problem(message="another proposal of this round is the same")]
            ids.add(candidate.id)
            checked.append(replace(attempt, problems=tuple(problems)))
        return checked

    async def _screen(
        self, attempts: Sequence[ReflectiveAttempt], *, most: int | None = None
    ) -> list[ReflectiveAttempt]:
        """On the minibatch it was made from, a candidate must do better than its parent."""
        open_attempts = [each for each in attempts if not each.over]
        looks = [
            (each.candidate, each.minibatch[:most])
            for each in open_attempts
            if each.candidate is not None
        ]
        evaluations = iter(await self._train.look(looks))
        return [each if each.over else self._compared(each, next(evaluations)) for each in attempts]

    def _compared(self, attempt: ReflectiveAttempt, after: Evaluation) -> ReflectiveAttempt:
        assert attempt.before is not None
        pair = Pair(candidate=after, incumbent=attempt.before.only(set(after.cases)))
        decision = improves_on_minibatch(objective=self._run.objective, minibatch=pair)
        return replace(attempt, after=after, decision=decision)

    async def _race(self, attempts: Sequence[ReflectiveAttempt]) -> list[ReflectiveAttempt]:
        """Run over holdout, against the incumbent at the start of the round."""
        candidates = [e.candidate for e in attempts if not e.over and e.candidate is not None]
        heats = iter(await self._holdout.heats(candidates, self._pool.incumbent.holdout))
        raced: list[ReflectiveAttempt] = []
        for attempt in attempts:
            if attempt.over:
                raced.append(attempt)
            else:
                heat = next(heats)
                raced.append(replace(attempt, heat=heat, decision=heat.lost))
        return raced

    async def _settle(self, attempt: ReflectiveAttempt) -> None:
        """Decide against the current incumbent, and record the attempt."""
        attempt = await self._decide(attempt)
        self._run.record(attempt.trial(self._run.objective))
        decision, candidate, heat = attempt.decision, attempt.candidate, attempt.heat
        leads = attempt.verdict is Verdict.ACCEPT
        if candidate is not None:
            if leads:
                self._run.advance(candidate)
            self._pool.remember(candidate)
            if heat is not None and heat.whole and attempt.verdict is not Verdict.CANNOT_TELL:
                self._pool.add(candidate, heat.evaluation, leads=leads)
                self._merges.due = True
        self._trail.settle(attempt)
        if candidate is not None:
            # A child continues where its parent was among the texts.
            self._turns.setdefault(candidate.id, self._turns.get(attempt.parent.id, 0))
        useful = attempt.verdict in (Verdict.ACCEPT, Verdict.KEEP)
        outdone = decision is not None and decision.code == OUTDONE
        if not (useful or outdone or attempt.skipped):
            self._proposer.remember_rejection(attempt)

    async def _decide(self, attempt: ReflectiveAttempt) -> ReflectiveAttempt:
        heat = attempt.heat
        if attempt.over or attempt.candidate is None or heat is None:
            return attempt
        incumbent = self._pool.incumbent.holdout
        heat, decision = await self._holdout.decided(attempt.candidate, heat, incumbent)
        if decision.verdict is Verdict.REJECT and not self._settings.racing:
            # The classic loop keeps every candidate that passed its minibatch.
            decision = replace(decision, verdict=Verdict.KEEP)
        return replace(attempt, heat=heat, decision=decision)

    def _round_cost(self, looks: int | None = None) -> Spend:
        """The most a round costs before holdout; `looks` at parents, by default one a proposal."""
        count = self._settings.proposals_per_round
        looks = count if looks is None else looks
        whole = self._train.cost(self._settings.minibatch)
        return whole.times(looks + count) + self._proposer.need(self._asks)

    def _short_cost(self, screened_on: int) -> Spend:
        """The least that a short round costs, with its decision."""
        asks = self._proposer.need(self._asks // self._settings.proposals_per_round)
        return self._train.cost(screened_on) + asks + self._holdout.least

    def _fits(self, need: Spend) -> bool:
        return fits(self._run, need)

    def _require_room(self, need: Spend) -> None:
        if self._run.stop_reason(need) is not None:
            raise Stopped


class _Trail(Trail[ReflectiveAttempt]):
    """The candidate to build on: the tip of a trail of rewrites that each beat their parent, or
    whatever the parent selection says."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool, *, asks: int) -> None:
        super().__init__(run, trials=settings.proposals_per_round, asks=asks)
        self._settings = settings
        self._pool = pool
        self.active = settings.parent_selection == "trail"
        """Whether there is a trail."""

    def parent(self, rng: random.Random) -> Candidate:
        if self.active and self.tip is not None:
            return self.tip
        return self._pool.parent(self._settings.parent_selection, rng).candidate

    async def follow(
        self, attempts: Sequence[ReflectiveAttempt], room: Spend, *, once: Spend
    ) -> list[ReflectiveAttempt]:
        """The attempts, of which the best is the next tip; it stays open if a race is due."""
        passed = [each for each in attempts if not each.over]
        if not passed:
            return list(attempts)
        best = max(passed, key=self._minibatch_gain)
        due = await self.is_due(room, once=once)
        followed: list[ReflectiveAttempt] = []
        for attempt in attempts:
            decision = attempt.decision
            if not attempt.over and decision is not None:
                if attempt is not best:
                    reason = f"{decision.reason}, but another proposal of the round did better"
                    reject = Verdict.REJECT
                    decision = replace(decision, verdict=reject, code=OUTDONE, reason=reason)
                elif not due:
                    decision = replace(decision, verdict=Verdict.KEEP, code="kept")
            followed.append(replace(attempt, decision=decision))
        return followed

    def _minibatch_gain(self, attempt: ReflectiveAttempt) -> float:
        assert attempt.after is not None
        assert attempt.before is not None
        pair = Pair(candidate=attempt.after, incumbent=attempt.before)
        return compare(pair, self._run.objective, max_missing=1.0).gain

    def attempt(self, number: int) -> ReflectiveAttempt:
        """The tip as a new attempt, to be decided on holdout."""
        made = self.undecided
        assert made is not None
        return ReflectiveAttempt(
            kind=made.kind,
            round=number,
            parents=made.parents,
            fields=made.fields,
            candidate=made.candidate,
        )

    def settle(self, attempt: ReflectiveAttempt) -> None:
        """Move the tip."""
        candidate, heat = attempt.candidate, attempt.heat
        if not self.active or candidate is None or attempt.problems:
            return
        leads = attempt.verdict is Verdict.ACCEPT
        if heat is not None and (leads or attempt.kind == REFLECTIVE):
            self.raced(candidate, heat, leads=leads)
        elif heat is None and attempt.verdict is Verdict.KEEP:
            self.keep(candidate, attempt)
