"""What the agent of a file is made of, told without running or paying for anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import Models
from burnish.projects.agent.axes import Axes, axes_of
from burnish.projects.agent.dialect import AgentFile
from burnish.projects.agent.plugin import AgentSpec, agent_of
from burnish.projects.description import describe
from burnish.projects.dialects import Document
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph.plugin import graph_of, graph_surfaces, untargeted
from burnish.runs.build import building_of
from burnish.runs.draft import Problems
from burnish.targets.agent.target import AgentTarget
from burnish.targets.graph import GraphTarget
from burnish.targets.graph.functions import Condition
from burnish.targets.graph.surfaces import edges_of

_Way = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """A target that was not started, and what its structure alone does not say."""

    target: AgentTarget | GraphTarget
    targets: frozenset[str]
    """The surfaces that a search may change."""
    conditions: Mapping[_Way, tuple[Condition | None, ...]] = field(
        default_factory=dict[_Way, tuple[Condition | None, ...]]
    )
    """By edge, what must hold for it to be taken."""


def read_structure(path: Path) -> Anatomy:
    """The structure of a graph file or an agent file."""
    document = Document.read(path)
    if GraphFile().recognises(document):
        return _of_graph(document)
    if AgentFile().recognises(document):
        return _of_agent(document)
    message = "only graph files and agent files have a structure"
    remedy = "a graph file has `kind: graph`; an agent file has a model and instructions"
    raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _of_graph(document: Document) -> Anatomy:
    described = describe(document, {}, dialect=GraphFile())
    building = building_of(described, models=Models())
    graph = graph_of(building)
    surfaces = None if graph is None else graph_surfaces(building, graph)
    building.problems.settle()
    assert graph is not None
    assert surfaces is not None
    target = GraphTarget(graph, building.models, surfaces=surfaces)
    left_out = untargeted(building, target)
    return Anatomy(
        target=target,
        targets=frozenset(each.id for each in surfaces if each.id not in left_out),
        conditions=edges_of(graph),
    )


def _of_agent(document: Document) -> Anatomy:
    """An agent; what may be changed are the axes of its optimizer block, if it has one."""
    described = describe(document, {}, environ={})
    spec: AgentSpec = described.spec.target
    agent, problems = agent_of(described.spec.source.file, spec), Problems(places=described.places)
    axes = Axes() if spec.axes is None else axes_of(agent, spec.axes, problems)
    problems.settle()
    target = AgentTarget(agent, Models(), surfaces=axes.surfaces)
    return Anatomy(target=target, targets=frozenset(each.id for each in axes.surfaces))
