"""What a run may be asked for over HTTP: limits and numbers freely, names only from a list."""

from collections.abc import Set
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

from pydantic import ConfigDict, Field, JsonValue, create_model

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.projects.describing import Flags, all_doors
from burnish.server.datasets import DatasetName, Datasets
from burnish.server.errors import NotAllowed
from burnish.system import validate_config
from burnish.system.settings import Door, Places, Repeats, SettingField, Settings

PROMPTITER = "promptiter"
"""The key of a request in PromptIter's terms."""
Text = Annotated[str, Field(min_length=1, max_length=200)]


class HttpSettings(Settings):
    """What may be said over HTTP in the place of the project file. Nothing here names a path."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    def flags(self, datasets: Datasets, allowed: Set[str]) -> Flags:
        """The same as flags of the command line: datasets as files, names only from the list."""
        fields, flags = http_fields(), dict[str, JsonValue]()
        for name, value in self.model_dump(exclude_none=True).items():
            field = fields[name]
            if field.path[0] == "data":
                flags[name] = str(datasets.path(value))
            else:
                if _names_code(field):
                    refuse_unlisted({name: str(value)}, allowed)
                flags[name] = value
        return flags


@cache
def http_fields() -> dict[str, SettingField]:
    """The fields that clients may set, by name: those whose door is open to them."""
    return {
        name: field
        for doors in all_doors()
        for name, field in doors.named().items()
        if field.door.http
    }


def _names_code(field: SettingField) -> bool:
    """Whether a field names a model or a function, which runs or is paid for."""
    return field.path[0] == "roles" or field.path == ("target", "agent")


def _type_of(field: SettingField) -> Any:
    """What a client may send for a field: names are texts, cases are datasets of the service."""
    kind: Any = field.info.annotation
    parts = [each for each in field.info.metadata if not isinstance(each, Door)]
    if parts:
        kind = Annotated[kind, *parts]
    if field.path[0] == "data":
        kind = DatasetName
    elif _names_code(field) or field.path == ("strategy", "name"):
        kind = Text
    return Optional[kind]  # noqa: UP045 - a type that is only known here


def _generated() -> type[HttpSettings]:
    fields: dict[str, Any] = {name: (_type_of(each), None) for name, each in http_fields().items()}
    return create_model("RunSettings", __base__=HttpSettings, __module__=__name__, **fields)


if TYPE_CHECKING:
    RunSettings = HttpSettings
else:
    RunSettings = _generated()


class EvaluationSettings(Settings):
    """What may be said of a measurement."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    cases: DatasetName | None = None
    """A dataset of this service, by name."""
    metrics: list[Text] = Field(default_factory=list[str], max_length=100)
    """Only these, by name."""
    repeats: Repeats | None = None
    concurrency: Places | None = None
    judge: Text | None = None
    """A model that the operator allowed."""


class Asked(Settings):
    """A request as the store keeps it."""

    kind: Literal["optimize", "evaluate", "promptiter"] = "optimize"
    settings: RunSettings = Field(default_factory=RunSettings)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    promptiter: Json = None
    spec: dict[str, JsonValue] | None = None
    """The description of the run, from which it is built; the service writes it, no client."""

    @classmethod
    def read(cls, request: Json) -> "Asked":
        """What the store kept, or a program gives."""
        return validate_config(request or {}, cls, source="request")

    def to_json(self) -> dict[str, Json]:
        """As the store keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude_none=True)


def refuse_unlisted(named: dict[str, str], allowed: Set[str]) -> None:
    """Refuse code and models that the operator did not list."""
    for key, name in named.items():
        if name not in allowed:
            raise NotAllowed(
                f"{key}: '{name}' is not allowed here",
                remedy="the operator allows a name with `burnish serve --allow NAME`",
            )


def refuse_kind(kind: str, app: str) -> ConfigError:
    """An app that cannot do what is asked."""
    return ConfigError([Problem(where="kind", message=f'the app "{app}" cannot {kind}')])
