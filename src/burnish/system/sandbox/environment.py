"""The environment of a command: made anew, with nothing of the user's but what is allowed."""

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

_USUAL = ("/usr/local/bin", "/usr/bin", "/bin")


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
    given = os.environ if environ is None else environ
    made = {
        "PATH": os.pathsep.join(search_path(given)),
        "HOME": str(tmp / "home"),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        # Bytecode beside the sources would count as a change of the workspace, and a stale or
        # a planted one would run in the place of what is read.
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_CEILING_DIRECTORIES": os.pathsep.join(str(root.parent) for root in roots),
    }
    allowed = {name: given[name] for name in allow if name in given}
    return {**made, **allowed, **(extra or {})}


def with_python(environ: Mapping[str, str], folder: Path, seen_as: Path) -> dict[str, str]:
    """The environment with a `python` in it, where none is on the PATH: a link in `folder`.

    Some systems call theirs python3 only. The command sees the folder as `seen_as`.
    """
    if not sys.executable or shutil.which("python", path=environ["PATH"]):
        return dict(environ)
    folder.mkdir(exist_ok=True)
    (folder / "python").symlink_to(sys.executable)
    return {**environ, "PATH": os.pathsep.join([str(seen_as), environ["PATH"]])}


def search_path(environ: Mapping[str, str]) -> list[str]:
    """Where programs are looked for: the active virtual environment and burnish's own first."""
    active = environ.get("VIRTUAL_ENV")
    first = [str(Path(active) / "bin")] if active else []
    own = [str(Path(sys.executable).parent)] if sys.executable else []
    given = environ.get("PATH", "").split(os.pathsep)
    user = [folder for folder in given if folder.startswith("/")]
    return list(dict.fromkeys([*first, *own, *user, *_USUAL]))
