"""The contents of a folder at one moment, what differs later, and paths and bounds in it."""

import contextlib
import errno
import hashlib
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from burnish.system.files import file_trouble

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


_ChangeKind: TypeAlias = Literal["added", "removed", "content", "mode", "kind", "links"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One name in a folder."""

    kind: Literal["file", "folder", "link", "other"]
    mode: int = 0
    digest: str = ""
    """The hash of a file's content or a link's target, or a note if it could not be read."""
    size: int = 0
    links: int = 1
    """How many names a file has; with more than one, a change here is a change elsewhere."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All entries below a folder, by path relative to it."""

    entries: Mapping[str, Entry]

    @property
    def files(self) -> list[str]:
        return [path for path, entry in self.entries.items() if entry.kind == "file"]


def snapshot(folder: Path, *, leave_out: Callable[[str], bool] | None = None) -> Snapshot:
    """Read everything below `folder` without following links; `leave_out` says what to skip.

    Take it while nothing runs there: what changes while it is read counts as changed.
    """
    entries: dict[str, Entry] = {}
    todo = [""]
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise file_trouble("read", folder, error) from error
    while todo:
        inside = todo.pop()
        for name in _names(folder / inside if inside else folder, entries, inside):
            path = f"{inside}/{name}" if inside else name
            if leave_out is not None and leave_out(path):
                continue
            entries[path] = entry = _entry(folder / path)
            if entry.kind == "folder":
                todo.append(path)
    return Snapshot(entries=dict(sorted(entries.items())))


def read_contents(folder: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """The contents of these files; non-files are left out, and links, also of a folder on the way.

    A command may have put a link there to a file that only burnish can read.
    """
    contents: dict[str, bytes] = {}
    for path in paths:
        *above, name = path.split("/")
        with (
            contextlib.suppress(OSError),
            entered(folder, above) as place,
            os.fdopen(_open(name, inside=place), "rb") as file,
        ):
            contents[path] = file.read()
    return contents


@contextlib.contextmanager
def entered(folder: Path, above: Sequence[str], *, make: bool = False) -> Generator[int]:
    """The folder of a file, opened step by step so that no link is followed."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in above:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
            there = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)


def _names(folder: Path, entries: dict[str, Entry], inside: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError as error:
        # What cannot be looked into may hold anything; its content then counts as gone.
        entries[inside] = Entry(kind="folder", digest=f"unreadable: {error.strerror}")
        return []


def _entry(path: Path) -> Entry:
    try:
        status = path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            return Entry(kind="folder", mode=mode)
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(path.readlink())
            return Entry(kind="link", digest=hashlib.sha256(target).hexdigest(), size=len(target))
    except OSError as error:
        return Entry(kind="other", digest=f"unreadable: {error.strerror}")
    if not stat.S_ISREG(status.st_mode):
        return Entry(kind="other", mode=status.st_mode)
    digest = _digest(path, status)
    return Entry(kind="file", mode=mode, digest=digest, size=status.st_size, links=status.st_nlink)


def _digest(path: Path, status: os.stat_result) -> str:
    try:
        for _ in range(3):
            with os.fdopen(_open(path), "rb", buffering=0) as file:
                before = _stamp(os.fstat(file.fileno()))
                digest = hashlib.sha256()
                while part := file.read(1024 * 1024):
                    digest.update(part)
                if _stamp(os.fstat(file.fileno())) == before:
                    return digest.hexdigest()
    except OSError:
        return f"unreadable: {_stamp(status)}"
    return f"changing: {_stamp(path.lstat())}"


def _stamp(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _open(path: Path | str, *, inside: int | None = None) -> int:
    # Neither follows a link nor waits for the other end of a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inside)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, "not a file", str(path))
    return descriptor


@dataclass(frozen=True, kw_only=True)
class EntryChange:
    """One changed entry, with the first kind of difference that applies."""

    path: str
    kind: _ChangeKind
    before: Entry | None = None
    after: Entry | None = None
    renamed_from: str = ""
    """Where an added file with the same content was before."""

    @property
    def is_folder(self) -> bool:
        return {entry.kind for entry in (self.before, self.after) if entry} == {"folder"}


def diff_snapshots(before: Snapshot, after: Snapshot) -> list[EntryChange]:
    """Every entry that was added, removed or changed, by path."""
    changes: list[EntryChange] = []
    gone = {
        entry.digest: path
        for path, entry in before.entries.items()
        if entry.kind == "file" and path not in after.entries
    }
    for path in sorted({*before.entries, *after.entries}):
        old, new = before.entries.get(path), after.entries.get(path)
        kind = _kind(old, new)
        if kind is not None:
            source = gone.get(new.digest, "") if kind == "added" and new and new.size else ""
            changes.append(
                EntryChange(path=path, kind=kind, before=old, after=new, renamed_from=source)
            )
    return changes


def _kind(old: Entry | None, new: Entry | None) -> _ChangeKind | None:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old == new:
        return None
    if old.kind != new.kind:
        return "kind"
    if (old.digest, old.size) != (new.digest, new.size):
        return "content"
    return "mode" if old.mode != new.mode else "links"
