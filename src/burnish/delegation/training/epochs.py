"""The strategy `epochs`: measure the suite, ask for a better text, keep what is better."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from textwrap import indent
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.content import Json, short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.gates import OfferRule, sigma
from burnish.core.money import Spend, total
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import EPSILON, Candidate, Origin, TextSurface
from burnish.core.trials import Decision, Proposal, SplitResult, Trial, TrialDetails, Verdict
from burnish.delegation.policy import MOST_CHARS
from burnish.delegation.target import DelegationFacts
from burnish.delegation.training.setup import EpochSettings, step_words
from burnish.metrics.text_matching import without_middle
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RewrittenText, RolePrompt
from burnish.runs.events import BASELINE, EventData, SearchEnded
from burnish.runs.plugins import RoleNeed
from burnish.runs.roles import transcript
from burnish.runs.run import Run
from burnish.strategies.requirements import require_baseline

ROLE = "textgrad"
_SHOWN_UPDATES = 6
_SHOWN_CHARS = 2000
"""How many earlier updates the role sees, and how much of the text of each."""


class _Words(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class TextGradRequest(_Words):
    """What is shown of one text, and of how the suite went under all of them."""

    artifact_name: str
    current_text: str
    mean_loss: str
    runs: str
    """The tasks of train: asked, reported, and what critic, gates and metrics said."""
    other_texts: str
    tried: str
    """What was tried before, and what came of it."""
    learning_rate: str
    """How large a step may be, as a number and in words."""
    must_keep: str
    max_chars: int


class TextGrad(_Words):
    """A new text with what it is hoped to bring; no name, and nothing is proposed."""

    artifact_name: str | None = None
    proposed_content: str = ""
    rationale: str = ""
    expected_loss_reduction: Annotated[float, Field(ge=0, le=1)] = 0.0
    confidence: Annotated[float, Field(ge=0, le=1)] = 0.0

    @property
    def promise(self) -> float:
        return 0.0 if self.artifact_name is None else self.expected_loss_reduction * self.confidence


def textgrad(client: ModelClient, prompt: RolePrompt) -> ModelRole[TextGradRequest, TextGrad]:
    """The role that proposes how one text should change, if it is to blame."""
    return ModelRole(
        name=ROLE,
        request_type=TextGradRequest,
        answer_type=TextGrad,
        prompt=prompt,
        client=client,
        check=_unfit,
        rewrite=RewrittenText(
            part="proposed_content",
            current=lambda request: request.current_text,
            proposes=lambda answer: answer.artifact_name is not None,
        ),
    )


def _unfit(request: TextGradRequest, answer: TextGrad) -> str:
    if answer.artifact_name is None:
        return ""
    if answer.artifact_name != request.artifact_name:
        return f"artifact_name must be '{request.artifact_name}', or null to leave it as it is"
    if not answer.proposed_content.strip():
        return "proposed_content is empty; give the whole new text, or null for artifact_name"
    if (length := len(answer.proposed_content)) > request.max_chars:
        return f"proposed_content has {length} characters, {request.max_chars} are allowed"
    return ""


@dataclass(frozen=True, kw_only=True)
class _Proposed:
    """The result of asking about every text."""

    ranked: tuple[TextGrad, ...]
    """The real changes, the most promising first; at most one a text."""
    proposals: tuple[Proposal, ...]
    """The requests and answers, for the record."""
    declined: bool
    """Whether all requests were answered and nothing should change."""


@dataclass(frozen=True, kw_only=True)
class TextUpdate:
    """A change of one text and its expected gain."""

    artifact: str = ""
    rationale: str = ""
    expected_loss_reduction: int | float | None = None
    confidence: int | float | None = None


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """The ledger's entry for one run of a task."""

    run_id: str | None = None
    task: str = ""
    draw: int = 0
    split: Split = Split.TRAIN
    loss: int | float | None = None
    status: str = ""
    parts: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class EpochDetails(TrialDetails):
    """The ledger's entry for one epoch."""

    optional: ClassVar[frozenset[str]] = TrialDetails.optional | {
        *("learning_rate", "update", "runs", "stays"),
    }

    epoch: int = 0
    learning_rate: int | float | None = None
    update: TextUpdate | None = None
    runs: tuple[TaskRun, ...] | None = None
    stays: bool | None = None
    """Whether the candidate is kept without being better."""


@dataclass(frozen=True, kw_only=True)
class _Tried:
    """An update and what came of it."""

    artifact: str
    text: str
    words: str


@dataclass(frozen=True, kw_only=True)
class Proposing:
    """Asks the role about every text."""

    run: Run
    role: Role[TextGradRequest, TextGrad]
    tried: list["_Tried"] = field(default_factory=list["_Tried"])
    """The updates that were tried or turned away."""

    @property
    def surfaces(self) -> Sequence[TextSurface]:
        return [s for s in self.run.target.surfaces if isinstance(s, TextSurface)]

    def cost(self, candidate: Candidate, train: Evaluation, rate: float) -> Spend:
        """What it may cost to ask about every text."""
        requests = (self.request(each, candidate, train, rate) for each in self.surfaces)
        return total(map(self.role.estimate, requests))

    async def propose(
        self, candidate: Candidate, train: Evaluation, *, rate: float, epoch: int
    ) -> _Proposed:
        """The most promising change of one text."""
        requests = [self.request(each, candidate, train, rate) for each in self.surfaces]
        # The same evidence may be looked at again: another draw, another view.
        replies = await self.run.ask_together(self.role, requests, draw=epoch * len(requests))
        answers = [each.answer for each in replies if each.answer is not None]
        useful = [
            each
            for each in answers
            if each.promise > 0
            and str(candidate.values.get(str(each.artifact_name), "")) != each.proposed_content
        ]
        return _Proposed(
            ranked=tuple(sorted(useful, key=lambda answer: -answer.promise)),
            proposals=tuple(each.proposal for each in replies),
            declined=not useful and len(answers) == len(replies),
        )

    def remember(self, update: TextGrad, outcome: str) -> None:
        """Note what came of an update, for later requests; one that comes again is noted once."""
        name = str(update.artifact_name)
        words = f"{name}: {update.rationale or 'no reason given'} → {outcome}"
        if all(
            (each.artifact, each.text) != (name, update.proposed_content) for each in self.tried
        ):
            self.tried.append(_Tried(artifact=name, text=update.proposed_content, words=words))

    def _tried_words(self, artifact: str) -> str:
        """The latest updates; those of this text with the text that was tried."""
        return "\n".join(
            f"{each.words}\n{indent(without_middle(each.text, _SHOWN_CHARS), '  | ')}"
            if each.artifact == artifact
            else each.words
            for each in self.tried[-_SHOWN_UPDATES:]
        )

    def request(
        self, surface: TextSurface, candidate: Candidate, train: Evaluation, rate: float
    ) -> TextGradRequest:
        """What the role sees of one text."""
        values = {name: str(value) for name, value in candidate.values.items()}
        others = [f"## {n}\n{text.strip()}" for n, text in values.items() if n != surface.id]
        loss = self.run.objective.measure(train).loss
        required = [*surface.placeholders, *surface.frozen]
        return TextGradRequest(
            artifact_name=surface.id,
            current_text=values[surface.id],
            mean_loss="unknown" if loss is None else f"{loss:.4f}",
            runs=self._runs(train),
            other_texts="\n\n".join(others),
            tried=self._tried_words(surface.id),
            learning_rate=f"{rate:g}: {step_words(rate)}",
            must_keep="\n".join(required),
            max_chars=surface.max_chars or MOST_CHARS,
        )

    def _runs(self, train: Evaluation) -> str:
        """The worst run of each task with its feedback, the worst task first."""
        cases = {case.id: case for case in self.run.dataset.train}
        results = [result for result in train.results if not result.outcome.missing]

        def score(result: CaseResult) -> float:
            return min((each.value or 0.0 for each in result.scores), default=0.0)

        worst: dict[str, CaseResult] = {}
        for result in sorted(results, key=score):
            worst.setdefault(result.case, result)
        shown = [transcript(result, cases[case]) for case, result in worst.items()]
        return "\n\n".join(shown[:12]) or "(none)"


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

    async def search(self, run: Run) -> None:
        settings, suite = self.settings, _Suite(run=run, settings=self.settings)
        if run.stop_reason(suite.cost) is not None:
            return
        start = await suite.measure(BASELINE, 1, rate=settings.learning_rate)
        run.advance(start.candidate)
        most = settings.max_errored_fraction
        require_baseline(run, start.train, start.holdout, max_missing=most)
        if self.proposer is not None:
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
