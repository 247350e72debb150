"""Judges: how EvalSet and PromptIter metrics name them, panels of them, and what metrics share."""

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeAlias, TypeVar, cast

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    model_validator,
)
from pydantic.alias_generators import to_camel

from burnish.core.cases import Case, Rubric
from burnish.core.content import AboveZero, AtLeastOne, Json, Repeats, Share, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.money import Spend, total
from burnish.metrics.turns import DEFAULT_TURNS, EPSILON, Verdict
from burnish.models.chat import ModelClient
from burnish.models.factory import JUDGE, Models, PriceBlock, Temperature, spelled_out
from burnish.models.references import ModelRef, ModelSettings, key_reference, split_reference
from burnish.models.roles import RolePrompt, RoleTool, in_force
from burnish.system import expand_variables

T = TypeVar("T")

Positive = AtLeastOne


def spelled(*names: str) -> AliasChoices:
    """The aliases of a key: snake_case and camelCase, unless the name has capitals."""
    forms = ((name, to_camel(name)) if name.islower() else (name,) for name in names)
    return AliasChoices(*dict.fromkeys(form for both in forms for form in both))


class Shape(BaseModel):
    """A block of a file in either spelling; unknown keys are rejected."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=AliasGenerator(validation_alias=spelled, serialization_alias=to_camel),
        populate_by_name=True,
        defer_build=True,
    )


class ShapeList(RootModel[list[T]], Generic[T]):
    """A file, or a part of one, that is a list of blocks."""

    model_config = ConfigDict(defer_build=True)


def block(value: object) -> dict[str, Any]:
    """The keys of a raw value; empty if it is not a mapping."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


_OF_A_BLOCK = {"provider": "provider_name", "name": "model_name", "endpoint": "base_url"}
"""Keys of an ordinary model block, as EvalSet spells them."""


class GenerationConfig(Shape):
    """Generation settings of a judge; those for transport are ignored."""

    max_tokens: Positive | None = Field(
        default=None, validation_alias=spelled("max_tokens", "max_output_tokens")
    )
    temperature: Temperature | None = None
    top_p: Share | None = None
    seed: int | None = None
    stop: list[str] = Field(
        default_factory=list[str], validation_alias=spelled("stop", "stop_sequences")
    )
    stream: bool | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    thinking_enabled: bool | None = None
    thinking_tokens: int | None = None
    reasoning_effort: str | None = None


class JudgeModel(Shape):
    """A judge as EvalSet and AgentOptimizer spell it, as a model block, or as `provider:name`."""

    provider_name: str = ""
    model_name: str
    variant: str = ""
    base_url: str = Field(
        default="", validation_alias=spelled("base_url", "baseURL"), serialization_alias="baseURL"
    )
    api_key: str = ""
    extra_fields: dict[str, JsonValue] | None = None
    num_samples: Repeats = 1
    generation_config: GenerationConfig = Field(
        default_factory=GenerationConfig,
        validation_alias=spelled("generation_config", "generation"),
    )
    weight: AboveZero = 1.0
    think: bool | None = None
    api_version: str = ""
    timeout: AboveZero | None = None
    """Seconds for one attempt."""
    prices: PriceBlock | None = None
    """Prices, for an endpoint of your own."""
    job: ClassVar[str] = "the judge"
    """What the model does, for errors."""

    @model_validator(mode="before")
    @classmethod
    def _respelled(cls, value: Any) -> Any:
        """Rename the keys of a model block to those of EvalSet."""
        value = spelled_out(value)
        fields = block(value)
        if not fields:
            return value
        new = {_OF_A_BLOCK.get(key, key): item for key, item in fields.items()}
        if len(new) < len(fields):
            twice = next(key for key, other in _OF_A_BLOCK.items() if {key, other} <= set(fields))
            raise ValueError(f"{twice} and {_OF_A_BLOCK[twice]} are two names for the same setting")
        generation = ("temperature", "max_tokens", "top_p", "seed", "stop")
        settings = {key: new.pop(key) for key in generation if key in new}
        if not settings:
            return new
        keys = ("generation_config", "generationConfig", "generation")
        key = next((each for each in keys if each in new), "generation_config")
        return {**new, key: {**block(new.get(key)), **settings}}

    @property
    def written_key(self) -> str:
        """The key as the file has it: `$VAR` in braces, or in plain text."""
        return _long(self.api_key)

    def reference(self) -> ModelRef:
        """The model as a reference; names are expanded now, the key on use."""
        provider = expand_variables(_long(self.provider_name), os.environ)
        name = expand_variables(_long(self.model_name), os.environ)
        settings = self.generation_config
        usual = ModelSettings()
        # Without an address, `openai/gpt-4o` names its provider; an endpoint has its own names.
        is_whole = not (provider or self.base_url) and split_reference(name) is not None
        return ModelRef.parse(
            name if is_whole else f"{provider or 'openai'}:{name}",
            base_url=_long(self.base_url),
            api_key=key_reference(self.written_key, f"the api_key of {self.job} {name}"),
            settings=ModelSettings(
                temperature=settings.temperature,
                max_tokens=settings.max_tokens,
                top_p=settings.top_p,
                seed=settings.seed,
                stop=tuple(settings.stop),
                timeout=usual.timeout if self.timeout is None else self.timeout,
            ),
            api_version=self.api_version,
            price=None if self.prices is None else self.prices.price(),
        )

    def ignored(self) -> list[str]:
        """Keys that have no effect."""
        named = {"variant": self.variant, "extra_fields": self.extra_fields, "think": self.think}
        return [key for key, value in named.items() if value]


class RubricText(Shape):
    """The text of a rubric."""

    text: Annotated[str, Field(min_length=1)]


class RubricShape(Shape):
    """One rubric."""

    id: Annotated[str, Field(min_length=1)]
    content: RubricText
    description: str = ""
    type: str = ""

    def rubric(self) -> Rubric:
        return Rubric(
            id=self.id, text=self.content.text, description=self.description, kind=self.type
        )


class VariableSelector(Shape):
    """A step of the trace."""

    node_id: str = Field(
        validation_alias=spelled("node_id", "nodeID"), serialization_alias="nodeID"
    )


BindingScope: TypeAlias = Literal["actual", "expected", "metric"]
"""Whose value a variable of a template has."""
BindingField: TypeAlias = Literal[
    "userContent",
    "finalResponse",
    "traceStepInput",
    "traceStepOutput",
    "traceStepTools",
    "traceStepSkills",
    "rubrics",
]
"""Which value a variable of a template has."""


class VariableSource(Shape):
    """The source of a template variable."""

    scope: BindingScope
    field: BindingField
    selector: VariableSelector | None = None
    path: str = ""


class VariableBinding(Shape):
    """One variable of a template."""

    template_variable: str
    source: VariableSource


class CategoryScore(Shape):
    """The score of one category."""

    label: str
    score: Share


class ScorerOptions(Shape):
    """Options of a scorer."""

    categories: list[CategoryScore] = Field(default_factory=list[CategoryScore])


class TemplateShape(Shape):
    """A prompt written by the user."""

    prompt: Annotated[str, Field(min_length=1)]
    response_scorer_name: Literal["single_score", "rubric_scores", "boolean", "categorical"] = (
        "single_score"
    )
    structured_output_name: str = ""
    response_scorer_options: ScorerOptions = Field(default_factory=ScorerOptions)
    variable_bindings: list[VariableBinding] = Field(default_factory=list[VariableBinding])
    sample_aggregator_name: Literal["", "majority_vote"] = ""
    invocation_aggregator_name: Literal["", "average"] = ""


class LlmJudgeCriterion(Shape):
    """The judges of a metric, and what they judge by."""

    judge_model: JudgeModel | None = None
    judge_models: list[JudgeModel] = Field(default_factory=list[JudgeModel])
    models_aggregator: Literal[
        "all_pass", "any_pass", "majority_pass", "avg", "weighted_avg", "weighted_majority"
    ] = "all_pass"
    parallel: bool = True
    """Ignored: judges always run in parallel, up to the endpoint's limit."""
    sample_parallelism_enabled: bool = False
    sample_parallelism: int = 0
    rubrics: list[RubricShape] = Field(default_factory=list[RubricShape])
    knowledge_tool_names: list[str] = Field(default_factory=lambda: ["knowledge_search"])
    template: TemplateShape | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "LlmJudgeCriterion":
        if self.judge_model and self.judge_models:
            raise ValueError("set judge_model or judge_models, not both")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        """Go writes `null` for unset fields."""
        fields = block(value)
        return {key: item for key, item in fields.items() if item is not None} if fields else value

    @property
    def judges(self) -> Sequence[JudgeModel]:
        return [self.judge_model] if self.judge_model else self.judge_models


def _long(text: str) -> str:
    return re.sub(r"\$(?!\{)([A-Za-z_]\w*)", r"${\1}", text, flags=re.ASCII)


class PanelRule(StrEnum):
    """How the verdicts of several judges become one."""

    ALL_PASS = "all_pass"  # noqa: S105 - no password
    ANY_PASS = "any_pass"  # noqa: S105 - no password
    MAJORITY_PASS = "majority_pass"  # noqa: S105 - no password
    AVG = "avg"
    WEIGHTED_AVG = "weighted_avg"
    WEIGHTED_MAJORITY = "weighted_majority"


@dataclass(frozen=True, kw_only=True)
class Judge:
    """One model that judges, how often it is asked, and the weight of its verdict."""

    client: ModelClient
    samples: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        name = self.client.ref.label
        message = ""
        if self.samples < 1:
            message = f"samples must be at least 1, found {self.samples}"
        elif not 0 < self.weight < math.inf:
            message = f"the weight must be above 0, found {self.weight:g}"
        if message:
            raise ConfigError([Problem(where=name, message=message)])


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The judges of one metric."""

    judges: tuple[Judge, ...]
    rule: PanelRule = PanelRule.ALL_PASS
    tools: tuple[RoleTool, ...] = ()
    """What each judge may call before it answers."""

    def __post_init__(self) -> None:
        if not self.judges:
            message = "there is no judge: name at least one model"
            raise ConfigError([Problem(where="judges", message=message)])

    @property
    def fingerprint(self) -> str:
        judges: list[Json] = [[j.client.fingerprint, j.samples, j.weight] for j in self.judges]
        tools: list[Json] = [tool.fingerprint for tool in self.tools]
        return short_id([judges, self.rule.value, *([tools] if tools else [])])

    def estimate(self, case: Case, *, calls: int = 1) -> Spend:
        """The cost of judging every turn of a case, at `calls` per sample."""
        turns = (case.scenario.max_turns or DEFAULT_TURNS) if case.scenario else len(case.turns)
        once = (judge.client.estimate().times(judge.samples) for judge in self.judges)
        return total(once).times(turns * calls * (2 if self.tools else 1))


def of_samples(samples: Sequence[Verdict]) -> Verdict:
    """The first sample of the majority; a tie is a fail."""
    if len(samples) == 1:
        return samples[0]
    held = [sample for sample in samples if sample.passed]
    failed = [sample for sample in samples if sample.passed is False]
    if 2 * len(held) > len(samples):
        chosen = held[0]
    elif 2 * len(failed) >= len(samples):
        chosen = failed[0]
    else:
        chosen = next(sample for sample in samples if sample.value is None)
    records: list[Json] = [_record(sample) for sample in samples]
    return replace(chosen, details={**chosen.details, "samples": records})


def of_judges(
    verdicts: Sequence[Verdict],
    *,
    names: Sequence[str],
    weights: Sequence[float],
    rule: PanelRule,
    threshold: float,
) -> Verdict:
    """One verdict from those of several judges."""
    if len(verdicts) == 1:
        return verdicts[0]
    named = list(zip(names, verdicts, strict=True))
    opinions = "; ".join(
        f"{name}: {_word(verdict)}{f' ({verdict.reason})' if verdict.reason else ''}"
        for name, verdict in named
    )
    records: list[Json] = [{"judge": name, **_record(verdict)} for name, verdict in named]
    details: dict[str, Json] = {"judges": records}
    settled = _settle(verdicts, weights=weights, rule=rule, threshold=threshold)
    if settled is None:
        away = any(verdict.unreachable for verdict in verdicts)
        return Verdict(value=None, reason=opinions, details=details, unreachable=away)
    value, passed = settled
    agreed = passed and all(verdict.passed for verdict in verdicts)
    word = f"{rule.value} {'passed' if passed else 'failed'} at {value:.3g}"
    reason = "" if agreed else f"{word}: {opinions}"
    return Verdict(value=value, passed=passed, reason=reason, details=details)


def _settle(
    verdicts: Sequence[Verdict], *, weights: Sequence[float], rule: PanelRule, threshold: float
) -> tuple[float, bool] | None:
    """The value and whether it passes; None if a missing verdict could change it."""
    pairs = zip(verdicts, weights, strict=True)
    votes = [(v.value, bool(v.passed), weight) for v, weight in pairs if v.value is not None]
    whole = len(votes) == len(verdicts)
    values = [value for value, _, _ in votes]
    if rule is PanelRule.ALL_PASS and (whole or 0.0 in values):
        return min(values), all(passed for _, passed, _ in votes)
    if rule is PanelRule.ANY_PASS and (whole or 1.0 in values):
        return max(values), any(passed for _, passed, _ in votes)
    if not whole:
        return None
    equal = rule in (PanelRule.AVG, PanelRule.MAJORITY_PASS)
    shares = [1.0 if equal else weight for _, _, weight in votes]
    if rule in (PanelRule.AVG, PanelRule.WEIGHTED_AVG):
        value = _weighted(values, shares)
        return value, value >= threshold - EPSILON
    share = _weighted([float(passed) for _, passed, _ in votes], shares)
    return share, share > 0.5 + EPSILON


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    if len(set(weights)) == 1:
        return mean(values)
    parts = [value * weight for value, weight in zip(values, weights, strict=True)]
    return min(1.0, mean(parts) / mean(weights))


def _word(verdict: Verdict) -> str:
    if verdict.value is None:
        return "no verdict"
    return f"{'pass' if verdict.passed else 'fail'} at {verdict.value:.3g}"


def _record(verdict: Verdict) -> dict[str, Json]:
    details = {"details": dict(verdict.details)} if verdict.details else {}
    return {
        "value": verdict.value,
        "passed": verdict.passed,
        "reason": verdict.reason,
        **details,
    }


@dataclass(frozen=True, kw_only=True)
class MetricMaking:
    """What metrics are made with: models, prompts and a default judge."""

    models: Models
    folder: Path
    """The folder of graders and installed prompts."""
    judge: ModelRef | None = None
    """The judge for metrics that do not name one."""

    def prompt(self, role: str) -> RolePrompt:
        """The prompt in use for a judge's role."""
        return in_force(role, self.folder)

    def one_judge(self, metric: str, prompt: RolePrompt, ref: ModelRef | None = None) -> Panel:
        """A panel of one: the given model, or the default judge."""
        chosen = ref or self.judge
        if chosen is None:
            message = "this metric needs a judge, but no model is named"
            remedy = "name one: judge_model in the metric, model under evaluations, or --judge"
            raise ConfigError([Problem(where=metric, message=message, remedy=remedy)])
        client = self.models.client(chosen, prompt.settings, role=JUDGE)
        return Panel(judges=(Judge(client=client),))

    def panel(self, metric: str, prompt: RolePrompt, criterion: LlmJudgeCriterion) -> Panel:
        """The judges of a criterion, or the default judge."""
        rule = PanelRule(criterion.models_aggregator)
        if not criterion.judges:
            return replace(self.one_judge(metric, prompt), rule=rule)
        judges = tuple(
            Judge(
                client=self.models.client(model.reference(), prompt.settings, role=JUDGE),
                samples=model.num_samples,
                weight=model.weight,
            )
            for model in criterion.judges
        )
        return Panel(judges=judges, rule=rule)


def check_names(names: Sequence[str]) -> None:
    """Reject two metrics of the same name: their scores could not be told apart."""
    twice = sorted({name for name in names if names.count(name) > 1})
    message, remedy = "two metrics have this name", "give each metric its own name"
    if twice:
        raise ConfigError([Problem(where=n, message=message, remedy=remedy) for n in twice])
