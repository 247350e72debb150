"""One trial: measure on train, on holdout if the policy says so, decide; what roles are told."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Case, LeakWatch, Split
from burnish.core.comparisons import Pair
from burnish.core.content import canonical
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.gates import sigma
from burnish.core.money import Spend
from burnish.core.pairing import paired
from burnish.core.surfaces import EPSILON, Candidate, Origin, Value, value_key
from burnish.core.trials import Decision, SplitResult, Trial, TrialDetails, Verdict
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.runs.evaluation import require_baseline
from burnish.runs.roles import transcript
from burnish.runs.run import Run
from burnish.strategies.coordinate.settings import CoordinateSettings

_MOST_TRACES = 10


class _Words(BaseModel):
    """Data that goes to a role or comes from one."""

    model_config = ConfigDict(frozen=True)


class Gradient(_Words):
    """In which direction one text should move, and why."""

    failing_pattern: str
    root_cause_hypothesis: str
    suggested_change_direction: str
    confidence: Annotated[float, Field(ge=0, le=1)]
    citations: list[str]
    avoid: list[str] = Field(default_factory=list[str])


class Rejected(_Words):
    """A diagnosis that was carried out and brought nothing, and why."""

    gradient: Gradient
    reason: str


class CritiqueRequest(_Words):
    """What the critic sees."""

    axis: str
    current_text: str
    failing_traces: str
    previous_gradients: str


class EditRequest(_Words):
    """What the applier sees."""

    axis: str
    current_text: str
    gradient: str
    max_chars: int


class Edit(_Words):
    """A text with one gradient carried out."""

    edit_type: Literal["insert", "replace", "delete", "restructure"]
    rationale: str
    new_text: str
    diff_summary: str


def critic(client: ModelClient, prompt: RolePrompt) -> ModelRole[CritiqueRequest, Gradient]:
    """The role that diagnoses."""
    return ModelRole(
        name="critic",
        request_type=CritiqueRequest,
        answer_type=Gradient,
        prompt=prompt,
        client=client,
    )


def applier(client: ModelClient, prompt: RolePrompt) -> ModelRole[EditRequest, Edit]:
    """The role that edits."""
    return ModelRole(
        name="applier", request_type=EditRequest, answer_type=Edit, prompt=prompt, client=client
    )


def gradient_lines(gradients: Sequence[Gradient]) -> str:
    """Diagnoses, one a line."""
    return _lines([each.model_dump() for each in gradients])


def rejection_lines(rejected: Sequence[Rejected]) -> str:
    """Diagnoses that were tried and rejected, one a line, each with the reason."""
    return _lines([{**r.gradient.model_dump(), "rejected_because": r.reason} for r in rejected])


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "\n".join(canonical(row).decode() for row in rows) or "(none)"


def failing(evaluation: Evaluation, metrics: Sequence[str]) -> list[CaseResult]:
    """The first failing run of each case that fails, in order."""
    first: dict[str, CaseResult] = {}
    for result in evaluation.results:
        if result.case not in first and _fails(result, metrics):
            first[result.case] = result
    return list(first.values())


def _fails(result: CaseResult, metrics: Sequence[str]) -> bool:
    """By the metrics' verdict; where they give none, any score below the best is a failure."""
    verdict = result.passed(metrics)
    if verdict is not None:
        return not verdict
    values = [result.value(metric) for metric in metrics if result.applies(metric)]
    return any(value is not None and value < 1 for value in values) and None not in values


def trace_texts(
    results: Sequence[CaseResult], cases: Sequence[Case], *, secrets: LeakWatch
) -> list[str]:
    """Failing runs as the critic reads them, up to ten.

    An agent may say on a train case what a holdout case expects. That run is left out: it is
    neither the critic's to see nor a reason to end the search.
    """
    by_id = {case.id: case for case in cases}
    traces = (transcript(result, by_id[result.case]) for result in results)
    return list(islice((trace for trace in traces if secrets.leaked(trace) is None), _MOST_TRACES))


# -- What a search remembers from phase to phase --------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Losses of what was tried, and diagnoses that brought nothing."""

    losses: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """By candidate, on train; None where nobody could tell."""
    rejected: dict[str, list[Rejected]] = field(default_factory=dict[str, list[Rejected]])
    """By axis, in the order of the trials."""


# -- One trial ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The candidate that is ahead, with everything that was measured of it."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None
    loss: float | None
    """On train, penalties included."""
    trial: int = 0

    @property
    def perfect(self) -> bool:
        """Nothing can be better: the loss is 0, and no penalty is left to be lowered."""
        return self.loss is not None and self.loss <= EPSILON


@dataclass(frozen=True, kw_only=True)
class CoordinateAttempt:
    """What is tried: other values for some surfaces, and where they come from."""

    values: Mapping[str, Value]
    note: str
    """A few words, for the line of the trial."""
    details: TrialDetails = field(default_factory=TrialDetails)


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """What came of an attempt."""

    incumbent: Incumbent
    """The new one where it was accepted, else the old one."""
    accepted: bool = False
    loss: float | None = None
    """On train; what the ledger says where it was tried before; None when nobody can tell."""
    unfit: bool = False
    """It is not to be had: turned away for what it is, or it breaks a constraint."""
    reason: str = ""
    """Why it was accepted or not."""


class TrialRunner:
    """Makes trials of one phase."""

    def __init__(
        self, run: Run, settings: CoordinateSettings, *, cycle: int, phase: str, memory: Memory
    ) -> None:
        self._run = run
        self._settings = settings
        self._cycle = cycle
        self._phase = phase
        self._memory = memory
        self.paid: dict[Split, Spend] = {}
        """What the last measurement on each split cost."""

    @property
    def need(self) -> Spend:
        """What one trial may cost: train and holdout, as often as they are repeated."""
        repeats = self._settings.repeats
        train = self._run.estimate(Split.TRAIN, repeats=repeats)
        if self._settings.holdout_policy == "skip":
            return train
        return train + self._run.estimate(Split.HOLDOUT, repeats=repeats)

    async def baseline(self) -> Incumbent:
        """Measure what is there, on both sets. Without it nothing is worth paying for."""
        run = self._run
        start = run.target.baseline
        train = await self._measure(start, Split.TRAIN)
        skip = self._settings.holdout_policy == "skip" or not run.dataset.holdout
        holdout = None if skip else await self._measure(start, Split.HOLDOUT)
        result = SplitResult.of(train, run.objective)
        run.record(
            Trial(
                candidate=start,
                phase="baseline",
                train=result,
                holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
            )
        )
        run.advance(start)
        most = self._settings.max_errored_fraction
        require_baseline(train, holdout, objective=run.objective, max_missing=most)
        loss = result.measurement.loss
        self._memory.losses[start.id] = loss
        return Incumbent(candidate=start, train=train, holdout=holdout, loss=loss)

    async def attempt(self, attempt: CoordinateAttempt, before: Incumbent) -> AttemptResult:
        """One trial, recorded whatever comes of it."""
        origin = Origin(by="coordinate", kind=self._phase, note=attempt.note)
        candidate = before.candidate.child(attempt.values, origin=origin)
        trial = self._trial(candidate, attempt, before)
        problems = await self._run.check(candidate, parent=before.candidate)
        if not problems:
            return await self._measured(trial, before)
        self._run.record(replace(trial, problems=tuple(problems)))
        return AttemptResult(
            incumbent=before,
            loss=self._memory.losses.get(candidate.id),
            unfit=candidate.id not in self._memory.losses,
            reason="; ".join(map(str, problems)),
        )

    def turned_away(self, attempt: CoordinateAttempt, before: Incumbent, why: str) -> AttemptResult:
        """A trial that is over before there was a candidate."""
        candidate = replace(
            before.candidate, origin=Origin(by="coordinate", kind=self._phase, note=attempt.note)
        )
        trial = self._trial(candidate, attempt, before)
        self._run.record(replace(trial, problems=(Problem(message=why),)))
        return AttemptResult(incumbent=before, unfit=True, reason=why)

    def _trial(self, candidate: Candidate, attempt: CoordinateAttempt, before: Incumbent) -> Trial:
        changed = [
            name
            for name, value in attempt.values.items()
            if value_key(value) != value_key(before.candidate.values[name])
        ]
        return Trial(
            candidate=candidate,
            cycle=self._cycle,
            phase=self._phase,
            touched=tuple(changed or attempt.values),
            details=attempt.details.to_json(),
        )

    async def _measured(self, trial: Trial, before: Incumbent) -> AttemptResult:
        run, settings, candidate = self._run, self._settings, trial.candidate
        train = await self._measure(candidate, Split.TRAIN)
        decision = self._decide(train, None, before)
        holdout = None
        if before.holdout is not None and (
            decision.accepted or settings.holdout_policy == "every_trial"
        ):
            holdout = await self._measure(candidate, Split.HOLDOUT)
            decision = self._decide(train, holdout, before)
        result = SplitResult.of(train, run.objective)
        row = run.record(
            replace(
                trial,
                train=result,
                holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
                decision=decision,
            )
        )
        if decision.code == "constraint":
            # However low its loss is, it is not to be had: a study must not be drawn there.
            return AttemptResult(incumbent=before, unfit=True, reason=decision.reason)
        # Where nobody can tell, the loss of what is left says nothing either. And where a metric
        # does not apply any more, a study must not be drawn there by the silence.
        worst = paired(train, before.train, run.objective.weights).own_at(0.0)
        loss = run.objective.measure(worst).loss
        if decision.verdict is Verdict.CANNOT_TELL:
            loss = None
        self._memory.losses[candidate.id] = loss
        if not decision.accepted:
            return AttemptResult(incumbent=before, loss=loss, reason=decision.reason)
        run.advance(candidate)
        ahead = Incumbent(
            candidate=candidate, train=train, holdout=holdout, loss=loss, trial=row.number
        )
        return AttemptResult(incumbent=ahead, accepted=True, loss=loss, reason=decision.reason)

    def _decide(self, train: Evaluation, holdout: Evaluation | None, before: Incumbent) -> Decision:
        held = None
        if holdout is not None and before.holdout is not None:
            held = Pair(candidate=holdout, incumbent=before.holdout)
        return sigma(
            objective=self._run.objective,
            train=Pair(candidate=train, incumbent=before.train),
            holdout=held,
            accept_sigma=self._settings.accept_sigma,
            max_missing=self._settings.max_errored_fraction,
        )

    async def _measure(self, candidate: Candidate, split: Split) -> Evaluation:
        before = self._run.spent
        evaluation = await self._run.evaluate(
            candidate, split=split, repeats=self._settings.repeats
        )
        self.paid[split] = self._run.spent.minus(before)
        return evaluation
