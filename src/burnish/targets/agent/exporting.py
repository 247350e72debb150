"""A candidate as files that load from where they lie: comments kept, paths rebased."""

import copy
import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from burnish.system import YamlTree
from burnish.targets.agent.demonstrating import written
from burnish.targets.agent.editing import EditedAgent
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.surface_paths import put_at

PROMPTS = "instructions"
_OPTIMIZER_FILES = ("train_cases_file", "holdout_cases_file", "sealed_cases_file")


def export_agent(
    agent: LoadedAgent, edited: EditedAgent, home: Path, *, prompt: str = ""
) -> dict[str, bytes]:
    """The agent file under its own name, and its instructions where they have a file.

    `prompt` is where new instructions lie, from `home`; a folder of their own by default.
    """
    tree = copied(agent.tree)
    root = cast("MutableMapping[str, Any]", tree.root if tree.root is not None else tree.data)
    files = write_values(root, agent, edited, way=way_back(home, agent.folder), prompt=prompt)
    return {agent.path.name: tree.dump().encode(), **files}


def write_values(
    root: MutableMapping[str, Any],
    agent: LoadedAgent,
    edited: EditedAgent,
    *,
    way: str,
    prompt: str = "",
) -> dict[str, bytes]:
    """Put new values into the tree of an agent, and lead its paths `way`; what goes beside it."""
    for path, value in edited.changes.items():
        put_at(root, path, value)
    if edited.demonstrations is not None:
        root["demonstrations"] = [written(demo) for demo in edited.demonstrations]
    _rebase(root, way)
    if edited.instructions == agent.instructions.text:
        return {}
    return _instructions(agent, edited, root, prompt)


def _instructions(
    agent: LoadedAgent, edited: EditedAgent, root: MutableMapping[str, Any], prompt: str
) -> dict[str, bytes]:
    """New instructions go where the old ones are: into the file, or beside it."""
    named = agent.block.instructions.file
    if named is None:
        root["instructions"]["inline"] = edited.instructions
        return {}
    path = prompt or f"{PROMPTS}/{Path(named).name}"
    root["instructions"]["file"] = path
    return {path: agent.instructions.with_text(edited.instructions).encode()}


def copied(tree: YamlTree) -> YamlTree:
    """A tree of its own to write into."""
    root, data = copy.deepcopy(tree.root), copy.deepcopy(tree.data)
    return replace(tree, root=root, data=data)


def way_back(home: Path, folder: Path) -> str:
    """The way from an exported file back to the folder of the one it came from."""
    return os.path.relpath(folder.resolve(), home.resolve())


def _rebase(root: MutableMapping[str, Any], way: str) -> None:
    """Make every relative path of the file lead to the same place from elsewhere."""
    if way == ".":
        return
    for holder, key in _paths(root):
        named = holder[key]
        if isinstance(named, str):
            holder[key] = rebased(named, way)


def rebased(path: str, way: str) -> str:
    """A relative path as it is spelled from elsewhere."""
    if way == "." or not path or _is_elsewhere(path):
        return path
    return Path(way, path).as_posix()


def _paths(root: Mapping[str, Any]) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    """The places of a file that name other files."""
    yield from _named(root, "test_cases_file", "response_format")
    yield from _named(root.get("instructions"), "file")
    for tool in _items(root.get("tools")):
        yield from _named(tool, "source", "file", "env_file")
    yield from _named(_mapping(root.get("evaluations")).get("optimizer"), *_OPTIMIZER_FILES)
    for case in _items(root.get("test_cases")):
        for turn in (case, *_items(case.get("turns"))):
            for file in _items(turn.get("files")):
                yield from _named(file, "path")


def _named(holder: Any, *keys: str) -> Iterator[tuple[MutableMapping[str, Any], str]]:
    found = _mapping(holder)
    yield from ((found, key) for key in keys if isinstance(found.get(key), str))


def _mapping(value: Any) -> MutableMapping[str, Any]:
    return cast("MutableMapping[str, Any]", value) if isinstance(value, MutableMapping) else {}


def _items(value: Any) -> list[MutableMapping[str, Any]]:
    items = cast("list[Any]", value) if isinstance(value, list) else []
    return [_mapping(item) for item in items if isinstance(item, MutableMapping)]


def _is_elsewhere(path: str) -> bool:
    return Path(path).is_absolute() or "://" in path or path.startswith("${")
