"""A function as a model: what it is passed, what it may return, and whose fault an error is."""

from types import SimpleNamespace
from typing import Any

import pytest

from burnish.core.cases import Message
from burnish.models.callables import CallableBackend, reference_to
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelRefused, ModelUnavailable

MESSAGES = (Message(role="system", content="Hi"), Message(role="user", content="2"))
REQUEST = ChatRequest(messages=MESSAGES)


class Client(Exception):
    def __init__(self, status_code: int) -> None:
        super().__init__(f"HTTP {status_code}")
        self.status_code = status_code


async def asked(function: Any) -> str:
    reply = await CallableBackend(function).complete(reference_to(function), REQUEST, draw=0)
    return reply.text


async def test_it_gets_messages_and_returns_text_or_the_reply_of_a_client() -> None:
    def text(messages: list[dict[str, str]]) -> str:
        return " ".join(f"{each['role']}:{each['content']}" for each in messages)

    async def awaited(messages: list[dict[str, str]]) -> str:
        return text(messages)

    def client(messages: list[dict[str, str]]) -> Any:
        choice = SimpleNamespace(message=SimpleNamespace(content=text(messages)))
        return SimpleNamespace(choices=[choice])

    for function in (text, awaited, client):
        assert await asked(function) == "system:Hi user:2"


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (ConnectionError("gone"), ModelUnavailable),
        (TimeoutError("late"), ModelUnavailable),
        (Client(429), ModelUnavailable),
        (Client(502), ModelUnavailable),
        (Client(401), ModelRefused),
        (KeyError("content"), ModelRefused),
        (TypeError("no such argument"), ModelRefused),
    ],
)
async def test_an_outage_may_pass_and_a_mistake_does_not(
    raised: Exception, kind: type[Exception]
) -> None:
    def model(messages: list[dict[str, str]]) -> str:
        raise raised

    with pytest.raises(kind, match=f"model raised {type(raised).__name__}"):
        await asked(model)


@pytest.mark.parametrize("answer", [None, 5, ["a"]])
async def test_what_is_no_text_is_refused_and_never_becomes_one(answer: Any) -> None:
    with pytest.raises(ModelRefused, match=f"returned {type(answer).__name__}, not a text"):
        await asked(lambda _: answer)  # pyright: ignore[reportUnknownLambdaType]


async def test_the_message_of_a_client_is_its_content() -> None:
    assert await asked(lambda _: SimpleNamespace(content="Hello")) == "Hello"  # pyright: ignore[reportUnknownLambdaType]
