"""How far commands are kept apart from the rest of the machine: environment, walls, and a trial."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.errors import ConfigError, Problem

_USUAL = ("/usr/local/bin", "/usr/bin", "/bin")

INSIDE_TMP = Path("/tmp")  # noqa: S108
_SHARED = Path("/dev/shm")  # noqa: S108
_RUN = Path("/run")
_NAMES = (Path("/run/systemd/resolve"), Path("/run/NetworkManager"))
"""Where systems keep what /etc/resolv.conf points to."""
_SYSTEM = (Path("/run/current-system"), Path("/run/wrappers"))
"""Where NixOS keeps its programs."""
_OURS = Path(__file__).resolve().parents[3]
"""The folder that burnish is imported from."""
Mode: TypeAlias = Literal["auto", "bwrap", "none"]
_PROGRAM = "bwrap"
_PATIENCE = 10.0
# It must write where it may, and must fail to write where it may not.
_TRIAL = 'echo in > "$1/in" && ! (echo out > "$2/out") 2> /dev/null'


def clean_environment(
    *,
    tmp: Path,
    allow: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    roots: Iterable[Path] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """What a command gets: PATH, HOME and a temporary folder, and the names in `allow`.

    Keys of providers are not in it unless their names are. `roots` are folders that no look for
    a repository may climb out of.
    """
    source = os.environ if environ is None else environ
    fresh = {
        "PATH": os.pathsep.join(_search_path(source)),
        "HOME": str(tmp / "home"),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # Bytecode beside the sources would count as a change of the workspace, and a stale or
        # a planted one would run in the place of what is read.
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CEILING_DIRECTORIES": os.pathsep.join(str(root.parent) for root in roots),
    }
    allowed = {name: source[name] for name in allow if name in source}
    return {**fresh, **allowed, **(extra or {})}


def with_python(environ: Mapping[str, str], folder: Path, seen_as: Path) -> dict[str, str]:
    """The environment with a `python` in it, where none is on the PATH: a link in `folder`.

    Some systems call theirs python3 only. The command sees the folder as `seen_as`.
    """
    if not sys.executable or shutil.which("python", path=environ["PATH"]):
        return dict(environ)
    folder.mkdir(exist_ok=True)
    (folder / "python").symlink_to(sys.executable)
    return {**environ, "PATH": os.pathsep.join([str(seen_as), environ["PATH"]])}


def _search_path(environ: Mapping[str, str]) -> list[str]:
    """Where programs are looked for: the active virtual environment and burnish's own first."""
    active = environ.get("VIRTUAL_ENV")
    first = [str(Path(active) / "bin")] if active else []
    own = [str(Path(sys.executable).parent)] if sys.executable else []
    folders = environ.get("PATH", "").split(os.pathsep)
    user = [folder for folder in folders if folder.startswith("/")]
    return list(dict.fromkeys([*first, *own, *user, *_USUAL]))


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
    paths = [*sorted(homes), *walls.readable]
    return [p for p in paths if p.exists() and any(p.is_relative_to(mask) for mask in masked)]


def _hiding(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    elif path.exists():
        yield from ("--ro-bind", "/dev/null", str(path))


def _pair(option: str, path: Path) -> tuple[str, str, str]:
    return (option, str(path), str(path))


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether bubblewrap works here."""

    program: str = ""
    """Where it is; '' where it does not work."""
    version: str = ""
    reason: str = ""
    """Why it does not work, in words."""

    @property
    def works(self) -> bool:
        """Whether commands can be isolated."""
        return bool(self.program)


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What a run uses, for its report."""

    kind: Literal["bwrap", "none"]
    program: str = ""
    summary: str
    """One sentence for people: what holds, or why nothing does."""


def probe_bubblewrap(program: str = _PROGRAM) -> Probe:
    """Start a command in bubblewrap and see whether the walls hold."""
    path = shutil.which(program)
    if path is None:
        return Probe(reason=f"there is no program '{program}'")
    with tempfile.TemporaryDirectory(prefix="burnish-probe-") as place:
        return _tried(path, Path(place))


def resolve(mode: Mode, probe: Probe | None = None) -> Isolation:
    """What `mode` comes to on this machine; refused where bubblewrap is asked for in vain."""
    if mode == "none":
        return Isolation(kind="none", summary="limits only, as asked: commands are not isolated")
    probe = probe or probe_bubblewrap()
    if probe.works:
        sentence = f"{probe.version}: no network, and only the workspace can be written"
        return Isolation(kind="bwrap", program=probe.program, summary=sentence)
    if mode == "auto":
        sentence = f"limits only: commands are not isolated, since bubblewrap fails: {probe.reason}"
        return Isolation(kind="none", summary=sentence)
    remedy = "install bubblewrap, let it make namespaces, or say 'auto' to go without"
    message = f"bubblewrap does not work here: {probe.reason}"
    raise ConfigError([Problem(where="sandbox", message=message, remedy=remedy)])


def _tried(program: str, place: Path) -> Probe:
    inside, outside, private = (place / name for name in ("inside", "outside", "private"))
    for folder in (inside, outside, private):
        folder.mkdir()
    walls = Walls(private=private, cwd=inside, writable=(inside,), readable=(outside,))
    mark = secrets.token_hex(4)
    trial = ["/bin/sh", "-c", f"{_TRIAL} && echo {mark}", "sh", str(inside), str(outside)]
    try:
        ran = _run([*walled(program, walls), *trial])
        version = _run([program, "--version"]).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return Probe(reason=f"it could not be tried: {error}")
    if mark not in ran.stdout or not (inside / "in").exists():
        lines = ran.stderr.strip().splitlines()
        return Probe(
            reason=lines[-1] if lines else f"a trial ended with exit code {ran.returncode}"
        )
    if (outside / "out").exists():
        return Probe(reason="a command wrote where it may not")
    return Probe(program=program, version=version or "bubblewrap")


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        argv, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
