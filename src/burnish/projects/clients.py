"""What a client of the service may set: decided here for every dialect of requests.

Each field of a run declares its `Access`. `admit` applies it to one value. Burnish's own API and
the refinement routes validate requests with models that `client_model` makes from the fields, and
PromptIter's requests pass their values through `admit` too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Optional, cast, get_args, get_origin

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic import create_model as _create_model

from burnish.core.errors import BurnishError, ConfigError, Problem, first_problems
from burnish.models.references import split_reference
from burnish.projects.description import STRATEGY, Doors
from burnish.projects.dialects import Document, value_under
from burnish.runs.draft import Draft, Strength
from burnish.system.settings import (
    Access,
    Door,
    SettingField,
    Settings,
    plain_type,
)
from burnish.system.user_code import is_reference, is_standard

_MODELS = "models"
"""Allows every model of a known provider, under the operator's keys."""
DATASET_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]{0,80}(\.evalset)?\.(jsonl|json|csv|yaml|yml)$"
_DatasetName = Annotated[str, Field(pattern=DATASET_NAME, max_length=100)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]
_MODEL = re.compile(r"[\w.-]+:[\w./:@-]+")


class NotAllowed(BurnishError):
    """A request names something that only the operator may name."""


@dataclass(frozen=True, kw_only=True)
class AllowedNames:
    """What the operator lets requests name: all `models`, or single models and functions."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, names: Iterable[str]) -> "AllowedNames":
        """Read what `--allow` says; refuses what is neither `models` nor a model or function."""
        problems: list[Problem] = []
        for name in (chosen := sorted(set(names))):
            if name == _MODELS:
                continue
            if not _MODEL.fullmatch(name) or (is_reference(name) and is_standard(name)):
                remedy = f"write `{_MODELS}`, a model (openai:gpt-4o) or your own module:function"
                message = f"'{name}' cannot be allowed"
                problems.append(Problem(where="--allow", message=message, remedy=remedy))
        if problems:
            raise ConfigError(problems)
        return cls(names=frozenset(chosen))

    def permits(self, access: Access, name: str) -> bool:
        """Whether requests may name this model or function."""
        if access is Access.MODEL and (parts := split_reference(name)) is not None:
            name = f"{parts[0].name}:{parts[1]}"
        every = access is Access.MODEL and _MODELS in self.names and _MODEL.fullmatch(name)
        return bool(every) or name in self.names

    def __str__(self) -> str:
        return ", ".join(sorted(self.names)) or "nothing"


NOTHING_ALLOWED = AllowedNames()


def admit(
    setting: SettingField,
    value: JsonValue,
    *,
    operator: dict[str, Any],
    allowance: AllowedNames,
    dataset: Callable[[str], Path] | None = None,
    where: str = "",
) -> JsonValue:
    """A client's value as the run may have it; raises NotAllowed.

    `operator` is the description without the request: a limit is cut to its value there.
    """
    access, where = setting.door.http, where or ".".join(setting.path)
    if access is Access.CLIENT:
        return value
    if access in (Access.LIMIT, Access.CEILING):
        limit = _limit(setting, operator)
        is_above = limit is not None and isinstance(value, int | float) and value > limit
        return limit if is_above else value
    if access is Access.DATASET and dataset is not None:
        return str(dataset(str(value)))
    if access in (Access.MODEL, Access.CODE):
        for name in _names(value):
            if not allowance.permits(access, name):
                raise NotAllowed(
                    f"{where}: '{name}' is not allowed here",
                    remedy="the operator allows a name with `burnish serve --allow NAME`",
                )
        return value
    raise NotAllowed(f"{where}: only the operator may set it", remedy="leave it out")


def _limit(setting: SettingField, operator: dict[str, Any]) -> float | None:
    """The operator's value of a limit; None if there is none."""
    value = value_under(operator, setting.path)
    if value is None and setting.door.http is Access.CEILING:
        value = setting.info.get_default(call_default_factory=True)  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
    if value is None:
        return None
    kind: Any = setting.info.annotation
    for part in setting.info.metadata:
        kind = Annotated[kind, part]
    try:
        # A variable of the environment is text.
        return cast("float | None", TypeAdapter[Any](kind).validate_python(value))
    except ValidationError:
        message = "the operator's value is not valid, so nothing can be compared with it"
        raise ConfigError.of(".".join(setting.path), message) from None


def _names(value: JsonValue) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _names(inner)
    elif value not in (None, ""):
        yield str(value)


class ClientSettings(Settings):
    """What a request may set instead of the project file. None of the settings is a path."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)

    fields: ClassVar[Mapping[str, SettingField]] = {}
    """The field that each setting sets."""

    @property
    def values(self) -> dict[str, JsonValue]:
        """The settings that a request has, by name."""
        return self.model_dump(mode="json", exclude_none=True, exclude_unset=True)


def client_model(
    name: str, doors: Iterable[Doors], doc: str, base: type[ClientSettings] = ClientSettings
) -> type[ClientSettings]:
    """The model of requests for such runs, made from the fields that are open to clients."""
    fields = {setting.http_name: setting for each in doors for setting in _open_fields(each)}
    types: dict[str, Any] = {key: (_type_of(each), None) for key, each in fields.items()}
    model = _create_model(name, __base__=base, __module__=__name__, __doc__=doc, **types)
    model.fields = fields
    return model


def _open_fields(doors: Doors) -> Iterator[SettingField]:
    """The fields that clients may set; the strategy only if it is not fixed."""
    for setting in doors.fields():
        if setting.http_name and not (doors.strategy.name and setting.name == STRATEGY):
            yield setting


def _type_of(setting: SettingField) -> Any:
    """What a client may send for a field: names are strings, cases are datasets of the service."""
    access, kind = setting.door.http, setting.info.annotation
    # What spelling a file may use besides is nothing for a program.
    parts = [e for e in setting.info.metadata if not isinstance(e, Door | BeforeValidator)]
    plain: Any = plain_type(kind)
    if access is Access.DATASET:
        return Optional[_DatasetName]  # noqa: UP045 - as below
    is_block = isinstance(plain, type) and issubclass(plain, Settings) and access is Access.MODEL
    if access in (Access.MODEL, Access.CODE) and not is_block:
        return Optional[_Text]  # noqa: UP045 - as below
    if get_origin(plain) is tuple:
        (inner, *_) = get_args(plain)
        inner = _Text if plain_type(inner) is str else inner
        return Optional[Annotated[list[inner], Field(max_length=100)]]  # noqa: UP045 - as below
    if setting.path == ("strategy", "name"):
        kind, parts = _Text, []
    whole: Any = Annotated[kind, *parts] if parts else kind
    return Optional[whole]  # noqa: UP045 - a type that is only known here


@dataclass(frozen=True, kw_only=True)
class ClientRequest:
    """The settings of a request, laid over a project file within what its fields admit."""

    values: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """By the names that clients use."""
    allowance: AllowedNames = NOTHING_ALLOWED
    dataset: Callable[[str], Path] | None = None
    """The file of an uploaded dataset."""
    place: str = "settings"
    """Where the request has them, for messages."""
    strategy: str = ""
    """The strategy if the kind of request decides it. A client's own choice is a flag: some files
    are read differently by it."""

    def put(self, draft: Draft, document: Document, doors: Doors) -> None:
        """Lay the settings over the draft of a file; limits are cut to the operator's."""
        del document
        fields = {setting.http_name: setting for setting in _open_fields(doors)}
        operator, _ = draft.assembled()
        values = {name: value for name, value in self.values.items() if name != STRATEGY}
        if useless := [name for name in values if name not in fields]:
            raise ConfigError(
                first_problems(useless, lambda name: doors.useless(f"{self.place}.{name}", name))
            )
        for name, value in values.items():
            setting, where = fields[name], f"{self.place}.{name}"
            admitted = admit(
                setting,
                value,
                operator=operator,
                allowance=self.allowance,
                dataset=self.dataset,
                where=where,
            )
            if admitted != value and setting.door.http in (Access.LIMIT, Access.CEILING):
                note = f"{name} is {admitted:g}: that is the operator's limit"
                draft.note(note, about=".".join(setting.path))
            # A flag switches such a field off; a setting has the value.
            admitted = not admitted if setting.switches_off else admitted
            doors.put(draft, setting, admitted, place=where, strength=Strength.REQUEST)
