"""The metrics of an agent file, together with those that its cases and turns set themselves."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import RootModel

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError
from burnish.core.protocols import Metric
from burnish.evaluation.configs.making import MetricMaking, check_names
from burnish.evaluation.layers import Layered
from burnish.evaluation.metric_plugins import AgentMetric, make_agent_metric, metric_name
from burnish.evaluation.turn_metric import TurnMetric
from burnish.system import validate_config


class MetricList(RootModel[list[AgentMetric]]):
    """The `evaluations` of a case or a turn."""


def make_agent_metrics(
    blocks: Sequence[AgentMetric], cases: Sequence[Case], making: MetricMaking
) -> tuple[Metric, ...]:
    """One metric for each name that the agent, a case or a turn asks for."""
    bench = _Bench(making)
    default = bench.made(blocks)
    places = {case.id: layers for case in cases if (layers := _layers(case, bench, default))}
    inner = [metrics for layers in places.values() for metrics in layers]
    bench.finish()
    names = dict.fromkeys(name for metrics in (default, *inner) for name in metrics)
    return tuple(default[name] if not places else _layered(name, default, places) for name in names)


def _layers(
    case: Case, bench: "_Bench", default: Mapping[str, TurnMetric]
) -> list[Mapping[str, TurnMetric]]:
    """For each turn the metrics that count, by name; nothing where the agent's do throughout."""
    own = case.extras.get("evaluations")
    turns = [turn.extras.get("evaluations") for turn in case.turns]
    if own is None and not any(told is not None for told in turns):
        return []
    outer = default if own is None else bench.read(own, case.id)
    return [
        outer if told is None else bench.read(told, f"{case.id} turn {number}")
        for number, told in enumerate(turns, start=1)
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


class _Bench:
    """Makes each distinct setting once, and gathers what is wrong."""

    def __init__(self, making: MetricMaking) -> None:
        self._making = making
        self._kept: dict[str, TurnMetric] = {}
        self._errors: list[ConfigError] = []

    def read(self, told: Json, where: str) -> dict[str, TurnMetric]:
        """The metrics of a case's or a turn's own list."""
        try:
            blocks = validate_config(told, MetricList, source=f"evaluations of {where}").root
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
        wanted = [block for block in blocks if getattr(block, "enabled", True)]
        try:
            check_names([metric_name(block) for block in wanted])
        except ConfigError as error:
            self._errors.append(error)
        for block in wanted:
            key = short_id([type(block).__name__, block.model_dump(mode="json")])
            if key not in self._kept:
                try:
                    self._kept[key] = make_agent_metric(block, self._making)
                except ConfigError as error:
                    self._errors.append(error)
                    continue
            yield metric_name(block), self._kept[key]
