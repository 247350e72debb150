"""Commands that are shown can be pasted, whatever the user's files, columns and runs are called."""

import re

from burnish.core.formatting import paid
from burnish.core.money import Spend


def test_what_a_stopped_run_has_paid_is_one_number() -> None:
    used, billed = Spend(calls=42), Spend(calls=46)
    assert paid(used, used=used).startswith("42 calls")
    words = paid(billed, used=used)
    assert re.findall(r"(\d+) calls", words) == ["46"]
    assert words.endswith(", with calls that were lost or not used")
