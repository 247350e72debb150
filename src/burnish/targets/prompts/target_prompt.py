"""TargetPrompt: which prompts may be edited, their surfaces and their locks."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TypeAlias

from burnish.core.errors import ConfigError, Problem, RollbackError, RunLocked
from burnish.core.surfaces import TextSurface, placeholders_in
from burnish.system.borrowed_files import make_private_folder
from burnish.system.files import state_folder
from burnish.system.locks import FileLock
from burnish.system.restoration import borrowed_folder, borrower_of, digest
from burnish.targets.prompts.fields import (
    CallbackField,
    Field,
    FileField,
    Read,
    Write,
    encoded,
    is_async,
    name_problem,
    write_together,
)


def lock_files(files: Sequence[FileField], home: Path) -> ExitStack:
    """Lock all of the files or none; close what is given back to let go of them."""
    folder = home / "locks"
    with ExitStack() as locks:
        for file in sorted(files, key=lambda each: each.home):
            make_private_folder(folder)
            lock = folder / f"prompt-{digest(str(file.home).encode())[:32]}.lock"
            locks.enter_context(FileLock.acquire(lock, holding=f"the prompt file {file.shown}"))
        return locks.pop_all()


def require_unborrowed(files: Sequence[FileField], home: Path) -> None:
    """Refuse to take a candidate of another run for what the file says."""
    for file in files:
        if (owner := borrower_of(file.home, borrowed_folder(home))) is not None:
            raise RunLocked(
                f"the prompt file {file.shown} is in use by process {owner.pid} on {owner.host}, "
                "which has a candidate in it",
                remedy="Wait until it ends, or end it.",
            )


# -- The surfaces of prompt fields ----------------------------------------------------------------


MaxChars: TypeAlias = int | Mapping[str, int] | None
Frozen: TypeAlias = Mapping[str, Sequence[str]]


def surfaces_of(
    values: Mapping[str, str], *, max_chars: MaxChars, frozen: Frozen
) -> tuple[TextSurface, ...]:
    """One surface a field, or a ConfigError with all that is wrong with the texts as they are."""
    limits = max_chars if isinstance(max_chars, Mapping) else dict.fromkeys(values, max_chars)
    surfaces = tuple(
        TextSurface(
            id=name,
            placeholders=placeholders_in(text),
            max_chars=limits.get(name),
            frozen=tuple(frozen.get(name, ())),
        )
        for name, text in values.items()
    )
    problems = [*_unknown("max_chars", limits, values), *_unknown("frozen", frozen, values)]
    problems += [problem for each in surfaces for problem in each.problems(values[each.id])]
    if problems:
        raise ConfigError(problems)
    return surfaces


def _unknown(
    setting: str, named: Mapping[str, object], values: Mapping[str, str]
) -> Iterator[Problem]:
    for name in named:
        if name not in values:
            remedy = f"there are: {', '.join(values)}"
            yield Problem(where=f"{setting}.{name}", message="no such prompt field", remedy=remedy)


# -- TargetPrompt ---------------------------------------------------------------------------------


class TargetPrompt:
    """Prompt fields by name, in the order in which they were added."""

    def __init__(self) -> None:
        self._fields: dict[str, Field] = {}

    def add_path(self, name: str, path: str | os.PathLike[str]) -> Self:
        """A field that is a whole file."""
        self._require_name(name)
        field = FileField(name=name, shown=os.fspath(path), path=Path(path).absolute())
        for other in self.files:
            if other.home == field.home:
                raise ValueError(
                    f"the prompt fields '{other.name}' and '{name}' are the same file, {path}"
                )
        self._fields[name] = field
        return self

    def add_callback(self, name: str, *, read: Read, write: Write) -> Self:
        """A field behind `async read() -> str` and `async write(text)`."""
        self._require_name(name)
        for what, function in (("read", read), ("write", write)):
            if not is_async(function):
                raise TypeError(f"the {what} function of the prompt field '{name}' is not async")
        self._fields[name] = CallbackField(name=name, read=read, write=write)
        return self

    def names(self) -> list[str]:
        """The fields, in the order in which they were added."""
        return list(self._fields)

    def describe_source(self, name: str) -> str:
        """The path as it was given, or `<callback>`."""
        field = self._field(name)
        return field.shown if isinstance(field, FileField) else "<callback>"

    async def read(self, name: str) -> str:
        """What a field says now."""
        field = self._field(name)
        return field.text() if isinstance(field, FileField) else await field.text()

    async def read_all(self) -> dict[str, str]:
        """What every field says now."""
        return {name: await self.read(name) for name in self._fields}

    def read_files(self) -> dict[str, str]:
        """The same without waiting for anybody, where all fields are files."""
        if self.callbacks:
            names = ", ".join(field.name for field in self.callbacks)
            raise TypeError(f"fields behind callbacks can only be awaited: {names}")
        return {field.name: field.text() for field in self.files}

    async def write_all(self, prompts: Mapping[str, str]) -> None:
        """Give every field its text: files first, each in one step, then callbacks.

        When anything fails, files that were written hold again what they held before, and the
        error is raised; RollbackError where one of them could not be put back. A callback that
        was called is not called again.
        """
        self._require_all(prompts)
        files = {field: encoded(prompts[field.name], _now(field), field.path)
                 for field in self.files}  # fmt: skip
        await write_together(files, {field: prompts[field.name] for field in self.callbacks})

    @property
    def files(self) -> tuple[FileField, ...]:
        """The fields that are files."""
        return tuple(field for field in self._fields.values() if isinstance(field, FileField))

    @property
    def callbacks(self) -> tuple[CallbackField, ...]:
        """The fields behind callbacks."""
        return tuple(field for field in self._fields.values() if isinstance(field, CallbackField))

    def _field(self, name: str) -> Field:
        if name not in self._fields:
            names = ", ".join(self._fields) or "none"
            raise KeyError(f"no prompt field '{name}': there are {names}")
        return self._fields[name]

    def _require_name(self, name: str) -> None:
        if problem := name_problem(name, self._fields):
            raise ValueError(f"'{name}' cannot be the name of a prompt field: {problem}")

    def _require_all(self, prompts: Mapping[str, str]) -> None:
        missing = [name for name in self._fields if name not in prompts]
        extra = [name for name in prompts if name not in self._fields]
        problems = [f"missing: {', '.join(missing)}"] * bool(missing)
        problems += [f"unknown: {', '.join(extra)}"] * bool(extra)
        if problems:
            raise ValueError(
                f"every prompt field needs a text, and nothing else; {'; '.join(problems)}"
            )


def _now(field: FileField) -> bytes:
    """What the file looks like; where it cannot be read, writing it will say why."""
    try:
        return field.path.read_bytes()
    except OSError:
        return b""


async def write_back(
    prompts: TargetPrompt,
    values: Mapping[str, str],
    *,
    expected: Mapping[str, str],
    home: Path | None = None,
) -> None:
    """Give the fields these texts, all or none, if every one still says what is expected."""
    with lock_files(prompts.files, home or state_folder()):
        changed = [name for name in prompts.names() if await prompts.read(name) != expected[name]]
        if changed:
            raise ConfigError([_changed(prompts, name) for name in changed])
        try:
            await prompts.write_all(values)
        except BaseException:
            await _callbacks_back(prompts, values, expected)
            raise


async def _callbacks_back(
    prompts: TargetPrompt, values: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Files are back already; callbacks are, where they took the new text."""
    failures: dict[str, Exception] = {}
    for field in prompts.callbacks:
        try:
            if await field.text() == values[field.name]:
                await field.put(expected[field.name])
        except Exception as error:  # noqa: BLE001 - the user's function: the others go on
            failures[field.name] = error
    if failures:
        raise RollbackError(failures, remedy="Look at these fields, and put them back by hand.")


def _changed(prompts: TargetPrompt, name: str) -> Problem:
    return Problem(
        where=f"prompt field '{name}' ({prompts.describe_source(name)})",
        message="somebody changed it meanwhile, so nothing was written to any field",
        remedy="the best texts are in the run's folder: look at both, and put them in yourself",
    )
