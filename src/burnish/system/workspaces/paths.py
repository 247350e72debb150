"""Paths inside a workspace, the patterns that name them, and bounds on what may be edited."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

_LONGEST = 4096


def path_problem(path: str) -> str:
    """Why a path does not name a file inside a workspace; '' if it does."""
    if not path or "\0" in path or len(path) > _LONGEST:
        return "it is no path of a file"
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:", path):
        return "it does not start in the workspace"
    parts = path.split("/")
    if ".." in parts:
        return "it leads out of the folder it names ('..')"
    if "" in parts or "." in parts:
        return "it is not written plainly: '.', '//' and a '/' at the end are not allowed"
    if "\\" in path:
        return "it has a backslash: parts of a path are separated by '/'"
    if any(unicodedata.category(char) in ("Cc", "Cs") for char in path):
        return "it has characters that cannot be shown"
    return ""


def pattern_problem(pattern: str) -> str:
    """Why a pattern cannot be used; '' if it can."""
    plain = pattern.removesuffix("/")
    if not plain or plain.startswith(("/", "~")) or ".." in plain.split("/"):
        return "patterns are relative to the workspace and do not leave it"
    if "\\" in plain or "\0" in plain:
        return "parts of a pattern are separated by '/'"
    return ""


def shown(path: str) -> str:
    """A path as one line of text, whatever bytes it consists of."""
    readable = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in readable)


def look_alike(path: str) -> str:
    """One spelling for all paths that some file systems treat as the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns names this path itself.

    `*` matches anything but '/', `**` also folders, `x/` everything in x.
    """
    return _compiled(tuple(patterns)).fullmatch(path) is not None


def covers(patterns: Iterable[str], path: str) -> bool:
    """Whether one of the patterns names this path or one of its folders."""
    patterns = tuple(patterns)
    return any(matches(place, patterns) for place in (path, *folders_of(path)))


def folders_of(path: str) -> list[str]:
    """The folders of a path, the nearest first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts) - 1, 0, -1)]


def pattern_of(path: str) -> str:
    """The pattern that names this path and no other."""
    return re.sub(r"([*?\[])", r"[\1]", path)


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # Without a pattern nothing matches, not even an empty path.
    return re.compile("|".join(map(_expression, patterns)) or r"(?!)", re.DOTALL)


def _expression(pattern: str) -> str:
    whole = f"{pattern}**" if pattern.endswith("/") else pattern
    parts = whole.removeprefix("./").split("/")
    expression = ""
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        if part == "**":
            expression += ".*" if last else "(?:[^/]+/)*"
        else:
            expression += _part(part) + ("" if last else "/")
    return expression


def _part(part: str) -> str:
    expression, at = "", 0
    while at < len(part):
        char, at = part[at], at + 1
        if char == "*":
            expression += "" if part[at : at + 1] == "*" else "[^/]*"
        elif char == "?":
            expression += "[^/]"
        elif char == "[" and (end := part.find("]", at + 1)) > 0:
            chosen, at = part[at:end], end + 1
            negated = chosen[0] in "!^"
            inside = re.escape(chosen[negated:]).replace(r"\-", "-")
            expression += f"[{'^/' if negated else ''}{inside}]"
        else:
            expression += re.escape(char)
    return expression


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What one edit may change. Patterns are relative to the workspace and case-sensitive."""

    include: tuple[str, ...]
    """The artifacts: files that may be edited, created and removed."""
    exclude: tuple[str, ...] = ()
    """Files or whole folders that are not artifacts although `include` names them."""
    protect: tuple[str, ...] = ()
    """What neither an edit nor a run may touch, whatever else is allowed."""
    scratch: tuple[str, ...] = ()
    """Where commands may write anything, except artifacts."""
    file_types: tuple[str, ...] = ()
    """Suffixes such as '.md'; if empty, all are allowed."""
    max_files: int | None = None
    max_changed_lines: int | None = None
    max_file_bytes: int = 4 * 1024 * 1024

    def is_protected(self, path: str) -> bool:
        return covers(self.protect, path)

    def is_artifact(self, path: str) -> bool:
        """Whether this file may be edited."""
        if not matches(path, self.include) or covers(self.exclude, path):
            return False
        return not self.is_protected(path)

    def is_scratch(self, path: str) -> bool:
        """Whether changes of this path are ignored."""
        if self.is_protected(path) or self.is_artifact(path):
            return False
        return covers(self.scratch, path)

    def allows_type(self, path: str) -> bool:
        """Whether files of this type may be edited."""
        name = PurePosixPath(path).name
        return not self.file_types or any(name.endswith(ending) for ending in self.file_types)

    def artifacts_among(self, paths: Iterable[str]) -> list[str]:
        """The artifacts among these paths, sorted."""
        return sorted(path for path in paths if self.is_artifact(path))
