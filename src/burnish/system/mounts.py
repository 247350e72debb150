"""Which file system a path lies on, and whether that one is reached over a network."""

import re
from collections.abc import Iterable
from pathlib import Path

_REMOTE = re.compile(
    r"(fuse\.)?"
    r"(9p|afs|beegfs|ceph|ceph-fuse|cifs|coda|gcsfuse|glusterfs|goofys|gpfs|juicefs|lustre|mount-s3"
    r"|nfs4?|orangefs|rclone|s3fs|smb2|smb3|smbfs|sshfs|webdavfs)"
)


def file_system_of(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> str:
    """The type of the file system that holds `path`, such as 'ext4'; '' when not known.

    `mounts` are folders with the type of what is mounted there; this machine's unless given.
    """
    if mounts is None:
        path, mounts = path.resolve(), _mounts()
    depth, kind = -1, ""
    for point, mounted in mounts:
        parts = len(Path(point).parts)
        # The last of several mounts on one folder is the one that is seen.
        if parts >= depth and path.is_relative_to(point):
            depth, kind = parts, mounted
    return kind


def is_network_file_system(path: Path, mounts: Iterable[tuple[str, str]] | None = None) -> bool:
    """Whether `path` lies on a network file system, where SQLite's WAL is not safe."""
    return _REMOTE.fullmatch(file_system_of(path, mounts).lower()) is not None


def _mounts() -> list[tuple[str, str]]:
    import psutil

    try:
        return [(disk.mountpoint, disk.fstype) for disk in psutil.disk_partitions(all=True)]
    except OSError:
        return []
