"""Files that are whole or absent: atomic writes and links, appended lines, reads that explain."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from burnish.core.errors import FileTrouble
from burnish.system.file_trouble import file_trouble
from burnish.system.temporaries import is_abandoned, put_in_place


def write_atomic(
    path: Path, content: bytes | str, *, durable: bool = True, mode: int | None = None
) -> None:
    """Give `path` this content, or leave it exactly as it was.

    Writes through a symbolic link, as a plain write would. `durable` also survives a power cut.
    """
    payload = _encode(path, content) if isinstance(content, str) else content
    try:
        home = Path(os.path.realpath(path))
        kept = _mode_of(home)
        wanted = kept if mode is None else mode

        def make(spare: Path) -> None:
            _write_new(spare, payload, durable=durable, mode=wanted)
            if kept is not None:
                _keep_owner(home, spare)

        put_in_place(home, make)
        if durable:
            _sync_folder(home.parent)
    except OSError as error:
        raise file_trouble("write", path, error) from error


def link_atomic(link: Path, to: str) -> None:
    """Make `link` a symbolic link to `to`, replacing the link or file that was there."""
    try:
        put_in_place(link, lambda spare: spare.symlink_to(to))
    except OSError as error:
        raise file_trouble("link", link, error) from error


def append_line(path: Path, line: str) -> None:
    """Add one line; a crash leaves at most one torn line at the end."""
    assert "\n" not in line
    remaining = _encode(path, line + "\n")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "ab", buffering=0):
            # One write, unless the disk takes a part only: the next one then says why.
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
    except OSError as error:
        raise file_trouble("append to", path, error) from error


def read_bytes(path: Path) -> bytes:
    """What the file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise file_trouble("read", path, error) from error


def read_text(path: Path) -> str:
    """What the file holds, as UTF-8, its line ends untouched."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: it is not UTF-8 text (at byte {error.start})"
        raise FileTrouble(message, remedy="Save it as UTF-8.") from error


def remove_stale_temporaries(folder: Path, *, shared: bool = False) -> None:
    """Remove what a killed writer left in `folder`.

    Call it while nobody here writes there, or say that the folder is `shared`: then what
    looks like this process's own is left alone.
    """
    from burnish.system.workspaces.removal import remove_tree

    try:
        entries = list(folder.iterdir()) if folder.is_dir() else []
        for entry in entries:
            if not is_abandoned(entry.name, shared=shared):
                continue
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            else:
                entry.unlink(missing_ok=True)
    except OSError as error:
        raise file_trouble("clean", folder, error) from error


def _write_new(path: Path, payload: bytes, *, durable: bool, mode: int | None) -> None:
    first_mode = 0o666 if mode is None else 0o600
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first_mode)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(payload)
        file.flush()
        if durable:
            os.fsync(descriptor)


def _keep_owner(path: Path, spare: Path) -> None:
    """A file stays its owner's where root, or another of its group, writes it."""
    before, now = path.stat(), spare.stat()
    if (before.st_uid, before.st_gid) == (now.st_uid, now.st_gid):
        return
    # Whoever may not give it away could not have kept it by any other way of replacing it.
    with contextlib.suppress(PermissionError):
        os.chown(spare, before.st_uid, before.st_gid)
        spare.chmod(stat.S_IMODE(now.st_mode))


def _mode_of(path: Path) -> int | None:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return stat.S_IMODE(mode)
    # A rename would take the place of the device or pipe itself.
    raise FileTrouble(f"cannot write {path}: it is not a regular file", remedy="Name a file.")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems cannot sync a folder; there is nothing more to be had from them.
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


def _encode(path: Path, text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"cannot write {path}: character {error.start} is no valid text"
        raise FileTrouble(message, remedy="Remove the lone surrogate.") from error
