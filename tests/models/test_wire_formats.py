"""Endpoints that refuse a form of structured answers are asked in a plainer one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Message
from burnish.core.content import Json
from burnish.journal.journal import JournalReader
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole, RolePrompt
from burnish.models.wire import WireBackend
from burnish.testing.servers import Answer, HttpRequest, ModelReply, ScriptedServer, Status
from tests.journal.journals import effects_in
from tests.models.test_models_roles import GOOD, Question, Verdict
from tests.models.wire_world import KINDS, Kind, ask, said, set_keys

pytestmark = pytest.mark.slow

INTEGER: dict[str, Json] = {"type": "integer"}
SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"total": INTEGER},
    "required": ["total"],
    "additionalProperties": False,
}
TOTAL = ChatRequest(
    messages=(
        Message(role="system", content="You add."),
        Message(role="user", content="40 + 45?"),
    ),
    schema=SCHEMA,
    schema_name="invoice",
)
BOTH = ("json_schema", "json_object")
FENCED = f"Of course:\n```json\n{GOOD}\n```\nAnything else?"


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    set_keys(monkeypatch)


def formats(server: ScriptedServer) -> list[str]:
    """What each request wanted of the form of its answer."""
    return [asked.json.get("response_format", {}).get("type", "none") for asked in server.requests]


@pytest.mark.parametrize("name", ["openai", "azure", "ollama"])
@pytest.mark.parametrize(
    ("refused", "form", "asked"),
    [
        ((), "json_schema", ["json_schema"]),
        (("json_schema",), "json_object", ["json_schema", "json_object"]),
        (BOTH, "prompt", ["json_schema", "json_object", "none"]),
    ],
)
async def test_the_best_form_that_is_taken(
    name: str, refused: tuple[str, ...], form: str, asked: list[str]
) -> None:
    kind = KINDS[name]
    async with ScriptedServer(
        protocol=kind.protocol, answers=['{"total": 85}'], refuses=refused
    ) as server:
        reply = await ask(kind.ref(server), TOTAL)
        assert formats(server) == asked
        system, user = said(server.requests[-1])
    assert (reply.text, reply.form) == ('{"total": 85}', form)
    assert user == ("user", "40 + 45?")
    assert system[1].startswith("You add.")
    assert ('"total"' in system[1]) == (form != "json_schema"), "the schema is in the prompt"


REFUSALS = [
    Status(400, message="This response_format type is unavailable now"),
    Status(400, message="This model does not support response format `json_schema`."),
    Status(400, message="'response_format.type' must be 'text'", error_code="unsupported_value"),
    Status(400, message="Structured outputs are not supported here", error_code="x"),
    Status(400, message=""),
    Status(400, message="Bad Request"),
    Status(400, message="Request contains an invalid argument."),
    Status(400, message="Provider returned error", more={"metadata": {"raw": "no json_schema"}}),
    Status(404, message="No endpoint supports JSON mode with these settings"),
    Status(415, message="json_schema is not implemented"),
    Status(422, message="body.response_format: unexpected value"),
    Status(501, message="Not supported: response_format"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda each: f"{each.code} {each.message}")
async def test_how_endpoints_say_it(refusal: Status) -> None:
    async with ScriptedServer(answers=["{}"], refuses=BOTH, refusal=refusal) as server:
        assert (await ask(KINDS["openai"].ref(server), TOTAL)).form == "prompt"


@pytest.mark.parametrize("body", [b"", b"<html>400</html>", b"[1]", b'{"detail": null}', b'"?"'])
async def test_a_body_that_says_nothing_is_worth_a_try(body: bytes) -> None:
    """The refusal is written by hand: an endpoint may send anything as its body."""
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    seen = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()[:2]
        ref = ModelRef.parse("openai:m", base_url=f"http://{host}:{port}/v1")
        with pytest.raises(ModelRejected, match="answered HTTP 400"):
            await ask(ref, TOTAL)
    assert seen == 3


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Status(400, message="This model's maximum context length is 8192 tokens."), ModelRejected),
        (Status(400, message="messages with response_format are too long"), ModelRejected),
        (Status(400, message="no such model: m", error_code="model_not_found"), ModelRefused),
        (Status(400, message="temperature is not supported"), ModelRejected),
        (Status(400, message="turned away by the content policy"), ModelRejected),
        (Status(401, message="response_format"), ModelRefused),
        (Status(404, message="no such model"), ModelRefused),
        (Status(413, message="too large"), ModelRejected),
        (Status(422, message=""), ModelRejected),
        (Status(429, message="json_schema is busy"), ModelUnavailable),
        (Status(500, message="json_schema broke"), ModelUnavailable),
    ],
)
async def test_another_trouble_stays_what_it_is(answer: Status, error: type[Exception]) -> None:
    async with ScriptedServer(answers=[answer]) as server:
        with pytest.raises(error):
            await ask(KINDS["openai"].ref(server), TOTAL)
        assert formats(server) == ["json_schema"]


async def test_where_every_form_is_refused_the_first_error_is_told() -> None:
    words = ("no json_schema", "no json_object", "no response_format")
    backend = WireBackend()
    async with ScriptedServer(answers=[Status(400, message=each) for each in words]) as server:
        with pytest.raises(ModelRejected, match="HTTP 400: no json_schema"):
            await backend.complete(KINDS["openai"].ref(server), TOTAL, draw=0)
        assert formats(server) == ["json_schema", "json_object", "none"]
        await backend.close()


async def test_a_plain_text_has_no_form_to_fall_back_from() -> None:
    plain = ChatRequest(messages=TOTAL.messages)
    async with ScriptedServer(answers=[Status(400, message="")]) as server:
        with pytest.raises(ModelRejected):
            await ask(KINDS["openai"].ref(server), plain)
        assert formats(server) == ["none"]


@pytest.mark.parametrize("name", ["anthropic", "google"])
async def test_other_protocols_fall_back_too(name: str) -> None:
    kind = KINDS[name]

    def answer(asked: HttpRequest) -> Answer:
        body = asked.json
        config = body.get("generationConfig", {})
        enforced = "output_config" in body or config.keys() & {"responseMimeType"}
        message = "output_config.format: Extra inputs are not permitted; JSON mode is not enabled"
        return Status(400, message=message) if enforced else '{"total": 85}'

    async with ScriptedServer(protocol=kind.protocol, answers=answer) as server:
        reply = await ask(kind.ref(server), TOTAL)
        assert '"total"' in said(server.requests[-1])[0][1]
    assert (reply.text, reply.form) == ('{"total": 85}', "prompt")


async def test_what_an_endpoint_takes_is_remembered_for_each_model() -> None:
    backend = WireBackend()
    async with ScriptedServer(answers=['{"total": 85}'], refuses=["json_schema"]) as server:
        ref = KINDS["openai"].ref(server)
        other = Kind(provider="openai", name="another", protocol="openai").ref(server)
        await asyncio.gather(*(backend.complete(ref, TOTAL, draw=n) for n in range(4)))
        first = formats(server)
        assert first.count("json_object") == 4
        warmer = KINDS["openai"].ref(server, temperature=0.3)
        await asyncio.gather(*(backend.complete(warmer, TOTAL, draw=n) for n in range(40)))
        assert formats(server)[len(first) :] == ["json_object"] * 40
        await backend.complete(other, TOTAL, draw=0)
        assert formats(server)[-2:] == ["json_schema", "json_object"]
        await backend.close()


async def test_a_form_that_was_refused_by_an_endpoint_that_never_answers_is_tried_again() -> None:
    """Nothing shows that the form was the trouble."""
    script = iter([Status(400, message=""), Status(429), '{"total": 85}'])
    backend = WireBackend()
    async with ScriptedServer(answers=lambda _: next(script)) as server:
        ref = KINDS["openai"].ref(server)
        with pytest.raises(ModelUnavailable):
            await backend.complete(ref, TOTAL, draw=0)
        reply = await backend.complete(ref, TOTAL, draw=0)
        assert formats(server) == ["json_schema", "json_object", "json_schema"]
        await backend.close()
    assert reply.form == "json_schema"


# -- roles over such an endpoint ------------------------------------------------------------


def checker(server: ScriptedServer, models: Models, **settings: Any) -> ModelRole[Any, Verdict]:
    return ModelRole(
        name="checker",
        request_type=Question,
        answer_type=Verdict,
        prompt=RolePrompt(name="checker", system="You check texts.", user="{{ text }}"),
        client=models.client(KINDS["openai"].ref(server, **settings)),
    )


@pytest.mark.parametrize("refused", [(), ("json_schema",), BOTH])
async def test_a_role_is_answered_and_refused_attempts_are_no_answers(
    refused: tuple[str, ...],
) -> None:
    effects = DirectEffects()
    models = Models(retries=RetryPolicy(attempts=1))
    async with ScriptedServer(answers=[ModelReply(text=FENCED)], refuses=refused) as server:
        role = checker(server, models)
        receipt = await role.answer(Question(text="x"), draw=0, effects=effects)
        assert len(server.requests) == 1 + len(refused)
        await models.close()
    assert receipt.value == Verdict(ok=True, confidence=0.5)
    assert receipt.mended == ("text around the JSON object",)
    assert (effects.spent.calls, effects.spent.tokens_in) == (1, 7)


async def test_an_answer_without_json_is_repaired_in_the_form_that_is_taken() -> None:
    models = Models(retries=RetryPolicy(attempts=1))
    async with ScriptedServer(answers=["Gladly!", FENCED], refuses=BOTH) as server:
        receipt = await checker(server, models).answer(
            Question(text="x"), draw=0, effects=DirectEffects()
        )
        assert formats(server) == ["json_schema", "json_object", "none", "none"]
        talk = said(server.requests[-1])
        await models.close()
    assert receipt.value.ok
    assert "no whole JSON object" in talk[-1][1]


async def test_a_replay_asks_nobody_and_no_key_knows_the_form(tmp_path: Path) -> None:
    """A run that began where schemas were enforced goes on where they are not."""
    keys: list[list[str]] = []
    refused: set[str] = set()

    def answer(request: HttpRequest) -> Answer:
        form = request.json.get("response_format", {}).get("type", "")
        return Status(400, message=f"no {form}") if form in refused else FENCED

    server = ScriptedServer(answers=answer)
    async with server:
        ref = ModelRef.parse("openai:m", base_url=server.base_url)
        for name, forms in (("enforced", ()), ("refused", BOTH)):
            (tmp_path / name).mkdir()
            refused.update(forms)
            for asked in (1 + len(forms), 0):
                effects = effects_in(tmp_path / name)
                models = Models(retries=RetryPolicy(attempts=1))
                scope, before = effects.scope(trial=0), len(server.requests)
                answered = await models.client(ref).ask(TOTAL, draw=0, effects=scope)
                assert answered.reply.text == FENCED
                assert len(server.requests) - before == asked
                await models.close()
                assert effects.journal.billed.calls == 1
                effects.journal.close()
    for name in ("enforced", "refused"):
        with JournalReader(tmp_path / name) as reader:
            rows = list(reader.effects())
            keys.append([row.key for row in rows])
            assert sorted(row.kind for row in rows) == ["form", "model"]
    assert keys[0] == keys[1]
