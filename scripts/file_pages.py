"""The pages of the kinds of files: every key with its type, default and an example.

They are made from the JSON Schemas, and so from the models that read the files. An example is a
value of one of the files in examples/, or else one that the schema allows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

from source_reading import row

from burnish.core.errors import ConfigError
from burnish.models.factory import ModelBlock
from burnish.projects.dialects import GROUP, Dialect, Document, dialect_of, role_names
from burnish.projects.file_structure import file_schema
from burnish.runs.plugins import strategy_names, strategy_plugin
from burnish.system import YamlTree, read_tree

Schema = Mapping[str, Any]
_EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_OURS = "burnish."
_HEAD = ("", "| key | value | default | example | |", "|---|---|---|---|---|")
_WORDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "a block",
    "array": "a list",
}
_LONGEST = 48
"""An example that is longer is not shown."""
_DEEPEST = 3
"""Blocks further inside are listed by their schema only."""


def dialects() -> list[Dialect]:
    """The kinds of files that burnish itself brings."""
    points = [each for each in entry_points(group=GROUP) if each.value.startswith(_OURS)]
    return [each.load()() for each in sorted(points, key=lambda each: each.name)]


def page_name(kind: str) -> str:
    """The file of the page of a kind."""
    return f"file-{kind}.md"


def file_pages() -> dict[str, str]:
    """A page for each kind of file, by name."""
    return {page_name(each.kind): _FilePage(each).text() for each in dialects()}


def usual(dialect: Dialect) -> str:
    """How a file of a kind is recognised, and how it is searched."""
    by_keys = f", or recognised by {dialect.known_by}" if dialect.known_by else ""
    place = ".".join(map(str, dialect.strategy_at))
    strategy = f"searched with `{dialect.strategy}` unless `{place}` or `--strategy` says otherwise"
    return f"`kind: {dialect.kind}`{by_keys}; {strategy}."


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of a file."""

    path: str
    schema: Schema
    required: bool = False


class _FilePage:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._schema = file_schema(dialect)
        self._used = [value for value in map(_data, _files()) if _kind(value) == dialect.kind]
        self._roles = {
            role for name in strategy_names() for role in role_names(strategy_plugin(name))
        }

    def text(self) -> str:
        dialect = self._dialect
        doc = " ".join((type(dialect).__doc__ or "").split())
        parts = [
            f"# {dialect.kind} files",
            "",
            doc,
            "",
            usual(dialect),
            "",
            f"`burnish schema {dialect.kind} -o {dialect.kind}.schema.json` writes the schema for",
            "your editor. A value may be `${NAME}` wherever it is text. Keys marked with * are",
            "required.",
            "",
            "## Keys",
        ]
        parts += self._block("", self._schema, depth=0)
        return "\n".join(parts)

    def _block(self, prefix: str, schema: Schema, *, depth: int) -> Iterator[str]:
        """The table of a block, then those of the blocks in it."""
        keys = list(self._keys(prefix, schema))
        yield from _HEAD
        yield from (self._row(key) for key in keys)
        for key in keys:
            inner = self._inner(key)
            if inner is not None and depth < _DEEPEST:
                path, below = inner
                yield from ("", f"{'#' * min(4, depth + 3)} `{path}`")
                yield from self._block(path, below, depth=depth + 1)

    def _keys(self, prefix: str, schema: Schema) -> Iterator[Key]:
        required = schema.get("required", ())
        for name, part in schema.get("properties", {}).items():
            if name != "$schema":
                path = f"{prefix}.{name}" if prefix else name
                yield Key(path=path, schema=part, required=name in required)

    def _inner(self, key: Key) -> tuple[str, Schema] | None:
        """The block under a key, or that of the items of its list or mapping."""
        name = key.path.rpartition(".")[2]
        is_named = name in strategy_names() or name in self._roles
        if is_named:
            return None  # they have a page of their own
        for way in self._ways(key.schema):
            if way.get("properties"):
                return key.path, way
            for inside, mark in (("items", "[]"), ("additionalProperties", ".NAME")):
                part = way.get(inside)
                for each in self._ways(cast("Schema", part)) if isinstance(part, dict) else ():
                    if each.get("properties"):
                        return f"{key.path}{mark}", each
        return None

    def _ways(self, schema: Schema) -> Iterator[Schema]:
        """What may stand there, references resolved; null is nothing."""
        if "$ref" in schema:
            yield from self._ways(self._schema["$defs"][schema["$ref"].rpartition("/")[2]])
            return
        ways: Sequence[Schema] = schema.get("anyOf") or schema.get("oneOf") or ()
        for each in ways:
            yield from self._ways(each)
        if not ways and schema.get("type") != "null":
            yield schema

    def _row(self, key: Key) -> str:
        name = key.path.rpartition(".")[2]
        mark = " *" if key.required else ""
        text = " ".join(str(key.schema.get("description", "")).split())
        if name in strategy_names():
            place = f"settings.md#strategy-{name}"
            return row(f"`{key.path}`", "a block", "—", "", f"[The settings of {name}]({place}).")
        if name in self._roles and not text:
            text = "The model of this role; see [models](../models.md)."
        default = key.schema.get("default")
        usually = "—" if default is None or default in ("", [], {}) else f"`{_plain(default)}`"
        example = self.example(key)
        shown = "" if example is None else f"`{_plain(example)}`"
        return row(f"`{key.path}`{mark}", self._words(key.schema), usually, shown, text)

    def _words(self, schema: Schema) -> str:
        words: list[str] = []
        for way in self._ways(schema):
            if "const" in way:
                words.append(f"`{_plain(way['const'])}`")
            elif "enum" in way:
                words += [f"`{_plain(each)}`" for each in way["enum"]]
            else:
                kinds = way.get("type", "object" if way.get("properties") else "")
                for kind in [kinds] if isinstance(kinds, str) else kinds:
                    words.append(f"{_WORDS.get(kind, 'anything')} {_bounds(way)}".strip())
        return " or ".join(dict.fromkeys(words)) or "anything"

    # -- examples ----------------------------------------------------------------------------

    def example(self, key: Key) -> Any:
        """A value of a file in examples/, or one that the schema allows; None for a block."""
        for data in self._used:
            for value in _at(data, key.path.replace("[]", ".[]").split(".")):
                if _is_short(value):
                    return value
        ways = list(self._ways(key.schema))
        if any(way.get("title") == ModelBlock.__name__ for way in ways):
            return "openai:gpt-4o"
        return next((value for way in ways if (value := _allowed(way)) is not None), None)


def _is_short(value: Any) -> bool:
    """Whether a value fits into a cell; blocks have a table of their own."""
    text = _plain(value)
    is_block = value is None or isinstance(value, dict)
    return not is_block and len(text) <= _LONGEST and "\n" not in text


def _allowed(way: Schema) -> Any:
    """A value that a schema allows, if one can be made from it."""
    for name in ("default", "const"):
        value: Any = way.get(name)
        if value not in (None, "", [], {}):
            return value
    if way.get("enum"):
        return way["enum"][0]
    low, above = way.get("minimum"), way.get("exclusiveMinimum")
    match way.get("type"):
        case "boolean":
            return True
        case "integer":
            return max(1, low if low is not None else (above or 0) + 1)
        case "number":
            most: float = way.get("maximum", way.get("exclusiveMaximum", 1))
            return low if low else min(most, 1) / (1 if above is None or above < 1 else 0.5)
        case _:  # no text can be made up that would mean something
            return None


def _bounds(way: Schema) -> str:
    """The bounds that say something; those that keep numbers sane are left out."""
    signs = (
        ("minimum", "≥"),
        ("exclusiveMinimum", ">"),
        ("maximum", "≤"),
        ("exclusiveMaximum", "<"),
    )
    limits = [(sign, way[name]) for name, sign in signs if name in way]
    return ", ".join(f"{sign} {value:g}" for sign, value in limits if abs(value) < 1e9)


def _plain(value: Any) -> str:
    """A value as YAML has it in one line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.replace("|", "\\|").replace("`", "'")


def _at(data: Any, steps: Sequence[str]) -> Iterator[Any]:
    """The values at a path; `[]` is any item and NAME any key."""
    if not steps:
        yield data
    elif steps[0] == "[]" and isinstance(data, list):
        for each in cast("list[Any]", data):
            yield from _at(each, steps[1:])
    elif steps[0] == "NAME" and isinstance(data, dict):
        for each in cast("dict[str, Any]", data).values():
            yield from _at(each, steps[1:])
    elif isinstance(data, dict) and steps[0] in data:
        yield from _at(data[steps[0]], steps[1:])


@cache
def _files() -> tuple[Path, ...]:
    patterns = ("*.yaml", "*.json")
    paths = sorted(path for pattern in patterns for path in _EXAMPLES.rglob(pattern))
    # What a plug-in reads, or a run left behind, is no example for everybody.
    elsewhere = {"own_strategy", "toy", "results"}
    return tuple(path for path in paths if not elsewhere & {*path.parts})


@cache
def _data(path: Path) -> Any:
    try:
        return read_tree(path).data
    except ConfigError:
        return None


def _kind(data: Any) -> str:
    """The kind of file that this content is of; empty if it is none."""
    if not isinstance(data, dict):
        return ""
    content = cast("dict[str, Any]", data)
    tree = YamlTree(path=Path("example"), data=content, text="")
    try:
        return dialect_of(Document(path=Path("example"), tree=tree)).kind
    except ConfigError:
        return ""
