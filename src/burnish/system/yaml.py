"""YAML and JSON files as plain data with line numbers and comments."""

import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, cast

from pydantic import JsonValue
from ruamel.yaml import YAML
from ruamel.yaml.comments import TaggedScalar
from ruamel.yaml.constructor import DuplicateKeyError, RoundTripConstructor
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.scanner import RoundTripScanner, ScannerError

from burnish.core.content import (
    DEEPEST,
    MOST_BITS,
    TOO_DEEP,
    TOO_LONG,
    is_deeper,
    whole_number,
)
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Scalar, Value, value_key
from burnish.system.files import read_text, translated

TreePath: TypeAlias = tuple[str | int, ...]

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_TWICE = re.compile(r'found duplicate key "(.*?)" with value')
_LINE = re.compile(r"^( *)((?:- +)*)([^\s#].*)$", re.M)
_PLACED = 20_000
"""Up to this many characters, a fault in JSON gets its line, which is slow."""
_PLACED_WHOLE = 500_000
"""Up to this many characters, the values of JSON have lines: it is parsed again, in ten seconds."""
_LARGEST = {".json": 20}
"""Megabytes of a file, by its ending."""
_LARGEST_YAML = 5
"""YAML is read slowly, about 20 seconds for this many megabytes."""
_MOST_ALIASES = 100
"""Merging mappings costs the square of their number."""
FLATTER = f"nest at most {DEEPEST} levels"


class _NotPlain(ValueError):
    def __init__(self, message: str, *, path: TreePath, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.remedy = remedy


def to_plain(node: object, *, most_values: int = 1_000_000) -> JsonValue:
    """The tree without ruamel's own types; dates become ISO strings."""
    return _Walk(most_values=most_values).value(node, ())


def _plain_key(key: object) -> str | None:
    """The text of a scalar key as in YAML; None for anything else."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, date):
        return key.isoformat()
    return str(key) if isinstance(key, str | int | float) else None


@dataclass(kw_only=True)
class _Walk:
    """Counts values, since aliases can turn a small file into a huge or endless tree."""

    most_values: int
    open_nodes: set[int] = field(default_factory=set[int])
    seen: int = 0

    def value(self, node: object, path: TreePath) -> JsonValue:
        self.seen += 1
        if self.seen > self.most_values:
            raise _NotPlain("its aliases unfold into too much", path=path, remedy="Use fewer.")
        tag = getattr(getattr(node, "tag", None), "value", None)
        if tag is not None and tag not in _TAGS:
            short = str(tag).replace("tag:yaml.org,2002:", "!!")
            raise _NotPlain(f"the tag {short} is not allowed", path=path, remedy="Remove the tag.")
        if not isinstance(node, Mapping | list):
            return _scalar(node, path)
        name = id(cast("object", node))
        if name in self.open_nodes:
            raise _NotPlain("an alias contains itself", path=path, remedy="Write it out.")
        self.open_nodes.add(name)
        if isinstance(node, list):
            items = enumerate(cast("list[object]", node))
            plain = cast("JsonValue", [self.value(item, (*path, at)) for at, item in items])
        else:
            plain = self._mapping(cast("Mapping[object, object]", node), path)
        self.open_nodes.remove(name)
        return plain

    def _mapping(self, node: Mapping[object, object], path: TreePath) -> JsonValue:
        plain: dict[str, JsonValue] = {}
        for key, item in node.items():
            name = _plain_key(key)
            if name is None:
                raise _NotPlain("a key is not a single text", path=path, remedy="Use a text.")
            if name in plain:
                raise _NotPlain(f"key {name!r} appears twice", path=path, remedy="Remove one.")
            plain[name] = self.value(item, (*path, name))
        return plain


def _scalar(node: object, path: TreePath) -> JsonValue:
    if node is None or isinstance(node, bool):
        return node
    if isinstance(node, TaggedScalar):
        return str(node)
    if isinstance(node, datetime | date):
        return node.isoformat()
    if isinstance(node, int) and node.bit_length() > MOST_BITS:
        raise _NotPlain(TOO_LONG, path=path, remedy="Write it as text.")
    for kind in (str, int, float):
        if isinstance(node, kind):
            return kind(node)
    what = type(node).__name__
    raise _NotPlain(f"a value of type {what} is not allowed", path=path, remedy="Use plain data.")


class _Excess(ScannerError):
    """A text has too much of something."""

    def __init__(self, problem: str, remedy: str, mark: Any) -> None:
        super().__init__(None, None, problem, mark)  # pyright: ignore[reportUnknownMemberType]
        self.remedy = remedy


class _Scanner(RoundTripScanner):
    """Ends a text that would take long or fill the memory, where the excess begins.

    ruamel needs the square of the levels in time, and its composer recurses over them.
    """

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader=loader)  # pyright: ignore[reportUnknownMemberType]
        self._aliases = 0

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803
        base = cast("Any", super())
        base.fetch_flow_collection_start(TokenClass, to_push)
        self._require_levels()

    def add_indent(self, column: int) -> bool:
        deeper = super().add_indent(column)
        self._require_levels()
        return deeper

    def fetch_alias(self) -> None:
        self._aliases += 1
        if self._aliases > _MOST_ALIASES:
            message = f"it has more than {_MOST_ALIASES} aliases"
            raise _Excess(message, "write the values out", self._mark)
        super().fetch_alias()

    def _require_levels(self) -> None:
        scanner = cast("Any", self)
        if len(scanner.flow_context) + len(scanner.indents) > DEEPEST:
            raise _Excess(TOO_DEEP, FLATTER, self._mark)

    @property
    def _mark(self) -> Any:
        return cast("Any", self).reader.get_mark()


class _Constructor(RoundTripConstructor):
    """Refuses keys that are lists or mappings: nested ones take twice as long a level."""

    def construct_document(self, node: Any) -> Any:
        nodes, seen = [node], set[int]()
        while nodes:
            each = nodes.pop()
            if id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, MappingNode):
                pairs = cast("list[tuple[Any, Any]]", each.value)
                for key, value in pairs:
                    if not isinstance(key, ScalarNode):
                        raise _Excess("a key is not a single text", "use a text", key.start_mark)
                    nodes.append(value)
            elif isinstance(each, SequenceNode):
                nodes += cast("list[Any]", each.value)
        return cast("Any", super()).construct_document(node)


def parse_yaml(text: str, *, source: str) -> object:
    """ruamel's tree of the text, with comments."""
    # A carriage return would become part of a comment.
    text = text.replace("\r\n", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            return cast("object", cast("Any", _yaml(text)).load(text))
    except MarkedYAMLError as error:
        raise ConfigError([_marked_problem(error, source)]) from None
    except (YAMLError, ValueError) as error:
        raise ConfigError.of(source, f"not valid YAML: {_first_line(error)}") from None
    except (AttributeError, LookupError, TypeError):
        # ruamel stumbles so over a tag that does not fit its value, such as `!!bool maybe`.
        problem = Problem(message="not valid YAML: a value does not fit its tag", where=source)
        raise ConfigError([problem], remedy="Remove the tag.") from None


def parse_json(text: str, *, source: str) -> JsonValue:
    """The JSON value of the text; a duplicate key is rejected."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
            raise ValueError(f"key {twice!r} appears twice")
        return mapping

    try:
        value: JsonValue = json.loads(text, object_pairs_hook=unique, parse_int=whole_number)
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        raise ConfigError.of(where, f"not valid JSON: {error.msg}") from None
    except RecursionError:
        raise ConfigError.of(source, TOO_DEEP, FLATTER) from None
    except ValueError as error:
        if len(text) <= _PLACED:
            _parse_json_places(text, source=source)
        raise ConfigError.of(source, _first_line(error)) from None
    if is_deeper(value, DEEPEST):
        raise ConfigError.of(source, TOO_DEEP, FLATTER)
    return value


def _first_line(error: Exception) -> str:
    """What Python says of a value, without its advice to programmers."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return TOO_LONG if "integer string conversion" in line else line


def _parse_json_places(text: str, *, source: str) -> object:
    """ruamel's tree of a JSON text, for its lines."""
    # JSON allows tabs between values and YAML does not; within its strings there are none.
    return parse_yaml(text.replace("\t", " "), source=source)


def write_yaml(root: object, *, like: str) -> str:
    """The tree as text, with the indentation and line ends of the original text."""
    stream = io.StringIO()
    cast("Any", _yaml(like)).dump(root, stream)
    return stream.getvalue().replace("\n", "\r\n" if "\r\n" in like else "\n")


def _write_json(data: JsonValue, *, like: str) -> str:
    """The value as text, with the indentation of the original text."""
    indent = re.search(r"\n([ \t]+)\S", like)
    return json.dumps(data, indent=indent[1] if indent else None, ensure_ascii=False) + "\n"


def _yaml(text: str) -> YAML:
    yaml = YAML(typ="rt")
    yaml.Scanner, yaml.Constructor = _Scanner, _Constructor
    yaml.preserve_quotes = True
    # Long lines stay as they are.
    yaml.width = 2**20
    yaml.explicit_start = text.startswith("---")
    mapping, offset = _indentation(text)
    yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
    return yaml


def _indentation(text: str) -> tuple[int, int]:
    """How far the text indents a mapping, and a dash, below their key."""
    mapping = offset = None
    lines = [(len(match[1]), match[2], match[3].rstrip()) for match in _LINE.finditer(text)]
    for (margin, dashes, content), (below, dash_below, _) in pairwise(lines):
        deeper = below - margin - len(dashes)
        if not content.endswith(":") or deeper < 0:
            continue
        if dash_below:
            offset = deeper if offset is None else offset
        elif deeper:
            mapping = mapping or deeper
    return mapping or 2, offset or 0


def _marked_problem(error: MarkedYAMLError, source: str) -> Problem:
    details = cast("Any", error)
    mark = details.problem_mark or details.context_mark
    where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
    text = str(details.problem or details.context)
    if isinstance(error, DuplicateKeyError) and (key := _TWICE.search(text)):
        return Problem(message=f"key {key[1]!r} appears twice", where=where, remedy="remove one")
    if isinstance(error, _Excess):
        return Problem(message=text, where=where, remedy=error.remedy)
    remedy = "indent with spaces, not tabs" if r"'\t'" in text else ""
    return Problem(message=f"not valid YAML: {text}", where=where, remedy=remedy)


@dataclass(frozen=True, kw_only=True)
class YamlTree:
    """The content of a YAML or JSON file, with its lines."""

    path: Path
    data: JsonValue = field(repr=False)
    text: str = field(repr=False)
    """The file as it was read."""
    root: object = field(repr=False, default=None)
    """ruamel's tree, which keeps the comments; None for a JSON file."""

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """The line of the value at `path`, counted from 1; None if there is none."""
        node: Any = self._places
        first: int | None = getattr(getattr(node, "lc", None), "line", None)
        line = (first or 0) + 1
        for step in path:
            key = self._key_for(node, step)
            if key is None:
                return None
            lines: Mapping[object, Sequence[int]] = (
                getattr(getattr(node, "lc", None), "data", None) or {}
            )
            # What a merge (`<<`) brought in has no line of its own.
            line = lines[key[0]][0] + 1 if key[0] in lines else line
            node = node[key[0]]
        return line

    def _key_for(self, node: object, step: str | int) -> tuple[object] | None:
        """The key in the node's own spelling (8080 for '8080'), in a tuple since it may be None."""
        if isinstance(node, list) and isinstance(step, int):
            return (step,) if 0 <= step < len(cast("list[object]", node)) else None
        if not isinstance(node, Mapping):
            return None
        keys = self._spellings.get(id(cast("object", node)))
        if keys is None:
            every = reversed(list(cast("Mapping[object, object]", node)))
            keys = {name: key for key in every if (name := _plain_key(key)) is not None}
            self._spellings[id(cast("object", node))] = keys
        return (keys[str(step)],) if str(step) in keys else None

    @cached_property
    def _spellings(self) -> dict[int, dict[str, object]]:
        """By mapping of `_places`, its keys by their plain text."""
        return {}

    def dump(self) -> str:
        """The tree as text, with the original comments, order and quotes."""
        if _is_json(self.path):
            return _write_json(self.data, like=self.text)
        return self.text if self.root is None else write_yaml(self.root, like=self.text)

    @cached_property
    def _places(self) -> object:
        if not _is_json(self.path):
            return self.root
        if len(self.text) > _PLACED_WHOLE:
            return None
        try:
            return _parse_json_places(self.text, source=self.path.name)
        except ConfigError:
            return None


def read_tree(path: Path) -> YamlTree:
    """Read a YAML or JSON file; errors have line and column."""
    with translated("read", path):
        size = path.stat().st_size
    # A character has at most four bytes.
    most = _LARGEST.get(path.suffix.lower(), _LARGEST_YAML)
    if size > 4 * most * 2**20:
        raise _too_large(path, size, most)
    return parse_tree(path, read_text(path).removeprefix("\ufeff"))


def _too_large(path: Path, size: int, most: int) -> ConfigError:
    message = f"{size / 2**20:.0f} MB is too large; at most {most} MB are read"
    return ConfigError.of(path.name, message, "keep data in a separate file, as JSONL or CSV")


def parse_tree(path: Path, text: str) -> YamlTree:
    """Parse a text as a file with this name."""
    most = _LARGEST.get(path.suffix.lower(), _LARGEST_YAML)
    if len(text) > most * 2**20:
        raise _too_large(path, len(text), most)
    return _parse(path, text)


def tree_of(path: Path, data: Mapping[str, JsonValue]) -> YamlTree:
    """The tree of a file with this data."""
    plain = cast("JsonValue", dict(data))
    text = _write_json(plain, like="\n  x") if _is_json(path) else write_yaml(plain, like="")
    return parse_tree(path, text)


def _parse(path: Path, text: str) -> YamlTree:
    if _is_json(path):
        data = parse_json(text, source=path.name) if text.strip() else None
        return YamlTree(path=path, data=data, text=text)
    root = parse_yaml(text, source=path.name)
    try:
        # Without aliases a file has fewer values than characters.
        data = to_plain(root, most_values=len(text) + 100_000)
        return YamlTree(path=path, data=data, text=text, root=root)
    except _NotPlain as error:
        line = YamlTree(path=path, data=None, text=text, root=root).line_of(error.path)
        where = f"{path.name}:{line}" if line else path.name
        raise ConfigError.of(where, error.message, error.remedy) from None


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def value_in(text: str, file: str, place: str) -> Value:
    """The plain value at a place of a file: its keys joined by dots, `a.b.0`."""
    node: Any = parse_tree(Path(file), text).data
    for step in place.split("."):
        node = _below(node, step, file, place)
    if node is None or isinstance(node, list | dict):
        raise _problem(file, place, "this is not a plain value")
    return cast("Value", node)


def with_values(file: str, text: str, places: Mapping[str, Value]) -> str:
    """The text of a file with other values at these places.

    Comments and order remain; if no value changes, neither does the text.
    """
    old = {place: value_in(text, file, place) for place in places}
    new = {
        place: cast("Scalar", value)
        for place, value in places.items()
        if value_key(value) != value_key(old[place])
    }
    if not new:
        return text
    tree = parse_tree(Path(file), text)
    for place, value in new.items():
        _put(tree, place, value)
    return tree.dump()


def _put(tree: YamlTree, place: str, value: Scalar) -> None:
    *above, last = place.split(".")
    # The plain data is what JSON is written from, the tree what YAML is.
    for root in (tree.data, tree.root):
        if root is None:
            continue
        node: Any = root
        for step in above:
            node = _below(node, step, tree.path.name, place)
        key = _key(node, last)
        is_whole = isinstance(value, float) and value.is_integer()
        was_whole = isinstance(node[key], int) and not isinstance(node[key], bool)
        # A whole number stays written as one.
        node[key] = int(value) if is_whole and was_whole else value


def _below(node: Any, step: str, file: str, place: str) -> Any:
    try:
        return node[_key(node, step)]
    except (KeyError, IndexError, TypeError, ValueError):
        raise _problem(file, place, "there is no such value in the file") from None


def _key(node: Any, step: str) -> Any:
    """The key in the node's own spelling: a list index, or a key that may be a number."""
    if isinstance(node, list):
        return int(step)
    if isinstance(node, Mapping):
        return next(key for key in (*cast("Mapping[Any, Any]", node), step) if str(key) == step)
    raise TypeError(step)


def _problem(file: str, place: str, message: str) -> ConfigError:
    remedy = "name a number, a word or true/false by its keys, with dots between them"
    return ConfigError.of(f"{file}#{place}", message, remedy)
