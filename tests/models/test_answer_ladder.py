"""The form of structured answers is found once for a run, and roles get down to plain texts."""

import asyncio
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import BaseModel

from burnish.core.cases import Message
from burnish.core.errors import RoleFailed
from burnish.journal.journal import JournalReader
from burnish.journal.once import DirectEffects, JournaledEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.answers import Explanation, PlainText
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt
from burnish.testing.servers import Answer, HttpRequest, ScriptedServer, Status
from tests.journal.journals import effects_in
from tests.models.test_models_roles import Question
from tests.models.test_wire_formats import SCHEMA, formats

pytestmark = pytest.mark.slow
BOTH = ("json_schema", "json_object")
FENCE = "Here it is:\n```\nSay the unit.\nAlways.\n```"


def asking(number: int) -> ChatRequest:
    """One of several different requests for a structured answer."""
    return ChatRequest(messages=(Message(role="user", content=f"{number}?"),), schema=SCHEMA)


async def replies(
    effects: JournaledEffects, server: ScriptedServer, numbers: range
) -> list[ChatReply | BaseException]:
    """The answers to several requests at once, through a journal, in a process of their own."""
    models = Models(retries=RetryPolicy(attempts=1))
    client = models.client(ModelRef.parse("openai:m", base_url=server.base_url))
    scope = effects.scope(trial=0)
    try:
        answers = await asyncio.gather(
            *(client.ask(asking(number), draw=0, effects=scope) for number in numbers),
            return_exceptions=True,
        )
    finally:
        await models.close()
    return [each if isinstance(each, BaseException) else each.reply for each in answers]


@pytest.mark.parametrize(
    ("refused", "form", "tried"),
    [
        ((), "json_schema", ["json_schema"]),
        (("json_schema",), "json_object", ["json_schema", "json_object"]),
        (BOTH, "prompt", ["json_schema", "json_object", "none"]),
    ],
)
async def test_the_first_request_finds_the_form_for_all_and_for_a_resume(
    tmp_path: Path, refused: tuple[str, ...], form: str, tried: list[str]
) -> None:
    async with ScriptedServer(answers=['{"total": 85}'], refuses=refused) as server:
        effects = effects_in(tmp_path)
        answers = await replies(effects, server, range(6))
        assert {each.form for each in answers if isinstance(each, ChatReply)} == {form}
        assert formats(server) == [*tried, *[tried[-1]] * 5]
        effects.journal.close()
        resumed = effects_in(tmp_path)
        await replies(resumed, server, range(6, 9))
        assert formats(server)[len(tried) + 5 :] == [tried[-1]] * 3, "nothing is tried again"
        resumed.journal.close()
    with JournalReader(tmp_path) as reader:
        assert [row.kind for row in reader.effects()].count("form") == 1


async def test_a_first_request_without_an_answer_fails_alone(tmp_path: Path) -> None:
    def answer(asked: HttpRequest) -> Answer:
        first = asked.json["messages"][-1]["content"] == "0?"
        return Status(500) if first else '{"total": 85}'

    async with ScriptedServer(answers=answer, refuses=["json_schema"]) as server:
        effects = effects_in(tmp_path)
        failed, *others = await replies(effects, server, range(4))
        assert isinstance(failed, ModelUnavailable)
        assert [each.form for each in others if isinstance(each, ChatReply)] == ["json_object"] * 3
        effects.journal.close()


class Rewrite(BaseModel):
    """A text and why."""

    reason: Explanation
    new_text: Annotated[str, PlainText()]


def writer(server: ScriptedServer) -> tuple[ModelRole[Question, Rewrite], Models]:
    models = Models(retries=RetryPolicy(attempts=1))
    return ModelRole(
        name="writer",
        request_type=Question,
        answer_type=Rewrite,
        prompt=RolePrompt(name="writer", system="You rewrite texts.", user="{{ text }}"),
        client=models.client(ModelRef.parse("openai:m", base_url=server.base_url)),
    ), models


async def test_an_endpoint_that_ignores_the_form_is_told_the_schema(tmp_path: Path) -> None:
    """It accepts `response_format` and answers as if there were none."""

    def answer(asked: HttpRequest) -> Answer:
        told = str(asked.json["messages"])
        return '{"reason": "r", "new_text": "t"}' if "JSON schema" in told else "Certainly: t"

    async with ScriptedServer(answers=answer) as server:
        role, models = writer(server)
        effects = effects_in(tmp_path)
        for number in range(2):
            scope = effects.scope(trial=0)
            asked = Question(text=f"{number}")
            receipt = await role.answer(asked, draw=0, effects=scope)
            assert receipt.value.new_text == "t"
            assert receipt.unusable == (("Certainly: t",) if number == 0 else ())
        assert formats(server) == ["json_schema", "json_object", "json_object"]
        await models.close()
        effects.journal.close()


async def test_a_model_that_cannot_write_json_is_asked_for_a_fenced_text() -> None:
    def answer(asked: HttpRequest) -> Answer:
        last = asked.json["messages"][-1]["content"]
        return FENCE if "three backticks" in last else "I would write: Say the unit."

    async with ScriptedServer(answers=answer, refuses=BOTH) as server:
        role, models = writer(server)
        receipt = await role.answer(Question(text="?"), draw=0, effects=DirectEffects())
        assert receipt.value == Rewrite(reason="", new_text="Say the unit.\nAlways.")
        assert receipt.mended == ("a fenced text instead of a JSON object",)
        assert receipt.unusable == ("I would write: Say the unit.",)
        assert "JSON schema" not in server.requests[-1].json["messages"][0]["content"]
        await models.close()


async def test_what_could_not_be_used_is_in_the_error() -> None:
    async with ScriptedServer(answers=["No.", "Not now either."]) as server:
        role, models = writer(server)
        with pytest.raises(RoleFailed) as failed:
            await role.answer(Question(text="?"), draw=0, effects=DirectEffects())
        assert failed.value.unusable == ("No.", "Not now either.")
        await models.close()
