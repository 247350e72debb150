"""The base of all settings, the `Door` of a field, and the keys that a model knows.

A setting is one field of one model. Its docstring is its help; its `Door` says where it can be set
besides a file. Flags, environment variables, HTTP settings and the reference are derived from it.
"""

import ast
import inspect
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    LiteralString,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    RootModel,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

from burnish.core.content import (
    MOST_KEYS,
    AboveZero,
    AtLeastOne,
    NoneOrMore,
    NotNegative,
    Places,
    Repeats,
    Share,
)

__all__ = [
    "AboveZero",
    "Access",
    "AtLeastOne",
    "Door",
    "FieldPath",
    "Limits",
    "NoneOrMore",
    "NotNegative",
    "Places",
    "Repeats",
    "SettingField",
    "Settings",
    "Share",
    "Text",
    "closed_keys",
    "field_docs",
    "plain_type",
    "refuse_many_keys",
    "setting_fields",
    "too_many_keys",
]

Text = Annotated[str, Field(min_length=1)]
FieldPath: TypeAlias = tuple[str, ...]


def refuse_many_keys(value: Any) -> Any:
    """The value, unless it has more keys than any block: each of them would become an error."""
    is_block = isinstance(value, Mapping)
    if is_block and (message := too_many_keys(cast("Mapping[str, object]", value))):
        raise PydanticCustomError("too_many_keys", cast("LiteralString", message))
    return value


def too_many_keys(block: Mapping[str, object]) -> str:
    """What is wrong with a block that has more keys than any block; otherwise empty."""
    if len(block) <= MOST_KEYS:
        return ""
    return f"it has {len(block):,} keys; a block of settings has at most {MOST_KEYS:,}"


class Settings(BaseModel):
    """A block of settings: unknown keys are rejected, docstrings under fields are their help.

    Its validator is built when it is first used: a run loads many blocks that it never reads.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)

    short: ClassVar[str] = ""
    """The field that a string or a list alone is short for, if any."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, value: Any) -> Any:
        value = refuse_many_keys(value)
        is_plain = cls.short and isinstance(value, str | list)
        return cast("Any", {cls.short: value} if is_plain else value)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core_schema)
        if not cls.short:
            return schema
        plain = handler.resolve_ref_schema(schema)["properties"][cls.short]
        return {"anyOf": [plain, schema]}


class Access(StrEnum):
    """What a client of the service may do with a field."""

    OPERATOR = "operator"
    """Nothing: paths, commands, code, endpoints, keys, isolation, limits of files and time."""
    CLIENT = "client"
    """Set any valid value."""
    LIMIT = "limit"
    """Set any value; one above the operator's is cut to that."""
    CEILING = "ceiling"
    """The same, and without a value of the operator the default is the limit."""
    DATASET = "dataset"
    """Name a dataset that was uploaded to the service."""
    MODEL = "model"
    """Name a model that the operator allows."""
    CODE = "code"
    """Name a function that the operator allows."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where a field can be set besides a file, as metadata of its annotation."""

    flag: str = ""
    """`--NAME` on the command line and `BURNISH_NAME` in the environment; `*` is the name of the
        field. Empty: only `--set` reaches it.
    """
    prefix: str = ""
    """The prefix of the names of the fields in a block."""
    aliases: tuple[str, ...] = ()
    """Other spellings of the flag."""
    panel: str = "The search"
    """The group of the flag in `--help`."""
    metavar: str = ""
    off: str = ""
    """The help of a flag that turns off what is on by default."""
    paths: bool = False
    """Whether its values are files, relative to where the command line is used."""
    environment: bool = True
    """Whether a variable can set it too."""
    http: Access = Access.OPERATOR
    """What a client of the service may do with it. Closed by default."""
    http_name: str = ""
    """The name that clients use, if it is not that of the flag or, without a flag, of the field."""
    runs: Literal["all", "searches", "measurements"] = "all"
    """Which runs it applies to: those that search, those that only measure, or both."""
    replaces: tuple[str, ...] = ()
    """Fields of the same block that have no effect once a flag sets this one."""
    file: bool = True
    """Whether a file may set it; what only a program decides has no door at all."""


@dataclass(frozen=True, kw_only=True)
class SettingField:
    """One field of a model, with everything that is needed to set it from outside."""

    path: FieldPath
    owner: type[BaseModel]
    """The model that has the field."""
    info: FieldInfo
    door: Door
    name: str
    """Its name as flag, variable and HTTP setting; empty if only `--set` reaches it."""
    text: str = ""
    """Its help, if no docstring of a field has it."""

    @property
    def http_name(self) -> str:
        """Its name in requests; empty if only the operator may set it."""
        if self.door.http is Access.OPERATOR:
            return ""
        return self.door.http_name or self.name or self.path[-1]

    @property
    def flag(self) -> str:
        """`--max-trials`; `--no-rollback` for a setting that is on by default."""
        spelled = self.name.replace("_", "-")
        return f"--no-{spelled}" if self.switches_off else f"--{spelled}"

    @property
    def flags(self) -> tuple[str, ...]:
        """Every spelling of the flag."""
        return (self.flag, *self.door.aliases)

    @property
    def variable(self) -> str:
        """`BURNISH_MAX_TRIALS`."""
        return f"BURNISH_{self.name.upper()}"

    @property
    def help(self) -> str:
        """The docstring under the field, in one line."""
        return self.text or field_docs(self.owner).get(self.path[-1], "")

    @property
    def is_switch(self) -> bool:
        """Whether the flag takes no value."""
        return plain_type(self.info.annotation) is bool

    @property
    def switches_off(self) -> bool:
        """Whether the flag turns off what is on by default."""
        return self.is_switch and self.info.default is True


def setting_fields(
    model: type[BaseModel], at: FieldPath = (), *, prefix: str = ""
) -> Iterator[SettingField]:
    """Every field of a model and of the blocks in it, with its door."""
    for name, info in model.model_fields.items():
        door = next((each for each in info.metadata if isinstance(each, Door)), Door())
        inner = plain_type(info.annotation)
        if isinstance(inner, type) and issubclass(inner, Settings) and not door.flag:
            block = f"{door.prefix}_" if door.prefix else ""
            yield from setting_fields(inner, (*at, name), prefix=f"{prefix}{block}")
            continue
        spelled = name if door.flag == "*" else door.flag
        yield SettingField(
            path=(*at, name),
            owner=model,
            info=info,
            door=door,
            name=f"{prefix}{spelled}" if spelled else "",
        )


@cache
def field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """The docstrings under the fields of a model, including inherited ones.

    Read from the source on demand: help is rare, and every command loads models.
    """
    docs: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel and owner.__annotations__:
            docs |= dict(_docs_in(owner))
    return docs


def _docs_in(owner: type) -> Iterator[tuple[str, str]]:
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):  # made without a file, such as in an interactive session
        return
    body = cast("ast.ClassDef", ast.parse(source).body[0]).body
    for statement, below in pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            yield statement.target.id, " ".join(below.value.value.split())


def plain_type(annotation: object) -> object:
    """The type of a field without `Annotated` and without None."""
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        others = [each for each in get_args(annotation) if each is not type(None)]
        return plain_type(others[0]) if len(others) == 1 else annotation
    return annotation


def closed_keys(
    data: Mapping[str, Any], model: type[BaseModel], at: FieldPath = ()
) -> Iterator[FieldPath]:
    """The keys of plain data that no file may set."""
    for name, value in data.items():
        info = model.model_fields.get(name)
        if info is None:
            continue
        if any(isinstance(each, Door) and not each.file for each in info.metadata):
            yield (*at, name)
        inner = plain_type(info.annotation)
        if isinstance(inner, type) and issubclass(inner, BaseModel) and isinstance(value, Mapping):
            yield from closed_keys(cast("Mapping[str, Any]", value), inner, (*at, name))


_LIMIT = Door(flag="*", panel="Limits", http=Access.LIMIT)
_SEARCH_LIMIT = replace(_LIMIT, runs="searches")


class Limits(Settings):
    """The run ends at whichever limit is reached first. None means no limit."""

    max_trials: Annotated[AtLeastOne | None, _SEARCH_LIMIT] = None
    """Stop after this many trials."""
    max_metric_calls: Annotated[AtLeastOne | None, _LIMIT] = None
    """Stop after running this many cases."""
    max_calls: Annotated[AtLeastOne | None, _LIMIT] = None
    """Stop after this many paid calls: agent, judge, proposer."""
    max_tokens: Annotated[AtLeastOne | None, _LIMIT] = None
    """Stop after this many tokens, input and output."""
    max_usd: Annotated[AboveZero | None, _LIMIT] = None
    """Stop after spending this many US dollars."""
    max_minutes: Annotated[AboveZero | None, _LIMIT] = None
    """Stop after this many minutes of active time, resumes included."""
    patience: Annotated[AtLeastOne | None, _SEARCH_LIMIT] = None
    """Stop after this many trials in a row without an accepted candidate."""
    score_threshold: Annotated[
        Share | None,
        replace(_SEARCH_LIMIT, replaces=("pass_rate_threshold",)),
    ] = None
    """Stop at this score, from 0 to 1."""


class ChosenModel(ABC):
    """Metadata of an annotation: the value itself selects the model that validates it."""

    @abstractmethod
    def model_for(self, value: object) -> type[BaseModel]:
        """The model; raises PydanticCustomError or PydanticKnownError if there is none."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        del source, handler

        def read(value: Any) -> BaseModel:
            return self.model_for(value).model_validate(value)

        return core_schema.no_info_after_validator_function(read, core_schema.any_schema())


@dataclass(frozen=True, kw_only=True)
class SchemaPosition:
    """A position in a model: the types that a value there may have."""

    types: tuple[object, ...]

    @classmethod
    def of(cls, *annotations: object) -> Self:
        """The position of values with these annotations, with unions and aliases resolved."""
        return cls(types=tuple(kind for annotation in annotations for kind in _parts(annotation)))

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that a mapping at this position may have, in order of declaration."""
        return tuple(dict.fromkeys(key for kind in self.types for key in _annotations(kind)))

    def below(self, step: str | int) -> Self:
        """The position of the value under a key or an index."""
        return self.of(*(inner for kind in self.types for inner in _below(kind, step)))

    def chosen_by(self, value: object) -> Self:
        """The position with the models that the value there selects."""
        if not any(isinstance(kind, ChosenModel) for kind in self.types):
            return self
        return self.of(*(each for kind in self.types for each in _chosen(kind, value)))

    def is_branch(self, label: str | int) -> bool:
        """Whether a label names one of several models here, as pydantic does by their tags."""
        models = [kind for kind in self.types if _annotations(kind)]
        return len(models) > 1 and any(_goes_by(kind, label) for kind in models)

    def narrowed(self, label: str | int) -> Self:
        """The position within one branch of a union, labelled by type name or tag."""
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


def _annotations(kind: object) -> Mapping[str, object]:
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return {}
    return _annotations_of(kind)


@cache
def _annotations_of(model: type[BaseModel]) -> Mapping[str, object]:
    config, annotations = model.model_config, dict[str, object]()
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    for name, info in model.model_fields.items():
        alias = info.validation_alias or info.alias
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias] if alias else []
        keys = [str(each.path[0]) if isinstance(each, AliasPath) else each for each in choices]
        for key in [*keys, name] if by_name or not keys else keys:
            annotations[key] = info.annotation
    return annotations


def _below(kind: object, step: str | int) -> tuple[object, ...]:
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(origin, type) and issubclass(cast("type[object]", origin), Mapping):
        return arguments[1:]
    if isinstance(step, int):
        return arguments
    fields = _annotations(kind)
    return (fields[step],) if step in fields else ()


def _goes_by(kind: object, label: str | int) -> bool:
    if getattr(kind, "__name__", None) == label:
        return True
    annotations = _annotations(kind).values()
    tags = (get_args(each) for each in annotations if get_origin(each) is Literal)
    return any(label in values for values in tags)
