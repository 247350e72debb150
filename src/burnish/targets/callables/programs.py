"""Agents that are programs: a Python function, an object for each conversation, or a command."""

import asyncio
import inspect
import json
import os
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from burnish.core.cases import Outcome, Usage
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Description
from burnish.journal.executors import timed_call
from burnish.metrics.document_matching import path_problem
from burnish.models.dotenv import require_own_addresses
from burnish.system import ChildProcesses, Redactor, expand_variables
from burnish.system.files import state_folder
from burnish.system.processes import own_children
from burnish.system.user_code import load_function
from burnish.system.variables import expanded_secrets
from burnish.targets.callables.http import written_out
from burnish.targets.callables.target import (
    AgentUnreachable,
    CallingTarget,
    Reply,
    TurnInput,
    of_text,
)
from burnish.targets.user_code import (
    agent_failure,
    current_prompts,
    in_thread,
    is_async,
    of_value,
    qualified_name,
    source_hash,
)
from burnish.tracing.recorder import recording
from burnish.tracing.steps import leave

LONGEST_OUTPUT = 8 * 1024 * 1024
_PART = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class _ProcessResult:
    """How a process ended and what it wrote."""

    code: int
    stdout: str
    stderr: str
    """The last part, on one line."""
    too_long: bool = False


async def _talk_to(
    process: asyncio.subprocess.Process, stdin: bytes, children: ChildProcesses
) -> _ProcessResult:
    """Write its input, read its output, and wait for its end.

    Processes that it left running in its group are ended too, so that the pipes close.
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
    return _ProcessResult(
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
    """All of it, or None if it is too long; then the process is killed.

    Also then it is read to its end: a pipe that nobody reads stays open.
    """
    whole, too_long = bytearray(), False
    while part := await pipe.read(_PART):
        if too_long:
            continue
        whole += part
        if too_long := len(whole) > LONGEST_OUTPUT:
            with suppress(ProcessLookupError):
                process.kill()
    return None if too_long else bytes(whole)


async def _last_words(pipe: asyncio.StreamReader) -> bytes:
    tail = b""
    while part := await pipe.read(_PART):
        tail = (tail + part)[-2000:]
    return tail


_InputWay: TypeAlias = Literal["stdin", "argument", "json"]
_PLACE = re.compile(r"\{(input|session|prompts)\}")


@dataclass(frozen=True, kw_only=True)
class CommandTarget(CallingTarget):
    """Starts a program for each turn; its stdout is the reply.

    `{input}` and `{session}` in its arguments are filled in, and where prompts are optimised also
    `{prompts}`, their folder. `${VAR}` in `env` is expanded when a process starts, and not stored.
    """

    command: Sequence[str]
    input: _InputWay | None = None
    """How it gets the input: None is `argument` if an argument contains {input}, else stdin."""
    cwd: Path | None = None
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    response_path: str = ""
    """Where the reply is in the JSON on stdout; empty takes all of stdout."""
    timeout: float = 60.0
    """Seconds for one turn; after that the agent was too slow."""
    processes: Path | None = None
    """Where running processes are recorded; None takes the user's state folder."""

    @property
    def description(self) -> Description:
        """What is started and how, with `${VAR}` unexpanded."""
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
        return self.way == "json" or "session" in self._places

    @property
    def _places(self) -> set[str]:
        return {name for part in self.command for name in _PLACE.findall(part)}

    @cached_property
    def _children(self) -> ChildProcesses:
        return own_children(self.processes or state_folder() / "processes")

    def problems(self) -> Sequence[Problem]:
        if not self.command:
            remedy = "give a program and its arguments, one item each"
            return [Problem(where="command", message="there is no command", remedy=remedy)]
        problems: list[Problem] = []
        if self.way == "argument" and "input" not in self._places:
            remedy = "put {input} into an argument, or pass the input on stdin"
            problems.append(
                Problem(where="command", message="the command has no {input}", remedy=remedy)
            )
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
            return [replace(problem, where="env") for problem in error.problems]
        if self.cwd is not None and not self.cwd.is_dir():
            return [Problem(where="cwd", message=f"there is no folder {self.cwd}")]
        program, path = self.command[0], environ.get("PATH")
        if os.sep in program:
            program, path = str((self.cwd or Path()) / program), None
        if shutil.which(program, path=path) is None:
            message = f"there is no program '{self.command[0]}'"
            remedy = "give a program on the PATH, or a path to one; no shell is used"
            return [Problem(where="command", message=message, remedy=remedy)]
        return []

    def _environ(self) -> dict[str, str]:
        own = {name: expand_variables(value, os.environ) for name, value in self.env.items()}
        require_own_addresses(self.env.values())
        current = current_prompts()
        prompts = {} if current is None else {"BURNISH_PROMPTS": str(current.folder)}
        return {**os.environ, **own, **prompts}

    def secrets(self) -> Sequence[str]:
        """What variables bring into its environment."""
        return [*expanded_secrets([*self.env.values()])]

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        yield self._reply

    async def _reply(self, turn: TurnInput) -> Outcome:
        values = {"input": turn.input, "session": turn.session, "prompts": self._prompts()}
        argv = [_PLACE.sub(lambda place: values[place[1]], part) for part in self.command]
        # Systems differ; Linux takes 128 kB for one argument.
        if any(len(part.encode()) > 100_000 for part in argv):
            message = "the input is too long for an argument: pass it on stdin"
            return agent_failure(message, "InputTooLong")
        ran = await self._run(argv, self._stdin(turn))
        if ran.too_long:
            return agent_failure(
                f"the command wrote more than {LONGEST_OUTPUT} bytes", "TooLong", mendable=True
            )
        if ran.code == 0:
            return of_text(ran.stdout.rstrip("\r\n"), self.response_path)
        last_words = Redactor.from_environment(extra=self.secrets()).text(ran.stderr)
        how = f"exit code {ran.code}" if ran.code >= 0 else f"signal {-ran.code}"
        message = f"the command ended with {how}{f': {last_words}' if last_words else ''}"
        if ran.code == 75:  # EX_TEMPFAIL: by it a command asks to be tried again
            raise AgentUnreachable(message)
        return agent_failure(message, "ExitCode")

    def _prompts(self) -> str:
        current = current_prompts()
        if current is None and "prompts" in self._places:
            message = "there is no folder for {prompts}"
            remedy = "run this agent with its prompts as fields to optimise"
            raise ConfigError([Problem(where="command", message=message, remedy=remedy)])
        return "" if current is None else str(current.folder)

    async def _run(self, argv: Sequence[str], stdin: bytes) -> _ProcessResult:
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


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, kw_only=True)
class _Signature:
    """How to call an agent."""

    factory: bool = False
    """Called without arguments, it makes an agent for one conversation."""
    history: bool = False
    session: bool = False
    asynchronous: bool = False


def _signature_of(agent: object, name: str) -> _Signature:
    """How to call it; raises a ConfigError for parameters that nothing is known for."""
    if not callable(agent):
        raise _wrong(name, f"{type(agent).__name__} cannot be called, and has no send(message)")
    try:
        parameters = dict(inspect.signature(agent).parameters)
    except (TypeError, ValueError):
        # Something made in C without a signature: it is given the query.
        parameters = {"query": inspect.Parameter("query", inspect.Parameter.POSITIONAL_ONLY)}
    context = {each for each in ("history", "session") if each in parameters}
    rest = [each for each in parameters.values() if each.name not in context]
    takes_query = not inspect.isclass(agent) and any(each.kind in _POSITIONAL for each in rest)
    empty = inspect.Parameter.empty
    unknown = [
        each.name
        for each in (rest[1:] if takes_query else rest)
        if each.default is empty and each.kind not in _VARIADIC
    ]
    if unknown:
        raise _wrong(name, f"no value is known for its parameter {', '.join(unknown)}")
    return _Signature(
        factory=not takes_query,
        history="history" in context,
        session="session" in context,
        asynchronous=is_async(agent),
    )


def _wrong(name: str, message: str) -> ConfigError:
    remedy = (
        "an agent takes the query, and optionally `history` and `session`; a class or a function "
        "without parameters makes one for each conversation"
    )
    return ConfigError([Problem(where=f"agent {name}", message=message, remedy=remedy)])


_REMEDY = (
    "an agent is module.path:function, importable from the folder of its file, "
    "such as `async def call_agent(query: str) -> str`"
)


@dataclass(frozen=True, kw_only=True)
class CallableTarget(CallingTarget):
    """Calls `agent(query)`.

    A parameter named `history` gets the earlier messages, one named `session` a text that is unique
    to the conversation. Something that is called without arguments, such as a class, makes an agent
    for each conversation, which has `send(message)` or is callable itself.
    """

    agent: Callable[..., Any]
    name: str = ""
    """Empty takes the name in its module."""
    fingerprint: str = ""
    """A hash of its source; empty takes that of its file."""
    signature: _Signature = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "signature", _signature_of(self.agent, self.title))

    @property
    def calls_function(self) -> bool:
        return True

    @classmethod
    def load(cls, reference: str, folder: Path, **more: Any) -> "CallableTarget":
        """Load the agent that `module:function` names, with `folder` on the import path."""
        loaded = load_function(reference, folder, what="agent", remedy=_REMEDY)
        return cls(agent=loaded.function, name=reference, fingerprint=loaded.fingerprint, **more)

    @property
    def title(self) -> str:
        return self.name or qualified_name(self.agent)

    @property
    def description(self) -> Description:
        """Its name and a hash of its file, without what that imports."""
        inner: Any = self.agent.func if isinstance(self.agent, partial) else self.agent  # pyright: ignore[reportUnknownMemberType]
        whole = inspect.isroutine(inner) or inspect.isclass(inner)
        named = inner if whole else cast("Any", type(inner))
        source = self.fingerprint or source_hash(named)
        return self._described("python", {"call": self.title, "source": source})

    @property
    def remembers(self) -> bool:
        return self.signature.factory or self.signature.history or self.signature.session

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        if not self.signature.factory:
            yield partial(_reply, self.agent, self.signature)
            return
        with timed_call():
            made = self.agent()
            if inspect.isawaitable(made):
                made = await made
        send = getattr(made, "send", made)
        name = f"{self.title}()"
        try:
            signature = _signature_of(send, name)
            if signature.factory:
                raise _wrong(name, "it takes no message")
            yield partial(_reply, send, signature)
        finally:
            close = getattr(made, "close", None)
            with timed_call():
                closing = close() if callable(close) else None
                if inspect.isawaitable(closing):
                    await closing


async def _reply(agent: Callable[..., Any], signature: _Signature, turn: TurnInput) -> Outcome:
    context: dict[str, Any] = {}
    if signature.history:
        context["history"] = turn.messages()
    if signature.session:
        context["session"] = turn.session
    call = partial(agent, turn.input if turn.data is None else turn.data, **context)
    with recording() as recorder:
        try:
            with timed_call():
                result = call() if signature.asynchronous else await in_thread(call)
                if inspect.isawaitable(result):
                    result = await result
        except SystemExit as error:
            message = f"the agent ended the program: sys.exit({error.code!r})"
            outcome = agent_failure(message, "SystemExit")
        except BaseException:  # cancelled or failed, the trace is kept
            leave(recorder.trace())
            raise
        else:
            outcome = of_value(result)
    trace = recorder.trace()
    if outcome.trace.steps or not trace.steps:
        return outcome
    usage = outcome.usage
    if usage == Usage():
        usage = sum((step.usage for step in trace.steps), Usage())
    return replace(outcome, trace=trace, usage=usage)
