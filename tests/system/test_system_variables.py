"""`${VAR}`: its expansion, which values are secrets of a run, and addresses with a login."""

from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.system import expand_variables
from burnish.system.variables import expanded_secrets, has_login

ENVIRON = {
    "KEY": "open-sesame-4711",
    "SHORT": "1234567",
    "HEADER": "Bearer open-sesame-4711",
    "URL": "https://shop.example/v1",
    "URL_WITH_QUERY": "https://shop.example/v1?account=kim%2F4711000&v=2",
    "URL_WITH_LOGIN": "postgresql://kim:open%20sesame@db.example/shop",
    "HOST_NAME": "shop.example:8080",
    "HOST_AND_QUERY": "shop.example/?account=kim-4711000",
    "SLASHES": "//open-sesame/4711",
    "HOME": "/home/somebody",
}


def test_variables_are_expanded() -> None:
    environ = {"HOST": "h", "EMPTY": ""}
    assert expand_variables("http://${HOST}/$HOST${EMPTY} ${1}", environ) == "http://h/$HOST ${1}"


def test_all_missing_variables_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        expand_variables("${A_KEY} ${B_KEY} ${A_KEY} ${HOME}", {"HOME": "/"})
    assert len(caught.value.problems) == 2
    assert "A_KEY is not set" in str(caught.value)
    assert "export B_KEY=" in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "secrets"),
    [
        ("${KEY}", {"open-sesame-4711"}),
        ({"a": ["x ${KEY} y", 1, None]}, {"open-sesame-4711"}),
        ("${HEADER}", {"Bearer open-sesame-4711", "open-sesame-4711"}),
        ("${SHORT} ${NOT_SET} $KEY plain-text-that-is-long", set[str]()),
        ("${HOME}/data", set[str]()),
        ("${SLASHES}", {"//open-sesame/4711"}),
        ("${URL}", set[str]()),
        ("${URL}/chat?key=${KEY}", {"open-sesame-4711"}),
        ("${URL_WITH_QUERY}", {"kim/4711000"}),
        (
            "${URL_WITH_LOGIN}",
            {"kim:open%20sesame", "kim:open sesame", "open%20sesame", "open sesame"},
        ),
        ("https://${HOST_NAME}/chat", set[str]()),
        ("https://eu.${HOST_NAME}", set[str]()),
        ("https://${HOST_AND_QUERY}", {"kim-4711000"}),
        ("https://shop.example/${KEY}/chat", {"open-sesame-4711"}),
        ("https://${KEY}@shop.example/", {"open-sesame-4711"}),
        ("https://kim:${KEY}@shop.example/", {"open-sesame-4711"}),
        ("see https://shop.example ${KEY}", {"open-sesame-4711"}),
        ("see https://shop.example,${KEY}", {"open-sesame-4711"}),
    ],
)
def test_what_is_a_secret_of_what_is_sent(sent: Any, secrets: set[str]) -> None:
    assert {*expanded_secrets(sent, ENVIRON)} == secrets


@pytest.mark.parametrize(
    ("address", "has"),
    [
        ("https://kim:pass@shop.example/v1", True),
        ("https://token@shop.example", True),
        ("https://shop.example/v1?mail=kim@shop.example", False),
        ("https://shop.example/@kim", False),
        ("kim@shop.example", False),
        ("http://[::1/", False),
        ("", False),
    ],
)
def test_an_address_with_a_login(address: str, has: bool) -> None:
    assert has_login(address) is has
