"""How a user's agent wants to be called, as its signature tells."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from burnish.core.errors import ConfigError, Problem

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    inspect.Parameter.VAR_POSITIONAL,
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_TOLD = ("history", "session")


@dataclass(frozen=True, kw_only=True)
class Manner:
    """What a call is made of."""

    factory: bool = False
    """Called without arguments, it makes an agent for one conversation."""
    history: bool = False
    session: bool = False
    asynchronous: bool = False


def manner_of(agent: object, name: str) -> Manner:
    """How to call it, or a ConfigError that says what cannot be given to it."""
    if not callable(agent):
        raise _wrong(name, f"{type(agent).__name__} cannot be called, and has no send(message)")
    parameters = _parameters(agent)
    told = {each for each in _TOLD if each in parameters}
    rest = [each for each in parameters.values() if each.name not in told]
    takes_query = not inspect.isclass(agent) and any(each.kind in _POSITIONAL for each in rest)
    _refuse_unknown(rest[1:] if takes_query else rest, name)
    return Manner(
        factory=not takes_query,
        history="history" in told,
        session="session" in told,
        asynchronous=_is_async(agent),
    )


def speaking_manner(agent: object, name: str) -> Manner:
    """How to call what was made for a conversation: it must take what is said."""
    manner = manner_of(agent, name)
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
