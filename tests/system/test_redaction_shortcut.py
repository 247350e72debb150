"""`is_clean` may only skip documents in which nothing would be redacted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from burnish.core.content import canonical
from burnish.system import Redactor

REDACTOR = Redactor(secrets=("canary-1234", 'with"quote\\and\n1234', "ünïcödé-secret"))

words = st.sampled_from(
    [
        "canary-1234",
        'with"quote\\and\n1234',
        "ünïcödé-secret",
        "sk-abcdefghijklmnopqrstuvwxyz",
        "Bearer abcdef123456",
        "https://user:hunter22@host",
        "?api_key=12345678",
        "Basic dXNlcjpwYXNzd29yZA==",
        "Authorization: x1y2z3x1y2z3",
        "ordinary words",
        "the token limit",
        "${OPENAI_API_KEY}",
    ]
)
texts = st.lists(words | st.text(max_size=8), max_size=3).map(" ".join)
names = st.sampled_from(["api_key", "x-api-key", "token", "input_tokens", "password", "Cookie"])
documents = st.recursive(
    texts | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(documents)
@settings(max_examples=400, derandomize=True, deadline=None)
def test_what_is_clean_has_nothing_to_redact(document: JsonValue) -> None:
    if REDACTOR.is_clean(canonical(document).decode()):
        assert REDACTOR.json(document) == document


@pytest.mark.parametrize(
    "document",
    [
        {"replies": ["yes"], "usage": {"input_tokens": 5, "output_tokens": 7}},
        {"target": "0123456789abcdef", "candidate": "fedc", "name": "case-1", "time_limit": None},
        {"scores": [{"metric": "equality", "value": 1.0, "reason": ""}]},
    ],
)
def test_what_the_journal_mostly_holds_is_clean(document: JsonValue) -> None:
    assert REDACTOR.is_clean(canonical(document).decode())
    assert REDACTOR.is_clean(json.dumps(document, indent=1))
