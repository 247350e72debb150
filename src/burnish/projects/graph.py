"""A graph of agents as a target: its description, how it is built, and where its values are."""

import os
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, Field, JsonValue
from ruamel.yaml.scalarstring import LiteralScalarString

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Metric, Target
from burnish.core.surfaces import (
    AGENT_SURFACES,
    Candidate,
    ChoiceSurface,
    Origin,
    Position,
    Surface,
    SurfaceType,
    Value,
)
from burnish.models.chat import ModelClient
from burnish.models.factory import AGENT, Models
from burnish.models.references import ModelRef
from burnish.projects.adopt_files import carried_over
from burnish.projects.agent.dialect import changed_files, file_changes, text_change
from burnish.projects.evaluation_setup import User, read_metrics, read_splits, simulated_user
from burnish.runs.directory import Header
from burnish.runs.draft import FilePlace
from burnish.runs.events import BEST, CANDIDATES, Exported, Exporter
from burnish.runs.homes import FILES, FileChange, Homes, measured_hashes
from burnish.runs.plugins import (
    COSTS,
    MODEL_AXIS,
    STEPS,
    Ability,
    Building,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
    Variant,
)
from burnish.runs.spec import AnySpec, TargetSpec
from burnish.system import read_bytes, read_tree
from burnish.system.config import near
from burnish.system.restoration import digest
from burnish.system.settings import Text
from burnish.system.yaml import YamlTree, parse_tree
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.files import rebased, way_back
from burnish.targets.graph import Graph, GraphTarget, all_surfaces, load_graph, surfaces_of
from burnish.targets.graph.files import GraphBlock
from burnish.targets.graph.graphs import AgentNode
from burnish.targets.graph.surfaces import by_node, file_keys, node_id, positions_of_graph


def read_graph(path: Path, tree: YamlTree) -> Graph:
    """The graph of a file; all problems are reported at once.

    Other keys belong to the project, which validates them.
    """
    keys = tree.data if isinstance(tree.data, dict) else {}
    return load_graph(path, tree=tree, beside=keys.keys() - GraphBlock.model_fields.keys())


def _graph_files(graph: Graph) -> dict[str, Json]:
    """What is kept in run.json; nothing for a graph built in Python, which has no file."""
    return {} if graph.source is None else {FILES: {**_hashes(graph)}}


@dataclass(frozen=True, kw_only=True)
class GraphHomes(Homes):
    """A graph file, and what it names."""

    movable: ClassVar[bool] = True
    path: Path
    hashes: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the run measured, by path from the graph's folder."""

    @classmethod
    def of(cls, header: Header) -> "GraphHomes | None":
        hashes = measured_hashes(header)
        if hashes is None or not header.project.file:
            return None
        return cls(path=Path(header.project.file), hashes=hashes)

    @cached_property
    def graph(self) -> Graph:
        return read_graph(self.path, read_tree(self.path))

    @property
    def place(self) -> str:
        return str(self.graph.folder)

    @property
    def files(self) -> Sequence[Path]:
        return (self.path,)

    def load(self) -> None:
        assert self.graph

    def changed(self) -> list[str]:
        return changed_files(self.hashes, {**_hashes(self.graph)})

    def value(self, surface: str) -> Value:
        if surface not in self._positions:
            message = "the graph no longer has this position"
            raise ConfigError([Problem(where=surface, message=message)])
        return self._positions[surface].value

    def edited(self, values: Mapping[str, Value]) -> tuple[FileChange, ...]:
        """Each value where it is; a file that several nodes use must suit all of them."""
        changes = [*self._beside(values)]
        _require_alike(changes, self._users)
        inside = {name: value for name, value in values.items() if self._file_of(name) is None}
        whole = _graph_change(self.graph, inside) if inside else None
        beside = {change.path: change for _, change in changes}
        both = [*([whole] if whole else []), *beside.values()]
        return tuple(change for change in both if change.after != change.before)

    @cached_property
    def _positions(self) -> dict[str, Position]:
        return {position.id: position for position in positions_of_graph(self.graph)}

    def _node(self, name: str) -> AgentNode | None:
        """The node of a surface; None for what all agents share."""
        if self._positions[name].type is SurfaceType.GLOBAL_INSTRUCTION:
            return None
        return self.graph.agents[self._paths[self._positions[name].node]]

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {node_id(self.graph, path): path for path in self.graph.agents}

    def _file_of(self, name: str) -> Path | None:
        """The file that contains a value, if it is not the graph's own."""
        node, position = self._node(name), self._positions[name]
        if node is None:
            return _shared_file(self.graph)
        if position.type is SurfaceType.SKILL:
            paths = {skill.name: skill.path for skill in node.skills}
            return self.graph.folder / paths[position.part]
        if node.file:
            return node.agent.path
        file = node.agent.block.instructions.file
        here = position.type is SurfaceType.INSTRUCTION and file is not None
        return node.agent.folder / str(file) if here else None

    def _beside(self, values: Mapping[str, Value]) -> Iterator[tuple[str, FileChange]]:
        for name, value in values.items():
            path, node, position = self._file_of(name), self._node(name), self._positions[name]
            if path is None:
                continue
            user = self._paths.get(position.node, self.graph.name)
            if node is None:
                shared = self.graph.global_instructions
                yield user, text_change(path, shared, str(value))
            elif position.type is SurfaceType.SKILL:
                skill = next(each for each in node.skills if each.name == position.part)
                yield user, text_change(path, skill.content, str(value))
            elif not node.file:
                yield user, text_change(path, node.agent.instructions, str(value))
        for name, parts in by_node(self.graph, self._positions, values).items():
            node = self.graph.agents.get(name)
            if node is not None and node.file and parts.agent:
                yield from ((name, each) for each in file_changes(node.agent, parts.agent))

    @cached_property
    def _users(self) -> dict[Path, set[str]]:
        users: dict[Path, set[str]] = {}
        for name, node in self.graph.agents.items():
            text = node.agent.block.instructions.file
            named = [node.agent.path] if node.file else []
            named += [node.agent.folder / text] if text else []
            named += [self.graph.folder / skill.path for skill in node.skills]
            for path in named:
                users.setdefault(Path(os.path.realpath(path)), set()).add(name)
        return users


def _require_alike(
    changes: Sequence[tuple[str, FileChange]], users: Mapping[Path, set[str]]
) -> None:
    """Reject changing a file for one node if another node uses it unchanged."""
    problems: list[Problem] = []
    for path in dict.fromkeys(change.path for _, change in changes):
        own = {node: change.after for node, change in changes if change.path == path}
        using = users.get(path, set(own))
        if len(set(own.values())) > 1 or using - own.keys():
            names = ", ".join(sorted(using))
            message = f"{names} use this file, but the run changed it only for some of them"
            remedy = "give each node its own file, then adopt with --force"
            problems.append(Problem(where=str(path), message=message, remedy=remedy))
    if problems:
        raise ConfigError(problems)


def _hashes(graph: Graph) -> dict[str, str]:
    paths = {os.path.relpath(path, graph.folder): path for path in _files(graph)}
    return {name: digest(read_bytes(path)) for name, path in paths.items()}


def _files(graph: Graph) -> Iterator[Path]:
    """The graph file, agent files, and the files they name that a candidate may change."""
    assert graph.source is not None
    yield graph.source.path
    if (shared := _shared_file(graph)) is not None:
        yield shared
    for node in graph.agents.values():
        if node.file:
            yield node.agent.path
        yield from (node.agent.folder / name for name in node.agent.contents)
        yield from (graph.folder / skill.path for skill in node.skills)


def _shared_file(graph: Graph) -> Path | None:
    data = graph.source.data if graph.source is not None else None
    block = data.get("global_instructions") if isinstance(data, dict) else None
    name = block.get("file") if isinstance(block, dict) else None
    return graph.folder / name if isinstance(name, str) else None


def _graph_change(graph: Graph, values: Mapping[str, Value]) -> FileChange:
    assert graph.source is not None
    path, original = graph.source.path, graph.source.text
    untouched, made = _exported(graph, {}), _exported(graph, values)
    meant = parse_tree(path, made).data
    # The nicest first: only the lines that must change, texts of several lines as such.
    for written in (_in_lines(parse_tree(path, made), graph), made):
        for text in (carried_over(original, untouched, written), written):
            if text is not None and _data(path, text) == meant:
                return FileChange.of(path, original, text)
    message = "with the new values, the file would not describe the agent that was measured"
    remedy = "take the values from the run's folder and edit the file yourself"
    raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])


def _exported(graph: Graph, values: Mapping[str, Value]) -> str:
    candidate = Candidate(values=values, origin=Origin(kind="proposal"))
    files = GraphTarget(graph, Models()).export(candidate, graph.folder)
    assert graph.source is not None
    return files[graph.source.path.name].decode()


def _in_lines(tree: YamlTree, graph: Graph) -> str:
    if tree.root is None:
        return tree.dump()
    root = cast("dict[str, Any]", tree.root)
    blocks: list[Any] = []
    for path in graph.agents:
        node: Any = root
        for key in file_keys(graph, path):
            node = node[key]
        blocks.append(node.get("instructions"))
    for block in (*blocks, root.get("global_instructions")):
        texts = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
        if isinstance(text := texts.get("inline"), str) and "\n" in text:
            texts["inline"] = LiteralScalarString(text)
    return tree.dump()


def _data(path: Path, text: str) -> object:
    try:
        return parse_tree(path, text).data
    except ConfigError:
        return None


def _exporter_of(target: GraphTarget) -> Exporter:
    def export(candidate: Candidate, folder: Path, number: int) -> Exported:
        name = f"iter-{number:02d}"
        home = folder / CANDIDATES / name
        files = _found_from(home, target, target.export(candidate, home))
        return Exported(
            files={f"{CANDIDATES}/{name}/{path}": content for path, content in files.items()},
            links={f"{CANDIDATES}/{BEST}": name},
        )

    return export


def _found_from(home: Path, target: GraphTarget, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
    """The files, with the paths of the project relative to `home`."""
    source = target.graph.source
    if source is None:
        return files
    name = source.path.name
    tree = parse_tree(source.path, files[name].decode())
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    way = way_back(home, target.graph.folder)
    for key in ("train", "holdout", "sealed", "metrics_file"):
        if isinstance(root.get(key), str):
            root[key] = rebased(root[key], way)
    return {**files, name: tree.dump().encode()}


class GraphSpec(TargetSpec):
    """The graph that a file describes; names may leave out the name of the graph."""

    kind: str = "graph"
    targets: tuple[Text, ...] = ()
    """The surfaces that may be changed; by default all of them."""
    choices: dict[str, Annotated[list[Text], Field(min_length=1)]] = Field(
        default_factory=dict[str, list[str]]
    )
    """By surface (`#model`), the models to choose from."""
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict[str, tuple[float, float]])
    """By surface (`#model.temperature`), lowest and highest."""
    start: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """By surface, the value to begin with instead of the one in the file."""


class GraphPlugin(TargetPlugin):
    """Builds the target from its description."""

    kind: ClassVar[str] = "graph"
    Spec: ClassVar[type[TargetSpec]] = GraphSpec
    document: ClassVar[type[BaseModel] | None] = GraphBlock
    surfaces: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES
    abilities: ClassVar[tuple[Ability, ...]] = (STEPS, COSTS)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        graph = graph_of(building)
        dataset = _dataset(building, strategy)
        cases = [case for split in Split for case in dataset.cases(split)] if dataset else []
        metrics = read_metrics(building, cases)
        user = simulated_user(building, cases)
        target = None if graph is None else graph_target(building, graph, user)
        if dataset is None or target is None:
            return None
        return graph_parts(building, target, dataset, metrics)

    def homes(self, header: Header) -> Homes | None:
        return GraphHomes.of(header)

    def axes(self, target: Target) -> Sequence[str]:
        assert isinstance(target, GraphTarget)
        return [MODEL_AXIS, *(each.id for each in positions_of_graph(target.graph))]

    def varied(self, spec: AnySpec, variant: Variant) -> AnySpec:
        """The graph with other values to begin with; models and numbers become surfaces."""
        path = Path(spec.source.file)
        graph = read_graph(path, read_tree(path))
        target: GraphSpec = spec.target
        changes = _opened(target, graph, variant)
        return spec.model_copy(update={"target": target.model_copy(update=changes)})


def _opened(spec: GraphSpec, graph: Graph, variant: Variant) -> dict[str, Any]:
    """The fields of a description in which a variant has its values."""
    positions = {each.id: each for each in positions_of_graph(graph)}
    names = _short_names(graph)
    start = {names.get(name, name): value for name, value in spec.start.items()}
    choices = {names.get(name, name): each for name, each in spec.choices.items()}
    ranges = {names.get(name, name): each for name, each in spec.ranges.items()}
    models = [p.id for p in positions.values() if p.type is SurfaceType.MODEL and not p.part]
    values = {**(dict.fromkeys(models, variant.model) if variant.model else {}), **variant.values}
    for name, value in values.items():
        position = positions.get(name)
        if position is not None and name in models:
            choices[name] = list(dict.fromkeys([*choices.get(name, ()), str(value)]))
        elif position is not None and position.type is SurfaceType.MODEL:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ConfigError.of(name, f"expected a number, found {value!r}")
            numbers = [float(cast("float", position.value)), value]
            bounds = (*ranges.get(name, ()), *numbers)
            ranges[name] = (min(bounds), max(bounds))
    start |= cast("dict[str, JsonValue]", codec(dict[str, Value]).encode(values))
    return {"start": start, "choices": choices, "ranges": ranges}


def graph_of(building: Building) -> Graph | None:
    """The graph of the file; None if it cannot be read, with the problems recorded."""
    path = Path(building.spec.source.file)
    return building.problems.as_raised(lambda: read_graph(path, read_tree(path)), None)


def graph_target(building: Building, graph: Graph, user: User | None) -> GraphTarget | None:
    """The graph as a target, after checking its models."""
    surfaces = graph_surfaces(building, graph)
    if surfaces is None:
        return None

    spec: GraphSpec = building.spec.target
    start = codec(dict[str, Value]).decode({**spec.start})
    target = building.problems.attempt(
        (),
        lambda: GraphTarget(graph, building.models, surfaces=surfaces, user=user, start=start),
        None,
    )
    if target is not None:
        _check_models(building, target)
    return target


def graph_parts(
    building: Building, target: GraphTarget, dataset: Dataset, metrics: tuple[Metric, ...]
) -> TargetParts:
    """What the graph contributes to a run over these cases."""
    own_model, no_model = _own_model(target.graph)
    return TargetParts(
        target=target,
        dataset=dataset,
        metrics=metrics,
        own_model=own_model,
        no_model=no_model,
        left_out=untargeted(building, target),
        short_names=_short_names(target.graph),
        cases_demonstrate=False,
        exporter=_exporter_of(target),
        record=_graph_files(target.graph),
        notes=tuple(target.notes),
        resources=(target,),
    )


def graph_surfaces(building: Building, graph: Graph) -> tuple[Surface, ...] | None:
    """What may be edited; None if the description names others, with the problems recorded."""
    spec: GraphSpec = building.spec.target
    positions = [position.id for position in positions_of_graph(graph)]
    names, before = _short_names(graph), len(building.problems.found)
    mentions = [(("target", "targets", place), each) for place, each in enumerate(spec.targets)]
    for key, surfaces in (("choices", spec.choices), ("ranges", spec.ranges)):
        mentions += [(("target", key, name), name) for name in surfaces]
    for at, name in mentions:
        if names.get(name, name) not in positions:
            building.problems.add(at, f"there is no surface '{name}'", near(name, positions))
    if len(building.problems.found) > before:
        return None
    targets = [names.get(name, name) for name in spec.targets]

    def made() -> tuple[Surface, ...]:
        usual = [surface.id for surface in all_surfaces(graph)]
        chosen = surfaces_of(
            graph,
            list(dict.fromkeys([*usual, *targets])),
            choices={names.get(name, name): each for name, each in spec.choices.items()},
            ranges={names.get(name, name): each for name, each in spec.ranges.items()},
        )
        return tuple(chosen)

    return building.problems.attempt("target", made, None)


def untargeted(building: Building, target: GraphTarget) -> tuple[str, ...]:
    """The surfaces that the description leaves out, if it names some."""
    spec: GraphSpec = building.spec.target
    names = _short_names(target.graph)
    chosen = {names.get(name, name) for name in spec.targets}
    return tuple(each.id for each in target.surfaces if chosen and each.id not in chosen)


def _short_names(graph: Graph) -> Mapping[str, str]:
    """The ids of surfaces and nodes, by their names without the name of the graph."""
    ids = [position.id for position in positions_of_graph(graph)]
    ids += [node_id(graph, path) for path in graph.leaves]
    whole_ids = {*ids}
    short = {name.removeprefix(f"{graph.name}/"): name for name in ids}
    return {name: whole for name, whole in short.items() if name not in whole_ids}


def _dataset(building: Building, strategy: StrategyPlugin) -> Dataset | None:
    dataset = read_splits(building, strategy)
    if dataset is None:
        return None

    def with_files(cases: tuple[Case, ...]) -> tuple[Case, ...]:
        if problems := check_attachments(cases, building.folder):
            building.problems.found += problems
            return cases
        return pinned(cases, building.folder)

    return Dataset(
        train=with_files(dataset.train),
        holdout=with_files(dataset.holdout),
        test=with_files(dataset.test),
    )


def _own_model(graph: Graph) -> tuple[ModelRef | None, str]:
    """The model of the first agent if it can write texts; otherwise why not."""
    first = next((node.agent for node in graph.agents.values()), None)
    if first is None:
        return None, "the graph has no agent whose model could write texts"
    if first.block.model.provider == "local":
        why = "the graph's own model is a local one, which is too weak to write texts"
        return None, why
    return first.own_model, ""


def _check_models(building: Building, target: GraphTarget) -> None:
    spec: GraphSpec = building.spec.target
    problems, tree = building.problems, target.graph.source
    for name, client in target.clients.items():
        at = (*file_keys(target.graph, name), "model")
        place = at if tree is None else FilePlace(tree=tree, keys=at)
        problems.attempt(place, client.check, None)
    keys = {_short_names(target.graph).get(name, name): name for name in spec.choices}
    paths = {node_id(target.graph, path): path for path in target.clients}
    for surface in target.surfaces:
        if isinstance(surface, ChoiceSurface):
            node = paths[surface.id.partition("#")[0]]
            for label in surface.choices:
                client = _chosen(str(label), target.clients[node], building.models)
                problems.attempt(("target", "choices", keys[surface.id]), client.check, None)


def _chosen(label: str, now: ModelClient, models: Models) -> ModelClient:
    """The model of a choice; with address and key if the provider is the same."""
    ref = ModelRef.parse(label)
    same = ref.provider == now.ref.provider
    return models.client(replace(now.ref, name=ref.name) if same else ref, role=AGENT)
