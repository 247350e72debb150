"""The structure of files: the JSON Schema of each kind, and the nodes of the agent in one.

Schemas are made from the same tables and fields as flags. A value may be `${VAR}` wherever it is
text. Nothing is run or paid for.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import ModelBlock, Models
from burnish.projects.agent.axes import Axes, axes_of
from burnish.projects.agent.dialect import AgentFile
from burnish.projects.agent.plugin import AgentSpec, agent_of
from burnish.projects.description import describe
from burnish.projects.dialects import Dialect, Document, dialect_named, role_names
from burnish.projects.file_kinds import GraphFile
from burnish.projects.graph import graph_of, graph_surfaces, untargeted
from burnish.reports.progress import progress_schema
from burnish.runs.build import building_of
from burnish.runs.draft import Problems
from burnish.runs.plugins import strategy_names, strategy_plugin, target_plugin
from burnish.runs.spec import RunSpec
from burnish.system.settings import Door, field_docs, plain_type
from burnish.targets.agent.target import AgentTarget
from burnish.targets.graph import GraphTarget
from burnish.targets.graph.elements import Condition
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


_Schema = dict[str, Any]
PROGRESS = "progress"
"""Names the schema of the lines of `--progress json`, as if it were a kind of file."""


def schema_text(kind: str) -> str:
    """The schema of a kind of file, or of progress, as a JSON document."""
    schema = progress_schema() if kind == PROGRESS else file_schema(dialect_named(kind))
    return f"{_by_lines(schema)}\n"


def _by_lines(schema: Mapping[str, Any]) -> str:
    """A JSON document with a line for each property and definition, and no more."""

    def inner(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    def block(entries: Mapping[str, Any]) -> str:
        lines = ",\n".join(f"    {inner(name)}: {inner(each)}" for name, each in entries.items())
        return f"{{\n{lines}\n  }}" if entries else "{}"

    parts = (
        f"  {inner(key)}: {block(value) if key in ('$defs', 'properties') else inner(value)}"
        for key, value in schema.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}"


def schema_file(kind: str) -> str:
    """The name of the file with the schema of a kind, beside a file of that kind."""
    return f"{kind}.schema.json"


def editor_line(kind: str) -> str:
    """The first line of a YAML file, which tells editors where its schema is."""
    return f"# yaml-language-server: $schema={schema_file(kind)}\n"


def file_schema(dialect: Dialect) -> _Schema:
    """What a file of this kind may hold; settings of every installed strategy included."""
    return _Making(dialect).schema()


class _Making:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._definitions: _Schema = {}

    def schema(self) -> _Schema:
        dialect = self._dialect
        root = self._of_keys() if dialect.document is None else self._of_model(dialect.document)
        root["properties"]["kind"] = {"const": dialect.kind}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"burnish: {dialect.kind}",
            **root,
            "$defs": self._definitions,
        }

    def _of_keys(self) -> _Schema:
        """The keys of the dialect's table, in what the target itself reads."""
        dialect, inside = self._dialect, self._dialect.strategy_at[:-1]
        own = target_plugin(dialect.target).document
        root = _object() if own is None else self._of_model(own)
        block: Mapping[str, str] | None = getattr(dialect, "block", None)
        if inside:
            place = root
            for step in map(str, inside):
                place = self._child(place, step)
            self._fill(place, dialect.keys if block is None else block)
            self._searches(place, right_in_it=True)
        if not inside or block is not None:
            self._fill(root, dialect.keys)
        if not inside and not strategy_plugin(dialect.strategy).over:
            self._searches(root, right_in_it=False)
        return root

    def _fill(self, place: _Schema, keys: Mapping[str, str]) -> None:
        """The keys of a table; `budget.max_usd` is a key in a block."""
        for key, path in keys.items():
            *above, name = key.split(".")
            home = place
            for step in above:
                home = self._child(home, step)
            home["properties"].setdefault(name, self._field(path) if path else {})

    def _searches(self, place: _Schema, *, right_in_it: bool) -> None:
        for name in strategy_names():
            plugin = strategy_plugin(name)
            if not plugin.proposes or plugin.over:
                continue
            settings = self._of_model(plugin.Settings)
            place["properties"].setdefault(name, settings)
            for role in role_names(plugin):
                place["properties"].setdefault(role, self._of_type(ModelBlock))
            if right_in_it:
                for key, schema in settings["properties"].items():
                    place["properties"].setdefault(key, schema)

    def _field(self, path: str) -> _Schema:
        info, owner = _field_at(path.split("."), self._dialect)
        if info is None:
            return {}
        parts = [each for each in info.metadata if not isinstance(each, Door)]
        kind: Any = info.annotation
        schema = self._of_type(Annotated[kind, *parts] if parts else kind)
        text = field_docs(owner).get(path.rpartition(".")[2], "")
        if text:
            schema = {**schema, "description": text}
        usual = self._dialect.strategy if path == "strategy.name" else _plain_default(info)
        return schema if usual is None else {**schema, "default": usual}

    def _of_model(self, model: type[BaseModel]) -> _Schema:
        """A model as an object of its own, so that keys can be added to it."""
        schema = self._of_type(model)
        name = schema.get("$ref", "").rpartition("/")[2]
        whole = self._definitions.pop(name) if name else schema
        return {**_object(), **whole, "properties": dict(whole.get("properties", {}))}

    def _of_type(self, kind: Any) -> _Schema:
        schema = TypeAdapter(kind).json_schema(
            # A file of another system may use either spelling; ours is the usual one.
            by_alias=self._dialect.document is None,
            ref_template="#/$defs/{model}",
            schema_generator=_DocumentedSchema,
        )
        self._definitions |= schema.pop("$defs", {})
        return schema

    def _child(self, place: _Schema, name: str) -> _Schema:
        """The block under a key as an object of its own, made where it is not there yet."""
        existing: _Schema = place["properties"].get(name, {})
        ways: list[_Schema] = [existing, *existing.get("anyOf", ())]
        names = [str(each["$ref"]).rpartition("/")[2] for each in ways if "$ref" in each]
        block = existing if "properties" in existing else _object()
        if names:
            block = {**self._definitions[names[0]]}
            block["properties"] = dict(block.get("properties", {}))
        place["properties"][name] = block
        return block


class _DocumentedSchema(GenerateJsonSchema):
    """Describes the fields of models by the docstrings under them."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        docs = field_docs(schema["cls"])
        for name, part in made.get("properties", {}).items():
            if text := docs.get(name):
                part.setdefault("description", text)
        return made


def _plain_default(info: FieldInfo) -> str | float | None:
    """The default of a field, if it is one word or number."""
    value: object = None if info.is_required() else info.default
    return value if isinstance(value, str | int | float) and value != "" else None


def _object() -> _Schema:
    return {"type": "object", "properties": {}, "additionalProperties": False}


def _field_at(steps: Iterable[str], dialect: Dialect) -> tuple[FieldInfo | None, type[BaseModel]]:
    """The field of the description at a path, and the model that has it."""
    model: type[BaseModel] = RunSpec
    rest = list(steps)
    if rest[0] == "target":
        model, rest = target_plugin(dialect.target).Spec, rest[1:]
    elif rest[0] == "strategy" and rest[1] != "name":
        named = rest[1] in strategy_names()
        model = strategy_plugin(rest[1] if named else dialect.strategy).Settings
        rest = rest[2:]
    info: FieldInfo | None = None
    for place, name in enumerate(rest):
        info = model.model_fields.get(name)
        inner = None if info is None else plain_type(info.annotation)
        if place + 1 == len(rest) or not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return (info if place + 1 == len(rest) else None), model
        model = inner
    return info, model
