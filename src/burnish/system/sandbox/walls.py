"""What an isolated command sees: its variables, its programs, and the machine behind walls."""

import json
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.system.files import state_folder
from burnish.system.sandbox import landlock

_USUAL = ("/usr/local/bin", "/usr/bin", "/bin")
_BESIDE = ("lib", "lib64", "libexec")
"""What programs in a folder `bin` need from the folders beside it."""


def clean_environment(
    *,
    tmp: Path,
    home: Path | None = None,
    allow: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
    roots: Iterable[Path] = (),
    environ: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a command: PATH, HOME, a temporary folder, and the names in `allow`.

    Keys of providers are included only if they are named. `roots` are folders that a search for a
    repository may not leave.
    """
    source = os.environ if environ is None else environ
    fresh = {
        "PATH": os.pathsep.join(_search_path(source)),
        "HOME": str(home or tmp / "home"),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # Bytecode beside the sources would count as a change of the workspace, and a stale or
        # a planted one would run in the place of what is read.
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CEILING_DIRECTORIES": os.pathsep.join(str(root.parent) for root in roots),
        # `git status` refreshes the index otherwise, which is a change of the workspace.
        "GIT_OPTIONAL_LOCKS": "0",
    }
    allowed = {name: source[name] for name in allow if name in source}
    return {**fresh, **allowed, **(extra or {})}


def with_python(environ: Mapping[str, str], folder: Path, seen_as: Path) -> dict[str, str]:
    """The environment with a `python`: if none is on the PATH, a link in `folder`.

    Some systems only have python3. The command sees the folder as `seen_as`.
    """
    if not sys.executable or shutil.which("python", path=environ["PATH"]):
        return dict(environ)
    folder.mkdir(exist_ok=True)
    (folder / "python").symlink_to(sys.executable)
    return {**environ, "PATH": os.pathsep.join([str(seen_as), environ["PATH"]])}


def _python_folders() -> list[Path]:
    """The folders of this Python, of burnish, and of the active virtual environment."""
    ours = Path(__file__).resolve().parents[3]
    folders = {Path(sys.prefix), Path(sys.base_prefix), ours}
    if sys.executable:
        folders.add(Path(sys.executable).parent)
    if active := os.environ.get("VIRTUAL_ENV"):
        folders |= {Path(active), *_base_of(Path(active))}
    return sorted(folders)


def _base_of(environment: Path) -> Iterator[Path]:
    """The installation that a virtual environment was made from, if it is one."""
    try:
        lines = (environment / "pyvenv.cfg").read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "home" and Path(value.strip()).is_dir():
            place = Path(value.strip())
            yield place.resolve().parent if place.name == "bin" else place


def _program_folders(path: str, program: str) -> Iterator[Path]:
    """The folders of programs on the PATH, and of the one that `program` is a link to."""
    for folder in (Path(name) for name in path.split(os.pathsep) if name.startswith("/")):
        yield folder
        if folder.name == "bin":
            yield from (folder.parent / name for name in _BESIDE)
    named = "" if os.sep in program else shutil.which(program, path=path)
    if named and Path(named).is_symlink():
        yield Path(named).resolve().parent


def named_paths(command: str) -> list[Path]:
    """What the user's own command names with its full path: folders, and the folders of files.

    Only for commands of the user: a model's command could name any file.
    """
    try:
        words = shlex.split(command)
    except ValueError:  # a quote without an end, which may be right for the shell
        words = command.split()
    paths = [Path(word) for word in words if word.startswith("/")]
    crowded = (Path.home(), Path(tempfile.gettempdir()).resolve(), Path("/"))
    return [
        path if path.is_dir() or path.parent in crowded else path.parent
        for path in paths
        if path.exists() and path not in crowded
    ]


def _search_path(environ: Mapping[str, str]) -> list[str]:
    """The PATH, with the active virtual environment and burnish's own first."""
    active = environ.get("VIRTUAL_ENV")
    first = [str(Path(active) / "bin")] if active else []
    own = [str(Path(sys.executable).parent)] if sys.executable else []
    folders = environ.get("PATH", "").split(os.pathsep)
    user = [folder for folder in folders if folder.startswith("/")]
    return list(dict.fromkeys([*first, *own, *user, *_USUAL]))


# -- Walls -----------------------------------------------------------------------------------------


INSIDE_TMP = Path("/tmp")  # noqa: S108
_SHARED = Path("/dev/shm")  # noqa: S108
_NAMES = (Path("/run/systemd/resolve"), Path("/run/NetworkManager"))
"""Where systems store what /etc/resolv.conf points to."""
_SYSTEM = tuple(
    Path(name)
    for name in (
        *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt"),
        *("/nix", "/gnu/store", "/run/current-system", "/run/wrappers", "/snap"),
        *("/home/linuxbrew/.linuxbrew", "/sys/devices/system/cpu"),
    )
)
"""Programs, libraries and their settings."""
_SECRETS = tuple(
    Path("/etc") / name
    for name in (
        *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh"),
        *("ssl/private", "krb5.keytab", "NetworkManager/system-connections", "wireguard"),
    )
)
"""Settings that only root reads; and burnish may run as root."""
_DEVICES = tuple(
    Path("/dev") / name for name in ("null", "zero", "full", "random", "urandom", "tty")
)


@dataclass(frozen=True, kw_only=True)
class Walls:
    """What a command sees of the machine."""

    private: Path
    """A folder of the host that becomes /tmp, with one for shared memory next to it."""
    cwd: Path
    writable: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    """Visible beside the system's folders and Python."""
    mounts: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    """Folders of the host, by the place in a writable folder where they can be read."""
    hidden: Sequence[Path] = ()
    """Not visible even inside a visible folder, unless it may be written."""
    network: bool = False
    path: str = ""
    """The PATH of the command."""
    program: str = ""
    """The name of the program, whose folder is visible if the PATH leads there."""

    @property
    def roots(self) -> list[Path]:
        """The folders that can be read."""
        own = [*_python_folders(), *self.readable, *self.mounts.values()]
        own += [base for folder in self.mounts.values() for base in _base_of(folder)]
        masks = self._masks
        programs = [
            folder
            for folder in _program_folders(self.path, self.program)
            if not _within(folder, masks) and folder not in Path.home().parents
        ]
        listed = [*_SYSTEM, *own, *programs, *(_NAMES if self.network else ())]
        return _outermost(path for path in listed if path.exists() and path != Path.home())

    @property
    def masks(self) -> list[Path]:
        """What is hidden although it lies in a folder that can be read."""
        roots = self.roots
        return _outermost(path for path in self._masks if path.exists() and _within(path, roots))

    @property
    def reopened(self) -> list[Path]:
        """What can be read although it lies in a hidden folder: above all Python itself."""
        own, masks = [*_python_folders(), *self.mounts.values(), self.cwd], self._masks
        return [path for path in own if path.exists() and _within(path, masks)]

    @property
    def _masks(self) -> list[Path]:
        usual = (Path.home(), state_folder(), Path(tempfile.gettempdir()))
        hidden = [*_SECRETS, *self.hidden, *(path.resolve() for path in usual)]
        # A home such as / or /usr hides nothing: the system's folders are needed.
        kept = [path for path in hidden if not any(_within(each, [path]) for each in _SYSTEM)]
        return [path for path in dict.fromkeys(kept) if not _within(path, self.writable)]


def _within(path: Path, folders: Iterable[Path]) -> bool:
    """Whether it is one of the folders or lies in one; `is_relative_to` parses paths each time."""
    parts = path.parts
    return any(parts[: len(inner := folder.parts)] == inner for folder in folders)


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths without those inside others, in order."""
    chosen: list[Path] = []
    for path in dict.fromkeys(paths):
        if not _within(path, chosen):
            chosen = [each for each in chosen if not _within(each, [path])] + [path]
    return chosen


def walled(program: str, walls: Walls, options: Sequence[str] = ()) -> list[str]:
    """The arguments that precede the command: bubblewrap's own, in their order.

    Later mounts cover earlier ones: what is hidden comes before what must be visible in it.
    """
    tmp, shared = walls.private / "tmp", walls.private / "shm"
    for folder in (tmp, shared):
        folder.mkdir(mode=0o700, exist_ok=True)
    roots, masks = walls.roots, walls.masks
    return [
        program, "--unshare-all", *options, "--die-with-parent", "--cap-drop", "ALL",
        *(["--share-net"] if walls.network else []),
        *(part for path in roots for part in _shown(path)),
        "--dev", "/dev", "--proc", "/proc",
        # On disk, not in memory: what a command writes there is no way around its memory limit.
        "--bind", str(tmp), str(INSIDE_TMP), "--bind", str(shared), str(_SHARED),
        *(part for path in _inside_private(roots) for part in _pair("--ro-bind", path)),
        *(part for path in masks for part in _covered(path)),
        *(part for path in walls.reopened for part in _pair("--ro-bind", path)),
        *(part for path in [walls.cwd] for part in _pair("--ro-bind", path)),
        *(part for path in walls.writable for part in _pair("--bind", path)),
        *(part for place, source in walls.mounts.items()
          for part in ("--ro-bind", str(source), str(place))),
        *(part for path in masks if path.is_dir() for part in ("--remount-ro", str(path))),
        # The rest of the tree is in memory, and could be filled; and in /proc what root runs could
        # change settings of the kernel, whatever privileges it has.
        "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/",
        "--chdir", str(walls.cwd), "--",
    ]  # fmt: skip


def _inside_private(roots: Iterable[Path]) -> list[Path]:
    """What the command's own /tmp and /dev/shm would cover."""
    return [path for path in roots if _within(path, [INSIDE_TMP, _SHARED])]


def _shown(path: Path) -> Iterator[str]:
    if path.is_symlink():
        yield from ("--symlink", str(path.readlink()), str(path))
        if not _within(path.resolve(), _SYSTEM):
            yield from _pair("--ro-bind", path.resolve())
    else:
        yield from _pair("--ro-bind", path)


def _covered(path: Path) -> Iterator[str]:
    if path.is_dir():
        yield from ("--tmpfs", str(path))
    else:
        yield from ("--ro-bind", "/dev/null", str(path))


def _pair(option: str, path: Path) -> tuple[str, str, str]:
    return (option, str(path), str(path))


def fenced(walls: Walls, *, abi: int) -> list[str]:
    """The launcher with Landlock's rules, which precedes the command."""
    masks = walls.masks
    readable = [place for root in walls.roots for place in _around(root.resolve(), masks)]
    readable += [path.resolve() for path in walls.reopened]
    rules = landlock.Rules(
        abi=abi,
        read=[*map(str, readable), str(walls.cwd), "/proc"],
        write=[*map(str, walls.writable), str(walls.private)],
        devices=[str(path) for path in _DEVICES],
        tcp=walls.network,
        sockets=True,
    )
    return _launcher(rules)


def guarded(abi: int, *, sockets: bool = False) -> list[str]:
    """The launcher with one rule only: the command cannot signal processes outside of it.

    With `sockets`, it cannot reach their abstract sockets either.
    """
    return _launcher(landlock.Rules(abi=abi, sockets=sockets))


def _launcher(rules: landlock.Rules) -> list[str]:
    script, text = str(Path(landlock.__file__)), json.dumps(rules)
    # The kernel limits each argument to 128 KB, and a folder with a hidden part may hold thousands.
    parts = [text[start : start + _ARGUMENT] for start in range(0, len(text), _ARGUMENT)]
    return [sys.executable, "-I", "-S", "-B", script, *parts, "--"]


_ARGUMENT = 100_000


def _around(root: Path, masks: Sequence[Path]) -> Iterator[Path]:
    """The folder, or what is in it beside the hidden parts: rules only ever add."""
    inside = [mask for mask in masks if mask.is_relative_to(root)]
    if root in inside:
        return
    if not inside:
        yield root
        return
    try:
        children = sorted(root.iterdir())
    except OSError:
        return
    for child in children:
        # A link is followed when it is used, and what it leads to has its own rule or none.
        if not child.is_symlink():
            yield from _around(child, inside)
