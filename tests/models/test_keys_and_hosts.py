"""A provider's usual key goes to the provider and to this machine, nowhere else."""

import pytest

from burnish.models.references import ModelRef, key_for

ENVIRON = {"OPENAI_API_KEY": "usual", "PROXY_KEY": "named"}


@pytest.mark.parametrize(
    ("base_url", "api_key", "found"),
    [
        ("", "", "usual"),
        ("https://api.openai.com/v1", "", "usual"),
        ("https://eu.api.openai.com/v1", "", "usual"),
        ("http://127.0.0.1:8000/v1", "", "usual"),
        ("http://localhost:8000/v1", "", "usual"),
        ("https://models.example.org/v1", "", None),
        ("https://api.openai.com.example.org/v1", "", None),
        ("https://models.example.org/v1", "${PROXY_KEY}", "named"),
    ],
)
def test_where_a_key_goes(base_url: str, api_key: str, found: str | None) -> None:
    ref = ModelRef.parse("openai:gpt-4o", base_url=base_url, api_key=api_key)
    assert key_for(ref, ENVIRON) == found
