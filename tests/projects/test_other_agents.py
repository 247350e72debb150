"""Project files of agents that are called: measured, resumed, and everything wrong said at once."""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.evaluations import Evaluation
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.projects.description import describe
from burnish.projects.dialects import Document, Flags
from burnish.projects.launch import launch_in
from burnish.projects.measurements import PreparedMeasurement, load_measurement
from burnish.system.processes import process_entry
from burnish.testing import ScriptedBackend
from tests.example_copies import copy_example
from tests.targets.calling_agents import endpoint

AGENT = """
calls = []

async def call_agent(query):
    with open(__file__ + ".calls", "a") as count:
        count.write(query + chr(10))
    if query == "crash":
        raise ValueError("no such thing")
    if query == "away":
        raise ConnectionError("nobody home")
    return query.upper()
"""
CASES = [
    {"name": "one", "input": "yes", "expected": "YES"},
    {"name": "two", "input": "no", "expected": "NEIN"},
    {"name": "three", "input": "crash", "expected": "x"},
    {"name": "four", "input": "away", "expected": "x"},
]
METRICS = "metrics: [{type: standard, metric: equality}]\n"


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    path = list(sys.path)
    yield
    sys.path[:] = path
    sys.modules.pop("own_agent", None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own_agent.py").write_text(AGENT, encoding="utf-8")
    write_cases(tmp_path, CASES)
    return tmp_path


def write_cases(folder: Path, cases: list[dict[str, Any]]) -> None:
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    (folder / "cases.jsonl").write_text(lines, encoding="utf-8")


def prepared(
    folder: Path, text: str, flags: Flags | None = None, models: Models | None = None
) -> PreparedMeasurement:
    path = folder / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    return load_measurement(path, flags or {}, models=models)


def measured(measurement: PreparedMeasurement, folder: Path) -> Evaluation:
    launch_in(measurement.setup, folder)
    assert measurement.evaluation is not None
    return measurement.evaluation


def calls(folder: Path) -> list[str]:
    return (folder / "own_agent.py.calls").read_text(encoding="utf-8").split()


PYTHON = f"kind: python\ntarget: own_agent:call_agent\ncases: cases.jsonl\n{METRICS}"


def test_a_python_agent_is_measured_and_failures_are_told_apart(folder: Path) -> None:
    measurement = prepared(folder, f"{PYTHON}retry: {{attempts: 2, first_wait: 0}}\n")
    found = measured(measurement, folder / "run")
    assert {r.case: r.value("equality") for r in found.results} == {
        "one": 1.0, "two": 0.0, "three": 0.0, "four": None,
    }  # fmt: skip
    (crash,) = found.of_case("three")
    assert crash.scores[0].reason == "ValueError: no such thing"
    assert sorted(calls(folder)) == ["away", "away", "crash", "no", "yes"]
    assert (measurement.measure.subject, measurement.root) == ("agent", folder / "results" / "eval")


def test_a_resume_pays_nothing_twice(folder: Path) -> None:
    first = measured(prepared(folder, PYTHON), folder / "run")
    paid = calls(folder)
    again = measured(prepared(folder, PYTHON), folder / "run")
    assert calls(folder) == paid
    assert again == first


def test_what_the_command_line_says_is_stronger(folder: Path) -> None:
    other = folder / "few.jsonl"
    other.write_text('{"input": "oh", "expected": "OH"}\n', encoding="utf-8")
    text = f"{PYTHON}repeats: 5\nconcurrency: 2\nseed: 7\ntime_limit: 9\n"
    flags: Flags = {"cases": str(other), "repeats": 2, "concurrency": 3}
    setup = prepared(folder, text, flags).setup
    assert (len(setup.dataset.train), setup.concurrency, setup.seed) == (1, 3, 7)
    assert setup.case_policy.time_limit == 9
    plain = prepared(folder, text)
    assert (plain.measure.repeats, plain.setup.concurrency) == (5, 2)
    assert prepared(folder, text, flags).measure.repeats == 2


def test_metrics_by_name_and_from_a_file(folder: Path) -> None:
    metrics = "[{type: standard, metric: equality}, {type: standard, metric: rouge}]"
    (folder / "metrics.yaml").write_text(metrics, encoding="utf-8")
    text = PYTHON.replace(METRICS, "metrics_file: metrics.yaml\n")
    assert [m.name for m in prepared(folder, text).setup.metrics] == ["equality", "rouge"]
    some = prepared(folder, text, {"metric": ["rouge"]})
    assert [m.name for m in some.setup.metrics] == ["rouge"]
    file: Flags = {"metrics": str(folder / "metrics.yaml")}
    assert len(prepared(folder, PYTHON, file).setup.metrics) == 2


def test_an_agent_without_memory_is_said_to_have_none(folder: Path) -> None:
    write_cases(
        folder,
        [
            {
                "name": "talk",
                "turns": [{"input": "a", "expected_tools": ["add"]}, {"input": "b"}],
                "history": [{"role": "user", "content": "before"}],
            }
        ],
    )
    notes = " / ".join(prepared(folder, PYTHON).setup.notes)
    assert "has no memory, but there is 1 case of several turns" in notes
    assert "1 case starts in the middle of a conversation" in notes
    assert "1 case expects tools" in notes
    assert "US dollars do not include it" in notes
    source = "def call_agent(query, history=()):\n    return query\n"
    (folder / "remembering.py").write_text(source, encoding="utf-8")
    told = "target: {call: remembering:call_agent, usd_per_call: 0}"
    kept = PYTHON.replace("target: own_agent:call_agent", told)
    assert "memory" not in " / ".join(prepared(folder, kept).setup.notes)
    assert "US dollars" not in " / ".join(prepared(folder, kept).setup.notes)


def test_everything_wrong_is_said_at_once_with_its_line(folder: Path) -> None:
    text = (
        "kind: http\n"
        "target:\n"
        "  url: nowhere\n"
        "  headers:\n"
        "    X-Api-Key: abcdef\n"
        "  body: {q: '{{question}}'}\n"
        "cases: gone.jsonl\n"
        "metrics:\n"
        "  - {type: code, grader: 'no_such_module:grade'}\n"
        "  - {metric_name: tool_trajectory_avg_score}\n"
        "  - {type: geval, name: nice, criteria: be nice}\n"
    )
    with pytest.raises(ConfigError) as raised:
        prepared(folder, text)
    told = str(raised.value)
    for words in (
        "agent.yaml:3 target.url: 'nowhere' is not a web address",
        "agent.yaml:5 target.headers.X-Api-Key: this looks like a secret",
        "agent.yaml:6 target.body: unknown placeholder {{question}}",
        "agent.yaml:7 cases",
        "gone.jsonl: it does not exist",
        "agent.yaml:8 metrics: grader no_such_module:grade: importing it raised",
        "agent.yaml:8 metrics: nice: this metric needs a judge",
        "tool_trajectory_avg_score needs the tools an agent used",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: python\ntarget: own_agent\n", "target: agent own_agent: not of the form"),
        ("kind: python\ntarget: own_agent:call_agent\n", "agent.yaml cases: there are no cases"),
        (f"kind: python\ncases: cases.jsonl\n{METRICS}", "target"),
        (PYTHON.replace(METRICS, ""), "agent.yaml metrics: there are no metrics"),
        (PYTHON + "metrics_file: m.yaml\n", "give metrics or metrics_file, not both"),
        (PYTHON + "repeat: 2\n", "did you mean 'repeats'?"),
        (PYTHON + "user_simulator: anthropic:m\n", ""),
        (PYTHON + "user_simulator: nobody:m\n", "user_simulator: nobody:m: not a reference"),
        (PYTHON.replace("own_agent:call_agent", "{call: a:b, timeout: 3}"), "unknown key"),
        (f"kind: command\ntarget: []\ncases: cases.jsonl\n{METRICS}", "target"),
        (f"kind: command\ntarget: [no-such-program]\ncases: cases.jsonl\n{METRICS}",
         "agent.yaml:2 target.command: there is no program 'no-such-program'"),
    ],
)  # fmt: skip
def test_one_thing_that_is_wrong(folder: Path, text: str, words: str) -> None:
    if not words:
        prepared(folder, text)  # nobody plays a user here, so nobody is asked for
        return
    with pytest.raises(ConfigError) as raised:
        prepared(folder, text)
    assert words in str(raised.value)


def test_an_empty_file_of_cases_is_said(folder: Path) -> None:
    (folder / "cases.csv").write_text("input,expected\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cases: .*cases\.csv: the file has no cases"):
        prepared(folder, PYTHON.replace("cases.jsonl", "cases.csv"))


def test_a_command_is_measured_from_the_folder_of_its_file(folder: Path) -> None:
    write_cases(folder, CASES[:2])
    (folder / "work").mkdir()
    (folder / "work" / "upper.py").write_text("print(input().upper())", encoding="utf-8")
    text = (
        "kind: command\nname: upper\n"
        f"target: {{command: [{sys.executable}, upper.py], cwd: work}}\n"
        f"cases: cases.jsonl\n{METRICS}"
    )
    measurement = prepared(folder, text)
    found = measured(measurement, folder / "run")
    assert [r.outcome.output for r in found.results] == ["YES", "NO"]
    assert measurement.measure.subject == "upper"


def test_an_endpoint_is_measured(folder: Path) -> None:
    write_cases(folder, CASES[:2])

    async def served() -> Evaluation:
        async with endpoint((503, "busy"), (200, {"reply": {"text": "YES"}})) as here:
            text = (
                f"kind: http\ntarget: {{url: '{here.url}', response_path: reply.text}}\n"
                f"cases: cases.jsonl\nconcurrency: 1\nretry: {{attempts: 2, first_wait: 0}}\n"
                f"{METRICS}"
            )
            return await asyncio.to_thread(measured, prepared(folder, text), folder / "run")

    found = asyncio.run(served())
    assert [r.value("equality") for r in found.results] == [1.0, 0.0]


SLOW_ONCE = """
import os, pathlib, sys, time
query = sys.stdin.read()
with open("calls", "a") as count:
    count.write(query + chr(10))
if query == "slow" and not os.path.exists("begun"):
    pathlib.Path("begun").write_text(str(os.getpid()))
    time.sleep(3600)
print(query.upper())
"""
DRIVER = """
import sys; from pathlib import Path
from burnish.projects.launch import launch_in
from burnish.projects.measurements import load_measurement
path = Path(sys.argv[1])
setup = load_measurement(path, {}).setup
launch_in(setup, path.parent / "run")
"""


@pytest.mark.crash
def test_killed_in_the_middle_it_goes_on_and_leaves_no_process(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(SLOW_ONCE, encoding="utf-8")
    write_cases(tmp_path, [{"input": each, "expected": each.upper()} for each in ("fast", "slow")])
    text = (
        f"kind: command\ntarget: [{sys.executable}, -S, agent.py]\ncases: cases.jsonl\n"
        f"concurrency: 1\n{METRICS}"
    )
    path = tmp_path / "agent.yaml"
    path.write_text(text, encoding="utf-8")
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(path)])
    begun, limit = tmp_path / "begun", time.monotonic() + 120
    while not (begun.exists() and begun.read_text()) and time.monotonic() < limit:
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    found = measured(prepared(tmp_path, text), tmp_path / "run")
    assert [r.outcome.output for r in found.results] == ["FAST", "SLOW"]
    assert (tmp_path / "calls").read_text().split() == ["fast", "slow", "slow"]
    left = process_entry(int(begun.read_text()))
    assert left is None or not left.is_running


# -- scenarios -------------------------------------------------------------------------------

SCENARIO: dict[str, Any] = {
    "name": "trip",
    "input": "hello",
    "scenario": {"plan": "Ask for Oslo, then be content.", "max_turns": 3},
}


def play(request: ChatRequest, draw: int) -> str:
    over = "agent: OSLO" in request.messages[-1].content
    return json.dumps({"thought": "t", "done": over, "remark": "" if over else "Oslo"})


def test_a_scenario_needs_a_user_simulator(folder: Path) -> None:
    write_cases(folder, [SCENARIO])
    with pytest.raises(ConfigError, match=r"trip: this case is a scenario.*user_simulator"):
        prepared(folder, PYTHON)


def test_a_scenario_is_played_and_a_resume_asks_nobody(folder: Path) -> None:
    write_cases(folder, [SCENARIO])
    text = PYTHON.replace(METRICS, "metrics: [{type: code, grader: 'own_grader:grade'}]\n")
    (folder / "own_grader.py").write_text("def grade(ctx):\n    return True\n", encoding="utf-8")
    text += "user_simulator: openai:m\n"
    first = ScriptedBackend(respond=play)
    models = Models(backends={"openai": first})
    found = measured(prepared(folder, text, models=models), folder / "run")
    assert found.results[0].outcome.asked == ("hello", "Oslo")
    assert (len(first.asked), calls(folder)) == (2, ["hello", "Oslo"])
    silent = ScriptedBackend(respond=play)
    models = Models(backends={"openai": silent})
    assert measured(prepared(folder, text, models=models), folder / "run") == found
    assert (silent.asked, len(calls(folder))) == ([], 2)


def test_dollars_cannot_be_limited_where_the_player_has_no_price(folder: Path) -> None:
    write_cases(folder, [SCENARIO])
    text = f"{PYTHON}user_simulator: 'openai:unheard-of'\nbudget: {{max_usd: 1}}\n"
    models = Models(backends={"openai": ScriptedBackend(respond=play)})
    with pytest.raises(ConfigError, match="the price of openai:unheard-of is unknown"):
        prepared(folder, text, models=models)


# -- the example and the page ----------------------------------------------------------------

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("file", "failing"), [("agent", ["several"]), ("command", ["several", "them"])]
)
def test_the_example_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, failing: list[str]
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    home = copy_example("any_agent", tmp_path / "any_agent")
    path = home / f"{file}.yaml"
    measurement = load_measurement(path, {})
    found = measured(measurement, tmp_path / "run")
    sys.modules.pop("shop", None)
    assert [r.case for r in found.results if r.passed(["equality"]) is not True] == failing
    told = "has no memory" in " ".join(measurement.setup.notes)
    assert told is (file == "command")


def test_the_files_that_the_page_shows_are_project_files(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "any-agent.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    assert len(shown) == 3
    for text in shown:
        file = tmp_path / "shown.yaml"
        file.write_text(text, encoding="utf-8")
        describe(Document.read(file), {"strategy": "measure"})
