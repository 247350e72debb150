"""The live view on a real pseudo-terminal: nothing wraps, nothing tears, nothing is left over."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from burnish.testing.servers import HttpRequest, ScriptedServer
from tests.cli.console import SLOW, SMALL, START, finish, forked
from tests.cli.served_echo import hosted, role_of, served, serving
from tests.cli.terminal import Screen, on_terminal
from tests.projects.optimizer_world import KINDS, RULE, said_to, write_world, written_for

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
    assert re.search(r"sealed test .*16/16", plain)
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


HOLODECK = """\
name: filing-clerk
model:
  {provider: openai, name: m, endpoint: "%s", api_key: "${CLERK_KEY}", temperature: 0.9, top_p: 0.9}
instructions: {file: instructions/system-prompt.md}
evaluations:
  metrics:
    - {type: standard, metric: equality}
  optimizer:
    loss: {equality: 1.0}
    train_cases_file: train.yaml
    holdout_cases_file: holdout.yaml
    min_holdout_cases: 3
    axes:
      numeric:
        - {path: model.temperature, type: float, range: [0.0, 1.0]}
        - {path: model.top_p, type: float, range: [0.0, 1.0]}
        - {path: model.max_tokens, type: int, range: [500, 1500]}
      textual: [{path: instructions.inline, max_chars: 400}]
    max_cycles: 1
    numeric_phase: {max_trials: 2, patience: 2}
    textual_phase: {max_trials: 1, patience: 1}
"""


def test_an_agent_of_holodeck_on_a_terminal_of_80_columns(tmp_path: Path) -> None:
    """Named in the first line; every number of a point is shown; the prompt keeps its last line
    break although the applier drops it; cases without names are known by what they ask."""

    def answer(question: HttpRequest) -> str:
        messages = question.json["messages"]
        everything = "".join(each["content"] for each in messages)
        if (shape := role_of(everything)) in ("critic", "applier"):
            written = written_for(shape)
            if "new_text" in written:
                written["new_text"] = written["new_text"].rstrip("\n")
            return json.dumps(written)
        talk = [each["content"] for each in messages if each["role"] != "system"]
        return said_to(everything, talk, question.json.get("temperature", 0.0))

    (tmp_path / "instructions").mkdir()
    prompt = tmp_path / "instructions" / "system-prompt.md"
    prompt.write_text("Answer {question}.\n", encoding="utf-8")
    for name, word in (("train", "learned"), ("holdout", "held")):
        cases = [
            {"input": f"{kind} {word} {n}?", "ground_truth": f"{word}{n}"}
            for kind in KINDS
            for n in range(2)
        ]
        (tmp_path / f"{name}.yaml").write_text(json.dumps({"test_cases": cases}), encoding="utf-8")
    with hosted(ScriptedServer(answers=answer)) as url:
        (tmp_path / "agent.yaml").write_text(HOLODECK % url, encoding="utf-8")
        args = ("test", "optimize", "agent.yaml", "-o", "run")
        more: dict[str, Any] = {"start": START, "TERM": "dumb", "CLERK_KEY": "a-key-of-nobody"}
        code, written = on_terminal(*args, cwd=tmp_path, width=80, **more)
        assert code == 0, written
        cases = ("eval", "agent.yaml", "--cases", "holdout.yaml")
        _, measured = on_terminal(*cases, cwd=tmp_path, width=80, **more)
    lines = written.splitlines()
    assert lines[0].startswith("filing-clerk, openai:m")
    points = [line.strip() for line in lines if line.startswith("   max_tokens ")]
    assert len(points) == 2
    assert all(re.fullmatch(r"max_tokens \d+, temperature \S+, top_p \S+", each) for each in points)
    assert max(map(len, lines)) <= 80
    assert (tmp_path / "run" / "best-instructions.md").read_text().endswith(f"{RULE}.\n")
    assert prompt.read_text() == "Answer {question}.\n"
    assert re.search(r"rule held 0\? \([0-9a-f]{6}\)", measured)


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
