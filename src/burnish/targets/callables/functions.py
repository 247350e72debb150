"""An agent that is a Python function, or an object for each conversation."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from burnish.core.errors import ConfigError, Problem
from burnish.core.outcomes import Outcome, Usage
from burnish.core.protocols import Description
from burnish.journal.executors import timed_call
from burnish.system.user_functions import load_function
from burnish.targets.callables.target import CallingTarget, Reply, TurnInput
from burnish.targets.user_code import (
    agent_failure,
    in_thread,
    is_async,
    of_value,
    qualified_name,
    source_hash,
)
from burnish.tracing.recorder import recording
from burnish.tracing.steps import leave

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
    call = partial(agent, turn.input, **context)
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
