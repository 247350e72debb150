"""The strategy `auto`: proposers of several strategies share one incumbent and one budget.

A bandit over gain per call chooses who proposes next.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.content import AtLeastOne, Json, short_id
from burnish.core.errors import Problem
from burnish.core.gates import OfferRule, improves_on_minibatch
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import EPSILON, DemosSurface, Origin
from burnish.core.trials import MAX_MISSING, SplitResult, Trial, TrialDetails, Verdict
from burnish.runs.events import BASELINE, PERSON, EventData
from burnish.runs.roles import GIVE_UP_AFTER
from burnish.runs.run import Run
from burnish.runs.setup import Proposed, ProposerEvidence, ProposerOffer, Tried
from burnish.strategies.partial_evaluations import (
    Heat,
    Holdout,
    LookSettings,
    SearchMemory,
    Stopped,
    Train,
    require_splits,
)
from burnish.strategies.pruning import Pruner, Winner
from burnish.strategies.requirements import PruningSettings, require_baseline

# -- The bandit: who proposes next, and who stops because it does not pay --------------------------


_WINDOW = 12
"""The latest tries of a proposer that count: what paid long ago may not pay any more."""


@dataclass(frozen=True, kw_only=True)
class ProposerTry:
    """One try of a proposer."""

    calls: int
    """Runs of cases and requests to roles."""
    gain: float | None = None
    """What an accepted candidate gained on holdout; None if it was not accepted."""


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
    distribution), and multiplied by its mean gain over its mean cost. A proposer that has few
    tries is lent the mean of all as one more try.
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
        arm.unpaid = arm.unpaid + 1 if new.gain is None else 0
        return arm.stopped

    def exhaust(self, name: str) -> None:
        """Leave a proposer out until the incumbent changes."""
        self.arms[name].exhausted = True

    def renew(self) -> None:
        """The incumbent has changed, so everybody may have something to propose again."""
        for arm in self.arms.values():
            arm.exhausted = False

    def _draw(self, arm: _Arm, rng: random.Random) -> float:
        tries, gains = arm.recent, arm.gains
        everyone = [each for other in self.arms.values() for each in other.recent]
        paid = [gain for other in self.arms.values() for gain in other.gains]
        usual_gain = sum(paid) / len(paid) if paid else 1.0
        usual_calls = sum(each.calls for each in everyone) / len(everyone) if everyone else 1.0
        accepted = rng.betavariate(1 + len(gains), 1 + len(tries) - len(gains))
        gain = (sum(gains) + usual_gain) / (len(gains) + 1)
        calls = (sum(each.calls for each in tries) + usual_calls) / (len(tries) + 1)
        return accepted * gain / max(1.0, calls)


# -- The search ------------------------------------------------------------------------------------


_VERSION = 1
_IDLE_ROUNDS = 12
"""Rounds in a row without a candidate to run after which the search ends."""
NOT_PAID = "did_not_pay"
"""Why a proposer stops that has something left to propose."""


class AutoSettings(PruningSettings):
    """How the search works."""

    minibatch: AtLeastOne = 3
    """Train cases on which a proposal is compared with the incumbent first."""
    perfect_score: float = 1.0
    """The score at which there is nothing to learn from a case."""
    unpaid_tries: AtLeastOne = 6
    """Tries in a row without an accept after which a proposer stops. Once all have stopped, they
    begin again with twice as many."""


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


@dataclass(frozen=True, kw_only=True)
class Auto:
    """One search over everything that a target offers."""

    offers: tuple[ProposerOffer, ...]
    settings: AutoSettings = field(default_factory=AutoSettings)
    name: str = "auto"

    @property
    def fingerprint(self) -> str:
        offers: list[Json] = [[each.name, each.fingerprint] for each in self.offers]
        return short_id([_VERSION, self.settings.fingerprinted(), offers])

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
        settings = self.settings
        pruner = Pruner(
            run,
            by=self.name,
            rule=self.offer_rule,
            repeats=settings.repeats,
            active=settings.prune,
        )
        if run.stop_reason(run.estimate(Split.HOLDOUT, repeats=settings.repeats)) is not None:
            return
        rounds = _Rounds(run, self, await _baseline(run, settings.repeats))
        await pruner.alternate(rounds, rounds.go)


async def _baseline(run: Run, repeats: int) -> Winner:
    """The baseline, measured on holdout."""
    start = run.target.baseline
    held = await run.evaluate(start, split=Split.HOLDOUT, repeats=repeats)
    run.record(Trial(candidate=start, phase=BASELINE, holdout=SplitResult.of(held, run.objective)))
    run.advance(start)
    require_baseline(run, held, max_missing=MAX_MISSING)
    return Winner.of(start, held)


class _Rounds:
    """Makes rounds: each looks at a minibatch, asks one proposer, and decides on its candidate."""

    def __init__(self, run: Run, strategy: Auto, leader: Winner) -> None:
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
        self.leader = leader
        self.number = 0
        self._idle = 0
        """Rounds in a row in which no candidate was run."""

    def lead(self, leader: Winner) -> None:
        """Let another candidate lead, which was measured elsewhere."""
        self.leader = leader

    async def go(self) -> str:
        """Make rounds until there is a reason to stop; why there is nothing left to try, if so."""
        ended = ""
        try:
            while not ended and self._run.stop_reason(self._need()) is None:
                ended = await self._next()
        except Stopped:
            return ""
        return ended

    def _need(self, looks: int = 1) -> Spend:
        """The least it costs to get another candidate to lead, whoever proposes it."""
        asking = max((each.need for each in self._proposers.values()), key=lambda need: need.calls)
        look = self._train.cost(self._strategy.settings.minibatch)
        return look.times(1 + looks) + asking + self._holdout.least

    async def _next(self) -> str:
        """One round; why the search is over, if it is."""
        loss = self._run.objective.measure(self.leader.results[Split.HOLDOUT]).loss
        if loss is not None and loss <= EPSILON:
            return "nothing_to_gain"
        self.number += 1
        if await self._steered():
            return ""
        used = self._run.runs_used
        evidence = await self._evidence()
        if self._train.perfect(evidence.before):
            return "no_failures" if self._train.teaches_nothing(evidence.parent) else ""
        name, proposed = await self._proposed(evidence)
        if not name:
            roles = dict.fromkeys(role.name for role in self._strategy.roles)
            self._run.answering.require(*roles, after=GIVE_UP_AFTER)
            return "nothing_left"
        await self._try(name, proposed, evidence, used)
        return "nothing_new" if self._idle >= _IDLE_ROUNDS else ""

    async def _steered(self) -> bool:
        """Whether a person sent a candidate of their own, which holdout decides on."""
        suggestion = await self._run.steering.next()
        if suggestion is None:
            return False
        parent = self.leader.candidate
        trial = Trial(
            candidate=suggestion.on(parent),
            phase=PERSON,
            cycle=self.number,
            touched=tuple(suggestion.values),
            details=suggestion.details.to_json(),
        )
        if problems := await self._run.check(trial.candidate, parent=parent):
            self._run.record(replace(trial, problems=tuple(problems)))
        else:
            self._settle(*await self._raced(trial))
        return True

    async def _evidence(self) -> ProposerEvidence:
        """The next minibatch on which the incumbent is not perfect, if there is one."""
        parent = self.leader.candidate
        ((cases, before),) = await self._train.instructive(
            [parent], self.number, room=lambda looks: self._require_room(self._need(looks))
        )
        return ProposerEvidence(
            round=self.number,
            parent=parent,
            cases=cases,
            before=before,
            train=self._memory.evaluation(parent.id),
        )

    def _require_room(self, need: Spend) -> None:
        if self._run.stop_reason(need) is not None:
            raise Stopped

    async def _proposed(self, evidence: ProposerEvidence) -> tuple[str, Proposed]:
        """Who proposes, and what; nobody if nobody has anything left."""
        rng = self._run.rng("bandit", self.number)
        while order := self._bandit.order(rng):
            for name in order:
                proposed = await self._proposers[name].propose(evidence)
                if not proposed.nothing_left:
                    return name, proposed
                self._bandit.exhaust(name)
                self._tell_stopped(name, proposed.nothing_left)
        return "", Proposed()

    async def _try(
        self, name: str, proposed: Proposed, evidence: ProposerEvidence, used: int
    ) -> None:
        """Check, screen and race a proposal, record it, and learn from it."""
        trial = await self._checked(name, proposed, evidence)
        details = AutoDetails(
            proposal_source=proposed.source,
            minibatch=tuple(case.id for case in evidence.cases),
            parent_score=self._run.objective.measure(evidence.before).score,
        )
        gain, heat = None, None
        self._idle = self._idle + 1 if trial.problems else 0
        if not trial.problems:
            (after,) = await self._train.look([(trial.candidate, evidence.cases)])
            trial, gain = self._screened(trial, Pair(candidate=after, incumbent=evidence.before))
            details = replace(details, candidate_score=self._run.objective.measure(after).score)
        if trial.accepted:
            trial, heat = await self._raced(trial)
            details = replace(details, whole_holdout=heat.whole)
        calls = self._run.runs_used - used + len(proposed.proposals)
        trial = replace(trial, details=replace(details, calls=calls).to_json())
        self._settle(trial, heat)
        tried = Tried(
            accepted=trial.accepted, gain=gain, problems=trial.problems, decision=trial.decision
        )
        self._proposers[name].learn(tried)
        if self._bandit.count(name, ProposerTry(calls=calls, gain=gain_of(trial))):
            self._tell_stopped(name, NOT_PAID)

    async def _checked(self, name: str, proposed: Proposed, evidence: ProposerEvidence) -> Trial:
        """The trial of a proposal; with problems if it is not worth running."""
        parent, problems = evidence.parent, proposed.problems
        candidate = proposed.candidate
        if candidate is None:
            candidate = replace(parent, origin=Origin(kind="parent"))
            problems = problems or (Problem(message="nothing was proposed"),)
        elif not problems:
            problems = tuple(await self._run.check(candidate, parent=parent))
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

    def _screened(self, trial: Trial, pair: Pair) -> tuple[Trial, float | None]:
        """The trial with what the minibatch says, and the gain on it if that can be told."""
        objective = self._run.objective
        decision = improves_on_minibatch(objective=objective, minibatch=pair)
        result = SplitResult.of(pair.candidate, objective)
        gain = None
        if decision.verdict is not Verdict.CANNOT_TELL:
            gain = compare(pair, objective, max_missing=1.0).gain
        return replace(trial, train=result, decision=decision), gain

    async def _raced(self, trial: Trial) -> tuple[Trial, Heat]:
        """The trial as holdout decides it; a winner is run twice."""
        incumbent = self.leader.results[Split.HOLDOUT]
        (heat,) = await self._holdout.heats([trial.candidate], incumbent)
        decision = heat.lost
        if decision is None:
            heat, decision = await self._holdout.decided(trial.candidate, heat, incumbent)
        result = SplitResult.of(heat.evaluation, self._run.objective)
        return replace(trial, holdout=result, decision=decision), heat

    def _settle(self, trial: Trial, heat: Heat | None) -> None:
        self._run.record(trial)
        if trial.accepted and heat is not None:
            self._run.advance(trial.candidate)
            self.leader = Winner.of(trial.candidate, heat.evaluation)
            self._bandit.renew()

    def _tell_stopped(self, name: str, reason: str) -> None:
        event = ProposerStopped(proposer=name, trial=self._run.trial, reason=reason)
        self._run.tell(event, f"stopped:{name}:{self.number}")


def gain_of(trial: Trial) -> float | None:
    """What an accepted candidate gained on holdout."""
    if trial.decision is None or not trial.accepted:
        return None
    return trial.decision.numbers.get("score_delta", 0.0)
