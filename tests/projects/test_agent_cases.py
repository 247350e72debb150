"""The cases of an agent file: its own in any format, or those that take their place."""

from pathlib import Path

import pytest

from burnish import Case, evaluate
from burnish.core.errors import ConfigError
from burnish.projects.dialects import Flags
from burnish.projects.evaluate_call import measurement_of
from burnish.projects.measurements import load_measurement
from tests.projects.graph.graph_world import write_world as write_graph

AGENT = """\
name: clerk
model: {provider: openai, name: m, api_key: "${CLERK_KEY}"}
instructions: {inline: Answer.}
evaluations: {metrics: [{type: standard, metric: equality}]}
"""
PYTHON = """\
kind: python
target: no_such_module:agent
cases: own.csv
metrics: [{type: standard, metric: equality}]
"""


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("CLERK_KEY", "sk-of-a-test-0123456789")


def agent_file(folder: Path, line: str) -> Path:
    path = folder / "agent.yaml"
    path.write_text(f"{AGENT}{line}\n", encoding="utf-8")
    return path


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path, flags: Flags) -> str:
    with pytest.raises(ConfigError) as error:
        load_measurement(path, flags)
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "text"),
    [("x.csv", "input,expected\nq,a\n"), ("x.jsonl", '{"input": "q", "expected": "a"}\n')],
)
def test_a_file_of_rows_is_the_same_in_the_file_and_as_a_flag(
    tmp_path: Path, name: str, text: str
) -> None:
    cases = put(tmp_path, name, text)
    named = load_measurement(agent_file(tmp_path, f"test_cases_file: {name}"), {})
    told = load_measurement(agent_file(tmp_path, ""), {"cases": str(cases)})
    assert named.cases == told.cases == (Case.single("q", "a"),)


@pytest.mark.parametrize(
    "line",
    [
        "test_cases_file: nowhere.yaml",
        "test_cases_file: broken.csv",
        "test_cases_file: table.xlsx",
        "test_cases: [{inptu: q}]",
    ],
)
def test_cases_of_its_own_that_do_not_count_are_not_read(tmp_path: Path, line: str) -> None:
    put(tmp_path, "broken.csv", 'input,expected\n"q,a\n')
    other = put(tmp_path, "other.csv", "input,expected\nq,a\n")
    path = agent_file(tmp_path, line)
    assert refusal(path, {})
    assert len(load_measurement(path, {"cases": str(other)}).cases) == 1
    listed = measurement_of(path, cases=[Case.single("p", "b")], metric=None)
    assert listed.cases == (Case.single("p", "b"),)


def test_a_file_of_another_kind_is_refused_where_it_is_named(tmp_path: Path) -> None:
    path = agent_file(tmp_path, "test_cases_file: table.xlsx")
    told = refusal(path, {})
    assert told.startswith(
        "agent.yaml test_cases_file: the name 'table.xlsx' does not tell the format"
    )
    assert ".csv" in told


@pytest.mark.parametrize(("name", "text"), [("none.csv", "input,expected\n"), ("none.yaml", "[]")])
def test_a_file_without_a_case_is_to_blame_itself(tmp_path: Path, name: str, text: str) -> None:
    none = put(tmp_path, name, text)
    put(tmp_path, "own.csv", "input,expected\nq,a\n")
    graph = tmp_path / "graph"
    graph.mkdir()
    for path in (
        agent_file(tmp_path, "test_cases_file: own.csv"),
        agent_file(tmp_path, ""),
        write_graph(graph),
        put(tmp_path, "own.yaml", PYTHON),
    ):
        told = refusal(path, {"cases": str(none)}).splitlines()
        assert f"{name}: the file has no cases — add one" in told[0] + told[-1]
        assert not any(line.startswith(path.name) and name in line for line in told)
    named = agent_file(tmp_path, f"test_cases_file: {name}")
    assert f"agent.yaml test_cases_file: {name}: there are no cases" in refusal(named, {})


def test_recorded_cases_that_are_none(tmp_path: Path) -> None:
    none = put(tmp_path, "none.csv", "input,expected\n")
    with pytest.raises(ConfigError, match=r"none\.csv: the file has no cases"):
        evaluate(none, cases=None, metric="equality")
