"""HoloDeck's config.yaml: what agents have in common, such as the address of a provider.

It is read next to the agent file and in `~/.holodeck`; the agent file has precedence over the
first, and that over the second. `providers` is used, and of `execution` what has an effect here.
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
_EXECUTION = ("llm_timeout", "parallel_test_cases")


@dataclass(frozen=True, kw_only=True)
class AddedValue:
    """A value that an agent file leaves to config.yaml."""

    at: TreePath
    """Its place in the agent file."""
    value: Json
    tree: YamlTree
    """The file that says it."""
    keys: TreePath
    """Its place there."""


def added_values(data: Mapping[str, Json], folder: Path) -> tuple[AddedValue, ...]:
    """What these files add to an agent file in a folder."""
    places = [folder, Path.home() / ".holodeck"]
    trees = [tree for place in places if (tree := _tree_in(place)) is not None]
    models = (value for at in _MODELS for value in _added(data, at, trees))
    return (*models, *_execution(data, trees)) if trees else ()


def with_added(data: Mapping[str, Json], added: tuple[AddedValue, ...]) -> dict[str, Json]:
    """The data of an agent file with these values."""
    if not added:
        return dict(data)
    whole = copy.deepcopy(dict(data))
    for each in added:
        block = cast("dict[str, Any]", whole)
        for step in each.at[:-1]:
            block[str(step)] = inner = dict(spelled_out(block.get(str(step)) or {}))
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


def _execution(data: Mapping[str, Json], trees: list[YamlTree]) -> Iterator[AddedValue]:
    own = data.get("execution") or {}
    present = set(own) if isinstance(own, dict) else set(_EXECUTION)
    for tree in trees:
        block = tree.data.get("execution") if isinstance(tree.data, dict) else None
        for name in _EXECUTION:
            value = block.get(name) if isinstance(block, dict) else None
            if name not in present and value is not None:
                present.add(name)
                at = ("execution", name)
                yield AddedValue(at=at, value=value, tree=tree, keys=at)


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
