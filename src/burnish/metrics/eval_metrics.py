"""Metrics of EvalSets and PromptIter as their files spell them, with their criteria."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, model_validator

from burnish.core.content import Repeats, Share
from burnish.metrics.document_matching import JsonRule, XmlRule
from burnish.metrics.judges import LlmJudgeCriterion, Shape, ShapeList, block, spelled
from burnish.metrics.rouge import RougeRule
from burnish.metrics.text_matching import LengthRule, TextRule
from burnish.metrics.tool_matching import ToolRule, TrajectoryRule
from burnish.system import load_config, read_tree

_MATCH = Field(
    validation_alias=spelled("match", "match_strategy"), serialization_alias="matchStrategy"
)


class LengthCriterion(Shape):
    """Bounds for the length of a text, in characters."""

    ignore: bool = False
    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _bounded(self) -> "LengthCriterion":
        if self.min is None and self.max is None and not self.ignore:
            raise ValueError("set min, max or both")
        return self

    def rule(self) -> LengthRule | None:
        return None if self.ignore else LengthRule(min=self.min, max=self.max)


class TextCriterion(Shape):
    """How texts are compared."""

    match: Annotated[Literal["exact", "contains", "regex", "skip"], _MATCH] = "exact"
    case_insensitive: bool = False
    ignore: bool = False
    length: LengthCriterion | None = None

    def rule(self) -> TextRule:
        return TextRule(
            match=self.match,
            case_insensitive=self.case_insensitive,
            ignore=self.ignore,
            length=self.length.rule() if self.length else None,
        )


class JsonCriterion(Shape):
    """How JSON values are compared."""

    match: Annotated[Literal["exact", "skip"], _MATCH] = "exact"
    ignore_tree: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    only_tree: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    number_tolerance: float | None = Field(default=None, ge=0)
    valid: bool = False
    schema_: dict[str, JsonValue] | bool | None = Field(
        default=None, validation_alias=spelled("schema"), serialization_alias="schema"
    )
    ignore: bool = False

    @model_validator(mode="after")
    def _one_tree(self) -> "JsonCriterion":
        if self.ignore_tree and self.only_tree:
            raise ValueError("ignore_tree and only_tree exclude each other")
        return self

    def rule(self) -> JsonRule:
        return JsonRule(
            match=self.match,
            ignore_tree=self.ignore_tree or None,
            only_tree=self.only_tree or None,
            number_tolerance=self.number_tolerance,
            valid=self.valid,
            schema=self.schema_,
            ignore=self.ignore,
        )


class XmlCriterion(Shape):
    """Whether a text must be XML, and match the expected document."""

    match: Annotated[Literal["exact", "skip"], _MATCH] = "skip"
    valid: bool = True
    ignore: bool = False

    def rule(self) -> XmlRule:
        return XmlRule(**self.model_dump())


class RougeThreshold(Shape):
    """Minimum ROUGE scores."""

    precision: Share = 0.0
    recall: Share = 0.0
    f1: Share = 0.0


class RougeCriterion(Shape):
    """How similar two texts must be by ROUGE."""

    rouge_type: str = Field(default="rouge1", pattern=r"^rouge([1-9]\d*|L|Lsum)$")
    measure: Literal["f1", "precision", "recall"] = "f1"
    threshold: RougeThreshold = Field(default_factory=RougeThreshold)
    use_stemmer: bool = False
    split_summaries: bool = False
    ignore: bool = False

    def rule(self) -> RougeRule:
        return RougeRule(
            kind=self.rouge_type,
            measure=self.measure,
            min_precision=self.threshold.precision,
            min_recall=self.threshold.recall,
            min_f1=self.threshold.f1,
            stem=self.use_stemmer,
            split_summaries=self.split_summaries,
            ignore=self.ignore,
        )


class FinalResponseCriterion(Shape):
    """Requirements for a final response, all of which must hold."""

    text: TextCriterion | None = Field(
        default=None, validation_alias=spelled("text", "text_strategy")
    )
    json_: JsonCriterion | None = Field(
        default=None, validation_alias=spelled("json", "json_strategy"), serialization_alias="json"
    )
    xml: XmlCriterion | None = None
    rouge: RougeCriterion | None = None


class ToolStrategy(Shape):
    """How one tool call is compared with another."""

    name: TextCriterion = Field(default_factory=TextCriterion)
    arguments: JsonCriterion = Field(default_factory=JsonCriterion)
    result: JsonCriterion | None = None

    def rule(self) -> ToolRule:
        return ToolRule(
            name=self.name.rule(),
            arguments=self.arguments.rule(),
            result=self.result.rule() if self.result else None,
        )


class ToolTrajectoryCriterion(Shape):
    """How tool calls are compared."""

    default: ToolStrategy = Field(
        default_factory=ToolStrategy, validation_alias=spelled("default", "default_strategy")
    )
    overrides: dict[str, ToolStrategy] = Field(
        default_factory=dict[str, ToolStrategy],
        validation_alias=spelled("overrides", "tool_strategy"),
    )
    order_sensitive: bool = False
    subset_matching: bool = False

    def rule(self) -> TrajectoryRule:
        return TrajectoryRule(
            default=self.default.rule(),
            overrides={name: strategy.rule() for name, strategy in self.overrides.items()},
            order_sensitive=self.order_sensitive,
            subset_matching=self.subset_matching,
        )


class PreferredLength(Shape):
    """Accepted and preferred bounds for a length."""

    min: int | None = Field(default=None, ge=0)
    max: int | None = Field(default=None, ge=0)
    preferred_min: int | None = Field(default=None, ge=0)
    preferred_max: int | None = Field(default=None, ge=0)


class Criterion(Shape):
    """All that a metric may be set by; each metric reads its own part."""

    final_response: FinalResponseCriterion | None = None
    tool_trajectory: ToolTrajectoryCriterion | None = None
    llm_judge: LlmJudgeCriterion | None = None
    length: PreferredLength | None = None

    @model_validator(mode="before")
    @classmethod
    def _generic(cls, value: Any) -> Any:
        """The generic form, `{"type": "text", …}`, says which part the rest belongs to."""
        rest = block(value)
        kind = rest.pop("type", None)
        if kind is None:
            return value
        if kind not in _GENERIC:
            raise ValueError(f"unknown type of criterion; there are: {', '.join(_GENERIC)}")
        for key in reversed(_GENERIC[kind]):
            rest = {key: rest}
        return rest


_GENERIC: dict[str, tuple[str, ...]] = {
    "text": ("final_response", "text"),
    "json": ("final_response", "json"),
    "final_response": ("final_response",),
    "tool_trajectory": ("tool_trajectory",),
    "llm_judge": ("llm_judge",),
}


class MetricItem(Shape):
    """One metric: its name, criterion and threshold."""

    metric_name: Annotated[str, Field(min_length=1)]
    evaluator_name: str = ""
    """The kind of metric, if `metric_name` is a name of your own."""
    threshold: float = 1.0
    criterion: Criterion = Field(
        default_factory=Criterion, validation_alias=spelled("criterion", "Criterion", "strategy")
    )
    extension: JsonValue = None
    """Data of other platforms, ignored by burnish."""
    require_explicit_selection: bool = False
    """Score only turns that name this metric."""

    @property
    def kind(self) -> str:
        return self.evaluator_name or self.metric_name

    @property
    def judged(self) -> LlmJudgeCriterion:
        return self.criterion.llm_judge or LlmJudgeCriterion()


class MetricsFile(ShapeList[MetricItem]):
    """A PromptIter metrics file: a JSON array."""


class EvalConfig(Shape):
    """`test_config.json`, and the `evaluate` block of an `optimizer.json`."""

    metrics: list[MetricItem] = Field(default_factory=list[MetricItem])
    criteria: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """The older form: a name with a threshold, or with `{threshold, criterion}`."""
    num_runs: Repeats = 1
    user_simulator_config: dict[str, JsonValue] | None = None

    @model_validator(mode="before")
    @classmethod
    def _older_form(cls, value: Any) -> Any:
        """Convert `criteria` to metrics; they are ignored if there are metrics."""
        config = block(value)
        older = block(config.get("criteria"))
        if config.get("metrics") or not older:
            return value
        items = [
            {"metric_name": name, **(block(criterion) or {"threshold": criterion})}
            for name, criterion in older.items()
        ]
        return {**config, "metrics": items}


def read_metrics(path: Path) -> list[MetricItem]:
    """The metrics of a `*.metrics.json` array or a `test_config.json`."""
    if isinstance(read_tree(path).data, list):
        return load_config(path, MetricsFile).root
    return load_config(path, EvalConfig).metrics


def ignored_keys(items: Sequence[MetricItem]) -> list[str]:
    """Settings of the items that have no effect, in words."""
    return [
        f"{item.metric_name}: {', '.join(keys)} of the judge {judge.model_name} has no effect here"
        for item in items
        for judge in item.judged.judges
        if (keys := judge.ignored())
    ]
