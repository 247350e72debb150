"""A function of the user as a metric: it is passed what its parameters ask for by name."""

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from burnish.core.cases import Trace
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, WrongArgument
from burnish.core.protocols import Effects
from burnish.metrics.turns import Exchange, TurnMetric, Verdict
from burnish.system.code_hash import code_hash
from burnish.system.config import near
from burnish.system.user_code import function_name


def _input_of(exchange: Exchange) -> Json:
    """What was asked; only in a scenario is it another message than the case has."""
    turn = exchange.turn
    return turn.input_value if turn.input == exchange.asked else exchange.asked


_OFFERED: Mapping[str, Callable[[Exchange], Any]] = {
    "output": lambda turn: turn.reply if turn.data is None else turn.data,
    "expected": lambda turn: turn.turn.settings.get("expected", turn.turn.expected_value),
    "input": lambda turn: turn.turn.settings.get("input", _input_of(turn)),
    "case": lambda turn: turn.case,
    "trace": lambda turn: Trace(steps=turn.steps),
}
"""What a metric may ask for, by the name of its parameter."""


@dataclass(frozen=True, kw_only=True)
class FunctionMetric(TurnMetric):
    """Calls a function; one that raises says nothing about the agent, so the score is missing.

    A number outside [0, 1] ends the run: it may be meant in another unit.
    """

    function: Callable[..., Any]
    asks: tuple[str, ...]

    @classmethod
    def of(cls, function: Callable[..., Any], name: str = "") -> "FunctionMetric":
        """The metric; raises WrongArgument for parameters that nothing is known for."""
        own = function_name(function).replace("<lambda>", "metric")
        try:
            parameters = inspect.signature(function).parameters
        except (TypeError, ValueError):
            message = f"the parameters of {own} cannot be read"
            raise WrongArgument.of("metric", message, "wrap it in a function") from None
        empty = inspect.Parameter.empty
        named = [each for each in parameters.values() if each.kind in _BY_NAME]
        unknown = [each.name for each in named if each.name not in _OFFERED]
        unknown = [each for each in unknown if parameters[each].default is empty]
        if unknown:
            message = f"{own}() asks for '{unknown[0]}', which is not known"
            raise WrongArgument.of("metric", message, near(unknown[0], list(_OFFERED)))
        asks = tuple(each.name for each in named if each.name in _OFFERED)
        if not asks:
            message = f"{own}() asks for nothing"
            raise WrongArgument.of("metric", message, f"it may ask for {', '.join(_OFFERED)}")
        return cls(name=name or own, function=function, asks=asks)

    @property
    def fingerprint(self) -> str:
        return short_id(["FunctionMetric", self.version, self.name, code_hash(self.function)])

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict:
        del effects
        passed = {name: _OFFERED[name](exchange) for name in self.asks}
        try:
            answer: Any = await asyncio.to_thread(partial(self.function, **passed))
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception as error:  # noqa: BLE001 - the border to a user's metric: never a 0
            raised = f"{type(error).__name__}: {error}"
            return Verdict.missing(f"the metric {self.name} raised {raised}")
        return self._read(answer)

    def _read(self, answer: Any) -> Verdict:
        given: Any = (answer, "")
        if isinstance(answer, tuple) and len(cast("tuple[Any, ...]", answer)) == 2:
            given = cast("tuple[Any, Any]", answer)
        answer, reason = given
        value = as_number(answer)
        if value is None or not 0 <= value <= 1:
            shown = type(answer).__name__ if value is None else f"{value:g}"
            raise ConfigError.of(
                f"metric {self.name}",
                f"it gave {shown}",
                "return True or False, a number from 0 to 1, or such a number and a reason",
            )
        passed = bool(answer) if is_boolean(answer) else None
        return Verdict(value=value, passed=passed, reason=str(reason or ""))


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def is_boolean(value: object) -> bool:
    """Whether it is True or False; numpy has its own."""
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")


def as_number(value: object) -> float | None:
    """A finite number as a float, also of numpy; None for anything else."""
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        return None
    number = float(cast("Any", value))
    return number if math.isfinite(number) else None
