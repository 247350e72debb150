"""Prompt fields: a text with a name that lies in a file, or behind two functions of the user."""

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from burnish.core.errors import FileTrouble
from burnish.system.files import read_bytes

Read: TypeAlias = Callable[[], Awaitable[str]]
Write: TypeAlias = Callable[[str], Awaitable[object]]

_BOM = b"\xef\xbb\xbf"
_LONGEST_NAME = 200
"""In bytes; with an ending it must still be the name of a file."""


@dataclass(frozen=True, kw_only=True)
class FileField:
    """A text that is a whole file."""

    name: str
    given: str
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
        found = self.read()
        if not inspect.isawaitable(found):
            raise TypeError(f"the read function of the prompt field '{self.name}' is not async")
        return _as_text(await found, self.name)

    async def put(self, text: str) -> None:
        """Let the user's function write a text."""
        written = self.write(text)
        if not inspect.isawaitable(written):
            raise TypeError(f"the write function of the prompt field '{self.name}' is not async")
        await written


Field: TypeAlias = FileField | CallbackField


def _as_text(found: object, name: str) -> str:
    if not isinstance(found, str):
        kind = type(found).__name__
        raise TypeError(f"the read function of the prompt field '{name}' gave {kind}, not text")
    return found


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
