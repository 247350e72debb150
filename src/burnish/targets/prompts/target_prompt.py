"""TargetPrompt: which prompts may be edited, their surfaces and their locks."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Self, TypeAlias

from burnish.core.errors import ConfigError, Problem, RollbackError, RunLocked
from burnish.core.surfaces import TextSurface, placeholders_in
from burnish.system.borrowed_files import undone_if_killed
from burnish.system.config import near
from burnish.system.files import state_folder
from burnish.system.restoration import borrowed_folder, borrower_of
from burnish.system.variables import expanded_secrets
from burnish.targets.prompts.fields import (
    CallbackField,
    Field,
    FileField,
    LentCallbacks,
    Read,
    Write,
    encoded,
    is_async,
    lock_files,
    name_problem,
    write_together,
)


def require_unborrowed(files: Sequence[FileField], home: Path) -> None:
    """Refuse to read a candidate of another run as the user's text."""
    for file in files:
        if (owner := borrower_of(file.home, borrowed_folder(home))) is not None:
            raise RunLocked(
                f"the prompt file {file.shown} is in use by process {owner.pid} on {owner.host}, "
                "which has a candidate in it",
                remedy="Wait until it ends, or stop it.",
            )


MaxChars: TypeAlias = int | Mapping[str, int] | None
Frozen: TypeAlias = Mapping[str, Sequence[str]]


def surfaces_of(
    values: Mapping[str, str], *, max_chars: MaxChars, frozen: Frozen
) -> tuple[TextSurface, ...]:
    """One surface per field; raises a ConfigError with all problems of the current texts."""
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
    names = [*values]
    problems = [
        Problem(where=f"{setting}.{name}", message="no such prompt field", remedy=near(name, names))
        for setting, named in (("max_chars", limits), ("frozen", frozen))
        for name in named
        if name not in values
    ]
    problems += [problem for each in surfaces for problem in each.problems(values[each.id])]
    if problems:
        raise ConfigError(problems)
    return surfaces


class TargetPrompt:
    """Prompt fields by name, in the order in which they were added."""

    def __init__(self) -> None:
        self._fields: dict[str, Field] = {}
        self._homes: dict[Path, str] = {}
        """The names of the fields that are files."""
        self._references: list[str] = []

    def add_path(self, name: str, path: str | os.PathLike[str]) -> Self:
        """Add a field that is a whole file."""
        self._require_name(name)
        field = FileField(name=name, shown=os.fspath(path), path=Path(path).absolute())
        other = self._homes.setdefault(field.home, name)
        if other != name:
            raise ValueError(f"the prompt fields '{other}' and '{name}' are the same file, {path}")
        self._fields[name] = field
        return self

    def add_callback(self, name: str, *, read: Read, write: Write) -> Self:
        """Add a field behind `async read() -> str` and `async write(text)`."""
        self._require_name(name)
        for what, function in (("read", read), ("write", write)):
            if not is_async(function):
                raise TypeError(f"the {what} function of the prompt field '{name}' is not async")
        self._fields[name] = CallbackField(name=name, read=read, write=write)
        return self

    def add_store(self, name: str, reference: str, *, folder: Path | None = None) -> Self:
        """Add a field that is kept elsewhere, such as `python:agent.py#PROMPT`.

        It is not overwritten if somebody else has changed it. Paths are relative to `folder`.
        """
        from burnish.targets.prompts.stores import prompt_store

        store = prompt_store(reference, folder=folder)
        self._references.append(reference)
        self.add_callback(name, read=store.read, write=store.write)
        self._fields[name] = CallbackField(
            name=name, read=store.read, write=store.write, source=store.place
        )
        return self

    def secrets(self) -> list[str]:
        """What variables bring into the addresses of stores."""
        return [*expanded_secrets([*self._references])]

    def names(self) -> list[str]:
        """The names of the fields, in the order in which they were added."""
        return list(self._fields)

    def describe_source(self, name: str) -> str:
        """The path as written, the place of a store, or `<callback>`."""
        field = self._field(name)
        return field.shown if isinstance(field, FileField) else field.source

    async def read(self, name: str) -> str:
        """Read the current text of a field."""
        field = self._field(name)
        return field.text() if isinstance(field, FileField) else await field.text()

    async def read_all(self) -> dict[str, str]:
        """Read the current text of every field."""
        return {name: await self.read(name) for name in self._fields}

    def read_files(self) -> dict[str, str]:
        """The same without awaiting, if all fields are files."""
        if self.callbacks:
            names = ", ".join(field.name for field in self.callbacks)
            raise TypeError(f"fields behind callbacks must be awaited: {names}")
        return {field.name: field.text() for field in self.files}

    async def write_all(self, prompts: Mapping[str, str]) -> None:
        """Write every field: files first, each atomically, then callbacks.

        If anything fails, the files are restored and the error is raised; RollbackError where one
        of them could not be restored. A callback that was called is not called again.
        """
        missing = [name for name in self._fields if name not in prompts]
        extra = [name for name in prompts if name not in self._fields]
        problems = [f"missing: {', '.join(missing)}"] * bool(missing)
        problems += [f"unknown: {', '.join(extra)}"] * bool(extra)
        if problems:
            raise ValueError(
                f"give a text for every prompt field, and for no other; {'; '.join(problems)}"
            )
        files = {
            field: encoded(prompts[field.name], field.content_if_readable(), field.path)
            for field in self.files
        }
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


async def write_back(
    prompts: TargetPrompt,
    values: Mapping[str, str],
    *,
    expected: Mapping[str, str],
    home: Path | None = None,
) -> None:
    """Write these texts to the fields, all or none, if every one still has the expected text."""
    with lock_files(prompts.files, home or state_folder()):
        changed = [name for name in prompts.names() if await prompts.read(name) != expected[name]]
        if changed:
            message = "it was changed in the meantime, so no field was written"
            advice = "compare both, and copy them yourself"
            remedy = f"the best texts are in the run's folder: {advice}"
            places = (f"'{name}' ({prompts.describe_source(name)})" for name in changed)
            raise ConfigError(
                [
                    Problem(where=f"prompt field {place}", message=message, remedy=remedy)
                    for place in places
                ]
            )
        with _undone_if_killed(prompts, values, expected, borrowed_folder(home)):
            try:
                await prompts.write_all(values)
            except BaseException:  # cancelled or failed, the texts are put back
                await _callbacks_back(prompts, values, expected)
                raise


@contextmanager
def _undone_if_killed(
    prompts: TargetPrompt, values: Mapping[str, str], expected: Mapping[str, str], folder: Path
) -> Generator[None, None, None]:
    """Let the next command restore the files after a kill, and the next load the callbacks."""
    behind = {field.name for field in prompts.callbacks}
    before = {field.home: field.content() for field in prompts.files}
    after = {
        field.home: encoded(values[field.name], before[field.home], field.path)
        for field in prompts.files
    }
    originals = {name: expected[name] for name in behind}
    lent = LentCallbacks(prompts.names(), originals, folder, for_good_with=after)
    lent.note({name: values[name] for name in behind})
    with undone_if_killed(before, after, folder) if len(values) > 1 else nullcontext():
        try:
            yield
        except RollbackError:
            raise  # the next load tries again
        except BaseException:  # cancelled or failed, nothing stays borrowed
            lent.forget()
            raise
    lent.forget()


async def _callbacks_back(
    prompts: TargetPrompt, values: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Restore the callbacks that took the new text; files are restored already."""
    failures: dict[str, Exception] = {}
    for field in prompts.callbacks:
        try:
            if await field.text() == values[field.name]:
                await field.put(expected[field.name])
        except Exception as error:  # noqa: BLE001 - the user's function: the others go on
            failures[field.name] = error
    if failures:
        raise RollbackError(failures, remedy="Check these fields, and restore them by hand.")
