"""One journaled, retried, limited, priced call of a model."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from burnish.core.cases import FailureKind, Message, Usage
from burnish.core.errors import BurnishError
from burnish.journal.executors import failure_of
from burnish.journal.limits import EndpointLimit, Limits
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.models.chat import ChatReply, ChatRequest, ModelClient, Prices
from burnish.models.errors import ModelRefused, ModelRejected, ModelUnavailable
from burnish.models.factory import Models
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings
from burnish.testing.doubles import ScriptedBackend
from tests.journal.journals import effects_in

FAST = RetryPolicy(attempts=3, first_wait=0.0)
HELLO = ChatRequest(messages=(Message(role="user", content="hello there"),))
PRICES = Prices(overrides={"openai:test": Price(input_per_million=1.0, output_per_million=10.0)})


def client(respond: Callable[[ChatRequest, int], str | ChatReply]) -> ModelClient:
    models = Models(
        prices=PRICES, retries=FAST, backends={"openai": ScriptedBackend(respond=respond)}
    )
    return models.client(ModelRef.parse("openai:test"))


class Flaky:
    """Fails so often, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, request: ChatRequest, draw: int) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return f"answer {draw}"


async def test_a_call_is_made_once_priced_and_counted(tmp_path: Path) -> None:
    asked = Flaky()
    effects = effects_in(tmp_path)
    scope = effects.scope(trial=0)
    first = await client(asked).ask(HELLO, draw=0, effects=scope)
    again = await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    other = await client(asked).ask(HELLO, draw=1, effects=effects.scope(trial=0))
    effects.journal.close()
    assert first == again
    assert (first.reply.text, other.reply.text) == ("answer 0", "answer 1")
    assert asked.calls == 2
    assert first.nano_usd == 2 * 1000 + 2 * 10_000
    (spend,) = scope.used.values()
    assert (spend.calls, spend.tokens_in, spend.tokens_out) == (1, 2, 2)
    assert spend.nano_usd == first.nano_usd


async def test_an_answer_of_no_use_was_paid_for() -> None:
    answers = iter(["\ud800", "\ud800", "sound"])
    effects = DirectEffects()
    await client(lambda _, __: next(answers)).ask(HELLO, draw=0, effects=effects)
    # 11 characters are about 3 tokens, twice; then the two words of the request, and one.
    assert (effects.spent.calls, effects.spent.tokens_in, effects.spent.tokens_out) == (3, 8, 1)
    assert effects.spent.nano_usd == 8 * 1000 + 10_000
    effects = DirectEffects()
    with pytest.raises(ModelUnavailable, match="after 3 attempts"):
        await client(lambda _, __: "\ud800").ask(HELLO, draw=0, effects=effects)
    assert (effects.spent.calls, effects.spent.nano_usd) == (3, 9 * 1000)


async def test_an_unknown_price_is_unknown_not_0() -> None:
    backend = ScriptedBackend(respond=lambda _, __: "hi")
    unknown = Models(backends={"openai": backend}).client(ModelRef.parse("openai:no-such-model"))
    effects = DirectEffects()
    priced = await unknown.ask(HELLO, draw=0, effects=effects)
    assert priced.nano_usd is None
    assert effects.spent.unpriced == 1
    assert effects.spent.usd is None
    assert not unknown.priced


async def test_what_is_unavailable_is_tried_again() -> None:
    asked = Flaky(ModelUnavailable("429"), ModelUnavailable("dropped"))
    priced = await client(asked).ask(HELLO, draw=0, effects=DirectEffects())
    assert priced.reply.text == "answer 0"
    assert asked.calls == 3


async def test_law_4_what_stays_unavailable_is_missing_and_not_asked_for_again(
    tmp_path: Path,
) -> None:
    asked = Flaky(*(ModelUnavailable("503 from the endpoint") for _ in range(9)))
    effects = effects_in(tmp_path)
    told = r"503 .* \(after 3 attempts\)"
    with pytest.raises(ModelUnavailable, match=told):
        await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    with pytest.raises(ModelUnavailable, match=told) as raised:
        await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    effects.journal.close()
    assert asked.calls == 3
    assert failure_of(raised.value).kind is FailureKind.INFRASTRUCTURE


async def test_law_4_a_rejected_request_is_the_agents_own_failure(tmp_path: Path) -> None:
    asked = Flaky(ModelRejected("the prompt is too long"))
    effects = effects_in(tmp_path)
    with pytest.raises(ModelRejected, match="too long"):
        await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    with pytest.raises(ModelRejected, match="too long") as raised:
        await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    effects.journal.close()
    assert asked.calls == 1
    assert failure_of(raised.value).kind is FailureKind.AGENT


async def test_rule_04_refused_credentials_are_not_stored(tmp_path: Path) -> None:
    asked = Flaky(ModelRefused("the key was refused", remedy="set OPENAI_API_KEY"))
    effects = effects_in(tmp_path)
    with pytest.raises(BurnishError, match="refused"):
        await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    priced = await client(asked).ask(HELLO, draw=0, effects=effects.scope(trial=0))
    effects.journal.close()
    assert priced.reply.text == "answer 0"


async def test_an_endpoint_that_is_too_slow_is_unavailable() -> None:
    class Slow(ScriptedBackend):
        async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
            await asyncio.sleep(3600)
            raise AssertionError

    ref = ModelRef.parse("openai:test", settings=ModelSettings(timeout=0.01))
    slow = Models(
        retries=RetryPolicy(attempts=1), backends={"openai": Slow(respond=lambda _, __: "")}
    ).client(ref)
    with pytest.raises(ModelUnavailable, match=r"within 0.01 s"):
        await slow.ask(HELLO, draw=0, effects=DirectEffects())


async def test_an_endpoint_is_asked_only_so_often_at_once() -> None:
    running = most = 0

    class Counting(ScriptedBackend):
        async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1
            return ChatReply(text="x", usage=Usage(requests=1))

    models = Models(
        prices=PRICES,
        limits=Limits({"openai": EndpointLimit(concurrency=3)}),
        backends={"openai": Counting(respond=lambda _, __: "")},
    )
    clients = [models.client(ModelRef.parse(f"openai:{name}")) for name in ("test", "other")]
    asked = [c.ask(HELLO, draw=n, effects=DirectEffects()) for n in range(8) for c in clients]
    await asyncio.gather(*asked)
    assert most == 3


def test_settings_of_a_role_fill_in_what_the_reference_leaves_open() -> None:
    models = Models(backends={"openai": ScriptedBackend(respond=lambda _, __: "")})
    ref = ModelRef.parse("openai:test", settings=ModelSettings(temperature=0.9))
    made = models.client(ref, ModelSettings(temperature=0.1, max_tokens=50))
    assert made.ref.settings.sent() == {"temperature": 0.9, "max_tokens": 50}
