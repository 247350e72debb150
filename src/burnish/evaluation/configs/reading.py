"""Metrics from any file that has them: a list, an agent file, a test config."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.configs.eval_metrics import EvalConfig, MetricItem, ignored_keys
from burnish.evaluation.configs.layering import MetricList
from burnish.evaluation.metric_plugins import AgentMetric, metric_name
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelRef
from burnish.system import YamlTree, read_tree, validate_config


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
        known = {metric_name(block): block for block in self.blocks}
        problems = [
            Problem(where=name, message="no such metric", remedy=f"there are: {', '.join(known)}")
            for name in names
            if name not in known
        ]
        if problems:
            raise ConfigError(problems)
        chosen = [known[name] for name in names] if names else self.blocks
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
