"""An agent file as a target: its description, and what is built of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from pydantic import (
    BaseModel,
    JsonValue,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_serializer,
    model_validator,
)

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.core.surfaces import AGENT_SURFACES, Surface
from burnish.evaluation.configs.reading import MetricsRead
from burnish.evaluation.metrics.expected_tools import ExpectedTools
from burnish.evaluation.simulation import ROLE as USER_SIMULATOR
from burnish.evaluation.simulation import user_simulator
from burnish.models.factory import Models
from burnish.models.roles import in_force
from burnish.projects.agent.axes import Axes, AxesBlock, axes_of
from burnish.projects.agent.cases import names_cases, read_dataset, read_measured
from burnish.projects.agent.checks import MODEL, check_model, check_objective, check_prices
from burnish.projects.agent.dialect import agent_keys
from burnish.projects.agent.exports import named_exports
from burnish.projects.agent.fields import NOISY
from burnish.projects.agent.homes import AgentHomes, measured_files
from burnish.projects.measures import User, read_metrics
from burnish.runs.header import Header
from burnish.runs.homes import FILES, Homes
from burnish.runs.parts import STEPS, Ability, Building, StrategyParts, TargetParts
from burnish.runs.plugins import StrategyPlugin, TargetPlugin
from burnish.runs.spec import TargetSpec
from burnish.system import YamlTree, read_tree
from burnish.system.settings import NoneOrMore, NotNegative
from burnish.system.yaml import tree_of
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.loading import LoadedAgent, sound_agent
from burnish.targets.agent.target import AgentTarget
from burnish.targets.agent.variables import expanded

_DOCUMENT = "target.document"


class AgentDocument(AgentBlock):
    """An agent as its file has it: variables count by their values, and are kept by their names."""

    _written: dict[str, JsonValue] = PrivateAttr(default_factory=dict[str, JsonValue])

    @model_validator(mode="wrap")
    @classmethod
    def _expanded(cls, value: Any, handler: ModelWrapValidatorHandler["AgentDocument"]) -> Any:
        document = handler(expanded(value, where="the agent"))
        document._written = value
        return document

    @model_serializer
    def written(self) -> dict[str, JsonValue]:
        """As the file has it, `${VAR}` included."""
        return self._written


class AgentSpec(TargetSpec):
    """An agent, and what of it is tuned."""

    kind: str = "agent"
    document: AgentDocument
    """The agent file without its optimizer block."""
    axes: AxesBlock | None = None
    """What is tuned; None where the file does not say how it is to be tuned."""
    min_holdout_cases: NoneOrMore = 5
    """The fewest cases that may decide."""
    min_delta: NotNegative | None = None
    """HoloDeck's bar. Here the bar is the noise that was measured."""


class AgentPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "agent"
    Spec: ClassVar[type[TargetSpec]] = AgentSpec
    document: ClassVar[type[BaseModel] | None] = AgentBlock
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The agent with its axes, cases and metrics."""
        spec: AgentSpec = building.spec.target
        problems = building.problems
        own_cases = not strategy.proposes and not names_cases(building)
        agent = problems.as_raised(
            lambda: agent_of(building.spec.source.file, spec, with_cases=own_cases), None
        )
        if agent is None:
            return None
        if spec.axes is None and strategy.proposes:
            raise _not_tuned(agent, building.models)
        _refuse_outputs(building)
        notes = list(_notes(building, strategy))
        axes = Axes() if spec.axes is None else axes_of(agent, spec.axes, problems)
        dataset = (
            read_dataset(building, agent, notes)
            if strategy.proposes
            else read_measured(building, agent)
        )
        cases = [*dataset.train, *dataset.holdout, *dataset.test]
        metrics = _metrics(building, agent, cases)
        if metrics:
            check_objective(building, metrics, dataset)
        target = problems.attempt(_DOCUMENT, lambda: _target(building, agent, axes, cases), None)
        if target is None:
            return None
        check_model(building, target)
        local = agent.block.model.provider == "local"
        return TargetParts(
            target=target,
            dataset=dataset,
            metrics=metrics,
            objective=building.spec.objective.objective({metric.name: 1.0 for metric in metrics}),
            own_model=None if local else agent.own_model,
            own_model_at=MODEL,
            no_model="the agent's own model is a local one, and writing texts takes a stronger one",
            places=axes.places,
            noisy=NOISY,
            exporter=named_exports(agent),
            record={FILES: measured_files(agent)},
            notes=(*notes, *target.notes),
            resources=(target,),
        )

    def review(
        self, building: Building, parts: TargetParts, search: StrategyParts
    ) -> Iterable[str]:
        """Whose price is unknown."""
        assert isinstance(parts.target, AgentTarget)
        return check_prices(building, parts.target, parts, search.strategy.roles)

    def homes(self, header: Header) -> Homes | None:
        """The agent file, and that of its instructions."""
        return AgentHomes.of(header)


def agent_of(file: str, spec: AgentSpec, *, with_cases: bool = False) -> LoadedAgent:
    """The agent of a description, with what it names; everything that is wrong is said at once.

    Its test cases are looked at only where they count.
    """
    path = Path(file)
    tree = _tree(path, spec.document.written())
    return sound_agent(path, tree, spec.document, with_cases=with_cases)


def _tree(path: Path, document: Mapping[str, JsonValue]) -> YamlTree:
    """The file itself where it still says the same: it has comments, which exports keep."""
    try:
        tree = read_tree(path)
    except BurnishError:
        return tree_of(path, document)
    data = cast("Mapping[str, JsonValue]", tree.data if isinstance(tree.data, dict) else {})
    return tree if agent_keys(data) == document else tree_of(path, document)


def _not_tuned(agent: LoadedAgent, models: Models) -> ConfigError:
    from burnish.projects.agent.starter import starter

    problem = Problem(
        where=f"{agent.path.name} evaluations.optimizer",
        message="the file does not say how it is to be tuned",
        remedy="a block to start with, made for this agent:",
    )
    return ConfigError([problem], remedy=f"\n{starter(agent, models)}")


def _notes(building: Building, strategy: StrategyPlugin) -> Iterator[str]:
    if strategy.proposes and not building.spec.strategy.settings.uses_holdout:
        yield (
            "no holdout — NOTHING GUARDS AGAINST OVERFITTING: candidates are accepted on the cases "
            "they were made from, and the result is a training score"
        )
    if building.spec.target.min_delta is not None:
        yield "min_delta has no effect: the bar is the noise that was measured (accept_sigma)"


def _refuse_outputs(building: Building) -> None:
    """A tuned agent is put into its file when a person has seen what changes."""
    for name in ("in_place", "update_source"):
        if getattr(building.spec.output, name):
            message = "an agent file is not written by a run"
            remedy = "leave it out, and use `burnish adopt` when the run is over"
            building.problems.add(f"output.{name}", message, remedy)


def _metrics(building: Building, agent: LoadedAgent, cases: Sequence[Case]) -> tuple[Metric, ...]:
    """Those of the description, else of the file; and whether expected tools were used."""
    evaluations, spec = agent.block.evaluations, building.spec.metrics
    if evaluations is None and spec.file is None and not spec.blocks:
        remedy = (
            "add evaluations with at least one metric, such as {type: standard, metric: equality}"
        )
        building.problems.add(_DOCUMENT, "it does not say how it is measured", remedy)
        return ()
    own = MetricsRead(
        blocks=evaluations.metrics if evaluations else (),
        judge=evaluations.model.reference()
        if evaluations and evaluations.model
        else agent.own_model,
    )
    made = read_metrics(building, cases, own=own, own_at=f"{_DOCUMENT}.evaluations.metrics")
    if spec.names:
        return made
    uses_tools = any(turn.expected_tools is not None for case in cases for turn in case.turns)
    return (*made, ExpectedTools()) if uses_tools else made


def _target(
    building: Building, agent: LoadedAgent, axes: Axes, cases: Sequence[Case]
) -> AgentTarget:
    user = _user(building, agent) if any(case.scenario for case in cases) else None
    return AgentTarget(agent, building.models, surfaces=axes.surfaces, user=user)


def _user(building: Building, agent: LoadedAgent) -> User:
    """Who plays the user in scenarios."""
    block = building.spec.metrics.user_simulator or agent.block.user_simulator
    prompt = in_force(USER_SIMULATOR, agent.folder)
    ref = block.reference() if block else agent.own_model
    return user_simulator(building.models.client(ref, prompt.settings), prompt)
