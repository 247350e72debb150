"""Metrics as plug-ins, and as files describe them: of an agent, its cases and turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel
from pydantic_core import PydanticCustomError, PydanticKnownError

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.metrics.eval_metrics import EvalConfig, MetricItem, ignored_keys
from burnish.metrics.factory import MetricMaking, check_names
from burnish.metrics.turns import Layered, TurnMetric
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.system import YamlTree, read_tree, validate_config
from burnish.system.settings import ChosenModel, Settings

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
def _metric_types() -> tuple[str, ...]:
    """The types of metrics that are installed; none of them is loaded for that."""
    return tuple(sorted({point.name for point in entry_points(group=METRICS)}))


@cache
def _metric_plugin(kind: str) -> MetricPlugin:
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
        types = _metric_types()
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
        return _metric_plugin(str(kind)).Block


AgentMetric: TypeAlias = Annotated[MetricBlock | MetricItem, _BlockByType()]
"""One metric of a file. An EvalSet metric, with `metric_name`, will do as well."""


def metric_name(block: AgentMetric) -> str:
    """What scores, losses and reports call it."""
    if isinstance(block, MetricItem):
        return block.metric_name
    return _metric_plugin(block.type).name(block)


def make_agent_metric(block: AgentMetric, making: "MetricMaking") -> "TurnMetric":
    """One metric of a file, a case or a turn."""
    if isinstance(block, MetricItem):
        from burnish.metrics.eval_factory import make_metric

        return make_metric(block, making)
    return _metric_plugin(block.type).make(block, making)


# -- Layering -------------------------------------------------------------------------------------


class MetricList(RootModel[list[AgentMetric]]):
    """The `evaluations` of a case or a turn."""


def make_agent_metrics(
    blocks: Sequence[AgentMetric], cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    """One metric for each name that the agent, a case or a turn asks for."""
    cache = _MetricCache(making)
    default = cache.made(blocks)
    places = {case.id: layers for case in cases if (layers := _layers(case, cache, default))}
    inner = [metrics for layers in places.values() for metrics in layers]
    cache.finish()
    names = dict.fromkeys(name for metrics in (default, *inner) for name in metrics)
    return tuple(default[name] if not places else _layered(name, default, places) for name in names)


def _layers(
    case: Case, cache: "_MetricCache", default: Mapping[str, TurnMetric]
) -> list[Mapping[str, TurnMetric]]:
    """For each turn the metrics that count, by name; nothing where the agent's do throughout."""
    own = case.extras.get("evaluations")
    turns = [turn.extras.get("evaluations") for turn in case.turns]
    if own is None and not any(entries is not None for entries in turns):
        return []
    outer = default if own is None else cache.read(own, case.id)
    return [
        outer if entries is None else cache.read(entries, f"{case.id} turn {number}")
        for number, entries in enumerate(turns, start=1)
    ]


def _layered(
    name: str,
    default: Mapping[str, TurnMetric],
    places: Mapping[str, Sequence[Mapping[str, TurnMetric]]],
) -> Metric:
    return Layered(
        name=name,
        default=default.get(name),
        places={
            case: tuple(metrics.get(name) for metrics in layers) for case, layers in places.items()
        },
    )


class _MetricCache:
    """Makes each distinct setting once, and gathers what is wrong."""

    def __init__(self, making: MetricMaking) -> None:
        self._making = making
        self._metrics: dict[str, TurnMetric] = {}
        self._errors: list[ConfigError] = []

    def read(self, entries: Json, where: str) -> dict[str, TurnMetric]:
        """The metrics of a case's or a turn's own list."""
        try:
            blocks = validate_config(entries, MetricList, source=f"evaluations of {where}").root
        except ConfigError as error:
            self._errors.append(error)
            return {}
        return self.made(blocks)

    def made(self, blocks: Sequence[AgentMetric]) -> dict[str, TurnMetric]:
        """The metrics of a list, by name; those that are switched off are left out."""
        return dict(self._each(blocks))

    def finish(self) -> None:
        """Raise everything that was wrong."""
        if self._errors:
            raise ConfigError([p for error in self._errors for p in error.problems])

    def _each(self, blocks: Sequence[AgentMetric]) -> Iterator[tuple[str, TurnMetric]]:
        enabled = [block for block in blocks if getattr(block, "enabled", True)]
        try:
            check_names([metric_name(block) for block in enabled])
        except ConfigError as error:
            self._errors.append(error)
        for block in enabled:
            key = short_id([type(block).__name__, block.model_dump(mode="json")])
            if key not in self._metrics:
                try:
                    self._metrics[key] = make_agent_metric(block, self._making)
                except ConfigError as error:
                    self._errors.append(error)
                    continue
            yield metric_name(block), self._metrics[key]


# -- Metrics from any file that has them ----------------------------------------------------------


class EvaluationsBlock(BaseModel):
    """`evaluations` of an agent file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: ModelBlock | None = None
    """Who judges, unless a metric names somebody else."""
    metrics: list[AgentMetric] = Field(min_length=1)
    optimizer: JsonValue = None


class _WithEvaluations(BaseModel):
    """As much of an agent file as tells how it is measured."""

    evaluations: EvaluationsBlock


@dataclass(frozen=True, kw_only=True)
class MetricsRead:
    """The metrics of a file, and who judges unless they say."""

    blocks: Sequence[AgentMetric]
    judge: ModelRef | None = None

    def only(self, names: Sequence[str]) -> "MetricsRead":
        """Some of them, by name; all where no name is given."""
        by_name = {metric_name(block): block for block in self.blocks}
        problems = [
            Problem(where=name, message="no such metric", remedy=f"there are: {', '.join(by_name)}")
            for name in names
            if name not in by_name
        ]
        if problems:
            raise ConfigError(problems)
        chosen = [by_name[name] for name in names] if names else self.blocks
        return MetricsRead(blocks=chosen, judge=self.judge)

    @property
    def notes(self) -> list[str]:
        """What the file says that has no effect here."""
        return ignored_keys([block for block in self.blocks if isinstance(block, MetricItem)])


def read_metric_file(path: Path) -> MetricsRead:
    """The metrics of a list, an agent file, a `test_config.json`, an `optimizer.json`."""
    tree = read_tree(path)
    if isinstance(tree.data, list):
        listed = validate_config(tree.data, MetricList, source=path.name, tree=tree)
        return MetricsRead(blocks=listed.root)
    if isinstance(tree.data, Mapping) and "evaluations" in tree.data:
        return _of_agent(tree, path)
    return MetricsRead(blocks=_of_config(tree, path).metrics)


def _of_agent(tree: YamlTree, path: Path) -> MetricsRead:
    block = validate_config(tree.data, _WithEvaluations, source=path.name, tree=tree).evaluations
    judge = block.model.reference() if block.model else None
    return MetricsRead(blocks=block.metrics, judge=judge)


def _of_config(tree: YamlTree, path: Path) -> EvalConfig:
    data = tree.data
    if isinstance(data, Mapping) and isinstance(data.get("evaluate"), Mapping):
        return validate_config(data["evaluate"], EvalConfig, source=f"{path.name} evaluate")
    return validate_config(data, EvalConfig, source=path.name, tree=tree)
