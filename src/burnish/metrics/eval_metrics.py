"""Metrics of EvalSets and PromptIter: `test_config.json`, `evaluate` blocks, metrics files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue, RootModel, model_validator

from burnish.core.content import Repeats
from burnish.metrics.criteria import Criterion
from burnish.metrics.judge_shapes import LlmJudgeCriterion, Shape, block, spelled
from burnish.system import load_config, read_tree, write_atomic


class MetricItem(Shape):
    """One metric: which, by what criterion, and from which score on it passes."""

    metric_name: Annotated[str, Field(min_length=1)]
    evaluator_name: str = ""
    """The kind of metric, where `metric_name` is a name of the user's own."""
    threshold: float = 1.0
    criterion: Criterion = Field(
        default_factory=Criterion, validation_alias=spelled("criterion", "Criterion", "strategy")
    )
    extension: JsonValue = None
    """Whatever the user's platform keeps here; it has no meaning to burnish."""
    require_explicit_selection: bool = False
    """Only turns that name this metric are scored by it."""

    @property
    def kind(self) -> str:
        """What makes the metric."""
        return self.evaluator_name or self.metric_name

    @property
    def judged(self) -> LlmJudgeCriterion:
        """The criterion of a judged metric."""
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
        """`criteria` become metrics; where there are metrics they are ignored, as ever."""
        config = block(value)
        older = block(config.get("criteria"))
        if config.get("metrics") or not older:
            return value
        return {
            **config,
            "metrics": [_older_item(name, criterion) for name, criterion in older.items()],
        }


def read_metrics(path: Path) -> list[MetricItem]:
    """The metrics of a `*.metrics.json` array or a `test_config.json`."""
    if isinstance(read_tree(path).data, list):
        return load_config(path, MetricsFile).root
    return load_config(path, EvalConfig).metrics


def write_metrics(path: Path, items: Sequence[MetricItem]) -> None:
    """Write a metrics file, as PromptIter spells it: what was said, and nothing else."""
    rows = [item.model_dump(mode="json", by_alias=True, exclude_unset=True) for item in items]
    write_atomic(path, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def ignored_keys(items: Sequence[MetricItem]) -> list[str]:
    """What the items say that has no effect here, in words."""
    return [
        f"{item.metric_name}: {', '.join(keys)} of the judge {judge.model_name} has no effect here"
        for item in items
        for judge in item.judged.judges
        if (keys := judge.ignored())
    ]


def _older_item(name: str, criterion: Any) -> dict[str, Any]:
    return {"metric_name": name, **(block(criterion) or {"threshold": criterion})}
