"""The strategy `epochs`: measure the suite, change one text, keep what is better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from burnish.core.cases import Dataset, Split
from burnish.core.comparisons import Pair
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.false_accepts import NullRuns, false_accepts
from burnish.core.gates import sigma
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.strict_gate import OfferRule
from burnish.core.surfaces import EPSILON, Candidate, Origin, TextSurface
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.delegation.target import DelegationFacts
from burnish.delegation.training.proposals import (
    ROLE,
    EpochDetails,
    Proposing,
    TaskRun,
    TextGrad,
    TextGradRequest,
    TextUpdate,
)
from burnish.delegation.training.settings import EpochSettings
from burnish.runs.baseline_checks import require_baseline
from burnish.runs.events import BASELINE, ByLuck, EventData, SearchEnded
from burnish.runs.plugins import RoleNeed
from burnish.runs.run import Run

_UPDATE, _AGAIN = "update", "epoch"
"""The phases of a changed text, and of the same texts measured once more."""


@dataclass(frozen=True, kw_only=True)
class PolicyChanged(EventData):
    """Texts of the registry were made active."""

    kinds: ClassVar[tuple[str, ...]] = ("policy",)

    versions: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, kw_only=True)
class _Measured:
    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None = None


def _runs_of(measured: _Measured) -> tuple[TaskRun, ...]:
    evaluations = filter(None, (measured.train, measured.holdout))
    return tuple(_run(result, each.split) for each in evaluations for result in each.results)


def _run(result: CaseResult, split: Split) -> TaskRun:
    facts = DelegationFacts.of(result.outcome)
    score = next(iter(result.scores), None)
    return TaskRun(
        run_id=facts.run_id or None,
        task=result.case,
        draw=result.draw,
        split=split,
        loss=None if score is None or score.value is None else round(1 - score.value, 6),
        status=facts.status or ("missing" if result.outcome.missing else "failed"),
        parts={} if score is None else dict(score.details),
    )


@dataclass(frozen=True, kw_only=True)
class _Chosen:
    """The update of an epoch; with problems it is not run."""

    update: TextGrad
    candidate: Candidate
    problems: tuple[Problem, ...]


@dataclass(frozen=True, kw_only=True)
class _Suite:
    run: Run
    settings: EpochSettings

    @property
    def cost(self) -> Spend:
        repeats = self.settings.repeats
        splits = (Split.TRAIN, Split.HOLDOUT)
        train, holdout = (self.run.estimate(split, repeats=repeats) for split in splits)
        return train + holdout

    async def evaluate(self, candidate: Candidate, split: Split, *, draw: int = 0) -> Evaluation:
        repeats = self.settings.repeats
        return await self.run.evaluate(candidate, split=split, repeats=repeats, draw=draw)

    async def measure(self, phase: str, epoch: int, *, rate: float | None = None) -> _Measured:
        """Measure and record the initial texts; each epoch has its own draws."""
        candidate, draw = self.run.target.baseline, (epoch - 1) * self.settings.repeats
        train = await self.evaluate(candidate, Split.TRAIN, draw=draw)
        holdout = None
        if self.run.dataset.holdout:
            holdout = await self.evaluate(candidate, Split.HOLDOUT, draw=draw)
        measured = _Measured(candidate=candidate, train=train, holdout=holdout)
        details = EpochDetails(epoch=epoch, learning_rate=rate, runs=_runs_of(measured))
        trial = Trial(candidate=candidate, phase=phase, cycle=epoch, details=details.to_json())
        self.record(trial, measured)
        return measured

    def record(self, trial: Trial, measured: _Measured) -> None:
        train, holdout = (
            None if evaluation is None else SplitResult.of(evaluation, self.run.objective)
            for evaluation in (measured.train, measured.holdout)
        )
        self.run.record(replace(trial, train=train, holdout=holdout))


class _Training:
    def __init__(
        self, suite: _Suite, role: Role[TextGradRequest, TextGrad], start: _Measured
    ) -> None:
        self._suite, self._run, self._settings = suite, suite.run, suite.settings
        self._proposing = Proposing(run=suite.run, role=role)
        self._best = start
        """What every update must beat."""
        self._here = start
        """What the next update starts from: the best, unless rollback is off."""
        self._rate = suite.settings.learning_rate

    async def go(self) -> tuple[int, str]:
        """The last epoch, and why it was the last; '' if the run was told to stop."""
        epoch = 1
        while not (reason := self._over(epoch)):
            here = self._here
            cost = self._proposing.cost(here.candidate, here.train, self._rate)
            if self._run.stop_reason(self._suite.cost + cost) is not None:
                return epoch, ""
            epoch += 1
            if await self._epoch(epoch):
                return epoch, "nothing_proposed"
        return epoch, reason

    def _over(self, epoch: int) -> str:
        loss = self._run.objective.measure(self._best.train).loss
        if loss is not None and loss <= EPSILON:
            return "nothing_to_gain"
        # What is recorded happened: a limit that was lowered since does not undo it.
        return "max_epochs" if epoch >= self._settings.epochs and not self._run.replaying else ""

    async def _epoch(self, epoch: int) -> bool:
        """Try one update; returns whether nobody sees anything to change."""
        run, here, rate = self._run, self._here, self._rate
        proposed = await self._proposing.propose(here.candidate, here.train, rate=rate, epoch=epoch)
        details = EpochDetails(epoch=epoch, learning_rate=rate)
        trial = Trial(
            candidate=replace(here.candidate, origin=Origin(by="epochs", kind=_UPDATE)),
            phase=_UPDATE,
            cycle=epoch,
            proposals=proposed.proposals,
        )
        if not proposed.ranked:
            problem = Problem(message="nobody proposed a change")
            skipped = replace(details, skipped=True).to_json()
            run.record(replace(trial, problems=(problem,), details=skipped))
            return proposed.declined
        chosen = await self._choose(proposed.ranked)
        update, name = chosen.update, str(chosen.update.artifact_name)
        details = replace(
            details,
            update=TextUpdate(
                artifact=name,
                rationale=update.rationale,
                expected_loss_reduction=update.expected_loss_reduction,
                confidence=update.confidence,
            ),
        )
        trial = replace(
            trial, candidate=chosen.candidate, touched=(name,), details=details.to_json()
        )
        if chosen.problems:
            run.record(replace(trial, problems=chosen.problems))
        else:
            self._proposing.remember(update, await self._measure(trial, details))
        return False

    async def _choose(self, ranked: Sequence[TextGrad]) -> "_Chosen":
        """The most promising update that passes the check; if none does, the most promising.

        Otherwise a proposal that comes again each time would keep all others from being tried.
        """
        turned_away: list[_Chosen] = []
        for update in ranked:
            name, parent = str(update.artifact_name), self._here.candidate
            origin = Origin(by="epochs", kind=_UPDATE, note=name)
            candidate = parent.child({name: update.proposed_content}, origin=origin)
            problems = tuple(await self._run.check(candidate, parent=parent))
            chosen = _Chosen(update=update, candidate=candidate, problems=problems)
            if not problems:
                return chosen
            self._proposing.remember(update, "; ".join(map(str, problems)))
            turned_away.append(chosen)
        return turned_away[0]

    async def _measure(self, trial: Trial, details: EpochDetails) -> str:
        """Keep the update or roll it back; returns why."""
        suite, candidate, rollback = self._suite, trial.candidate, self._settings.rollback
        measured = _Measured(
            candidate=candidate, train=await suite.evaluate(candidate, Split.TRAIN)
        )
        decision = self._decide(measured)
        if self._best.holdout is not None and (decision.accepted or not rollback):
            holdout = await suite.evaluate(candidate, Split.HOLDOUT)
            measured = replace(measured, holdout=holdout)
            decision = self._decide(measured)
        stays = not rollback and decision.verdict is Verdict.REJECT
        kept = decision
        if stays:
            reason = f"{decision.reason}; it is kept anyway, since rollback is off"
            kept = replace(decision, verdict=Verdict.KEEP, reason=reason)
        details = replace(details, runs=_runs_of(measured), stays=stays)
        suite.record(replace(trial, decision=kept, details=details.to_json()), measured)
        if decision.accepted:
            self._run.advance(candidate)
            self._best = measured
        elif not stays and decision.code in ("worse", "holdout"):
            self._rate /= 2
        self._here = measured if stays else self._best
        return decision.reason

    def _decide(self, measured: _Measured) -> Decision:
        best, holdout = self._best, None
        if measured.holdout is not None and best.holdout is not None:
            holdout = Pair(candidate=measured.holdout, incumbent=best.holdout)
        return sigma(
            objective=self._run.objective,
            train=Pair(candidate=measured.train, incumbent=best.train),
            holdout=holdout,
            accept_sigma=self._settings.accept_sigma,
            max_missing=self._settings.max_errored_fraction,
        )


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Training of texts: each epoch is a trial and changes one text.

    The first epoch measures the texts as they are. Each later one tries the most promising change
    on the whole suite. The change stays if its gain over the best mean exceeds the noise;
    otherwise it is rolled back, and after a regression the next step is half as large. Without
    the role nothing is proposed, and the suite is only measured repeatedly.
    """

    settings: EpochSettings = field(default_factory=EpochSettings)
    proposer: Role[TextGradRequest, TextGrad] | None = None
    name: str = "epochs"

    @property
    def offer_rule(self) -> OfferRule:
        return OfferRule(
            accept_sigma=self.settings.accept_sigma,
            max_missing=self.settings.max_errored_fraction,
            splits=(Split.TRAIN, Split.HOLDOUT),
        )

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide; the number of epochs is only a budget."""
        settings = {k: v for k, v in self.settings.model_dump().items() if k != "epochs"}
        return short_id([2, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return [] if self.proposer is None else [self.proposer]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return [Problem(message="there is no text to train")]

    def by_luck(self, data: Dataset) -> str:
        """How often a run would accept texts that change nothing."""
        runs = NullRuns(
            train=len(data.train),
            holdout=len(data.holdout),
            repeats=self.settings.repeats,
            trials=max(1, self.settings.epochs - 1),
        )
        return false_accepts(runs, self.settings.accept_sigma).words

    async def search(self, run: Run) -> None:
        settings, suite = self.settings, _Suite(run=run, settings=self.settings)
        if run.stop_reason(suite.cost) is not None:
            return
        start = await suite.measure(BASELINE, 1, rate=settings.learning_rate)
        run.advance(start.candidate)
        most = settings.max_errored_fraction
        require_baseline(run, start.train, start.holdout, max_missing=most)
        if self.proposer is not None:
            run.tell(ByLuck(words=self.by_luck(run.dataset)), "by_luck")
            epoch, reason = await _Training(suite, self.proposer, start).go()
        else:
            # The same texts under other draws: what is left is noise.
            for epoch in range(2, settings.epochs + 1):
                if run.stop_reason(suite.cost) is not None:
                    return
                await suite.measure(_AGAIN, epoch)
            epoch, reason = settings.epochs, "max_epochs"
        if reason:  # with more epochs allowed it may end again
            run.tell(SearchEnded(cycle=epoch, reason=reason), f"epoch:{epoch}:{reason}")


PROPOSER = RoleNeed(
    name="proposer",
    help="The model that proposes texts, as provider:name.",
    panel="Suites of tasks to delegate",
    prompt=ROLE,
)
