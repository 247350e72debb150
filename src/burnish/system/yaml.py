"""YAML and JSON files as trees of plain data that know their lines and keep their comments."""

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
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, ReusedAnchorWarning, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Scalar, Value, value_key
from burnish.system.files import file_trouble, read_text

TreePath: TypeAlias = tuple[str | int, ...]

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_MOST_VALUES = 1_000_000

_TWICE = re.compile(r'found duplicate key "(.*?)" with value')
_LINE = re.compile(r"^( *)((?:- +)*)([^\s#].*)$", re.M)
_PLACED, _PLACED_LEVELS = 20_000, 100
"""Characters and levels up to which a fault in JSON is looked for by line, which is slow."""
_LARGEST = 20 * 1024 * 1024
_VALUES_BY_ALIAS = 100_000


class NotPlain(ValueError):
    """A value that plain data cannot hold, and where it stands."""

    def __init__(self, message: str, *, path: TreePath, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.remedy = remedy


def to_plain(node: object, *, most_values: int = _MOST_VALUES) -> JsonValue:
    """The tree without ruamel's own types; dates become ISO strings."""
    return _Walk(most_values=most_values).value(node, ())


def _plain_key(key: object) -> str | None:
    """The text of a scalar key, as YAML would write it; None for anything else."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, date):
        return key.isoformat()
    return str(key) if isinstance(key, str | int | float) else None


@dataclass(kw_only=True)
class _Walk:
    """Counts what was seen, since aliases make a small file a huge or an endless tree."""

    most_values: int
    open_nodes: set[int] = field(default_factory=set[int])
    seen: int = 0

    def value(self, node: object, path: TreePath) -> JsonValue:
        self.seen += 1
        if self.seen > self.most_values:
            raise NotPlain("its aliases unfold into too much", path=path, remedy="Use fewer.")
        _refuse_tag(node, path)
        if not isinstance(node, Mapping | list):
            return _scalar(node, path)
        if id(cast("object", node)) in self.open_nodes:
            raise NotPlain("an alias contains itself", path=path, remedy="Write it out.")
        self.open_nodes.add(id(cast("object", node)))
        plain = self._collection(cast("object", node), path)
        self.open_nodes.remove(id(cast("object", node)))
        return plain

    def _collection(self, node: object, path: TreePath) -> JsonValue:
        if isinstance(node, list):
            return self._list(cast("list[object]", node), path)
        return self._dict(cast("Mapping[object, object]", node), path)

    def _list(self, node: Sequence[object], path: TreePath) -> list[JsonValue]:
        return [self.value(item, (*path, index)) for index, item in enumerate(node)]

    def _dict(self, node: Mapping[object, object], path: TreePath) -> dict[str, JsonValue]:
        plain: dict[str, JsonValue] = {}
        for key, item in node.items():
            name = _plain_key(key)
            if name is None:
                raise NotPlain("a key is not a single text", path=path, remedy="Use a text.")
            if name in plain:
                raise NotPlain(f"key {name!r} appears twice", path=path, remedy="Remove one.")
            plain[name] = self.value(item, (*path, name))
        return plain


def _scalar(node: object, path: TreePath) -> JsonValue:
    if node is None or isinstance(node, bool):
        return node
    if isinstance(node, TaggedScalar):
        return str(node)
    if isinstance(node, datetime | date):
        return node.isoformat()
    for kind in (str, int, float):
        if isinstance(node, kind):
            return kind(node)
    what = type(node).__name__
    raise NotPlain(f"a value of type {what} is not allowed", path=path, remedy="Use plain data.")


def _refuse_tag(node: object, path: TreePath) -> None:
    tag = getattr(getattr(node, "tag", None), "value", None)
    if tag is not None and tag not in _TAGS:
        short = str(tag).replace("tag:yaml.org,2002:", "!!")
        raise NotPlain(f"the tag {short} is not allowed", path=path, remedy="Remove the tag.")


def parse_yaml(text: str, *, source: str) -> object:
    """ruamel's tree of the text, comments kept."""
    # A carriage return would become part of a comment.
    text = text.replace("\r\n", "\n")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReusedAnchorWarning)
            return cast("object", cast("Any", _yaml(text)).load(text))
    except MarkedYAMLError as error:
        raise ConfigError([_marked_problem(error, source)]) from None
    except (YAMLError, ValueError) as error:
        message = f"not valid YAML: {str(error).splitlines()[0]}"
        raise ConfigError([Problem(message=message, where=source)]) from None
    except (AttributeError, LookupError, TypeError):
        # ruamel stumbles so over a tag that does not fit its value, such as `!!bool maybe`.
        problem = Problem(message="not valid YAML: a value does not fit its tag", where=source)
        raise ConfigError([problem], remedy="Remove the tag.") from None


def is_modest(text: str, *, levels: int, aliases: int) -> bool:
    """Whether a YAML text nests and repeats no more than this; what is no YAML is modest.

    Parsing one that does can take hours: merged mappings cost the cube of their number.
    """
    depth = count = 0
    try:
        for event in cast("Any", YAML(typ="safe", pure=True)).parse(text):
            depth += isinstance(event, CollectionStartEvent)
            depth -= isinstance(event, CollectionEndEvent)
            count += isinstance(event, AliasEvent)
            if depth > levels or count > aliases:
                return False
    except (YAMLError, ValueError, AttributeError, LookupError, TypeError):
        pass  # for the parser to say
    return True


def parse_json(text: str, *, source: str) -> JsonValue:
    """The JSON value of the text; a key that appears twice is refused."""
    try:
        return cast("JsonValue", json.loads(text, object_pairs_hook=_unique))
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        problem = Problem(message=f"not valid JSON: {error.msg}", where=where)
        raise ConfigError([problem]) from None
    except ValueError as error:
        if len(text) <= _PLACED and is_modest(text, levels=_PLACED_LEVELS, aliases=0):
            _parse_json_places(text, source=source)
        raise ConfigError([Problem(message=str(error), where=source)]) from None


def _parse_json_places(text: str, *, source: str) -> object:
    """ruamel's tree of a JSON text, for its lines."""
    # JSON allows tabs between values and YAML does not; within its strings there are none.
    return parse_yaml(text.replace("\t", " "), source=source)


def write_yaml(root: object, *, like: str) -> str:
    """The tree as text, indented and with line ends as in the text it came from."""
    stream = io.StringIO()
    cast("Any", _yaml(like)).dump(root, stream)
    return stream.getvalue().replace("\n", "\r\n" if "\r\n" in like else "\n")


def _write_json(data: JsonValue, *, like: str) -> str:
    """The value as text, indented as the text it came from."""
    indent = re.search(r"\n([ \t]+)\S", like)
    return json.dumps(data, indent=indent[1] if indent else None, ensure_ascii=False) + "\n"


def _yaml(text: str) -> YAML:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    # Long lines stay as they are.
    yaml.width = 2**20
    yaml.explicit_start = text.startswith("---")
    mapping, offset = _indentation(text)
    yaml.indent(mapping=mapping, sequence=offset + 2, offset=offset)
    return yaml


def _indentation(text: str) -> tuple[int, int]:
    """How far the text indents a mapping, and a dash, below the key they belong to."""
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
    remedy = "indent with spaces, not tabs" if r"'\t'" in text else ""
    return Problem(message=f"not valid YAML: {text}", where=where, remedy=remedy)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"key {twice!r} appears twice")
    return unique


@dataclass(frozen=True, kw_only=True)
class YamlTree:
    """What a YAML or JSON file holds, and on which lines."""

    path: Path
    data: JsonValue = field(repr=False)
    text: str = field(repr=False)
    """The file as it was read."""
    root: object = field(repr=False, default=None)
    """ruamel's tree, which keeps the comments; None for a JSON file."""

    def line_of(self, path: Sequence[str | int]) -> int | None:
        """The line, counted from 1, where the value at `path` stands; None when not there."""
        node, line = self._places, _first_line(self._places)
        for step in path:
            key = _key_for(node, step)
            if key is None:
                return None
            line = _line_of_key(node, key) or line
            node = cast("Any", node)[key[0]]
        return line

    def dump(self) -> str:
        """The tree as text: comments, order and quoting as they were read."""
        if _is_json(self.path):
            return _write_json(self.data, like=self.text)
        return self.text if self.root is None else write_yaml(self.root, like=self.text)

    @cached_property
    def _places(self) -> object:
        if not _is_json(self.path):
            return self.root
        try:
            return _parse_json_places(self.text, source=self.path.name)
        except ConfigError:
            return None


def read_tree(path: Path) -> YamlTree:
    """Read a YAML or JSON file; what is wrong with it is said with line and column."""
    _refuse_large(path)
    return parse_tree(path, read_text(path).removeprefix("\ufeff"))


def parse_tree(path: Path, text: str) -> YamlTree:
    """A text as the tree that a file of this name would hold."""
    try:
        return _parse(path, text)
    except RecursionError:
        problem = Problem(message="its values are nested too deeply", where=path.name)
        raise ConfigError([problem]) from None


def tree_of(path: Path, data: Mapping[str, JsonValue]) -> YamlTree:
    """The tree of a file that would hold this data."""
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
        data = to_plain(root, most_values=len(text) + _VALUES_BY_ALIAS)
        return YamlTree(path=path, data=data, text=text, root=root)
    except NotPlain as error:
        line = YamlTree(path=path, data=None, text=text, root=root).line_of(error.path)
        where = f"{path.name}:{line}" if line else path.name
        problem = Problem(message=error.message, where=where, remedy=error.remedy)
        raise ConfigError([problem]) from None


def _refuse_large(path: Path) -> None:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise file_trouble("read", path, error) from error
    if size > _LARGEST:
        message = f"{size / 2**20:.0f} MB is too large; at most 20 MB are read"
        remedy = "keep data in a file of its own"
        raise ConfigError([Problem(message=message, where=path.name, remedy=remedy)])


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _key_for(node: object, step: str | int) -> tuple[object] | None:
    """The step as the node spells it (`8080` for '8080'), in a tuple since a key may be None."""
    if isinstance(node, list) and isinstance(step, int):
        return (step,) if 0 <= step < len(cast("list[object]", node)) else None
    if isinstance(node, Mapping):
        keys = cast("Mapping[object, object]", node)
        return next(((key,) for key in keys if _plain_key(key) == str(step)), None)
    return None


def _line_of_key(node: object, key: tuple[object]) -> int | None:
    lines: Mapping[object, Sequence[int]] = getattr(getattr(node, "lc", None), "data", None) or {}
    # What a merge (`<<`) brought in has no line of its own.
    return lines[key[0]][0] + 1 if key[0] in lines else None


def _first_line(node: object) -> int:
    line: int | None = getattr(getattr(node, "lc", None), "line", None)
    return (line or 0) + 1


# -- plain values by their keys, with dots between them: `a.b.0` ---------------------------------


def value_in(text: str, file: str, place: str) -> Value:
    """The value at a place of a file, as it stands there."""
    node: Any = parse_tree(Path(file), text).data
    for step in place.split("."):
        node = _below(node, step, file, place)
    if node is None or isinstance(node, list | dict):
        raise _problem(file, place, "this is not a plain value")
    return cast("Value", node)


def with_values(file: str, text: str, places: Mapping[str, Value]) -> str:
    """The text of a file with other values at these places.

    Comments and order stay; where every value is as it was, the text stays as it is.
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
        node[key] = _like(node[key], value)


def _below(node: Any, step: str, file: str, place: str) -> Any:
    try:
        return node[_key(node, step)]
    except (KeyError, IndexError, TypeError, ValueError):
        raise _problem(file, place, "there is no such value in the file") from None


def _key(node: Any, step: str) -> Any:
    """The step as the node spells it: a place in a list, or a key that may be a number."""
    if isinstance(node, list):
        return int(step)
    if isinstance(node, Mapping):
        return next(key for key in (*cast("Mapping[Any, Any]", node), step) if str(key) == step)
    raise TypeError(step)


def _like(old: object, value: Scalar) -> Scalar:
    """A whole number stays written as one."""
    is_whole = isinstance(value, float) and value.is_integer()
    was_whole = isinstance(old, int) and not isinstance(old, bool)
    return int(value) if is_whole and was_whole else value


def _problem(file: str, place: str, message: str) -> ConfigError:
    remedy = "name a number, a word or true/false by its keys, with dots between them"
    return ConfigError([Problem(where=f"{file}#{place}", message=message, remedy=remedy)])
