"""Which files a candidate may add to the folder of a task."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from burnish.core.errors import Problem
from burnish.system.workspaces import DEFAULT_EXCLUDE, Bounds, Snapshot
from burnish.system.workspaces.paths import (
    covers,
    folders_of,
    look_alike,
    matches,
    path_problem,
    shown,
)
from burnish.targets.artifacts.scorer_code import CODE, import_folders
from burnish.targets.artifacts.task import TASK, Task

MOST_NEW_FILES = 100
"""Files that one candidate may add."""
_LONGEST_NAME = 200
"""Bytes of one part of a path: burnish adds an ending while it writes, and 255 are the most."""
_DEEPEST = 20
_WILD = frozenset("*?[")
_STEERING_TYPES = frozenset((".ini", ".cfg", ".toml", ".pth", ".mk"))
_STEERING_NAMES = frozenset((
    "makefile", "gnumakefile", "package.json", "conftest.py", "sitecustomize.py",
    "usercustomize.py", "setup.py", "noxfile.py",
))  # fmt: skip
"""Files that programs read without being told to, in lower case."""


def addition_problem(patterns: Sequence[str], path: str) -> str:
    """Why these patterns do not let a candidate add a file; empty if they do."""
    if problem := path_problem(path) or _name_problem(path):
        return problem
    if covers(DEFAULT_EXCLUDE, path):
        return "repositories, installed packages and caches are not part of the task"
    if not matches(path, patterns):
        return "it is neither a file that may be edited nor one that may be added"
    if _steers(path) and not _is_named(patterns, path):
        return (
            "programs read a file of this name by themselves, so no pattern admits it: the task "
            "must name it exactly"
        )
    return ""


def _name_problem(path: str) -> str:
    if "#" in path:
        return "its name has a '#', which separates a file from a place in it"
    if not path.isprintable():
        return "it has characters that cannot be shown"
    parts = path.split("/")
    if len(parts) > _DEEPEST or any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return "its path is too long"
    if any(part != part.strip() or part.endswith(".") for part in parts):
        return "a part of its path begins or ends with a space, or ends with a dot"
    return ""


def _steers(path: str) -> bool:
    """Whether programs may read a file because of its name: settings, and modules of Python."""
    name = PurePosixPath(path)
    if any(part.startswith(".") for part in name.parts):
        return True
    if name.suffix.lower() in _STEERING_TYPES or name.name.lower() in _STEERING_NAMES:
        return True
    module = name.parent.name if name.name == "__init__.py" else name.stem
    return name.suffix == ".py" and module in sys.stdlib_module_names


def _is_named(patterns: Sequence[str], path: str) -> bool:
    return any(not _WILD & set(pattern) and matches(path, [pattern]) for pattern in patterns)


@dataclass(frozen=True, kw_only=True)
class NewFiles:
    """The files that candidates of one task may add."""

    patterns: tuple[str, ...]
    bounds: Bounds
    """What the task allows otherwise: types of files, what is protected, what is scratch."""
    there: Snapshot
    """The task's folder at the start."""

    def problem(self, path: str) -> str:
        """Why a candidate may not add this file; empty if it may."""
        if problem := addition_problem(self.patterns, path):
            return problem
        if not self.bounds.is_artifact(path):
            return "it is neither a file that may be edited nor one that may be added"
        if not self.bounds.allows_type(path):
            return f"files of this type may not be added: {', '.join(self.bounds.file_types)} may"
        entries = self.there.entries
        above = folders_of(path)
        if any(entries[folder].kind != "folder" for folder in above if folder in entries):
            return "something on the way to it is not a folder"
        unknown = (place for place in (path, *above) if place not in entries)
        if path in entries or any(look_alike(place) in self._names for place in unknown):
            return "the task has a file of this name already, or of nearly the same name"
        return ""

    def problems_together(self, paths: Sequence[str]) -> Iterator[Problem]:
        """What is wrong with these additions of one candidate, if each alone is right."""
        if len(paths) > MOST_NEW_FILES:
            message = f"{len(paths)} files were added, {MOST_NEW_FILES} are allowed"
            yield Problem(message=message, remedy="add fewer files")
        names: dict[str, str] = {}
        for path in paths:
            if (twin := names.setdefault(look_alike(path), path)) != path:
                message = f"its name is nearly the same as that of {shown(twin)}"
                yield Problem(where=shown(path), message=message)
        for path in paths:
            if any(look_alike(folder) in names for folder in folders_of(path)):
                message = "another new file has the name of its folder"
                yield Problem(where=shown(path), message=message)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(map(look_alike, self.there.entries))


def files_only(texts: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The files of a candidate: one that it added and that is blank counts as not there."""
    return {path: text for path, text in texts.items() if path in own or text.strip()}


def may_add_code(task: Task) -> bool:
    """Whether a new file may be code."""
    types = task.allowed_file_types
    if types and not any(PurePosixPath(f"x{ending}").suffix in CODE for ending in types):
        return False
    endings = (PurePosixPath(pattern).suffix for pattern in task.new_files)
    return any(not ending or ending in CODE or _WILD & set(ending) for ending in endings)


def new_file_doubts(task: Task) -> Iterator[str]:
    """Scorers whose modules a new file may replace."""
    if not may_add_code(task):
        return
    for case, scoring in task.scorings.items():
        folders = [
            folder
            for folder in sorted(import_folders(scoring, task.folder))
            if any(_admits(task, folder, name) for name in ("added.py", "added/__init__.py"))
        ]
        if folders:
            name = "scorer" if case == TASK else f"{case}'s scorer"
            where = ", ".join("the task's folder" if each == "." else each for each in folders)
            yield (
                f"new files may be modules in {where}, where the {name} imports from, so its score "
                "can be forged by a candidate: let artifacts.new_files name other folders"
            )


def _admits(task: Task, folder: str, name: str) -> bool:
    path = PurePosixPath(folder, name).as_posix()
    return matches(path, task.new_files) and not covers((*task.exclude, *task.protect), path)
