"""Runs one command under limits and ends all its processes; started as a script.

It must start fast, so only the standard library is imported; and it has one thread, so that code
may run between fork and exec. It talks to burnish through a socket: it reads an order and sends
reports; a later message, or the end of the socket, ends the command. Without /proc it cannot see
descendants.
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ENTRIES = 2000
"""Names that are looked at in one go, for the time limit must hold meanwhile."""
_NAME_BYTES = 256
"""What a name takes on disk at least: many empty files fill one too."""
_SPARE_TASKS = 1024
"""How much more a user may start before the last barrier against fork bombs applies."""


class Command:
    """The command and all its descendants, which become children of this process."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.status: int | None = None
        self.usage = 0.0
        self.disk = DiskUse(order["folders"]) if order["disk"] is not None else None
        read, write = os.pipe()
        argv = list(order["argv"])
        place, option, self.mark = order["status"]
        if place:
            argv[place:place] = [option, str(write)]
        self.started = time.monotonic()
        process = subprocess.Popen(  # noqa: S603
            argv, cwd=order["cwd"], env=order["env"], process_group=0,
            pass_fds=(write,) if place else (),
            preexec_fn=_limiter(order),
        )  # fmt: skip
        os.close(write)
        os.set_blocking(read, False)
        self.report_pipe, self.pid = read, process.pid
        # Whoever ends is reaped here, so that nothing is left for this object to wait for.
        process.returncode = 0

    def reap(self) -> bool:
        """Reap children that ended; return whether any is left."""
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
        """The limit that all the processes together exceed; '' if there is none."""
        most, memory = self.order["processes"], self.order["memory"]
        pids = list(_descendants(None if most is None else most + self.order["own"]))
        if most is not None and len(pids) - self.order["own"] > most:
            return "processes"
        if (
            memory is not None
            and sum(map(_resident_bytes, pids)) > memory
            # Pages that processes share are in that sum many times: count them once.
            and sum(map(_proportional_bytes, pids)) > memory
        ):
            return "memory"
        if self.disk is not None and self.disk.grown(pids) > self.order["disk"]:
            return "disk"
        return ""

    def left_running(self) -> int:
        """How many processes the ended command left, not counting bubblewrap's own."""
        return max(0, len(list(_descendants(None))) - self.order["own"] // 2)

    def end(self) -> int:
        """Kill everything; return how many could not be killed."""
        limit = time.monotonic() + 5.0
        while True:
            _kill(os.killpg, self.pid)
            for pid in _descendants(None):
                _kill(os.kill, pid)
            if not self.reap():
                return 0
            if time.monotonic() > limit:
                return len(list(_descendants(None)))
            time.sleep(0.001)

    def began(self) -> bool:
        """Whether the launcher got as far as the command, as far as is known."""
        if not self.mark or self.status != 1:
            return True
        try:
            return self.mark.encode() in os.read(self.report_pipe, 65536)
        except BlockingIOError:
            return False


class DiskUse:
    """How much more a command's folders hold than at its start, looked up bit by bit."""

    def __init__(self, folders: list[str]) -> None:
        self.folders = folders
        self.most = 0
        self.linked: set[tuple[int, int]] = set()
        self.before = sum(self.sizes())
        self.linked = set()
        self.walk = self.sizes()
        self.sum = 0
        self.due = 0.0
        self.took = 0.0

    def grown(self, pids: list[int]) -> int:
        """The growth that the last complete look showed; each call looks a little further."""
        now = time.monotonic()
        if now < self.due:
            return self.most
        for count, size in enumerate(self.walk):
            self.sum += size
            if count >= _ENTRIES:
                self.took += time.monotonic() - now
                break
        else:
            self.most = self.sum + _unlinked_bytes(pids) - self.before
            self.took += time.monotonic() - now
            self.due = time.monotonic() + max(0.1, 10 * self.took)
            self.linked = set()
            self.walk, self.sum, self.took = self.sizes(), 0, 0.0
        # Many small files are known to be too much before they are all counted.
        return max(self.most, self.sum - self.before)

    def sizes(self) -> Iterator[int]:
        """The bytes on disk of everything in the folders, with something for each name."""
        todo = list(self.folders)
        while todo:
            try:
                with os.scandir(todo.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(entry.path)
                        yield _NAME_BYTES + self.size(entry)
            except OSError:
                continue

    def size(self, entry: "os.DirEntry[str]") -> int:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return 0
        if status.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
            if (status.st_dev, status.st_ino) in self.linked:
                return 0
            self.linked.add((status.st_dev, status.st_ino))
        return status.st_blocks * 512


def _unlinked_bytes(pids: list[int]) -> int:
    """The bytes of files that have no name any more, or never had one, as memfd_create makes."""
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):
                    status = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        files[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(files.values())


def _supervise(line: socket.socket, order: dict[str, Any]) -> None:
    if libc := _libc():
        libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    if not _comes_first():
        # As root there is no other barrier against a fork bomb than that it must wait.
        order["priority"] = 19 if os.geteuid() == 0 else min(19, order["priority"] + 10)
    wake = _woken_by_signals()
    try:
        command = Command(order)
    except (OSError, subprocess.SubprocessError) as error:
        _send(line, {"refused": str(error)})
        return
    # The streams are the command's: their end must not wait for this process.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
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
    """Wait until the command ends or must be ended; return why."""
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
        rest = max(0.02, 10 * (time.monotonic() - now))
        ready, _, _ = select.select([line, wake], [], [], min(rest, limit - now))
        if wake in ready and _drained(wake) & {signal.SIGTERM, signal.SIGHUP}:
            return "lost"
        if line in ready:
            # Where burnish is gone, there is no word, or an error if it left some of ours unread.
            with contextlib.suppress(OSError):
                return line.recv(64).decode() or "lost"
            return "lost"


_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
"""By machine, the number of the system call."""
_JOIN_SESSION_KEYRING = 1


def _limiter(order: dict[str, Any]) -> Callable[[], None]:
    """What the new process does before it becomes the command."""
    libc, usual, keyctl = _libc(), order["priority"], _KEYCTL.get(os.uname().machine)
    tasks = None
    if order["processes"] is not None and os.geteuid() != 0:
        # Counted for the whole user, so it can only be the last barrier; root it does not bind.
        tasks = _tasks_of_user() + order["processes"] + _SPARE_TASKS

    def limit() -> None:
        if libc is not None:
            libc.prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
            if keyctl is not None:
                # A new session keyring: the keys of the user's session are not for commands. It
                # fails where the kernel has no keyrings, and there is nothing to keep then.
                libc.syscall(ctypes.c_long(keyctl), ctypes.c_long(_JOIN_SESSION_KEYRING), None)
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
    """All descendants of this process; stops soon after `enough` were found."""
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
    """The memory of a process, including shared memory."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * resource.getpagesize() if fields else 0


def _proportional_bytes(pid: int) -> int:
    """The same, with only its share of shared memory; much slower."""
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


def _comes_first() -> bool:
    """Whether this process is scheduled before a thousand others."""
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
    """Does nothing: the signal is read from the pipe."""


def _drained(pipe: int) -> set[int]:
    with contextlib.suppress(BlockingIOError):
        return set(os.read(pipe, 4096))
    return set()


def _send(line: socket.socket, report: dict[str, Any]) -> None:
    line.sendall(json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as _line:
        _line.set_inheritable(False)
        with _line.makefile("rb") as _orders:
            if _order := _orders.readline():
                _supervise(_line, json.loads(_order))
