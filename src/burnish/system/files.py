"""Files that are complete or absent, temporary files, locks on paths, and errors in plain words."""

import contextlib
import errno
import fcntl
import itertools
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from io import FileIO
from pathlib import Path, PurePath
from typing import Self

from burnish.core.errors import FileTrouble, RunLocked

_CAUSES = {
    errno.ENOSPC: ("the disk is full", "Free some space and try again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space and try again."),
    errno.EFBIG: ("the file would exceed the size limit", "Raise the limit: see `ulimit -f`."),
    errno.EROFS: ("the file system is read-only", "Choose a folder that can be written to."),
    errno.EACCES: ("permission denied", "Check who owns it and its mode: `ls -ld`."),
    errno.EPERM: ("permission denied", "Check who owns it and its mode: `ls -ld`."),
    errno.ENOENT: ("it does not exist", "Check the path, and that its folder exists."),
    errno.ENOTDIR: ("a part of its path is a file, not a folder", "Check the path."),
    errno.EISDIR: ("it is a folder, not a file", "Name a file."),
    errno.ENAMETOOLONG: ("its name is too long", "Choose a shorter name."),
    errno.ELOOP: ("its symbolic links form a loop", "Fix the links."),
    errno.EMFILE: ("too many files are open", "Raise the limit: see `ulimit -n`."),
    errno.ENOLCK: ("this file system has no locks", "Put the run on a local disk."),
    errno.EOPNOTSUPP: ("this file system cannot do that", "Put the run on a local disk."),
}
_SPARE_NAME = re.compile(r"\.(?P<pid>\d{1,10})-[0-9a-f]{16}\.burnish-tmp")
_MOUNTS = Path("/proc/self/mounts")
_STREAM = re.compile(r"/dev/(fd/)?[^/]+$|/proc/")
"""Names of pipes and devices that are meant: /dev/stdin, and what a shell makes of `<(…)`."""
_NOT_REGULAR = "it is not a regular file"
_OCTAL = re.compile(r"\\([0-7]{3})")
_REMOTE = re.compile(
    r"(fuse\.)?"
    r"(9p|afs|beegfs|ceph|ceph-fuse|cifs|coda|gcsfuse|glusterfs|goofys|gpfs|juicefs|lustre|mount-s3"
    r"|nfs4?|orangefs|rclone|s3fs|smb2|smb3|smbfs|sshfs|webdavfs)"
)


def state_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder for the state of this machine: $BURNISH_HOME, or in the user's state folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home)
    state = env.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "burnish"


class Unreadable(Exception):
    """Why a document cannot be read; callers that know its name turn it into an error."""

    def __init__(self, cause: str, *, remedy: str) -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy


def chosen_pages(pages: Sequence[int], count: int, thing: str) -> Sequence[int]:
    """The numbers of the pages or slides to read: the given ones, otherwise all."""
    beyond = [page for page in pages if not 1 <= page <= count]
    if beyond:
        listed = ", ".join(map(str, beyond[:10]))
        has = f"it has {count} {thing}{'' if count == 1 else 's'}"
        raise Unreadable(f"there is no {thing} {listed}: {has}", remedy="Correct its `pages`.")
    return list(dict.fromkeys(pages)) or range(1, count + 1)


def file_trouble(action: str, path: Path, error: OSError) -> FileTrouble:
    """The error to raise when `action` ('write', 'read', …) on `path` failed."""
    unknown = (error.strerror or str(error), "Check the path and the disk.")
    cause, remedy = _CAUSES.get(error.errno or 0, unknown)
    path = Path(f"{str(path)[:200]}…") if len(str(path)) > 1000 else path
    return FileTrouble(f"cannot {action} {path}: {cause}", remedy=remedy)


def spare_beside(path: Path) -> Path:
    """A temporary name in the same folder.

    It does not contain the name of the target, which may already have 255 bytes.
    """
    return path.parent / f".{os.getpid()}-{secrets.token_hex(8)}.burnish-tmp"


def put_in_place(path: Path, make: Callable[[Path], None]) -> None:
    """Let `make` create a spare file beside `path`, then rename it to `path`."""
    spare = spare_beside(path)
    try:
        make(spare)
        spare.replace(path)
    except BaseException:  # Ctrl-C too: no spare file stays
        with contextlib.suppress(OSError):
            spare.unlink(missing_ok=True)
        raise


def _is_abandoned(name: str, *, shared: bool = False) -> bool:
    """Whether this is the name of a temporary file whose writer is gone.

    In a container an earlier process may have had our process id, so a file with it is abandoned,
    unless the folder is `shared` with others in this process.
    """
    match = _SPARE_NAME.fullmatch(name)
    if match is None:
        return False
    pid = int(match["pid"])
    return not shared if pid == os.getpid() else not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def write_atomic(
    path: Path,
    content: bytes | str | Sequence[bytes | str],
    *,
    durable: bool = True,
    mode: int | None = None,
) -> None:
    """Give `path` this content, which may be in pieces, or leave it exactly as it was.

    Follows a symbolic link, as a plain write would: for a folder that may be from somebody else,
    there is `write_inside`. `durable` also survives a power cut.
    """
    pieces = [content] if isinstance(content, bytes | str) else content
    payload = [_encode(path, each) if isinstance(each, str) else each for each in pieces]
    try:
        home = Path(os.path.realpath(path))
        current = _mode_of(home)
        new_mode = current if mode is None else mode

        def make(spare: Path) -> None:
            _write_new(spare, payload, durable=durable, mode=new_mode)
            if current is not None:
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
    """Append one line; a crash leaves at most one torn line at the end."""
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


def place_inside(folder: Path, name: str | PurePath) -> Path:
    """Where to write a file of a folder that may be from somebody else: nothing leads out of it.

    Missing folders in it are made. A link, a pipe or a device in its place, or in that of a folder
    on the way, is removed; a file with other names too, which are hard links, becomes a copy.
    """
    place, parts = folder, PurePath(name).parts
    if ".." in parts or PurePath(name).is_absolute():
        raise FileTrouble(f"cannot write {name}: it is not in {folder}", remedy="Correct the path.")
    with translated("write", folder / name):
        for part in parts:
            if place != folder:
                place.mkdir(exist_ok=True)
            place /= part
            _remove_lead(place)
    return place


def write_inside(
    folder: Path, name: str, content: bytes | str | Sequence[bytes | str], *, durable: bool = True
) -> Path:
    """Write a file of a folder that may be from somebody else; return where it is.

    Atomic, like `write_atomic`; nothing leads out of the folder, as `place_inside` says.
    """
    path = place_inside(folder, name)
    write_atomic(path, content, durable=durable)
    return path


def update_inside(folder: Path, name: str, content: bytes) -> None:
    """Write a file as `write_inside` does, unless it has this content."""
    path = place_inside(folder, name)
    if not path.exists() or read_bytes(path) != content:
        write_atomic(path, content)


def leads_inside(folder: Path, name: str) -> bool:
    """Whether a name of a file of a folder, and the links on its way, do not lead out of it."""
    with contextlib.suppress(ValueError):  # no file can have such a name
        home = Path(os.path.realpath(folder))
        return Path(os.path.realpath(home / name)).is_relative_to(home)
    return False


def _remove_lead(path: Path) -> None:
    """Remove what is neither a folder nor a file of its own."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        path.unlink()
    elif found.st_nlink > 1:
        put_in_place(path, partial(_copy, path))


def _copy(path: Path, spare: Path) -> None:
    shutil.copy2(path, spare)


def read_bytes(path: Path) -> bytes:
    """Read a file. A pipe or a device, which may block or never end, must be named in /dev."""
    with translated("read", path):
        return path.read_bytes() if _STREAM.match(str(path)) else _read_regular(path)


def _read_regular(path: Path) -> bytes:
    # Opening a pipe would wait for who writes into it.
    with FileIO(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileTrouble(f"cannot read {path}: {_NOT_REGULAR}", remedy="Name a file.")
        return file.read()


@contextlib.contextmanager
def translated(action: str, path: Path) -> Generator[None]:
    """Raise FileTrouble for whatever the system says about a path, its own file or another."""
    try:
        yield
    except OSError as error:
        raise file_trouble(action, Path(error.filename or path), error) from error
    except ValueError as error:
        # No file can have such a name: a null character, or half a surrogate pair.
        if isinstance(error, UnicodeEncodeError) or "null" in str(error):
            shown = str(path).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
            message = f"cannot {action} {shown}: no file can have such a name"
            raise FileTrouble(message, remedy="Correct the path.") from error
        raise


def read_text(path: Path) -> str:
    """Read a file as UTF-8, with its line ends unchanged."""
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"cannot read {path}: it is not UTF-8 text (at byte {error.start})"
        raise FileTrouble(message, remedy="Save it as UTF-8.") from error


def remove_stale_temporaries(folder: Path, *, shared: bool = False) -> None:
    """Remove what a killed writer left in `folder`.

    Call it while nothing here writes there, or pass `shared` to leave this process's files alone.
    """
    try:
        entries = list(folder.iterdir()) if folder.is_dir() else []
        for entry in entries:
            if not _is_abandoned(entry.name, shared=shared):
                continue
            if entry.is_dir() and not entry.is_symlink():
                remove_tree(entry)
            else:
                entry.unlink(missing_ok=True)
    except OSError as error:
        raise file_trouble("clean", folder, error) from error


def _write_new(path: Path, payload: Sequence[bytes], *, durable: bool, mode: int | None) -> None:
    first_mode = 0o666 if mode is None else 0o600
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first_mode)
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.writelines(payload)
        file.flush()
        if durable:
            os.fsync(descriptor)


def _keep_owner(path: Path, spare: Path) -> None:
    """Keeps the owner of a file if root, or another member of its group, writes it."""
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
    raise FileTrouble(f"cannot write {path}: {_NOT_REGULAR}", remedy="Name a file.")


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


def make_folder(path: Path, fill: Callable[[Path], None]) -> bool:
    """Create a folder that appears with all that `fill` puts into it; False if it exists."""
    spare = spare_beside(path)
    try:
        spare.mkdir()
        fill(spare)
        # rename, not replace: where a folder with content is, it must fail.
        os.rename(spare, path)  # noqa: PTH104
    except OSError as error:
        shutil.rmtree(spare, ignore_errors=True)
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
            return False
        raise file_trouble("make", path, error) from error
    except BaseException:  # Ctrl-C too: no spare folder stays
        shutil.rmtree(spare, ignore_errors=True)
        raise
    return True


def add_lines(path: Path, lines: Sequence[str]) -> None:
    """Append all lines at once, and cut off a torn line at the end first."""
    if not lines:
        return
    payload = "".join(f"{line}\n" for line in lines).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            file.truncate(file.read().rfind(b"\n") + 1)
            file.seek(0, os.SEEK_END)
            while payload:
                payload = payload[file.write(payload) or 0 :]
            os.fsync(descriptor)
    except OSError as error:
        raise file_trouble("append to", path, error) from error


def whole_lines(path: Path) -> list[str]:
    """The lines of a file, without a torn one at the end; none if there is no file."""
    if not path.exists():
        return []
    return read_bytes(path).decode(errors="replace").split("\n")[:-1]


def remove_tree(folder: Path) -> bool:
    """Remove a folder and everything in it; return whether it is gone.

    Made for what hostile commands leave: folders without permissions or nested deeper than any
    path may be long. Links are removed, never followed.
    """
    for _ in range(3):
        with contextlib.suppress(OSError):
            _flatten(folder)
        if not os.path.lexists(folder):
            return True
    return False


def _flatten(folder: Path) -> None:
    """Empty each subfolder by moving its own subfolders up, so that paths stay short."""
    if not stat.S_ISDIR(folder.lstat().st_mode):
        folder.unlink()
        return
    names = itertools.count()
    folder.chmod(0o700)
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(Path(entry.path), folder, names)
                os.rmdir(entry.path)  # noqa: PTH106
            else:
                os.unlink(entry.path)  # noqa: PTH108
    folder.rmdir()


def _empty(folder: Path, above: Path, names: "itertools.count[int]") -> None:
    folder.chmod(0o700)
    for entry in os.scandir(folder):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)  # noqa: PTH108
            continue
        os.chmod(entry.path, 0o700)  # noqa: PTH101
        places = (above / f".removed-{n}" for n in names)
        os.rename(entry.path, next(p for p in places if not os.path.lexists(p)))  # noqa: PTH104


def file_system_of(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str:
    """The type of the file system that holds `path`, such as 'ext4'; '' if unknown.

    `mounts` are mount points with their types, by default those of this machine.
    """
    if mounts is None:
        path, mounts = path.resolve(), _mounts()
    inside, longest, kind = f"{path}/", -1, ""
    for point, mounted in mounts:
        # The last of several mounts on one folder is the one that is seen.
        if len(point) >= longest and inside.startswith(f"{point.rstrip('/')}/"):
            longest, kind = len(point), mounted
    return kind


def is_network_file_system(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> bool:
    """Whether `path` is on a network file system, where SQLite's WAL is not safe."""
    return _REMOTE.fullmatch(file_system_of(path, mounts).lower()) is not None


def _mounts() -> list[tuple[str, str]]:
    """The folders and kinds of all file systems."""
    try:
        if _MOUNTS.exists():
            lines = _MOUNTS.read_text(errors="surrogateescape").splitlines()
            return [_mount(*line.split(" ")[1:3]) for line in lines]
        import psutil  # only here: it would be a part of every start

        return [(disk.mountpoint, disk.fstype) for disk in psutil.disk_partitions(all=True)]
    except OSError:
        return []


def _mount(point: str, kind: str) -> tuple[str, str]:
    """A space in a name is written as its octal code."""
    return _OCTAL.sub(lambda code: chr(int(code[1], 8)), point), kind


# -- Locks -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FileLock:
    """Held from `acquire` to `release`, or until the process ends."""

    path: Path
    file: FileIO

    @classmethod
    def acquire(cls, path: Path, *, holding: str) -> Self:
        """Lock `path`, or report who holds it; `holding` is what the message calls it."""
        try:
            file = _lock_file(path)
        except OSError as error:
            raise file_trouble("lock", path, error) from error
        try:
            _take(file.fileno(), holding)
        except BaseException as error:  # whatever it was, the file is closed
            file.close()
            if isinstance(error, OSError):
                raise file_trouble("lock", path, error) from error
            raise
        return cls(path=path, file=file)

    def release(self) -> None:
        """Unlock; the file remains, since removing it would let two processes lock two files."""
        if self.file.closed:
            return
        with self.file, contextlib.suppress(OSError):
            if _is_ours_alone(self.file.fileno()):
                self.file.truncate(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path` right now."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return False  # who takes the lock replaces it
        with FileIO(path) as file:
            return not _lock_at_once(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise file_trouble("look at the lock", path, error) from error


def _lock_file(path: Path) -> FileIO:
    """Open the file of a lock; a link or a pipe in its place is removed."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.unlink()
    # Python opens files as not inheritable, so no program started later keeps the lock.
    return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")


def _is_ours_alone(descriptor: int) -> bool:
    """Whether the file has no other name: a hard link may be anybody's file.

    It can be locked, but nothing is written to it. A copy in its place would be a second lock.
    """
    return os.fstat(descriptor).st_nlink < 2


def _take(descriptor: int, holding: str) -> None:
    if not _lock_patiently(descriptor):
        raise _refusal(descriptor, holding)
    if not _is_ours_alone(descriptor):
        return
    since = datetime.now(UTC).isoformat(timespec="seconds")
    holder = {"pid": os.getpid(), "host": os.uname().nodename, "since": since}
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder).encode(), 0)


def _lock_at_once(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_patiently(descriptor: int) -> bool:
    # `is_held` takes the lock for an instant; that must not look like a holder.
    for _ in range(5):
        if _lock_at_once(descriptor, fcntl.LOCK_EX):
            return True
        time.sleep(0.01)
    return False


def _refusal(descriptor: int, holding: str) -> RunLocked:
    try:
        holder: object = json.loads(os.pread(descriptor, 4096, 0))
    except (ValueError, RecursionError):
        holder = None
    match holder:
        case {"pid": int(pid), "host": str(host), "since": str(since)}:
            where = "" if host == os.uname().nodename else f" on {host}"
            remedy = f"Wait until it ends, or stop it: `kill -INT {pid}`{where}."
            message = f"{holding} is in use by process {pid} on {host}, since {since}"
            return RunLocked(message, remedy=remedy)
        case _:
            message = f"{holding} is in use by another process"
            return RunLocked(message, remedy="Wait until it ends, or end it.")
