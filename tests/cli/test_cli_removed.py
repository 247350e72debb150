"""What burnish no longer has: each key, flag and command says what to do instead."""

import pytest
from pydantic import BaseModel, ConfigDict

from burnish.cli.program import run
from burnish.core.errors import ConfigError
from burnish.system.config import validate_config
from burnish.system.removed import REMOVED

FLAGS = {name: remedy for name, remedy in REMOVED.items() if "--" in name}
COMMANDS = {
    name: remedy
    for name, remedy in REMOVED.items()
    if name.startswith("burnish ") and name not in FLAGS
}
KEYS = {name: remedy for name, remedy in REMOVED.items() if " " not in name and name not in FLAGS}
USED = {"burnish tokens": ["tokens", "limit"], "burnish data": ["data", "import"]}
"""A command of each group that had the flag."""


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid")

    runs: int = 1


@pytest.mark.parametrize(("key", "remedy"), KEYS.items())
def test_a_removed_key_of_a_file_says_what_to_do_instead(key: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate_config({key: 1}, Block, source="task.yaml")

    assert f"'{key}' no longer exists — {remedy}" in str(caught.value)


@pytest.mark.parametrize(("place", "remedy"), FLAGS.items())
def test_a_removed_flag_says_what_to_do_instead(
    place: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, _, flag = place.rpartition(" ")

    assert run([*USED.get(command, (command or "burnish optimize").split()[1:]), flag]) == 1

    assert f"{flag} no longer exists: {remedy}" in capsys.readouterr().err


def test_a_word_that_something_else_was_called_is_a_word(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for key in ("priority", "per"):
        with pytest.raises(ConfigError, match="unknown key"):
            validate_config({key: 1}, Block, source="cases.yaml")
    assert run(["runs", "list", "--label", "x"]) == 1
    assert "no longer exists" not in capsys.readouterr().err


@pytest.mark.parametrize(("command", "remedy"), COMMANDS.items())
def test_a_removed_command_says_what_to_do_instead(
    command: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(command.split()[1:]) == 1

    assert f"{command} no longer exists: {remedy}" in capsys.readouterr().err
