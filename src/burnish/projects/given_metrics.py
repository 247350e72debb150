"""Metrics as programs give them: a name, a block as in files, a metric of one's own, a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, get_args

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.protocols import Metric
from burnish.evaluation.configs.agent_metrics import RagBlock, StandardName
from burnish.evaluation.configs.layering import MetricList, make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking, check_names
from burnish.evaluation.configs.reading import read_metric_file
from burnish.evaluation.metric_plugins import AgentMetric
from burnish.system import validate_config
from burnish.system.user_functions import is_reference

GivenMetric: TypeAlias = str | Mapping[str, Json] | Metric
GivenMetrics: TypeAlias = Sequence[GivenMetric] | Path

_STANDARD = frozenset(get_args(StandardName))
_RAG = frozenset(get_args(RagBlock.model_fields["metric_type"].annotation))


def make_given(
    given: GivenMetrics, cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    """The metrics that are asked for: those with a name first, then those of one's own."""
    if isinstance(given, Path):
        read = read_metric_file(given)
        bench = MetricMaking(
            models=making.models,
            folder=given.resolve().parent,
            judge=making.judge or read.judge,
        )
        return make_agent_metrics(read.blocks, cases, bench)
    if isinstance(given, str):
        given = [given]
    named = [each for each in given if isinstance(each, str | Mapping)]
    made = {metric.name: metric for metric in _made(named, cases, making)}
    own = [each for each in given if not isinstance(each, str | Mapping)]
    check_names([*made, *(metric.name for metric in own)])
    return (*made.values(), *own)


def blocks_of(given: Sequence[str | Mapping[str, Json]]) -> Sequence[AgentMetric]:
    """The blocks that names and mappings stand for."""
    written: list[Json] = [_block(each) if isinstance(each, str) else dict(each) for each in given]
    return validate_config(written, MetricList, source="metrics").root


def _made(
    named: Sequence[str | Mapping[str, Json]], cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    return make_agent_metrics(blocks_of(named), cases, making)


def _block(name: str) -> Json:
    if name in _STANDARD:
        return {"type": "standard", "metric": name}
    if name in _RAG:
        return {"type": "rag", "metric_type": name}
    if is_reference(name):
        return {"type": "code", "grader": name}
    return {"metric_name": name}
