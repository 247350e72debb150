"""Attempts to leave a sandbox, run inside it as `python attacks.py NAME,NAME WORLD`.

WORLD is a JSON file that names canaries on the host. A function prints ESCAPED if it got at one.
All are bounded and do no harm if they succeed: they read canaries, write empty files, or stop.
"""

import ctypes
import fcntl
import glob
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 1024 * 1024
World = dict[str, Any]
libc = ctypes.CDLL(None, use_errno=True)


def escaped(evidence: object) -> None:
    print("ESCAPED:", str(evidence)[:200], flush=True)


def _reads(path: str | Path, canary: str) -> bool:
    try:
        found = canary.encode() in Path(path).read_bytes()
    except OSError:
        return False
    if found:
        escaped(path)
    return found


def _opens(path: str | Path) -> None:
    """Opens a file of the machine for writing, and writes nothing."""
    try:
        with open(path, "ab"):
            escaped(path)
    except OSError:
        pass


def _writes(path: str | Path, world: World) -> None:
    """Writes to a canary; the host sees whether it is the real one, or one in the own /tmp."""
    try:
        with open(path, "ab") as file:
            file.write(world["mark"].encode())
    except OSError:
        pass


def _succeeds(way: Callable[[], object], what: str) -> None:
    try:
        way()
    except (OSError, ValueError):
        return
    escaped(what)


def _called(name: str, *arguments: Any) -> None:
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


# Reading


def read_holdout(world: World) -> None:
    _reads(world["holdout"], world["canary"])


def read_journal(world: World) -> None:
    _reads(world["journal"], world["canary"])


def read_ssh_key(world: World) -> None:
    _reads(world["ssh_key"], world["canary"])


def read_other_workspaces(world: World) -> None:
    for folder in {world["temporary"], "/tmp", "/var/tmp"}:
        for path in glob.glob(f"{folder}/.*.burnish-tmp/*") + glob.glob(f"{folder}/*/canary"):
            if not path.startswith(world["workspace"]):
                _reads(path, world["canary"])
    _reads(world["workspace_of_other"], world["canary"])


def read_shadow(world: World) -> None:
    _reads("/etc/shadow", "root:")


def read_parents_environment(world: World) -> None:
    for path in {"/proc/1/environ", f"/proc/{os.getppid()}/environ", *glob.glob("/proc/*/environ")}:
        _reads(path, world["secret"])


def environment_secrets(world: World) -> None:
    if world["secret"] in repr(dict(os.environ)):
        escaped("a key in the environment")


def reach_through_proc_root(world: World) -> None:
    for way in ("root", "cwd/../../../../../../../.."):
        for place in glob.glob("/proc/[0-9]*"):
            _reads(f"{place}/{way}{world['holdout']}", world["canary"])


def inherited_descriptors(world: World) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.lseek(int(name), 0, os.SEEK_SET)
                if world["canary"].encode() in os.read(int(name), 4096):
                    escaped(f"descriptor {name}")
            except OSError:
                continue


def see_other_processes(world: World) -> None:
    _reads(f"/proc/{world['pid']}/cmdline", "python")


# Processes


def ptrace_burnish(world: World) -> None:
    def attach() -> None:
        _called("ptrace", 16, world["pid"], None, None)  # PTRACE_ATTACH
        os.waitpid(world["pid"], 0x40000000)  # __WALL
        _called("ptrace", 17, world["pid"], None, None)  # PTRACE_DETACH

    _succeeds(attach, "attached to burnish")


def read_burnish_memory(world: World) -> None:
    _succeeds(lambda: open(f"/proc/{world['pid']}/mem", "rb").close(), "opened its memory")


def kill_burnish(world: World) -> None:
    _succeeds(lambda: os.kill(world["pid"], signal.SIGCONT), "signalled burnish")
    _succeeds(lambda: os.killpg(os.getpgid(world["pid"]), signal.SIGCONT), "signalled its group")


def kill_watcher(world: World) -> None:
    """Stops whoever started this; if it works, nobody is left to end this."""
    if os.getppid() > 1 and Path(f"/proc/{os.getppid()}/cmdline").read_bytes().count(b"supervisor"):
        _succeeds(lambda: os.kill(os.getppid(), signal.SIGCONT), "signalled the supervisor")


def daemon_outlives(world: World) -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for stream in range(3):
                os.close(stream)
            limit = time.monotonic() + 20
            while time.monotonic() < limit:
                Path(world["workspace"], "alive").write_text(str(time.monotonic()))
                time.sleep(0.01)
        os._exit(0)
    os.wait()
    while not Path(world["workspace"], "alive").exists():
        time.sleep(0.01)


def setuid(world: World) -> None:
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    if int(fields["CapEff"], 16) or int(fields["CapBnd"], 16):
        escaped(f"capabilities {fields['CapEff']}, at most {fields['CapBnd']}")
    if fields["NoNewPrivs"] != "1":
        escaped("a setuid program would get its owner's rights")
    _succeeds(lambda: os.setuid(12345), "became another user")


# Writing


def write_outside(world: World) -> None:
    for place in ("outside", "home", "run", "project", "temporary"):
        _writes(f"{world[place]}/made", world)
    _writes(world["holdout"], world)
    for folder in ("/etc", "/usr/local", "/var/tmp", "/"):
        _opens(f"{folder}/{world['mark']}")


def overwrite_interpreter(world: World) -> None:
    _opens(sys.executable)
    _opens(os.path.realpath(sys.executable))
    for folder in sys.path:
        if os.path.isdir(folder) and not folder.startswith(world["workspace"]):
            _opens(f"{folder}/{world['mark']}")


def overwrite_packages(world: World) -> None:
    for name in (".venv", "node_modules"):
        _writes(f"{world['workspace']}/{name}/made", world)
        _writes(f"{world['project']}/{name}/made", world)


def symlink_out(world: World) -> None:
    os.symlink(world["holdout"], "link")
    _reads("link", world["canary"])
    _writes("link", world)
    os.symlink(world["outside"], "way")
    _writes("way/made", world)


def hardlink_out(world: World) -> None:
    _succeeds(lambda: os.link(world["holdout"], "hard"), "linked the holdout")


def rename_out(world: World) -> None:
    Path("moved").write_text("x")
    _succeeds(lambda: os.rename("moved", f"{world['outside']}/moved"), "moved a file out")


def change_modes_outside(world: World) -> None:
    """The host sees whether it was the real file."""
    if os.path.exists(world["holdout"]):
        os.chmod(world["holdout"], 0o600)


def fifo_to_host(world: World) -> None:
    _succeeds(lambda: os.open(world["fifo"], os.O_WRONLY | os.O_NONBLOCK), "opened a pipe")


def device_nodes(world: World) -> None:
    for kind, name in ((stat.S_IFBLK, "disk"), (stat.S_IFCHR, "memory")):
        _succeeds(lambda k=kind, n=name: os.mknod(n, 0o600 | k, os.makedev(1, 1)), name)
    for path in (*glob.glob("/dev/[sv]d*"), *glob.glob("/dev/nvme*"), "/dev/mem", "/dev/kmsg"):
        _succeeds(lambda p=path: os.open(p, os.O_RDONLY | os.O_NONBLOCK), path)


def kernel_settings(world: World) -> None:
    for name in ("core_pattern", "modprobe", "hostname"):
        _succeeds(lambda n=name: os.open(f"/proc/sys/kernel/{n}", os.O_WRONLY), name)
    _succeeds(lambda: os.open("/proc/sysrq-trigger", os.O_WRONLY), "sysrq")


def core_dumps(world: World) -> None:
    if resource.getrlimit(resource.RLIMIT_CORE) != (0, 0):
        escaped("cores can be dumped")
    _succeeds(lambda: resource.setrlimit(resource.RLIMIT_CORE, (1, 1)), "raised the limit")


# Namespaces


def mount(world: World) -> None:
    os.makedirs("place", exist_ok=True)
    _succeeds(lambda: _called("mount", b"none", b"place", b"tmpfs", 0, None), "mounted")
    _succeeds(lambda: _called("mount", b"none", b"/", None, 32 | 4096, None), "remounted /")
    _succeeds(lambda: _called("umount2", b"/tmp", 2), "unmounted /tmp")


def unshare(world: World) -> None:
    if os.fork() == 0:
        _succeeds(lambda: _called("unshare", 0x10000000 | 0x20000), "a user namespace")
        os._exit(0)
    os.wait()


def change_root(world: World) -> None:
    os.makedirs("jail", exist_ok=True)
    _succeeds(lambda: os.chroot("jail"), "changed the root")


def enter_namespace(world: World) -> None:
    for name in ("mnt", "net", "pid"):

        def enter(kind: str = name) -> None:
            place = os.open(f"/proc/{world['pid']}/ns/{kind}", os.O_RDONLY)
            _called("setns", place, 0)

        _succeeds(enter, name)


# Sockets and memory


def _connects(family: int, kind: int, address: Any, what: str) -> None:
    def connect() -> None:
        with socket.socket(family, kind) as line:
            line.settimeout(2)
            line.connect(address)
            line.send(b"hello")

    _succeeds(connect, what)


def tcp_loopback(world: World) -> None:
    _connects(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", world["tcp"]), "TCP")


def udp_loopback(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(1)
        _succeeds(lambda: _echoed(line, world), "UDP")


def _echoed(line: socket.socket, world: World) -> None:
    line.sendto(b"hello", ("127.0.0.1", world["udp"]))
    line.recv(16)


def abstract_socket(world: World) -> None:
    _connects(socket.AF_UNIX, socket.SOCK_STREAM, "\0" + world["abstract"], "an abstract socket")


def socket_of_service(world: World) -> None:
    _connects(socket.AF_UNIX, socket.SOCK_STREAM, world["socket"], "a socket of a service")


def session_bus(world: World) -> None:
    """As D-Bus: the address is in the environment, or at a usual place."""
    address = os.environ.get("DBUS_SESSION_BUS_ADDRESS", "")
    if address:
        escaped(address)
    if world["canary"] in os.environ.get("XDG_RUNTIME_DIR", ""):
        escaped("the runtime folder")
    for path in ("/run/dbus/system_bus_socket", *glob.glob("/run/user/*/bus")):
        _connects(socket.AF_UNIX, socket.SOCK_STREAM, path, path)


def shared_memory(world: World) -> None:
    _reads(f"/dev/shm/{world['shared']}", world["canary"])
    _writes(f"/dev/shm/{world['shared']}", world)


def system_v_memory(world: World) -> None:
    _succeeds(lambda: _called("shmget", world["key"], 1, 0), "a segment of shared memory")


def terminal_injection(world: World) -> None:
    for path in (world["terminal"], "/dev/tty", "/dev/console", "/dev/stdin", "/dev/stdout"):

        def inject(name: str = path) -> None:
            line = os.open(name, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            fcntl.ioctl(line, 0x5412, b"x")  # TIOCSTI

        _succeeds(inject, path)
    _opens(world["terminal"])


# Limits: the host sees how they end


def fill_disk(world: World) -> None:
    for number in range(100):
        Path(f"part{number}").write_bytes(bytes(2 * MIB))
        time.sleep(0.005)
    time.sleep(20)
    escaped("200 MiB on disk")


def fill_memory_file_system(world: World) -> None:
    """Files in memory count for no process."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        place, kind = line.split()[1:3]
        if kind in ("tmpfs", "ramfs", "devtmpfs") and os.path.isdir(place):
            _opens(f"{place}/{world['mark']}")


def fill_memory_by_unnamed_files(world: World) -> None:
    files = [os.memfd_create(str(number)) for number in range(20)]
    for file in files:
        os.write(file, bytes(10 * MIB))
    time.sleep(20)
    escaped("200 MiB in memory")


def fork_bomb(world: World) -> None:
    for _ in range(200):
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
            os._exit(0)
    time.sleep(20)
    escaped("200 processes")


def memory_hog(world: World) -> None:
    code = f"x = bytes({64 * MIB}) + b'x'; import time; time.sleep(20)"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(6)]
    for child in children:
        child.wait()
    escaped("384 MiB in memory")


def run_for_ever(world: World) -> None:
    for number in range(1, 65):
        if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
            signal.signal(number, signal.SIG_IGN)
    time.sleep(30)
    escaped("it ran past its time")


ATTACKS = {
    name: function
    for name, function in list(globals().items())
    if callable(function)
    and not name.startswith("_")
    and getattr(function, "__module__", "") == __name__
    and name != "escaped"
}

if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as _file:
        _world = json.load(_file)
    for _name in sys.argv[1].split(","):
        print("==", _name, flush=True)
        # Each in a process of its own, for some change what they may do.
        if (_child := os.fork()) == 0:
            try:
                ATTACKS[_name](_world)
                print("ended", flush=True)
            except BaseException as _error:
                print(repr(_error), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        if os.waitpid(_child, 0)[1]:
            sys.exit(1)
