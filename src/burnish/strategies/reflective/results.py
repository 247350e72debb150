"""The result of optimising prompts in AgentOptimizer's format: `result.json` and its summary."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from burnish.core.errors import FileTrouble
from burnish.core.formatting import money, shorten
from burnish.system import read_bytes, write_atomic

_UNKNOWN = "unknown"
Status: TypeAlias = Literal["SUCCEEDED", "FAILED", "CANCELED"]
FinishReason: TypeAlias = Literal["completed", "perfect_pass_rate", "no_improvement", "error"]


class _ResultModel(BaseModel):
    """Snake case in Python, camel case in files, both on reading; unknown keys are refused."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        use_attribute_docstrings=True,
    )


class CallUsage(_ResultModel):
    """The calls of one kind, and their cost."""

    calls: int = 0
    prompt: int = 0
    """Input tokens, as far as they are known: an agent that is only called may not report them."""
    completion: int = 0
    """Output tokens."""
    total: int = 0
    cost: float | None = 0.0
    """US dollars; None if the price of a call is unknown."""


class PartOfValidation(_ResultModel):
    """The results of a candidate on a part of the validation cases."""

    cases: int
    pass_rate: float | None = None
    mean_score: float | None = None
    metric_breakdown: dict[str, float] = Field(default_factory=dict[str, float])


class ReflectionRecord(_ResultModel):
    """A request to the reflection model about one field, and its answer."""

    role: str
    request: JsonValue = None
    answer: JsonValue = None
    error: str = ""
    """Why there is no answer."""


class SealedTest(_ResultModel):
    """The baseline and the best on a test set that was not used before."""

    baseline_mean_score: float | None = None
    best_mean_score: float | None = None
    gain: float | None = None
    """The mean over the cases that both have; None if the best is the baseline."""
    low: float | None = None
    """The 95 % interval of the gain."""
    high: float | None = None
    missing_cases: int = 0


class RoundRecord(_ResultModel):
    """One attempt: the proposal, its results and the decision."""

    round: int
    """From 1. Attempts made side by side each have their own number."""
    kind: str = "reflective"
    """`reflective` or `merge`; other algorithms may use other values."""
    started_at: str = ""
    duration_seconds: float = 0.0
    optimized_field_names: list[str] = Field(default_factory=list[str])
    candidate_prompts: dict[str, str] = Field(default_factory=dict[str, str])
    """All prompts of the proposal, even if it was rejected; empty if there was none."""
    accepted: bool = False
    """Whether it became the best on validation."""
    acceptance_reason: str = ""
    per_field_diagnosis: dict[str, str] = Field(default_factory=dict[str, str])
    validation_pass_rate: float | None = None
    """The share of validation cases that pass; None if it was not run on all of them."""
    validation_mean_score: float | None = None
    metric_breakdown: dict[str, float] = Field(default_factory=dict[str, float])
    """The mean of each metric on validation; empty if it was not run on all of it."""
    partial_validation: PartOfValidation | None = None
    """The same over the cases that were run, if the attempt was stopped early as a clear loser."""
    failed_case_ids: list[str] = Field(default_factory=list[str])
    """Validation cases that do not pass, of those that were run."""
    failed_cases_truncated: int = 0
    """Failed cases that the reflection model could not be shown."""
    train_minibatch_size: int = 0
    train_pass_rate: float | None = None
    """Of the candidate on its minibatch."""
    train_subsample_parent_score: float | None = None
    train_subsample_candidate_score: float | None = None
    skip_reason: str | None = None
    error_message: str | None = None
    reflections: list[ReflectionRecord] = Field(default_factory=list[ReflectionRecord])
    reflection_lm_calls: int = 0
    round_token_usage: dict[str, int] = Field(default_factory=dict[str, int])
    """Of the reflection model: prompt, completion, total."""
    reflection_cost: float | None = 0.0
    """US dollars; None where a price is not known."""
    round_llm_cost: float | None = 0.0
    """Agent, judges and reflection together; None where a price is not known."""
    budget_used: int | None = None
    """Metric calls up to here."""
    budget_total: int | None = None
    extras: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class OptimizeResult(_ResultModel):
    """The result of an optimisation."""

    schema_version: str = "v1"
    algorithm: str
    status: Status
    finish_reason: FinishReason = "completed"
    stop_reason: str | None = None
    """Why it ended: one of AgentOptimizer's reasons, or the label of a custom stopper."""
    error_message: str = ""

    baseline_pass_rate: float | None = None
    """The share of validation cases that pass; None if it is unknown."""
    best_pass_rate: float | None = None
    pass_rate_improvement: float | None = None
    baseline_mean_score: float | None = None
    """What decides: the mean over cases of the mean over metrics."""
    best_mean_score: float | None = None
    baseline_metric_breakdown: dict[str, float] = Field(default_factory=dict[str, float])
    best_metric_breakdown: dict[str, float] = Field(default_factory=dict[str, float])
    metric_thresholds: dict[str, float] = Field(default_factory=dict[str, float])
    per_metric_best_candidates: dict[str, list[int]] = Field(default_factory=dict[str, list[int]])
    """By metric, who has the best mean: the baseline is 0, then the kept candidates in order."""
    missing_cases: int = 0
    """Validation cases of the best without a score: not in any mean, and never counted as 0."""
    sealed_test: SealedTest | None = None
    claim: str = ""
    """What may be said of the best, in words; empty if nothing was measured."""

    baseline_prompts: dict[str, str] = Field(default_factory=dict[str, str])
    best_prompts: dict[str, str] = Field(default_factory=dict[str, str])
    """The baseline's if the run failed."""
    source_updated: bool = False
    """Whether the best prompts were written to where the baseline came from."""

    total_rounds: int = 0
    rounds: list[RoundRecord] = Field(default_factory=list[RoundRecord])
    rounds_accepted: int = 0
    merge_rounds_total: int = 0
    proposals_total: int = 0
    """Texts that the reflection model proposed."""

    total_metric_calls: int = 0
    """Runs of a case."""
    metric_calls_total: int = 0
    """The same, by its other name."""
    total_reflection_lm_calls: int = 0
    total_judge_model_calls: int = 0
    total_llm_cost: float | None = 0.0
    """Agent, judges and reflection together; None where a price is not known."""
    total_token_usage: dict[str, int] = Field(default_factory=dict[str, int])
    """Of the reflection model: prompt, completion, total."""
    agent_usage: CallUsage = Field(default_factory=CallUsage)
    judge_usage: CallUsage = Field(default_factory=CallUsage)
    reflection_usage: CallUsage = Field(default_factory=CallUsage)

    duration_seconds: float = 0.0
    """Active time of all sessions together."""
    started_at: str = ""
    finished_at: str = ""
    extras: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])

    def dump_to(self, path: str | Path) -> None:
        """Write it as JSON; the file is whole or absent."""
        write_atomic(Path(path), as_json(self))

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read it, in either spelling."""
        try:
            return cls.model_validate_json(read_bytes(Path(path)))
        except ValidationError as error:
            first = error.errors()[0]
            problem = f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"
            remedy = "It is written by AgentOptimizer.optimize as result.json."
            raise FileTrouble(
                f"{path} is not the result of an optimisation: {problem}", remedy=remedy
            ) from error

    def format_summary(self, *, output_dir: str | Path, update_source: bool) -> str:
        """For people: what `summary.txt` says."""
        return "\n".join(_summary(self, Path(output_dir), update_source=update_source)) + "\n"


def as_json(model: BaseModel) -> str:
    """A result or a round as its file spells it."""
    content = model.model_dump(mode="json", by_alias=True)
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _summary(result: OptimizeResult, output_dir: Path, *, update_source: bool) -> Iterator[str]:
    head = "Optimization complete" if result.status == "SUCCEEDED" else "Optimization ended"
    yield f"{head} | status={result.status} | algorithm={result.algorithm}"
    yield f"  pass_rate     : {_change(result.baseline_pass_rate, result.best_pass_rate)}"
    yield f"  mean_score    : {_change(result.baseline_mean_score, result.best_mean_score)}"
    if result.missing_cases:
        yield f"  missing       : {result.missing_cases} validation cases, not counted above"
    if result.claim:
        yield f"  claim         : {result.claim.replace('→', '->')}"
    yield f"  rounds        : {result.rounds_accepted} accepted / {result.total_rounds} total"
    yield f"  metric_calls  : {result.total_metric_calls}"
    yield f"  duration      : {result.duration_seconds:.2f}s"
    yield f"  stop_reason   : {result.stop_reason or 'none'}"
    yield f"  finish_reason : {result.finish_reason}"
    yield f"  update_source : {_updated(result, update_source=update_source)}"
    if result.error_message:
        yield f"  error         : {shorten(result.error_message, 300)}"
    yield from (f"  warning       : {shorten(each, 300)}" for each in _warnings(result))
    yield from _metrics(result)
    yield from ("", "calls")
    kinds = {
        "agent": result.agent_usage,
        "judges": result.judge_usage,
        "reflection": result.reflection_usage,
    }
    for name, used in kinds.items():
        yield f"  {name:<10} : {used.calls} calls, {used.total} tokens, {money(used.cost)}"
    yield from ("", "best prompts")
    for name, text in result.best_prompts.items():
        before = result.baseline_prompts.get(name, "")
        change = "unchanged" if before == text else f"was {len(before)}"
        yield f"  {name}: {len(text)} characters ({change})"
    yield from ("", f"files in {output_dir}")
    yield "  result.json  rounds/  baseline_prompts/  best_prompts/  config.snapshot.json"


def _warnings(result: OptimizeResult) -> list[str]:
    warnings = result.extras.get("warnings")
    return [str(each) for each in warnings] if isinstance(warnings, list) else []


def _metrics(result: OptimizeResult) -> Iterator[str]:
    before, after = result.baseline_metric_breakdown, result.best_metric_breakdown
    names = sorted({*before, *after})
    if names:
        yield from ("", "metrics on validation")
    for name in names:
        bar = result.metric_thresholds.get(name)
        threshold = "" if bar is None else f"  (threshold {bar:g})"
        yield f"  {name}: {_change(before.get(name), after.get(name))}{threshold}"


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return f"{_number(before)} -> {_number(after)}"
    gain = after - before
    # AgentOptimizer's words for two numbers; what may be concluded is in the line of the claim.
    word = "no change" if gain == 0 else ("improved" if gain > 0 else "worse")
    return f"{before:.4f} -> {after:.4f} ({gain:+.4f}, {word})"


def _updated(result: OptimizeResult, *, update_source: bool) -> str:
    if result.source_updated:
        return "true"
    if update_source and result.best_prompts == result.baseline_prompts:
        return "requested, but there was nothing to change"
    return "requested, but not done" if update_source else "false"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.4f}"


def log_line(result: OptimizeResult) -> str:
    """`run.log`: one line that is easy to grep."""
    old, new, gain = (
        result.baseline_pass_rate,
        result.best_pass_rate,
        result.pass_rate_improvement,
    )
    parts = [
        result.finished_at,
        f"status={result.status}",
        f"algorithm={result.algorithm}",
        f"baseline={_UNKNOWN if old is None else f'{old:g}'}",
        f"best={_UNKNOWN if new is None else f'{new:g}'}",
        f"delta={_UNKNOWN if gain is None else f'{gain:+g}'}",
        f"rounds={result.total_rounds}",
        f"duration_seconds={result.duration_seconds:g}",
    ]
    if result.stop_reason:
        parts.append(f"stop_reason={'_'.join(result.stop_reason.split())}")
    if result.error_message:
        parts.append(f"error={shorten(result.error_message, 300)!r}")
    parts += [f"warning={shorten(each, 300)!r}" for each in _warnings(result)]
    return " ".join(part for part in parts if part) + "\n"
