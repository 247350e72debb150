"""The journal keys of model calls, pinned: a fork never pays twice."""

from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from pydantic import BaseModel

from burnish.core.cases import Attachment, Case, Image, Message, ToolUse, Turn
from burnish.core.content import Json
from burnish.core.protocols import Call, Receipt, Scope
from burnish.journal.once import DirectEffects
from burnish.models.chat import ChatReply, ChatRequest, ToolSpec
from burnish.models.errors import ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.roles import ModelRole, RolePrompt
from burnish.testing.doubles import ScriptedBackend
from tests.targets.agent_world import target, uses, write_agent

T = TypeVar("T")
Respond = Callable[[ChatRequest, int], str | ChatReply]

SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"total": {"type": "number"}},
    "required": ["total"],
    "additionalProperties": False,
}
TOOL = ToolSpec(name="add", description="a + b", parameters={"type": "object", "properties": {}})
SYSTEM = Message(role="system", content="Be brief.")
HELLO = Message(role="user", content="Grüß dich\n")
USE = ToolUse(id="call-1", name="add", arguments={"a": 1, "b": 2.5})
THOUGHT: Json = {"parts": [{"content": "hm", "part_kind": "thinking"}], "kind": "response"}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class RecordingEffects(DirectEffects):
    """Performs every effect, and keeps the keys of the calls of models."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        if call.kind == "model":
            self.keys.append(call.key[:16])
        return await super().once(call, perform)


REQUESTS = {
    "text": ChatRequest(messages=(HELLO,)),
    "multi-turn": ChatRequest(
        messages=(SYSTEM, HELLO, Message(role="assistant", content="Hi."), HELLO)
    ),
    "tools": ChatRequest(messages=(SYSTEM, HELLO), tools=(TOOL,)),
    "tool return": ChatRequest(
        messages=(
            HELLO,
            Message(role="assistant", content="", uses=(USE,)),
            Message(role="tool", content="3.5", answers="call-1", tool="add"),
        ),
        tools=(TOOL,),
    ),
    "thoughts": ChatRequest(
        messages=(HELLO, Message(role="assistant", content="", uses=(USE,), verbatim=THOUGHT))
    ),
    "image": ChatRequest(
        messages=(
            Message(
                role="user",
                content="What is this?",
                images=(Image(media_type="image/png", base64=PIXEL),),
            ),
        )
    ),
    "structured": ChatRequest(messages=(SYSTEM, HELLO), schema=SCHEMA, schema_name="invoice"),
}


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("text", "92101c26470dde66"),
        ("multi-turn", "adc0570a1f092ebb"),
        ("tools", "cbc06588f00edd49"),
        ("tool return", "95c3c3a2d134db6f"),
        ("thoughts", "9cb43874821818d3"),
        ("image", "ae3c7bcf05efe884"),
        ("structured", "bda8021a96998eb5"),
    ],
)
async def test_the_key_of_a_request(name: str, key: str) -> None:
    effects = RecordingEffects()
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "ok")})
    await models.client(ModelRef.parse("openai:m")).ask(REQUESTS[name], draw=0, effects=effects)
    assert effects.keys == [key]


async def test_the_key_has_the_draw_and_the_settings() -> None:
    effects = RecordingEffects()
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "ok")})
    settings = ModelSettings(temperature=0.3, max_tokens=50, stop=("END",), seed=7)
    ref = ModelRef.parse("openai:m", base_url="http://127.0.0.1:9/v1", settings=settings)
    await models.client(ref).ask(REQUESTS["text"], draw=0, effects=effects)
    await models.client(ref).ask(REQUESTS["text"], draw=3, effects=effects)
    assert effects.keys == ["145cecb5b7edd4ec", "c06d2793214b9c51"]


class Question(BaseModel):
    text: str


class Verdict(BaseModel):
    score: float


async def test_the_keys_of_a_role_and_of_its_repair() -> None:
    effects = RecordingEffects()
    backend = ScriptedBackend(
        respond=lambda request, _: '{"score": 1}' if len(request.messages) > 2 else "one point"
    )
    role = ModelRole(
        name="judge",
        request_type=Question,
        answer_type=Verdict,
        prompt=RolePrompt(name="judge", system="You judge.", user="Judge: {{ text }}"),
        client=Models(backends={"openai": backend}).client(ModelRef.parse("openai:m")),
    )
    await role.answer(Question(text="7 - 5 = 2"), draw=1, effects=effects)
    assert effects.keys == ["570f009554338fef", "d81d636626d23fa7"]


INLINE = """\
name: analyst
model: {provider: openai, name: m}
instructions: {inline: You are an analyst.}
"""
TOOLS = """\
tools:
  - {name: subtract, type: function, description: a - b, file: tools/maths.py, function: subtract}
  - {name: broken, type: function, description: breaks, file: tools/maths.py, function: broken}
"""
STRUCTURED = """\
response_format:
  type: object
  properties: {total: {type: number}}
  required: [total]
"""


async def agent_keys(folder: Path, agent: str, respond: Respond, case: Case) -> list[str]:
    """The keys of all model calls of one case."""
    effects = RecordingEffects()
    analyst, _ = target(write_agent(folder, agent), respond)
    outcome = (await analyst.run(analyst.baseline, case, draw=0, effects=effects)).value
    assert outcome.failure is None, outcome.failure
    return effects.keys


def scripted(*replies: str | ChatReply) -> Respond:
    """Gives these replies, one after the other."""
    waiting = iter(replies)
    return lambda _, __: next(waiting)


async def test_the_keys_of_an_agent_in_two_turns_with_history(tmp_path: Path) -> None:
    case = Case(
        name="c",
        history=(Message(role="user", content="Hi."), Message(role="assistant", content="Hello.")),
        turns=(Turn(input="one?"), Turn(input="two?")),
    )
    assert await agent_keys(tmp_path, INLINE, scripted("1", "2"), case) == [
        "6d2a8e60fae40945",
        "2f2ed8e80fa838d6",
    ]


async def test_the_keys_of_an_agent_with_tools(tmp_path: Path) -> None:
    replies = (
        uses("subtract", "c1", a=7, b=5),
        uses("subtract", "c2", a="seven"),
        uses("broken", "c3", a=1),
        "2",
    )
    keys = await agent_keys(tmp_path, INLINE + TOOLS, scripted(*replies), Case.single("7 - 5?"))
    assert keys == ["faf42877c04d1295", "ed0418029cd40449", "6487fe7d46bc2687", "bf8b50058b0576cb"]


async def test_the_keys_of_an_agent_whose_model_thinks(tmp_path: Path) -> None:
    use = ToolUse(id="call-1", name="subtract", arguments={"a": 7, "b": 5})
    thinking = ChatReply(text="So:", uses=(use,), finish="tool_call", verbatim=THOUGHT)
    keys = await agent_keys(
        tmp_path, INLINE + TOOLS, scripted(thinking, "2"), Case.single("7 - 5?")
    )
    assert keys == ["faf42877c04d1295", "95f585e7260581a1"]


async def test_the_keys_of_an_agent_with_structured_output_and_its_repair(tmp_path: Path) -> None:
    replies = scripted("no number", '{"total": 2}')
    keys = await agent_keys(tmp_path, INLINE + STRUCTURED, replies, Case.single("7 - 5?"))
    assert keys == ["e16f07355faf98c8", "691f01f209f174d1"]


async def test_the_keys_of_an_agent_with_attachments(tmp_path: Path) -> None:
    (tmp_path / "pixel.png").write_bytes(b64decode(PIXEL))
    (tmp_path / "note.txt").write_text("Remember the milk.\n", encoding="utf-8")
    files = (Attachment(kind="image", path="pixel.png"), Attachment(kind="text", path="note.txt"))
    case = Case(name="c", turns=(Turn(input="What is it?", attachments=files),))
    assert await agent_keys(tmp_path, INLINE, scripted("A pixel."), case) == ["be670481fd3d22e5"]


STORED: dict[str, Json] = {
    "reply": {
        "text": "So:",
        "uses": [{"id": "call-1", "name": "add", "arguments": {"a": 1, "b": 2.5}}],
        "finish": "tool_call",
        "usage": {"requests": 1, "input_tokens": 3, "output_tokens": 4},
        "model": "m-1",
        "seconds": 0.5,
        "form": "json_schema",
        "verbatim": THOUGHT,
    },
    "nano_usd": 5,
    "trouble": "",
    "message": "",
    "attempts": 2,
}


class StoredEffects:
    """A journal that has every call already."""

    def __init__(self, value: Json) -> None:
        self.value = value

    async def once(self, call: Call[T], perform: Callable[[Scope], Awaitable[Receipt[T]]]) -> T:
        value = call.codec.decode(self.value)
        assert call.codec.encode(value) == self.value
        return value


async def test_a_stored_answer_is_read_and_written_as_ever() -> None:
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "paid again")})
    client = models.client(ModelRef.parse("openai:m"))
    priced = await client.ask(REQUESTS["text"], draw=0, effects=StoredEffects(STORED))
    assert (priced.reply.text, priced.reply.uses, priced.nano_usd) == ("So:", (USE,), 5)
    assert priced.reply.message.verbatim == THOUGHT


async def test_a_stored_failure_is_raised_again() -> None:
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "paid again")})
    client = models.client(ModelRef.parse("openai:m"))
    stored: Json = {**STORED, "reply": None, "trouble": "unavailable", "message": "503"}
    with pytest.raises(ModelUnavailable, match=r"503 \(after 2 attempts\)"):
        await client.ask(REQUESTS["text"], draw=0, effects=StoredEffects(stored))
