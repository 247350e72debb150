"""A YAML tree as plain data: dict, list, str, int, float, bool and None, nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import TypeAlias, cast

from pydantic import JsonValue
from ruamel.yaml.comments import TaggedScalar

TreePath: TypeAlias = tuple[str | int, ...]

_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")
)
_MOST_VALUES = 1_000_000


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


def plain_key(key: object) -> str | None:
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
            name = plain_key(key)
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
