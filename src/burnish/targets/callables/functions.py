"""An agent that is a Python function, or an object for each conversation."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome, Trace, Usage
from burnish.core.protocols import Description
from burnish.journal.executors import timed_call
from burnish.system.user_functions import file_fingerprint, load_function
from burnish.targets.callables.target import CallingTarget, Reply, TurnInput, failed, of_value
from burnish.tracing.recorder import recording
from burnish.tracing.steps import leave

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_CONTEXT = ("history", "session")


@dataclass(frozen=True, kw_only=True)
class _Manner:
    """What a call is made of."""

    factory: bool = False
    """Called without arguments, it makes an agent for one conversation."""
    history: bool = False
    session: bool = False
    asynchronous: bool = False


def _manner_of(agent: object, name: str) -> _Manner:
    """How to call it, or a ConfigError that says what cannot be given to it."""
    if not callable(agent):
        raise _wrong(name, f"{type(agent).__name__} cannot be called, and has no send(message)")
    parameters = _parameters(agent)
    context = {each for each in _CONTEXT if each in parameters}
    rest = [each for each in parameters.values() if each.name not in context]
    takes_query = not inspect.isclass(agent) and any(each.kind in _POSITIONAL for each in rest)
    _refuse_unknown(rest[1:] if takes_query else rest, name)
    return _Manner(
        factory=not takes_query,
        history="history" in context,
        session="session" in context,
        asynchronous=_is_async(agent),
    )


def _speaking_manner(agent: object, name: str) -> _Manner:
    """How to call what was made for a conversation: it must take what is said."""
    manner = _manner_of(agent, name)
    if manner.factory:
        raise _wrong(name, "it takes no message")
    return manner


def _parameters(agent: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(agent).parameters)
    except (TypeError, ValueError):
        # Something made in C that does not tell: it is given the query.
        return {"query": inspect.Parameter("query", inspect.Parameter.POSITIONAL_ONLY)}


def _refuse_unknown(rest: list[inspect.Parameter], name: str) -> None:
    empty = inspect.Parameter.empty
    unknown = [each.name for each in rest if each.default is empty and each.kind not in _VARIADIC]
    if unknown:
        raise _wrong(name, f"nothing is known to give for its parameter {', '.join(unknown)}")


def _is_async(agent: object) -> bool:
    inner = agent
    while isinstance(inner, partial):
        inner = inner.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - asked for what it is, not whether
    )


def _wrong(name: str, message: str) -> ConfigError:
    remedy = (
        "an agent takes the query, and `history` and `session` if it wants them; a class or a "
        "function without parameters makes one for each conversation"
    )
    return ConfigError([Problem(where=f"agent {name}", message=message, remedy=remedy)])


# -- Running a user's function in a thread of its own ---------------------------------------------


async def in_thread(function: Callable[[], Any]) -> Any:
    """What the function returns or raises. Cancelled, it is left to itself."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(result)
        else:
            ended.set_exception(error)

    def work() -> None:
        result, error = _called(function)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), daemon=True, name="burnish agent").start()
    return await ended


def _called(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return function(), None
    except StopIteration as error:
        # A future cannot hold it: it would end whatever loop waits for it.
        return None, RuntimeError(f"the agent raised StopIteration: {error}")
    except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
        return None, error


# -- An agent that is a Python function, or an object for each conversation -----------------------


_REMEDY = (
    "an agent is module.path:function, importable from the folder of the file that names it, "
    "such as `async def call_agent(query: str) -> str`"
)


@dataclass(frozen=True, kw_only=True)
class CallableTarget(CallingTarget):
    """Calls `agent(query)`.

    A parameter named `history` is given what was said before, one named `session` a text that
    only this conversation has. Something that is called without arguments, such as a class,
    makes an agent for each conversation, which has `send(message)` or is called itself.
    """

    agent: Callable[..., Any]
    name: str = ""
    """What it is called; empty takes the name that it has in its module."""
    fingerprint: str = ""
    """A hash of its source; empty takes that of the file it stands in."""
    manner: _Manner = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "manner", _manner_of(self.agent, self.title))

    @property
    def calls_function(self) -> bool:
        """It is one."""
        return True

    @classmethod
    def load(cls, reference: str, folder: Path, **more: Any) -> "CallableTarget":
        """The agent that `module:function` names, with `folder` on the import path."""
        loaded = load_function(reference, folder, what="agent", remedy=_REMEDY)
        return cls(agent=loaded.function, name=reference, fingerprint=loaded.fingerprint, **more)

    @property
    def title(self) -> str:
        """What it is called."""
        return self.name or _name(self.agent)

    @property
    def description(self) -> Description:
        """Its name and a hash of its file; what that imports is not seen."""
        config: dict[str, Json] = {
            "call": self.title,
            "source": self.fingerprint or _source(self.agent),
        }
        return self._described("python", config)

    @property
    def remembers(self) -> bool:
        """Whether it is made for each conversation, or told what was said."""
        return self.manner.factory or self.manner.history or self.manner.session

    @asynccontextmanager
    async def conversation(self) -> AsyncGenerator[Reply, None]:
        """The function, or an agent made for this conversation."""
        if not self.manner.factory:
            yield partial(_reply, self.agent, self.manner)
            return
        with timed_call():
            made = self.agent()
            if inspect.isawaitable(made):
                made = await made
        speak = getattr(made, "send", made)
        try:
            yield partial(_reply, speak, _speaking_manner(speak, f"{self.title}()"))
        finally:
            await _close(made)


async def _reply(agent: Callable[..., Any], manner: _Manner, turn: TurnInput) -> Outcome:
    context: dict[str, Any] = {}
    if manner.history:
        context["history"] = turn.messages()
    if manner.session:
        context["session"] = turn.session
    call = partial(agent, turn.input, **context)
    with recording() as recorder:
        try:
            with timed_call():
                result = call() if manner.asynchronous else await in_thread(call)
                if inspect.isawaitable(result):
                    result = await result
        except SystemExit as error:
            outcome = failed(f"the agent ended the program: sys.exit({error.code!r})", "SystemExit")
        except BaseException:
            leave(recorder.trace())
            raise
        else:
            outcome = of_value(result)
    return _with_steps(outcome, recorder.trace())


def _with_steps(outcome: Outcome, trace: Trace) -> Outcome:
    """The outcome with the steps that were recorded, unless the agent told its own."""
    if outcome.trace.steps or not trace.steps:
        return outcome
    usage = outcome.usage
    if usage == Usage():
        usage = sum((step.usage for step in trace.steps), Usage())
    return replace(outcome, trace=trace, usage=usage)


async def _close(made: object) -> None:
    close = getattr(made, "close", None)
    with timed_call():
        ended = close() if callable(close) else None
        if inspect.isawaitable(ended):
            await ended


def _name(agent: Callable[..., Any]) -> str:
    inner = agent.func if isinstance(agent, partial) else agent
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', 'builtins')}:{named.__qualname__}"


def _source(agent: Callable[..., Any]) -> str:
    inner = agent.func if isinstance(agent, partial) else agent
    named = inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)
    try:
        return file_fingerprint(inspect.getsourcefile(named))
    except TypeError:
        return ""  # made in C, or typed into a console
