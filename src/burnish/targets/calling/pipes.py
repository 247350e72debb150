"""The pipes of a child process: all is written and read at once, within bounds."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from burnish.system import ChildProcesses

LONGEST_OUTPUT = 8 * 1024 * 1024
_TAIL = 2000
_PART = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a process ended and what it wrote."""

    code: int
    stdout: str
    stderr: str
    """Its last words, on one line."""
    too_long: bool = False


async def talk_to(
    process: asyncio.subprocess.Process, stdin: bytes, children: ChildProcesses
) -> Ran:
    """Give it its input, read what it writes, and wait for its end.

    What it left running in its group is ended as well, so that the pipes come to an end.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_write(process.stdin, stdin))
        said = group.create_task(_read(process.stdout, process))
        complained = group.create_task(_last_words(process.stderr))
        code = group.create_task(children.wait(process))
    whole = said.result()
    return Ran(
        code=code.result(),
        stdout="" if whole is None else whole.decode(errors="replace"),
        stderr=" ".join(complained.result().decode(errors="replace").split()),
        too_long=whole is None,
    )


async def _write(pipe: asyncio.StreamWriter, content: bytes) -> None:
    # A program that does not read its input may be gone before it was given all of it.
    with suppress(ConnectionError):
        pipe.write(content)
        await pipe.drain()
    pipe.close()
    with suppress(ConnectionError):
        await pipe.wait_closed()


async def _read(pipe: asyncio.StreamReader, process: asyncio.subprocess.Process) -> bytes | None:
    """All of it, or None where it is too much; then the process is ended."""
    whole = bytearray()
    while part := await pipe.read(_PART):
        whole += part
        if len(whole) > LONGEST_OUTPUT:
            with suppress(ProcessLookupError):
                process.kill()
            return None
    return bytes(whole)


async def _last_words(pipe: asyncio.StreamReader) -> bytes:
    tail = b""
    while part := await pipe.read(_PART):
        tail = (tail + part)[-_TAIL:]
    return tail
