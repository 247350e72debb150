"""The description of a run that goes on: as it was stored, while its file still says the same.

A run decides by its description, so another one is another run. Comments and the layout of the file
may change; its limits apply as the file has them now; and what the run itself wrote into the file,
when it was adopted, counts as what was there before.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from burnish.core.errors import BurnishError, ConfigError, ResumeRefused, in_shell
from burnish.projects.adopt import plan_undo
from burnish.projects.description import STRATEGY, Doors, describe, from_stored, stored_doors
from burnish.projects.dialects import Document, Flags, dialect_named, value_under
from burnish.runs.build import RunDescription, written_spec
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header, RunRecord
from burnish.runs.draft import Draft, FilePlace
from burnish.runs.homes import ADOPTED
from burnish.runs.plugins import strategy_plugin
from burnish.runs.spec_changes import SpecChange, named_changes, spec_changes
from burnish.system import read_text
from burnish.system.yaml import TreePath, parse_tree

_Stored = Mapping[str, JsonValue]
_HOW_LONG = {("execution", name) for name in ("concurrency", "parallel_test_cases", "wait_minutes")}
"""What says how long a run goes on or how much at once, besides its budget."""


def described_again(
    folder: Path, flags: Flags, *, file: Path | None = None, as_new: bool = False
) -> RunDescription:
    """The run as run.json describes it, changed by newer flags.

    Raises ResumeRefused if its project file says something else by now. `file` is the new location
    of that file. `as_new` is for a new run with the same description, whatever the file says: it
    drops what should happen at the end of the old one.
    """
    header = Header.read(folder)
    if not header.project.spec:
        raise ResumeRefused(
            f"run {header.id} was started from a Python program",
            remedy=f"to continue, run that program again with the folder {folder}",
        )
    source, stored = f"{folder.name}/{HEADER}", dict(header.project.spec)
    doors = stored_doors(stored, source=source)
    now = _FileNow(header=header, folder=folder, doors=doors, path=file)
    if as_new:
        stored.pop("output", None)
        notes = now.notes_for_a_fork()
    else:
        stored, notes = now.stored_with_limits()
    described = from_stored(stored, flags, source=source, file=file)
    return replace(described, notes=(*described.notes, *notes))


def require_same_file(folder: Path) -> None:
    """Raise ResumeRefused if the project file of a run says something else by now."""
    header = Header.read(folder)
    if header.project.spec:
        doors = stored_doors(header.project.spec, source=f"{folder.name}/{HEADER}")
        _FileNow(header=header, folder=folder, doors=doors).stored_with_limits()


@dataclass(frozen=True, kw_only=True)
class _Same:
    """The request to describe a file for the strategy of the run, where no file names it."""

    strategy: str

    def put(self, draft: Draft, document: Document, doors: Doors) -> None:
        """Nothing more."""


@dataclass(frozen=True, kw_only=True)
class _FileNow:
    """The project file of a run, compared with what the run has stored of it."""

    header: Header
    folder: Path
    doors: Doors
    path: Path | None = None
    """Where the file is now, if it has moved."""

    def stored_with_limits(self) -> tuple[dict[str, JsonValue], Sequence[str]]:
        """The stored description with the limits of today's file, and notes about them.

        ResumeRefused if anything else has changed.
        """
        stored = dict(self.header.project.spec)
        if not self._is_comparable:
            return stored, self._notes()
        now, changes = self._compared()
        free = [self._is_limit(each.path) for each in changes]
        if refused := [each for each, is_free in zip(changes, free, strict=True) if not is_free]:
            raise self._refused(named_changes(refused, now.names(refused)))
        if not changes:
            return stored, ()
        told = named_changes(changes, now.names(changes))
        note = f"these limits are new since this run started, and apply:\n{told}"
        values = now.described.spec.to_json()  # with the values of variables
        limits = [replace(each, after=value_under(values, each.path)) for each in changes]
        return _with(stored, limits), (note,)

    def notes_for_a_fork(self) -> Sequence[str]:
        """What to say where a new run takes the stored description and not the file."""
        if not self._is_comparable:
            return self._notes()
        try:
            _, changes = self._compared()
        except ResumeRefused:
            changes = None
        return () if changes is not None and not changes else (self._old_description(),)

    @property
    def _source(self) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self.header.project.spec["source"])

    @property
    def _file(self) -> Path:
        return self.path or Path(str(self._source.get("file", "")))

    @property
    def _is_comparable(self) -> bool:
        """Whether there is another file by now, and a record of what came from the old one."""
        recorded = self._source.get("overridden") is not None and self._source.get("digest")
        return bool(recorded) and self._file.is_file() and not self._is_same_text

    @property
    def _is_same_text(self) -> bool:
        try:
            text = read_text(self._file).removeprefix("\ufeff")
        except BurnishError:
            return False
        return hashlib.sha256(text.encode()).hexdigest()[:16] == self._source.get("digest")

    def _notes(self) -> Sequence[str]:
        """What to say of a file that cannot be compared."""
        if not self._source.get("digest"):
            return ()
        if not self._file.is_file():
            name = self._file.name
            return (f"{name} is not there any more: the run goes on with its stored description",)
        return () if self._is_same_text else (self._old_description(),)

    def _old_description(self) -> str:
        message = f"{self._file.name} has changed since this run started"
        message += ": the run continues with the old description"
        if fork := self._fork():
            return f"{message}; {fork} starts from the file as it is now"
        return message

    def _fork(self) -> str:
        """The command that goes on with the file as it is now; "" if there is none."""
        plugin = strategy_plugin(self.header.strategy)
        if plugin.over:
            return ""
        command = plugin.resume_command or "optimize"
        here, file = Path.cwd(), self._file.resolve()
        name = file.relative_to(here) if file.is_relative_to(here) else file.name
        return f"`burnish {command} {in_shell(name)} --fork {in_shell(self.header.id)}`"

    def _refused(self, what: str) -> ResumeRefused:
        message = f"{self._file.name} is not what run {self.header.id} was started with"
        fork = self._fork()
        new = f"{fork} goes on from its results with the file as it is now" if fork else ""
        remedy = f"put it back to resume; {new or 'to use what it says now, start a new run'}"
        return ResumeRefused(f"{message}:\n{what}", remedy=remedy)

    def _compared(self) -> tuple["_ReadNow", list[SpecChange]]:
        """What the file says now, and the values in which that differs from the run."""
        try:
            now = self._read(self._document())
        except ConfigError as error:
            lines = str(error).splitlines()
            raise self._refused("\n".join(f"  {line}" for line in lines)) from None
        ignored = [*self._source["overridden"]]
        ignored += [path for path in self._source.get("environment", ()) if not now.says(path)]
        changes = spec_changes(_without_place(self.header.project.spec), _without_place(now.spec))
        changes = (each for each in changes if not each.among(ignored) and not _is_spelling(each))
        return now, [*changes]

    def _read(self, document: Document) -> "_ReadNow":
        dialect = dialect_named(str(self._source["kind"]))
        kind = document.data.get("kind", dialect.kind)
        if kind != dialect.kind:
            other = SpecChange(path=("kind",), before=dialect.kind, after=kind)
            raise self._refused(named_changes([other], {("kind",): str(document.place("kind"))}))
        strategy, flags = self.doors.strategy, dict[str, JsonValue]()
        named = ["strategy", "name"]
        if strategy.proposes and named in [list(each) for each in self._source["overridden"]]:
            # Of an optimizer.json, it is the algorithm in the file that a flag replaces.
            algorithm = ("document", "optimize", "algorithm", "name")
            flags[STRATEGY] = value_under(dict(self._source), algorithm) or strategy.name
        request = _Same(strategy="" if strategy.proposes else strategy.name)
        environ = dict[str, str]()
        if named in [list(each) for each in self._source.get("environment", ())]:
            environ["BURNISH_STRATEGY"] = strategy.name
        described = describe(document, flags, environ=environ, dialect=dialect, request=request)
        return _ReadNow(described=described)

    def _document(self) -> Document:
        """The file, without what this run wrote into it when it was adopted."""
        document = Document.read(self._file)
        if (self.folder / ADOPTED).exists():
            try:
                plan = plan_undo(RunRecord.read(self.folder), file=self.path, force=True)
            except BurnishError:
                return document  # what it says now is compared as it is
            real = os.path.realpath(self._file)
            for change in plan.files:
                if str(change.path) == real:
                    text = change.after.decode().removeprefix("\ufeff")
                    return replace(document, tree=parse_tree(self._file, text))
        return document

    def _is_limit(self, path: TreePath) -> bool:
        """Whether it only says how long the run goes on, or how much at once."""
        # An agent file has a block `execution` of its own.
        below = path[2:] if path[:2] == ("target", "document") else path
        if path[:1] == ("budget",) or below in _HOW_LONG:
            return True
        settings = (each for each in self.doors.fields() if each.door.panel == "Limits")
        return any(path[: len(each.path)] == tuple(each.path) for each in settings)


@dataclass(frozen=True, kw_only=True)
class _ReadNow:
    """What a file says now."""

    described: RunDescription

    @property
    def spec(self) -> dict[str, JsonValue]:
        return written_spec(self.described)

    def says(self, path: Sequence[str]) -> bool:
        """Whether a value of the description stands in the file."""
        place = self.described.places.by_path.get(tuple(path))
        return isinstance(place, FilePlace) and value_under(place.tree.data, place.keys) is not None

    def names(self, changes: Sequence[SpecChange]) -> dict[TreePath, str]:
        """By path, where a value stands in the file."""
        places = self.described.places
        return {each.path: places.where(each.path) for each in changes}


def _is_spelling(change: SpecChange) -> bool:
    """Whether both are the same value, once with a variable that has it."""
    from burnish.targets.agent.blocks import expanded  # most files have none

    key, both = str(change.path[-1]), (change.before, change.after)
    if not any(isinstance(each, str) and "${" in each for each in both):
        return False
    try:
        before, after = (expanded({key: each}) for each in both)
    except ConfigError:
        return False
    return before == after


def _without_place(spec: _Stored) -> dict[str, JsonValue]:
    """A description without where it was read."""
    name = value_under(dict(spec), ("source", "name"))
    return {**spec, "source": {"name": name}}


def _with(stored: _Stored, changes: Sequence[SpecChange]) -> dict[str, JsonValue]:
    """The stored description with these values instead of its own."""
    data = cast("dict[str, Any]", deepcopy(dict(stored)))
    for change in changes:
        _put(data, [*map(str, change.path)], change.after)
    paths = [[*map(str, change.path)] for change in changes]
    if named := data["source"].get("variables"):
        data["source"]["variables"] = [each for each in named if [*each] not in paths]
    return data


def _put(block: dict[str, Any], path: Sequence[str], value: JsonValue) -> None:
    """Set a value, or remove it, and with it a block that becomes empty."""
    key, *rest = path
    if rest:
        inner = block.setdefault(key, {})
        _put(inner, rest, value)
        value = inner or None
    if value is None:
        block.pop(key, None)
    else:
        block[key] = value
