"""Steps of one's own code: `with burnish.step("planner")`, `@burnish.traced`, `burnish.carry`."""

import contextvars
import inspect
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, Self, TypeVar, cast, overload

from pydantic_core import PydanticSerializationError, to_jsonable_python

from burnish.core.content import Json, canonical
from burnish.core.errors import BurnishError, NotJournalable
from burnish.core.outcomes import Trace

if TYPE_CHECKING:
    from burnish.tracing.branches import Strand


_LEFT: ContextVar[list[Trace] | None] = ContextVar("left", default=None)


@contextmanager
def left_behind() -> Generator[list[Trace], None, None]:
    """What is left while this is open, the latest last."""
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


# -- Where a piece of code stands in a recording --------------------------------------------------


class _StepRecord(Protocol):
    """A step while it is written down."""

    input: "Json"
    mark: object
    """What an adapter knows it by, whose code is called in contexts that are not the agent's."""

    def apply(self, surface: str) -> None:
        """A surface whose value is in force here."""
        ...

    def use(self, requests: int, input_tokens: int, output_tokens: int) -> None:
        """What model calls in it took."""
        ...

    def tool(
        self, name: str, arguments: Mapping[str, object], result: object, error: str, call: str
    ) -> None:
        """One use of a tool."""
        ...


R = TypeVar("R", bound=_StepRecord)


class _Recording(Protocol[R]):
    """Whoever writes the steps of a run down."""

    def begin(
        self,
        place: "RecordingContext[R]",
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: Sequence[R] | None,
    ) -> R | None:
        """A step begins here; None when the recording is over."""
        ...

    def end(self, record: R, *, output: object, error: BaseException | None) -> None:
        """The step has ended."""
        ...

    def settled(self, place: "RecordingContext[R]") -> "RecordingContext[R]":
        """The place with everything taken over that has ended by now."""
        ...

    def carried(self, place: "RecordingContext[R]") -> AbstractContextManager[None]:
        """A function that was taken elsewhere from this place runs."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordingContext(Generic[R]):
    """What a context knows of the recording; a copy of the context keeps it as it was then."""

    recorder: _Recording[R]
    strand: "Strand[R]"
    heads: tuple[R, ...]
    """The open ends of the strand when this was set."""
    settled: int
    """How often the strand had looked by then for others that are over."""
    inside: R | None = None
    """The innermost step that is under way."""


PLACE: ContextVar[RecordingContext[Any] | None] = ContextVar("burnish_place", default=None)


def applied(surface: str) -> None:
    """Say that a surface is in force in the step under way, if there is one."""
    place = PLACE.get()
    if place is not None and place.inside is not None:
        place.inside.apply(surface)


# -- Carrying -------------------------------------------------------------------------------------


# -- `@burnish.traced` ----------------------------------------------------------------------------


P = ParamSpec("P")
# -- Steps as an agent's own code tells them ------------------------------------------------------


T = TypeVar("T")


def carry(function: Callable[P, T]) -> Callable[P, T]:
    """The function, such that it runs in a copy of the context in which `carry` was called.

    Pools of threads do not do that by themselves: without it, steps and prompts in them do not
    know of the run. It may be called many times, and at the same time.
    """
    if inspect.iscoroutinefunction(function):
        raise BurnishError(
            f"{function.__qualname__} is async: a task has the context it was begun in by itself",
            remedy="carry the plain function that the thread is given: one that calls asyncio.run",
        )
    place = PLACE.get()
    if place is not None:
        PLACE.set(place.recorder.settled(place))
    context = contextvars.copy_context()

    @wraps(function)
    def carried(*args: P.args, **kwargs: P.kwargs) -> T:
        return context.copy().run(_run, partial(function, *args, **kwargs))

    return carried


def _run(call: Callable[[], T]) -> T:
    place = PLACE.get()
    if place is None:
        return call()
    with place.recorder.carried(place):
        return call()


class OpenStep:
    """One step of an agent, from `with` to the end of its block.

    Where nobody records, nothing is kept and nothing is looked at.
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
        self._recorder: _Recording[Any] | None = None
        self.record: _StepRecord | None = None
        """What is written down of it; None where nobody records."""

    def done(self, output: T) -> T:
        """Set the output, and give it back: `return step.done(answer)`."""
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
        """Say that a tool was used."""
        if self.record is not None:
            self.record.tool(name, arguments or {}, result, error, id)

    def used(self, *, requests: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Say what model calls in this step took, those of inner steps not counted."""
        if self.record is not None:
            self.record.use(requests, input_tokens, output_tokens)

    def __enter__(self) -> Self:
        place = PLACE.get()
        if place is not None:
            self._recorder = place.recorder
            self.record = place.recorder.begin(
                place,
                self.node,
                inputs=self._inputs,
                surfaces=self._surfaces,
                after=_records(self._after),
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
    """A step of the agent: `with` or `async with` it around the code of a node.

    What came before it is worked out, across tasks and threads; `after` says it instead. Inside
    another step its node is `outer/inner`.
    """
    return OpenStep(node, inputs=inputs, surfaces=surfaces, after=after)


def _records(after: Sequence[OpenStep] | None) -> list[_StepRecord] | None:
    if after is None:
        return None
    return [each.record for each in after if each.record is not None]


@overload
def traced(node: Callable[P, T], /) -> Callable[P, T]:
    """Makes each call of a function a step: its arguments, what it returned or raised.

    `@traced` takes the function's name as the node, `@traced("planner", surfaces=[…])` says it.
    """


@overload
def traced(
    node: str | None = None, /, *, surfaces: Iterable[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]: ...


def traced(
    node: Callable[..., Any] | str | None = None, /, *, surfaces: Iterable[str] = ()
) -> Callable[..., Any]:
    """Makes each call of a function a step: its arguments, what it returned or raised."""
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
    """The arguments by their names, without the object that a method belongs to."""
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


# -- Values of a user's program as JSON that the journal can keep ---------------------------------


_DEEPEST = 20
"""Further down, a value that has no form as JSON is named only."""


def plain(value: object) -> Json:
    """The value as JSON; things that have no such form by what they say of themselves."""
    return _plain(value, ())


def plain_mapping(values: Mapping[str, object]) -> dict[str, Json]:
    """The same for values that have names."""
    return {_sound(_text_of(name)): plain(value) for name, value in values.items()}


def error_text(error: BaseException) -> str:
    """The error on one line: its type and what it says."""
    message = _sound(_text_of(error))
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def _plain(value: object, inside: tuple[int, ...]) -> Json:
    if isinstance(value, str):
        return _sound(value)
    try:
        jsonable = cast(
            "Json", to_jsonable_python(value, fallback=_text_of, inf_nan_mode="strings")
        )
        canonical(jsonable)
    except (PydanticSerializationError, NotJournalable, ValueError, RecursionError):
        return _piece_by_piece(value, inside)
    return jsonable


def _piece_by_piece(value: object, inside: tuple[int, ...]) -> Json:
    """Most of a value of which some part has no form as JSON."""
    if id(value) in inside or len(inside) > _DEEPEST:  # it contains itself
        return f"<{type(value).__name__}>"
    inside = (*inside, id(value))
    if isinstance(value, Mapping):
        pairs = cast("Mapping[object, object]", value).items()
        return {_sound(_text_of(name)): _plain(part, inside) for name, part in pairs}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part, inside) for part in cast("Iterable[object]", value)]
    return _sound(_text_of(value))


def _text_of(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - the user's own __str__ may raise anything
        return f"<{type(value).__name__}>"


def _sound(text: str) -> str:
    """Without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode()
