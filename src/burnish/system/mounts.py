"""Which file system a path lies on, and whether that one is reached over a network."""

import re
from pathlib import Path

_MOUNTINFO = Path("/proc/self/mountinfo")
_REMOTE = re.compile(
    r"(fuse\.)?"
    r"(9p|afs|beegfs|ceph|ceph-fuse|cifs|coda|gcsfuse|glusterfs|goofys|gpfs|juicefs|lustre|mount-s3"
    r"|nfs4?|orangefs|rclone|s3fs|smb2|smb3|smbfs|sshfs|webdavfs)"
)


def file_system_of(path: Path, mountinfo: str | None = None) -> str:
    """The type of the file system that holds `path`, such as 'ext4'; '' when not known."""
    if mountinfo is None:
        path, mountinfo = path.resolve(), _read_mountinfo()
    best, found = -1, ""
    for point, kind in map(_mount, mountinfo.splitlines()):
        depth = len(point.parts)
        # The last of several mounts on one folder is the one that is seen.
        if depth and depth >= best and path.is_relative_to(point):
            best, found = depth, kind
    return found


def is_network_file_system(path: Path, mountinfo: str | None = None) -> bool:
    """Whether `path` lies on a network file system, where SQLite's WAL is not safe."""
    return _REMOTE.fullmatch(file_system_of(path, mountinfo).lower()) is not None


def _read_mountinfo() -> str:
    try:
        return _MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _mount(line: str) -> tuple[Path, str]:
    mount, _, source = line.partition(" - ")
    fields, kinds = mount.split(), source.split()
    if len(fields) < 5 or not kinds:
        return Path(), ""
    return Path(_decode(fields[4])), kinds[0]


def _decode(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
