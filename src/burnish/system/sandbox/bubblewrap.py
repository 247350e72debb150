"""The walls that bubblewrap puts around a command, as its arguments."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

INSIDE_TMP = Path("/tmp")  # noqa: S108
_SHARED = Path("/dev/shm")  # noqa: S108
_RUN = Path("/run")
_NAMES = (Path("/run/systemd/resolve"), Path("/run/NetworkManager"))
"""Where systems keep what /etc/resolv.conf points to."""
_SYSTEM = (Path("/run/current-system"), Path("/run/wrappers"))
"""Where NixOS keeps its programs."""

_OURS = Path(__file__).resolve().parents[3]
"""The folder that burnish is imported from."""


@dataclass(frozen=True, kw_only=True)
class Walls:
    """What a command sees of the machine."""

    private: Path
    """A folder of the host that becomes /tmp, with one for shared memory beside it."""
    cwd: Path
    writable: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    """Seen even where they lie in a place that is hidden."""
    hidden: Sequence[Path] = ()
    network: bool = False


def walled(program: str, walls: Walls) -> list[str]:
    """The arguments that come before the command.

    Later mounts lie over earlier ones: what is hidden comes before what must be seen in it.
    """
    tmp, shared = walls.private / "tmp", walls.private / "shm"
    for folder in (tmp, shared):
        folder.mkdir(mode=0o700, exist_ok=True)
    masked = [INSIDE_TMP, _RUN, *walls.hidden]
    return [
        program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL",
        *(["--share-net"] if walls.network else []),
        *_pair("--ro-bind", Path("/")), "--dev", "/dev", "--proc", "/proc",
        # On disk, not in memory: what a command writes there is no way around its memory limit.
        "--bind", str(tmp), str(INSIDE_TMP), "--bind", str(shared), str(_SHARED),
        # Sockets of services live here, and a read-only mount does not keep anyone from talking.
        *(["--tmpfs", str(_RUN)] if _RUN.is_dir() else []),
        *(part for path in _SYSTEM for part in _pair("--ro-bind-try", path)),
        *(part for path in _NAMES if walls.network for part in _pair("--ro-bind-try", path)),
        *(part for path in walls.hidden for part in _hiding(path)),
        *(part for path in _needed(walls, masked) for part in _pair("--ro-bind", path)),
        *(part for path in walls.writable for part in _pair("--bind", path)),
        "--chdir", str(walls.cwd), "--",
    ]  # fmt: skip


def _needed(walls: Walls, masked: Sequence[Path]) -> list[Path]:
    """What must be seen though it lies in a place that is masked: Python itself, above all."""
    homes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent, _OURS}
    if active := os.environ.get("VIRTUAL_ENV"):
        homes.add(Path(active))
    wanted = [*sorted(homes), *walls.readable]
    return [p for p in wanted if p.exists() and any(p.is_relative_to(mask) for mask in masked)]


def _hiding(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", "/dev/null", str(path))


def _pair(option: str, path: Path) -> tuple[str, str, str]:
    return (option, str(path), str(path))
