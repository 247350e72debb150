"""The isolation that works on this machine, and the limits, output and result of a command.

It is bubblewrap, else Landlock, else none.
"""

import codecs
import secrets
import shutil
import signal as signals
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.errors import ConfigError
from burnish.system.sandbox.landlock import abi_version, blocks_tcp, guards_signals
from burnish.system.sandbox.walls import Walls, fenced, walled

Mode: TypeAlias = Literal["auto", "required", "bwrap", "landlock", "none"]
IsolationKind: TypeAlias = Literal["bwrap", "landlock", "none"]
_Isolating: TypeAlias = Callable[[Walls], list[str]]

_NO_NAMESPACES = ("--unshare-user", "--disable-userns")
"""A command that could make namespaces could mount file systems in memory."""
_INSTALLERS = {
    "apt-get": "sudo apt-get install bubblewrap",
    "dnf": "sudo dnf install bubblewrap",
    "pacman": "sudo pacman -S bubblewrap",
    "zypper": "sudo zypper install bubblewrap",
    "apk": "sudo apk add bubblewrap",
}
_SWITCHES = {
    "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel/unprivileged_userns_clone": ("0", "1"),
    "user/max_user_namespaces": ("0", "15000"),
}
"""Settings of the kernel that forbid namespaces: their value then, and the one that allows them."""


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Whether bubblewrap works here."""

    program: str = ""
    """Its path; '' if it does not work."""
    version: str = ""
    options: tuple[str, ...] = ()
    """Options that not every version or machine has."""
    reason: str = ""
    """Why it does not work."""
    remedy: str = ""
    """The command that makes it work."""

    @property
    def works(self) -> bool:
        return bool(self.program)


@dataclass(frozen=True, kw_only=True)
class LandlockProbe:
    """Whether Landlock works here."""

    abi: int = 0
    """The version of the kernel's interface; 0 if it does not work."""
    reason: str = ""

    @property
    def works(self) -> bool:
        return self.abi > 0


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """The isolation of a run, for its report."""

    kind: IsolationKind
    program: str = ""
    options: tuple[str, ...] = ()
    abi: int = 0
    """The version of Landlock; 0 if it is not used at all."""
    summary: str
    """One sentence: what is isolated, or why nothing is."""
    remedy: str = ""
    """What would isolate better; '' if nothing would, or none is wanted."""

    @property
    def protects_burnish(self) -> bool:
        """Whether a command is kept from killing burnish."""
        return self.kind == "bwrap" or guards_signals(self.abi)

    @property
    def notice(self) -> str:
        """The summary, and what would isolate better."""
        return f"{self.summary}; {self.remedy}" if self.remedy else self.summary


def probe_bubblewrap(program: str = "bwrap") -> Probe:
    """Run a command in bubblewrap and check that it is isolated."""
    path = shutil.which(program)
    if path is None:
        return Probe(reason=f"there is no program '{program}'", remedy=_installing())
    with tempfile.TemporaryDirectory(prefix="burnish-probe-") as place:
        # Root may have the right to all but user namespaces.
        strict = _tried(path, Path(place) / "strict", _NO_NAMESPACES)
        return strict if strict.works else _tried(path, Path(place) / "usual", ())


def probe_landlock(abi: int | None = None) -> LandlockProbe:
    """Confine a command with Landlock and check that it is confined."""
    version = abi_version() if abi is None else abi
    if not version:
        return LandlockProbe(reason="the kernel has no Landlock")
    with tempfile.TemporaryDirectory(prefix="burnish-probe-") as place:
        trial = _Trial.made(Path(place))
        reason = trial.failure(lambda walls: fenced(walls, abi=version))
    return LandlockProbe(reason=reason) if reason else LandlockProbe(abi=version)


def resolve(
    mode: Mode, probe: Probe | None = None, landlock: LandlockProbe | None = None
) -> Isolation:
    """The isolation for `mode` on this machine; ConfigError if it is required but fails."""
    if mode == "none":
        sentence = "limits only, as asked: commands are not isolated"
        return Isolation(kind="none", summary=sentence, abi=_guard(landlock))
    probe = probe or (Probe() if mode == "landlock" else probe_bubblewrap())
    if probe.works:
        return Isolation(
            kind="bwrap",
            program=probe.program,
            options=probe.options,
            abi=_guard(landlock),
            summary=f"{probe.version}: only the workspace can be written, and nothing else of the "
            "run or of your home can be read",
        )
    problem = f"bubblewrap does not work here: {probe.reason}"
    if mode == "bwrap":
        raise ConfigError.of("sandbox", problem, _remedy(probe, "'auto' does without it"))
    landlock = landlock or probe_landlock()
    better = "" if mode == "landlock" else _remedy(probe)
    if landlock.works:
        why = "" if mode == "landlock" else f", as {problem}"
        return Isolation(
            kind="landlock",
            abi=landlock.abi,
            summary=f"Landlock {landlock.abi}{why}: only the workspace can be written, and "
            f"nothing else of the run or of your home can be read; {_gaps(landlock.abi)}",
            remedy=better,
        )
    if mode == "auto":
        sentence = f"limits only: commands are not isolated, since {problem}, and Landlock neither"
        return Isolation(
            kind="none", summary=f"{sentence}: {landlock.reason}", abi=_guard(landlock),
            remedy=better,
        )  # fmt: skip
    if mode == "landlock":
        message = f"Landlock does not work here: {landlock.reason}"
        raise ConfigError.of("sandbox", message, "use a kernel that has it, 5.13 or later")
    message = f"isolation is required, but {problem}, and Landlock neither: {landlock.reason}"
    raise ConfigError.of("sandbox", message, _remedy(probe, "'auto' does without isolation"))


def _guard(landlock: LandlockProbe | None) -> int:
    """The version of Landlock that at least keeps signals in; 0 if none does."""
    abi = abi_version() if landlock is None else landlock.abi
    return abi if guards_signals(abi) else 0


def _gaps(abi: int) -> str:
    """What Landlock leaves open."""
    network = "UDP and" if blocks_tcp(abi) else "the network and"
    signals = "" if guards_signals(abi) else "; a command can signal other processes"
    return f"it leaves {network} sockets of services open, and shows other processes{signals}"


def _remedy(probe: Probe, otherwise: str = "") -> str:
    return "; ".join(filter(None, [probe.remedy, otherwise]))


def _installing() -> str:
    command = next((line for tool, line in _INSTALLERS.items() if shutil.which(tool)), "")
    return f"install it: {command}" if command else "install bubblewrap"


def _allowing() -> str:
    """The command that lets bubblewrap make namespaces, as far as the kernel shows."""
    for name, (forbidding, allowing) in _SWITCHES.items():
        try:
            value = (Path("/proc/sys") / name).read_text().strip()
        except OSError:
            continue
        if value == forbidding:
            return f"allow it: sudo sysctl -w {name.replace('/', '.')}={allowing}"
    if any(Path(name).exists() for name in ("/.dockerenv", "/run/.containerenv")):
        return "allow namespaces to this container: --security-opt seccomp=unconfined"
    return "allow it to create namespaces"


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """A command that must write where it may, and must fail to read and write where it may not."""

    inside: Path
    outside: Path
    private: Path
    mark: str

    @classmethod
    def made(cls, place: Path) -> "_Trial":
        inside, outside, private = (place / name for name in ("inside", "outside", "private"))
        for folder in (inside, outside, private, private / "tmp"):
            folder.mkdir(parents=True)
        (outside / "secret").write_text("secret")
        return cls(inside=inside, outside=outside, private=private, mark=secrets.token_hex(4))

    def failure(self, argv: _Isolating) -> str:
        """Why the isolation does not hold; '' if it does."""
        walls = Walls(private=self.private, cwd=self.inside, writable=(self.inside,))
        script = (
            'echo in > "$1/in" && ! (echo out > "$2/out") 2> /dev/null && '
            f'! cat "$2/secret" 2> /dev/null && echo {self.mark}'
        )
        trial = ["/bin/sh", "-c", script, "sh", str(self.inside), str(self.outside)]
        try:
            ran = _run([*argv(walls), *trial])
        except (OSError, subprocess.SubprocessError) as error:
            return f"it could not be tested: {error}"
        if (self.outside / "out").exists():
            return "a command wrote where it may not"
        if self.mark in ran.stdout and (self.inside / "in").exists():
            return ""
        lines = ran.stderr.strip().splitlines()
        return lines[-1] if lines else f"a trial ended with exit code {ran.returncode}"


def _tried(program: str, place: Path, options: Sequence[str]) -> Probe:
    reason = _Trial.made(place).failure(lambda walls: walled(program, walls, options))
    if reason:
        return Probe(reason=reason, remedy=_allowing())
    version = _run([program, "--version"]).stdout.strip()
    return Probe(program=program, version=version or "bubblewrap", options=tuple(options))


def _run(argv: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603
        argv, capture_output=True, text=True, errors="replace", check=False, timeout=10.0,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


EndedBy: TypeAlias = Literal["itself", "timeout", "memory", "processes", "disk", "flood", "lost"]

_MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class CommandLimits:
    """Limits of one command and all processes it starts; None means no limit."""

    seconds: float = 300.0
    memory_bytes: int | None = 4096 * _MIB
    """Enforced by the kernel for one process, and by polling for all of them together."""
    file_bytes: int | None = 1024 * _MIB
    """The maximum size of one file that it writes."""
    disk_bytes: int | None = 8192 * _MIB
    """How much it may write to its folders in total, enforced by polling."""
    processes: int | None = 256
    """How many may run at once, not counting threads."""
    output_bytes: int = _MIB
    """How much of stdout, and of stderr, is kept: the head and the tail."""
    flood_bytes: int = 256 * _MIB
    """A command that writes more than this to stdout and stderr is stopped."""


@dataclass(frozen=True, kw_only=True)
class CommandResult:
    """How a command ended and what it wrote."""

    exit_code: int
    """As in shells: 128 + n if signal n ended it."""
    ended_by: EndedBy
    stdout: str
    """Complete, or its head and tail with a note of how much was left out."""
    stderr: str
    stdout_bytes: int
    """How much was written, including what was left out."""
    stderr_bytes: int
    truncated: bool
    """Whether something was left out of stdout or stderr."""
    seconds: float
    cpu_seconds: float
    """Of all its processes together."""
    left_running: int
    """Processes that it left behind; they were ended too."""
    isolation: IsolationKind
    reason: str
    """Why it is not ok; '' if it is."""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.ended_by == "itself" and self.exit_code == 0


def failure_reason(ended_by: EndedBy, exit_code: int, limits: CommandLimits) -> str:
    """Why a command is not ok; '' if it is."""
    if ended_by == "timeout":
        return f"the command ran for more than {limits.seconds:g} s"
    if ended_by == "memory":
        assert limits.memory_bytes is not None
        return f"the command used more than {limits.memory_bytes / _MIB:,.0f} MiB of memory"
    if ended_by == "processes":
        return f"the command ran more than {limits.processes} processes at once"
    if ended_by == "disk":
        assert limits.disk_bytes is not None
        return f"the command wrote more than {limits.disk_bytes / _MIB:,.0f} MiB to disk"
    if ended_by == "flood":
        return f"the command wrote more than {limits.flood_bytes / _MIB:,.0f} MiB of output"
    if ended_by == "lost":
        return "the process that watched the command was killed"
    number = exit_code - 128
    if number > 0 and number in {int(each) for each in signals.valid_signals()}:
        names = {int(each): f" ({each.name})" for each in signals.Signals}
        return f"the command ended with signal {number}{names.get(number, '')}"
    return f"the command ended with exit code {exit_code}" if exit_code else ""


class Capture:
    """Accepts any number of bytes and keeps at most `cap` of them."""

    def __init__(self, cap: int) -> None:
        self.total = 0
        self._cap = max(2, cap)
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, part: bytes) -> None:
        self.total += len(part)
        room = self._cap - self._cap // 2 - len(self._head)
        self._head += part[:room]
        self._tail += part[room:]
        # Cut now and then only: cutting each time would copy the tail for every part.
        if len(self._tail) > 4 * self._cap:
            del self._tail[: -(self._cap // 2)]

    @property
    def left_out(self) -> int:
        return max(0, self.total - self._cap)

    def text(self) -> str:
        """What was kept, as UTF-8, with a note in place of the rest."""
        if not self.left_out:
            return bytes(self._head + self._tail).decode(errors="replace")
        head = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self._head))
        tail = bytes(self._tail[-(self._cap // 2) :])
        # A character that the cut went through is left out, not turned into a false one.
        begin = next((at for at, byte in enumerate(tail[:4]) if byte & 0xC0 != 0x80), 0)
        mark = f"\n[… {self.left_out:,} bytes left out …]\n"
        return head + mark + tail[begin:].decode(errors="replace")
