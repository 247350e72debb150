"""The JSON Schema of what `--progress json` prints and events.jsonl holds, made from the events."""

from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from burnish.reports.progress import TICK
from burnish.runs.events import EventData, Tick
from burnish.runs.plugins import strategy_names, strategy_plugin

_Schema = dict[str, Any]


def progress_schema() -> _Schema:
    """One line: its kind, and by kind its data. Events of installed strategies are included."""
    definitions: _Schema = {}
    ways = {
        kind: [_reference(each, definitions) for each in classes]
        for kind, classes in sorted(_by_kind().items())
    }
    ways[TICK] = [_reference(Tick, definitions)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "burnish: a line of --progress json",
        "type": "object",
        "properties": {
            "schema": {"const": 1},
            "id": {"type": "string", "description": "The same again if it is delivered twice."},
            "kind": {"type": "string", "description": "Further kinds may be added."},
            "at": {"type": "string", "description": "UTC, ISO 8601."},
            "data": {"type": "object"},
        },
        "required": ["schema", "kind", "data"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {"data": each[0] if len(each) == 1 else {"anyOf": each}}},
            }
            for kind, each in ways.items()
        ],
        "$defs": dict(sorted(definitions.items())),
    }


def _by_kind() -> dict[str, list[type[EventData]]]:
    """The classes of data that are stored under each kind, including those of strategies."""
    for name in strategy_names():
        strategy_plugin(name)
    found: dict[str, list[type[EventData]]] = {}
    # By name: the order in which modules were imported is an accident.
    for each in sorted(_below(EventData), key=lambda each: each.__name__):
        for kind in each.kinds[:1]:
            found.setdefault(kind, []).append(each)
    return found


def _below(kind: type[EventData]) -> Iterator[type[EventData]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _reference(kind: type[Any], definitions: _Schema) -> _Schema:
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema(mode="serialization", ref_template="#/$defs/{model}")
    definitions |= schema.pop("$defs", {})
    # A field may be left out if it is None, and files of an earlier version may lack it.
    optional: frozenset[str] = getattr(kind, "optional", frozenset())
    schema["required"] = [name for name in schema.get("required", ()) if name not in optional]
    schema["additionalProperties"] = True
    definitions[kind.__name__] = schema
    return {"$ref": f"#/$defs/{kind.__name__}"}
