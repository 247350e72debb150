"""Epochs that change something: propose, check, measure, decide, go on from the best."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.decisions import Decision, Verdict
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import sigma
from burnish.core.money import Spend
from burnish.core.protocols import Role
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Trial
from burnish.runs.events import EventData
from burnish.runs.run import Run
from burnish.strategies.epochs.measuring import Measured, Measuring, runs_of
from burnish.strategies.epochs.proposing import Attempt, EpochDetails, Proposed, Proposing
from burnish.strategies.epochs.settings import EpochSettings, halved
from burnish.strategies.epochs.wording import TextGrad, TextGradRequest

UPDATE = "update"
"""The phase of a changed text."""


@dataclass(frozen=True, kw_only=True)
class PolicyChanged(EventData):
    """Texts of the registry were made active."""

    kinds: ClassVar[tuple[str, ...]] = ("policy",)

    versions: Mapping[str, int] = field(default_factory=dict[str, int])
    """The new version of each text."""


class Training:
    """Epochs that change something."""

    def __init__(
        self,
        run: Run,
        settings: EpochSettings,
        measuring: Measuring,
        role: Role[TextGradRequest, TextGrad],
        start: Measured,
    ) -> None:
        self._run = run
        self._settings = settings
        self._measuring = measuring
        self._proposing = Proposing(run=run, role=role)
        self._best = start
        """What every update must beat."""
        self._here = start
        """What the next update starts from: the best, unless nothing is rolled back."""
        self._rate = settings.learning_rate

    async def go(self) -> tuple[int, str]:
        """The last epoch, and why it was the last; '' where the run was told to stop."""
        epoch = 1
        while not (reason := self._over(epoch)):
            if self._run.stop_reason(self._need()) is not None:
                return epoch, ""
            epoch += 1
            if await self._epoch(epoch):
                return epoch, "nothing_proposed"
        return epoch, reason

    def _over(self, epoch: int) -> str:
        if self._best.loss is not None and self._best.loss <= EPSILON:
            return "nothing_to_gain"
        # What is recorded happened: a limit that was lowered since does not undo it.
        return "max_epochs" if epoch >= self._settings.epochs and not self._run.replaying else ""

    def _need(self) -> Spend:
        proposing, here = self._proposing, self._here
        asked = [
            proposing.role.estimate(proposing.request(s, here.candidate, here.train, self._rate))
            for s in proposing.surfaces
        ]
        return sum(asked, self._measuring.need)

    async def _epoch(self, epoch: int) -> bool:
        """Try one update; whether nobody sees anything to change."""
        run, here = self._run, self._here
        proposed = await self._proposing.propose(
            here.candidate, here.train, rate=self._rate, epoch=epoch
        )
        details = EpochDetails(epoch=epoch, learning_rate=self._rate, update=proposed.update)
        trial = self._trial(epoch, proposed, details)
        if proposed.best is None:
            why = "nobody proposed a change"
            skipped = replace(details, skipped=True).to_json()
            run.record(replace(trial, problems=(Problem(message=why),), details=skipped))
            return proposed.declined
        problems = await run.check(trial.candidate, parent=here.candidate)
        if problems:
            run.record(replace(trial, problems=tuple(problems)))
            self._remember(proposed.best, "; ".join(map(str, problems)))
            return False
        await self._measure(trial, proposed.best, details)
        return False

    async def _measure(self, trial: Trial, best: TextGrad, details: EpochDetails) -> None:
        run, measuring, candidate = self._run, self._measuring, trial.candidate
        train = await measuring.split(candidate, Split.TRAIN)
        decision, holdout = self._decide(train, None), None
        if self._best.holdout is not None and (decision.accepted or not self._settings.rollback):
            holdout = await measuring.split(candidate, Split.HOLDOUT)
            decision = self._decide(train, holdout)
        loss = run.objective.measure(train).loss
        found = Measured(candidate=candidate, train=train, holdout=holdout, loss=loss)
        stays = not decision.accepted and self._kept_anyway(decision)
        details = replace(details, runs=runs_of(train, holdout), stays=stays)
        run.record(
            replace(
                trial,
                train=measuring.result(train),
                holdout=measuring.result(holdout),
                decision=_kept(decision) if stays else decision,
                details=details.to_json(),
            )
        )
        self._go_on(found, decision, stays=stays)
        self._remember(best, decision.reason)

    def _go_on(self, found: Measured, decision: Decision, *, stays: bool) -> None:
        if decision.accepted:
            self._run.advance(found.candidate)
            self._best = self._here = found
            return
        if stays:
            self._here = found
        elif decision.code in ("worse", "holdout"):
            self._rate = halved(self._rate)
        if not stays:
            self._here = self._best

    def _kept_anyway(self, decision: Decision) -> bool:
        return not self._settings.rollback and decision.verdict is Verdict.REJECT

    def _decide(self, train: Evaluation, holdout: Evaluation | None) -> Decision:
        best, held = self._best, None
        if holdout is not None and best.holdout is not None:
            held = Pair(candidate=holdout, incumbent=best.holdout)
        return sigma(
            objective=self._run.objective,
            train=Pair(candidate=train, incumbent=best.train),
            holdout=held,
            accept_sigma=self._settings.accept_sigma,
            max_missing=self._settings.max_errored_fraction,
        )

    def _trial(self, epoch: int, proposed: Proposed, details: EpochDetails) -> Trial:
        here, best = self._here.candidate, proposed.best
        note = "" if best is None else str(best.artifact_name)
        origin = Origin(by="epochs", kind=UPDATE, note=note)
        if best is None:
            candidate: Candidate = replace(here, origin=origin)
        else:
            changes = {str(best.artifact_name): best.proposed_content}
            candidate = here.child(changes, origin=origin)
        return Trial(
            candidate=candidate,
            phase=UPDATE,
            cycle=epoch,
            touched=() if best is None else (str(best.artifact_name),),
            proposals=proposed.proposals,
            details=details.to_json(),
        )

    def _remember(self, best: TextGrad, outcome: str) -> None:
        attempt = Attempt(text=str(best.artifact_name), rationale=best.rationale, outcome=outcome)
        self._proposing.tried.append(attempt)


def _kept(decision: Decision) -> Decision:
    told = f"{decision.reason}; it stays all the same, since nothing is rolled back"
    return replace(decision, verdict=Verdict.KEEP, reason=told)
