"""What a task is made of: files, axes, numbers, and the workspaces of candidates."""

import asyncio
import json
import math
import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal, ParamSpec, TypeAlias, TypeVar, cast

from burnish.core.content import Json, short_id
from burnish.core.errors import FileTrouble
from burnish.core.surfaces import ChoiceSurface, NumberSurface, Value
from burnish.system.files import spare_beside
from burnish.system.sandbox import CommandLimits
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    Bounds,
    Snapshot,
    Violation,
    copy_workspace,
    remove_tree,
    run_violations,
    snapshot,
    write_files,
)
from burnish.system.workspaces.paths import covers
from burnish.system.yaml import with_values

_MARK = "#"
"""Stands between the file and the place in it."""

Axis: TypeAlias = NumberSurface | ChoiceSurface
"""A surface whose id is a file and a place in it."""


def texts_of(values: Mapping[str, Value]) -> dict[str, str]:
    """The files of a candidate by path, with its other values in their places.

    Comments and order stay; a file whose values are as they were stays as it is, to the byte.
    """
    parts = {name: _split(name, values) for name in values}
    texts = {name: str(values[name]) for name, part in parts.items() if part is None}
    for file in dict.fromkeys(part[0] for part in parts.values() if part is not None):
        places = {part[1]: values[name] for name, part in parts.items() if part and part[0] == file}
        texts[file] = with_values(file, texts[file], places)
    return texts


def file_and_place(name: str) -> tuple[str, str]:
    """The two parts of an axis' id."""
    file, _, place = name.rpartition(_MARK)
    return file, place


def _split(name: str, values: Mapping[str, Value]) -> tuple[str, str] | None:
    """The file and the place in it; None where the name is that of a file."""
    file, place = file_and_place(name)
    return (file, place) if file in values else None


TASK, HOLDOUT = "task", "holdout"
"""The names of the two cases that a task can have."""

# -- What a task is made of -----------------------------------------------------------------------


_ScoringKind: TypeAlias = Literal["command", "python", "metrics"]


@dataclass(frozen=True, kw_only=True)
class Runner:
    """A command that runs the files."""

    command: str
    cwd: str = "."
    """From the task's folder."""
    timeout_seconds: float = 300.0

    def described(self) -> Json:
        """Everything that its result depends on."""
        return [self.command, self.cwd, self.timeout_seconds]


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """How a run becomes numbers."""

    kind: _ScoringKind = "command"
    command: str = ""
    function: str = ""
    """`module:function`, importable from the task's folder."""
    score_field: str = "score"
    metrics_field: str = "metrics"
    timeout_seconds: float = 300.0
    reads: str = ""
    """Of a scorer of kind `metrics`: the file whose text is scored."""

    def described(self) -> Json:
        """Everything that its result depends on."""
        fields = (self.score_field, self.metrics_field, self.reads)
        return [self.kind, self.command, self.function, self.timeout_seconds, *fields]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task, as the target needs it."""

    folder: Path
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    """What is not edited though `include` names it; it is looked after like everything else."""
    scratch: tuple[str, ...] = ()
    """What a run writes as it likes. Workspaces start with it empty: nothing in it counts."""
    allowed_file_types: tuple[str, ...] = ()
    """Such as `.md`; none named allows all."""
    protect: tuple[str, ...] = ()
    runner: Runner | None = None
    scoring: Scoring = field(default_factory=Scoring)
    holdout_runner: Runner | None = None
    holdout_scoring: Scoring | None = None
    holdout_files: tuple[str, ...] = ()
    """What only the holdout's steps find in their workspace: neither runs nor editors see it."""
    primary: str = "score"
    env: tuple[str, ...] = ()
    """Names of variables that commands may see."""
    limits: CommandLimits = field(default_factory=CommandLimits)
    copy_git: bool = False
    """Whether commands find a copy of `.git`."""

    @property
    def has_holdout(self) -> bool:
        """Whether something decides that the editor never hears of."""
        return self.holdout_runner is not None or self.holdout_scoring is not None

    def runner_of(self, case: str) -> Runner | None:
        """What runs the files for a case."""
        return self.holdout_runner or self.runner if case == HOLDOUT else self.runner

    def scoring_of(self, case: str) -> Scoring:
        """What scores them."""
        return self.holdout_scoring or self.scoring if case == HOLDOUT else self.scoring

    def described(self, others: Sequence[tuple[str, str]]) -> dict[str, Json]:
        """Everything that a result depends on beside the candidate; `others` are hashes."""
        parts = (self.runner, self.holdout_runner, self.scoring, self.holdout_scoring)
        return {
            "steps": [None if part is None else part.described() for part in parts],
            "env": [*self.env],
            "folders": [[*self.scratch], [*self.holdout_files], self.copy_git],
            "files": short_id([list(pair) for pair in others]),
        }


# -- The numbers that a scorer prints -------------------------------------------------------------


RUNTIME = "runtime_seconds"
_FEEDBACK = "feedback"
_BEGINNING = re.compile(r"^[^\S\n]*(\{)\s*[\"}]", re.MULTILINE)
_MOST_BROKEN = 500
"""Beginnings of objects that are none; each costs time that grows with the output."""


class NoNumbers(ValueError):
    """What a scorer printed cannot be used, and why."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What a scorer said."""

    measures: Mapping[str, float]
    feedback: str = ""
    """Words for the editor, where the scorer has some."""


def read_numbers(printed: str, scoring: Scoring, primary: str) -> Numbers:
    """The numbers in what a scorer printed; lines before the JSON are left aside."""
    objects = _objects(printed, scoring.score_field)
    scored = [each for each in objects if scoring.score_field in each] or objects[-1:]
    if not scored:
        raise NoNumbers("the scorer printed no JSON object")
    if len(scored) > 1:
        raise NoNumbers(
            f"the scorer printed {len(scored)} objects with '{scoring.score_field}': of two scores "
            "none is the score; what the files print must not reach the scorer's output"
        )
    return numbers_of(scored[0], scoring, primary)


def numbers_of(answer: Any, scoring: Scoring, primary: str) -> Numbers:
    """The numbers of one object: the score, and the metrics beside it; a number is the score."""
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
    feedback = data.get(_FEEDBACK, "")
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
    """Every JSON object that stands at the beginning of a line."""

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
        if broken > _MOST_BROKEN:
            raise NoNumbers("the scorer's output is full of JSON that is broken")
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


# -- The workspace of one candidate ---------------------------------------------------------------


CACHES = ("**/__pycache__", "**/*.pyc", "**/.pytest_cache", "**/.ruff_cache", "**/.mypy_cache")
"""What programs write beside the files they run."""
_CODE = frozenset((
    ".py", ".pth", ".so", ".pyd", ".dylib", ".js", ".cjs", ".mjs", ".ts", ".rb", ".pl", ".sh",
    ".class", ".jar", ".ini", ".cfg", ".toml",
))  # fmt: skip
_NAMES = frozenset(("Makefile", "makefile", "GNUmakefile", "package.json", ".npmrc", ".env"))
"""New files of these kinds may run, or steer what runs, in the place of what was there."""

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """A folder that belongs to one candidate, and how it was before anything ran in it."""

    folder: Path
    bounds: Bounds
    before: Snapshot

    async def tampering(self) -> list[Violation]:
        """What a run touched that it must leave alone; what it made beside that is its own."""
        try:
            after = await finished(snapshot, self.folder)
        except FileTrouble:
            return [_gone()]
        violations = run_violations(self.bounds, self.before, after)
        return [each for each in violations if each.kind == "tampering" or self._counts(each.path)]

    async def without_caches(self) -> None:
        """Remove what programs keep for later: planted there, it would run as somebody else."""
        await finished(self._remove_caches)

    def _counts(self, path: str) -> bool:
        """A candidate that rewrites itself is not measured; new code may speak for the scorer."""
        if path in self.before.entries:
            return self.bounds.is_artifact(path)
        name = PurePosixPath(path)
        return name.suffix in _CODE or name.name in _NAMES

    def _remove_caches(self) -> None:
        for inside, folders, files in os.walk(self.folder):
            here = Path(inside)
            for name in (*folders, *files):
                path = (here / name).relative_to(self.folder).as_posix()
                if covers(CACHES, path) and path not in self.before.entries:
                    remove_tree(here / name)
                    folders[:] = [folder for folder in folders if folder != name]


@asynccontextmanager
async def _made_workspace(
    folder: Path,
    bounds: Bounds,
    texts: Mapping[str, str],
    *,
    leave_out: Sequence[str],
    rooms: Sequence[str] = (),
) -> AsyncGenerator[Workspace, None]:
    """A workspace with these files, gone when it is left; a killed burnish's is cleared later.

    `rooms` are folders that are there, and empty.
    """
    async with own_place(make=False) as place:
        await finished(copy_workspace, folder, place, exclude=leave_out)
        for room in rooms:
            (place / room).mkdir(parents=True, exist_ok=True)
        await finished(write_files, place, dict(texts))
        before = await finished(snapshot, place)
        yield Workspace(folder=place, bounds=bounds, before=before)


@asynccontextmanager
async def own_place(*, make: bool = True) -> AsyncGenerator[Path, None]:
    """A folder outside of every workspace, gone when it is left, whatever was put there."""
    place = _new_place()
    try:
        if make:
            place.mkdir(mode=0o700)
        yield place
    finally:
        await finished(remove_tree, place)


async def finished(
    work: Callable[_Params, _Result], /, *args: _Params.args, **named: _Params.kwargs
) -> _Result:
    """Work done in a thread. Who is cancelled waits for its end: a thread cannot be stopped."""
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


def _new_place() -> Path:
    """Named so that a later burnish clears it away, should this one be killed."""
    return spare_beside(Path(tempfile.gettempdir()).resolve() / "workspace")


def _gone() -> Violation:
    remedy = "leave the workspace where it is"
    return Violation(kind="tampering", message="a run removed the workspace", remedy=remedy)


# -- The task's folder as it was at the start -----------------------------------------------------


_GIT = "**/.git"


class Original:
    """Copied once, when it is first needed: who goes on working in the folder disturbs nothing."""

    def __init__(self, *, task: Task) -> None:
        self._task = task
        self._making = asyncio.Lock()
        self._held = AsyncExitStack()
        self._place: Path | None = None

    @asynccontextmanager
    async def workspace(
        self, bounds: Bounds, texts: Mapping[str, str], *, held_out: bool
    ) -> AsyncGenerator[Workspace, None]:
        """A workspace with these files; what only holdout finds is there if it is `held_out`."""
        task, place = self._task, await self._copied()
        leave_out = () if held_out else task.holdout_files
        rooms = [room for room in map(_folder, task.scratch) if (task.folder / room).is_dir()]
        made = _made_workspace(place, bounds, texts, leave_out=leave_out, rooms=rooms)
        async with made as workspace:
            yield workspace

    async def close(self) -> None:
        """Remove the copy."""
        self._place = None
        await self._held.aclose()

    async def _copied(self) -> Path:
        async with self._making:
            if self._place is None:
                place = await self._held.enter_async_context(own_place(make=False))
                await finished(copy_workspace, self._task.folder, place, exclude=self._left_out())
                self._place = place
            return self._place

    def _left_out(self) -> list[str]:
        task = self._task
        usual = [name for name in DEFAULT_EXCLUDE if not (task.copy_git and name == _GIT)]
        return [*usual, *task.scratch]


def _folder(pattern: str) -> str:
    """The folder that a pattern of scratch files lies in, where it names one."""
    plain = pattern.removesuffix("**").removesuffix("/")
    return plain if plain and not set("*?[") & set(plain) else "."
