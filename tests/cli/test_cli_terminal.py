"""The live view on a real pseudo-terminal: nothing wraps, nothing tears, nothing is left over."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.console import SLOW, SMALL, START, finish, forked
from tests.cli.served_echo import served, serving
from tests.cli.terminal import Screen, on_terminal
from tests.projects.optimizer_world import write_world

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
    assert shown[-1] == "next     burnish runs show run"


def test_a_terminal_of_80_by_24_has_all_that_matters_in_view(tmp_path: Path) -> None:
    (tmp_path / "slow.yaml").write_text(SLOW + LIMITS, encoding="utf-8")
    args = ("optimize", "slow.yaml", "-o", "run")
    code, written = on_terminal(*args, cwd=tmp_path, width=80, height=24)
    assert code == 0
    screen = Screen(80)
    # The last panel that was drawn: the sealed test runs, and the search is over.
    colour = re.compile(r"\x1b\[[\d;]*m")
    panels = [found.end() for found in re.finditer(r"best score [^\r\n]*", written)]
    screen.feed(written[: panels[-1]])
    seen = [colour.sub("", line).rstrip() for line in screen.visible(24)]
    trials = [line for line in seen if line.startswith("[c1/")]
    assert len(trials) >= 3
    assert all(re.search(r"[✓✗] +\$\S+ +\d.*s$", line) for line in trials if "hold" in line)
    now, limits, spent = seen[-3:]
    assert "sealed test" in now
    assert "trials 67%" in limits
    assert re.fullmatch(r"best score [\d.]+  spent .+  time .+  left .+", spent)
    assert screen.wrapped == []


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
    first, second = written.splitlines()[:2]
    assert first == "toy agent · climb · train 6, holdout 4, test 4 cases"
    assert second.startswith("   about 10 calls · $")
    assert "Ctrl-C stops" in written


def test_lines_that_nobody_watches_say_what_it_may_cost_and_nothing_of_keys(
    tmp_path: Path,
) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    ended = finish(forked("optimize", "toy.yaml", "--max-trials", "1", cwd=tmp_path))
    assert ended.lines[1].startswith("   about 10 calls · $")
    assert "Ctrl-C" not in ended.out


def test_the_live_view_can_be_asked_for_without_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    said = finish(forked("optimize", "toy.yaml", "--progress", "live", cwd=tmp_path))
    assert (said.code, said.err) == (0, "")
    assert "\x1b" not in said.out


def test_tables_fit_a_narrow_terminal(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SMALL, encoding="utf-8")
    assert finish(forked("optimize", "toy.yaml", "-q", cwd=tmp_path)).code == 0
    _, written = on_terminal("runs", "list", cwd=tmp_path, width=80)
    assert len(written.splitlines()) == 2
    run = written.splitlines()[1].split()[0]
    for args in (("list",), ("show", run, "--calls"), ("show", run), ("show", run, "--trial", "1")):
        _, written = on_terminal("runs", *args, cwd=tmp_path, width=80)
        screen = Screen(80)
        screen.feed(written)
        ours = [line for line in screen.wrapped if not line.startswith(("folder", "+You"))]
        assert ours == []


IN_PYTHON = """
from pathlib import Path
from burnish.projects.launch import launch
from burnish.projects.measurements import load_measurement
from burnish.runs.setup import start

measurement = load_measurement(Path("agent.yaml"), {"cases": "train.yaml"})
launch(lambda: start(measurement.setup, folder=Path("run")))
print("measured", len(measurement.cases), "cases")
"""
OWN_AGENT = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(custom_output_text="yes"), name="mine")

async def call_agent(query: str) -> str:
    return (await agent.run(query)).output
"""
OWN_FILE = {
    "kind": "python",
    "target": "own_agent:call_agent",
    "cases": "cases.json",
    "metrics": [{"type": "standard", "metric": "equality"}],
}


def advertised(written: str) -> list[str]:
    """What the terminal says of other people's programs."""
    return [line for line in written.splitlines() if "pydantic" in line or "observability" in line]


@pytest.mark.parametrize("start", [START, IN_PYTHON], ids=["command line", "Python"])
def test_a_terminal_shows_what_is_ours_and_no_banner_of_a_library(
    tmp_path: Path, start: str
) -> None:
    with serving([]) as url:
        write_world(tmp_path, served(url))
        args = () if start is IN_PYTHON else ("eval", "agent.yaml", "--cases", "train.yaml")
        _, written = on_terminal(
            *args, cwd=tmp_path, width=120, start=start, ECHO_KEY="sk-of-a-test"
        )
    assert "6 cases" in written or "of 6" in written, written
    assert advertised(written) == []


def test_an_agent_of_the_users_own_is_quiet_too(tmp_path: Path) -> None:
    (tmp_path / "own_agent.py").write_text(OWN_AGENT, encoding="utf-8")
    cases = [{"input": "Is it?", "expected": "yes"}]
    (tmp_path / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    (tmp_path / "own.yaml").write_text(json.dumps(OWN_FILE), encoding="utf-8")
    code, written = on_terminal("eval", "own.yaml", cwd=tmp_path, width=120, start=START)
    assert code == 0, written
    assert advertised(written) == []


@pytest.mark.parametrize(("value", "in_force"), [(None, "1"), ("0", "0"), ("", "")])
def test_a_banner_that_somebody_has_set_stays_as_it_is(
    tmp_path: Path, value: str | None, in_force: str
) -> None:
    start = "import burnish, os; print([os.environ['PYDANTIC_AI_NO_BANNER']])"
    env = {} if value is None else {"PYDANTIC_AI_NO_BANNER": value}
    _, written = on_terminal(cwd=tmp_path, width=80, height=40, start=start, **env)
    assert written.strip() == f"['{in_force}']"
