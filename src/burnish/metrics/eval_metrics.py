"""Metrics of EvalSets and PromptIter: `test_config.json`, `evaluate` blocks, metrics files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, RootModel, model_validator

from burnish.core.content import Repeats
from burnish.metrics.criteria import Criterion
from burnish.metrics.judge_shapes import LlmJudgeCriterion, Shape, block, spelled
from burnish.system import load_config, read_tree


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


class MetricsFile(RootModel[list[MetricItem]]):
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
