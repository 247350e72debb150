"""The file system under a path is found in the mount table."""

from pathlib import Path

import psutil
import pytest

from burnish.system import file_system_of, files, is_network_file_system

TABLE = [
    ("/", "ext4"),
    ("/home", "nfs4"),
    ("/home/me/fast", "xfs"),
    ("/mnt/my disk", "cifs"),
    ("/data", "ext4"),
    ("/data", "fuse.sshfs"),
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/etc/hosts", "ext4"),
        ("/home/me/run", "nfs4"),
        ("/home", "nfs4"),
        ("/homestead", "ext4"),
        ("/home/me/fast/run", "xfs"),
        ("/mnt/my disk/run", "cifs"),
        ("/data/run", "fuse.sshfs"),
    ],
)
def test_the_deepest_and_latest_mount_counts(path: str, kind: str) -> None:
    assert file_system_of(Path(path), TABLE) == kind


def test_an_empty_table_says_nothing() -> None:
    assert file_system_of(Path("/home"), []) == ""
    assert not is_network_file_system(Path("/home"), [])


@pytest.mark.parametrize(
    ("kind", "remote"),
    [(kind, True) for kind in ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "ceph")]
    + [(kind, True) for kind in ("glusterfs", "afs", "beegfs", "fuse.sshfs", "fuse.s3fs")]
    + [(kind, True) for kind in ("fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone")]
    + [(kind, False) for kind in ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuse.ntfs-3g")],
)
def test_network_file_systems_are_recognised(kind: str, remote: bool) -> None:
    assert is_network_file_system(Path("/run"), [("/", kind)]) is remote


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_this_machine_knows_its_own_file_systems() -> None:
    assert file_system_of(Path("/proc/self")) == "proc"
    assert not is_network_file_system(Path("/proc"))


def test_the_table_is_read_as_psutil_reads_it() -> None:
    table = [(disk.mountpoint, disk.fstype) for disk in psutil.disk_partitions(all=True)]
    for point, _ in table:
        assert file_system_of(Path(point)) == file_system_of(Path(point), table)


def test_spaces_in_mount_points_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = tmp_path / "mounts"
    written.write_text("//nas/share /mnt/my\\040disk cifs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n")
    monkeypatch.setattr(files, "_MOUNTS", written)
    assert file_system_of(Path("/mnt/my disk/run")) == "cifs"
    assert file_system_of(Path("/mnt")) == "ext4"


def test_without_proc_psutil_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOUNTS", tmp_path / "none")
    table = [(disk.mountpoint, disk.fstype) for disk in psutil.disk_partitions(all=True)]
    assert file_system_of(Path("/")) == file_system_of(Path("/"), table)
