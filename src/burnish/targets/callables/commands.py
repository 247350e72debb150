"""An agent that is a command: one process a turn, without a shell."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description
from burnish.metrics.json_matching import path_problem
from burnish.system import ChildProcesses, expand_variables
from burnish.system.files import state_folder
from burnish.system.processes import own_children
from burnish.targets.callables.http import hidden, written_out
from burnish.targets.callables.target import (
    AgentUnreachable,
    CallingTarget,
    Reply,
    TurnInput,
    failed,
    of_text,
)
from burnish.targets.current_prompts import current_prompts

LONGEST_OUTPUT = 8 * 1024 * 1024
_TAIL = 2000
_PART = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class _Ran:
    """How a process ended and what it wrote."""

    code: int
    stdout: str
    stderr: str
    """Its last words, on one line."""
    too_long: bool = False


async def _talk_to(
    process: asyncio.subprocess.Process, stdin: bytes, children: ChildProcesses
) -> _Ran:
    """Give it its input, read what it writes, and wait for its end.

    What it left running in its group is ended as well, so that the pipes come to an end.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(_write(process.stdin, stdin))
        output = group.create_task(_read(process.stdout, process))
        complained = group.create_task(_last_words(process.stderr))
        code = group.create_task(children.wait(process))
    whole = output.result()
    return _Ran(
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


# -- An agent that is a command -------------------------------------------------------------------


_InputWay: TypeAlias = Literal["stdin", "argument", "json"]

_TEMPORARY_FAILURE = 75
"""The exit code by which a command says that it is worth trying again (EX_TEMPFAIL)."""
_PROMPTS_VARIABLE = "BURNISH_PROMPTS"
"""Where a process finds the folder of the candidate's prompts."""
_PLACE = re.compile(r"\{(input|session|prompts)\}")
_LONGEST_ARGUMENT = 100_000
"""Systems differ; Linux takes 128 kB for one argument."""


@dataclass(frozen=True, kw_only=True)
class CommandTarget(CallingTarget):
    """Starts a program for each turn; what it writes to stdout is the reply.

    `{input}` and `{session}` in its arguments are filled in, and where prompts are optimised
    `{prompts}`, the folder in which they lie. `${VAR}` in `env` is expanded when a process is
    started, and kept nowhere.
    """

    command: Sequence[str]
    input: _InputWay | None = None
    """How it gets what is asked: None is `argument` where an argument says {input}, else stdin."""
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    response_path: str = ""
    """Where in the JSON on stdout the reply stands; empty takes all of stdout."""
    timeout: float = 60.0
    """Seconds for one turn; past them it is the agent that was too slow."""
    processes: Path | None = None
    """Where running processes are on record; None takes the user's state folder."""

    @property
    def description(self) -> Description:
        """What is started and how, `${VAR}` unexpanded. What the program is made of is not seen."""
        config: dict[str, Json] = {
            "command": list(self.command),
            "input": self.way,
            "env": dict(self.env),
            "response_path": self.response_path,
            "timeout": self.timeout,
        }
        return self._described("command", config)

    @property
    def way(self) -> _InputWay:
        """How the input gets there."""
        return self.input or ("argument" if "input" in self._places else "stdin")

    @property
    def remembers(self) -> bool:
        """Whether a process is told what was said, or which conversation this is."""
        return self.way == "json" or "session" in self._places

    @property
    def _places(self) -> set[str]:
        return {name for part in self.command for name in _PLACE.findall(part)}

    @cached_property
    def _children(self) -> ChildProcesses:
        return own_children(self.processes or state_folder() / "processes")

    def problems(self) -> Sequence[Problem]:
        """What is wrong with the settings, each with the setting it is about."""
        if not self.command:
            remedy = "name a program and its arguments, one item each"
            return [Problem(where="command", message="there is no command", remedy=remedy)]
        problems: list[Problem] = []
        if self.way == "argument" and "input" not in self._places:
            remedy = "put {input} into an argument, or give the input on stdin"
            problems.append(Problem(where="command", message="no {input} in it", remedy=remedy))
        if self.response_path and (cause := path_problem(self.response_path)):
            problems.append(Problem(where="response_path", message=cause))
        problems += [
            Problem(where=f"env.{name}", message=message, remedy="write it as ${NAME}")
            for name, value in self.env.items()
            if (message := written_out(name, value))
        ]
        return [*problems, *self._unready()]

    def _unready(self) -> list[Problem]:
        try:
            environ = self._environ()
        except ConfigError as error:
            return [Problem(where="env", message=p.message, remedy=p.remedy)
                    for p in error.problems]  # fmt: skip
        if self.cwd is not None and not self.cwd.is_dir():
            return [Problem(where="cwd", message=f"there is no folder {self.cwd}")]
        if _found(self.command[0], self.cwd, environ) is None:
            message = f"there is no program '{self.command[0]}'"
            remedy = "name a program on the PATH, or a path to one; there is no shell"
            return [Problem(where="command", message=message, remedy=remedy)]
        return []

    def _environ(self) -> dict[str, str]:
        own = {name: expand_variables(value, os.environ) for name, value in self.env.items()}
        current = current_prompts()
        prompts = {} if current is None else {_PROMPTS_VARIABLE: str(current.folder)}
        return {**os.environ, **own, **prompts}

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        """Nothing is held open: each turn is a process."""
        yield self._reply

    async def _reply(self, turn: TurnInput) -> Outcome:
        prompts = self._prompts()
        argv = [_filled(part, turn, prompts) for part in self.command]
        if any(len(part.encode()) > _LONGEST_ARGUMENT for part in argv):
            message = "the input is too long for an argument: give it on stdin"
            return failed(message, "InputTooLong")
        ran = await self._run(argv, self._stdin(turn))
        if ran.too_long:
            return failed(f"the command wrote more than {LONGEST_OUTPUT} bytes", "TooLong")
        if ran.code == 0:
            return of_text(ran.stdout.rstrip("\r\n"), self.response_path)
        secrets = (expand_variables(value, os.environ) for value in self.env.values())
        said_last = hidden(ran.stderr, secrets)
        message = f"the command ended with {_how(ran.code)}{f': {said_last}' if said_last else ''}"
        if ran.code == _TEMPORARY_FAILURE:
            raise AgentUnreachable(message)
        return failed(message, "ExitCode")

    def _prompts(self) -> str:
        current = current_prompts()
        if current is None and "prompts" in self._places:
            message = "nobody gives the folder for {prompts}"
            remedy = "such an agent runs where its prompts are named too: as fields to optimise"
            raise ConfigError([Problem(where="command", message=message, remedy=remedy)])
        return "" if current is None else str(current.folder)

    async def _run(self, argv: Sequence[str], stdin: bytes) -> _Ran:
        children, pipe = self._children, asyncio.subprocess.PIPE
        process = await children.spawn(
            argv, cwd=self.cwd, env=self._environ(), stdin=pipe, stdout=pipe, stderr=pipe
        )
        try:
            async with asyncio.timeout(self.timeout):
                return await _talk_to(process, stdin, children)
        except TimeoutError:
            raise TimeoutError(f"the command ran for more than {self.timeout:g} s") from None
        finally:
            await children.end(process, grace=0)

    def _stdin(self, turn: TurnInput) -> bytes:
        if self.way == "argument":
            return b""
        if self.way == "stdin":
            return turn.input.encode()
        whole = {"input": turn.input, "history": turn.messages(), "session": turn.session}
        return f"{json.dumps(whole, ensure_ascii=False)}\n".encode()


def _filled(part: str, turn: TurnInput, prompts: str) -> str:
    values = {"input": turn.input, "session": turn.session, "prompts": prompts}
    return _PLACE.sub(lambda place: values[place[1]], part)


def _found(program: str, cwd: Path | None, environ: Mapping[str, str]) -> str | None:
    if os.sep in program:
        return shutil.which(str((cwd or Path()) / program))
    return shutil.which(program, path=environ.get("PATH"))


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
