"""The strategy `epochs`: measure the suite, change one text, keep what is better."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.gates import sigma
from burnish.core.money import Spend
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import EPSILON, Candidate, Origin, TextSurface
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.delegation.target import DelegationFacts
from burnish.delegation.training.proposals import (
    ROLE,
    EpochDetails,
    Proposed,
    Proposing,
    TaskRun,
    TextGrad,
    TextGradRequest,
    TriedUpdate,
    textgrad,
)
from burnish.delegation.training.settings import EpochSettings, halved
from burnish.runs.evaluation import require_baseline
from burnish.runs.events import BASELINE, EventData, SearchEnded
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class _Measured:
    """A candidate with what is known of it."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None = None
    loss: float | None = None
    """The mean over train."""


@dataclass(frozen=True, kw_only=True)
class _Measuring:
    """Runs the suite."""

    run: Run
    settings: EpochSettings

    @property
    def need(self) -> Spend:
        """What an epoch may cost."""
        repeats = self.settings.repeats
        splits = (Split.TRAIN, Split.HOLDOUT)
        train, holdout = (self.run.estimate(split, repeats=repeats) for split in splits)
        return train + holdout

    async def split(self, candidate: Candidate, split: Split, *, draw: int = 0) -> Evaluation:
        """The suite, or its holdout, as often as it is repeated."""
        repeats = self.settings.repeats
        return await self.run.evaluate(candidate, split=split, repeats=repeats, draw=draw)

    async def whole(self, candidate: Candidate, *, draw: int = 0) -> _Measured:
        """Both splits."""
        train = await self.split(candidate, Split.TRAIN, draw=draw)
        held = None
        if self.run.dataset.holdout:
            held = await self.split(candidate, Split.HOLDOUT, draw=draw)
        loss = self.run.objective.measure(train).loss
        return _Measured(candidate=candidate, train=train, holdout=held, loss=loss)

    def result(self, evaluation: Evaluation | None) -> SplitResult | None:
        """For the ledger."""
        return None if evaluation is None else SplitResult.of(evaluation, self.run.objective)


def _runs_of(*evaluations: Evaluation | None) -> tuple[TaskRun, ...]:
    """What the ledger keeps of each run of a task."""
    return tuple(
        _run(result, evaluation.split)
        for evaluation in evaluations
        if evaluation is not None
        for result in evaluation.results
    )


def _run(result: CaseResult, split: Split) -> TaskRun:
    facts = DelegationFacts.of(result.outcome)
    score = next((each for each in result.scores), None)
    return TaskRun(
        run_id=facts.run_id or None,
        task=result.case,
        draw=result.draw,
        split=split,
        loss=None if score is None or score.value is None else round(1 - score.value, 6),
        status=facts.status or ("missing" if result.outcome.missing else "failed"),
        parts={} if score is None else dict(score.details),
    )


_UPDATE = "update"
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
        measuring: _Measuring,
        role: Role[TextGradRequest, TextGrad],
        start: _Measured,
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
        estimates = [
            proposing.role.estimate(proposing.request(s, here.candidate, here.train, self._rate))
            for s in proposing.surfaces
        ]
        return sum(estimates, self._measuring.need)

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
        measured = _Measured(candidate=candidate, train=train, holdout=holdout, loss=loss)
        stays = not decision.accepted and self._stays_anyway(decision)
        details = replace(details, runs=_runs_of(train, holdout), stays=stays)
        run.record(
            replace(
                trial,
                train=measuring.result(train),
                holdout=measuring.result(holdout),
                decision=_keeping(decision) if stays else decision,
                details=details.to_json(),
            )
        )
        self._go_on(measured, decision, stays=stays)
        self._remember(best, decision.reason)

    def _go_on(self, measured: _Measured, decision: Decision, *, stays: bool) -> None:
        if decision.accepted:
            self._run.advance(measured.candidate)
            self._best = self._here = measured
            return
        if stays:
            self._here = measured
        elif decision.code in ("worse", "holdout"):
            self._rate = halved(self._rate)
        if not stays:
            self._here = self._best

    def _stays_anyway(self, decision: Decision) -> bool:
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
        origin = Origin(by="epochs", kind=_UPDATE, note=note)
        if best is None:
            candidate: Candidate = replace(here, origin=origin)
        else:
            changes = {str(best.artifact_name): best.proposed_content}
            candidate = here.child(changes, origin=origin)
        return Trial(
            candidate=candidate,
            phase=_UPDATE,
            cycle=epoch,
            touched=() if best is None else (str(best.artifact_name),),
            proposals=proposed.proposals,
            details=details.to_json(),
        )

    def _remember(self, best: TextGrad, outcome: str) -> None:
        attempt = TriedUpdate(
            text=str(best.artifact_name), rationale=best.rationale, outcome=outcome
        )
        self._proposing.tried.append(attempt)


def _keeping(decision: Decision) -> Decision:
    reason = f"{decision.reason}; it stays all the same, since nothing is rolled back"
    return replace(decision, verdict=Verdict.KEEP, reason=reason)


_VERSION = 1
_AGAIN = "epoch"
"""The phase of the same texts measured once more."""


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Training of texts: an epoch a trial, one text an epoch.

    The first epoch measures the texts as they are. Each later one tries the most promising change
    on the whole suite. It stays when its gain clears the noise, against the best mean so far; else
    it is rolled back, and after a regression the next step is half as large. Without the role
    nothing is proposed, and the suite is measured again and again.
    """

    settings: EpochSettings = field(default_factory=EpochSettings)
    proposer: Role[TextGradRequest, TextGrad] | None = None
    name: str = "epochs"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings that decide. How many epochs there may be is a budget."""
        settings = {k: v for k, v in self.settings.model_dump().items() if k != "epochs"}
        return short_id([_VERSION, settings])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """Whoever proposes, if anybody does."""
        return [] if self.proposer is None else [self.proposer]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be texts to train."""
        if any(isinstance(surface, TextSurface) for surface in target.surfaces):
            return ()
        return [Problem(message="there is no text to train")]

    async def search(self, run: Run) -> None:
        """Epoch after epoch, until there is a reason to stop."""
        measuring = _Measuring(run=run, settings=self.settings)
        if run.stop_reason(measuring.need) is not None:
            return
        start = await measuring.whole(run.target.baseline)
        _record_start(run, measuring, start, self.settings)
        most = self.settings.max_errored_fraction
        require_baseline(start.train, start.holdout, objective=run.objective, max_missing=most)
        if self.proposer is None:
            await self._measure_again(run, measuring)
            return
        training = Training(run, self.settings, measuring, self.proposer, start)
        epoch, reason = await training.go()
        if reason:
            _tell_end(run, epoch, reason)

    async def _measure_again(self, run: Run, measuring: _Measuring) -> None:
        """The same texts under other draws: what is left is noise."""
        candidate, repeats = run.target.baseline, self.settings.repeats
        for epoch in range(2, self.settings.epochs + 1):
            if run.stop_reason(measuring.need) is not None:
                return
            measured = await measuring.whole(candidate, draw=(epoch - 1) * repeats)
            run.record(
                Trial(
                    candidate=candidate,
                    phase=_AGAIN,
                    cycle=epoch,
                    train=measuring.result(measured.train),
                    holdout=measuring.result(measured.holdout),
                    details=EpochDetails(
                        epoch=epoch, runs=_runs_of(measured.train, measured.holdout)
                    ).to_json(),
                )
            )
        _tell_end(run, self.settings.epochs, "max_epochs")


def _record_start(
    run: Run, measuring: _Measuring, start: _Measured, settings: EpochSettings
) -> None:
    details = EpochDetails(
        epoch=1,
        learning_rate=settings.learning_rate,
        runs=_runs_of(start.train, start.holdout),
    )
    run.record(
        Trial(
            candidate=start.candidate,
            phase=BASELINE,
            cycle=1,
            train=measuring.result(start.train),
            holdout=measuring.result(start.holdout),
            details=details.to_json(),
        )
    )
    run.advance(start.candidate)


def _tell_end(run: Run, epoch: int, reason: str) -> None:
    """Say why the training ended by itself; with more epochs allowed it may end again."""
    run.tell(SearchEnded(cycle=epoch, reason=reason), f"epoch:{epoch}:{reason}")


# -- Training by epochs from a description --------------------------------------------------------


PROPOSER = RoleNeed(
    name="proposer",
    help="Who proposes texts: provider:name.",
    panel="Suites of tasks to delegate",
    prompt=ROLE,
)


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The training; None, with what is wrong kept, where it cannot be."""
    settings: EpochSettings = building.spec.strategy.settings
    if not settings.with_textgrad:
        note = "nothing is proposed: the suite is only measured; --with-textgrad trains"
        return StrategyParts(strategy=Epochs(settings=settings), notes=(note,))
    ref = building.writer(PROPOSER, parts)
    model_and_prompt = None if ref is None else building.asked(ROLE, ref, role=PROPOSER.name)
    if model_and_prompt is None:
        return None
    return StrategyParts(
        strategy=Epochs(settings=settings, proposer=textgrad(*model_and_prompt)),
        client=model_and_prompt[0],
        notes=tuple(_few(settings)),
    )


def _few(settings: EpochSettings) -> Iterator[str]:
    if settings.epochs < 2:
        yield "one epoch only measures: an update takes --epochs 2 or more"
    if settings.repeats < 2:
        yield "one repeat shows no noise: any gain counts; --repeats 2 or more show it"
