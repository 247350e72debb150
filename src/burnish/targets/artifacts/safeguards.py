"""Safeguards of a task: texts of holdout and test for the leak watch, and records of what runs now.

A record keeps a candidate that kills burnish from being run again, on machines where nothing keeps
a command from signalling burnish. A random name goes to the journal before the run, and while it
lasts a file of that name says who runs it. If the run ends in any way that burnish survives, the
file goes; if it is still there on a resume, burnish was killed.
"""

import csv
import json
import secrets
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from burnish.core.cases import Dataset
from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.leaks import CODE_RUN, HeldText, HeldTexts, LeakWatch
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt
from burnish.system.files import state_folder, write_atomic
from burnish.system.processes import Owner
from burnish.system.workspaces import Snapshot
from burnish.system.workspaces.snapshots import covers
from burnish.system.yaml import parse_yaml, to_plain
from burnish.targets.artifacts.file_checks import (
    CODE,
    artifacts_run_by,
    may_add_code,
    new_file_doubts,
)
from burnish.targets.artifacts.task import TASK, Task


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
    if suffix in CODE:
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
    """Why a number of this task may not be true: what a candidate can forge, read or know."""
    yield from _forgeable(task, editable)
    yield from new_file_doubts(task)
    yield from _readable(task, editable, files)
    yield from _shared(task, files)
    if held.learned:
        yield (
            f"{', '.join(held.learned)} contains text of the holdout or the test from the start, "
            "so their numbers may be too good"
        )
    yield from held.notes


def _forgeable(task: Task, editable: Mapping[str, str]) -> Iterator[str]:
    for case, scoring in task.scorings.items():
        name = "scorer" if case == TASK else f"{case}'s scorer"
        if run := artifacts_run_by(scoring, task.folder, editable):
            yield (
                f"the {name} runs code of {', '.join(run)} itself, so its score can be forged "
                "by a candidate: let the runner run it, and score what the runner wrote"
            )


def _readable(task: Task, editable: Mapping[str, str], files: Sequence[str]) -> Iterator[str]:
    """Files of the holdout and the test that a candidate's code can read."""
    edits_code = any(PurePosixPath(path).suffix in CODE for path in editable)
    if not edits_code and not may_add_code(task):
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
