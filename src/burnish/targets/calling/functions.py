"""An agent that is a Python function, or an object for each conversation."""

import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from burnish.core.content import Json
from burnish.core.outcomes import Outcome, Trace, Usage
from burnish.core.protocols import Description
from burnish.effects.call_time import timed_call
from burnish.system.user_functions import file_fingerprint, load_function
from burnish.targets.calling.answers import failed, of_value
from burnish.targets.calling.manners import Manner, manner_of, speaking_manner
from burnish.targets.calling.talks import Reply, Said
from burnish.targets.calling.target import CallingTarget
from burnish.targets.calling.threads import in_thread
from burnish.targets.tracing.leaving import leave
from burnish.targets.tracing.recorder import recording

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
    manner: Manner = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "manner", manner_of(self.agent, self.title))

    @property
    def calls_function(self) -> bool:
        """It is one."""
        return True

    @classmethod
    def load(cls, reference: str, folder: Path, **more: Any) -> "CallableTarget":
        """The agent that `module:function` names, with `folder` on the import path."""
        found = load_function(reference, folder, what="agent", remedy=_REMEDY)
        return cls(agent=found.function, name=reference, fingerprint=found.fingerprint, **more)

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
            yield partial(_reply, speak, speaking_manner(speak, f"{self.title}()"))
        finally:
            await _close(made)


async def _reply(agent: Callable[..., Any], manner: Manner, said: Said) -> Outcome:
    told: dict[str, Any] = {}
    if manner.history:
        told["history"] = said.messages()
    if manner.session:
        told["session"] = said.session
    call = partial(agent, said.input, **told)
    with recording() as recorder:
        try:
            with timed_call():
                found = call() if manner.asynchronous else await in_thread(call)
                if inspect.isawaitable(found):
                    found = await found
        except SystemExit as error:
            outcome = failed(f"the agent ended the program: sys.exit({error.code!r})", "SystemExit")
        except BaseException:
            leave(recorder.trace())
            raise
        else:
            outcome = of_value(found)
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
