"""EvalSets and their results: the types, fields and JSON of tRPC-Agent."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import Field, ValidationError, model_validator

from burnish.core.cases import Case, Outcome, ToolCall, Trace
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Score
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.evalset_shapes import (
    EvalCaseShape,
    EvalSetShape,
    EvalShape,
    FunctionCallShape,
    IntermediateShape,
    InvocationShape,
    ScenarioShape,
    SessionShape,
    as_json,
    as_python,
)
from burnish.datasets.evalsets import evalset_in, recorded_outcome
from burnish.metrics.eval_metrics import MetricItem
from burnish.metrics.turns import EPSILON, Exchange, exchanges
from burnish.projects.measurements import Evaluated
from burnish.system import write_atomic
from burnish.system.yaml import tree_of

Thresholds = Mapping[str, float | None]

_SUFFIX = ".evalset.json"


class EvalModel(EvalShape, frozen=False):
    """A model that reads both spellings of its keys, and writes camelCase if `by_alias`."""

    @model_validator(mode="before")
    @classmethod
    def _in_python(cls, value: object) -> object:
        return as_python(cast("Json", value), cls) if isinstance(value, dict) else value

    def model_dump(self, *, by_alias: bool | None = None, **options: Any) -> dict[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        data = super().model_dump(**options)
        return cast("dict[str, Any]", as_json(data, type(self))) if by_alias else data

    def model_dump_json(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, *, indent: int | None = None, by_alias: bool | None = None, **options: Any
    ) -> str:
        data = self.model_dump(mode="json", by_alias=by_alias, **options)
        return json.dumps(data, indent=indent, ensure_ascii=False)


class IntermediateData(EvalModel, IntermediateShape):
    """What happened before a reply: tool calls and responses, or events."""


class Invocation(EvalModel, InvocationShape):
    """One turn: what the user says, and the final response."""

    invocation_id: str | None = ""
    intermediate_data: IntermediateShape | None = None

    def as_outcome(self) -> Outcome:
        """What an agent did that returns an invocation; without data, its tools are unknown."""
        outcome = recorded_outcome([self])
        trace = Trace() if self.intermediate_data is None else outcome.trace
        return replace(outcome, asked=(), trace=trace, nano_usd=None)


class SessionInput(EvalModel, SessionShape):
    """The initial state of a session."""


class ConversationScenario(EvalModel, ScenarioShape):
    """A conversation with a simulated user."""


class EvalCase(EvalModel, EvalCaseShape):
    """One case of an EvalSet."""


class EvalSet(EvalModel, EvalSetShape):
    """Cases with a name."""

    eval_cases: list[EvalCase]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]

    @property
    def case_file(self) -> CaseFile:
        """The same as burnish reads it from a file."""
        data = cast("Mapping[str, Json]", self.model_dump(mode="json", exclude_unset=True))
        return evalset_in(tree_of(Path(f"{self.eval_set_id}{_SUFFIX}"), data))


class EvalStatus(IntEnum):
    """The verdict on a case, a metric or a turn."""

    PASSED = 1
    FAILED = 2
    NOT_EVALUATED = 3

    @classmethod
    def of(cls, passed: bool | None) -> "EvalStatus":  # noqa: FBT001 - a verdict
        """The status of a verdict; None is that there is none."""
        return cls.NOT_EVALUATED if passed is None else cls.PASSED if passed else cls.FAILED


EvalMetric = MetricItem


class PerInvocationResult(EvalModel):
    """The result of one turn."""

    actual_invocation: Invocation
    expected_invocation: Invocation | None = None
    score: float | None = None
    eval_status: EvalStatus = EvalStatus.NOT_EVALUATED
    reason: str | None = None
    rubric_scores: list[Any] | None = None


class MetricEvaluation(EvalModel):
    """What an evaluator answers: a score over turns, and one for each of them."""

    overall_score: float | None = None
    overall_eval_status: EvalStatus = EvalStatus.NOT_EVALUATED
    per_invocation_results: list[PerInvocationResult] = Field(
        default_factory=list[PerInvocationResult]
    )


class EvalMetricResultDetails(EvalModel):
    """Why a metric has its score."""

    reason: str | None = None
    score: float | None = None
    rubric_scores: list[Any] | None = None


class EvalMetricResult(EvalModel):
    """A metric with its score and verdict."""

    metric_name: str
    threshold: float = 1.0
    score: float | None = None
    eval_status: EvalStatus
    details: EvalMetricResultDetails | None = None


class EvalMetricResultPerInvocation(EvalModel):
    """The metrics of one turn."""

    actual_invocation: Invocation
    expected_invocation: Invocation | None = None
    eval_metric_results: list[EvalMetricResult] = Field(default_factory=list[EvalMetricResult])


class EvalCaseResult(EvalModel):
    """One run of one case."""

    eval_set_id: str = ""
    eval_id: str = ""
    run_id: int | None = None
    """From 1."""
    final_eval_status: EvalStatus
    error_message: str | None = None
    overall_eval_metric_results: list[EvalMetricResult]
    eval_metric_result_per_invocation: list[EvalMetricResultPerInvocation]
    session_id: str = ""
    user_id: str | None = None


class PassNC(NamedTuple):
    """How many runs there were, and in how many of them every case passed."""

    n: int
    c: int


def pass_at_k(n: int, c: int, k: int) -> float:
    """The chance that at least one of k runs passes, if c of n did."""
    _check_counts(n, c, k)
    if k > n:
        raise ValueError("k cannot exceed n")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """The chance that k runs in a row all pass, if c of n did: (c/n)^k."""
    _check_counts(n, c, k)
    return (c / n) ** k


def _check_counts(n: int, c: int, k: int) -> None:
    if n < 1 or k < 1:
        raise ValueError("n and k must be >= 1")
    if not 0 <= c <= n:
        raise ValueError("c must be from 0 to n")


def load_eval_set_from_file(eval_set_file_path: str | Path, eval_set_id: str = "") -> EvalSet:
    """Read an EvalSet; ValueError if the file is none. The id is that of the file."""
    del eval_set_id
    path = Path(eval_set_file_path)
    try:
        return EvalSet.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (ValidationError, ValueError) as error:
        raise ValueError(f"Failed to load eval set from {path}: {error}") from error


class LocalEvalSetsManager:
    """EvalSets in files: `agents_dir/app_name/eval_set_id.evalset.json`."""

    def __init__(self, agents_dir: str | Path) -> None:
        self._folder = Path(agents_dir)

    def get_eval_set(self, app_name: str, eval_set_id: str) -> EvalSet | None:
        """The set, or None if there is no such file."""
        path = self._path(app_name, eval_set_id)
        return load_eval_set_from_file(path) if path.is_file() else None

    def create_eval_set(self, app_name: str, eval_set_id: str) -> EvalSet:
        """A new and empty set."""
        if not re.fullmatch(r"\w+", eval_set_id, re.ASCII):
            raise ValueError(f"an eval set id has letters, digits and _ only: {eval_set_id!r}")
        if self._path(app_name, eval_set_id).exists():
            raise ValueError(f"EvalSet {eval_set_id} already exists for app {app_name}.")
        return self._saved(
            app_name, EvalSet(eval_set_id=eval_set_id, name=eval_set_id, eval_cases=[])
        )

    def list_eval_sets(self, app_name: str) -> list[str]:
        """The ids of the sets of an app."""
        files = (self._folder / app_name).glob(f"*{_SUFFIX}")
        return sorted(path.name.removesuffix(_SUFFIX) for path in files)

    def get_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> EvalCase | None:
        """A case of a set, or None if there is none."""
        eval_set = self.get_eval_set(app_name, eval_set_id)
        cases = eval_set.eval_cases if eval_set else []
        return next((case for case in cases if case.eval_id == eval_case_id), None)

    def add_eval_case(self, app_name: str, eval_set_id: str, eval_case: EvalCase) -> None:
        """Add a case to a set."""
        if self.get_eval_case(app_name, eval_set_id, eval_case.eval_id):
            raise ValueError(f"there is a case '{eval_case.eval_id}' in '{eval_set_id}' already")
        cases = self._cases(app_name, eval_set_id)
        self._replace(app_name, eval_set_id, [*cases, eval_case])

    def update_eval_case(
        self, app_name: str, eval_set_id: str, updated_eval_case: EvalCase
    ) -> None:
        """Replace a case of a set."""
        name = updated_eval_case.eval_id
        self._require(app_name, eval_set_id, name)
        cases = self._cases(app_name, eval_set_id)
        changed = [updated_eval_case if each.eval_id == name else each for each in cases]
        self._replace(app_name, eval_set_id, changed)

    def delete_eval_case(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        """Remove a case from a set."""
        self._require(app_name, eval_set_id, eval_case_id)
        cases = self._cases(app_name, eval_set_id)
        self._replace(app_name, eval_set_id, [e for e in cases if e.eval_id != eval_case_id])

    def _cases(self, app_name: str, eval_set_id: str) -> list[EvalCase]:
        eval_set = self.get_eval_set(app_name, eval_set_id)
        if eval_set is None:
            raise NotFoundError(f"Eval set `{eval_set_id}` not found.")
        return eval_set.eval_cases

    def _require(self, app_name: str, eval_set_id: str, eval_case_id: str) -> None:
        if eval_case_id not in {case.eval_id for case in self._cases(app_name, eval_set_id)}:
            raise NotFoundError(f"Eval case `{eval_case_id}` not found in `{eval_set_id}`.")

    def _replace(self, app_name: str, eval_set_id: str, cases: list[EvalCase]) -> None:
        eval_set = self.get_eval_set(app_name, eval_set_id)
        assert eval_set is not None
        self._saved(app_name, eval_set.model_copy(update={"eval_cases": cases}))

    def _saved(self, app_name: str, eval_set: EvalSet) -> EvalSet:
        path = self._path(app_name, eval_set.eval_set_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = eval_set.model_dump_json(indent=2, exclude_none=True, exclude_defaults=True)
        write_atomic(path, f"{text}\n")
        return eval_set

    def _path(self, app_name: str, eval_set_id: str) -> Path:
        return self._folder / app_name / f"{eval_set_id}{_SUFFIX}"


class NotFoundError(Exception):
    """There is no such EvalSet or case."""


def case_results(
    eval_set_id: str, evaluated: Evaluated, thresholds: Thresholds
) -> dict[str, list[EvalCaseResult]]:
    """The runs of each case, in order."""
    cases = {case.id: case for case in evaluated.cases}
    evaluation = evaluated.evaluation
    return {
        name: [
            _case_result(eval_set_id, cases[name], result, thresholds)
            for result in sorted(evaluation.of_case(name), key=lambda each: each.draw)
        ]
        for name in evaluation.cases
    }


def _case_result(
    eval_set_id: str, case: Case, result: CaseResult, thresholds: Thresholds
) -> EvalCaseResult:
    overall = list(_overall(result, thresholds))
    statuses = {each.eval_status for each in overall}
    failure = result.outcome.failure
    if failure is not None and not result.outcome.failed:
        status = EvalStatus.NOT_EVALUATED
    elif failure is not None or EvalStatus.FAILED in statuses:
        status = EvalStatus.FAILED
    else:
        status = EvalStatus.PASSED if statuses == {EvalStatus.PASSED} else EvalStatus.NOT_EVALUATED
    return EvalCaseResult(
        eval_set_id=eval_set_id,
        eval_id=case.id,
        run_id=result.draw + 1,
        final_eval_status=status,
        error_message=None if failure is None else failure.message,
        overall_eval_metric_results=overall,
        eval_metric_result_per_invocation=_turns(case, result, thresholds),
    )


def _overall(result: CaseResult, thresholds: Thresholds) -> Iterator[EvalMetricResult]:
    """Each metric that applies, over the turns of a run: its mean decides."""
    for metric, threshold in thresholds.items():
        if not result.applies(metric):
            continue
        scores = [score for score in result.scores if score.metric == metric]
        value = result.value(metric)
        passed = all(score.passed is not False for score in scores) and not result.outcome.failed
        if value is not None and threshold is not None:
            passed = value >= threshold - EPSILON
        reasons = [score.reason for score in scores if score.reason]
        yield _metric_result(metric, threshold, value, "\n".join(reasons), passed=passed)


def _turns(
    case: Case, result: CaseResult, thresholds: Thresholds
) -> list[EvalMetricResultPerInvocation]:
    turns = exchanges(case, result.outcome)
    return [
        EvalMetricResultPerInvocation(
            actual_invocation=actual_of(exchange),
            expected_invocation=None if exchange.expected is None else expected_of(exchange),
            eval_metric_results=[
                _of_score(score, thresholds.get(score.metric))
                for score in result.scores
                if score.turn == exchange.index or (score.turn is None and len(turns) == 1)
            ],
        )
        for exchange in turns
    ]


def _of_score(score: Score, threshold: float | None) -> EvalMetricResult:
    return _metric_result(score.metric, threshold, score.value, score.reason, passed=score.passed)


def _metric_result(
    metric: str, threshold: float | None, value: float | None, reason: str, *, passed: bool | None
) -> EvalMetricResult:
    return EvalMetricResult(
        metric_name=metric,
        threshold=1.0 if threshold is None else threshold,
        score=value,
        eval_status=EvalStatus.of(None if value is None else passed),
        details=EvalMetricResultDetails(reason=reason or None, score=value),
    )


def actual_of(exchange: Exchange) -> Invocation:
    """The turn as it went."""
    return _invocation(exchange, exchange.reply, exchange.tools)


def expected_of(exchange: Exchange) -> Invocation:
    """The turn as it is expected."""
    return _invocation(exchange, exchange.expected, exchange.turn.expected_calls or ())


def _invocation(exchange: Exchange, reply: str | None, calls: Sequence[ToolCall]) -> Invocation:
    final = None if reply is None else {"role": "model", "parts": [{"text": reply}]}
    return Invocation.model_validate(
        {
            "invocation_id": f"{exchange.case.id}-{exchange.index + 1}",
            "user_content": {"role": "user", "parts": [{"text": exchange.asked}]},
            "final_response": final,
            "intermediate_data": IntermediateData(tool_uses=function_calls(calls)),
        }
    )


def function_calls(calls: Sequence[ToolCall]) -> list[FunctionCallShape]:
    return [FunctionCallShape(name=each.name, args=dict(each.arguments)) for each in calls]
