"""Which keys a pydantic model knows, at any place inside it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, cast, get_args, get_origin

from pydantic import AliasChoices, AliasPath, BaseModel, GetCoreSchemaHandler, RootModel
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema


class ChosenModel(ABC):
    """Metadata of an annotation: the value that stands there says by which model it is read."""

    @abstractmethod
    def model_for(self, value: object) -> type[BaseModel]:
        """The model; a PydanticCustomError or PydanticKnownError says why there is none."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read by the model that the value chooses, and written as what it is."""
        del source, handler
        return core_schema.no_info_after_validator_function(self._read, core_schema.any_schema())

    def _read(self, value: Any) -> BaseModel:
        return self.model_for(value).model_validate(value)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A position in a model: the types that a value there may have."""

    types: tuple[object, ...]

    @classmethod
    def of(cls, *annotations: object) -> Self:
        """The place of values with these annotations, unions and aliases taken apart."""
        return cls(types=tuple(kind for annotation in annotations for kind in _parts(annotation)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that a mapping at this place may have, in the order they were declared."""
        return tuple(dict.fromkeys(key for kind in self.types for key in _fields(kind)))

    def below(self, step: str | int) -> Self:
        """The place of the value under a key or an index."""
        return self.of(*(found for kind in self.types for found in _below(kind, step)))

    def chosen_by(self, value: object) -> Self:
        """The place with the models that the value there chooses."""
        if not any(isinstance(kind, ChosenModel) for kind in self.types):
            return self
        return self.of(*(each for kind in self.types for each in _chosen(kind, value)))

    def is_branch(self, label: str | int) -> bool:
        """Whether a label names one of several models here, as pydantic does by their tags."""
        models = [kind for kind in self.types if _fields(kind)]
        return len(models) > 1 and any(_goes_by(kind, label) for kind in models)

    def narrowed(self, label: str | int) -> Self:
        """The place within one branch of a union, which pydantic calls by type name or tag."""
        chosen = tuple(kind for kind in self.types if _goes_by(kind, label))
        return self if not chosen else type(self)(types=chosen)


def _parts(annotation: object) -> Iterator[object]:
    alias = getattr(annotation, "__value__", None)
    if alias is not None:
        yield from _parts(alias)
    elif get_origin(annotation) is Annotated:
        plain, *metadata = get_args(annotation)
        choosers = [each for each in metadata if isinstance(each, ChosenModel)]
        yield from choosers or _parts(plain)
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _parts(member)
    elif isinstance(annotation, type) and issubclass(annotation, RootModel):
        yield from _parts(annotation.model_fields["root"].annotation)
    else:
        yield annotation


def _chosen(kind: object, value: object) -> Iterator[object]:
    if not isinstance(kind, ChosenModel):
        yield kind
        return
    try:
        yield kind.model_for(value)
    except (PydanticCustomError, PydanticKnownError):
        return  # then the choice is what is wrong, and no key


def _fields(kind: object) -> dict[str, object]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    by_name = bool(
        kind.model_config.get("populate_by_name") or kind.model_config.get("validate_by_name")
    )
    return {
        key: info.annotation
        for name, info in kind.model_fields.items()
        for key in _names(name, info, by_name=by_name)
    }


def _names(name: str, info: FieldInfo, *, by_name: bool) -> Iterator[str]:
    alias = info.validation_alias or info.alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [alias] if alias else []
    for choice in choices:
        yield str(choice.path[0]) if isinstance(choice, AliasPath) else choice
    if by_name or not choices:
        yield name


def _below(kind: object, step: str | int) -> tuple[object, ...]:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(origin, type) and issubclass(cast("type[object]", origin), Mapping):
        return arguments[1:]
    if isinstance(step, int):
        return arguments
    fields = _fields(kind)
    return (fields[step],) if step in fields else ()


def _goes_by(kind: object, label: str | int) -> bool:
    if getattr(kind, "__name__", None) == label:
        return True
    annotations = _fields(kind).values()
    tags = (get_args(found) for found in annotations if get_origin(found) is Literal)
    return any(label in values for values in tags)
