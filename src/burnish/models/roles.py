"""Roles played by a model: an editable prompt, a typed request, a validated answer, one repair.

`burnish roles install` copies the prompts to `.burnish/roles/`; what lies there is in force and is
never overwritten. The whole file is part of the journal key of every call of the role.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from burnish.core.cases import Message
from burnish.core.content import AtLeastOne, Codec, Json, canonical, codec, short_id
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Effects, Receipt
from burnish.models.answers import NotAnObject, read_object
from burnish.models.chat import ChatReply, ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.references import ModelSettings
from burnish.system import load_config

INSTALL_FOLDER = Path(".burnish/roles")
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")


class SettingsBlock(BaseModel):
    """How the role's model is asked, unless the project says otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: AtLeastOne | None = None


class PromptFile(BaseModel):
    """A role's prompt as it lies on disk."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    version: AtLeastOne = 1
    system: str
    user: str
    """A template: `{{ field }}` stands for a field of the request."""
    settings: SettingsBlock = Field(default_factory=SettingsBlock)


@dataclass(frozen=True, kw_only=True)
class RolePrompt:
    """The prompt in force for a role."""

    name: str
    system: str
    user: str
    description: str = ""
    version: int = 1
    settings: ModelSettings = field(default_factory=ModelSettings)
    source: Path = Path()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of what the model is told; where the file lies does not matter."""
        return short_id([self.name, self.version, self.system, self.user])

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields of the request that the prompt shows."""
        names = _PLACEHOLDER.findall(self.system) + _PLACEHOLDER.findall(self.user)
        return tuple(dict.fromkeys(names))

    def messages(self, request: Mapping[str, Json]) -> tuple[Message, ...]:
        """The prompt with the request in it."""
        return (
            Message(role="system", content=_filled(self.system, request)),
            Message(role="user", content=_filled(self.user, request)),
        )

    def require_fields(self, fields: Mapping[str, object]) -> None:
        """Refuse a prompt that speaks of fields the role's request does not have."""
        unknown = [name for name in self.fields if name not in fields]
        if unknown:
            raise ConfigError(
                [
                    Problem(
                        where=str(self.source),
                        message=f"unknown placeholder {{{{ {name} }}}}",
                        remedy=f"there are: {', '.join(fields)}",
                    )
                    for name in unknown
                ]
            )


def read_prompt(path: Path) -> RolePrompt:
    """Read a prompt file; everything that is wrong with it is said at once."""
    file = load_config(path, PromptFile)
    return RolePrompt(
        name=file.name,
        system=file.system,
        user=file.user,
        description=file.description,
        version=file.version,
        settings=ModelSettings(**file.settings.model_dump()),
        source=path,
    )


def shipped() -> dict[str, Path]:
    """The prompt files that come with burnish, by role."""
    folder = Path(str(files("burnish.models") / "role_prompts"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def in_force(name: str, folder: Path) -> RolePrompt:
    """The prompt of a role for a project in `folder`: the installed one, else the shipped one."""
    installed = folder / INSTALL_FOLDER / f"{name}.yaml"
    if installed.is_file():
        return read_prompt(installed)
    prompts = shipped()
    if name not in prompts:
        raise ConfigError(
            [
                Problem(
                    where=name,
                    message="there is no such role",
                    remedy=f"there are: {', '.join(prompts)}",
                )
            ]
        )
    return read_prompt(prompts[name])


def _filled(template: str, request: Mapping[str, Json]) -> str:
    """The template with every placeholder replaced, once: what is filled in is not looked at."""
    return _PLACEHOLDER.sub(lambda match: _text(request.get(match[1])), template)


def _text(value: Json) -> str:
    """Texts as they are, lists and objects in lines: models read them better so."""
    if isinstance(value, list | dict):
        return json.dumps(value, indent=2, ensure_ascii=False)
    return value if isinstance(value, str) else canonical(value).decode()


Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class ModelRole(Generic[Request, Answer]):
    """An LLM with one job, a typed answer and an editable prompt."""

    name: str
    request_type: type[Request]
    answer_type: type[Answer]
    prompt: RolePrompt
    client: ModelClient
    check: Callable[[Request, Answer], str] | None = None
    """What is wrong with an answer that keeps its schema, in words that help to mend it once."""
    narrowed: Callable[[Request], dict[str, Json]] | None = None
    """The schema for one request, where that can say more than the type of the answer."""
    leaf: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.prompt.require_fields(self.request_type.model_fields)

    @property
    def fingerprint(self) -> str:
        """A hash of prompt, model, settings and the answer's schema."""
        return short_id([self.name, self.prompt.fingerprint, self.client.fingerprint, self._schema])

    @property
    def answers(self) -> Codec[Answer]:
        """How its answers are kept."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        """Whether the price of a call is known."""
        return self.client.priced

    def estimate(self, request: Request, /) -> Spend:
        """One call, two where the first answer needs repair."""
        del request
        return self.client.estimate()

    def encode(self, request: Request, /) -> Json:
        """What the model will see."""
        return {"messages": [codec(Message).encode(each) for each in self._messages(request)]}

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """The validated answer. Raises RoleFailed when two attempts give none."""
        messages = self._messages(request)
        schema = self.narrowed(request) if self.narrowed else self._schema
        reply = await self._ask(messages, schema, draw=draw, effects=effects)
        try:
            return self._validated(reply, request)
        except _Invalid as invalid:
            messages = (*messages, *_repair(reply, invalid))
        reply = await self._ask(messages, schema, draw=draw, effects=effects)
        try:
            return self._validated(reply, request)
        except _Invalid as invalid:
            raise RoleFailed(
                f"{self.name} answered twice without a valid answer: {invalid}"
            ) from None

    async def _ask(
        self,
        messages: tuple[Message, ...],
        schema: dict[str, Json],
        *,
        draw: int,
        effects: Effects,
    ) -> ChatReply:
        request = ChatRequest(messages=messages, schema=schema, schema_name=self.name)
        try:
            priced = await self.client.ask(request, draw=draw, effects=effects)
        except (ModelUnavailable, ModelRejected) as error:
            missing = isinstance(error, ModelUnavailable)
            message = f"{self.name} could not be asked: {error}"
            raise RoleFailed(message, missing=missing) from error
        if priced.reply.finish == "length":
            raise RoleFailed(
                f"the answer of {self.name} was cut off at its token limit",
                remedy="raise max_tokens in the role's settings",
            )
        return priced.reply

    def _messages(self, request: Request) -> tuple[Message, ...]:
        return self.prompt.messages(cast("dict[str, Json]", request.model_dump(mode="json")))

    def _validated(self, reply: ChatReply, request: Request) -> Receipt[Answer]:
        try:
            read = read_object(reply.text)
            answer = self.answer_type.model_validate_json(read.text)
        except NotAnObject as error:
            raise _Invalid(str(error)) from None
        except ValidationError as error:
            raise _Invalid(_faults(error)) from None
        fault = self.check(request, answer) if self.check else ""
        if fault:
            raise _Invalid(fault)
        return Receipt(value=answer, mended=read.mended)

    @cached_property
    def _schema(self) -> dict[str, Json]:
        return cast("dict[str, Json]", self.answer_type.model_json_schema())


class _Invalid(ValueError):
    """An answer that does not keep its schema."""


def _repair(reply: ChatReply, invalid: _Invalid) -> tuple[Message, Message]:
    return (
        Message(role="assistant", content=reply.text),
        Message(
            role="user",
            content=f"That is not a valid answer: {invalid}. "
            "Answer again with the JSON object alone, complete and corrected.",
        ),
    )


def _faults(error: ValidationError) -> str:
    faults = [f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in error.errors()]
    return "; ".join(faults[:5])
