"""Metrics as plug-ins: the block that a file describes one with, and what makes a metric of it.

A plug-in is named in the entry-point group `burnish.metrics` by the `type` of its blocks. The class
that the entry point names is imported when a file names the type, and not before.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BaseModel
from pydantic_core import PydanticCustomError, PydanticKnownError

from burnish.core.errors import BurnishError
from burnish.evaluation.configs.eval_metrics import MetricItem
from burnish.models.model_block import ModelBlock
from burnish.system.settings import ChosenModel, Settings

if TYPE_CHECKING:
    from burnish.evaluation.configs.making import MetricMaking
    from burnish.evaluation.turn_metric import TurnMetric

METRICS = "burnish.metrics"
_TYPES_BY_KEY = {
    "metric": "standard",
    "criteria": "geval",
    "metric_type": "rag",
    "grader": "code",
}
"""Cases and turns may leave the type out, where a key tells it."""
_ITEM_KEYS = ("metric_name", "metricName")
"""What a metric of an EvalSet is known by."""


class MetricBlock(Settings):
    """What every metric of a file may say. Each type of metric derives its own model."""

    type: str
    """Which metric it is, by the name of its plug-in."""
    enabled: bool = True
    """Whether it is measured."""
    fail_on_error: bool = False
    """A score that cannot be had is missing either way; with this the run reports it as failed."""
    model: ModelBlock | None = None
    """Who judges, where this metric asks a judge."""


class MetricPlugin:
    """What a metric brings: how it is described, and how it is made."""

    kind: ClassVar[str] = ""
    """What `type:` says in a file: the name of the entry point."""
    Block: ClassVar[type[MetricBlock]] = MetricBlock
    """How a file describes it."""

    def name(self, block: Any) -> str:
        """What scores, losses and reports call it."""
        del block
        return self.kind

    def make(self, block: Any, making: "MetricMaking") -> "TurnMetric":
        """The metric that a block describes; a ConfigError says what is wrong with it."""
        del making
        raise BurnishError(
            f"metrics of the type '{block.type}' are not installed",
            remedy="install the package that they came with",
        )


@cache
def metric_types() -> tuple[str, ...]:
    """The types of metrics that are installed; none of them is loaded for that."""
    return tuple(sorted({point.name for point in entry_points(group=METRICS)}))


@cache
def metric_plugin(kind: str) -> MetricPlugin:
    """The plug-in of a metric, by the type of its block."""
    point = next(iter(entry_points(group=METRICS, name=kind)), None)
    return MetricPlugin() if point is None else cast("type[MetricPlugin]", point.load())()


class _BlockByType(ChosenModel):
    """A metric is read by the model of its plug-in."""

    def model_for(self, value: object) -> type[BaseModel]:
        """The model for a value as it is written."""
        if isinstance(value, BaseModel):
            return type(value)
        if not isinstance(value, Mapping):
            raise PydanticKnownError("model_type", {"class_name": MetricBlock.__name__})
        block = cast("Mapping[str, object]", value)
        if "type" not in block and any(key in block for key in _ITEM_KEYS):
            return MetricItem
        keys = (kind for key, kind in _TYPES_BY_KEY.items() if key in block)
        kind = block.get("type", next(keys, None))
        types = metric_types()
        if kind is None:
            example, *others = sorted(types, key=lambda each: each != "standard")
            names = {"example": example, "others": ", ".join(others)}
            raise PydanticCustomError(
                "metric_type", "say what it is: `type: {example}`, or {others}", names
            )
        if kind not in types:
            tags = ", ".join(f"'{each}'" for each in types)
            context = {"discriminator": "'type'", "tag": str(kind), "expected_tags": tags}
            raise PydanticKnownError("union_tag_invalid", context)
        return metric_plugin(str(kind)).Block


AgentMetric: TypeAlias = Annotated[MetricBlock | MetricItem, _BlockByType()]
"""One metric of a file. An EvalSet metric, with `metric_name`, will do as well."""


def metric_name(block: AgentMetric) -> str:
    """What scores, losses and reports call it."""
    if isinstance(block, MetricItem):
        return block.metric_name
    return metric_plugin(block.type).name(block)


def make_agent_metric(block: AgentMetric, making: "MetricMaking") -> "TurnMetric":
    """One metric of a file, a case or a turn."""
    if isinstance(block, MetricItem):
        from burnish.evaluation.configs.eval_making import make_metric

        return make_metric(block, making)
    return metric_plugin(block.type).make(block, making)
