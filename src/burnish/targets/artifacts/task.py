"""The parts of a task: files, axes, numbers, and the workspaces of candidates."""

import asyncio
import json
import math
import os
import posixpath
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, cast

from burnish.core.content import Json, short_id
from burnish.core.errors import FilesChanged, FileTrouble
from burnish.core.formatting import listed
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Value
from burnish.system.files import spare_beside
from burnish.system.sandbox import CommandLimits, IsolationKind
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    Bounds,
    Entry,
    Snapshot,
    Violation,
    carry_over,
    copy_workspace,
    diff_snapshots,
    remove_tree,
    run_violations,
    shown,
    snapshot,
    write_files,
)
from burnish.system.workspaces.snapshots import covers, folders_of, pattern_of
from burnish.system.yaml import with_values

Axis: TypeAlias = NumberSurface | ChoiceSurface
"""A surface whose id is a file and a place in it."""


def texts_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The files of a candidate by path, with its axis values in place.

    Comments and order stay; a file with unchanged values stays the same to the byte.
    """
    texts: dict[str, str] = {}
    places: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        file, place = file_and_place(name)
        if file in values:
            places.setdefault(file, {})[place] = value
        else:
            texts[name] = str(value)
    for file, inside in places.items():
        texts[file] = with_values(file, texts[file], inside)
    return texts


def file_and_place(name: str) -> tuple[str, str]:
    """Split the id of an axis."""
    file, _, place = name.rpartition("#")
    return file, place


TASK, HOLDOUT, TEST = "task", "holdout", "test"
"""The names of the cases that a task can have."""


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A command that runs the files."""

    command: str
    cwd: str = "."
    """From the task's folder."""
    timeout_seconds: float = 300.0

    def described(self) -> Json:
        return [self.command, self.cwd, self.timeout_seconds]

    def names(self, path: str) -> bool:
        """Whether the command names this file or one of its folders."""
        words = (word.strip("'\"").rstrip("/") for word in re.split(r"[\s=<>|;&()]+", self.command))
        named = {posixpath.normpath(posixpath.join(self.cwd, word)) for word in words if word}
        return any(place in named for place in (path, *folders_of(path)))


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a run becomes numbers."""

    kind: Literal["command", "python", "metrics"] = "command"
    command: str = ""
    function: str = ""
    """`module:function`, importable from the task's folder."""
    score_field: str = "score"
    metrics_field: str = "metrics"
    timeout_seconds: float = 300.0
    reads: str = ""
    """For a scorer of kind `metrics`: the file whose text is scored."""
    files: tuple[str, ...] = ()
    """What only this scorer finds: neither runners nor editors see it."""

    def described(self) -> Json:
        fields = (self.score_field, self.metrics_field, self.reads)
        # Without files of its own it is described as before there were any.
        own: list[Json] = [[*self.files]] if self.files else []
        return [self.kind, self.command, self.function, self.timeout_seconds, *fields, *own]


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """Another measurement of a task, which no editor sees; what is None is the task's own."""

    runner: Runner | None = None
    scoring: Scoring | None = None
    files: tuple[str, ...] = ()
    """What nothing else finds: its scorer all of it, its runner what its command names."""

    @property
    def hidden(self) -> tuple[str, ...]:
        """All files that are named for it alone."""
        return (*self.files, *(self.scoring.files if self.scoring else ()))


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, as the target needs it."""

    folder: Path
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    """What must not be edited though `include` names it."""
    new_files: tuple[str, ...] = ()
    """Patterns of files that a candidate may add."""
    context: tuple[str, ...] = ()
    """Patterns of files that an editing model reads besides those that it may edit."""
    scratch: tuple[str, ...] = ()
    """What a run may write freely. It is empty when a workspace starts, and the only thing that
    reaches the scorer of what a run adds."""
    own: tuple[str, ...] = ()
    """What burnish writes or reads in the folder. It is in no workspace, and reaches no scorer."""
    allowed_file_types: tuple[str, ...] = ()
    """Such as `.md`; empty allows all."""
    protect: tuple[str, ...] = ()
    runner: Runner | None = None
    scoring: Scoring = field(default_factory=Scoring)
    holdout: HeldOut | None = None
    """Decides what is kept."""
    test: HeldOut | None = None
    """The sealed test."""
    primary: str = "score"
    env: tuple[str, ...] = ()
    """Names of variables that commands may see."""
    limits: CommandLimits = field(default_factory=CommandLimits)
    copy_git: bool = False
    """Whether commands find a copy of `.git`."""
    network: bool = False
    """Whether runners and scorers may use the network; without isolation they always can."""
    readable: tuple[Path, ...] = ()
    """Files and folders elsewhere that isolated commands can read."""

    @property
    def held(self) -> Mapping[str, HeldOut]:
        """The measurements that no editor sees, by the name of their case."""
        parts = {HOLDOUT: self.holdout, TEST: self.test}
        return {case: part for case, part in parts.items() if part is not None}

    @property
    def scorings(self) -> Mapping[str, Scoring]:
        """Every scorer by the case that it is named for."""
        own = {case: part.scoring for case, part in self.held.items()}
        return {TASK: self.scoring} | {case: each for case, each in own.items() if each is not None}

    def runner_of(self, case: str) -> Runner | None:
        part = self.held.get(case)
        return self.runner if part is None else part.runner or self.runner

    def scoring_of(self, case: str) -> Scoring:
        return self.scorings.get(case, self.scoring)

    def is_reported(self, case: str, number: str) -> bool:
        """Whether commands or functions of the task report a number of a case.

        The others are burnish's own: the time of the runner, taken from outside, and metrics over
        the text of a file.
        """
        if self.scoring_of(case).kind == "metrics":
            return False
        return number != RUNTIME or self.runner_of(case) is None

    @property
    def hidden(self) -> tuple[str, ...]:
        """Everything that is named for scorers, the holdout or the test."""
        held = [path for part in self.held.values() for path in part.hidden]
        return tuple(dict.fromkeys((*self.scoring.files, *held)))

    def runner_finds(self, case: str, path: str) -> bool:
        """Whether the runner of a case finds this file; so does a candidate's code."""
        if not covers(self.hidden, path):
            return True
        if any(covers(scoring.files, path) for scoring in self.scorings.values()):
            return False
        part, runner = self.held.get(case), self.runner_of(case)
        if part is None or runner is None or not covers(part.files, path):
            return False
        return runner.names(path)

    def scorer_finds(self, case: str, path: str) -> bool:
        """Whether the scorer of a case finds this file."""
        part = self.held.get(case)
        own = (*self.scoring_of(case).files, *(part.files if part else ()))
        return not covers(self.hidden, path) or covers(own, path)

    def described(self, others: Sequence[tuple[str, str]]) -> dict[str, Json]:
        """Everything that a result depends on besides the candidate; `others` are hashes."""
        held, test = self.holdout or HeldOut(), self.test
        parts = (self.runner, held.runner, self.scoring, held.scoring)
        # Without a test it is described as before there were any.
        sealed: dict[str, Json] = {} if test is None else {"test": _described(test)}
        return {
            "steps": [None if part is None else part.described() for part in parts],
            "env": [*self.env],
            "folders": [[*self.scratch], [*self.own], [*held.files], self.copy_git],
            # Without the network it is described as before there was a choice.
            **({"network": True} if self.network else {}),
            **({"context": [*self.context]} if self.context else {}),
            "files": short_id([list(pair) for pair in others]),
            **sealed,
        }


def _described(part: HeldOut) -> Json:
    steps = (part.runner, part.scoring)
    return [*(None if each is None else each.described() for each in steps), [*part.files]]


RUNTIME = "runtime_seconds"
_BEGINNING = re.compile(r"^[^\S\n]*(\{)\s*[\"}]", re.MULTILINE)


class NoNumbers(ValueError):
    """A scorer's output cannot be used."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """The result of a scorer."""

    measures: Mapping[str, float]
    feedback: str = ""
    """Words for the editor."""


def read_numbers(printed: str, scoring: Scoring, primary: str) -> Numbers:
    """Read the numbers that a scorer printed; lines before the JSON are ignored."""
    objects = _objects(printed, scoring.score_field)
    scored = [each for each in objects if scoring.score_field in each] or objects[-1:]
    if not scored:
        begun = _BEGINNING.search(printed)
        if begun is None:
            raise NoNumbers("the scorer printed no JSON object")
        start = printed[begun.start(1) :].split("\n")[0][:60]
        raise NoNumbers(f"the scorer's JSON breaks off, or its syntax is broken: {start}")
    if len(scored) > 1:
        raise NoNumbers(
            f"the scorer printed {len(scored)} objects with '{scoring.score_field}': which one "
            "counts is unclear; what the files print must not reach the scorer's output"
        )
    return numbers_of(scored[0], scoring, primary)


def numbers_of(answer: Any, scoring: Scoring, primary: str) -> Numbers:
    """Read the score, and the metrics beside it, from one object; a number alone is the score."""
    if isinstance(answer, int | float):
        answer = {scoring.score_field: answer}
    if not isinstance(answer, Mapping):
        raise NoNumbers("the scorer's answer is neither a number nor an object")
    data = cast("Mapping[str, Any]", answer)
    if scoring.score_field not in data:
        raise NoNumbers(f"the scorer's JSON has no '{scoring.score_field}'")
    score = _number(scoring.score_field, data[scoring.score_field])
    metrics = _metrics(data.get(scoring.metrics_field, {}), scoring)
    if metrics.get(scoring.score_field, score) != score:
        raise NoNumbers(
            f"the scorer's JSON gives '{scoring.score_field}' twice: {score:g}, and "
            f"{metrics[scoring.score_field]:g} in '{scoring.metrics_field}'"
        )
    feedback = data.get("feedback", "")
    return Numbers(
        measures={primary: score, **metrics, scoring.score_field: score},
        feedback=feedback if isinstance(feedback, str) else json.dumps(feedback),
    )


def _metrics(data: Any, scoring: Scoring) -> dict[str, float]:
    if not isinstance(data, Mapping):
        raise NoNumbers(f"'{scoring.metrics_field}' of the scorer's JSON is not an object")
    named = cast("Mapping[Any, Any]", data)
    return {str(name): _number(str(name), value) for name, value in named.items()}


def _objects(printed: str, score_field: str) -> list[dict[str, Any]]:
    """Every JSON object at the start of a line."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if sum(name == score_field for name, _ in pairs) > 1:
            raise NoNumbers(f"the scorer's JSON gives '{score_field}' twice")
        return dict(pairs)

    decoder = json.JSONDecoder(object_pairs_hook=made)
    objects: list[dict[str, Any]] = []
    place = broken = 0
    while start := _BEGINNING.search(printed, place):
        try:
            value, place = decoder.raw_decode(printed, start.start(1))
            objects.append(cast("dict[str, Any]", value))
        except NoNumbers:
            raise
        except (ValueError, RecursionError):
            place, broken = start.end(1), broken + 1
        if broken > 500:  # each costs time that grows with the output
            raise NoNumbers("the scorer's output contains too much broken JSON")
    return objects


def _number(name: str, value: Any) -> float:
    try:
        if isinstance(value, int | float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass  # a whole number that is larger than any float
    shown = repr(value) if len(repr(value)) < 80 else f"{repr(value)[:80]}…"
    remedy = "; words for the editor go into 'feedback'" if isinstance(value, str) else ""
    raise NoNumbers(f"'{name}' of the scorer's JSON is {shown}, not a finite number{remedy}")


CACHES = ("**/__pycache__", "**/*.pyc", "**/.pytest_cache", "**/.ruff_cache", "**/.mypy_cache")
"""What programs write beside the files they run."""
_CODE = frozenset((
    ".py", ".pth", ".so", ".pyd", ".dylib", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".sh",
    ".class", ".jar", ".ini", ".cfg", ".toml",
))  # fmt: skip
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "package.json", ".npmrc", ".env"))
"""New files of these kinds may run, or steer what runs, instead of the original ones."""

_LONGEST_NAMED = 80
_UNDECLARED = (
    "neither an artifact nor a declared output: list it under `scratch` if the scorer needs it"
)

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Additions:
    """What a run has added to its workspace."""

    folder: Path
    outputs: Mapping[str, Entry]
    """What the task declares: plain files, and folders. Only this reaches the scorer."""
    left_behind: str = ""
    """The rest, in words; empty if there is none."""


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """The folder of one candidate, and its snapshot from before anything ran."""

    folder: Path
    bounds: Bounds
    before: Snapshot
    mounts: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """Installed packages of the user, by their places in this folder, where they are read-only."""

    async def tampering(self) -> list[Violation]:
        """What a run changed that it must leave alone; other new files reach nothing."""
        try:
            after = await finished(snapshot, self.folder)
        except FileTrouble:
            remedy = "do not remove the workspace"
            message = "a run removed the workspace"
            return [Violation(kind="tampering", message=message, remedy=remedy)]
        violations = run_violations(self.bounds, self.before, after)
        return [each for each in violations if each.kind == "tampering" or self._counts(each.path)]

    async def additions(self, declared: Sequence[str]) -> Additions:
        """What a run has added; of caches nothing counts, since code could be planted there."""
        entries = (await finished(snapshot, self.folder)).entries
        new = {p: e for p, e in entries.items() if p not in self.before.entries}
        new = {path: entry for path, entry in new.items() if not covers(CACHES, path)}
        named = {path for path in new if covers(declared, path) and self.bounds.is_scratch(path)}
        outputs = {path: new[path] for path in named if new[path].kind in ("file", "folder")}
        # A folder with something in it is not named besides.
        filled = {folder for path in new for folder in folders_of(path)}
        left = sorted(new.keys() - outputs.keys() - filled)
        return Additions(
            folder=self.folder, outputs=outputs, left_behind=_left_behind(left, declared=named)
        )

    def _counts(self, path: str) -> bool:
        """A candidate must not rewrite itself, and new code could imitate the scorer."""
        if path in self.before.entries:
            return self.bounds.is_artifact(path)
        name = PurePosixPath(path)
        return name.suffix in _CODE or name.name in _NAMES


def _left_behind(paths: Sequence[str], *, declared: Collection[str]) -> str:
    reasons = {
        _UNDECLARED: [path for path in paths if path not in declared],
        "not a plain file": [path for path in paths if path in declared],
    }
    words = [f"{_listed(those)} ({why})" for why, those in reasons.items() if those]
    return f"left behind: {'; '.join(words)}" if words else ""


def _listed(paths: Sequence[str]) -> str:
    """The first of these paths, and of a long one its end: a candidate chose the names."""
    names = map(shown, paths)
    return listed([n if len(n) <= _LONGEST_NAMED else f"…{n[1 - _LONGEST_NAMED :]}" for n in names])


@asynccontextmanager
async def _made_workspace(
    folder: Path,
    bounds: Bounds,
    texts: Mapping[str, str],
    *,
    leave_out: Sequence[str],
    rooms: Sequence[str] = (),
    packages: "_Packages | None" = None,
    added: Additions | None = None,
) -> AsyncGenerator[Workspace, None]:
    """A workspace with these files, removed at the end or, after a kill, by a later burnish.

    `rooms` are empty folders in it; it starts with the outputs among what a run has `added`.
    """
    async with own_place(make=False) as place:
        await finished(copy_workspace, folder, place, exclude=leave_out)
        for room in rooms:
            (place / room).mkdir(parents=True, exist_ok=True)
        await finished(write_files, place, dict(texts))
        if added is not None:
            await finished(carry_over, added.folder, place, added.outputs)
        mounts = {} if packages is None else packages.placed(place)
        before = await finished(snapshot, place)
        yield Workspace(folder=place, bounds=bounds, before=before, mounts=mounts)


_PACKAGES = (".venv", "venv", "node_modules")
"""Folders of installed packages, which are not copied."""


@dataclass(frozen=True, kw_only=True)
class _Packages:
    """The installed packages of a folder, which its workspaces only read."""

    folder: Path
    kind: IsolationKind

    def placed(self, workspace: Path) -> dict[Path, Path]:
        """Make a place for each in a workspace; by their places, those that are mounted there.

        Landlock cannot mount, but a link does: nothing can be written through it. Without
        isolation a command could, so it does not find them.
        """
        if self.kind == "none":
            return {}
        mounts: dict[Path, Path] = {}
        for source in self._sources:
            place = workspace / source.relative_to(self.folder)
            if place.parent.is_dir() and not os.path.lexists(place):
                if self.kind == "landlock":
                    place.symlink_to(source)
                else:
                    place.mkdir()
                mounts[place] = source
        return mounts

    @cached_property
    def _sources(self) -> list[Path]:
        sources: list[Path] = []
        for inside, folders, _ in os.walk(self.folder):
            sources += [Path(inside, name) for name in folders if name in _PACKAGES]
            above = Path(inside).relative_to(self.folder)
            folders[:] = [
                name for name in folders if not covers(DEFAULT_EXCLUDE, (above / name).as_posix())
            ]
        return [source for source in sources if not source.is_symlink()]


@asynccontextmanager
async def own_place(*, make: bool = True) -> AsyncGenerator[Path, None]:
    """A folder outside of every workspace, removed at the end."""
    # Named so that a later burnish removes it, should this one be killed.
    place = spare_beside(Path(tempfile.gettempdir()).resolve() / "workspace")  # noqa: ASYNC240
    try:
        if make:
            place.mkdir(mode=0o700)
        yield place
    finally:
        await finished(remove_tree, place)


async def finished(
    work: Callable[_Params, _Result], /, *args: _Params.args, **named: _Params.kwargs
) -> _Result:
    """Run work in a thread and wait for its end even if cancelled: a thread cannot be stopped."""
    working = asyncio.create_task(asyncio.to_thread(work, *args, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait({working})
        raise


def bounds_of(
    include: Sequence[str],
    exclude: Sequence[str],
    *,
    protect: Sequence[str] = (),
    scratch: Sequence[str] = (),
    file_types: Sequence[str] = (),
) -> Bounds:
    """What may be edited, what may be written, and what must be left alone."""
    return Bounds(
        include=tuple(include),
        exclude=(*exclude, *scratch),
        protect=tuple(protect),
        scratch=(*scratch, *CACHES),
        file_types=tuple(file_types),
    )


class Original:
    """The task's folder as it was at the start, copied when it is first needed."""

    def __init__(self, *, task: Task, kind: IsolationKind = "none") -> None:
        self._task = task
        self._packages = _Packages(folder=task.folder, kind=kind)
        self._making = asyncio.Lock()
        self._held = AsyncExitStack()
        self._place: Path | None = None
        self._start = Snapshot(entries={})

    @asynccontextmanager
    async def workspace(
        self,
        bounds: Bounds,
        texts: Mapping[str, str],
        *,
        finds: Callable[[str], bool],
        added: Additions | None = None,
    ) -> AsyncGenerator[Workspace, None]:
        """A workspace with these files, and with those of the task that it `finds`.

        The outputs among what a runner has `added` elsewhere are in this one too.
        """
        task, place = self._task, await self._copied()
        await finished(self._check, place)
        leave_out = [pattern_of(path) for path in self._start.files if not finds(path)]
        empty = map(_folder, (*task.scratch, *task.own))
        rooms = [room for room in empty if (task.folder / room).is_dir()]
        made = _made_workspace(place, bounds, texts, leave_out=leave_out, rooms=rooms,
                               packages=self._packages, added=added)  # fmt: skip
        async with made as workspace:
            yield workspace

    async def close(self) -> None:
        self._place = None
        await self._held.aclose()

    async def _copied(self) -> Path:
        async with self._making:
            if self._place is None:
                place = await self._held.enter_async_context(own_place(make=False))
                task = self._task
                wanted = ("**/.git",) if task.copy_git else ()
                usual = (name for name in DEFAULT_EXCLUDE if name not in wanted)
                exclude = [*usual, *task.scratch, *task.own]
                await finished(copy_workspace, task.folder, place, exclude=exclude)
                self._place, self._start = place, await finished(snapshot, place)
            return self._place

    def _check(self, place: Path) -> None:
        """Raise FilesChanged if the copy is not what it was at the start."""
        if changes := changed_files(self._start, snapshot(place)):
            raise FilesChanged(
                f"the copy that candidates start from was changed during the run: {changes}",
                remedy="A candidate without isolation can do so. What was measured before is "
                "still good; use `sandbox: required` from here on.",
            )


def changed_files(before: Snapshot, after: Snapshot) -> str:
    """What differs, in words; empty if nothing does."""
    words = {"added": "added", "removed": "removed"}
    changes = [each for each in diff_snapshots(before, after) if not each.is_folder]
    first = [f"{shown(each.path)} ({words.get(each.kind, 'changed')})" for each in changes[:10]]
    more = [f"and {len(changes) - 10} more"] if len(changes) > 10 else []
    return ", ".join([*first, *more])


def _folder(pattern: str) -> str:
    """The folder of a pattern of scratch files, if it names one."""
    plain = pattern.removesuffix("**").removesuffix("/")
    return plain if plain and not set("*?[") & set(plain) else "."
