"""The base of configuration shapes that are written in snake_case and in camelCase."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import AliasChoices, AliasGenerator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from burnish.core.bounds import AtLeastOne, Share

__all__ = ["Positive", "Shape", "Share", "block", "spelled"]

Positive = AtLeastOne


def spelled(*names: str) -> AliasChoices:
    """The names a key may have: each in both spellings, unless it has capitals of its own."""
    forms = ((name, to_camel(name)) if name.islower() else (name,) for name in names)
    return AliasChoices(*dict.fromkeys(form for both in forms for form in both))


class Shape(BaseModel):
    """A block of a file: both spellings are read, unknown keys are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        alias_generator=AliasGenerator(validation_alias=spelled, serialization_alias=to_camel),
        populate_by_name=True,
    )


def block(value: object) -> dict[str, Any]:
    """A value before it is validated: its keys, or none where it has none."""
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else {}
