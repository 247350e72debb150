"""No secret passes, and ordinary text does."""

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from burnish.system import Redactor

CANARY = 'cAnary/7+x y%"é'
PLAIN = Redactor(secrets=())
KNOWING = Redactor(secrets=(CANARY, "second-canary-42"))


def test_secrets_are_found_by_the_names_of_their_variables() -> None:
    environ = {
        "OPENAI_API_KEY": "value-number-1",
        "github_token": "value-number-2",
        "DB_PASSWORD": "value-number-3",
        "MYSQL_PASSWD": "value-number-4",
        "GOOGLE_APPLICATION_CREDENTIALS": "value-number-5",
        "SSH_PRIVATE_KEY": "value-number-6\n",
        "AWS_SECRET_ACCESS_KEY": "value-number-7",
        "HOME": "/home/somebody",
        "TOKENIZERS_PARALLELISM": "certainly",
        "PIN_TOKEN": "1234567",
    }
    redactor = Redactor.from_environment(environ, extra=["given", ""])
    assert set(redactor.secrets) == {f"value-number-{n}" for n in range(1, 8)} | {"given"}
    assert "value-number" not in repr(redactor)


@pytest.mark.parametrize(
    "form",
    [
        CANARY,
        quote(CANARY),
        quote(CANARY, safe=""),
        quote_plus(CANARY),
        json.dumps(CANARY)[1:-1],
        json.dumps(CANARY, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(CANARY))[3:-3],
        base64.b64encode(CANARY.encode()).decode(),
        base64.urlsafe_b64encode(CANARY.encode()).decode(),
    ],
)
def test_every_way_to_write_a_known_secret_is_redacted(form: str) -> None:
    assert KNOWING.text(f"before {form} after") == "before [redacted] after"


@pytest.mark.parametrize(
    "form",
    [
        "kim%2fAli%2bBaba%3c40%3e%26x",
        "kim%2FAli%2BBaba%3C40%3E%26x",
        r"kim\/Ali+Baba<40>&x",
        r"kim/Ali+Baba\u003c40\u003e\u0026x",
        r"kim/Ali\u002BBaba\u003C40\u003E\u0026x",
        "kim/Ali+Baba&lt;40&gt;&amp;x",
    ],
)
def test_services_in_other_languages_write_a_secret_otherwise(form: str) -> None:
    redactor = Redactor(secrets=("kim/Ali+Baba<40>&x",))
    assert redactor.text(f'{{"seen": "{form}"}}') == '{"seen": "[redacted]"}'


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_a_secret_inside_longer_base64_does_not_survive(before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + b"second-canary-42" + after).decode()
    assert "[redacted]" in KNOWING.text(encoded)


def test_the_longest_secret_goes_first() -> None:
    redactor = Redactor(secrets=("abcdefgh", "abcdefgh-and-more"))
    assert redactor.text("abcdefgh-and-more") == "[redacted]"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("key sk-abcdefghijklmnopqrstuvwxyz.", "key [redacted]."),
        ("sk-proj-Ab1_cdefghijklmnopq", "[redacted]"),
        ("Authorization: Bearer abc", "Authorization: Bearer [redacted]"),
        ("authorization: abc123 was sent", "authorization: [redacted] was sent"),
        ("{'Authorization': 'Basic abc'}", "{'Authorization': 'Basic [redacted]'}"),
        ("Authorization: AWS4-HMAC-SHA256 C=a, S=b\nx", "Authorization: [redacted]\nx"),
        ('{"x-api-key": "abc"}', '{"x-api-key": "[redacted]"}'),
        (r"{\"X-API-Key\": \"abc\"}", r"{\"X-API-Key\": \"[redacted]\"}"),
        ("x-api-key: abc\r\nhost: b", "x-api-key: [redacted]\r\nhost: b"),
        ("sent Bearer eyJhbGciOi.J9.abc to it", "sent Bearer [redacted] to it"),
        ("sent Basic dXNlcjpwYXNz to it", "sent Basic [redacted] to it"),
        ("postgres://me:p@ss@host:5432/db", "postgres://me:[redacted]@host:5432/db"),
        ("redis://:pass@host", "redis://:[redacted]@host"),
        ("https://a/b?key=abc&x=1&sig=d#e", "https://a/b?key=[redacted]&x=1&sig=[redacted]#e"),
        ("https://a?API_KEY=abc", "https://a?API_KEY=[redacted]"),
        ('"https://a?access_token=abc"', '"https://a?access_token=[redacted]"'),
    ],
)
def test_the_shape_of_a_secret_gives_it_away(text: str, redacted: str) -> None:
    assert PLAIN.text(text) == redacted
    assert PLAIN.text(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "the token limit is 4000",
        "basic rules apply",
        "Basic understanding of gpt-4o-mini",
        "Basic authentication and bearer authentication are supported",
        "Bearer token-based auth; Authorization: Bearer tokens expire after an hour",
        "Authorization: ask the owner of the project",
        "sk-learn and sk-learn-compatible-estimators-of-others",
        "risk-adjusted-return-on-capital, a desk-bound-professional-reader",
        "${OPENAI_API_KEY} and Authorization: Bearer ${TOKEN}",
        "x-api-key: ${KEY}\nhttps://a?key=${KEY} postgres://me:${PASSWORD}@host",
        "http://localhost:8080/a@b and http://localhost:8080?mail=a@b.com",
        "key = value; token=4 keyboard=1 monkey=2 https://a/b?keyboard=1&tokens=2",
        "Basic a10¹ and basic ſſſſ",
        "api_key: the name of the variable; a secret is a secret",
        "",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert PLAIN.text(text) == text


def test_values_under_a_telling_key_are_redacted_whole() -> None:
    given_value: JsonValue = {
        "api_key": "abc",
        "openai-api-key": "abc",
        "Authorization": "abc def",
        "password": "${PASSWORD}",
        "accessToken": "abc",
        "client_secret": "",
        "headers": [{"X-Api-Key": "abc", "Accept": "text/html"}],
        "max_tokens": 5,
        "token": 7,
        "eos_token": "</s>",
        "api_key_env": "OPENAI_API_KEY",
        "authorization": "Bearer ${TOKEN}",
    }
    assert PLAIN.json(given_value) == {
        **given_value,
        "api_key": "[redacted]",
        "openai-api-key": "[redacted]",
        "Authorization": "[redacted]",
        "accessToken": "[redacted]",
        "headers": [{"X-Api-Key": "[redacted]", "Accept": "text/html"}],
    }


def test_two_secret_keys_do_not_overwrite_each_other() -> None:
    assert KNOWING.json({CANARY: 1, "second-canary-42": 2}) == {
        "[redacted]": 1,
        "[redacted] (2)": 2,
    }


def test_a_secret_that_looks_like_the_marker_does_no_harm() -> None:
    redactor = Redactor(secrets=("redacted", "[redacted]", "x[redacted", "redacted]y"))
    once = redactor.text("redacted [redacted] x[redacted] [redacted]y")
    assert redactor.text(once) == once


def test_a_value_from_the_environment_that_is_not_utf8_is_redacted() -> None:
    odd = "odd-value-\udcff"
    assert Redactor(secrets=(odd,)).text(f"a {odd} b") == "a [redacted] b"


SHAPES = (
    'sk- Bearer Basic :// me: @ ?key= &token= Authorization: x-api-key : " [redacted] [ ] a1 / ='
)
FRAGMENTS = st.sampled_from(
    [CANARY, "second-canary-42", "sk-abcdefghijklmnopqrstu", " ", "\n", "${A}", *SHAPES.split()]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=4), max_size=12).map("".join)
TREES = st.recursive(
    TEXTS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(TEXTS)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = KNOWING.text(text)
    assert KNOWING.text(once) == once


@given(TREES)
def test_no_canary_survives_in_a_nested_value(value: JsonValue) -> None:
    once = KNOWING.json(value)
    written = json.dumps(once, ensure_ascii=False)
    assert json.dumps(CANARY, ensure_ascii=False)[1:-1] not in written
    assert "second-canary-42" not in written
    assert KNOWING.json(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox = jumps; " * 40_000,
        "a" * 1_000_000,
        "://a:" * 200_000,
        "bearer " + "a-" * 500_000 + "1",
        "authorization: " * 70_000,
        "?key=a" * 150_000,
        "sk-" * 300_000,
        "basic " * 150_000,
    ],
)
def test_a_large_text_takes_no_time(text: str) -> None:
    started = time.monotonic()
    KNOWING.text(text)
    assert time.monotonic() - started < 120


def test_a_key_of_a_letter_or_two_is_a_stand_in() -> None:
    redactor = Redactor.from_environment({}, extra=["x", "key", "sesame"])
    assert redactor.text("an example of a key: sesame") == "an example of a key: [redacted]"
