"""HoloDeck's config.yaml: what all models of a provider have in common, such as their address.

It is read next to the agent file and in `~/.holodeck`; the agent file has precedence over the
first, and that over the second. Only `providers` is used.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from burnish.core.content import Json
from burnish.models.factory import spelled_out
from burnish.models.providers import find_provider
from burnish.system import read_tree
from burnish.system.yaml import TreePath, YamlTree

_FILES = ("config.yml", "config.yaml")
_MODELS: tuple[TreePath, ...] = (("model",), ("evaluations", "model"), ("embedding_provider",))
_ADDRESS = ("base_url", "endpoint")


@dataclass(frozen=True, kw_only=True)
class AddedValue:
    """A value that an agent file leaves to a provider."""

    at: TreePath
    """Its place in the agent file."""
    value: Json
    tree: YamlTree
    """The file that says it."""
    keys: TreePath
    """Its place there."""


def added_values(data: Mapping[str, Json], folder: Path) -> tuple[AddedValue, ...]:
    """What the files of providers add to the models of an agent file in a folder."""
    places = [folder, Path.home() / ".holodeck"]
    trees = [tree for place in places if (tree := _tree_in(place)) is not None]
    return tuple(value for at in _MODELS for value in _added(data, at, trees)) if trees else ()


def with_added(data: Mapping[str, Json], added: tuple[AddedValue, ...]) -> dict[str, Json]:
    """The data of an agent file with these values."""
    if not added:
        return dict(data)
    whole = copy.deepcopy(dict(data))
    for each in added:
        block = cast("dict[str, Any]", whole)
        for step in each.at[:-1]:
            block[str(step)] = inner = dict(spelled_out(block[str(step)]))
            block = inner
        block[str(each.at[-1])] = each.value
    return whole


def _tree_in(folder: Path) -> YamlTree | None:
    path = next((folder / name for name in _FILES if (folder / name).is_file()), None)
    return None if path is None else read_tree(path)


def _added(data: Mapping[str, Json], at: TreePath, trees: list[YamlTree]) -> Iterator[AddedValue]:
    block: Json = cast("Json", data)
    for step in at:
        block = block.get(str(step)) if isinstance(block, dict) else None
    try:
        model = cast("Json", spelled_out(block))
    except ValueError:
        return  # The agent file says what is wrong with it.
    if not isinstance(model, dict):
        return
    present = {*model, *(_ADDRESS if any(name in model for name in _ADDRESS) else ())}
    for tree in trees:
        key, entry = _entry(tree, str(model.get("provider", "")))
        for name, value in entry.items():
            if name not in present and value is not None:
                present |= {name, *(_ADDRESS if name in _ADDRESS else ())}
                keys = ("providers", key, name)
                yield AddedValue(at=(*at, name), value=value, tree=tree, keys=keys)


def _entry(tree: YamlTree, provider: str) -> tuple[str, Mapping[str, Json]]:
    """The provider of this name, or the first one of this kind."""
    providers = tree.data.get("providers") if isinstance(tree.data, dict) else None
    entries = providers if isinstance(providers, dict) else {}
    if isinstance(entry := entries.get(provider), dict):
        return provider, entry
    row = find_provider(provider)
    for key, each in entries.items():
        if isinstance(each, dict) and row and find_provider(str(each.get("provider"))) is row:
            return key, each
    return "", {}
