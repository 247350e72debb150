"""The strategy `auto`: proposers of several strategies share one incumbent and one budget.

A bandit over gain per call chooses who proposes next. Candidates that beat their parent on a
minibatch form a trail, on whose tip holdout decides now and then.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.content import AtLeastOne, Json, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import OfferRule, improves_on_minibatch
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, DemosSurface, Origin
from burnish.core.trials import MAX_MISSING, SplitResult, Trial, TrialDetails, Verdict
from burnish.runs.events import BASELINE, PERSON, EventData, SearchEnded
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, ProposerOffer, Tried
from burnish.runs.spec import StrategySettings
from burnish.strategies.partial_evaluations import (
    Heat,
    Holdout,
    LookSettings,
    Minibatch,
    SearchMemory,
    Stopped,
    Train,
    require_splits,
)
from burnish.strategies.requirements import require_baseline
from burnish.strategies.trail import Trail, choose_holdout, fits, short_round

# -- The bandit: who proposes next, and who stops because it does not pay --------------------------


_WINDOW = 12
"""The latest tries of a proposer that count: what paid long ago may not pay any more."""


@dataclass(kw_only=True)
class ProposerTry:
    """One try of a proposer."""

    calls: int
    """Runs of cases and requests to roles."""
    deciding: int = 0
    """Of them, runs of holdout."""
    gain: float | None = None
    """Its share in what an accepted candidate gained on holdout; None unless one was accepted."""
    open: bool = False
    """Whether it is a step of the trail on which holdout has not decided."""

    @property
    def passed(self) -> bool:
        """Whether it was accepted, or may still be."""
        return self.open or self.gain is not None


@dataclass(kw_only=True)
class _Arm:
    """A proposer as the bandit sees it."""

    name: str
    tries: list[ProposerTry] = field(default_factory=list[ProposerTry])
    patience: int
    """Tries in a row without an accept after which it stops."""
    unpaid: int = 0
    """Tries in a row without an accept, since it began or began again."""
    exhausted: bool = False
    """Whether it has nothing to propose from this incumbent."""

    @property
    def stopped(self) -> bool:
        """Whether it has not paid for too long."""
        return self.unpaid >= self.patience

    @property
    def recent(self) -> list[ProposerTry]:
        return self.tries[-_WINDOW:]

    @property
    def gains(self) -> list[float]:
        """What its recent accepted candidates gained."""
        return [each.gain for each in self.recent if each.gain is not None]


class Bandit:
    """Thompson sampling over the gain per call.

    How often a proposer is accepted is drawn from what its recent tries allow (a Beta
    distribution), and multiplied by its mean gain over what a try of it costs. Deciding on holdout
    is a part of that as often as it is accepted: otherwise those that fail early would look cheap.
    A proposer that has few tries is lent the mean of all as one more try.
    """

    def __init__(self, names: Sequence[str], *, patience: int) -> None:
        self.arms = {name: _Arm(name=name, patience=patience) for name in names}

    def order(self, rng: random.Random) -> list[str]:
        """Who is to be asked, the most promising first; empty if nobody has anything to propose.

        Who has not had a try yet comes first. Where everybody has stopped, all begin again with
        twice the patience, so that the whole budget is used.
        """
        arms = [arm for arm in self.arms.values() if not arm.exhausted]
        if all(arm.stopped for arm in arms):
            for arm in arms:
                arm.unpaid, arm.patience = 0, 2 * arm.patience
        arms = [arm for arm in arms if not arm.stopped]
        values = {arm.name: self._draw(arm, rng) for arm in arms}
        return sorted(values, key=lambda name: (bool(self.arms[name].tries), -values[name]))

    def count(self, name: str, new: ProposerTry) -> bool:
        """Count a try; whether the proposer stops with it."""
        arm = self.arms[name]
        arm.tries.append(new)
        if not new.open:
            arm.unpaid = arm.unpaid + 1 if new.gain is None else 0
        return arm.stopped

    def decide(self, steps: Sequence[tuple[str, ProposerTry]], gain: float | None) -> list[str]:
        """Holdout has decided on a trail: its steps share the gain, or gained nothing.

        Returns who stops with it.
        """
        arms = {name: self.arms[name] for name, _ in steps}
        going = [name for name, arm in arms.items() if not arm.stopped]
        for name, step in steps:
            arm, step.open = arms[name], False
            step.gain = None if gain is None else gain / len(steps)
            arm.unpaid = arm.unpaid + 1 if gain is None else 0
        return [name for name in going if arms[name].stopped]

    def exhaust(self, name: str) -> None:
        """Leave a proposer out until the incumbent changes."""
        self.arms[name].exhausted = True

    def renew(self) -> None:
        """There is another candidate to build on: everybody may have something to propose."""
        for arm in self.arms.values():
            arm.exhausted = False

    def _draw(self, arm: _Arm, rng: random.Random) -> float:
        tries, gains = arm.recent, arm.gains
        everyone = [each for other in self.arms.values() for each in other.recent]
        paid = [gain for other in self.arms.values() for gain in other.gains]
        passed = sum(each.passed for each in tries)
        accepted = rng.betavariate(1 + passed, 1 + len(tries) - passed)
        gain = (sum(gains) + _mean(paid, 1.0)) / (len(gains) + 1)
        usual = _mean([each.calls - each.deciding for each in everyone], 1.0)
        screening = (sum(each.calls - each.deciding for each in tries) + usual) / (len(tries) + 1)
        decisions = sum(each.deciding for each in everyone)
        deciding = decisions / max(1, sum(each.passed or each.deciding > 0 for each in everyone))
        return accepted * gain / max(1.0, screening + accepted * deciding)


def _mean(values: Sequence[float], default: float) -> float:
    return sum(values) / len(values) if values else default


# -- The search ------------------------------------------------------------------------------------


_VERSION = 5
_IDLE_ROUNDS = 12
"""Rounds in a row without a candidate to run after which the search ends."""
NOT_PAID = "did_not_pay"
"""Why a proposer stops that has something left to propose."""


class AutoSettings(StrategySettings):
    """How the search works."""

    minibatch: AtLeastOne = 3
    """Train cases on which a proposal is compared with the incumbent first."""
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    unpaid_tries: AtLeastOne = 4
    """Tries in a row without an accept after which a proposer stops. Once all have stopped, they
    begin again with twice as many."""
    proposers: tuple[str, ...] = ()
    """The proposers that take part, such as `reflection` and `examples`; all that can work on the
    target if none is named."""


@dataclass(frozen=True, kw_only=True)
class ProposerStopped(EventData):
    """A proposer is left out from here on."""

    kinds: ClassVar[tuple[str, ...]] = ("proposer_stopped",)

    proposer: str = ""
    trial: int = 0
    """The first trial without it."""
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class AutoDetails(TrialDetails):
    """What the journal keeps about a try."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {"candidate_score"}

    minibatch: tuple[str, ...] = ()
    """The train cases on which it was compared first."""
    candidate_score: float | None = None
    """Its score on them."""
    calls: int = 0
    """Runs of cases and requests to roles that the try took."""
    steps: tuple[str, ...] = ()
    """Who made the steps from the last leader to this candidate, if it passed its minibatch."""


@dataclass(frozen=True, kw_only=True)
class Auto:
    """One search over everything that a target offers."""

    offers: tuple[ProposerOffer, ...]
    settings: AutoSettings = field(default_factory=AutoSettings)
    name: str = "auto"

    @property
    def fingerprint(self) -> str:
        offers: list[Json] = [[each.name, each.fingerprint] for each in self.offers]
        # Those that take part have fingerprints of their own.
        settings = self.settings.model_dump(exclude={"proposers"})
        return short_id([_VERSION, settings, offers])

    @property
    def offer_rule(self) -> OfferRule:
        return OfferRule(accept_sigma=0.0)

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [role for offer in self.offers for role in offer.roles]

    @property
    def surfaces(self) -> list[str]:
        """What any proposer may change."""
        return list(dict.fromkeys(name for offer in self.offers for name in offer.surfaces))

    def steerable(self, target: Target) -> Mapping[str, Sequence[str]]:
        """What people may send to a run; a hint needs somebody who writes."""
        demos = [each.id for each in target.surfaces if isinstance(each, DemosSurface)]
        own = [name for name in self.surfaces if name not in demos]
        hints: dict[str, Sequence[str]] = {"tell": ()} if self.roles else {}
        return {"try": own, **hints, "pin": self.surfaces}

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be a proposer, and what it changes must be within its bounds."""
        if not self.offers:
            return (Problem(message="no proposer can work on this target"),)
        surfaces = {each.id: each for each in target.surfaces}
        return [
            problem
            for name in self.surfaces
            for problem in surfaces[name].problems(target.baseline.values[name])
        ]

    async def search(self, run: Run) -> None:
        require_splits(run.dataset, "the strategy 'auto'")
        rounds = _Rounds(run, self)
        await rounds.choose_holdout()
        if run.stop_reason(rounds.baseline_cost) is not None:
            return
        await rounds.baseline()
        if ended := await rounds.go():
            event = SearchEnded(cycle=rounds.number, reason=ended)
            run.tell(event, f"round:{rounds.number}:{ended}")


@dataclass(frozen=True, kw_only=True)
class _Made:
    """A try with its trial, on its way to a verdict."""

    name: str
    """Who proposes."""
    trial: Trial
    details: AutoDetails
    gain: float | None = None
    """Over its parent on the minibatch."""
    heat: Heat | None = None
    deciding: int = 0
    """Runs of holdout."""


class _Rounds:
    """Makes rounds: each looks at a minibatch, asks one proposer, and decides on its candidate."""

    def __init__(self, run: Run, strategy: Auto) -> None:
        settings = strategy.settings
        self._run = run
        self._strategy = strategy
        self._proposers = {
            offer.name: offer.begin(run) for offer in strategy.offers if offer.begin is not None
        }
        self._bandit = Bandit(tuple(self._proposers), patience=settings.unpaid_tries)
        self._memory = SearchMemory(objective=run.objective)
        looks = LookSettings(
            minibatch=settings.minibatch,
            repeats=settings.repeats,
            perfect_score=settings.perfect_score,
        )
        self._train = Train(run, looks, self._memory)
        self._holdout = Holdout(run, repeats=settings.repeats)
        self._trail = Trail[_Made](run)
        self._steps: list[tuple[str, ProposerTry]] = []
        """The steps from the leader to the tip of the trail."""
        self._looked: ProposerEvidence | None = None
        """The last minibatch."""
        self._shown_to: set[str] = set()
        """Who has proposed something on it."""
        self._leader = run.target.baseline
        self._held: Evaluation
        """The leader on holdout; set when the baseline was measured."""
        self.number = 0
        self._idle = 0
        """Rounds in a row in which no candidate was run."""
        self._short_of_ideas = False
        """Whether the last round was a short one without a candidate to run."""

    async def choose_holdout(self) -> None:
        """Decide on a part of holdout if the limits leave too few rounds beside all of it."""
        repeats, cost = self._strategy.settings.repeats, self._round_cost()
        await choose_holdout(self._run, self._holdout, repeats=repeats, round_cost=cost)

    @property
    def baseline_cost(self) -> Spend:
        """What it costs to measure the baseline."""
        return self._holdout.once

    async def baseline(self) -> None:
        """The baseline, measured on holdout, leads."""
        run, start, cases = self._run, self._run.target.baseline, self._holdout.cases
        repeats = self._strategy.settings.repeats
        held = await run.evaluate(start, split=Split.HOLDOUT, cases=cases, repeats=repeats)
        result = SplitResult.of(held, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
        run.advance(start)
        require_baseline(run, held, max_missing=MAX_MISSING)
        self._held = held

    async def go(self) -> str:
        """Make rounds until there is a reason to stop; why there is nothing left to try, if so."""
        ended = ""
        try:
            while not ended and self._run.stop_reason(self._need()) is None:
                ended = await self._next()
                if ended and (await self._finished() or self._left(ended)):
                    ended = ""
        except Stopped:
            return ""
        return ended

    def _round_cost(self, looks: int = 1) -> Spend:
        """What a round costs before holdout, whoever proposes."""
        return self._train.cost(self._strategy.settings.minibatch).times(1 + looks) + self._asking

    @property
    def _asking(self) -> Spend:
        return max((each.need for each in self._proposers.values()), key=lambda need: need.calls)

    def _need(self) -> Spend:
        """The least it costs to get another candidate to lead."""
        if self._trail.undecided is not None:
            return self._holdout.first_need
        whole = self._round_cost() + self._holdout.least
        if fits(self._run, whole) or self._known(self.number + 1) is None:
            return whole
        return self._short_cost(0)

    def _short_cost(self, screened_on: int) -> Spend:
        """The least that a round costs on what is known, with its decision."""
        return self._train.cost(screened_on) + self._asking + self._holdout.least

    async def _next(self) -> str:
        """One round; why the search is over, if it is."""
        if self._holdout.is_solved(self._held):
            return "nothing_to_gain"
        self.number += 1
        if await self._steered() or await self._decided_in_time():
            return ""
        used, screened_on = self._run.runs_used, await self._screening()
        order = self._bandit.order(self._run.rng("bandit", self.number))
        evidence = None if screened_on is None else self._known(self.number)
        evidence = evidence or await self._evidence(order)
        if self._train.perfect(evidence.before):
            again = self._trail.tip is None
            nothing = self._train.teaches_nothing(evidence.parent, again=again)
            return "no_failures" if nothing else ""
        name, proposed = await self._proposed(order, evidence)
        if not name:
            roles = dict.fromkeys(role.name for role in self._strategy.roles)
            self._run.answering.require(*roles, after=GIVE_UP_AFTER)
            return "nothing_left"
        if evidence is self._looked:
            self._shown_to.add(name)
        await self._try(name, proposed, evidence, used, screened_on)
        return "nothing_new" if self._idle >= _IDLE_ROUNDS else ""

    async def _screening(self) -> int | None:
        """On how many cases a candidate is screened if only a short round fits into the limits."""

        def known() -> int:
            evidence = self._known(self.number)
            return len(evidence.cases) if evidence else 0

        whole = self._round_cost() + self._holdout.least
        return await short_round(self._run, whole, known=known, cost=self._short_cost)

    async def _steered(self) -> bool:
        """Whether a person sent a candidate of their own, which holdout decides on."""
        suggestion = await self._run.steering.next()
        if suggestion is None:
            return False
        parent = self._leader
        trial = Trial(
            candidate=suggestion.on(parent),
            phase=PERSON,
            cycle=self.number,
            touched=tuple(suggestion.values),
            details=suggestion.details.to_json(),
        )
        if problems := await self._run.check(trial.candidate, parent=parent):
            self._run.record(replace(trial, problems=tuple(problems)))
            return True
        trial, heat = await self._raced(trial)
        self._run.record(trial)
        if trial.accepted:
            self._advance(trial.candidate, heat, gain=None)
        return True

    # -- A round -------------------------------------------------------------------------------

    async def _evidence(self, order: Sequence[str]) -> ProposerEvidence:
        """The next minibatch on which the candidate to build on is not perfect, if there is one.

        If the first in order has not been shown the last one, it is that: it is paid for.
        """
        parent, last = self._trail.tip or self._leader, self._looked
        is_known = self._shown_to.issuperset(order[:1])
        if (
            last is None
            or is_known
            or last.parent.id != parent.id
            or self._train.perfect(last.before)
        ):
            ((cases, before),) = await self._train.instructive(
                [parent],
                self.number,
                again=self._trail.tip is None,
                room=self._require_looks,
            )
            self._shown_to = set()
        else:
            cases, before = last.cases, last.before
        self._looked = self._shown(self.number, parent, cases, before)
        return self._looked

    def _known(self, number: int) -> ProposerEvidence | None:
        """Cases on which the candidate to build on is known to fail, for nothing."""
        leader = self._leader
        for parent in () if self._short_of_ideas else (self._trail.tip or leader, leader):
            if known := self._train.evidence(parent, number):
                return self._shown(number, parent, *known)
        return None

    def _shown(
        self, number: int, parent: Candidate, cases: Minibatch, before: Evaluation
    ) -> ProposerEvidence:
        train = self._memory.evaluation(parent.id)
        return ProposerEvidence(
            round=number, parent=parent, cases=cases, before=before, train=train
        )

    def _require_looks(self, looks: int) -> None:
        if self._run.stop_reason(self._round_cost(looks) + self._holdout.least) is not None:
            raise Stopped

    async def _proposed(
        self, order: Sequence[str], evidence: ProposerEvidence
    ) -> tuple[str, Proposed]:
        """Who proposes, and what; nobody if nobody has anything left."""
        while order:
            for name in order:
                proposed = await self._proposers[name].propose(evidence)
                if not proposed.nothing_left:
                    return name, proposed
                self._bandit.exhaust(name)
                self._tell_stopped(name, proposed.nothing_left)
            order = self._bandit.order(self._run.rng("bandit", self.number))
        return "", Proposed()

    async def _try(
        self,
        name: str,
        proposed: Proposed,
        evidence: ProposerEvidence,
        used: int,
        screened_on: int | None,
    ) -> None:
        """Check and screen a proposal, race it if that is due, record it, and learn from it."""
        made = _Made(
            name=name,
            trial=await self._checked(name, proposed, evidence),
            details=AutoDetails(
                proposal_source=proposed.source,
                minibatch=tuple(case.id for case in evidence.cases),
                parent_score=self._run.objective.measure(evidence.before).score,
            ),
        )
        self._idle = self._idle + 1 if made.trial.problems else 0
        self._short_of_ideas = screened_on is not None and bool(made.trial.problems)
        if not made.trial.problems:
            made = await self._measured(made, evidence, screened_on)
        asked = len(proposed.proposals)
        made = self._settled(made, calls=self._run.runs_used - used + asked)
        tried = Tried(
            accepted=made.trial.accepted or self._trail.tip is made.trial.candidate,
            gain=made.gain,
            problems=made.trial.problems,
            decision=made.trial.decision,
        )
        self._proposers[name].learn(tried)

    async def _checked(self, name: str, proposed: Proposed, evidence: ProposerEvidence) -> Trial:
        """The trial of a proposal; with problems if it is not worth running."""
        parent, problems = evidence.parent, proposed.problems
        candidate = proposed.candidate
        if candidate is None:
            candidate = replace(parent, origin=Origin(kind="parent"))
            problems = problems or (Problem(message="nothing was proposed"),)
        elif not problems:
            shows = proposed.shows
            problems = tuple(await self._run.check(candidate, parent=parent, shows=shows))
        note = f"{name}: {candidate.origin.note}" if candidate.origin.note else name
        origin = replace(candidate.origin, by=self._strategy.name, note=note)
        return Trial(
            candidate=replace(candidate, origin=origin),
            phase=name,
            cycle=self.number,
            touched=proposed.touched,
            proposals=proposed.proposals,
            problems=problems,
        )

    async def _measured(
        self, made: _Made, evidence: ProposerEvidence, screened_on: int | None
    ) -> _Made:
        """A candidate that passes its minibatch is the next tip of the trail, or is raced."""
        if screened_on != 0:
            made = await self._screened(made, evidence, most=screened_on)
            if not made.trial.accepted:
                return made
        steps = (*(name for name, _ in self._steps), made.name)
        made = replace(made, details=replace(made.details, steps=steps))
        if screened_on is not None or await self._is_due():
            return await self._on_holdout(made)
        assert made.trial.decision is not None
        kept = replace(made.trial.decision, verdict=Verdict.KEEP, code="kept")
        return replace(made, trial=replace(made.trial, decision=kept))

    async def _is_due(self) -> bool:
        room = self._round_cost() + self._holdout.need
        return await self._trail.is_due(room, once=self._holdout.once)

    async def _screened(
        self, made: _Made, evidence: ProposerEvidence, *, most: int | None
    ) -> _Made:
        """With what the minibatch says, and the gain on it if that can be told."""
        objective, trial = self._run.objective, made.trial
        (after,) = await self._train.look([(trial.candidate, evidence.cases[:most])])
        pair = Pair(candidate=after, incumbent=evidence.before.only(set(after.cases)))
        decision = improves_on_minibatch(objective=objective, minibatch=pair)
        gain = None
        if decision.verdict is not Verdict.CANNOT_TELL:
            gain = compare(pair, objective, max_missing=1.0).gain
        result = SplitResult.of(after, objective)
        score = objective.measure(after).score
        return replace(
            made,
            trial=replace(trial, train=result, decision=decision),
            details=replace(made.details, candidate_score=score),
            gain=gain,
        )

    def _settled(self, made: _Made, *, calls: int) -> _Made:
        """Record a try, move the trail, and tell the bandit."""
        details = replace(made.details, calls=calls)
        made = replace(made, trial=replace(made.trial, details=details.to_json()), details=details)
        self._run.record(made.trial)
        is_step = bool(details.steps)
        new = ProposerTry(calls=calls, deciding=made.deciding, open=is_step)
        stopped = self._bandit.count(made.name, new)
        if is_step:
            self._steps.append((made.name, new))
            self._moved(made)
        if stopped:
            self._tell_stopped(made.name, NOT_PAID)
        return made

    # -- Holdout -------------------------------------------------------------------------------

    async def _decided_in_time(self) -> bool:
        """Whether the tip of the trail was raced, because this may be the last chance to do so."""
        if self._trail.undecided is None:
            return False
        if await self._trail.last_chance(self._round_cost() + self._holdout.need):
            return await self._finished()
        if self._run.stop_reason(self._round_cost()) is not None:
            raise Stopped
        return False

    async def _finished(self) -> bool:
        """Race the tip of the trail if holdout has not decided on it; whether that was so."""
        tip = self._trail.undecided
        if tip is None:
            return False
        self._idle, used = 0, self._run.runs_used
        trial = replace(tip.trial, cycle=self.number, proposals=(), train=None, decision=None)
        made = await self._on_holdout(
            _Made(name=tip.name, trial=trial, details=AutoDetails(steps=tip.details.steps))
        )
        details = replace(made.details, calls=self._run.runs_used - used)
        self._run.record(replace(made.trial, details=details.to_json()))
        _, last = self._steps[-1]
        last.calls, last.deciding = last.calls + made.deciding, last.deciding + made.deciding
        self._moved(made)
        return True

    def _left(self, ended: str) -> bool:
        """Whether there is a tip that teaches nothing and did not win: the leader may do better."""
        if ended != "no_failures" or not self._trail.leave():
            return False
        self._end_of_trail(None)
        return True

    async def _on_holdout(self, made: _Made) -> _Made:
        used = self._run.runs_used
        trial, heat = await self._raced(made.trial)
        deciding = self._run.runs_used - used
        details = replace(made.details, whole_holdout=heat.whole)
        return replace(made, trial=trial, details=details, heat=heat, deciding=deciding)

    async def _raced(self, trial: Trial) -> tuple[Trial, Heat]:
        """The trial as holdout decides it; a winner is run twice."""
        incumbent = self._held
        (heat,) = await self._holdout.heats([trial.candidate], incumbent)
        decision = heat.lost
        if decision is None:
            heat, decision = await self._holdout.decided(trial.candidate, heat, incumbent)
        result = SplitResult.of(heat.evaluation, self._run.objective)
        return replace(trial, holdout=result, decision=decision), heat

    def _moved(self, made: _Made) -> None:
        """Go on from a candidate, or back to the leader; who made the steps hears of their gain."""
        trial, heat = made.trial, made.heat
        if heat is None:
            self._trail.keep(trial.candidate, made)
            self._bandit.renew()
        elif trial.accepted:
            self._advance(trial.candidate, heat, gain=gain_of(trial))
        else:
            self._trail.raced(trial.candidate, heat, leads=False)
            if self._trail.tip is None:
                self._end_of_trail(None)

    def _advance(self, candidate: Candidate, heat: Heat, *, gain: float | None) -> None:
        """Another candidate leads; `gain` is that of the trail, if it is its tip."""
        self._run.advance(candidate)
        self._trail.raced(candidate, heat, leads=True)
        self._leader, self._held = candidate, heat.evaluation
        self._end_of_trail(gain)
        self._bandit.renew()

    def _end_of_trail(self, gain: float | None) -> None:
        for name in self._bandit.decide(self._steps, gain):
            self._tell_stopped(name, NOT_PAID)
        self._steps = []

    def _tell_stopped(self, name: str, reason: str) -> None:
        event = ProposerStopped(proposer=name, trial=self._run.trial, reason=reason)
        self._run.tell(event, f"stopped:{name}:{self.number}")


def gain_of(trial: Trial) -> float | None:
    """What an accepted candidate gained on holdout."""
    if trial.decision is None or not trial.accepted:
        return None
    return trial.decision.numbers.get("score_delta", 0.0)
