"""YAML and JSON files as trees that know their lines and keep their comments."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import Scalar, Value, value_key
from burnish.system.file_trouble import file_trouble
from burnish.system.files import read_text
from burnish.system.plain_data import NotPlain, plain_key, to_plain
from burnish.system.yaml_syntax import (
    parse_json,
    parse_json_places,
    parse_yaml,
    write_json,
    write_yaml,
)

_LARGEST = 20 * 1024 * 1024
_VALUES_BY_ALIAS = 100_000


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
            return write_json(self.data, like=self.text)
        return self.text if self.root is None else write_yaml(self.root, like=self.text)

    @cached_property
    def _places(self) -> object:
        if not _is_json(self.path):
            return self.root
        try:
            return parse_json_places(self.text, source=self.path.name)
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
    text = write_json(plain, like="\n  x") if _is_json(path) else write_yaml(plain, like="")
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
        return next(((key,) for key in keys if plain_key(key) == str(step)), None)
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
