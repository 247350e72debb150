"""Prompt fields: texts in files or behind callbacks, written together or not at all."""

import inspect
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from burnish.core.content import short_id
from burnish.core.errors import FileTrouble, RollbackError, RunLocked
from burnish.system.borrowed_files import make_private_folder
from burnish.system.files import file_trouble, read_bytes, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, PutBack, digest, records_in

Read: TypeAlias = Callable[[], Awaitable[str]]
Write: TypeAlias = Callable[[str], Awaitable[object]]

_BOM = b"\xef\xbb\xbf"
_LONGEST_NAME = 200
"""In bytes; with an ending it must still be the name of a file."""


@dataclass(frozen=True, kw_only=True)
class FileField:
    """A text that is a whole file."""

    name: str
    shown: str
    """The path as it was given."""
    path: Path
    """The same, absolute: where the program stands may change."""

    @property
    def home(self) -> Path:
        """Where the file really lies: links are followed."""
        return Path(os.path.realpath(self.path))

    def content(self) -> bytes:
        """What the file holds."""
        return read_bytes(self.path)

    def text(self) -> str:
        """The same as text, its line ends untouched."""
        return decoded(self.content(), self.path)


@dataclass(frozen=True, kw_only=True)
class CallbackField:
    """A text that two functions of the user read and write."""

    name: str
    read: Read
    write: Write

    async def text(self) -> str:
        """What stands there now."""
        pending = self.read()
        if not inspect.isawaitable(pending):
            raise TypeError(f"the read function of the prompt field '{self.name}' is not async")
        return _as_text(await pending, self.name)

    async def put(self, text: str) -> None:
        """Let the user's function write a text."""
        written = self.write(text)
        if not inspect.isawaitable(written):
            raise TypeError(f"the write function of the prompt field '{self.name}' is not async")
        await written


Field: TypeAlias = FileField | CallbackField


def _as_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        kind = type(value).__name__
        raise TypeError(f"the read function of the prompt field '{name}' gave {kind}, not text")
    return value


def decoded(content: bytes, path: Path) -> str:
    """A file's content as text, without the mark that some editors put before it."""
    try:
        return content.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: it is not UTF-8 text (at byte {error.start})"
        raise FileTrouble(message, remedy="Save it as UTF-8.") from error


def encoded(text: str, like: bytes, path: Path) -> bytes:
    """A text as the content of a file that looks `like` this: its mark and its line ends stay."""
    if b"\r\n" in like and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        message = f"cannot write {path}: character {error.start} is no valid text"
        raise FileTrouble(message, remedy="Remove the lone surrogate.") from error
    return _BOM + content if like.startswith(_BOM) else content


def name_problem(name: str, taken: Iterable[str]) -> str:
    """Why a field cannot have this name, which is also that of a file; empty where it can."""
    if not name or name != name.strip():
        return "it is empty, or begins or ends with a space"
    if name.startswith(".") or ".." in name:
        return "it begins with a dot or has two in a row"
    if any(mark in name for mark in '/\\:*?"<>|{}') or not name.isprintable():
        return "it has a character that does not belong into the name of a file"
    if len(name.encode(errors="replace")) > _LONGEST_NAME:
        return f"it is longer than {_LONGEST_NAME} bytes"
    same = next((each for each in taken if each.casefold() == name.casefold()), None)
    if same is not None:
        return f"there is a field '{same}' already" + ("" if same == name else ", but for its case")
    return ""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await, as far as can be told without calling it."""
    call = getattr(function, "__call__", None)  # noqa: B004 - asked for what it is, not whether
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return True
    inner = function.func if isinstance(function, partial) else getattr(function, "__wrapped__", 0)
    return callable(inner) and is_async(inner)


# -- Fields behind callbacks that a killed run left changed ---------------------------------------


class LentCallbacks:
    """What burnish has written behind the callbacks, and what is theirs."""

    def __init__(self, names: Sequence[str], originals: Mapping[str, str], folder: Path) -> None:
        self._names = list(names)
        self._originals = dict(originals)
        self._written: dict[str, set[str]] = {name: set() for name in originals}
        token = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._record = folder / f"callbacks-{_program(names)}-{token}.json"

    def note(self, texts: Mapping[str, str]) -> None:
        """Put on record what is about to be written."""
        new = {name: _mark(text) for name, text in texts.items()}
        if all(mark in self._written[name] for name, mark in new.items()):
            return
        for name, mark in new.items():
            self._written[name].add(mark)
        callbacks = {
            name: {"original": text, "written": sorted(self._written[name])}
            for name, text in self._originals.items()
        }
        record = {"schema": SCHEMA, "owner": Owner.here().as_json(), "callbacks": callbacks}
        make_private_folder(self._record.parent)
        write_atomic(self._record, json.dumps(record), mode=0o600)

    async def put_back(self, field: CallbackField) -> PutBack | None:
        """Give a field its own text back where it holds one of ours; None where it has it."""
        entry = {"original": self._originals[field.name], "written": self._written[field.name]}
        return await _put_back(field, entry)

    def forget(self) -> None:
        """All is back: the record is not needed any more."""
        self._record.unlink(missing_ok=True)


async def recall(
    names: Sequence[str], fields: Sequence[CallbackField], folder: Path
) -> tuple[str, ...]:
    """Put back what a killed run of this program left behind these callbacks; what was done.

    Raises RunLocked where a field holds a text of a run that is still under way.
    """
    done: list[str] = []
    for record, data in records_in(folder, f"callbacks-{_program(names)}-*.json") if fields else ():
        owner = Owner.parse(data["owner"])
        gone = owner.is_gone(record)
        for field in fields:
            entry = data["callbacks"].get(field.name)
            if entry is None:
                continue  # the program has changed since: this was a file then
            if not gone:
                await _require_free(field, entry, owner)
            elif (fate := await _put_back(field, entry)) is not None:
                done.append(f"prompt field {fate} (a killed run had changed it)")
        if gone:
            record.unlink(missing_ok=True)
    return tuple(done)


async def _put_back(field: CallbackField, entry: Mapping[str, Any]) -> PutBack | None:
    now = await field.text()
    if now == entry["original"]:
        return None
    if _mark(now) not in entry["written"]:
        why = "somebody changed it meanwhile, so it was left alone"
        return PutBack(path=field.name, fate="left alone", message=why)
    await field.put(entry["original"])
    return PutBack(path=field.name, fate="put back", message="its own text was put back")


async def _require_free(field: CallbackField, entry: Mapping[str, Any], owner: Owner) -> None:
    now = await field.text()
    if now != entry["original"] and _mark(now) in entry["written"]:
        message = (
            f"the prompt field '{field.name}' is in use by process {owner.pid} on {owner.host}"
        )
        raise RunLocked(message, remedy="Wait until it ends, or end it.")


def _mark(text: str) -> str:
    return digest(text.encode(errors="surrogatepass"))


def _program(names: Sequence[str]) -> str:
    """This program with these fields: what a later start of it has in common with this one."""
    started = sys.argv[0] if sys.argv else ""
    return short_id([os.path.realpath(started), list(names)])


# -- Writing several fields together --------------------------------------------------------------


async def write_together(
    files: Mapping[FileField, bytes], callbacks: Mapping[CallbackField, str]
) -> None:
    """Give every field its content, or leave every file as it was.

    Callbacks come last, in order; those that were called are not called again on trouble.
    """
    done: list[tuple[FileField, bytes | None]] = []
    try:
        for field, content in files.items():
            before = _content(field)
            write_atomic(field.path, content)
            done.append((field, before))
        for field, text in callbacks.items():
            await field.put(text)
    except BaseException:
        _roll_back(done)
        raise


def _roll_back(done: list[tuple[FileField, bytes | None]]) -> None:
    failures: dict[str, Exception] = {}
    for field, before in reversed(done):
        try:
            _restore(field, before)
        except FileTrouble as error:
            failures[field.name] = error
    if failures:
        raise RollbackError(failures, remedy="Look at these files, and put them back by hand.")


def _content(field: FileField) -> bytes | None:
    """What the file holds; None where there is none."""
    try:
        return field.path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise file_trouble("read", field.path, error) from error


def _restore(field: FileField, before: bytes | None) -> None:
    if before is not None:
        write_atomic(field.path, before)
        return
    try:
        field.home.unlink(missing_ok=True)
    except OSError as error:
        raise file_trouble("remove", field.path, error) from error
