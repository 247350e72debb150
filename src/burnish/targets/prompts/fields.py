"""Prompt fields: texts in files or behind callbacks, written together or not at all."""

import inspect
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from burnish.core.content import short_id
from burnish.core.errors import FileTrouble, RollbackError, RunLocked
from burnish.system.borrowed_files import make_private_folder
from burnish.system.files import FileLock, file_trouble, read_bytes, write_atomic
from burnish.system.processes import Owner
from burnish.system.restoration import SCHEMA, PutBack, digest, records_in

Read: TypeAlias = Callable[[], Awaitable[str]]
Write: TypeAlias = Callable[[str], Awaitable[object]]

_BOM = b"\xef\xbb\xbf"


class UnreadableText(FileTrouble, ValueError):
    """A prompt is not valid text; a ValueError, as Python's own error for it is."""


class PromptFileTrouble(FileTrouble, OSError):
    """A prompt's file cannot be read or written; an OSError with the number of its cause."""


class PromptFileMissing(PromptFileTrouble, FileNotFoundError):
    """A prompt's file is not there."""


@contextmanager
def _as_os_errors() -> Generator[None, None, None]:
    """Raise what the system says about a file as an OSError too: callers catch those."""
    try:
        yield
    except FileTrouble as error:
        cause = error.__cause__
        if not isinstance(cause, OSError):
            raise
        kind = PromptFileMissing if isinstance(cause, FileNotFoundError) else PromptFileTrouble
        trouble = kind(error.message, remedy=error.remedy)
        trouble.errno, trouble.filename = cause.errno, cause.filename
        raise trouble from cause


@dataclass(frozen=True, kw_only=True)
class FileField:
    """A text that is a whole file."""

    name: str
    shown: str
    """The path as the user wrote it."""
    path: Path
    """The absolute path: the working folder may change."""

    @property
    def home(self) -> Path:
        """The real file behind symlinks."""
        return Path(os.path.realpath(self.path))

    def content(self) -> bytes:
        with _as_os_errors():
            return read_bytes(self.path)

    def content_if_readable(self) -> bytes:
        """Its content, or nothing: where it cannot be read, writing it will say why."""
        try:
            return self.path.read_bytes()
        except OSError:
            return b""

    def text(self) -> str:
        """The content as text, with its line ends."""
        return decoded(self.content(), self.path)


@dataclass(frozen=True, kw_only=True)
class CallbackField:
    """A text behind two functions of the user."""

    name: str
    read: Read
    write: Write
    source: str = "<callback>"

    async def text(self) -> str:
        """Read the current text."""
        pending = self.read()
        if not inspect.isawaitable(pending):
            raise TypeError(f"the read function of the prompt field '{self.name}' is not async")
        value = cast("object", await pending)
        if not isinstance(value, str):
            what = f"the read function of the prompt field '{self.name}'"
            raise TypeError(f"{what} returned {type(value).__name__}, not text")
        return value

    async def put(self, text: str) -> None:
        """Write a text."""
        written = self.write(text)
        if not inspect.isawaitable(written):
            raise TypeError(f"the write function of the prompt field '{self.name}' is not async")
        await written


Field: TypeAlias = FileField | CallbackField


def lock_files(files: Sequence[FileField], home: Path) -> ExitStack:
    """Lock all of the files or none; close the result to unlock them."""
    folder = home / "locks"
    with ExitStack() as locks:
        for file in sorted(files, key=lambda each: each.home):
            make_private_folder(folder)
            lock = folder / f"prompt-{digest(str(file.home).encode())[:32]}.lock"
            locks.enter_context(FileLock.acquire(lock, holding=f"the prompt file {file.shown}"))
        return locks.pop_all()


def decoded(content: bytes, path: Path) -> str:
    """A file's content as text, without a byte order mark."""
    try:
        return content.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: it is not UTF-8 text (at byte {error.start})"
        raise UnreadableText(message, remedy="Save it as UTF-8.") from error


def encoded(text: str, like: bytes, path: Path) -> bytes:
    """A text as file content with the byte order mark and line ends of `like`."""
    if b"\r\n" in like and "\r\n" not in text:
        text = text.replace("\n", "\r\n")
    try:
        content = text.encode()
    except UnicodeEncodeError as error:
        message = f"cannot write {path}: character {error.start} is not valid text"
        raise UnreadableText(message, remedy="Remove the lone surrogate.") from error
    return _BOM + content if like.startswith(_BOM) else content


def name_problem(name: str, taken: Iterable[str]) -> str:
    """Why a field cannot have this name, which is also a file name; empty if it can."""
    if not name or name != name.strip():
        return "it is empty, or starts or ends with a space"
    if name.startswith(".") or ".." in name:
        return "it starts with a dot or has two in a row"
    if any(mark in name for mark in '/\\:*?"<>|{}') or not name.isprintable():
        return "it has a character that is not allowed in a file name"
    # With an ending it must still be the name of a file.
    if len(name.encode(errors="replace")) > 200:
        return "it is longer than 200 bytes"
    same = next((each for each in taken if each.casefold() == name.casefold()), None)
    if same is not None:
        other = "" if same == name else ", with another case"
        return f"the field '{same}' already exists{other}"
    return ""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling a function returns an awaitable, as far as can be seen without calling it."""
    call = getattr(function, "__call__", None)  # noqa: B004 - asked for what it is, not whether
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        return True
    inner = function.func if isinstance(function, partial) else getattr(function, "__wrapped__", 0)
    return callable(inner) and is_async(inner)


class LentCallbacks:
    """What burnish has written behind the callbacks, and their original texts."""

    def __init__(
        self,
        names: Sequence[str],
        originals: Mapping[str, str],
        folder: Path,
        *,
        for_good_with: Mapping[Path, bytes] | None = None,
    ) -> None:
        """`for_good_with`: once these files have these contents, the texts are written for good."""
        self._names = list(names)
        self._files = {str(path): digest(body) for path, body in (for_good_with or {}).items()}
        self._originals = dict(originals)
        self._written: dict[str, set[str]] = {name: set() for name in originals}
        token = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._record = folder / f"callbacks-{_program(names)}-{token}.json"

    def note(self, texts: Mapping[str, str]) -> None:
        """Record what is about to be written."""
        new = {name: _mark(text) for name, text in texts.items()}
        if all(mark in self._written[name] for name, mark in new.items()):
            return
        for name, mark in new.items():
            self._written[name].add(mark)
        callbacks = {
            name: {"original": text, "written": sorted(self._written[name])}
            for name, text in self._originals.items()
        }
        owner = Owner.here().as_json()
        record = {"schema": SCHEMA, "owner": owner, "callbacks": callbacks, "files": self._files}
        make_private_folder(self._record.parent)
        write_atomic(self._record, json.dumps(record), mode=0o600)

    async def put_back(self, field: CallbackField) -> PutBack | None:
        """Restore a field if it holds a text of ours; None if there was nothing to do."""
        entry = {"original": self._originals[field.name], "written": self._written[field.name]}
        return await _put_back(field, entry)

    def forget(self) -> None:
        """Remove the record: everything is restored."""
        self._record.unlink(missing_ok=True)


async def recall(
    names: Sequence[str], fields: Sequence[CallbackField], folder: Path
) -> tuple[str, ...]:
    """Restore what a killed run of this program left behind these callbacks; return what was done.

    Raises RunLocked where a field holds a text of a run that is still active.
    """
    done: list[str] = []
    for record, data in records_in(folder, f"callbacks-{_program(names)}-*.json") if fields else ():
        owner = Owner.parse(data["owner"])
        gone = owner.is_gone(record)
        for field in () if gone and _is_for_good(data.get("files", {})) else fields:
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


def _is_for_good(files: Mapping[str, str]) -> bool:
    """Whether a write-back that was killed had written its files for good, and so its callbacks.

    The files come first: those of a write-back that was cut are restored by now.
    """
    paths = {Path(path): mark for path, mark in files.items()}
    return bool(paths) and all(
        path.is_file() and digest(path.read_bytes()) == mark for path, mark in paths.items()
    )


async def _put_back(field: CallbackField, entry: Mapping[str, Any]) -> PutBack | None:
    now = await field.text()
    if now == entry["original"]:
        return None
    if _mark(now) not in entry["written"]:
        why = "it was changed in the meantime, so it was left alone"
        return PutBack(path=field.name, fate="left alone", message=why)
    await field.put(entry["original"])
    return PutBack(path=field.name, fate="put back", message="the original text was restored")


async def _require_free(field: CallbackField, entry: Mapping[str, Any], owner: Owner) -> None:
    now = await field.text()
    if now != entry["original"] and _mark(now) in entry["written"]:
        raise RunLocked(
            f"the prompt field '{field.name}' is in use by process {owner.pid} on {owner.host}",
            remedy="Wait until it ends, or stop it.",
        )


def _mark(text: str) -> str:
    return digest(text.encode(errors="surrogatepass"))


def _program(names: Sequence[str]) -> str:
    """Identifies this program with these fields across restarts."""
    started = sys.argv[0] if sys.argv else ""
    return short_id([os.path.realpath(started), list(names)])


async def write_together(
    files: Mapping[FileField, bytes], callbacks: Mapping[CallbackField, str]
) -> None:
    """Write every field, or leave every file as it was.

    Callbacks come last, in order; those already called are not called again after an error.
    """
    done: list[tuple[FileField, bytes | None]] = []
    try:
        for field, content in files.items():
            with _as_os_errors():
                done.append((field, _overwritten(field, content)))
        for field, text in callbacks.items():
            await field.put(text)
    except BaseException:  # cancelled or failed, all fields change or none
        _roll_back(done)
        raise


def _overwritten(field: FileField, content: bytes) -> bytes | None:
    """Write a file; what was there before, or None."""
    try:
        before = field.path.read_bytes()
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise file_trouble("read", field.path, error) from error
    write_atomic(field.path, content)
    return before


def _roll_back(done: list[tuple[FileField, bytes | None]]) -> None:
    failures: dict[str, Exception] = {}
    for field, before in reversed(done):
        try:
            if before is None:
                field.home.unlink(missing_ok=True)
            else:
                write_atomic(field.path, before)
        except FileTrouble as error:
            failures[field.name] = error
        except OSError as error:
            failures[field.name] = file_trouble("remove", field.path, error)
    if failures:
        raise RollbackError(failures, remedy="Check these files, and restore them by hand.")
