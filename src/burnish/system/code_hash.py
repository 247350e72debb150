"""A hash of the code of a user's function, which a change elsewhere in its file leaves as it is."""

import dis
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

from burnish.core.content import Json, short_id
from burnish.system.user_code import file_fingerprint


def code_hash(function: Callable[..., Any]) -> str:
    """A hash of a function, and of what it uses of its module and of other files of the project.

    The call that optimises a function often stands in the same file, and may change. A global that
    the function sets itself, such as a counter of calls, is no part of its code.
    """
    parts: dict[str, Json] = {}
    values: dict[tuple[str, str], Json] = {}
    rebound = set[str]()
    _collect(_defined(function), parts, values, rebound)
    kept = {" ".join(name): value for name, value in values.items() if name[1] not in rebound}
    return short_id({**parts, **kept})


def _defined(function: Any) -> Any:
    """The function, class or method whose code runs."""
    inner: Any = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = cast("Any", inner).func
    return cast("Any", inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner))


def _collect(
    used: Any,
    parts: dict[str, Json],
    values: dict[tuple[str, str], Json],
    rebound: set[str],
) -> None:
    """Add what is used to `parts`, its globals to `values`, and those that it sets to `rebound`."""
    module = str(getattr(used, "__module__", ""))
    name = f"{module}:{used.__qualname__}"
    if name in parts:
        return
    codes = list(_compiled(used))
    parts[name] = _source(used, codes)
    inner = [each for code in codes for each in _with_inner(code)]
    rebound |= {name for code in inner for name in _set_by(code)}
    for each in sorted({name for code in inner for name in code.co_names}):
        value = _namespace(used).get(each)
        if isinstance(value, str | int | float):
            values[name, each] = value
        elif isinstance(value, ModuleType):
            _collect_file(value.__name__, parts)
        elif hasattr(value, "__qualname__") and getattr(value, "__module__", "") == module:
            _collect(_defined(value), parts, values, rebound)
        else:
            _collect_file(str(getattr(value, "__module__", "")), parts)


def _collect_file(module: str, parts: dict[str, Json]) -> None:
    """A module that lies below the working directory, where the project is; not what it imports."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file and Path(file).is_relative_to(Path.cwd()) and "site-packages" not in Path(file).parts:
        parts[module] = file_fingerprint(file)


def _namespace(used: Any) -> Mapping[str, Any]:
    home = sys.modules.get(used.__module__)
    return getattr(used, "__globals__", None) or (vars(home) if home else {})


def _source(used: Any, codes: list[CodeType]) -> Json:
    """Its source, or its compiled code where there is none, as in a console."""
    try:
        return inspect.getsource(used)
    except (OSError, TypeError):
        inner = [each for code in codes for each in _with_inner(code)]
        return [[each.co_code.hex(), *each.co_names, *_constants(each)] for each in inner]


def _compiled(used: Any) -> Iterator[CodeType]:
    """Its compiled code: of a class, that of its methods."""
    if inspect.isclass(used):
        for each in vars(used).values():
            inner = getattr(each, "__func__", getattr(each, "fget", each))
            if isinstance(code := getattr(inner, "__code__", None), CodeType):
                yield code
    elif isinstance(code := getattr(used, "__code__", None), CodeType):
        yield code


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    """Code, and that of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _with_inner(constant)


def _set_by(code: CodeType) -> Iterator[str]:
    """The globals that code sets."""
    for each in dis.get_instructions(code):
        if each.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            yield str(each.argval)


def _constants(code: CodeType) -> list[str]:
    return [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
