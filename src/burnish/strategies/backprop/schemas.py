"""Schemas of answers, narrowed to the names that one request shows."""

import copy
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from burnish.core.content import Json
from burnish.core.surfaces import Surface
from burnish.strategies.backprop.values import value_schema


def only_these(
    answer: type[BaseModel], *, surfaces: Sequence[str], steps: Sequence[str]
) -> dict[str, Json]:
    """The schema of a backwarder's answer that names nothing but these."""
    schema = _schema(answer)
    definitions = schema["$defs"]
    _only(definitions["SurfaceRemark"], "surface", surfaces)
    _only(definitions["Upstream"], "predecessor", steps)
    definitions["Upstream"]["properties"]["gradients"]["minItems"] = 1
    for key, names in (("gradients", surfaces), ("upstream", steps)):
        if not names:
            schema["properties"][key]["maxItems"] = 0
    if steps and not surfaces:
        schema["properties"]["upstream"]["minItems"] = 1
    return schema


def citing(answer: type[BaseModel], count: int) -> dict[str, Json]:
    """The schema of an aggregator's answer: not empty, and it cites numbers up to this one."""
    schema = _schema(answer)
    schema["properties"]["gradients"]["minItems"] = 1
    cited = schema["$defs"]["MergedRemark"]["properties"]["sources"]
    cited["items"] = {"type": "integer", "minimum": 1, "maximum": count}
    return schema


def with_value(answer: type[BaseModel], limits: Surface) -> dict[str, Json]:
    """The schema of a patcher's answer whose value fits the surface."""
    schema = _schema(answer)
    schema["properties"]["value"] = value_schema(limits)
    return schema


def _schema(answer: type[BaseModel]) -> dict[str, Any]:
    return copy.deepcopy(answer.model_json_schema())


def _only(definition: dict[str, Any], key: str, names: Sequence[str]) -> None:
    field = definition["properties"][key]
    field.pop("default", None)
    if names:
        field["enum"] = list(names)
    required = definition.setdefault("required", [])
    if key not in required:
        required.append(key)
