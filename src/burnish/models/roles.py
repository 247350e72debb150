"""Roles played by a model: a prompt, a typed request, a validated answer, one repair."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar, cast

from pydantic import BaseModel, ValidationError

from burnish.core.codec import Codec, codec
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import RoleFailed
from burnish.core.messages import Message
from burnish.core.money import Spend
from burnish.models.answers import NotAnObject, read_object
from burnish.models.calling import ModelClient
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.prompts import RolePrompt
from burnish.models.troubles import ModelRejected, ModelUnavailable

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
        said = [codec(Message).encode(message) for message in self._messages(request)]
        return {"messages": said}

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
    told = [f"{'.'.join(map(str, e['loc'])) or 'the answer'}: {e['msg']}" for e in error.errors()]
    return "; ".join(told[:5])
