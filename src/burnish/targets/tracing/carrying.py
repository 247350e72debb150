"""Carrying: a function that is run by a pool of threads, in the context it was handed over from."""

import contextvars
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from burnish.core.errors import BurnishError
from burnish.targets.tracing.places import PLACE

P = ParamSpec("P")
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
