"""PromptIter's JSON: keys as Go spells them, every key there, any letter case read."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.datasets.evalset_keys import as_python, folded
from burnish.system.settings import Place

_UPPER = {"id": "ID", "ids": "IDs", "url": "URL", "api": "API", "usd": "USD"}


def pascal(name: str) -> str:
    """A field as a Go struct calls it: `eval_set_id` is `EvalSetID`."""
    return "".join(_UPPER.get(word, word.capitalize()) for word in name.split("_"))


class Wire(BaseModel):
    """Something that travels as JSON under PromptIter's names."""

    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        alias_generator=pascal,
        allow_inf_nan=False,
        extra="forbid",
    )
    where: ClassVar[str] = "JSON"
    """What messages call it."""

    @model_validator(mode="before")
    @classmethod
    def _nulls(cls, value: Any) -> Any:
        """`null` is what Go has for nothing: as good as a key that is not there."""
        if not isinstance(value, Mapping):
            return value
        given = cast("Mapping[str, Any]", value)
        return {key: held for key, held in given.items() if held is not None}

    def to_json(self) -> dict[str, Json]:
        """The data as PromptIter writes it."""
        return cast("dict[str, Json]", self.model_dump(mode="json", by_alias=True))

    @classmethod
    def from_json(cls, data: Json) -> Self:
        """The value that the data spells; keys in any letter case, unknown ones ignored."""
        try:
            return cls.model_validate(_known(as_python(data, cls), Place.of(cls)))
        except ValidationError as error:
            raise ConfigError(list(_problems(error, cls.where))) from None


class CamelWire(Wire):
    """The same, for the few parts that are in camelCase."""

    model_config = ConfigDict(alias_generator=to_camel)


def unknown_keys(data: Json, model: type[BaseModel]) -> list[str]:
    """The paths of the keys that nobody reads."""
    return list(_unknown(data, Place.of(model), ""))


def _known(data: Json, place: Place) -> Json:
    """The data without the keys that nobody reads."""
    if isinstance(data, list):
        return [_known(item, place.below(0)) for item in data]
    if not isinstance(data, dict) or not (keys := place.keys):
        return data
    return {key: _known(item, place.below(key)) for key, item in data.items() if key in keys}


def _unknown(data: Json, place: Place, at: str) -> Iterator[str]:
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _unknown(item, place.below(index), f"{at}[{index}]")
        return
    known = {folded(key): key for key in place.keys}
    if not isinstance(data, dict) or not known:
        return
    for key, item in data.items():
        path = f"{at}.{key}" if at else key
        if folded(key) not in known:
            yield path
        else:
            yield from _unknown(item, place.below(known[folded(key)]), path)


def _problems(error: ValidationError, where: str) -> Iterator[Problem]:
    for each in error.errors():
        path = ".".join(
            pascal(part) if isinstance(part, str) else str(part) for part in each["loc"]
        )
        yield Problem(where=path or where, message=each["msg"])
