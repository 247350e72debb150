"""A graph of agents as a target: its description, and how it is built."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, Field, JsonValue

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import codec
from burnish.core.errors import ConfigError
from burnish.core.protocols import Metric, Target
from burnish.core.structures import SurfaceType
from burnish.core.surfaces import AGENT_SURFACES, Candidate, ChoiceSurface, Surface, Value
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.graph.homes import GraphHomes, graph_files, read_graph
from burnish.projects.measures import User, read_metrics, read_splits, simulated_user
from burnish.runs.directory import Header
from burnish.runs.draft import FilePlace
from burnish.runs.events import BEST, CANDIDATES, Exported, Exporter
from burnish.runs.homes import Homes
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
from burnish.system import read_tree
from burnish.system.config import near
from burnish.system.settings import Text
from burnish.system.yaml import parse_tree
from burnish.targets.agent.attachments import check_attachments, pinned
from burnish.targets.agent.files import rebased, way_back
from burnish.targets.graph import Graph, GraphTarget, all_surfaces, surfaces_of
from burnish.targets.graph.files import GraphBlock
from burnish.targets.graph.surfaces import file_keys, node_id, positions_of_graph


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
        record=graph_files(target.graph),
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
    short = {name.removeprefix(f"{graph.name}/"): name for name in ids}
    return {name: whole for name, whole in short.items() if name not in ids}


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
    return models.client(replace(now.ref, name=ref.name) if same else ref)
