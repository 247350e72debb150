"""Starts one command under limits and ends all that came of it; run by its path.

It must start fast, so nothing but Python itself is imported here; and it has one thread, so that
code may run between fork and exec. Burnish and it talk through a socket: an order comes in,
reports go out, a word that comes in later ends the command. The end of the socket is the end of
burnish, and then of the command too. Where there is no /proc, no descendants are seen.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_TICK = 0.02
_PAUSE = 0.001
_KILLED_WITHIN = 5.0
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_SPARE_TASKS = 1024
"""What a user may start beside a command before the last barrier against fork bombs holds."""


class Command:
    """The command and all its descendants, which end up as children of this process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.status: int | None = None
        self.usage = 0.0
        self.started = time.monotonic()
        read, write = os.pipe()
        argv = list(order["argv"])
        if order["walled"]:
            argv[1:1] = ["--json-status-fd", str(write)]
        process = subprocess.Popen(  # noqa: S603
            argv, cwd=order["cwd"], env=order["env"], process_group=0, pass_fds=(write,),
            preexec_fn=_limiter(order),
        )  # fmt: skip
        os.close(write)
        os.set_blocking(read, False)
        self.report_pipe, self.pid = read, process.pid
        # Whoever ends is reaped here, so that nothing is left for this object to wait for.
        process.returncode = 0

    def reap(self) -> bool:
        """Take leave of children that ended; whether any is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            # Each process is counted by the one who waits for it, so these add up.
            self.usage += usage.ru_utime + usage.ru_stime
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(status)

    def trouble(self) -> str:
        """The limit that all the processes together are past; '' while there is none."""
        most, memory = self.order["processes"], self.order["memory"]
        pids = list(_descendants(None if most is None else most + self.order["own"]))
        if most is not None and len(pids) - self.order["own"] > most:
            return "processes"
        if memory is not None and sum(map(_resident_bytes, pids)) > memory:
            # Pages that processes share are in that sum many times: count them once.
            return "memory" if sum(map(_proportional_bytes, pids)) > memory else ""
        return ""

    def left_running(self) -> int:
        """How many are there though the command has ended; bubblewrap's own is not counted."""
        return max(0, len(list(_descendants(None))) - self.order["own"] // 2)

    def end(self) -> int:
        """Kill everything; how many could not be."""
        limit = time.monotonic() + _KILLED_WITHIN
        while True:
            _kill(os.killpg, self.pid)
            for pid in _descendants(None):
                _kill(os.kill, pid)
            if not self.reap():
                return 0
            if time.monotonic() > limit:
                return len(list(_descendants(None)))
            time.sleep(_PAUSE)

    def began(self) -> bool:
        """Whether it is known that bubblewrap came as far as the command."""
        if not self.order["walled"] or self.status != 1:
            return True
        try:
            return b'"exit-code"' in os.read(self.report_pipe, 65536)
        except BlockingIOError:
            return False


def _supervise(line: socket.socket, order: dict[str, Any]) -> None:
    """Carry out an order."""
    _become_subreaper()
    if not _comes_first():
        # As root there is no other barrier against a fork bomb than that it must wait.
        order["priority"] = 19 if os.geteuid() == 0 else min(19, order["priority"] + 10)
    wake = _woken_by_signals()
    try:
        command = Command(order)
    except (OSError, subprocess.SubprocessError) as error:
        _send(line, {"refused": str(error)})
        return
    _let_go_of_streams()
    with contextlib.suppress(OSError):
        _send(line, {"group": command.pid})
    ended_by = _watch(command, line, wake)
    seconds = time.monotonic() - command.started
    left = command.left_running() if ended_by == "itself" else 0
    stuck = command.end()
    code = -signal.SIGKILL if command.status is None else command.status
    with contextlib.suppress(OSError):
        _send(line, {
            "ended_by": ended_by, "exit_code": 128 - code if code < 0 else code,
            "seconds": seconds, "cpu_seconds": command.usage, "left_running": left,
            "stuck": stuck, "began": command.began(),
        })  # fmt: skip


def _watch(command: Command, line: socket.socket, wake: int) -> str:
    """Wait until the command ends or must be ended; which of them it was."""
    limit = command.started + command.order["seconds"]
    while True:
        now = time.monotonic()
        command.reap()
        if command.status is not None:
            return "itself"
        if now >= limit:
            return "timeout"
        if trouble := command.trouble():
            return trouble
        # A look that took long, for there are many to look at, is not taken more often for it.
        rest = max(_TICK, 10 * (time.monotonic() - now))
        ready, _, _ = select.select([line, wake], [], [], min(rest, limit - now))
        if wake in ready and _drained(wake) & {signal.SIGTERM, signal.SIGHUP}:
            return "lost"
        if line in ready:
            return _word(line)


def _word(line: socket.socket) -> str:
    """What burnish says; that it is gone, too, where it went with words of ours unread."""
    try:
        return line.recv(64).decode() or "lost"
    except OSError:
        return "lost"


def _limiter(order: dict[str, Any]) -> Callable[[], None]:
    """What the new process does to itself before it becomes the command."""
    libc, usual = _libc(), order["priority"]
    tasks = None
    if order["processes"] is not None and os.geteuid() != 0:
        # Counted for the whole user, so it can only be the last barrier; root it does not bind.
        tasks = _tasks_of_user() + order["processes"] + _SPARE_TASKS

    def limit() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)
        # Should the machine run out of memory, this goes before burnish does.
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
        for what, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, order["file"]),
            # Not RLIMIT_AS: runtimes reserve far more addresses than they ever use.
            (resource.RLIMIT_DATA, order["memory"]),
            (resource.RLIMIT_NPROC, tasks),
        ):
            if most is not None:
                hard = resource.getrlimit(what)[1]
                lower = most if hard == resource.RLIM_INFINITY else min(most, hard)
                resource.setrlimit(what, (lower, lower))

    return limit


def _descendants(enough: int | None) -> Iterator[int]:
    """All that came of this process; stops soon after `enough` were found."""
    todo, count = [os.getpid()], 0
    while todo and (enough is None or count <= enough):
        for child in _children(todo.pop()):
            count += 1
            todo.append(child)
            yield child


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            children += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return children


def _resident_bytes(pid: int) -> int:
    """The memory that a process uses, with what it shares."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * resource.getpagesize() if fields else 0


def _proportional_bytes(pid: int) -> int:
    """The same, with only its part of what it shares; much slower to find out."""
    for row in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if row.startswith("Pss:"):
            return int(row.split()[1]) * 1024
    return _resident_bytes(pid)


def _tasks_of_user() -> int:
    """How many threads of all processes belong to this user."""
    count = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if process.stat().st_uid == os.getuid():
                count += len(list((process / "task").iterdir()))
    return count


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _kill(way: Callable[[int, int], None], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        way(number, signal.SIGKILL)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _become_subreaper() -> None:
    if libc := _libc():
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _comes_first() -> bool:
    """Whether this process has its turn before a thousand others that want to run."""
    if sys.platform != "linux":
        return False
    try:
        # What is started from here is scheduled as usual again.
        how = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(0, how, os.sched_param(1))
    except OSError:
        return False
    return True


def _woken_by_signals() -> int:
    read, write = os.pipe()
    for end in (read, write):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _noted)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return read


def _noted(number: int, frame: object) -> None:
    """Nothing is done here: that it came is read from the pipe."""


def _drained(pipe: int) -> set[int]:
    with contextlib.suppress(BlockingIOError):
        return set(os.read(pipe, 4096))
    return set()


def _let_go_of_streams() -> None:
    """The streams are the command's: their end must not wait for this process."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)


def _send(line: socket.socket, report: dict[str, Any]) -> None:
    line.sendall(json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _line.set_inheritable(False)
        with _line.makefile("rb") as _orders:
            if _order := _orders.readline():
                _supervise(_line, json.loads(_order))
