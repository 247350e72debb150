"""Confines this process with Landlock and then becomes the command; started as a script.

    python landlock.py [--status-fd N] RULES -- PROGRAM ARGUMENTS…

Only the standard library is imported, for it must start fast. RULES is JSON. It writes `started` to
the status descriptor once the rules are in force; without that, the command has not run.
"""

import contextlib
import ctypes
import json
import os
import stat
import struct
import sys
from typing import TypedDict

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_NO_NEW_PRIVILEGES, _DROP_CAPABILITY = 38, 24
_EXECUTE, _WRITE, _READ, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL = 1 << 14, 1 << 15
_FILE = _EXECUTE | _WRITE | _READ | _TRUNCATE | _IOCTL
"""Rights that a single file can have."""
_LAST_RIGHT = {1: 12, 2: 13, 3: 14, 4: 14}
"""By version of the interface, the highest right to files; the fifth has one more."""
_TCP_SINCE, _SCOPES_SINCE = 4, 6
_TCP, _ABSTRACT_SOCKETS, _SIGNALS = 3, 1, 2
READ, WRITE = "read", "write"


class _Interface(TypedDict):
    abi: int
    """The version of the kernel's interface."""


class Rules(_Interface, total=False):
    """What the command may do. Without `read`, files and network stay as they are."""

    read: list[str]
    write: list[str]
    devices: list[str]
    tcp: bool
    """Whether it may use TCP."""
    sockets: bool
    """Whether abstract sockets of other processes are out of its reach."""


def abi_version() -> int:
    """The version of the kernel's interface; 0 if there is none."""
    if sys.platform != "linux":
        return 0
    try:
        return _called(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def guards_signals(abi: int) -> bool:
    """Whether processes can be kept from signalling others."""
    return abi >= _SCOPES_SINCE


def blocks_tcp(abi: int) -> bool:
    """Whether TCP can be denied."""
    return abi >= _TCP_SINCE


def _confine(rules: Rules) -> None:
    """Put the rules in force, for this process and all that it starts; OSError if that fails."""
    abi = rules["abi"]
    files = (1 << _LAST_RIGHT.get(abi, 15) + 1) - 1 if READ in rules else 0
    denies_tcp = READ in rules and blocks_tcp(abi) and not rules.get("tcp")
    net = _TCP if denies_tcp else 0
    scopes = _SIGNALS if guards_signals(abi) else 0
    if scopes and rules.get("sockets"):
        scopes |= _ABSTRACT_SOCKETS
    size = 24 if abi >= _SCOPES_SINCE else 16 if abi >= _TCP_SINCE else 8
    attributes = struct.pack("=QQQ", files, net, scopes)[:size]
    ruleset = _called(_CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0)
    reading, device = _EXECUTE | _READ | _READ_FOLDER, _READ | _WRITE | _TRUNCATE | _IOCTL
    writing = files & ~(_MAKE_CHARACTER | _MAKE_BLOCK)
    for paths, rights in (
        (rules.get(READ, []), reading),
        (rules.get(WRITE, []), writing),
        (rules.get("devices", []), device),
    ):
        for path in paths:
            _allow(ruleset, path, rights & files)
    libc = _libc()
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _called(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    if files:
        # What root runs has none of root's privileges, as in bubblewrap: fails for others.
        for capability in range(64):
            libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # What is not there, or cannot be reached, is not visible anyway.
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            rights &= _FILE
        rule = struct.pack("=Qi", rights, place)
        _called(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(place)


def _called(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = _libc().syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _main(arguments: list[str]) -> None:
    status = -1
    if arguments[0] == "--status-fd":
        status, arguments = int(arguments[1]), arguments[2:]
        os.set_inheritable(status, False)  # noqa: FBT003
    end = arguments.index("--") if "--" in arguments else len(arguments)
    rules, argv = arguments[:end], arguments[end + 1 :]
    if not argv:
        sys.exit("landlock: there is no command")
    try:
        _confine(json.loads("".join(rules)))
    except OSError as error:
        sys.exit(f"landlock: {error.strerror}")
    if status >= 0:
        with contextlib.suppress(OSError):
            os.write(status, b"started")
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(126 if isinstance(error, PermissionError) else 127)


if __name__ == "__main__":
    _main(sys.argv[1:])
