"""Steps of an agent's code: `with burnish.step("planner")`, `@burnish.traced`, `burnish.carry`.

Strands are lines of work, such as tasks and threads, that fork and join. A context variable is
copied silently when a task starts. So a new strand is recognised when a context is used by someone
other than its owner. The open ends of a finished strand pass to the strand that started it.
"""

import asyncio
import contextvars
import inspect
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from itertools import takewhile
from time import perf_counter
from types import TracebackType
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.cases import Step, ToolCall, Trace, Usage
from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, NotJournalable

_Task = asyncio.Task[Any]
_Loop = asyncio.AbstractEventLoop
Head = TypeVar("Head")
"""The type of a recorded step."""


class Strand(Generic[Head]):
    """One line of work, in which one step follows the other."""

    def __init__(
        self, owner: object, heads: tuple[Head, ...] = (), loop: _Loop | None = None
    ) -> None:
        self._owner = weakref.ref(owner)
        self._task = isinstance(owner, asyncio.Task)
        self.loop = owner.get_loop() if isinstance(owner, asyncio.Task) else loop
        self.heads = heads
        """The open ends: what comes right before the next step."""
        self.covered: set[Head] = set()
        """What steps of this strand, and of those it joined, come after."""
        self.children: list[Strand[Head]] = []
        """Strands begun from here that may go on."""
        self.joined: list[Strand[Head]] = []
        """Strands begun from here that have ended, in the order in which that was seen."""
        self.taken: tuple[Head, ...] = ()
        """Its open ends that were taken over already."""
        self.taken_at = 0
        """When that was, in settlings of the strand it was begun from."""
        self.settled = 0
        """How often it was looked for strands that are over."""
        self.forked = False
        """Whether it was begun from another one."""
        self.open = 0
        """How many of its steps are under way."""
        self.last = 0
        """When its last step ended, on the recorder's clock."""
        self.carried: bool | None = None
        """Whether a carried function is still running; None where there is none."""

    def begin(self, child: "Strand[Head]") -> None:
        """Register a strand that starts here."""
        child.forked = True
        self.children.append(child)

    def is_owned_by(self, owner: object) -> bool:
        """Whether this is its task or thread."""
        return self._owner() is owner

    @property
    def ended(self) -> bool:
        """Whether no more steps can come."""
        if self.carried is not None:
            return not self.carried
        task = self._owner()
        return self._task and (task is None or (isinstance(task, asyncio.Task) and task.done()))

    @property
    def over(self) -> bool:
        """Whether it seems to have ended: a thread counts as over when its steps have ended."""
        if self.carried is None and not self._task:
            return not self.open
        return self.ended

    def settle(self) -> None:
        """Take over the open ends of the child strands that are over."""
        going: list[Strand[Head]] = []
        self.settled += 1
        for child in self.children:
            if not child.over:
                going.append(child)
                continue
            self._join(child)
            if child.ended:
                self.joined.append(child)
                for grandchild in child.children:
                    grandchild.taken_at = self.settled
                going += child.children
            else:
                going.append(child)
        self.children = going

    def _join(self, child: "Strand[Head]") -> None:
        child.settle()
        self.covered |= child.covered
        new = [record for record in child.heads if record not in child.taken]
        own = open_ends(self.heads, child.covered)
        self.heads = tuple(dict.fromkeys((*own, *open_ends(new, self.covered))))
        if new:
            child.taken, child.taken_at = child.heads, self.settled

    def unknown_at(self, settled: int) -> "list[Strand[Head]]":
        """The strands that are over but were not fully taken over at that settling."""
        late = takewhile(lambda child: child.taken_at > settled, reversed(self.joined))
        return [
            child
            for child in (*reversed(list(late)), *self.children)
            if child.over and (child.taken_at > settled or child.taken != child.heads)
        ]


def open_ends(heads: Iterable[Head], covered: set[Head]) -> tuple[Head, ...]:
    """Drop duplicates and what something else already follows."""
    return tuple(dict.fromkeys(record for record in heads if record not in covered))


def current_owner() -> object:
    """The current task, else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        task = None
    return task or threading.current_thread()


class Births:
    """Which tasks existed when a step ended.

    A task that did not exist yet started later, so it may follow the step; one that existed but
    waited only began its first step later.
    """

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[_Task, int] = weakref.WeakKeyDictionary()

    def look(self, loop: _Loop | None, now: int) -> None:
        """Note the tasks that exist now."""
        if loop is not None:
            for task in asyncio.all_tasks(loop):
                self._seen.setdefault(task, now)

    def after(self, owner: object, strand: Strand[Any]) -> bool:
        """Whether this task started after the last step of a strand had ended."""
        if not isinstance(owner, asyncio.Task):
            return False
        seen = self._seen.get(cast("_Task", owner))
        return seen is None or seen > strand.last


def plain(value: object) -> Json:
    """Convert a value to JSON; what has no JSON form becomes its `str`."""
    return _plain(value, ())


def _plain_mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """Convert named values to JSON."""
    return {_encodable(_text_of(name)): plain(value) for name, value in values.items()}


def error_text(error: BaseException) -> str:
    """The type and the message of an error."""
    message = _encodable(_text_of(error))
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _plain(value: object, inside: tuple[int, ...]) -> Json:
    if isinstance(value, str):
        return _encodable(value)
    try:
        jsonable = cast(
            "Json", to_jsonable_python(value, fallback=_text_of, inf_nan_mode="strings")
        )
        canonical(jsonable)
    except (PydanticSerializationError, NotJournalable, ValueError, RecursionError):
        return _piece_by_piece(value, inside)
    return jsonable


def _piece_by_piece(value: object, inside: tuple[int, ...]) -> Json:
    """Convert the parts of a value of which some have no JSON form."""
    if id(value) in inside or len(inside) > 20:  # it contains itself, or is too deep
        return f"<{type(value).__name__}>"
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_encodable(_text_of(name)): _plain(part, inside) for name, part in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part, inside) for part in cast("Iterable[object]", value)]
    return _encodable(_text_of(value))


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        return f"<{type(value).__name__}>"


def _encodable(text: str) -> str:
    """Without halves of surrogate pairs, which UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode()


# -- Steps -----------------------------------------------------------------------------------------
_NOT_ENDED = "the step had not ended when the agent answered"
P = ParamSpec("P")
T = TypeVar("T")

_LEFT: ContextVar[list[Trace] | None] = ContextVar("left", default=None)


class left_behind:  # noqa: N801 - a context manager, which is called like a function
    """Collect the traces of runs that raise inside the block, the latest last."""

    # A class, since every case enters it: a generator takes three times as long.
    __slots__ = ("_token",)

    def __enter__(self) -> list[Trace]:
        traces: list[Trace] = []
        self._token = _LEFT.set(traces)
        return traces

    def __exit__(self, *raised: object) -> None:
        _LEFT.reset(self._token)


def leave(trace: Trace) -> None:
    """Leave the steps of a run that is about to raise."""
    traces = _LEFT.get()
    if traces is not None and trace.steps:
        traces.append(trace)


class _Recorder(Protocol):
    """Records the steps of a run."""

    def begin(
        self,
        place: "RecordingContext",
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: "Sequence[Record] | None",
    ) -> "Record | None": ...

    def end(self, record: "Record", *, output: object, error: BaseException | None) -> None: ...

    def settled(self, place: "RecordingContext") -> "RecordingContext": ...

    def carried(self, place: "RecordingContext") -> AbstractContextManager[None]: ...


@dataclass(kw_only=True, eq=False)
class Record:
    """One step while it is recorded."""

    number: int
    """Its position in the order in which steps began."""
    node: str
    visit: int
    strand: "Strand[Record]"
    outer: "Record | None"
    before: "tuple[Record, ...]"
    """What came before its start."""
    declared: bool = False
    """Whether the agent named what comes before it."""
    inner: bool = False
    """Whether a step began inside it."""
    aside: "tuple[Record, ...]" = ()
    """Open ends that it does not follow, because the agent named what it follows."""
    mark: object = None
    """How an adapter recognises it in contexts that are not the agent's."""
    left: "RecordingContext | None" = None
    """The context after its end."""
    input: Json = None
    surfaces: dict[str, None] = field(default_factory=dict[str, None])
    tools: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: Usage = field(default_factory=Usage)
    started: float = field(default_factory=perf_counter)
    ended: bool = False
    predecessors: "tuple[Record, ...]" = ()
    """Known when it has ended: the open ends inside it, else what came before it."""
    output: Json = None
    error: str = ""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        return f"{self.node}-{self.visit}"

    @property
    def so_far(self) -> "tuple[Record, ...]":
        """What comes right before it, as far as is known yet."""
        return self.predecessors if self.ended else self.before

    def apply(self, surface: str) -> None:
        self.surfaces[surface] = None

    def use(self, requests: int, input_tokens: int, output_tokens: int) -> None:
        self.usage += Usage(
            requests=requests, input_tokens=input_tokens, output_tokens=output_tokens
        )

    def tool(
        self, name: str, arguments: Mapping[str, object], result: object, error: str, call: str
    ) -> None:
        inputs, output = _plain_mapping(arguments), plain(result)
        self.tools.append(
            ToolCall(name=name, arguments=inputs, result=output, error=error, id=call)
        )

    def step(self) -> Step:
        before = sorted(self.so_far, key=lambda record: record.number)
        return Step(
            id=self.id,
            node=self.node,
            predecessors=tuple(record.id for record in before),
            surfaces=tuple(self.surfaces),
            input=self.input,
            output=self.output,
            tools=tuple(self.tools),
            error=self.error or ("" if self.ended else _NOT_ENDED),
            usage=self.usage,
            seconds=self.seconds,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingContext:
    """What a context knows of the recording; a copy of the context keeps it as it was then."""

    recorder: _Recorder
    strand: "Strand[Record]"
    heads: tuple[Record, ...]
    """The open ends of the strand when this was set."""
    settled: int
    """How often the strand had been settled by then."""
    inside: Record | None = None
    """The innermost open step."""


PLACE: ContextVar[RecordingContext | None] = ContextVar("burnish_place", default=None)


def applied(surface: str) -> None:
    """Note that a surface is in force in the open step, if there is one."""
    place = PLACE.get()
    if place is not None and place.inside is not None:
        place.inside.apply(surface)


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function run in a copy of the context in which `carry` was called.

    Thread pools do not copy the context: without `carry`, steps and prompts in their threads do not
    belong to the run. The result may be called many times, also concurrently.
    """
    if inspect.iscoroutinefunction(function):
        raise BurnishError(
            f"{function.__qualname__} is async: a task keeps the context it was started in",
            remedy="carry the plain function that the thread runs: one that calls asyncio.run",
        )
    place = PLACE.get()
    if place is not None:
        PLACE.set(place.recorder.settled(place))
    context = contextvars.copy_context()

    @wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.copy().run(run, partial(function, *args, **kwargs))

    def run(call: Callable[[], T]) -> T:
        place = PLACE.get()
        with nullcontext() if place is None else place.recorder.carried(place):
            return call()

    return carried


class OpenStep:
    """One step of an agent, from `with` to the end of its block.

    It does nothing where no recording is open.
    """

    def __init__(
        self,
        node: str,
        *,
        inputs: object = None,
        surfaces: Iterable[str] = (),
        after: "Sequence[OpenStep] | None" = None,
    ) -> None:
        self.node = node
        self.output: object = None
        """What the step gave; set it before the block ends."""
        self._inputs = inputs
        self._surfaces = surfaces
        self._after = after
        self._recorder: _Recorder | None = None
        self.record: Record | None = None
        """What is written down of it; None where nobody records."""

    def done(self, output: T) -> T:
        """Set the output and return it: `return step.done(answer)`."""
        self.output = output
        return output

    def tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        result: object = None,
        error: str = "",
        *,
        id: str = "",  # noqa: A002 - as the field of ToolCall is called
    ) -> None:
        """Record a tool call."""
        if self.record is not None:
            self.record.tool(name, arguments or {}, result, error, id)

    def used(self, *, requests: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Record the usage of model calls in this step, without those of inner steps."""
        if self.record is not None:
            self.record.use(requests, input_tokens, output_tokens)

    def __enter__(self) -> Self:
        place = PLACE.get()
        if place is not None:
            after = self._after
            self._recorder = place.recorder
            self.record = place.recorder.begin(
                place,
                self.node,
                inputs=self._inputs,
                surfaces=self._surfaces,
                after=None if after is None else [each.record for each in after if each.record],
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._recorder is not None and self.record is not None:
            self._recorder.end(self.record, output=self.output, error=error)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.__exit__(kind, error, at)


def step(
    node: str,
    *,
    inputs: object = None,
    surfaces: Iterable[str] = (),
    after: Sequence[OpenStep] | None = None,
) -> OpenStep:
    """A step of the agent: use it with `with` or `async with` around the code of a node.

    Its predecessors are worked out across tasks and threads, unless `after` names them. Inside
    another step its node is `outer/inner`.
    """
    return OpenStep(node, inputs=inputs, surfaces=surfaces, after=after)


@overload
def traced(node: Callable[P, T], /) -> Callable[P, T]:
    """Make each call of a function a step with its arguments and its result or error.

    `@traced` names the node after the function; `@traced("planner", surfaces=[…])` names it.
    """


@overload
def traced(
    node: str | None = None, /, *, surfaces: Iterable[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def traced(
    node: Callable[..., Any] | str | None = None, /, *, surfaces: Iterable[str] = ()
) -> Callable[..., Any]:
    """Make each call of a function a step with its arguments and its result or error."""
    if callable(node):
        return _traced(node, node.__name__, ())
    names = tuple(surfaces)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return _traced(function, node or function.__name__, names)

    return decorate


def _traced(
    function: Callable[..., Any], node: str, surfaces: tuple[str, ...]
) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise BurnishError(
            f"{function.__qualname__} is a generator: it has no single output to trace",
            remedy=f'put `with burnish.step("{node}")` inside it instead of @burnish.traced',
        )
    signature = inspect.signature(function)

    def opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenStep:
        return OpenStep(node, inputs=_named(signature, args, kwargs), surfaces=surfaces)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def wait(*args: Any, **kwargs: Any) -> Any:
            if PLACE.get() is None:
                return await function(*args, **kwargs)
            with opened(args, kwargs) as step:
                return step.done(await function(*args, **kwargs))

        return wait

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if PLACE.get() is None:
            return function(*args, **kwargs)
        with opened(args, kwargs) as step:
            return step.done(function(*args, **kwargs))

    return call


def _named(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Mapping[str, object]:
    """The arguments by name, without `self` or `cls`."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the call itself will say so
        return {"args": args, **kwargs}
    names = list(bound.arguments)
    own = names[:1] if names[:1] in (["self"], ["cls"]) else []
    return cast(
        "Mapping[str, object]",
        {name: value for name, value in bound.arguments.items() if name not in own},
    )
