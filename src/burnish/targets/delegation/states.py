"""States of a workspace, kept by content: a manifest a state, a blob a file."""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import quote_from_bytes, unquote_to_bytes

from burnish.core.codec import codec
from burnish.core.content import canonical
from burnish.core.errors import JournalTrouble
from burnish.system import read_bytes, write_atomic
from burnish.system.files import file_trouble, put_in_place
from burnish.system.workspaces import remove_tree, snapshot
from burnish.system.workspaces.paths import covers
from burnish.targets.artifacts.workspace import CACHES


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One entry of a state."""

    kind: Literal["file", "folder", "link"]
    mode: int = 0
    content: str = ""
    """The digest of a file, the target of a link, quoted as paths are."""
    size: int = 0


@dataclass(frozen=True)
class StateStore:
    """Keeps states of one workspace in a folder beside it, and puts them back.

    Caches that programs leave behind are not part of a state; neither are pipes and sockets.
    """

    home: Path
    _known: dict[str, Mapping[str, Kept]] = field(
        default_factory=dict[str, Mapping[str, Kept]], compare=False, repr=False
    )

    def keep(self, folder: Path) -> str:
        """Keep what the folder holds now; the name of the state, which is a hash of it."""
        _make_readable(folder)
        entries = dict(self._entries(folder))
        listed = canonical({_quoted(p): codec(Kept).encode(k) for p, k in entries.items()})
        name = hashlib.sha256(listed).hexdigest()
        path = self.home / f"{name}.json"
        if not path.exists():
            for file, kept in entries.items():
                self._keep_blob(folder / file, kept)
            self.home.mkdir(parents=True, exist_ok=True)
            write_atomic(path, listed)
        self._known[name] = entries
        return name

    def entries(self, state: str) -> Mapping[str, Kept]:
        """What a state holds, by path."""
        if state not in self._known:
            try:
                listed = json.loads(read_bytes(self.home / f"{state}.json"))
                found = {_plain(p): codec(Kept).decode(kept) for p, kept in listed.items()}
            except ValueError as error:
                raise self._lost(state) from error
            self._known[state] = found
        return self._known[state]

    def files(self, state: str) -> list[str]:
        """The paths of its files."""
        return [path for path, kept in self.entries(state).items() if kept.kind == "file"]

    def read(self, state: str, path: str) -> bytes:
        """What a file of a state holds."""
        kept = self.entries(state)[path]
        content = read_bytes(self.home / "blobs" / kept.content)
        if hashlib.sha256(content).hexdigest() != kept.content:
            raise self._lost(state)
        return content

    def restore(self, state: str, folder: Path) -> None:
        """Make the folder hold exactly this state."""
        entries = self.entries(state)
        if folder.is_dir() and dict(self._entries(folder, whole=True)) == dict(entries):
            return
        if os.path.lexists(folder) and not remove_tree(folder):
            raise JournalTrouble(f"the workspace {folder} cannot be cleared")
        try:
            folder.mkdir(parents=True)
            for path, kept in entries.items():
                self._put(state, folder, path, kept)
            # Last, and the deepest first: a folder that may not be written could not be filled.
            for path, kept in sorted(entries.items(), reverse=True):
                if kept.kind == "folder":
                    (folder / path).chmod(kept.mode)
        except OSError as error:
            raise file_trouble("put back", folder, error) from error

    def _put(self, state: str, folder: Path, path: str, kept: Kept) -> None:
        place = folder / path
        if kept.kind == "folder":
            place.mkdir(parents=True, exist_ok=True)
        elif kept.kind == "link":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(_plain(kept.content))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(self.read(state, path))
            place.chmod(kept.mode)

    def _entries(self, folder: Path, *, whole: bool = False) -> Iterator[tuple[str, Kept]]:
        seen = snapshot(folder, leave_out=None if whole else lambda path: covers(CACHES, path))
        for path, entry in seen.entries.items():
            if entry.kind == "link":
                target = _quoted(str((folder / path).readlink()))
                yield path, Kept(kind="link", content=target)
            elif entry.kind == "file":
                told = entry.digest
                yield path, Kept(kind="file", mode=entry.mode, content=told, size=entry.size)
            elif entry.kind == "folder":
                yield path, Kept(kind="folder", mode=entry.mode)

    def _keep_blob(self, file: Path, kept: Kept) -> None:
        if kept.kind != "file" or (blob := self.home / "blobs" / kept.content).exists():
            return
        blob.parent.mkdir(parents=True, exist_ok=True)
        put_in_place(blob, lambda spare: _copied(file, spare))

    def _lost(self, state: str) -> JournalTrouble:
        return JournalTrouble(
            f"the workspace's state {state[:12]} in {self.home} is damaged",
            remedy="restore the run's folder from a backup, or start a new run",
        )


def _copied(file: Path, spare: Path) -> None:
    """On disk when this returns: the journal is about to rely on it."""
    with file.open("rb") as origin, spare.open("xb") as copy:
        shutil.copyfileobj(origin, copy, 1024 * 1024)
        copy.flush()
        os.fsync(copy.fileno())


def _make_readable(folder: Path) -> None:
    """A command may have taken all rights from its files; here they are the run's own."""
    for inside, folders, files in os.walk(folder):
        for name in folders:
            _allow(Path(inside) / name, 0o700)
        for name in files:
            _allow(Path(inside) / name, 0o400)


def _allow(path: Path, rights: int) -> None:
    with contextlib.suppress(OSError):
        mode = path.lstat().st_mode
        if not path.is_symlink() and mode & rights != rights:
            path.chmod((mode | rights) & 0o777)


def _quoted(path: str) -> str:
    """A path in letters that JSON and every file system know, whatever bytes it is made of."""
    return quote_from_bytes(os.fsencode(path), safe="/ ")


def _plain(path: str) -> str:
    return os.fsdecode(unquote_to_bytes(path))
