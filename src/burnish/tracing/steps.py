"""Steps of an agent's code: `with burnish.step("planner")`, `@burnish.traced`, `burnish.carry`."""

import contextvars
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar, cast, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, NotJournalable
from burnish.core.outcomes import Step, ToolCall, Trace, Usage

if TYPE_CHECKING:
    from burnish.tracing.branches import Strand


def plain(value: object) -> Json:
    """Convert a value to JSON; what has no JSON form becomes its `str`."""
    return _plain(value, ())


def plain_mapping(values: Mapping[str, object]) -> dict[str, Json]:
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


@contextmanager
def left_behind() -> Generator[list[Trace], None, None]:
    """Collect the traces of runs that raise inside the block, the latest last."""
    traces: list[Trace] = []
    token = _LEFT.set(traces)
    try:
        yield traces
    finally:
        _LEFT.reset(token)


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
        inputs, output = plain_mapping(arguments), plain(result)
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
