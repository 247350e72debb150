"""Commands that are shown can be pasted, whatever the user's files, columns and runs are called."""

import re
import shlex
from pathlib import Path

import pytest

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, ConfigError
from burnish.core.formatting import paid
from burnish.core.money import Spend
from burnish.datasets.formats import append_cases


def pasted(error: BurnishError) -> list[list[str]]:
    """The words that a shell makes of each command in the message."""
    return [shlex.split(each) for each in re.findall("`([^`]*)`", str(error))]


def table(folder: Path) -> Path:
    path = folder / "my questions.csv"
    path.write_text("Customer question,Right answer\nHow much?,5\nHow far?,7\n", encoding="utf-8")
    return path


def test_a_file_with_spaces(tmp_path: Path) -> None:
    path = table(tmp_path)
    with pytest.raises(ConfigError) as refused:
        append_cases(path, [Case.single("How old?", "9")])
    (command,) = pasted(refused.value)
    assert command[:3] == ["burnish", "data", "convert"]
    assert command[3] == str(path)


def test_what_a_stopped_run_has_paid_is_one_number() -> None:
    used, billed = Spend(calls=42), Spend(calls=46)
    assert paid(used, used=used).startswith("42 calls")
    words = paid(billed, used=used)
    assert re.findall(r"(\d+) calls", words) == ["46"]
    assert words.endswith(", with calls that were lost or not used")
