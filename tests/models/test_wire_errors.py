"""What each misbehaviour of an endpoint becomes: try again, a bad request, or the user's turn."""

import socket
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from burnish.core.cases import Message
from burnish.models.chat import ChatRequest
from burnish.models.endpoints import endpoint_of
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.references import ModelRef, ModelSettings
from burnish.models.wire import WireBackend
from burnish.testing.servers import (
    Answer,
    Dropped,
    Malformed,
    ScriptedServer,
    Slow,
    Status,
    Truncated,
)
from tests.models.wire_world import CANARY, HELLO, KINDS, Kind, ask, set_keys

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    set_keys(monkeypatch)


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


async def troubles(kind: Kind, answers: Sequence[Answer], *, limit: float = 5.0) -> list[Exception]:
    """What calls to an endpoint that answers so raise, one call an answer."""
    backend, found = WireBackend(), list[Exception]()
    async with ScriptedServer(protocol=kind.protocol, answers=answers) as server:
        ref = kind.ref(server, timeout=limit)
        for number in range(len(answers)):
            with pytest.raises((ModelUnavailable, ModelRejected, ModelRefused)) as caught:
                await backend.complete(ref, HELLO, draw=0)
            assert len(server.requests) == number + 1, "retries belong to the caller"
            found.append(caught.value)
        await backend.close()
    for error in found:
        assert str(error).startswith(f"{ref.label} at {endpoint_of(ref).address} ")
        assert CANARY not in f"{error!r} {error}"
        assert error.__cause__ is error.__context__ is None
    return found


async def trouble(kind: Kind, answer: Answer, *, limit: float = 5.0) -> Exception:
    """The same for one answer."""
    return (await troubles(kind, [answer], limit=limit))[0]


async def test_a_busy_or_broken_endpoint_is_tried_again(kind: Kind) -> None:
    statuses = [408, 409, 425, 429, 500, 502, 503, 504, 529]
    answers = [Status(status, message="slow down") for status in statuses]
    for status, error in zip(statuses, await troubles(kind, answers), strict=True):
        assert isinstance(error, ModelUnavailable)
        assert str(error).endswith(f"answered HTTP {status}: slow down")
        assert error.retry_after is None


async def test_a_key_in_a_long_message_is_redacted_before_it_is_cut() -> None:
    kind = KINDS["openai"]
    for cut in range(1, len(CANARY)):
        error = await trouble(kind, Status(500, message="x" * (300 - cut - 1) + f" {CANARY} end"))
        assert CANARY[: min(cut, 4)] not in str(error).split("HTTP 500")[1]


async def test_how_long_to_wait(kind: Kind) -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=40), usegmt=True)
    told = [3, "0", "1.5", "soon", "-1", date]
    found = await troubles(kind, [Status(429, retry_after=each) for each in told])
    waits = [error.retry_after for error in found if isinstance(error, ModelUnavailable)]
    assert waits == [3.0, 0.0, 1.5, None, None, pytest.approx(40, abs=5)]


async def test_how_long_to_wait_as_google_says_it() -> None:
    more = {"details": [{"@type": "…/RetryInfo", "retryDelay": "34.5s"}]}
    error = await trouble(KINDS["google"], Status(429, more=more))
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == 34.5


async def test_a_bad_request_is_the_agents_own(kind: Kind) -> None:
    statuses = [400, 413, 422]
    answers = [Status(status, message="prompt is too\nlong") for status in statuses]
    for status, error in zip(statuses, await troubles(kind, answers), strict=True):
        assert isinstance(error, ModelRejected)
        assert str(error).endswith(f"answered HTTP {status}: prompt is too long")


async def test_a_refused_key_names_its_variable(kind: Kind) -> None:
    answers = [Status(status, message=f"Incorrect key: {CANARY}") for status in (401, 403)]
    for error in await troubles(kind, answers):
        assert isinstance(error, ModelRefused)
        keyless = kind.provider == "ollama"
        what = "wants a key, and was sent none" if keyless else "refused the key"
        assert f"{what} (HTTP 40" in error.message
        assert ("give the model an api_key" if keyless else "_API_KEY") in error.remedy


async def test_no_credit_left(kind: Kind) -> None:
    error = await trouble(kind, Status(402, message="buy more"))
    assert isinstance(error, ModelRefused)
    assert "HTTP 402: buy more" in error.message


async def test_an_unknown_model_or_a_wrong_address(kind: Kind) -> None:
    answers = [Status(status, message="no such thing") for status in (404, 405, 410, 307)]
    for error in await troubles(kind, answers):
        assert isinstance(error, ModelRefused)
        assert "base_url" in error.remedy


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("insufficient_quota", ModelRefused),
        ("rate_limit_exceeded", ModelUnavailable),
    ],
)
async def test_a_429_may_be_about_money(code: str, expected: type[Exception]) -> None:
    assert isinstance(await trouble(KINDS["openai"], Status(429, error_code=code)), expected)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("context_length_exceeded", ModelRejected),
        ("unsupported_parameter", ModelRefused),
        ("unsupported_value", ModelRefused),
        ("model_not_found", ModelRefused),
    ],
)
async def test_a_400_may_be_about_more_than_this_request(
    code: str, expected: type[Exception]
) -> None:
    assert isinstance(await trouble(KINDS["openai"], Status(400, error_code=code)), expected)


@pytest.mark.parametrize("name", ["azure", "azure v1"])
async def test_azure_turns_a_filtered_prompt_away(name: str) -> None:
    more = {"innererror": {"code": "ResponsibleAIPolicyViolation"}}
    filtered = Status(400, error_code="content_filter", message="filtered", more=more)
    error = await trouble(KINDS[name], filtered)
    assert isinstance(error, ModelRejected)
    assert "content filter" in str(error)


NO_ANSWERS = [
    Malformed(),
    Malformed(b"[]"),
    Malformed(b"{}"),
    Malformed(b"null"),
    Malformed(b'{"error": {"message": "no"}}'),
    Malformed(b'{"choices": [], "content": [], "candidates": []}'),
    Malformed(b"\xff\xfe"),
    Malformed(b""),
    Malformed(b"just words", content_type="text/plain"),
]


async def test_an_answer_that_is_none(kind: Kind) -> None:
    for error in await troubles(kind, NO_ANSWERS):
        assert isinstance(error, ModelUnavailable)


async def test_a_connection_that_breaks(kind: Kind) -> None:
    for error in await troubles(kind, [Truncated(), Dropped(), Dropped(reset=True)]):
        assert isinstance(error, ModelUnavailable)
        assert "broke the connection" in str(error)


async def test_an_answer_that_takes_too_long(kind: Kind) -> None:
    error = await trouble(kind, Slow(30), limit=1.0)
    assert isinstance(error, ModelUnavailable)
    assert str(error).endswith("did not answer within 1 s")


async def test_nobody_listens(kind: Kind) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ref = ModelRef(
            provider=kind.provider,
            name=kind.name,
            base_url=address,
            api_version=kind.api_version,
            settings=ModelSettings(timeout=120.0),
        )
        with pytest.raises(ModelUnavailable, match="could not be reached") as caught:
            await ask(ref)
    assert address in str(caught.value)


START = (
    b'event: message_start\ndata: {"type": "message_start", "message": {"id": "m", "type":'
    b' "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,'
    b' "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}\n\n'
)
OVERLOADED = (
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error",'
    b' "message": "Overloaded"}}\n\n'
)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [(START, "incomplete answer"), (START + OVERLOADED, "529"), (b"", "")],
)
async def test_a_stream_that_ends_early_is_no_answer(stream: bytes, expected: str) -> None:
    kind = Kind(provider="anthropic", name="claude-opus-5", protocol="anthropic")
    error = await trouble(kind, Malformed(stream, content_type="text/event-stream"))
    assert isinstance(error, ModelUnavailable)
    assert expected in str(error)


async def test_an_endpoint_that_repeats_the_key_is_not_quoted(kind: Kind) -> None:
    words = f"header 'Bearer {CANARY}' is odd"
    answers = [Status(status, message=words) for status in (400, 404, 429, 500)]
    for error in await troubles(kind, answers):
        assert "[redacted]" in str(error)


async def test_an_address_with_a_password_is_asked_nothing() -> None:
    async with ScriptedServer(answers=["yes"]) as server:
        base_url = server.base_url.replace("://", "://me:hunter2secret@")
        with pytest.raises(ModelRefused) as caught:
            await ask(ModelRef(provider="openai", name="m", base_url=base_url))
    assert not server.requests
    assert "hunter2secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["openai", "azure", "azure v1", "anthropic", "ollama"])
async def test_text_that_cannot_be_sent_is_the_requests_fault(name: str) -> None:
    kind = KINDS[name]
    request = ChatRequest(messages=(Message(role="user", content="\ud800"),))
    async with ScriptedServer(protocol=kind.protocol) as server:
        with pytest.raises(ModelRejected):
            await ask(kind.ref(server), request)
