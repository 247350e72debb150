"""Safeguards of a task: which files may be added, which texts are held out, and what runs now.

A record keeps a candidate that kills burnish from being run again, on machines where nothing keeps
a command from signalling burnish. A random name goes to the journal before the run, and while it
lasts a file of that name says who runs it. If the run ends in any way that burnish survives, the
file goes; if it is still there on a resume, burnish was killed.
"""

import ast
import csv
import importlib.util
import json
import re
import secrets
import shlex
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Self

from burnish.core.cases import Dataset
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, Problem
from burnish.core.leaks import CODE_RUN, HeldText, HeldTexts, LeakWatch
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.system.files import state_folder, write_atomic
from burnish.system.processes import Owner
from burnish.system.workspaces import DEFAULT_EXCLUDE, Bounds, Snapshot
from burnish.system.workspaces.snapshots import (
    covers,
    folders_of,
    look_alike,
    matches,
    path_problem,
    shown,
)
from burnish.system.yaml import parse_yaml, to_plain
from burnish.targets.artifacts.task import Task

# -- Files that may be added, are missing or are run -----------------------------------------------


_SCRIPTS = frozenset((".py", ".sh", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".php", ".lua"))
_COMPILED = frozenset((".c", ".cc", ".cpp", ".rs", ".go", ".java", ".kt", ".swift", ".jl", ".r"))
_CODE = _SCRIPTS | _COMPILED
"""The types of files whose content runs."""
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


def _module_path(module: str, folder: Path) -> str | None:
    if not _MODULE.match(module):
        return None
    stem = module.replace(".", "/")
    paths = (f"{stem}.py", f"{stem}/__init__.py")
    return next((path for path in paths if (folder / path).is_file()), None)


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
_PROSE = frozenset((".markdown", ".md", ".rst", ".txt"))
_DATA = frozenset((".csv", ".json", ".jsonl", ".ndjson", ".tsv", ".xml", ".yaml", ".yml"))
"""What programs read, and do not run."""
_STEERING_NAMES = frozenset((
    "makefile", "gnumakefile", "package.json", "conftest.py", "sitecustomize.py",
    "usercustomize.py", "setup.py", "noxfile.py", "cmakelists.txt",
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


def may_be_code(path: str) -> bool:
    """Whether commands may run a file, or be steered by it: by its name, all but plain data."""
    name = PurePosixPath(path)
    if name.suffix.lower() in _PROSE:
        return name.name.lower() in _STEERING_NAMES
    return name.suffix.lower() not in _DATA or _steers(path)


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


def _may_add_code(task: Task) -> bool:
    """Whether a new file may be code."""
    types = task.allowed_file_types
    if types and not any(PurePosixPath(f"x{ending}").suffix in _CODE for ending in types):
        return False
    endings = (PurePosixPath(pattern).suffix for pattern in task.new_files)
    return any(not ending or ending in _CODE or _WILD & set(ending) for ending in endings)


# -- Held-out texts, and records of what runs now --------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class StartRecord:
    """The record of one run of one candidate."""

    path: Path

    @classmethod
    async def of(cls, effects: Effects, request: Sequence[Json], *, draw: int) -> Self:
        """The record, whose name is the same in every session of a run."""

        async def perform(_: Effects) -> Receipt[str]:
            return Receipt(value=secrets.token_hex(16))

        call = Call(kind="start", request=[*request], codec=codec(str), draw=draw, estimate=NOTHING)
        name = await effects.once(call, perform)
        return cls(path=state_folder() / "started" / f"{name}.json")

    @property
    def killed_burnish(self) -> bool:
        """Whether burnish was killed during this run; a machine that went down did not kill it."""
        try:
            owner = Owner.parse(json.loads(self.path.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError):
            return False
        return owner.boot == Owner.here().boot and owner.is_gone(self.path)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """Keep the record on disk while the run lasts."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, json.dumps(Owner.here().as_json()))
        try:
            yield
        finally:
            self.path.unlink(missing_ok=True)


_MOST_BYTES = 1_000_000
"""Of a larger file only the beginning is watched."""
_MOST_IN_ALL = 4_000_000
"""Files beyond this are not watched."""
_MOST_YAML = 200_000
_RAW_RUN = 10
"""Words in a row of a data file as it is written; its values are watched like those of cases."""


@dataclass(frozen=True, kw_only=True)
class HeldFiles:
    """What the files of a task say, and to whom."""

    texts: HeldTexts
    cut: tuple[str, ...] = ()
    """Held-out files that are watched in part, or not at all because they are too large."""
    binary: tuple[str, ...] = ()
    """Held-out files that are no text."""
    learned: tuple[str, ...] = ()
    """Editable files that contain held-out text from the start."""

    @property
    def notes(self) -> Iterator[str]:
        if self.binary:
            yield f"not watched for leaks, since they are no text: {', '.join(self.binary)}"
        if self.cut:
            yield f"too large to be watched for leaks as a whole: {', '.join(self.cut)}"


def read_held_files(task: Task, there: Snapshot, editable: Mapping[str, str]) -> HeldFiles:
    """Read the files that are held out, and those that are not."""
    if not task.held:
        return HeldFiles(texts=HeldTexts())
    held = [path for path in there.files if _is_held(task, path)]
    seen = [path for path in there.files if path not in held]
    reading = _Reading(task)
    secret = [part for path in held for part in _held_texts(path, reading.text(path))]
    visible = [reading.text(path) for path in seen if path not in editable]
    beside = HeldTexts(secret=tuple(secret), public=tuple(visible))
    watch = LeakWatch(Dataset(train=()), held=beside)
    learned = (path for path, text in editable.items() if watch.leaked(text) is not None)
    return HeldFiles(
        texts=HeldTexts(secret=tuple(secret), public=(*visible, *editable.values())),
        cut=tuple(path for path in reading.cut if path in held),
        binary=tuple(path for path in reading.binary if path in held),
        learned=tuple(learned),
    )


def _is_held(task: Task, path: str) -> bool:
    """Whether only holdout and test find this file; what the task's own scorer reads is train."""
    hidden = any(covers(part.hidden, path) for part in task.held.values())
    return hidden and not covers(task.scoring.files, path)


class _Reading:
    """Reads texts until there are too many."""

    def __init__(self, task: Task) -> None:
        self._folder = task.folder
        self._left = _MOST_IN_ALL
        self.cut: list[str] = []
        self.binary: list[str] = []

    def text(self, path: str) -> str:
        most = min(self._left, _MOST_BYTES)
        try:
            with (self._folder / path).open("rb") as file:
                content = file.read(most + 1)
        except OSError:
            return ""
        if len(content) > most:
            self.cut.append(path)
            content = content[:most]
        if b"\0" in content:
            self.binary.append(path)
            return ""
        try:
            # A character that the limit cut in two is left out.
            text = content.decode("utf-8", "ignore" if path in self.cut else "strict")
        except UnicodeDecodeError:
            self.binary.append(path)
            return ""
        self._left -= len(content)
        return text


def _held_texts(path: str, text: str) -> Iterator[HeldText]:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in _CODE:
        yield HeldText(name=path, text=text, run=CODE_RUN)
        return
    values = _values(text, suffix)
    if values is None:
        yield HeldText(name=path, text=text)
        return
    yield HeldText(name=path, text=text, run=_RAW_RUN)
    yield from (HeldText(name=path, text=value) for value in dict.fromkeys(values))


def _values(text: str, suffix: str) -> list[str] | None:
    """The texts in a file of data; None if it is no such file."""
    try:
        if suffix == ".json":
            return list(_leaves(json.loads(text)))
        if suffix in (".jsonl", ".ndjson"):
            rows = (json.loads(line) for line in text.splitlines() if line.strip())
            return [value for row in rows for value in _leaves(row)]
        if suffix in (".csv", ".tsv"):
            lines = text.splitlines(keepends=True)
            delimiter = "\t" if suffix == ".tsv" else ","
            return [cell for row in csv.reader(lines, delimiter=delimiter) for cell in row]
        if suffix in (".yaml", ".yml") and len(text) <= _MOST_YAML:
            return list(_leaves(to_plain(parse_yaml(text, source="held out"))))
    except (ValueError, RecursionError, csv.Error, BurnishError):
        return None
    return None


def _leaves(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)


def doubts(
    task: Task, editable: Mapping[str, str], files: Sequence[str], held: HeldFiles
) -> Iterator[str]:
    """Why a number of this task may not be true: what a candidate can read or know."""
    yield from _readable(task, editable, files)
    yield from _shared(task, files)
    if held.learned:
        yield (
            f"{', '.join(held.learned)} contains text of the holdout or the test from the start, "
            "so their numbers may be too good"
        )
    yield from held.notes


def _readable(task: Task, editable: Mapping[str, str], files: Sequence[str]) -> Iterator[str]:
    """Files of the holdout and the test that a candidate's code can read."""
    edits_code = any(PurePosixPath(path).suffix in _CODE for path in editable)
    if not edits_code and not _may_add_code(task):
        return
    for case, part in task.held.items():
        if task.scoring_of(case).files:
            continue
        read = [p for p in files if covers(part.files, p) and task.runner_finds(case, p)]
        if read:
            yield (
                f"the {case}'s runner reads {', '.join(read)}, and so can a candidate: answers "
                f"belong in files that only the scorer finds, under {case}.scorer.files"
            )


def _shared(task: Task, files: Sequence[str]) -> Iterator[str]:
    """Files of the test that are also there for something else."""
    if task.test is None:
        return
    others = (*task.scoring.files, *(task.holdout.hidden if task.holdout else ()))
    twice = [path for path in files if covers(task.test.hidden, path) and covers(others, path)]
    if twice:
        yield (
            f"{', '.join(twice)} belongs to the test and to something else too, so the test is "
            "not sealed: give it files of its own"
        )
