"""`@burnish.traced`: every call of a function is a step."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast, overload

from burnish.core.errors import BurnishError
from burnish.targets.tracing.places import PLACE
from burnish.targets.tracing.steps import OpenStep

P = ParamSpec("P")
T = TypeVar("T")


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
    kept = tuple(surfaces)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        return _traced(function, node or function.__name__, kept)

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
