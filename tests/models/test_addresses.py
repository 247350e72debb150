"""Where a model is asked: as its reference says, as its provider's variable says, or at home."""

import pytest

from burnish.models.endpoints import endpoint_of
from burnish.models.errors import ModelRefused
from burnish.models.providers import BUILT_IN
from burnish.models.references import ModelRef, is_here, is_providers_own

KEY = "a-key-of-the-user-0123456789"
GATEWAY = "https://gateway.example.org/v1"
ROWS = [(row.name, name) for row in BUILT_IN for name in row.address_variables]


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in BUILT_IN:
        for name in row.key_variables:
            monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "ours")


@pytest.mark.parametrize(("provider", "variable"), ROWS)
def test_the_variable_that_libraries_know_is_honoured(
    provider: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = ModelRef.parse(f"{provider}:m")
    before = ref.fingerprint
    monkeypatch.setenv(variable, GATEWAY)
    there = ModelRef.parse(f"{provider}:m")
    address = endpoint_of(there).address
    assert address.startswith("https://gateway.example.org/v1")
    assert there.fingerprint != before, "a journal knows where it was asked"
    assert not is_providers_own(there), "a gateway has its own prices"
    stronger = ModelRef.parse(f"{provider}:m", base_url="https://other.example.org/v1")
    assert "other.example.org" in stronger.location


def test_its_key_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the provider's own library does, and unlike an address that a file names."""
    monkeypatch.setenv("OPENAI_BASE_URL", GATEWAY)
    assert endpoint_of(ModelRef.parse("openai:m")).key == KEY
    elsewhere = ModelRef.parse("openai:m", base_url="https://other.example.org/v1")
    assert endpoint_of(elsewhere).own_key == ""


def test_the_providers_own_address_in_the_variable_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = ModelRef.parse("openai:m").fingerprint
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1/")
    ref = ModelRef.parse("openai:m")
    assert (ref.location, ref.fingerprint) == ("", before)


def test_an_address_is_known_as_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the name of a variable nor a login or a query is part of it."""
    monkeypatch.setenv("PLACE", f"{GATEWAY}/?team=secret")
    named = ModelRef.parse("openai:m", base_url="${PLACE}")
    plain = ModelRef.parse("openai:m", base_url=GATEWAY)
    assert named.location == plain.location == GATEWAY
    assert named.fingerprint == plain.fingerprint
    monkeypatch.setenv("PLACE", "https://other.example.org/v1")
    assert ModelRef.parse("openai:m", base_url="${PLACE}").fingerprint != plain.fingerprint


def test_an_empty_variable_leaves_the_usual_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "")
    ref = ModelRef.parse("openai:m", base_url="${PLACE}")
    assert endpoint_of(ref).address == "https://api.openai.com/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", GATEWAY)
    assert endpoint_of(ref).address == GATEWAY
    assert endpoint_of(ref).key == KEY


def test_what_is_no_address_is_said_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "gateway.example.org")
    with pytest.raises(ModelRefused, match=r"base_url \(from OPENAI_BASE_URL\) that is not"):
        endpoint_of(ModelRef.parse("openai:m"))


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("gpu", "http://gpu:11434/v1"),
        ("gpu:8080", "http://gpu:8080/v1"),
        ("https://gpu.example.org", "https://gpu.example.org/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("http://0.0.0.0:11434", "http://127.0.0.1:11434/v1"),
    ],
)
def test_ollamas_host_as_its_own_library_reads_it(
    host: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    ref = ModelRef.parse("ollama:m")
    assert endpoint_of(ref).address == address
    assert is_here(ref) == ("127.0.0.1" in address)
