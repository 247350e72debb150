"""JSON values against a JSON Schema."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol, cast

from burnish.core.content import Json, canonical
from burnish.evaluation.matching.excerpts import cut
from burnish.evaluation.matching.json_paths import extended
from burnish.evaluation.matching.match import HELD, Match

Schema = Mapping[str, Json] | bool
"""True takes anything, false nothing."""
_SHOWN = 5
_WIDTH = 120


class _Fault(Protocol):
    """What is used of a jsonschema error."""

    message: str
    absolute_path: Any


def check_schema(value: Json, schema: Schema) -> Match:
    """Whether a value keeps to a schema; else where it does not, place by place.

    References to other files are never fetched.
    """
    from referencing.exceptions import Unresolvable

    problem = schema_problem(schema)
    if problem:
        return Match.missed(problem)
    try:
        faults = cast("list[_Fault]", list(_validator(_spelled(schema)).iter_errors(value)))
    except Unresolvable as error:
        return Match.missed(f"the schema refers to what is not in it ({cut(str(error), _WIDTH)})")
    except RecursionError:
        return Match.missed("the value is nested too deeply to be held against the schema")
    told = [f"{_path(fault)}: {cut(fault.message, _WIDTH)}" for fault in faults[:_SHOWN]]
    more = ["and more"] if len(faults) > _SHOWN else []
    return Match.missed("against the schema: " + "; ".join([*told, *more])) if told else HELD


def schema_problem(schema: Schema) -> str:
    """What is wrong with a schema itself; empty where nothing is."""
    from jsonschema.exceptions import SchemaError

    try:
        _validator(_spelled(schema))
    except SchemaError as error:
        where = _path(cast("_Fault", error))
        return f"the schema is wrong at {where} ({cut(error.message, _WIDTH)}): mend the metric"
    return ""


@lru_cache(maxsize=64)
def _validator(spelled: bytes) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY

    schema = json.loads(spelled)
    kind: Any = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    # Its own registry, since the usual one fetches what a schema refers to from the network.
    return kind(schema, registry=REGISTRY)


def _spelled(schema: Schema) -> bytes:
    return canonical(schema if isinstance(schema, bool) else dict(schema))


def _path(fault: _Fault) -> str:
    path = "$"
    for key in cast("list[str | int]", list(fault.absolute_path)):
        path = extended(path, key)
    return path
