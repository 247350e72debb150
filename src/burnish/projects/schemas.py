"""JSON Schemas of the kinds of files, for editors: made from the same tables and fields as flags.

`burnish init schema KIND` prints one. A value may be `${VAR}` wherever it is text.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from burnish.models.model_block import ModelBlock
from burnish.projects.dialects import Dialect, role_names
from burnish.runs.plugins import strategy_names, strategy_plugin, target_plugin
from burnish.runs.spec import RunSpec
from burnish.system.settings import Door, field_docs, plain_type

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_Schema = dict[str, Any]


def file_schema(dialect: Dialect) -> _Schema:
    """What a file of this kind may hold; settings of every installed strategy included."""
    return _Making(dialect).schema()


class _Making:
    """One schema on its way, with the definitions that it needs."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._definitions: _Schema = {}

    def schema(self) -> _Schema:
        dialect, inside = self._dialect, self._dialect.strategy_at[:-1]
        own = target_plugin(dialect.target).document
        root = self._object({}) if own is None else self._of_model(own)
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
        root["properties"]["kind"] = {"const": dialect.kind}
        return {
            "$schema": _DRAFT,
            "title": f"burnish: {dialect.kind}",
            **root,
            "$defs": self._definitions,
        }

    def _fill(self, place: _Schema, keys: Mapping[str, str]) -> None:
        """The keys of a table; `budget.max_usd` is a key in a block."""
        for key, field in keys.items():
            *above, name = key.split(".")
            home = place
            for step in above:
                home = self._child(home, step)
            home["properties"].setdefault(name, self._field(field) if field else {})

    def _searches(self, place: _Schema, *, right_in_it: bool) -> None:
        """Blocks of strategies, models of roles; settings of strategies that stand right there."""
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
        info, owner = field_at(path.split("."), self._dialect)
        if info is None:
            return {}
        parts = [each for each in info.metadata if not isinstance(each, Door)]
        kind: Any = info.annotation
        schema = self._of_type(Annotated[kind, *parts] if parts else kind)
        text = field_docs(owner).get(path.rpartition(".")[2], "")
        return {**schema, "description": text} if text else schema

    def _of_model(self, model: type[BaseModel]) -> _Schema:
        """A model as an object of its own, so that keys can be added to it."""
        schema = self._of_type(model)
        name = schema.get("$ref", "").rpartition("/")[2]
        whole = self._definitions.pop(name) if name else schema
        return {**self._object({}), **whole, "properties": dict(whole.get("properties", {}))}

    def _of_type(self, kind: Any) -> _Schema:
        schema = TypeAdapter(kind).json_schema(ref_template="#/$defs/{model}")
        self._definitions |= schema.pop("$defs", {})
        return schema

    def _child(self, place: _Schema, name: str) -> _Schema:
        """The block under a key as an object of its own, made where it is not there yet."""
        existing: _Schema = place["properties"].get(name, {})
        ways: list[_Schema] = [existing, *existing.get("anyOf", ())]
        names = [str(each["$ref"]).rpartition("/")[2] for each in ways if "$ref" in each]
        block = existing if "properties" in existing else self._object({})
        if names:
            block = {**self._definitions[names[0]]}
            block["properties"] = dict(block.get("properties", {}))
        place["properties"][name] = block
        return block

    def _object(self, properties: _Schema) -> _Schema:
        return {"type": "object", "properties": properties, "additionalProperties": False}


def field_at(steps: Iterable[str], dialect: Dialect) -> tuple[FieldInfo | None, type[BaseModel]]:
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
