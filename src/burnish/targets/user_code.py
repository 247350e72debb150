"""What a user brings: Python functions, how they run and what they return, and web addresses."""

import asyncio
import contextvars
import inspect
import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.cases import Failure, FailureKind, Outcome
from burnish.core.content import Json
from burnish.metrics.text_matching import spelled
from burnish.models.endpoints import Endpoint
from burnish.system.user_code import file_fingerprint
from burnish.tracing.steps import applied

if TYPE_CHECKING:
    import ssl

    from httpx2 import AsyncClient, Client


def agent_failure(message: str, error: str, *, mendable: bool = False) -> Outcome:
    """The outcome of an agent that failed; `mendable` if it answered something of no use."""
    failure = Failure(kind=FailureKind.AGENT, message=message, error=error, mendable=mendable)
    return Outcome(failure=failure, nano_usd=None)


@runtime_checkable
class _OutcomeLike(Protocol):
    """A type of another system for what an agent did."""

    def as_outcome(self) -> Outcome:
        """The same as an outcome."""
        ...


def of_value(value: object) -> Outcome:
    """The outcome of a function that returned text, structured data or an outcome."""
    if isinstance(value, Outcome):
        return value
    if isinstance(value, str):
        return Outcome(replies=(value,), nano_usd=None)
    if value is None:
        message = "the agent returned None instead of a reply"
        return agent_failure(message, "InvalidReply", mendable=True)
    if isinstance(value, _OutcomeLike):
        return value.as_outcome()
    try:
        data: Json = to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        cause = f"the agent returned {type(value).__name__}, which is neither text nor JSON"
        return agent_failure(f"{cause}: {error}", "InvalidReply", mendable=True)
    return Outcome(replies=(spelled(data),), data=data, nano_usd=None)


_IDLE_SECONDS = 1.0
_idle: "list[_Thread]" = []
"""Threads without a call. One whose call hangs is not among them, so it delays nobody."""
os.register_at_fork(after_in_child=_idle.clear)  # a child process has none of them


class _Thread:
    """A thread that makes one call after the other, and ends when there is none for a while."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="burnish agent").start()

    def make(self, call: Callable[[], None]) -> None:
        """Make a call; `call` reports its result itself."""
        self._calls.put(call)

    def _work(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=_IDLE_SECONDS)
            except Empty:
                try:
                    _idle.remove(self)
                except ValueError:  # taken at this moment: its call is on the way
                    continue
                return
            call()
            del call  # what it refers to is not needed until the next one


def _free_thread() -> _Thread:
    try:
        return _idle.pop()
    except IndexError:
        return _Thread()


async def in_thread(function: Callable[[], Any]) -> Any:
    """Call a function in a thread of its own. If cancelled, the thread is left to itself."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    context, thread = contextvars.copy_context(), _free_thread()

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function)
        except StopIteration as stop:
            # A future cannot hold it: it would end whatever loop waits for it.
            error = RuntimeError(f"the agent raised StopIteration: {stop}")
        except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        _idle.append(thread)  # before the result, which may bring the next call
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    thread.make(work)
    return await future


def is_async(function: object) -> bool:
    """Whether calling the function returns a coroutine."""
    while isinstance(function, partial):
        function = function.func  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    call = getattr(function, "__call__", None)  # noqa: B004 - its kind matters, not whether it has one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def qualified_name(function: Callable[..., Any]) -> str:
    """The name of a function as `module:name`."""
    inner = function.func if isinstance(function, partial) else function
    named = inner if hasattr(inner, "__qualname__") else type(inner)
    return f"{getattr(named, '__module__', 'builtins')}:{named.__qualname__}"


def source_hash(function: Any) -> str:
    """A hash of the file that defines a function or class; empty if it has none."""
    try:
        return file_fingerprint(inspect.getsourcefile(function))
    except TypeError:
        return ""  # made in C, or typed into a console


# -- The texts of the current candidate ------------------------------------------------------------


_BOM = "\ufeff"


@dataclass(frozen=True, kw_only=True)
class CurrentPrompts:
    """The texts of one candidate, for one run of one case."""

    texts: Mapping[str, str]
    make_folder: Callable[[], Path]
    """Returns the folder with the texts as files, made when first needed."""
    used: set[str] = field(default_factory=set[str])
    """The fields that were requested by name."""

    @property
    def folder(self) -> Path:
        """The folder with the texts as files."""
        return self.make_folder()


_CURRENT: ContextVar[CurrentPrompts | None] = ContextVar("burnish_prompts", default=None)


def prompt(
    name: str, path: str | os.PathLike[str] | None = None, *, default: str | None = None
) -> str:
    """The text of a prompt field: the candidate's while a run is active.

    Otherwise the content of the file, or the default, so that an agent in production needs no other
    code. Inside a `burnish.step` it is one of the surfaces of that step. A thread that the agent
    starts does not belong to the run, unless `burnish.carry` takes it there.
    """
    current = _CURRENT.get()
    if current is not None and name in current.texts:
        current.used.add(name)
        applied(name)
        return current.texts[name]
    if path is not None:
        return Path(path).read_bytes().decode().removeprefix(_BOM)
    if default is not None:
        return default
    raise KeyError(_no_prompt(name, current))


def prompts_folder(default: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the candidate's prompt files; `default` while no run is active."""
    current = _CURRENT.get()
    if current is not None:
        return current.folder
    if default is not None:
        return Path(default)
    raise LookupError(
        "no run is active, so there is no folder of prompts: give a fallback, "
        'such as burnish.prompts_folder("prompts")'
    )


def current_prompts() -> CurrentPrompts | None:
    """The current candidate's texts, or None."""
    return _CURRENT.get()


@contextmanager
def providing(prompts: CurrentPrompts) -> Generator[None, None, None]:
    """Provide these prompts to everything called inside the block."""
    token = _CURRENT.set(prompts)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _no_prompt(name: str, current: CurrentPrompts | None) -> str:
    if current is not None:
        return f'no prompt field "{name}": there are {", ".join(current.texts) or "none"}'
    return (
        f'no run is active, so there is no prompt "{name}": give a fallback, '
        f'such as burnish.prompt("{name}", "prompts/{name}.md") or default="…"'
    )


# -- Addresses on the web --------------------------------------------------------------------------


def is_web_address(url: str) -> bool:
    """Whether this is an http:// or https:// address with a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def web_client(url: str, *, most_bytes: int | None = None, **options: Any) -> "AsyncClient":
    """A client without a proxy for this machine.

    With `most_bytes`, an answer that is larger raises AnswerTooLarge, and is read no further.
    """
    import httpx2

    from burnish.models.answer_limits import ENCODINGS, reads_at_most

    if most_bytes is not None:
        options["headers"] = {"Accept-Encoding": ENCODINGS, **options.get("headers", {})}
        options["event_hooks"] = {"response": [reads_at_most(most_bytes)]}
    local = Endpoint(address=url, key="").is_local
    return httpx2.AsyncClient(trust_env=not local, verify=_certificates(), **options)


def blocking_client(url: str, **options: Any) -> "Client":
    """The same for threads, without a limit of bytes."""
    import httpx2

    local = Endpoint(address=url, key="").is_local
    return httpx2.Client(trust_env=not local, verify=_certificates(), **options)


def fetched(url: str, headers: Mapping[str, str], *, most_bytes: int, seconds: float) -> bytes:
    """What an address answers to GET; raises ConnectionError with the reason if nothing."""
    import httpx2

    content = bytearray()
    try:
        with (
            blocking_client(url, timeout=seconds, headers=dict(headers)) as client,
            client.stream("GET", url) as response,
        ):
            for piece in response.iter_bytes():
                content += piece
                if len(content) > most_bytes:
                    raise ConnectionError(f"it answered with more than {most_bytes} bytes")
    except (httpx2.HTTPError, OSError) as error:
        raise ConnectionError(str(error) or type(error).__name__) from None
    if not response.is_success:
        raise ConnectionError(f"it answered HTTP {response.status_code}")
    return bytes(content)


@cache
def _certificates() -> "ssl.SSLContext":
    """Reading the certificates takes longer than many a download."""
    import httpx2

    return httpx2.create_ssl_context()
