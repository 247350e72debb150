"""A request is read back out of the message that the shipped prompt makes of it."""

from pathlib import Path

import pytest

from burnish.models.roles import in_force
from burnish.testing.doubles import read_role_request

PROPOSERS = (
    *("aggregator", "applier", "backwarder", "critic"),
    *("editor", "patcher", "reflector", "textgrad"),
)


@pytest.mark.parametrize("role", PROPOSERS)
def test_every_field_comes_back_and_empty_ones_are_left_out(role: str) -> None:
    prompt = in_force(role, Path("nowhere"))
    whole = {name: f"the {name}\n\nof it" for name in prompt.fields}
    message = prompt.messages(whole)[1].content
    assert read_role_request(role, message) == whole
    assert "{{" not in message
    again = f"{message}\nAn earlier answer was of no use."
    assert read_role_request(role, again) == whole
    others = [each for each in PROPOSERS if each != role]
    assert all(read_role_request(each, message) is None for each in others)
    # A small model repeats the tags around a text: there are none.
    assert "<" not in prompt.user.replace("<name>", "")
