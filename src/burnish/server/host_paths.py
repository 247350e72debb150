"""Hides the paths of this machine and the addresses of databases from clients.

A message is written for clients first: the log has all of it, and a client gets what it can act on,
the name of a file and not its place. Results, reports and files of a run may contain absolute paths
too. So folders are also replaced in the bytes of every answer, and no route can forget it.
"""

import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeAlias

_Message: TypeAlias = MutableMapping[str, Any]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_BEFORE = rb"(?:(?<![\w.~%-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-f]{4}))"
"""A path does not begin inside a word; an escape of JSON is none."""
_AFTER = rb"(?![\w~%-]|\.\w)"

_ADDRESS = re.compile(
    r"\b(?:sqlite|postgres(?:ql)?|mysql|mariadb|memory)(?:\+\w+)?://[^\s'\"]*", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w/.:])(?:file://)?(/[^\s'\"`,;:()<>|]+)")


@dataclass(frozen=True)
class HostPaths:
    """The folders to hide, each with the word that stands for it."""

    words: Mapping[str, str]

    @classmethod
    def of(cls, data: Path, folders: Mapping[str, Path]) -> "HostPaths":
        """Those of a service: its data, its apps, and where it and Python are installed."""
        words: dict[str, str] = {}
        others = [Path(sys.prefix), Path(__file__).parents[1], Path.cwd(), Path.home()]
        for place, word in (
            (data, "{data}"),
            *((folder, f"{{{name}}}") for name, folder in folders.items()),
            *((other, "{host}") for other in others),
        ):
            for path in (place.absolute(), place.resolve()):
                if len(path.parts) > 2 or (len(path.parts) > 1 and word != "{host}"):
                    words.setdefault(str(path), word)
        return cls(words)

    def hidden(self, content: bytes) -> bytes:
        """The content without the folders."""
        if not self.words:
            return content
        return self._pattern.sub(lambda match: self._words[match[0]], content)

    def sending(self, send: _Send) -> _Send:
        """A `send` that hides the folders in the body, also if a path is cut between two parts."""
        start: list[_Message] = []
        rest = b""

        async def hiding(message: _Message) -> None:
            nonlocal rest
            if message["type"] == "http.response.start":
                start.append(message)
                return
            if message["type"] != "http.response.body":
                await send(message)
                return
            more = message.get("more_body", False)
            content = rest + message.get("body", b"")
            rest = self._unfinished(content) if more else b""
            content = self.hidden(content[: len(content) - len(rest)])
            if start:
                await send(_resized(start.pop(), None if more else len(content)))
            if content or not more:
                await send({**message, "body": content})

        return hiding

    @cached_property
    def _words(self) -> dict[bytes, bytes]:
        return {path.encode(): word.encode() for path, word in self.words.items()}

    @cached_property
    def _pattern(self) -> re.Pattern[bytes]:
        longest_first = sorted(map(re.escape, self._words), key=len, reverse=True)
        return re.compile(_BEFORE + b"(?:" + b"|".join(longest_first) + b")" + _AFTER)

    def _unfinished(self, content: bytes) -> bytes:
        """The end of a part that may be the beginning of a folder."""
        longest = max(map(len, self._words), default=0)
        for length in range(min(longest, len(content)), 0, -1):
            end = content[-length:]
            if any(path.startswith(end) for path in self._words):
                return end
        return b""


def _resized(start: _Message, size: int | None) -> _Message:
    """The head of an answer for a body of another size; None if it comes in parts."""
    headers: Iterable[tuple[bytes, bytes]] = start.get("headers", ())
    had = any(key.lower() == b"content-length" for key, _ in headers)
    others = [(key, value) for key, value in headers if key.lower() != b"content-length"]
    if size is not None and had:
        others.append((b"content-length", str(size).encode()))
    return {**start, "headers": others}


# -- Messages -------------------------------------------------------------------------------------


def public(text: str) -> str:
    """A message for clients: of a path on this machine only the last part is left."""
    text = _ADDRESS.sub("the database", text)
    for folder in _folders():
        # First, because folders may have spaces in their names.
        text = text.replace(f"{folder}{os.sep}", "")
    return _PATH.sub(_shortened, text)


def relative(content: bytes, folders: Iterable[Path]) -> bytes:
    """A file for clients: paths below these folders are relative to them."""
    for folder in folders:
        content = content.replace(f"{folder}{os.sep}".encode(), b"")
        content = content.replace(str(folder).encode(), b".")
    return content


def _shortened(match: re.Match[str]) -> str:
    path = match[1]
    top, _, rest = path[1:].partition("/")
    if top not in _root_entries():
        return match[0]  # an address of the service, such as /api/v1/apps
    return rest.rstrip("/.").rpartition("/")[2] or "…"


@cache
def _folders() -> tuple[str, ...]:
    """The folders that messages most often name, the longest first."""
    folders = {os.path.realpath(each) for each in (os.getcwd(), os.path.expanduser("~"))}  # noqa: PTH109, PTH111
    return tuple(sorted((each for each in folders if each.count("/") > 1), key=len, reverse=True))


@cache
def _root_entries() -> frozenset[str]:
    """What is in the root folder: only a path that begins with it can be one of this machine."""
    return frozenset(os.listdir("/"))  # noqa: PTH208
