"""How EvalSet and PromptIter metrics name their judges, rubrics and templates."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    model_validator,
)
from pydantic.alias_generators import to_camel

from burnish.core.cases import Rubric
from burnish.core.content import AboveZero, AtLeastOne, Repeats, Share
from burnish.models.keys import require_reference
from burnish.models.model_block import PriceBlock, Temperature, TopP, spelled_out
from burnish.models.references import ModelRef, ModelSettings
from burnish.system import expand_variables

Positive = AtLeastOne


def spelled(*names: str) -> AliasChoices:
    """The names a key may have: each in both spellings, unless it has capitals of its own."""
    forms = ((name, to_camel(name)) if name.islower() else (name,) for name in names)
    return AliasChoices(*dict.fromkeys(form for both in forms for form in both))


class Shape(BaseModel):
    """A block of a file: both spellings are read, unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=AliasGenerator(validation_alias=spelled, serialization_alias=to_camel),
        populate_by_name=True,
    )


def block(value: object) -> dict[str, Any]:
    """A value before it is validated: its keys, or none where it has none."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}


# -- Judge shapes ---------------------------------------------------------------------------------


_SHORT = re.compile(r"\$(?!\{)([A-Za-z_]\w*)", re.ASCII)
_OF_A_BLOCK = {"provider": "provider_name", "name": "model_name", "endpoint": "base_url"}
"""The keys of a model block, by which every other file names models, in this spelling."""
_GENERATION = ("temperature", "max_tokens", "top_p", "seed", "stop")
_GENERATION_KEYS = ("generation_config", "generationConfig", "generation")


class GenerationConfig(Shape):
    """How a judge generates. What only a transport cares about is read and left alone."""

    max_tokens: Positive | None = Field(
        default=None, validation_alias=spelled("max_tokens", "max_output_tokens")
    )
    temperature: Temperature | None = None
    top_p: TopP | None = None
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
    """One judge: a model block in the spelling of EvalSet and AgentOptimizer.

    The block's own keys are read too, and so is `provider:name` alone.
    """

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
    """What the model costs, for an endpoint of one's own."""
    job: ClassVar[str] = "the judge"
    """What such a model does, for errors."""

    @model_validator(mode="before")
    @classmethod
    def _from_block(cls, value: Any) -> Any:
        return _respelled(spelled_out(value))

    def reference(self) -> ModelRef:
        """The model as a reference. Names are expanded now, the key when it is used."""
        provider = expand_variables(_long(self.provider_name), os.environ)
        name = expand_variables(_long(self.model_name), os.environ)
        settings = self.generation_config
        usual = ModelSettings()
        return ModelRef.parse(
            f"{provider or 'openai'}:{name}",
            base_url=_long(self.base_url),
            api_key=require_reference(_long(self.api_key), f"the api_key of {self.job} {name}"),
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
        """The keys that are read and have no effect here."""
        named = {"variant": self.variant, "extra_fields": self.extra_fields, "think": self.think}
        return [key for key, value in named.items() if value]


class RubricText(Shape):
    """What a judge is shown of a rubric."""

    text: Annotated[str, Field(min_length=1)]


class RubricShape(Shape):
    """One rubric."""

    id: Annotated[str, Field(min_length=1)]
    content: RubricText
    description: str = ""
    type: str = ""

    def rubric(self) -> Rubric:
        """The rubric itself."""
        return Rubric(
            id=self.id, text=self.content.text, description=self.description, kind=self.type
        )


class VariableSelector(Shape):
    """Which step of the trace."""

    node_id: str = Field(
        validation_alias=spelled("node_id", "nodeID"), serialization_alias="nodeID"
    )


class VariableSource(Shape):
    """Where the value of a template's variable comes from."""

    scope: Literal["actual", "expected", "metric"]
    field: Literal[
        "userContent",
        "finalResponse",
        "traceStepInput",
        "traceStepOutput",
        "traceStepTools",
        "traceStepSkills",
        "rubrics",
    ]
    selector: VariableSelector | None = None
    path: str = ""


class VariableBinding(Shape):
    """One variable of a template."""

    template_variable: str
    source: VariableSource


class CategoryScore(Shape):
    """What one category is worth."""

    label: str
    score: Share


class ScorerOptions(Shape):
    """What a scorer must know."""

    categories: list[CategoryScore] = Field(default_factory=list[CategoryScore])


class TemplateShape(Shape):
    """A judge's prompt of the user's own."""

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
    """Who judges, and by what."""

    judge_model: JudgeModel | None = None
    judge_models: list[JudgeModel] = Field(default_factory=list[JudgeModel])
    models_aggregator: Literal[
        "all_pass", "any_pass", "majority_pass", "avg", "weighted_avg", "weighted_majority"
    ] = "all_pass"
    parallel: bool = True
    """Judges are always asked at once; the endpoint's limit holds them back."""
    sample_parallelism_enabled: bool = False
    sample_parallelism: int = 0
    rubrics: list[RubricShape] = Field(default_factory=list[RubricShape])
    knowledge_tool_names: list[str] = Field(default_factory=lambda: ["knowledge_search"])
    template: TemplateShape | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "LlmJudgeCriterion":
        if self.judge_model and self.judge_models:
            raise ValueError("give judge_model or judge_models, not both")
        return self

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        """Go writes `null` where nothing is set."""
        fields = block(value)
        return {key: item for key, item in fields.items() if item is not None} if fields else value

    @property
    def judges(self) -> Sequence[JudgeModel]:
        """Those that are named here."""
        return [self.judge_model] if self.judge_model else self.judge_models


def _respelled(value: Any) -> Any:
    """The keys of a model block as EvalSet spells them; what is spelled so already stays."""
    fields = block(value)
    if not fields:
        return value
    new = {_OF_A_BLOCK.get(key, key): item for key, item in fields.items()}
    if len(new) < len(fields):
        twice = [key for key, other in _OF_A_BLOCK.items() if {key, other} <= set(fields)]
        raise ValueError(f"{twice[0]} and {_OF_A_BLOCK[twice[0]]} are two names of one thing")
    settings = {key: new.pop(key) for key in _GENERATION if key in new}
    if not settings:
        return new
    key = next((each for each in _GENERATION_KEYS if each in new), "generation_config")
    return {**new, key: {**block(new.get(key)), **settings}}


def _long(text: str) -> str:
    """`$VAR` as `${VAR}`."""
    return _SHORT.sub(r"${\1}", text)
