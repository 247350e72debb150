"""Roles played by a model: an editable prompt, a typed request, a validated answer, one repair.

An answer that only repeats its request is asked for a second time, warmer; one that is cut off,
with a larger limit. Both are calls like any other, and the record of the answer says so.

`burnish roles install` copies the prompts to `.burnish/roles/`; those files take precedence and are
never overwritten. The whole file is part of the journal key of every call of the role.
"""

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Message, ToolUse
from burnish.core.content import AtLeastOne, Codec, Json, Share, canonical, codec, short_id
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Effects, Receipt
from burnish.core.trials import ASKED_AGAIN
from burnish.models.answers import (
    NotAnObject,
    UnusableAnswer,
    continues_cases,
    is_about_itself,
    is_copied,
    is_reply,
    is_unchanged,
    names_only,
    plain_text_field,
    read_answer,
    text_mark,
    without_frame,
)
from burnish.models.chat import ChatReply, ChatRequest, ModelClient, ToolSpec
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.references import ModelSettings
from burnish.system import load_config

INSTALL_FOLDER = Path(".burnish/roles")
_AS_JSON = "Answer again with the JSON object alone, complete and corrected."
_AS_TEXT = (
    "Answer again, without JSON: only the value of {field}, whole, between a line of three "
    "backticks before it and another one after it."
)
_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}")
_SECTION = re.compile(r"\{\{#\s*(\w+)\s*\}\}\n?(.*?)\{\{/\s*\1\s*\}\}\n?", re.DOTALL)
_WARMER, _WARMEST = 0.4, 1.0
"""How much is added to the temperature for a second answer, and up to where."""
_MOST_TOOL_ROUNDS = 10
"""Requests of a role in a row that may end in tool calls."""
_LARGER = 2
"""How many times the limit of tokens is for an answer that was cut off."""


class RoleMessage(BaseModel):
    """A request to a role, or its answer."""

    model_config = ConfigDict(frozen=True, defer_build=True)


class _SettingsBlock(BaseModel):
    """The default settings of the role's model."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Share | None = None
    max_tokens: AtLeastOne | None = None


class _PromptFile(BaseModel):
    """A role's prompt file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    version: AtLeastOne = 1
    system: str
    user: str
    """A template: `{{ field }}` is replaced by a field of the request, and what is between
    `{{#field}}` and `{{/field}}` is left out where that field is empty."""
    settings: _SettingsBlock = Field(default_factory=_SettingsBlock)


@dataclass(frozen=True, kw_only=True)
class RolePrompt:
    """The effective prompt of a role."""

    name: str
    system: str
    user: str
    description: str = ""
    version: int = 1
    settings: ModelSettings = field(default_factory=ModelSettings)
    source: Path = Path()

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the prompt; the location of its file does not matter."""
        return short_id([self.name, self.version, self.system, self.user])

    @cached_property
    def fields(self) -> tuple[str, ...]:
        whole = f"{self.system}\n{self.user}"
        sections = [section[1] for section in _SECTION.finditer(whole)]
        return tuple(dict.fromkeys([*_PLACEHOLDER.findall(whole), *sections]))

    def messages(self, request: Mapping[str, Json]) -> tuple[Message, ...]:
        return (
            Message(role="system", content=_filled(self.system, request)),
            Message(role="user", content=_filled(self.user, request)),
        )

    def require_fields(self, fields: Mapping[str, object]) -> None:
        """Reject a prompt with fields that the role's request does not have."""
        unknown = [
            Problem(
                where=str(self.source),
                message=f"unknown placeholder {{{{ {name} }}}}",
                remedy=f"there are: {', '.join(fields)}",
            )
            for name in self.fields
            if name not in fields
        ]
        if unknown:
            raise ConfigError(unknown)


def read_prompt(path: Path) -> RolePrompt:
    """Read a prompt file; all problems are reported at once."""
    fields = load_config(path, _PromptFile).model_dump()
    settings = ModelSettings(**fields.pop("settings"))
    return RolePrompt(**fields, settings=settings, source=path)


def shipped() -> dict[str, Path]:
    """The prompt files that come with burnish, by role."""
    folder = Path(str(files("burnish.models") / "role_prompts"))
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def in_force(name: str, folder: Path) -> RolePrompt:
    """The prompt of a role for a project in `folder`: the installed one, or the shipped one."""
    installed = folder / INSTALL_FOLDER / f"{name}.yaml"
    if installed.is_file():
        return read_prompt(installed)
    prompts = shipped()
    if name not in prompts:
        raise ConfigError.of(name, "there is no such role", f"there are: {', '.join(prompts)}")
    return read_prompt(prompts[name])


def _filled(template: str, request: Mapping[str, Json]) -> str:
    """The template with every placeholder replaced once; the values are not searched."""
    shown = _SECTION.sub(lambda match: match[2] if request.get(match[1]) else "", template)
    return _PLACEHOLDER.sub(lambda match: _text(request.get(match[1])), shown)


def _text(value: Json) -> str:
    """Strings as they are, lists and objects indented, which models read better."""
    if isinstance(value, list | dict):
        return json.dumps(value, indent=2, ensure_ascii=False)
    return value if isinstance(value, str) else canonical(value).decode()


Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class RewrittenText(Generic[Request, Answer]):
    """Where an answer has a text that takes the place of another."""

    part: str
    """The field of the answer."""
    current: Callable[[Request], object]
    """What is there now; only texts are compared."""
    proposes: Callable[[Answer], bool] = lambda _: True
    """Whether the answer has a new text at all."""
    cases: Callable[[Request], str] = lambda _: ""
    """What the request shows of cases, none of which belongs into the text."""
    completed: Callable[[Request, str], str] = lambda _, text: text
    """The text with what it must say, where its model left that out."""
    tried: Callable[[Request], Collection[str]] = lambda _: ()
    """The marks (`text_mark`) of texts in its place that were measured before."""
    otherwise: Callable[[Request], Request] = lambda request: request
    """The request for a second answer, after one with nothing new."""

    def cleaned(self, answer: Answer, request: Request, frame: frozenset[str]) -> Answer:
        """The answer without what its model copied from around the text."""
        text, current = getattr(answer, self.part), self.current(request)
        if not isinstance(text, str) or not isinstance(current, str):
            return answer
        inner = without_frame(text, frame, current=current, cases=self.cases(request))
        return answer if inner == text else answer.model_copy(update={self.part: inner})

    def ended(self, answer: Answer, request: Request) -> Answer:
        """The answer with the final line break of the text that it replaces, which models drop."""
        text, current = getattr(answer, self.part), self.current(request)
        if not isinstance(text, str) or not isinstance(current, str) or not self.proposes(answer):
            return answer
        if not text.strip() or text.endswith("\n") or not current.endswith("\n"):
            return answer
        return answer.model_copy(update={self.part: f"{text}\n"})

    def is_blank(self, answer: Answer) -> bool:
        """Whether nothing is left of the text that it has."""
        text = getattr(answer, self.part)
        return isinstance(text, str) and self.proposes(answer) and not text.strip()

    def complete(self, answer: Answer, request: Request) -> Answer:
        """The answer with a text that lacks nothing; as it is, if it has none."""
        text = getattr(answer, self.part)
        if not isinstance(text, str) or not self.proposes(answer):
            return answer
        whole = self.completed(request, text)
        return answer if whole == text else answer.model_copy(update={self.part: whole})

    def fault(self, answer: Answer, request: Request, shown: str, names: Collection[str]) -> str:
        """Why it is of no use: it was there or tried before, is a piece of `shown`, or no text."""
        text, current = getattr(answer, self.part), self.current(request)
        if not isinstance(text, str) or not isinstance(current, str) or not self.proposes(answer):
            return ""
        whole = self.completed(request, text)
        if is_unchanged(text, current) or is_unchanged(whole, current):
            return f"{self.part} was the current text, unchanged"
        if text_mark(whole) in self.tried(request):
            return f"{self.part} was a text that was tried before"
        if names_only(text, names) or is_copied(text, shown, current=current):
            return f"{self.part} only repeated a part of the request"
        if is_reply(text, current):
            return f"{self.part} was a reply in a chat, and no text to use"
        if is_about_itself(text, current):
            return f"{self.part} spoke about the text, and must be the text itself"
        if continues_cases(text, self.cases(request), current):
            return f"{self.part} went on with the list of cases, and must be the text itself"
        return ""


@dataclass(frozen=True, kw_only=True)
class RoleTool:
    """A function that a role may call before it answers."""

    spec: ToolSpec
    call: Callable[[Mapping[str, Json]], Awaitable[str]]
    """Its result as a text. What it raises is shown to the model."""
    fingerprint: str
    """A hash of what the model sees of it and of what it does."""


@dataclass(frozen=True, kw_only=True)
class ModelRole(Generic[Request, Answer]):
    """An LLM with one job, a typed answer and an editable prompt."""

    name: str
    request_type: type[Request]
    answer_type: type[Answer]
    prompt: RolePrompt
    client: ModelClient
    check: Callable[[Request, Answer], str] | None = None
    """What is wrong with a valid answer, in words that help to correct it once."""
    narrowed: Callable[[Request], dict[str, Json]] | None = None
    """A schema for one request, if that can be stricter than the type of the answer."""
    rewrite: RewrittenText[Request, Answer] | None = None
    """Set if the role writes a text in place of another."""
    tools: tuple[RoleTool, ...] = ()
    leaf: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.prompt.require_fields(self.request_type.model_fields)

    @property
    def fingerprint(self) -> str:
        """A hash of prompt, model, settings, tools and the answer's schema."""
        tools: list[Json] = [each.fingerprint for each in self.tools]
        parts: list[Json] = [
            self.name,
            self.prompt.fingerprint,
            self.client.fingerprint,
            self._schema,
        ]
        return short_id([*parts, tools] if tools else parts)

    @property
    def answers(self) -> Codec[Answer]:
        """The codec of its answers."""
        return codec(self.answer_type)

    @property
    def priced(self) -> bool:
        return self.client.priced

    def estimate(self, request: Request, /) -> Spend:
        """One call; two if the first answer needs repair."""
        del request
        return self.client.estimate()

    def encode(self, request: Request, /) -> Json:
        return {"messages": [codec(Message).encode(each) for each in self._messages(request)]}

    async def answer(self, request: Request, /, *, draw: int, effects: Effects) -> Receipt[Answer]:
        """The validated answer. Raises RoleFailed if two attempts fail."""
        messages = self._messages(request)
        schema = self.narrowed(request) if self.narrowed else self._schema
        asking = _Asking(name=self.name, draw=draw, effects=effects, tools=self.tools)
        try:
            return await self._answered(request, messages, schema, asking, self.client, strict=True)
        except _IdleAnswer as idle:
            reason, text = str(idle), idle.text
        if self.rewrite is not None:
            request = self.rewrite.otherwise(request)
        *before, last = self._messages(request)
        hint = f"An earlier answer was of no use: {reason}. Write a new text of your own."
        again = (*before, replace(last, content=f"{last.content.rstrip()}\n\n{hint}\n"))
        warm = _warmer(self.client)
        receipt = await self._answered(request, again, schema, asking, warm, strict=False)
        return replace(
            receipt,
            mended=(f"{ASKED_AGAIN}: {reason}", *receipt.mended),
            unusable=(text, *receipt.unusable),
        )

    async def _answered(
        self,
        request: Request,
        messages: tuple[Message, ...],
        schema: dict[str, Json],
        asking: "_Asking",
        client: ModelClient,
        *,
        strict: bool,
    ) -> Receipt[Answer]:
        """The validated answer, which may be corrected once. `strict` raises _IdleAnswer."""
        reply, cut = await asking.reply(client, messages, schema)
        try:
            return self._validated(reply, request, strict=strict, notes=cut)
        except UnusableAnswer as unusable:
            if isinstance(unusable, NotAnObject) and reply.text.strip():
                client.doubt(reply)
            plain = self._may_be_plain(reply, schema)
            wrong, messages = reply.text, self._corrected(messages, reply, unusable, plain=plain)
        form = None if plain else schema
        reply, cut = await asking.reply(client, messages, form, unusable=(wrong,))
        try:
            receipt = self._validated(reply, request, strict=strict, notes=cut)
        except UnusableAnswer as unusable:
            message = f"{self.name} answered twice without a valid answer: {unusable}"
            raise RoleFailed(message, unusable=(wrong, reply.text)) from None
        return replace(receipt, unusable=(wrong,))

    def _corrected(
        self,
        messages: tuple[Message, ...],
        reply: ChatReply,
        unusable: UnusableAnswer,
        *,
        plain: bool,
    ) -> tuple[Message, ...]:
        """The conversation with an answer that cannot be used, and what is to be done about it."""
        wanted = _AS_JSON
        if plain:
            wanted = _AS_TEXT.format(field=plain_text_field(self.answer_type))
        return (
            *messages,
            Message(role="assistant", content=reply.text),
            Message(role="user", content=f"That is not a valid answer: {unusable}. {wanted}"),
        )

    def _may_be_plain(self, reply: ChatReply, schema: Mapping[str, Json]) -> bool:
        """Whether the endpoint enforces nothing, and a text alone says enough."""
        fields = schema.get("properties")
        field = fields.get(plain_text_field(self.answer_type)) if isinstance(fields, dict) else None
        is_text = isinstance(field, dict) and field.get("type") == "string"
        return reply.form == "prompt" and is_text

    def _messages(self, request: Request) -> tuple[Message, ...]:
        return self.prompt.messages(cast("dict[str, Json]", request.model_dump(mode="json")))

    def _validated(
        self, reply: ChatReply, request: Request, *, strict: bool, notes: tuple[str, ...]
    ) -> Receipt[Answer]:
        read = read_answer(reply.text, self.answer_type)
        answer, notes = read.value, (*notes, *read.mended)
        if self.rewrite is not None:
            inner = self.rewrite.cleaned(answer, request, self._frame(request))
            notes = notes if inner is answer else (*notes, "parts of the request around the text")
            answer = self.rewrite.ended(inner, request)
            if strict and (fault := self._idle(self.rewrite, answer, request)):
                raise _IdleAnswer(fault, reply.text)
            if self.rewrite.is_blank(answer):
                raise UnusableAnswer(f"{self.rewrite.part} only repeated a part of the request")
            whole = self.rewrite.complete(answer, request)
            notes = notes if whole is answer else (*notes, "what the text had to say and did not")
            answer = whole
        if fault := self.check(request, answer) if self.check else "":
            raise UnusableAnswer(fault)
        return Receipt(value=answer, mended=notes)

    def _frame(self, request: Request) -> frozenset[str]:
        """The lines of a request that are the prompt's own, and not of what it is about."""
        values = request.model_dump(mode="json").values()
        texts = [value for value in values if isinstance(value, str)]
        own = {line.strip() for text in texts for line in text.splitlines()}
        lines = [line for each in self._messages(request) for line in each.content.splitlines()]
        return frozenset({line.strip() for line in lines} - own - {""})

    def _idle(
        self, rewrite: RewrittenText[Request, Answer], answer: Answer, request: Request
    ) -> str:
        shown = "\n".join(message.content for message in self._messages(request))
        names = {*self.prompt.fields, *self.answer_type.model_fields}
        return rewrite.fault(answer, request, shown, names)

    @cached_property
    def _schema(self) -> dict[str, Json]:
        return cast("dict[str, Json]", self.answer_type.model_json_schema())


@dataclass(frozen=True, kw_only=True)
class _Asking:
    """The calls for one answer of a role."""

    name: str
    draw: int
    effects: Effects
    tools: tuple[RoleTool, ...] = ()

    async def reply(
        self,
        client: ModelClient,
        messages: tuple[Message, ...],
        schema: dict[str, Json] | None,
        *,
        unusable: tuple[str, ...] = (),
    ) -> tuple[ChatReply, tuple[str, ...]]:
        """A whole reply, and what had to be done for it. A larger limit is tried once."""
        specs = tuple(tool.spec for tool in self.tools)
        request = ChatRequest(messages=messages, schema=schema, schema_name=self.name, tools=specs)
        reply = await self._once(client, request, unusable)
        if reply.finish != "length":
            return reply, ()
        limit, unusable = client.ref.settings.max_tokens, (*unusable, reply.text)
        if limit is not None:
            larger = _with(client, max_tokens=_LARGER * limit)
            reply = await self._once(larger, request, unusable)
            if reply.finish != "length":
                return reply, (f"{ASKED_AGAIN}: the answer was cut off at {limit} tokens",)
            unusable = (*unusable, reply.text)
        twice = "" if limit is None else f", also at {_LARGER * limit} tokens"
        raise RoleFailed(
            f"the answer of {self.name} was cut off at its token limit{twice}",
            remedy="raise max_tokens in the role's settings",
            unusable=unusable,
        )

    async def _once(
        self, client: ModelClient, request: ChatRequest, unusable: tuple[str, ...]
    ) -> ChatReply:
        """The reply after every tool call before it."""
        for _ in range(_MOST_TOOL_ROUNDS if self.tools else 1):
            reply = await self._asked(client, request, unusable)
            if not self.tools or not reply.uses:
                return reply
            results = [await self._used(use) for use in reply.uses]
            request = replace(request, messages=(*request.messages, reply.message, *results))
        raise RoleFailed(
            f"{self.name} called tools {_MOST_TOOL_ROUNDS} times in a row and did not answer",
            remedy="say in its prompt when to call them",
            unusable=unusable,
        )

    async def _used(self, use: ToolUse) -> Message:
        tool = next((each for each in self.tools if each.spec.name == use.name), None)
        if tool is None:
            names = ", ".join(each.spec.name for each in self.tools)
            content = f"error: there is no tool {use.name}; there are: {names}"
        else:
            try:
                content = await tool.call(use.arguments)
            except Exception as error:  # noqa: BLE001 - whatever it is, the model is told
                content = f"error: {type(error).__name__}: {error}"
        return Message(role="tool", content=content, answers=use.id, tool=use.name)

    async def _asked(
        self, client: ModelClient, request: ChatRequest, unusable: tuple[str, ...]
    ) -> ChatReply:
        try:
            priced = await client.ask(request, draw=self.draw, effects=self.effects)
        except (ModelUnavailable, ModelRejected) as error:
            missing = isinstance(error, ModelUnavailable)
            message = f"{self.name} could not be asked: {error}"
            raise RoleFailed(message, missing=missing, unusable=unusable) from error
        return priced.reply


def _warmer(client: ModelClient) -> ModelClient:
    """The model with a higher temperature; as it is, if it has none of its own."""
    now = client.ref.settings.temperature
    if now is None or now >= _WARMEST:
        return client
    return _with(client, temperature=round(min(_WARMEST, now + _WARMER), 2))


def _with(client: ModelClient, **settings: Any) -> ModelClient:
    return replace(
        client, ref=replace(client.ref, settings=replace(client.ref.settings, **settings))
    )


class _IdleAnswer(ValueError):
    """An answer that only repeats what its model was shown."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(reason)
        self.text = text
