"""Small expressions over a finished delegation, such as `result.confidence > 0.6`: no more."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda item, whole: item in whole,
    ast.NotIn: lambda item, whole: item not in whole,
}
_COMPUTE: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
_MOST = 500
"""Characters of an expression."""


class BadExpression(ValueError):
    """An expression that cannot be used, and why."""


def parse(text: str) -> ast.expr:
    """The expression, if it has only parts that are known."""
    if len(text) > _MOST:
        raise BadExpression(f"it is longer than {_MOST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BadExpression(f"it cannot be read: {error}") from error
    for node in ast.walk(tree):
        if not isinstance(node, _KNOWN):
            raise BadExpression(f"{type(node).__name__} is not known here")
    return tree


def evaluate(text: str, names: Mapping[str, Any]) -> float:
    """The expression's value as a number: true is 1, false is 0."""
    try:
        value = _value(parse(text), names)
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise BadExpression(str(error)) from error
    if not isinstance(value, bool | int | float):
        raise BadExpression(f"it gives {type(value).__name__}, not true, false or a number")
    return float(value)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return _looked_up(names, name)
        case ast.Attribute(owner, name):
            return _looked_up(_value(owner, names), name)
        case ast.UnaryOp(op, operand):
            value = _value(operand, names)
            return not value if isinstance(op, ast.Not) else -value
        case ast.BinOp(left, op, right):
            return _COMPUTE[type(op)](_number(left, names), _number(right, names))
        case _:
            return _decided(node, names)


def _number(node: ast.expr, names: Mapping[str, Any]) -> float:
    value = _value(node, names)
    if not isinstance(value, int | float):
        raise BadExpression("only numbers are computed with")
    return value


def _decided(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.BoolOp(op, values):
            # Lazily, as in Python: `exists("x") and size("x") > 3` must not fail on the second.
            both = (_value(each, names) for each in values)
            return all(both) if isinstance(op, ast.And) else any(both)
        case ast.Compare(left, ops, rights):
            operands = [_value(each, names) for each in (left, *rights)]
            pairs = zip(operands, ops, operands[1:], strict=False)
            return all(_COMPARE[type(op)](a, b) for a, op, b in pairs)
        case ast.Call(function, arguments):
            called = _value(function, names)
            if not callable(called):
                raise BadExpression("only exists, size, text and len can be called")
            return called(*(_value(each, names) for each in arguments))
        case _:
            raise BadExpression(f"{type(node).__name__} is not known here")


def _looked_up(owner: Any, name: str) -> Any:
    if not isinstance(owner, Mapping) or name not in owner:
        known = ", ".join(map(str, owner)) if isinstance(owner, Mapping) else ""  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        raise BadExpression(f"'{name}' is not known; there are: {known}")
    return owner[name]  # pyright: ignore[reportUnknownVariableType]


_KNOWN = (
    ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare,
    ast.Call, ast.Load, ast.And, ast.Or, ast.Not, ast.USub, *_COMPARE, *_COMPUTE,
)  # fmt: skip
