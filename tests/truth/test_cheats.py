"""No cheat is accepted or offered."""

from pathlib import Path

import pytest
from benchmarks.truth.cheats import Cheat, all_cheats


@pytest.mark.parametrize("cheat", all_cheats(), ids=lambda cheat: cheat.name)
def test_a_cheat_is_neither_accepted_nor_offered(cheat: Cheat, tmp_path: Path) -> None:
    attempt = cheat.play(tmp_path)
    assert not attempt.accepted, attempt.reason
    assert not attempt.offered, attempt.reason
