"""Files as a target: surfaces are whole files, a run is a runner and a scorer in a workspace."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case, Dataset
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.core.surfaces import FileSurface, Surface, Value
from burnish.system.files import state_folder
from burnish.system.processes import own_children
from burnish.system.sandbox import Mode, Sandbox
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    Bounds,
    proposal_violations,
    read_contents,
    snapshot,
)
from burnish.system.workspaces.paths import covers
from burnish.system.yaml import value_in
from burnish.targets.artifacts.axes import Axis, file_and_place, texts_of
from burnish.targets.artifacts.originals import Original
from burnish.targets.artifacts.steps import Steps
from burnish.targets.artifacts.task import HOLDOUT, TASK, Task
from burnish.targets.artifacts.workspace import Workspace, bounds_of

_PROCESSES = "processes"
_RUN_FILES = ("run.json", "journal.db")


@dataclass(frozen=True, kw_only=True)
class ArtifactsTarget:
    """The files of a task. The user's own are read once, at the start, and never written."""

    task: Task
    sandbox: Sandbox
    axes: tuple[Axis, ...] = ()
    """Values inside the files, beside the files themselves; they win over what stands there."""
    leaf: bool = True
    texts: Mapping[str, str] = field(init=False)
    """The files as they are, by path."""
    original: Original = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", self._read())
        object.__setattr__(self, "original", Original(task=self.task))

    @classmethod
    def open(
        cls,
        task: Task,
        *,
        mode: Mode = "auto",
        axes: Sequence[Axis] = (),
        network: bool = False,
        hidden: Sequence[Path] = (),
    ) -> Self:
        """A target with a sandbox of its own. What killed processes left running is ended."""
        held_out = [task.folder / path for path in _existing(task, task.holdout_files)]
        sandbox = Sandbox.open(
            mode,
            children=own_children(state_folder() / _PROCESSES),
            allow=task.env,
            network=network,
            hidden=[*hidden, *held_out],
        )
        return cls(task=task, sandbox=sandbox, axes=tuple(axes))

    async def close(self) -> None:
        """Let go of the copy that workspaces are made from."""
        await self.original.close()

    @cached_property
    def bounds(self) -> Bounds:
        """What may be edited."""
        task = self.task
        return bounds_of(
            task.include,
            task.exclude,
            protect=task.protect,
            scratch=task.scratch,
            file_types=task.allowed_file_types,
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """What an editor must know of edits, in words."""
        told = ["only the files shown may be edited; no files are added, removed or renamed"]
        if self.task.allowed_file_types:
            told.append(f"types of files: {', '.join(self.task.allowed_file_types)}")
        return tuple(told)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the start."""
        return (f"commands run with {self.sandbox.isolation.told}",)

    @property
    def description(self) -> Description:
        """The steps, and hashes of everything in the folder that is not edited."""
        return self._described

    @cached_property
    def _described(self) -> Description:
        return Description(kind="artifacts", config=self.task.described(self._others()))

    @property
    def surfaces(self) -> Sequence[Surface]:
        """One for each file, and one for each value that is an axis."""
        return [*(FileSurface(id=path, path=path) for path in self.texts), *self.axes]

    @property
    def baseline(self) -> Candidate:
        """The files, and the values in them that are axes, as they are."""
        values: dict[str, Value] = dict(self.texts)
        for axis in self.axes:
            file, place = file_and_place(axis.id)
            values[axis.id] = value_in(self.texts[file], file, place)
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def files_of(self, candidate: Candidate) -> dict[str, str]:
        """The files of a candidate, by path."""
        return texts_of(candidate.values)

    def workspace(
        self, texts: Mapping[str, str], *, case: str = TASK
    ) -> AbstractAsyncContextManager[Workspace]:
        """A copy of the folder as it was at the start, with these files in it."""
        return self.original.workspace(self.bounds, texts, held_out=case == HOLDOUT)

    def dataset(self) -> Dataset:
        """The task as a case, and what decides as another where there is something."""
        holdout = (_case(HOLDOUT),) if self.task.has_holdout else ()
        return Dataset(train=(_case(TASK),), holdout=holdout)

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """What is wrong with the files, beyond how much of them may change."""
        texts = self.files_of(candidate)
        changed = {path: text for path, text in texts.items() if text != self.texts[path]}
        old = {path: self.texts[path].encode() for path in changed}
        return [v.problem for v in proposal_violations(self.bounds, changed, old=old)]

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Run the task in a workspace of the candidate's own."""
        del draw, effects
        async with self.workspace(self.files_of(candidate), case=case.id) as workspace:
            steps = Steps(
                task=self.task,
                sandbox=self.sandbox,
                workspace=workspace,
                case=case.id,
                said={},
            )
            return Receipt(value=await steps.outcome(), spend=self.estimate(case))

    def estimate(self, case: Case) -> Spend:
        """One call, for nothing that burnish knows of: what a command costs is its own affair."""
        del case
        return Spend(calls=1)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The files, under their own paths."""
        del home
        return {path: text.encode() for path, text in self.files_of(candidate).items()}

    def _read(self) -> dict[str, str]:
        folder = self.task.folder
        there = snapshot(folder, leave_out=self._is_foreign)
        named = self.bounds.artifacts_among(there.files)
        paths = [path for path in named if self.bounds.allows_type(path)]
        found: dict[str, str] = {}
        problems: list[Problem] = []
        for path, content in read_contents(folder, paths).items():
            try:
                found[path] = content.decode("utf-8")
            except UnicodeDecodeError:
                problems.append(Problem(where=path, message="this file is not UTF-8 text"))
        problems += [_no_file(axis.id) for axis in self.axes if not _is_in(axis.id, found)]
        if not found and not problems:
            told = f"no file in {folder} matches: {', '.join(self.task.include)}"
            problems.append(Problem(message=told))
        if problems:
            raise ConfigError(problems)
        return found

    def _others(self) -> list[tuple[str, str]]:
        """Hashes of what is not edited: a result depends on it too."""
        there = snapshot(self.task.folder, leave_out=self._is_left_out)
        return [
            (path, f"{entry.kind} {entry.mode:o} {entry.digest}")
            for path, entry in there.entries.items()
            if entry.kind in ("file", "link") and path not in self.texts
        ]

    def _is_left_out(self, path: str) -> bool:
        return self._is_foreign(path) or self.bounds.is_scratch(path)

    def _is_foreign(self, path: str) -> bool:
        """What no copy has either: a run may lie in the folder, and is no part of the task."""
        run = all((self.task.folder / path / name).is_file() for name in _RUN_FILES)
        return run or covers(DEFAULT_EXCLUDE, path)


def _case(name: str) -> Case:
    return Case.single(f"run the {name}", name=name)


def _existing(task: Task, patterns: Sequence[str]) -> list[str]:
    if not patterns:
        return []
    there = snapshot(task.folder, leave_out=lambda path: covers(DEFAULT_EXCLUDE, path))
    return [path for path in there.files if covers(patterns, path)]


def _is_in(axis: str, texts: Mapping[str, str]) -> bool:
    return file_and_place(axis)[0] in texts


def _no_file(axis: str) -> Problem:
    return Problem(where=axis, message="its file is not among those that may be edited")
