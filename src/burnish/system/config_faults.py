"""Where a configuration fails its model: pydantic's errors as places in the user's file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from burnish.system.known_keys import Place
from burnish.system.plain_data import TreePath

_Union: TypeAlias = tuple[TreePath, str | int]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One place that is wrong, with what each type it may have says of it."""

    path: TreePath
    errors: tuple[ErrorDetails, ...]
    known_keys: tuple[str, ...] = ()
    """The keys of the mapping around `path`."""
    unions: tuple[_Union, ...] = ()
    """The unions on the way: where each stands, and the branch that was tried."""


def faults_in(error: ValidationError, data: object, model: type[BaseModel]) -> list[Fault]:
    """Every fault once; of a union only the branch that was meant, as far as one can tell."""
    details = error.errors(include_url=False)
    return _settle([_locate(one, data, model) for one in details])


def _locate(error: ErrorDetails, data: object, model: type[BaseModel]) -> Fault:
    place, around, value = Place.of(model), Place.of(model), data
    path: TreePath = ()
    unions: list[_Union] = []
    for step in error["loc"]:
        if _is_key(step, value, place, error):
            value = _value_below(value, step)
            around, place = place, place.below(step).chosen_by(value)
            path = (*path, step)
        elif step != "[key]":
            place = place.narrowed(step)
            unions.append((path, step))
    path = (*path, *_discriminator(error))
    return Fault(path=path, errors=(error,), known_keys=around.keys, unions=tuple(unions))


def _is_key(step: str | int, value: object, place: Place, error: ErrorDetails) -> bool:
    """Whether a step leads into the data; otherwise it names a branch of a union."""
    if place.is_branch(step):
        return False
    if isinstance(value, Mapping):
        return step in value or step in place.keys
    if isinstance(value, list | tuple):
        return isinstance(step, int)
    return error["type"] == "missing" and step == error["loc"][-1]


def _value_below(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return cast("Mapping[object, object]", value).get(step)
    items = cast("Sequence[object]", value)
    return items[step] if isinstance(step, int) and step < len(items) else None


def _discriminator(error: ErrorDetails) -> TreePath:
    if not error["type"].startswith("union_tag"):
        return ()
    name = str(error.get("ctx", {}).get("discriminator", "")).strip("'")
    return (name,) if name.isidentifier() else ()


def _settle(faults: Iterable[Fault], level: int = 0) -> list[Fault]:
    settled: list[Fault] = []
    branches: dict[TreePath, dict[str | int, list[Fault]]] = {}
    for fault in faults:
        if len(fault.unions) <= level:
            settled.append(fault)
        else:
            where, label = fault.unions[level]
            branches.setdefault(where, {}).setdefault(label, []).append(fault)
    for where, tried in branches.items():
        settled.extend(_choose(where, list(tried.values()), level + 1))
    return settled


def _choose(where: TreePath, branches: list[list[Fault]], level: int) -> list[Fault]:
    """The branch with the fewest faults among those whose shape fits, or all of them as one."""
    fitting = [
        branch for branch in branches if not any(_is_misfit(fault, where) for fault in branch)
    ]
    if fitting:
        return _settle(min(fitting, key=_distance), level)
    first = branches[0][0]
    misfits = [fault for branch in branches for fault in branch if _is_misfit(fault, where)]
    return [replace(first, path=where, errors=tuple(fault.errors[0] for fault in misfits))]


def _is_misfit(fault: Fault, where: TreePath) -> bool:
    return fault.path == where and fault.errors[0]["type"] not in ("value_error", "assertion_error")


def _distance(branch: list[Fault]) -> tuple[int, int]:
    other_kind = sum(fault.errors[0]["type"] == "literal_error" for fault in branch)
    return other_kind, len(branch)
