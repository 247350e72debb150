"""Prices: exact, offline, the user's own first, and unknown where they are unknown."""

import socket
from decimal import Decimal

import pytest
from genai_prices import Usage as Tokens
from genai_prices import calc_price
from hypothesis import given
from hypothesis import strategies as st

from burnish.core.cases import Usage
from burnish.core.errors import ConfigError
from burnish.models.chat import Prices
from burnish.models.providers import Price
from burnish.models.references import ModelRef, ModelSettings

NANO = 1_000_000_000
MANY = st.integers(min_value=0, max_value=10**9)


def _ref(text: str, base_url: str = "") -> ModelRef:
    return ModelRef.parse(text, base_url=base_url)


def _usage(into: int = 1_000_000, out: int = 1_000_000) -> Usage:
    return Usage(requests=1, input_tokens=into, output_tokens=out)


@pytest.mark.parametrize(
    ("text", "into", "out", "nano"),
    [
        ("openai:gpt-4o-mini", 7, 3, 2_850),
        ("openai:gpt-4o-mini", 1, 0, 150),
        ("openai:gpt-4o", 1_000_000, 1_000_000, 12_500_000_000),
        ("openai:gpt-4o-mini", 123_456_789, 987_654_321, 611_111_110_950),
        ("anthropic:claude-3-5-haiku-latest", 1_000, 10, 840_000),
        ("anthropic:claude-sonnet-4-6", 7, 3, 66_000),
        ("google:gemini-2.5-flash", 1_000, 1_000, 2_800_000),
        ("azure:gpt-4o", 1_000, 1_000, 12_500_000),
        ("openai:gpt-4o-mini", 0, 0, 0),
    ],
)
def test_what_real_models_cost(text: str, into: int, out: int, nano: int) -> None:
    prices = Prices()
    assert prices.nano_usd(_ref(text), _usage(into, out)) == nano
    assert prices.known(_ref(text))
    assert prices.warnings == []


@pytest.mark.parametrize(
    "text", ["openai:gpt-4o-mini", "anthropic:claude-sonnet-4-6", "google:gemini-2.5-pro"]
)
@given(into=MANY, out=MANY)
def test_the_price_is_that_of_the_library(text: str, into: int, out: int) -> None:
    ref = _ref(text)
    tokens = Tokens(input_tokens=into, output_tokens=out)
    usd = calc_price(tokens, ref.name, provider_id=ref.provider).total_price
    found = Prices().nano_usd(ref, _usage(into, out))
    assert found is not None
    assert abs(Decimal(found) - usd * NANO) <= Decimal("0.5")


@given(into=MANY, out=MANY)
def test_an_override_adds_up_without_drift(into: int, out: int) -> None:
    prices = Prices(overrides={"openai:mine": Price(input_per_million=0.1, output_per_million=0.7)})
    assert prices.nano_usd(_ref("openai:mine"), _usage(into, out)) == 100 * into + 700 * out


def test_an_override_goes_first_everywhere() -> None:
    own = Price(input_per_million=1, output_per_million=2)
    named = ("openai:gpt-4o", "ollama:llama3", "local:smollm2", "openai:mine")
    prices = Prices(overrides=dict.fromkeys(named, own))
    for name in named:
        assert prices.nano_usd(_ref(name), _usage()) == 3 * NANO
        assert prices.nano_usd(_ref(name, "http://127.0.0.1:8000/v1"), _usage()) == 3 * NANO
        assert prices.known(_ref(name))
    assert prices.nano_usd(_ref("openai:gpt-4o-mini"), _usage()) == 750_000_000


@pytest.mark.parametrize(
    ("text", "base_url"),
    [
        ("local:smollm2", ""),
        ("local:/models/own.gguf", ""),
        ("ollama:llama3", ""),
        ("ollama:llama3", "http://localhost:11434/v1"),
        ("ollama:llama3", "http://127.0.0.2:11434"),
        ("ollama:llama3", "http://[::1]:11434"),
        ("ollama:llama3", "localhost:11434"),
    ],
)
def test_what_runs_here_costs_nothing(text: str, base_url: str) -> None:
    assert Prices().nano_usd(_ref(text, base_url), _usage()) == 0


@pytest.mark.parametrize(
    ("text", "base_url"),
    [
        ("openai:no-such-model", ""),
        ("openai:gpt-4o", "http://127.0.0.1:8000/v1"),
        ("openai:gpt-4o", "https://api.openai.com.example.org/v1"),
        ("openai:gpt-4o", "https://openrouter.example/v1"),
        ("openai:gpt-4o", "${NOT_SET_ANYWHERE}/v1"),
        ("openai:gpt-4o", "http://[broken"),
        ("anthropic:claude-sonnet-4-6", "https://proxy.example"),
        ("ollama:llama3", "https://gpu.example:11434"),
        ("ollama:llama3", "http://localhost.example:11434"),
        ("azure:our-deployment", "https://ours.openai.azure.com"),
        ("google:gemma-3", ""),
    ],
)
def test_an_unknown_price_is_none(text: str, base_url: str) -> None:
    prices = Prices()
    ref = _ref(text, base_url)
    assert not prices.known(ref)
    assert prices.warnings == []
    assert prices.nano_usd(ref, _usage()) is None
    assert prices.nano_usd(ref, _usage(0, 0)) is None
    assert len(prices.warnings) == 1
    assert text in prices.warnings[0]


def test_one_warning_a_model() -> None:
    prices = Prices()
    for name in ("one", "two", "one"):
        for temperature in (0.0, 1.0):
            settings = ModelSettings(temperature=temperature)
            ref = ModelRef.parse(f"openai:{name}", settings=settings)
            assert prices.nano_usd(ref, _usage(), model=f"{name}-{temperature}") is None
    assert [warning.split()[3] for warning in prices.warnings] == ["openai:one", "openai:two"]
    assert Prices().warnings == []


@pytest.mark.parametrize(
    "base_url", ["https://api.openai.com/v1", "https://eu.api.openai.com/v1", "${OUR_GATE}/v1"]
)
def test_the_providers_own_address_has_its_prices(
    base_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_GATE", "https://api.openai.com")
    assert Prices().known(_ref("openai:gpt-4o", base_url))


def test_what_the_endpoint_says_it_is_goes_before_a_name() -> None:
    prices, deployment = Prices(), _ref("azure:ours", "https://ours.openai.azure.com")
    mini = prices.nano_usd(_ref("openai:gpt-4o-mini"), _usage())
    assert prices.nano_usd(deployment, _usage(), model="gpt-4o-mini-2024-07-18") == mini
    assert prices.nano_usd(_ref("openai:gpt-4o"), _usage(), model="gpt-4o-mini") == mini
    assert prices.nano_usd(_ref("openai:gpt-4o-mini"), _usage(), model="who-knows") == mini
    assert prices.warnings == []


@pytest.mark.parametrize("usd", [-1.0, float("nan"), float("inf")])
def test_a_price_is_an_amount(usd: float) -> None:
    with pytest.raises(ConfigError, match="output_per_million"):
        Price(input_per_million=1, output_per_million=usd)


def test_an_override_is_for_a_model() -> None:
    with pytest.raises(ConfigError, match="did you mean 'openai:gpt-4o'"):
        Prices(overrides={"opnai:gpt-4o": Price(input_per_million=1, output_per_million=1)})


def test_nobody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("prices are known without a network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert Prices().known(_ref("openai:gpt-4o"))
    assert not Prices().known(_ref("openai:no-such-model"))


def test_an_embedding_model_has_a_price_though_it_says_nothing() -> None:
    ref, prices = ModelRef.parse("openai:text-embedding-3-small"), Prices()
    assert prices.known(ref)
    assert prices.nano_usd(ref, Usage(requests=1, input_tokens=1_000_000)) == 20_000_000
    assert prices.nano_usd(ref, Usage(requests=1, input_tokens=1, output_tokens=1)) is None
