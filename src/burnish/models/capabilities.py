"""What a model at an endpoint can do: four short requests, whose results are remembered."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from burnish.core.cases import Message, Usage
from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.journal.once import DirectEffects
from burnish.models.answers import UnusableAnswer, read_answer
from burnish.models.chat import (
    LADDER,
    ChatReply,
    ChatRequest,
    FindsForms,
    Form,
    ModelClient,
    ToolSpec,
)
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.system import read_text, write_atomic

REMEMBERED = "models.json"
"""The file in the user's state folder with what was found out."""
_FORMS: dict[Form, str] = {
    "json_schema": "the endpoint enforces schemas",
    "json_object": "JSON mode, with the schema in the prompt",
    "prompt": "the schema is only in the prompt",
}
"""The forms of structured answers in words."""


class _Animal(BaseModel):
    """The structured answer; the question does not say how to write it."""

    model_config = ConfigDict(extra="forbid")

    animal: str
    letters: int


_PLAIN = "Answer with the single word: yes"
_STRUCTURED = "Which animal barks, and how many letters does its name have?"
_WITH_TOOL = "How much is 4417 plus 2256? Use the tool."
_ADD = ToolSpec(
    name="add",
    description="Adds two whole numbers.",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What burnish can rely on when it calls a model."""

    model: str
    address: str
    """Where it was asked; empty for the provider's own address."""
    at: str
    """When it was asked."""
    answer: str
    """Its plain answer."""
    form: Form | None = None
    """How structured answers are requested; None if none of them could be read."""
    form_trouble: str = ""
    tools: bool = False
    tools_trouble: str = ""
    tools_remedy: str = ""
    """What to do about it; empty if only another model helps."""
    counts_tokens: bool = False
    """Whether it reports how many tokens a call took."""
    priced: bool = False

    @property
    def summary(self) -> str:
        """One line, for `burnish doctor`."""
        form = "no structured answers" if self.form is None else f"structured answers: {self.form}"
        tools = "tools work" if self.tools else "tools do not work"
        tokens = "tokens are counted" if self.counts_tokens else "tokens are not counted"
        return f"{form}; {tools}; {tokens} (checked {self.at[:10]})"


async def examine_model(client: ModelClient) -> Capabilities:
    """Ask a model four short things. Raises what keeps it from giving even a plain answer."""
    plain = await _ask(client, ChatRequest(messages=_question(_PLAIN)))
    found = Capabilities(
        model=client.ref.label,
        address=client.ref.location,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        answer=" ".join(plain.text.split())[:60],
        counts_tokens=_reports_tokens(plain.usage),
        priced=client.priced,
    )
    form, form_trouble = await _structured(client)
    return await _with_tools(replace(found, form=form, form_trouble=form_trouble), client)


async def _ask(client: ModelClient, request: ChatRequest) -> ChatReply:
    return (await client.ask(request, draw=0, effects=DirectEffects())).reply


async def _structured(client: ModelClient) -> tuple[Form | None, str]:
    """The best form whose answer can be used, or why none can."""
    schema = cast("dict[str, Json]", _Animal.model_json_schema())
    request = ChatRequest(messages=_question(_STRUCTURED), schema=schema, schema_name="animal")
    trouble = ""
    for _ in LADDER:
        try:
            reply = await _ask(client, request)
        except (ModelRejected, ModelUnavailable) as error:
            return None, str(error)
        try:
            read_answer(reply.text, _Animal)
        except UnusableAnswer as error:
            trouble = f"the answer cannot be read: {error}"
            client.doubt(reply)
        else:
            return reply.form or LADDER[0], ""
    return None, trouble


async def _with_tools(found: Capabilities, client: ModelClient) -> Capabilities:
    try:
        reply = await _ask(client, ChatRequest(messages=_question(_WITH_TOOL), tools=(_ADD,)))
    except ModelRefused as error:  # the other questions need no library, this one may
        return replace(found, tools_trouble=error.message, tools_remedy=error.remedy)
    except (ModelRejected, ModelUnavailable) as error:
        return replace(found, tools_trouble=str(error))
    if any(use.name == _ADD.name for use in reply.uses):
        return replace(found, tools=True)
    return replace(found, tools_trouble="it answered without using the tool")


def _question(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


def _reports_tokens(usage: Usage) -> bool:
    return usage.input_tokens > 0 and usage.output_tokens > 0


@dataclass(frozen=True, kw_only=True)
class Reliance:
    """One line of what burnish will rely on."""

    subject: str
    state: Literal["ok", "absent", "wrong"]
    message: str
    remedy: str = ""


def reliances(found: Capabilities) -> Iterator[Reliance]:
    """What was found out, and what it means."""
    yield Reliance(subject="plain answer", state="ok", message=f"'{found.answer}'")
    if found.form is None:
        remedy = "use another model for judges and proposers; agents with plain answers work"
        yield Reliance(
            subject="structured", state="wrong", message=found.form_trouble, remedy=remedy
        )
    else:
        message = f"{found.form}: {_FORMS[found.form]}"
        yield Reliance(subject="structured", state="ok", message=message)
    if found.tools:
        yield Reliance(subject="tools", state="ok", message="it calls tools")
    else:
        other = "agents with tools need another model; vLLM and llama.cpp have flags for tools"
        remedy = found.tools_remedy or other
        yield Reliance(subject="tools", state="absent", message=found.tools_trouble, remedy=remedy)
    if found.counts_tokens:
        yield Reliance(subject="tokens", state="ok", message="reported with each answer")
    else:
        message = "not reported: limits in tokens and in US dollars see nothing of its calls"
        yield Reliance(
            subject="tokens", state="wrong", message=message, remedy="limit its calls instead"
        )
    price = "known" if found.priced else "unknown: set `prices` of the model to limit US dollars"
    yield Reliance(subject="price", state="ok" if found.priced else "absent", message=price)


_REMEMBERED = TypeAdapter(list[Capabilities])


def remembered(home: Path) -> list[Capabilities]:
    """What was found out earlier, newest last; nothing if the file is missing or damaged."""
    try:
        return _REMEMBERED.validate_json(read_text(home / REMEMBERED))
    except (FileTrouble, OSError, ValidationError):
        return []


def remember(found: Capabilities, home: Path) -> None:
    """Replace what is remembered of this model at this address."""
    others = [
        each
        for each in remembered(home)
        if (each.model, each.address) != (found.model, found.address)
    ]
    rows: list[dict[str, Any]] = [asdict(each) for each in (*others, found)]
    home.mkdir(parents=True, exist_ok=True)
    write_atomic(home / REMEMBERED, json.dumps(rows, indent=2, ensure_ascii=False) + "\n")


def expected_forms(clients: Iterable[object], home: Path) -> dict[str, str]:
    """How a run will get structured answers, by the label of a model, for plans.

    Models for which there is nothing to find out, and clients of other kinds, are left out.
    """
    models = [each for each in clients if isinstance(each, ModelClient)]
    return {each.ref.label: words for each in models if (words := _form_words(each, home))}


def _form_words(client: ModelClient, home: Path) -> str:
    if not isinstance(client.backend, FindsForms):
        return ""
    asked = (client.ref.label, client.ref.location)
    checks = [each for each in remembered(home) if (each.model, each.address) == asked]
    if checks and (form := checks[-1].form) is not None:
        return f"{form} when it was checked on {checks[-1].at[:10]}: {_FORMS[form]}"
    return "the first request finds their form, before others are sent"
