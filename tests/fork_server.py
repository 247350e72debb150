"""Processes forked from one that has imported burnish: a second of imports is paid once.

A forked process is one of its own: it has its folder, variables, streams and signals, and can be
killed. Tests of how a program starts want a fresh one: `tests.cli.console.child`.

Commands that a shell starts are forked too, if `programs` is first on its path.
"""

import atexit
import importlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any, cast

_ROOT = Path(__file__).resolve().parents[1]
_SERVE = "import sys; from tests.fork_server import serve; serve(*sys.argv[1:3], sys.argv[3:])"
COMMANDS = (
    *("burnish.cli.program", "burnish.cli.improve_commands", "burnish.cli.measure_commands"),
    *("burnish.cli.run_commands", "burnish.cli.optimization", "burnish.cli.evaluation"),
    *("burnish.cli.stored_runs", "burnish.plugins"),
    *("burnish.projects.launch", "burnish.testing", "burnish.testing.toy"),
)
"""What most commands import."""
SERVICE = (*COMMANDS, "burnish.server.service", "pydantic_ai")
"""What `burnish serve` imports: five seconds more."""
_NUMBER = struct.Struct("i")
_LONGEST = 1 << 20
_PROGRAM = """\
#!{python} -IS
import json, os, socket, struct, sys

{choice}
line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
line.connect({door!r})
status, far_end = socket.socketpair()
order = {{"code": code, "args": args, "cwd": os.getcwd(), "env": {{**os.environ}}}}
socket.send_fds(line, [json.dumps(order).encode()], [0, 1, 2, far_end.fileno()])
far_end.close()
status.recv({number})
ended = os.waitstatus_to_exitcode(struct.unpack("i", status.recv({number}))[0])
sys.exit(ended if ended >= 0 else 128 - ended)
"""
_BURNISH = """\
code, args = "from burnish.cli import main; main()", sys.argv[1:]
# What burnish starts itself, with limits and walls around it, is no business of this server.
here, path = os.path.dirname(sys.argv[0]), os.environ["PATH"].split(os.pathsep)
os.environ["PATH"] = os.pathsep.join(each for each in path if each != here)
"""
_PYTHON = """\
if not sys.argv[1:2] or not sys.argv[1].endswith(".py"):
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
file, *args = sys.argv[1:]
code = (
    "import os, sys\\n"
    f"__file__ = sys.argv[0] = {{file!r}}\\n"
    "sys.path[0] = os.path.dirname(os.path.abspath(__file__))\\n"
    "exec(compile(open(__file__, 'rb').read(), __file__, 'exec'))\\n"
)
"""


class ForkedProcess(subprocess.Popen[str]):
    """A process that the server forks and waits for; in all else it is like any other."""

    def __init__(
        self,
        code: str,
        *args: str,
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int] = (subprocess.DEVNULL, subprocess.PIPE, subprocess.PIPE),
        imported: tuple[str, ...] = COMMANDS,
    ) -> None:
        # The requests of a service have the settings of every plug-in that is installed.
        path = env.get("PYTHONPATH", "") if imported is SERVICE else ""
        self._line = _server(imported, path).line
        self._order = {"code": code, "args": args, "cwd": str(cwd), "env": {**env}}
        self._status, self._far_end = socket.socketpair()
        stdin, stdout, stderr = streams
        super().__init__(
            ["forked", *args],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            encoding="utf-8",
        )

    def _execute_child(self, *settings: Any) -> None:
        """What `Popen` calls to start the program, with both ends of each pipe."""
        pipes = settings[10:16]
        with self._far_end:
            given = [pipes[0], pipes[3], pipes[5], self._far_end.fileno()]
            socket.send_fds(self._line, [json.dumps(self._order).encode()], given)
        cast("Any", self)._close_pipe_fds(*pipes)
        self.pid = self._told()
        self._child_created = True

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if wait_flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        with self._status:
            return self.pid, self._told()

    def _told(self) -> int:
        return _NUMBER.unpack(self._status.recv(_NUMBER.size))[0]


@cache
def programs() -> Path:
    """A folder with `burnish` and `python`, to be put before others on the path of a shell.

    What is no file of Python, such as `python -m pytest`, starts as usual.
    """
    server = _server(COMMANDS, "")
    folder = server.door.parent / "bin"
    folder.mkdir()
    choices = {"burnish": _BURNISH, "python": _PYTHON.format(python=sys.executable)}
    for name, choice in choices.items():
        file = folder / name
        text = _PROGRAM.format(
            python=sys.executable, choice=choice, door=str(server.door), number=_NUMBER.size
        )
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)
    return folder


@dataclass(frozen=True, kw_only=True)
class _Server:
    """A server as this worker sees it."""

    line: socket.socket
    door: Path
    """Where processes that are not of this worker's own making connect."""


@cache
def _server(imported: tuple[str, ...], path: str) -> _Server:
    """The server of this worker with these imports, which ends with it."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    home = Path(tempfile.mkdtemp(prefix="burnish-forks-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(str(home / "door"))
    listening.listen()
    env = {**os.environ, "PYTHONPATH": path}
    with far, listening:
        given = [far.fileno(), listening.fileno()]
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, *map(str, given), *imported],
            cwd=_ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            pass_fds=given,
        )
    atexit.register(process.wait)
    atexit.register(near.close)  # the last that is registered comes first
    return _Server(line=near, door=home / "door")


# -- In the server ---------------------------------------------------------------------------------


def serve(number: str, door: str, imported: Sequence[str]) -> None:
    """Fork a process for each order, until nobody is left to give one."""
    before = {*os.environ}
    for name in imported:
        importlib.import_module(name)
    set_by_imports = {name: os.environ[name] for name in {*os.environ} - before}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait
    line, listening = socket.socket(fileno=int(number)), socket.socket(fileno=int(door))
    while True:
        text, given = _order(line, listening)
        if not text:
            return
        if os.fork() == 0:
            line.close()
            listening.close()
            order = json.loads(text)
            order["env"] = {**set_by_imports, **order["env"]}
            if _is_the_process(given[3]):
                # It returns, so that the interpreter ends as that of any program does.
                _become(order, given)
                return
        for each in given:
            os.close(each)


def _order(line: socket.socket, listening: socket.socket) -> tuple[bytes, list[int]]:
    """What this worker, or a program of a shell, wants next; nothing once the worker is gone."""
    while line not in select.select([line, listening], [], [])[0]:
        with listening.accept()[0] as other:
            text, given, _, _ = socket.recv_fds(other, _LONGEST, 4)
        if text:  # else it was killed before it could say anything
            return text, given
    return socket.recv_fds(line, _LONGEST, 4)[:2]


def _is_the_process(status: int) -> bool:
    """Fork once more: one is the process, and the other tells how it ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return True
    for number in range(3):
        os.close(number)
    with suppress(BrokenPipeError):  # whoever wanted it was killed
        os.write(status, _NUMBER.pack(pid))
    watched = os.pidfd_open(pid)
    if watched not in select.select([watched, status], [], [])[0]:
        os.kill(pid, signal.SIGKILL)  # the same, at any time until it ends
    with suppress(BrokenPipeError):
        os.write(status, _NUMBER.pack(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(order: dict[str, Any], given: list[int]) -> None:
    for number, stream in enumerate(given[:3]):
        os.dup2(stream, number)
    os.closerange(3, max(given) + 1)
    os.chdir(order["cwd"])
    sys.path[: 1 + len(_places(os.environ))] = ["", *_places(order["env"])]
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["-c", *order["args"]]
    sys.stdin, sys.stdout, sys.stderr = _stream(0, "r"), _stream(1, "w"), _stream(2, "w")
    program = ModuleType("__main__")
    sys.modules["__main__"] = program
    exec(compile(order["code"], "<string>", "exec"), program.__dict__)


def _places(env: Mapping[str, str]) -> list[str]:
    return [place for place in env.get("PYTHONPATH", "").split(os.pathsep) if place]


def _stream(number: int, mode: str) -> IO[str]:
    """As Python opens it: a terminal shows each line at once, and so does stderr."""
    each_line = 1 if number == 2 or os.isatty(number) or "PYTHONUNBUFFERED" in os.environ else -1
    errors = "backslashreplace" if number == 2 else "strict"
    opened = os.fdopen(number, mode, each_line, encoding="utf-8", errors=errors, closefd=False)
    return cast("IO[str]", opened)
