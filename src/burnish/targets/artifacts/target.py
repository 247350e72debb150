"""Files as a target: a run is a runner and a scorer in a workspace of its own."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Failure, FailureKind, Outcome
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, FileSurface, Origin, Surface, Value
from burnish.system.files import state_folder
from burnish.system.processes import own_children
from burnish.system.sandbox import CommandLimits, CommandResult, Mode, Sandbox
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    Bounds,
    proposal_violations,
    read_contents,
    snapshot,
)
from burnish.system.workspaces.paths import covers
from burnish.system.yaml import value_in
from burnish.targets.artifacts.task import (
    HOLDOUT,
    RUNTIME,
    TASK,
    Axis,
    Numbers,
    Original,
    Runner,
    Scoring,
    Task,
    Workspace,
    bounds_of,
    file_and_place,
    numbers_of,
    own_place,
    read_numbers,
    texts_of,
)

_PLUGIN = Path(__file__).with_name("plugin.py")
_ANSWER = "score.json"
_LAST = 12
"""Lines of a log that a failure quotes."""
_TAMPERING = "Tampering"


class StepFailed(Exception):
    """A step gave nothing to go on with; the failure says why, the log what was said."""

    def __init__(self, message: str, *, error: str = "Crash") -> None:
        super().__init__(message)
        self.failure = Failure(kind=FailureKind.AGENT, message=message, error=error)


@dataclass(kw_only=True)
class _Steps:
    """Runs one candidate in its workspace."""

    task: Task
    sandbox: Sandbox
    workspace: Workspace
    case: str
    printed: dict[str, Json]
    """What each step printed."""
    seconds: float = 0.0
    """How long the runner ran."""

    async def outcome(self) -> Outcome:
        """Run, score, and look whether anything was touched that must be left alone."""
        try:
            ran = await self._run()
            scored = await self._score(ran)
            text = self._text()
        except StepFailed as failed:
            return Outcome(failure=failed.failure, data=self.printed, seconds=self.seconds)
        measures = {} if ran is None else {RUNTIME: ran.seconds}
        if scored.feedback:
            self.printed["scorer"] = {
                **_as_dict(self.printed.get("scorer")),
                "feedback": scored.feedback,
            }
        return Outcome(
            replies=(text,),
            measures={**measures, **scored.measures},
            data=self.printed,
            seconds=self.seconds,
        )

    async def _run(self) -> CommandResult | None:
        runner = self.task.runner_of(self.case)
        if runner is None:
            return None
        ran = await self._command(runner.command, runner, {})
        self.seconds = ran.seconds
        self._note("runner", ran)
        if not ran.ok:
            raise StepFailed(f"the runner failed: {self._why(ran)}")
        await self._untouched("runner")
        await self.workspace.without_caches()
        return ran

    async def _score(self, ran: CommandResult | None) -> Numbers:
        scoring = self.task.scoring_of(self.case)
        if scoring.kind == "metrics":
            return Numbers(measures={})
        async with own_place() as place:
            scored = await self._scored(scoring, place, _given(place, ran))
        await self._untouched("scorer")
        return scored

    async def _scored(self, scoring: Scoring, place: Path, variables: dict[str, str]) -> Numbers:
        step = Runner(command=scoring.command, timeout_seconds=scoring.timeout_seconds)
        primary = self.task.primary
        if scoring.kind == "command":
            ran = await self._command(step.command, step, variables, also=place)
            self._ended_well(ran)
            return _usable(lambda: read_numbers(ran.stdout, scoring, primary))
        # -P: modules beside the plugin must not stand for modules of Python.
        argv = [sys.executable, "-P", str(_PLUGIN), scoring.function, str(place / _ANSWER)]
        self._ended_well(await self._command(argv, step, variables, also=place))
        answer = read_contents(place, [_ANSWER]).get(_ANSWER, b"")
        if not answer:
            raise StepFailed("the scorer ended without an answer: its process was left early")
        return _usable(lambda: numbers_of(json.loads(answer), scoring, primary))

    def _ended_well(self, ran: CommandResult) -> None:
        self._note("scorer", ran)
        if not ran.ok:
            raise StepFailed(f"the scorer failed: {self._why(ran)}")

    async def _command(
        self,
        command: str | list[str],
        step: Runner,
        env: dict[str, str],
        *,
        also: Path | None = None,
    ) -> CommandResult:
        limits: CommandLimits = replace(self.task.limits, seconds=step.timeout_seconds)
        folder = self.workspace.folder
        cwd = (folder / step.cwd).resolve()
        writable = [folder] if also is None else [folder, also]
        return await self.sandbox.run(command, cwd=cwd, writable=writable, env=env, limits=limits)

    async def _untouched(self, step: str) -> None:
        if violations := await self.workspace.tampering():
            listing = "; ".join(str(each) for each in violations[:5])
            raise StepFailed(f"tampering, seen after the {step}: {listing}", error=_TAMPERING)

    def _note(self, step: str, ran: CommandResult) -> None:
        self.printed[step] = {
            "exit_code": ran.exit_code,
            "seconds": round(ran.seconds, 3),
            "stdout": self._plain(ran.stdout),
            "stderr": self._plain(ran.stderr),
        }

    def _why(self, ran: CommandResult) -> str:
        """The reason, then what was said last: the last line first, for those who read one."""
        lines = self._plain(ran.stderr.strip() or ran.stdout.strip()).split("\n")[-_LAST:]
        return "\n".join([f"{ran.reason}: {lines[-1]}" if lines[-1] else ran.reason, *lines[:-1]])

    def _plain(self, text: str) -> str:
        """Without the name of the workspace, which is another one each time."""
        folder = str(self.workspace.folder)
        return text.replace(f"{folder}/", "").replace(folder, ".")

    def _text(self) -> str:
        """What metrics score: the file that the task names."""
        reads = self.task.scoring_of(self.case).reads
        if not reads:
            return ""
        content = read_contents(self.workspace.folder, [reads]).get(reads)
        if content is None:
            raise StepFailed(f"there is no file {reads} to score")
        return content.decode(errors="replace")


def _given(place: Path, ran: CommandResult | None) -> dict[str, str]:
    """What a scorer is told of the run, outside of the workspace that the run could write."""
    if ran is None:
        return {}
    (place / "stdout.txt").write_text(ran.stdout, encoding="utf-8")
    (place / "stderr.txt").write_text(ran.stderr, encoding="utf-8")
    return {
        "BURNISH_RUNNER_STDOUT": str(place / "stdout.txt"),
        "BURNISH_RUNNER_STDERR": str(place / "stderr.txt"),
        "BURNISH_RUNTIME_SECONDS": f"{ran.seconds:.6f}",
        "BURNISH_RUNNER_EXIT_CODE": str(ran.exit_code),
    }


def _usable(read: Callable[[], Numbers]) -> Numbers:
    try:
        return read()
    except (ValueError, RecursionError) as error:
        raise StepFailed(f"the scorer's answer cannot be used: {error}") from error


def _as_dict(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


# -- Files as a target ----------------------------------------------------------------------------


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
        rules = ["only the files shown may be edited; no files are added, removed or renamed"]
        if self.task.allowed_file_types:
            rules.append(f"types of files: {', '.join(self.task.allowed_file_types)}")
        return tuple(rules)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the start."""
        return (f"commands run with {self.sandbox.isolation.summary}",)

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
            steps = _Steps(
                task=self.task,
                sandbox=self.sandbox,
                workspace=workspace,
                case=case.id,
                printed={},
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
        texts: dict[str, str] = {}
        problems: list[Problem] = []
        for path, content in read_contents(folder, paths).items():
            try:
                texts[path] = content.decode("utf-8")
            except UnicodeDecodeError:
                problems.append(Problem(where=path, message="this file is not UTF-8 text"))
        problems += [_no_file(axis.id) for axis in self.axes if not _is_in(axis.id, texts)]
        if not texts and not problems:
            message = f"no file in {folder} matches: {', '.join(self.task.include)}"
            problems.append(Problem(message=message))
        if problems:
            raise ConfigError(problems)
        return texts

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
