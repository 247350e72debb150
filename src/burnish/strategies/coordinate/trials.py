"""One trial of coordinate descent, its settings, and what the roles see.

A candidate is measured on train and, by policy, on holdout; then the gate decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import AliasChoices, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from burnish.core.cases import Case, Split
from burnish.core.comparisons import Pair, paired
from burnish.core.content import AtLeastOne, NotNegative, Repeats, Share
from burnish.core.errors import Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.gates import sigma
from burnish.core.leaks import LeakWatch
from burnish.core.money import Spend, total
from burnish.core.surfaces import EPSILON, Candidate, Origin, Value, value_key
from burnish.core.trials import Decision, SplitResult, Trial, TrialDetails, Verdict
from burnish.models.answers import Explanation, Otherwise, PlainText
from burnish.models.chat import ModelClient
from burnish.models.roles import (
    HintedRequest,
    ModelRole,
    RewrittenText,
    RoleMessage,
    RolePrompt,
)
from burnish.runs.roles import transcript
from burnish.runs.run import Run
from burnish.runs.spec import StrategySettings
from burnish.strategies.requirements import (
    check_constraints,
    require_baseline,
    tell_left_behind,
)
from burnish.system.settings import Access, Door, Settings

HoldoutPolicy: TypeAlias = Literal["on_train_improve", "every_trial", "skip"]
PHASES = {
    "numeric_phase": {"max_trials": 15, "patience": 5},
    "textual_phase": {"max_trials": 10, "patience": 4},
    "demonstration_phase": {"max_trials": 8, "patience": 4},
}
"""By setting, the limits of each kind of phase."""


class PhaseLimits(Settings):
    """When a phase ends."""

    max_trials: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)]
    """Trials of this phase, in each cycle."""
    patience: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)]
    """Trials in a row without an accept, after which this phase ends."""


def _phase(name: str) -> PhaseLimits:
    return PhaseLimits(**PHASES[name])


class CoordinateSettings(StrategySettings):
    """How the search works. `max_trials` and `patience` on their own apply to every phase."""

    model_config = ConfigDict(populate_by_name=True)
    without_holdout: ClassVar[str] = (
        "set holdout_eval_policy: skip, and accept the risk of overfitting"
    )

    numbers: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of numbers and choices, searched together."""
    texts: Annotated[tuple[str, ...], Door(file=False)] = ()
    """Surfaces of text, one a trial, in turn."""
    demonstrations: Annotated[str, Door(file=False)] = ""
    """The surface of demonstrations, if any."""
    repeats: Annotated[Repeats, Door(flag="*", http=Access.CLIENT)] = 3
    """Runs of every case; they show the noise."""
    accept_sigma: Annotated[NotNegative, Door(flag="*", http=Access.CLIENT)] = 1.0
    """How many times its noise a gain must be to count."""
    holdout_policy: Annotated[
        HoldoutPolicy,
        Field(validation_alias=AliasChoices("holdout_policy", "holdout_eval_policy")),
    ] = "on_train_improve"
    """When a candidate is run on holdout."""
    max_errored_fraction: Share = 0.25
    """A candidate with a larger share of failed cases is rejected."""
    min_confidence: Share = 0.4
    """A diagnosis with less confidence does not lead to an edit."""
    max_cycles: Annotated[AtLeastOne, Door(flag="*", panel="Limits", http=Access.LIMIT)] = 4
    """Rounds through all phases of a search."""
    numeric_phase: Annotated[PhaseLimits, Door(prefix="numeric")] = _phase("numeric_phase")
    textual_phase: Annotated[PhaseLimits, Door(prefix="textual")] = _phase("textual_phase")
    demonstration_phase: Annotated[PhaseLimits, Door(prefix="demonstration")] = _phase(
        "demonstration_phase"
    )
    numeric_convergence_eps: NotNegative = 1e-3
    """A numeric phase ends when no point promises a larger gain than this."""

    @property
    def uses_holdout(self) -> bool:
        """Whether candidates are run on holdout."""
        return self.holdout_policy != "skip"

    @property
    def splits(self) -> tuple[Split, ...]:
        """Where the baseline is run, and where a trial may be."""
        return (Split.TRAIN, Split.HOLDOUT) if self.uses_holdout else (Split.TRAIN,)

    @property
    def phases(self) -> dict[str, PhaseLimits]:
        """The limits of each phase that has something to search, in order."""
        phases = {
            "demonstrations": (self.demonstrations, self.demonstration_phase),
            "numeric": (self.numbers, self.numeric_phase),
            "textual": (self.texts, self.textual_phase),
        }
        return {name: limits for name, (surfaces, limits) in phases.items() if surfaces}

    @model_validator(mode="before")
    @classmethod
    def _phases(cls, value: Any) -> Any:
        """Limits that a phase does not set are those of every phase, or the defaults."""
        if not isinstance(value, Mapping):
            return value
        data = dict(cast("Mapping[str, Any]", value))
        every = {key: data.pop(key) for key in ("max_trials", "patience") if key in data}
        for name, usual in PHASES.items():
            limits = data.get(name, {})
            if isinstance(limits, Mapping) and (name in data or every):
                data[name] = {**usual, **every, **limits}
        return data

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        whole = handler.resolve_ref_schema(schema)
        limits: JsonSchemaValue = {"type": "integer", "minimum": 1}
        whole["properties"] |= dict.fromkeys(("max_trials", "patience"), limits)
        return schema


class Gradient(RoleMessage):
    """In which direction one text should move, and why."""

    failing_pattern: str
    root_cause_hypothesis: Explanation
    suggested_change_direction: str
    confidence: Annotated[float, Field(ge=0, le=1), Otherwise(0.5)]
    citations: Annotated[list[str], Otherwise([])]
    avoid: list[str] = Field(default_factory=list[str])

    @property
    def words(self) -> str:
        """As one person would put it to another."""
        lines = [
            f"What goes wrong: {self.failing_pattern}",
            f"Why: {self.root_cause_hypothesis}",
            f"What to change: {self.suggested_change_direction}",
        ]
        return "\n".join([*lines, *(f"Do not lose: {each}" for each in self.avoid)])


class CritiqueRequest(HintedRequest):
    """What the critic sees."""

    axis: str
    current_text: str
    failing_traces: str
    previous_gradients: str
    labels: str = ""
    """The answers that train expects again and again, as they are spelled."""


class EditRequest(HintedRequest):
    """What the applier sees."""

    axis: str
    current_text: str
    gradient: str
    max_chars: int | str
    """The text's own limit; empty if it has none."""


class Edit(RoleMessage):
    """A text with one gradient carried out."""

    edit_type: Annotated[
        Literal["insert", "replace", "delete", "restructure"], Otherwise("restructure")
    ]
    rationale: Explanation
    new_text: Annotated[str, PlainText()]
    diff_summary: Explanation


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
        name="applier",
        request_type=EditRequest,
        answer_type=Edit,
        prompt=prompt,
        client=client,
        rewrite=RewrittenText(part="new_text", current=lambda request: request.current_text),
    )


def with_room(evaluation: Evaluation, metrics: Sequence[str]) -> list[CaseResult]:
    """One run of each case that can be better: runs that fail first, then scores below 1."""
    runs = [result for result in evaluation.results if _has_room(result, metrics)]
    first: dict[str, CaseResult] = {}
    for result in sorted(runs, key=lambda run: run.passed(metrics) is not False):
        first.setdefault(result.case, result)
    return list(first.values())


def _has_room(result: CaseResult, metrics: Sequence[str]) -> bool:
    values = [result.value(metric) for metric in metrics if result.applies(metric)]
    present = [value for value in values if value is not None]
    if len(present) < len(values):
        return False
    return result.passed(metrics) is False or any(value < 1 - EPSILON for value in present)


def trace_texts(
    results: Sequence[CaseResult], cases: Sequence[Case], *, secrets: LeakWatch
) -> list[str]:
    """Failing runs as the critic reads them, up to ten."""
    by_id = {case.id: case for case in cases}
    traces = (transcript(result, by_id[result.case]) for result in results)
    return list(islice((trace for trace in traces if secrets.shows(trace)), 10))


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a search remembers from phase to phase."""

    losses: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """By candidate, on train; None if it is unknown."""
    rejected: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By axis, diagnoses that brought no gain, each as a line with the reason."""


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The leading candidate with its measurements."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None
    loss: float | None

    @property
    def perfect(self) -> bool:
        """Whether nothing can be better: the loss is 0, penalties included."""
        return self.loss is not None and self.loss <= EPSILON


@dataclass(frozen=True, kw_only=True)
class CoordinateAttempt:
    """New values for some surfaces, and where they come from."""

    values: Mapping[str, Value]
    note: str
    details: TrialDetails = field(default_factory=TrialDetails)
    origin: Origin | None = None
    """Where the candidate comes from, if not from the phase."""


@dataclass(frozen=True, kw_only=True)
class AttemptResult:
    """The result of an attempt."""

    incumbent: Incumbent
    """The new one if it was accepted, else the old one."""
    accepted: bool = False
    loss: float | None = None
    """On train; from the ledger if it was tried before; None if it is unknown."""
    unfit: bool = False
    """Whether it was rejected by a check or breaks a constraint."""
    reason: str = ""


class TrialRunner:
    """Runs the trials of one phase."""

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
        settings = self._settings
        return total(self._run.estimate(s, repeats=settings.repeats) for s in settings.splits)

    async def baseline(self) -> Incumbent:
        """Measure the baseline on train and holdout."""
        run = self._run
        start = run.target.baseline
        train = await self._measure(start, Split.TRAIN)
        holdout = None
        if self._settings.uses_holdout and run.dataset.holdout:
            holdout = await self._measure(start, Split.HOLDOUT)
        result = SplitResult.of(train, run.objective)
        held = None if holdout is None else SplitResult.of(holdout, run.objective)
        run.record(Trial(candidate=start, phase="baseline", train=result, holdout=held))
        run.advance(start)
        most = self._settings.max_errored_fraction
        require_baseline(run, train, holdout, max_missing=most)
        only = "only a candidate that keeps all constraints is accepted"
        check_constraints(run, train, holdout, subject="the values as they are", meanwhile=only)
        tell_left_behind(run, train, holdout)
        loss = result.measurement.loss
        self._memory.losses[start.id] = loss
        return Incumbent(candidate=start, train=train, holdout=holdout, loss=loss)

    async def attempt(self, attempt: CoordinateAttempt, before: Incumbent) -> AttemptResult:
        """One trial, recorded whatever its result."""
        candidate = before.candidate.child(attempt.values, origin=self._origin(attempt))
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

    def reject(self, attempt: CoordinateAttempt, before: Incumbent, why: str) -> AttemptResult:
        """Record a trial that ended before there was a candidate."""
        candidate = replace(before.candidate, origin=self._origin(attempt))
        trial = self._trial(candidate, attempt, before)
        self._run.record(replace(trial, problems=(Problem(message=why),)))
        return AttemptResult(incumbent=before, unfit=True, reason=why)

    def _origin(self, attempt: CoordinateAttempt) -> Origin:
        return attempt.origin or Origin(by="coordinate", kind=self._phase, note=attempt.note)

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
        held = None if holdout is None else SplitResult.of(holdout, run.objective)
        run.record(replace(trial, train=result, holdout=held, decision=decision))
        if decision.code == "constraint":
            # However low its loss is, a study must not be drawn there.
            return AttemptResult(incumbent=before, unfit=True, reason=decision.reason)
        loss = None
        if decision.verdict is not Verdict.CANNOT_TELL:
            # A study must not be drawn to where a metric does not apply any more.
            worst = paired(train, before.train, run.objective.weights).own_at(0.0)
            loss = run.objective.measure(worst).loss
        self._memory.losses[candidate.id] = loss
        if not decision.accepted:
            return AttemptResult(incumbent=before, loss=loss, reason=decision.reason)
        run.advance(candidate)
        ahead = Incumbent(candidate=candidate, train=train, holdout=holdout, loss=loss)
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
