"""How far commands are kept apart from the rest of the machine, found out by trying."""

import secrets
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.errors import ConfigError, Problem
from burnish.system.sandbox.bubblewrap import Walls, walled

Mode: TypeAlias = Literal["auto", "bwrap", "none"]

_PROGRAM = "bwrap"
_PATIENCE = 10.0
# It must write where it may, and must fail to write where it may not.
_TRIAL = 'echo in > "$1/in" && ! (echo out > "$2/out") 2> /dev/null'


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
    told: str
    """One sentence for people: what holds, or why nothing does."""


def probe_bubblewrap(program: str = _PROGRAM) -> Probe:
    """Start a command in bubblewrap and see whether the walls hold."""
    found = shutil.which(program)
    if found is None:
        return Probe(reason=f"there is no program '{program}'")
    with tempfile.TemporaryDirectory(prefix="burnish-probe-") as place:
        return _tried(found, Path(place))


def resolve(mode: Mode, probe: Probe | None = None) -> Isolation:
    """What `mode` comes to on this machine; refused where bubblewrap is asked for in vain."""
    if mode == "none":
        return Isolation(kind="none", told="limits only, as asked: commands are not isolated")
    probe = probe or probe_bubblewrap()
    if probe.works:
        told = f"{probe.version}: no network, and only the workspace can be written"
        return Isolation(kind="bwrap", program=probe.program, told=told)
    if mode == "auto":
        told = f"limits only: commands are not isolated, since bubblewrap fails: {probe.reason}"
        return Isolation(kind="none", told=told)
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
        said = ran.stderr.strip().splitlines()
        return Probe(reason=said[-1] if said else f"a trial ended with exit code {ran.returncode}")
    if (outside / "out").exists():
        return Probe(reason="a command wrote where it may not")
    return Probe(program=program, version=version or "bubblewrap")


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        argv, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
