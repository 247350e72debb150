"""The live view on a real pseudo-terminal: nothing wraps, nothing tears, nothing is left over."""

import re
from pathlib import Path

import pytest

from tests.cli.console import SLOW, SMALL, child, finish
from tests.cli.terminal import Screen, on_terminal

pytestmark = pytest.mark.slow

LIMITS = """\
budget: {max_trials: 9, max_usd: 2.0, max_tokens: 900000, max_calls: 5000, max_minutes: 3}
"""


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_the_live_view_neither_wraps_nor_tears(tmp_path: Path, width: int) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW + LIMITS, encoding="utf-8")
    code, written = on_terminal("optimize", "slow.yaml", "-o", "run", cwd=tmp_path, width=width)
    assert code == 0
    plain = re.sub(r"\x1b\[[\d;]*m", "", written)
    for moving in ("starting · thinking", "cycle 1 · words · train", "best score ", "trials "):
        assert moving in plain
    assert re.search(r"sealed test .*8/8", plain)
    screen = Screen(width)
    running, mark, ending = written.partition("loss     train")
    screen.feed(running)
    assert screen.wrapped == []
    screen.feed(mark + ending)
    shown = [line for line in screen.lines if line]
    assert not [line for line in shown if "thinking" in line or "best score" in line]
    assert sum(line.startswith("[c1/") for line in shown) == 6
    assert shown[0].startswith("toy agent · climb")
    assert shown[-1] == "look     burnish runs show run"


def test_no_color_is_honoured(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    args = ("optimize", "toy.yaml", "--max-trials", "1")
    _, coloured = on_terminal(*args, cwd=tmp_path, width=80)
    _, plain = on_terminal(*args, cwd=tmp_path, width=80, NO_COLOR="1")
    assert "\x1b[32m" in coloured
    assert "\x1b[32m" not in plain
    assert "\x1b[36m" not in plain


def test_a_dumb_terminal_gets_lines(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    args = ("optimize", "toy.yaml", "--max-trials", "1")
    code, written = on_terminal(*args, cwd=tmp_path, width=80, TERM="dumb")
    assert code == 0
    assert "\x1b" not in written


def test_the_live_view_can_be_asked_for_without_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    said = finish(child("optimize", "toy.yaml", "--progress", "live", cwd=tmp_path))
    assert (said.code, said.err) == (0, "")
    assert "\x1b" not in said.out


def test_tables_fit_a_narrow_terminal(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    assert finish(child("optimize", "toy.yaml", "-q", cwd=tmp_path)).code == 0
    _, written = on_terminal("runs", "list", cwd=tmp_path, width=80)
    assert len(written.splitlines()) == 2
    run = written.splitlines()[1].split()[0]
    for args in (("list",), ("show", run, "--calls"), ("show", run), ("show", run, "--trial", "1")):
        _, written = on_terminal("runs", *args, cwd=tmp_path, width=80)
        screen = Screen(80)
        screen.feed(written)
        ours = [line for line in screen.wrapped if not line.startswith(("folder", "+You"))]
        assert ours == []
