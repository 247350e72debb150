"""Checks of the files of a task: which may be added, which are missing, which of them are run."""

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from burnish.core.errors import Problem
from burnish.system.workspaces import DEFAULT_EXCLUDE, Bounds, Snapshot
from burnish.system.workspaces.snapshots import (
    covers,
    folders_of,
    look_alike,
    matches,
    path_problem,
    shown,
)
from burnish.targets.artifacts.task import TASK, Scoring, Task

_SCRIPTS = frozenset((".py", ".sh", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".php", ".lua"))
_COMPILED = frozenset((".c", ".cc", ".cpp", ".rs", ".go", ".java", ".kt", ".swift", ".jl", ".r"))
CODE = _SCRIPTS | _COMPILED
"""The types of files whose content runs."""
_STARTS_CODE = re.compile(
    r"\b(subprocess|Popen|os\.system|exec\w*|eval|runpy|importlib|__import__|spawn\w*|require)\b"
)
_INTERPRETER = re.compile(r"^(python[\d.]*|pypy[\d.]*|(ba|z)?sh|node|deno|bun|ruby|perl|php|lua)$")
_MODULE = re.compile(r"^[A-Za-z_][\w.]*$")


def missing_script(command: str, folder: Path) -> str:
    """The script or program of the task that a command starts, if it is not there; else empty.

    Only the first of several joined commands is read: an earlier one may make what a later needs.
    """
    first = re.split(r"&&|\|\||[;|\n]", command)[0]
    program, *others = _words(first) or [""]
    scripts = [word for word in others if PurePosixPath(word).suffix in _SCRIPTS]
    started = [program] if "/" in program else []
    if _INTERPRETER.match(program) and not {"-c", "-e"} & {*others}:
        started += scripts[:1]
    for word in started:
        is_local = not path_problem(word.removeprefix("./")) and not set("$*?{}=<>`") & set(word)
        if is_local and not (folder / word).exists():
            return word
    return ""


def function_problem(reference: str, folder: Path) -> str:
    """Why a scorer `module:function` cannot be called; empty if nothing speaks against it."""
    module, _, name = reference.partition(":")
    path = _module_path(module, folder)
    if path is None:
        top = module.split(".")[0]
        local = (folder / top).is_dir() or (folder / f"{top}.py").is_file()
        if local or importlib.util.find_spec(top) is None:
            return f"there is no module '{module}' in the folder of the task file"
        return ""
    try:
        tree = ast.parse((folder / path).read_text(encoding="utf-8"))
    except (SyntaxError, ValueError) as error:
        return f"{path} is not valid Python: {error}"
    names = set(_bound_names(tree))
    return "" if {name, "*"} & names else f"{path} has no function '{name}'"


def artifacts_run_by(scoring: Scoring, folder: Path, artifacts: Collection[str]) -> list[str]:
    """The artifacts whose code a scorer imports or starts in its own process, or may start.

    Nobody can tell for sure without running it: if a command starts no script of the task (such
    as `make score`), every artifact with code counts.
    """
    code = [path for path in artifacts if PurePosixPath(path).suffix in CODE]
    if scoring.kind == "metrics" or not code:
        return []
    starts = list(_started(scoring, folder))
    if not starts:
        return code
    reading = _Reading(folder=folder, artifacts=code)
    return sorted({*reading.reached(starts)} & {*code})


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """Follows imports from the scorer's own files."""

    folder: Path
    artifacts: Sequence[str]

    def reached(self, starts: Sequence[str]) -> set[str]:
        """The files of the task that these import or start, and themselves."""
        reached: set[str] = set()
        todo = list(starts)
        while todo:
            path = todo.pop()
            if path in reached:
                continue
            reached.add(path)
            if path not in self.artifacts:
                todo += self._next(path)
        return reached

    def _next(self, path: str) -> Iterator[str]:
        text = (self.folder / path).read_text(encoding="utf-8", errors="replace")
        if path.endswith(".py"):
            for module in _imported(text):
                for place in (self.folder, (self.folder / path).parent):
                    if (found := _module_path(module, place)) is not None:
                        yield (place / found).relative_to(self.folder).as_posix()
        if _STARTS_CODE.search(text) or not path.endswith(".py"):
            for artifact in self.artifacts:
                name = PurePosixPath(artifact)
                if re.search(rf"{re.escape(name.name)}|[\"']{re.escape(name.stem)}[\"']", text):
                    yield artifact


def _import_folders(scoring: Scoring, folder: Path) -> set[str]:
    """The folders of the task, from its own, in which a scorer looks for modules of Python."""
    if scoring.kind == "metrics":
        return set()
    starts = set(_started(scoring, folder))
    folders = {PurePosixPath(path).parent.as_posix() for path in starts if path.endswith(".py")}
    is_module = scoring.kind == "python" or "-m" in _words(scoring.command)
    return folders | {"."} if is_module or not starts else folders


def _started(scoring: Scoring, folder: Path) -> Iterator[str]:
    """The files of the task that the scorer starts with."""
    if scoring.kind == "python":
        path = _module_path(scoring.function.partition(":")[0], folder)
        if path is not None:
            yield path
        return
    for word in _words(scoring.command):
        plain = word.removeprefix("./").rstrip("/")
        if (folder / plain).is_dir() and plain not in ("", "."):
            inside = (path for path in (folder / plain).rglob("*.py") if path.is_file())
            yield from (path.relative_to(folder).as_posix() for path in inside)
        elif plain and (folder / plain).is_file() and PurePosixPath(plain).suffix in _SCRIPTS:
            yield plain
        elif (found := _module_path(plain, folder)) is not None:
            yield found


def _module_path(module: str, folder: Path) -> str | None:
    if not _MODULE.match(module):
        return None
    stem = module.replace(".", "/")
    paths = (f"{stem}.py", f"{stem}/__init__.py")
    return next((path for path in paths if (folder / path).is_file()), None)


def _imported(text: str) -> Iterator[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case _:
                pass


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # a quote without an end, which may be right for the shell
        return []


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
            for folder in sorted(_import_folders(scoring, task.folder))
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
