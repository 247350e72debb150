"""Files as a target: a run is a runner and then a scorer, each in a workspace of its own."""

import contextlib
import hashlib
import hmac
import json
import secrets
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome
from burnish.core.content import Json
from burnish.core.errors import ConfigError, FilesChanged, Problem
from burnish.core.leaks import HeldTexts
from burnish.core.money import Spend
from burnish.core.protocols import Description, Effects, Receipt
from burnish.core.surfaces import Candidate, FileSurface, Origin, Surface, Value
from burnish.system.files import state_folder
from burnish.system.processes import own_children
from burnish.system.sandbox import CommandResult, Mode, Sandbox, named_paths
from burnish.system.workspaces import (
    DEFAULT_EXCLUDE,
    Bounds,
    Snapshot,
    is_run_folder,
    proposal_violations,
    read_contents,
    shown,
    snapshot,
)
from burnish.system.workspaces.snapshots import covers, folders_of, matches, pattern_of
from burnish.system.yaml import value_in
from burnish.targets.artifacts.safeguards import (
    HeldFiles,
    NewFiles,
    StartRecord,
    doubts,
    files_only,
    may_be_code,
    read_held_files,
)
from burnish.targets.artifacts.task import (
    HOLDOUT,
    RUNTIME,
    TASK,
    TEST,
    Additions,
    Axis,
    Numbers,
    Original,
    Runner,
    Scoring,
    Task,
    Workspace,
    bounds_of,
    changed_files,
    file_and_place,
    finished,
    numbers_of,
    own_place,
    read_numbers,
    texts_of,
)

_SCORER_PROCESS = Path(__file__).with_name("scorer_process.py")
_ANSWER = "score.json"
_NOT_STARTED = (126, 127)
"""The exit codes of a shell whose command cannot be run, or is not there."""
_MOST_CONTEXT = 200_000
"""Characters of all files that an editing model reads besides."""


class _StepFailed(Exception):
    """A step failed; the failure says why, and whether edits could mend it."""

    def __init__(self, message: str, *, error: str = "Crash", mendable: bool = False) -> None:
        super().__init__(message)
        self.failure = Failure(
            kind=FailureKind.AGENT, message=message, error=error, mendable=mendable
        )


@dataclass(kw_only=True)
class _Steps:
    """Runs one candidate in its workspace, and scores it in another."""

    target: "ArtifactsTarget"
    texts: Mapping[str, str]
    workspace: Workspace
    case: str
    printed: dict[str, Json] = field(default_factory=dict[str, Json])
    """The output of each step."""
    seconds: float = 0.0
    """How long the runner ran."""
    added: Additions | None = None
    """What the runner has written besides."""

    @property
    def task(self) -> Task:
        return self.target.task

    async def outcome(self) -> Outcome:
        """Run, score, and check for tampering."""
        try:
            ran = await self._run()
            scored = await self._score(ran)
            text = self._text()
        except _StepFailed as failed:
            return Outcome(failure=failed.failure, data=self.printed, seconds=self.seconds)
        measures = {} if ran is None else {RUNTIME: ran.seconds}
        if scored.feedback:
            scorer = self.printed.get("scorer")
            logged = scorer if isinstance(scorer, dict) else {}
            self.printed["scorer"] = {**logged, "feedback": scored.feedback}
        return Outcome(
            replies=(text,),
            # The time is taken from outside: no scorer can give another one.
            measures={**scored.measures, **measures},
            data=self.printed,
            seconds=self.seconds,
        )

    async def _run(self) -> CommandResult | None:
        runner = self.task.runner_of(self.case)
        if runner is None:
            return None
        ran = await self._command(runner.command, runner, self.workspace)
        self.seconds = ran.seconds
        self._note("runner", ran)
        if not ran.ok:
            # Files that do not run yet can be made to; a command that is not there cannot.
            started = ran.exit_code not in _NOT_STARTED
            raise _StepFailed(f"the runner failed: {_why(ran)}", mendable=started)
        await _untouched(self.workspace, "runner")
        self.added = await self.workspace.additions(self.task.scratch)
        if self.added.left_behind:
            self._note("runner", ran, left_behind=self.added.left_behind)
        return ran

    async def _score(self, ran: CommandResult | None) -> Numbers:
        scoring = self.task.scoring_of(self.case)
        if scoring.kind == "metrics":
            return Numbers(measures={})
        made = self.target.scoring_workspace(self.texts, self.added, case=self.case)
        async with made as workspace, own_place() as place:
            scored = await self._scored(scoring, workspace, place, _given(place, ran))
            await _untouched(workspace, "scorer")
        return scored

    async def _scored(
        self, scoring: Scoring, workspace: Workspace, place: Path, variables: dict[str, str]
    ) -> Numbers:
        step = Runner(command=scoring.command, timeout_seconds=scoring.timeout_seconds)
        # -P: modules beside the plugin must not stand for modules of Python.
        plugin = [sys.executable, "-P", str(_SCORER_PROCESS), scoring.function]
        command = step.command if scoring.kind == "command" else plugin
        key = secrets.token_hex(32)
        stdin = f"{key}\n{place / _ANSWER}\n".encode() if scoring.kind == "python" else b""
        ran = await self._command(
            command, step, workspace, also=(place,), env=variables, stdin=stdin
        )
        self._note("scorer", ran)
        if not ran.ok:
            raise self._unscored(f"the scorer failed: {_why(ran)}")
        try:
            if scoring.kind == "command":
                return read_numbers(ran.stdout, scoring, self.task.primary)
            return numbers_of(json.loads(_signed(place, key)), scoring, self.task.primary)
        except (ValueError, RecursionError) as error:
            cut = "; its output was cut in the middle: raise limits.output_kb, or print less"
            reason = f"{error}{cut if ran.truncated and scoring.kind == 'command' else ''}"
            raise self._unscored(f"the scorer's answer cannot be used: {reason}") from error

    def _unscored(self, message: str) -> _StepFailed:
        """The scorer failed, perhaps because it did not find a file that the run wrote."""
        if self.added is None or not self.added.left_behind:
            return _StepFailed(message)
        first, end, others = message.partition("\n")
        return _StepFailed(f"{first}; {self.added.left_behind}{end}{others}")

    async def _command(
        self,
        command: str | list[str],
        step: Runner,
        workspace: Workspace,
        *,
        also: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> CommandResult:
        """Run a command; its output does not show the workspace's path, which differs each time."""
        folder = workspace.folder
        ran = await self.target.sandbox.run(
            command,
            cwd=(folder / step.cwd).resolve(),
            writable=[folder, *also],
            readable=named_paths(step.command),
            mounts=workspace.mounts,
            env=env,
            limits=replace(self.task.limits, seconds=step.timeout_seconds),
            stdin=stdin,
        )
        streams = (
            text.replace(f"{folder}/", "").replace(str(folder), ".")
            for text in (ran.stdout, ran.stderr)
        )
        stdout, stderr = streams
        return replace(ran, stdout=stdout, stderr=stderr)

    def _note(self, step: str, ran: CommandResult, **more: Json) -> None:
        self.printed[step] = {
            "exit_code": ran.exit_code,
            "seconds": round(ran.seconds, 3),
            "stdout": ran.stdout,
            "stderr": ran.stderr,
            **more,
        }

    def _text(self) -> str:
        """The text that metrics score."""
        reads = self.task.scoring_of(self.case).reads
        if not reads:
            return ""
        content = read_contents(self.workspace.folder, [reads]).get(reads)
        if content is None:
            raise _StepFailed(f"there is no file {reads} to score", mendable=True)
        return content.decode(errors="replace")


async def _untouched(workspace: Workspace, step: str) -> None:
    if violations := await workspace.tampering():
        listing = "; ".join(str(each) for each in violations[:5])
        raise _StepFailed(
            f"tampering, seen after the {step}: {listing}", error="Tampering", mendable=True
        )


def _why(ran: CommandResult) -> str:
    """The reason and the last lines of output, the very last one first."""
    lines = (ran.stderr.strip() or ran.stdout.strip()).split("\n")[-12:]
    return "\n".join([f"{ran.reason}: {lines[-1]}" if lines[-1] else ran.reason, *lines[:-1]])


def _killer() -> Outcome:
    message = (
        "burnish was killed while this candidate ran, and nothing kept the candidate from doing "
        "it: it is not run again"
    )
    return Outcome(failure=Failure(kind=FailureKind.AGENT, message=message, error="Crash"), data={})


def _signed(place: Path, key: str) -> bytes:
    """The answer of a Python scorer, if it is signed by the key that only the scorer got."""
    content = read_contents(place, [_ANSWER]).get(_ANSWER, b"")
    if not content:
        raise _StepFailed("the scorer exited early, without an answer")
    signature, _, answer = content.partition(b"\n")
    expected = hmac.new(key.encode(), answer, hashlib.sha256).hexdigest().encode()
    if not hmac.compare_digest(signature, expected):
        message = "the scorer's answer was written by something else than the scorer"
        raise _StepFailed(message, error="Tampering", mendable=True)
    return answer


def _given(place: Path, ran: CommandResult | None) -> dict[str, str]:
    """What a scorer learns about the run, in files that the run could not write."""
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


@dataclass(frozen=True, kw_only=True)
class ArtifactsTarget:
    """The files of a task. The user's originals are read once, at the start, and never written."""

    task: Task
    sandbox: Sandbox
    axes: tuple[Axis, ...] = ()
    """Values inside the files; they override the files' own."""
    leaf: bool = True
    texts: Mapping[str, str] = field(init=False)
    context: Mapping[str, str] = field(init=False)
    """Files that an editing model reads besides, as they were at the start."""
    original: Original = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", self._read())
        object.__setattr__(self, "context", self._read_context())
        object.__setattr__(
            self, "original", Original(task=self.task, kind=self.sandbox.isolation.kind)
        )

    @classmethod
    def open(
        cls,
        task: Task,
        *,
        mode: Mode = "auto",
        axes: Sequence[Axis] = (),
        hidden: Sequence[Path] = (),
    ) -> Self:
        """Open a target with its own sandbox, and stop what killed processes left running."""
        named: list[Path] = []
        if task.hidden:
            there = snapshot(task.folder, leave_out=lambda path: covers(DEFAULT_EXCLUDE, path))
            paths = [path for path in there.files if covers(task.hidden, path)]
            named = [task.folder / path for path in paths]
        sandbox = Sandbox.open(
            mode,
            children=own_children(state_folder() / "processes"),
            allow=task.env,
            network=task.network,
            hidden=[task.folder, *hidden, *named],
            readable=task.readable,
        )
        return cls(task=task, sandbox=sandbox, axes=tuple(axes))

    async def close(self) -> None:
        await self.original.close()

    @cached_property
    def bounds(self) -> Bounds:
        task = self.task
        # A file that is there already, and that may not be edited, is not one to add.
        entries = self._there.entries
        others = [
            p for p, e in entries.items() if e.kind != "folder" and not matches(p, task.include)
        ]
        taken = [pattern_of(path) for path in others if matches(path, task.new_files)]
        return bounds_of(
            (*task.include, *task.new_files),
            (*task.exclude, *taken),
            protect=(*task.protect, *task.hidden),
            scratch=(*task.scratch, *task.own),
            file_types=task.allowed_file_types,
        )

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules for edits, in words for an editor."""
        rules = ["only the files shown may be edited; no files are added, removed or renamed"]
        if self.task.new_files:
            rules = [
                "of the files that are there, only those shown may be edited; none is removed or "
                "renamed",
                f"new files may be added, as whole files: {', '.join(self.task.new_files)}; one "
                "that was added is removed again by leaving it empty",
            ]
        if self.task.allowed_file_types:
            rules.append(f"types of files: {', '.join(self.task.allowed_file_types)}")
        return tuple(rules)

    def new_file_problem(self, path: str) -> str:
        """Why a candidate may not add this file; empty if it may."""
        if problem := self._new_files.problem(path):
            return problem
        in_run = any(is_run_folder(self.task.folder / folder) for folder in folders_of(path))
        return "its folder belongs to a run of burnish" if in_run else ""

    @cached_property
    def _new_files(self) -> NewFiles:
        return NewFiles(patterns=self.task.new_files, bounds=self.bounds, there=self._there)

    @cached_property
    def _there(self) -> Snapshot:
        """What is in the folder when it is first read, if candidates may add to it."""
        if not self.task.new_files:
            return Snapshot(entries={})
        return snapshot(self.task.folder, leave_out=self._is_foreign)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know before the start."""
        return (f"commands run with {self.sandbox.summary}", *self.doubts)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """Why a number of this task may not be true: what a candidate can forge or read."""
        files = snapshot(self.task.folder, leave_out=self._is_foreign).files
        return tuple(doubts(self.task, self.texts, files, self._held_files))

    @property
    def held_texts(self) -> HeldTexts:
        """The texts that no proposer may see, and those that all may."""
        return self._held_files.texts

    @cached_property
    def _held_files(self) -> HeldFiles:
        there = snapshot(self.task.folder, leave_out=self._is_not_watched)
        return read_held_files(self.task, there, self.texts)

    @property
    def description(self) -> Description:
        """The steps, and hashes of everything in the folder that is not edited."""
        return self._description

    @cached_property
    def _description(self) -> Description:
        there = snapshot(self.task.folder, leave_out=self._is_not_watched)
        others = [
            (path, f"{entry.kind} {entry.mode:o} {entry.digest}")
            for path, entry in there.entries.items()
            if entry.kind in ("file", "link") and path not in self.texts
        ]
        return Description(kind="artifacts", config=self.task.described(others))

    @property
    def surfaces(self) -> Sequence[Surface]:
        return [*(FileSurface(id=path, path=path) for path in self.texts), *self.axes]

    @property
    def baseline(self) -> Candidate:
        values: dict[str, Value] = dict(self.texts)
        for axis in self.axes:
            file, place = file_and_place(axis.id)
            values[axis.id] = value_in(self.texts[file], file, place)
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def files_of(self, candidate: Candidate) -> dict[str, str]:
        return files_only(texts_of(candidate.values), self.texts)

    @asynccontextmanager
    async def workspace(
        self, texts: Mapping[str, str], *, case: str = TASK
    ) -> AsyncGenerator[Workspace, None]:
        """A copy of the folder as it was at the start, with these files in it.

        Nothing in it is for scorers only. Without isolation, FilesChanged is raised at the end if
        the user's own files have changed meanwhile.
        """
        before = await self._own_files()

        def finds(path: str) -> bool:
            return self.task.runner_finds(case, path)

        async with self.original.workspace(self.bounds, texts, finds=finds) as workspace:
            try:
                yield workspace
            except Exception:  # a changed project explains any failure
                await self._require_same(before)
                raise
            await self._require_same(before)

    @asynccontextmanager
    async def scoring_workspace(
        self, texts: Mapping[str, str], added: Additions | None, *, case: str
    ) -> AsyncGenerator[Workspace, None]:
        """Another copy, with the scorer's own files and the outputs among what a run `added`."""

        def finds(path: str) -> bool:
            return self.task.scorer_finds(case, path)

        made = self.original.workspace(self.bounds, texts, finds=finds, added=added)
        async with made as workspace:
            yield workspace

    async def _own_files(self) -> Snapshot | None:
        """The user's files, if commands could change them."""
        if self.sandbox.isolation.kind != "none":
            return None
        return await finished(snapshot, self.task.folder, leave_out=self._is_not_watched)

    async def _require_same(self, before: Snapshot | None) -> None:
        after = await self._own_files()
        if before is None or after is None:
            return
        if changes := changed_files(before, after):
            raise FilesChanged(
                f"your own files were changed while a candidate ran without isolation: {changes}",
                remedy=f"Look at them in {self.task.folder}, and put back what you did not change "
                "yourself. With `sandbox: required` no candidate can do this.",
            )

    def _is_not_watched(self, path: str) -> bool:
        return self._is_foreign(path) or self.bounds.is_scratch(path)

    def dataset(self) -> Dataset:
        """The task as a case, and others for the holdout and the test if there are any."""
        held = {name: (Case.single(f"run the {name}", name=name),) for name in self.task.held}
        return Dataset(
            train=(Case.single(f"run the {TASK}", name=TASK),),
            holdout=held.get(HOLDOUT, ()),
            test=held.get(TEST, ()),
        )

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        texts = self.files_of(candidate)
        changed = {path: text for path, text in texts.items() if text != self.texts.get(path)}
        old = {path: self.texts[path].encode() for path in changed if path in self.texts}
        added = [path for path in texts if path not in self.texts]
        problems = [
            *(Problem(where=shown(p), message=m) for p in added if (m := self.new_file_problem(p))),
            *self._new_files.problems_together(added),
        ]
        return problems + [v.problem for v in proposal_violations(self.bounds, changed, old=old)]

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        texts = self.files_of(candidate)
        async with contextlib.AsyncExitStack() as held:
            if not self.sandbox.isolation.protects_burnish:
                request: list[Json] = [self.description.fingerprint, candidate.id, case.id]
                start = await StartRecord.of(effects, request, draw=draw)
                if start.killed_burnish:
                    return Receipt(value=_killer(), spend=self.estimate(case))
                held.enter_context(start.held())
            workspace = await held.enter_async_context(self.workspace(texts, case=case.id))
            steps = _Steps(target=self, texts=texts, workspace=workspace, case=case.id)
            return Receipt(value=await steps.outcome(), spend=self.estimate(case))

    def may_write(self, candidate: Candidate, case: Case, number: str) -> bool:
        """Whether code of a candidate may have written a number of a case.

        The runner and the scorer work in folders that hold the candidate's files, and no scorer can
        tell what a runner measured from what the candidate made it say.
        """
        if not self.task.is_reported(case.id, number):
            return False
        changed = (p for p, t in self.files_of(candidate).items() if t != self.texts.get(p))
        return any(map(may_be_code, changed))

    def estimate(self, case: Case) -> Spend:
        del case
        return Spend(calls=1)

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        del home
        return {path: text.encode() for path, text in self.files_of(candidate).items()}

    def _read(self) -> dict[str, str]:
        folder = self.task.folder
        there = snapshot(folder, leave_out=self._is_foreign)
        named = self.bounds.artifacts_among(there.files)
        paths = [path for path in named if self.bounds.allows_type(path)]
        texts, problems = _decoded(folder, paths)
        message = "its file is not among those that may be edited"
        problems += [
            Problem(where=axis.id, message=message)
            for axis in self.axes
            if file_and_place(axis.id)[0] not in texts
        ]
        if not texts and not problems:
            message = f"no file in {folder} matches: {', '.join(self.task.include)}"
            problems.append(Problem(message=message))
        if problems:
            raise ConfigError(problems)
        return texts

    def _read_context(self) -> dict[str, str]:
        """The files of `context`; never what is only for scorers, the holdout or the test."""
        task = self.task
        if not task.context:
            return {}
        there = snapshot(task.folder, leave_out=self._is_foreign).files
        named = [path for path in there if matches(path, task.context)]
        visible = [p for p in named if p not in self.texts and not covers(task.hidden, p)]
        texts, problems = _decoded(task.folder, sorted(visible))
        for pattern in task.context:
            if not any(matches(path, (pattern,)) for path in texts) and not problems:
                message = "there is no such file that an editor may see"
                problems.append(Problem(where=f"artifacts.context: {pattern}", message=message))
        size = sum(map(len, texts.values()))
        if size > _MOST_CONTEXT:
            message = f"the files have {size:,} characters, {_MOST_CONTEXT:,} are allowed"
            remedy = "every request holds all of them: name fewer"
            problems.append(Problem(where="artifacts.context", message=message, remedy=remedy))
        if problems:
            raise ConfigError(problems)
        return texts

    def _is_foreign(self, path: str) -> bool:
        """What no copy includes either: a run may be in the folder, but is not part of the task."""
        return is_run_folder(self.task.folder / path) or covers(DEFAULT_EXCLUDE, path)


def _decoded(folder: Path, paths: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """The texts of files, and a problem for each that is no text."""
    texts: dict[str, str] = {}
    problems: list[Problem] = []
    for path, content in read_contents(folder, paths).items():
        try:
            texts[path] = content.decode("utf-8")
        except UnicodeDecodeError:
            problems.append(Problem(where=path, message="this file is not UTF-8 text"))
    return texts, problems
