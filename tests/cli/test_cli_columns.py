"""Every door reads a table with names of its own to the same cases, and says what it took."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish import Case, evaluate
from burnish.datasets.columns import cases_of_rows
from burnish.datasets.formats import read_cases
from burnish.projects.launch import load_project
from burnish.projects.measurements import load_measurement
from burnish.runs.directory import RunRecord
from burnish.server.runs import Datasets
from tests.cli.console import Burnish, refused

QUEUES = ("billing", "delivery", "returns")
OBJECTS = ("parcel", "invoice", "jacket", "lamp", "voucher", "refund", "chair")
WHERE = ("Berlin", "Lima", "Oslo", "Accra", "Hanoi", "Quito", "Turin", "Lagos", "Perth")
ROWS: list[dict[str, Any]] = [
    {
        "Ticket No": number,
        "Message body": f"{OBJECTS[number % 7]} for {WHERE[number % 9]} has gone, what now?",
        "Queue": QUEUES[number % 3],
    }
    for number in range(48)
]
RENAMED = {"Ticket No": "Nummer", "Message body": "Was geschah", "Queue": "wohin"}
"""Names in another language, with nothing but values to go by."""
ODD: list[dict[str, Any]] = [
    {"Ticket #": f"T-{number}", "Notes of the agent": f"{WHERE[number % 9]} called twice today",
     "what": OBJECTS[number % 7], "Team": QUEUES[number % 3],
     "Received": f"2026-03-{number % 28 + 1:02d}"}
    for number in range(48)
]  # fmt: skip
"""The question is a column that nobody would take."""
TABLES: dict[str, tuple[list[dict[str, Any]], dict[str, str]]] = {
    "tickets": (ROWS, {}),
    "renamed": ([{RENAMED[key]: value for key, value in row.items()} for row in ROWS], {}),
    "odd": (ODD, {"input": "what", "expected": "Team"}),
}
FORMATS = ("csv", "jsonl", "json")
PYTHON = "kind: python\ntarget: desk:answer\nmetrics: [{type: standard, metric: equality}]\n"
FRAMEWORK = "kind: framework\ntarget: desk:agent\nreflector: openai:writer\n"
DESK = """\
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

agent = Agent(TestModel(), instructions="Sort it.")


def answer(query):
    return "billing"
"""


def table(folder: Path, name: str, ending: str) -> Path:
    rows = TABLES[name][0]
    path = folder / f"{name}.{ending}"
    if ending == "csv":
        text = io.StringIO()
        lines = csv.DictWriter(text, list(rows[0]))
        lines.writeheader()
        lines.writerows(rows)
        path.write_text(text.getvalue(), encoding="utf-8")
    else:
        lines = map(json.dumps, rows)
        path.write_text("\n".join(lines) if ending == "jsonl" else json.dumps(rows))
    return path


Cases = dict[str, tuple[str, str | None, dict[str, Any]]]


def seen(cases: Iterable[Case]) -> Cases:
    """What an agent and a grader see of each case, by its name."""
    return {each.id: (each.input, each.expected, dict(each.turns[0].settings)) for each in cases}


def by_init(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    flags = [word for name, value in columns.items() for word in (f"--{name}", value)]
    made = burnish(
        "init", "--yes", "--cases", path.name, "--folder", "made", "--model", "ollama:m", *flags
    )
    assert made.code == 0, made
    files = ("train", "holdout", "test")
    return seen(
        case for name in files for case in read_cases(Path(f"made/cases/{name}.jsonl")).cases
    )


def by_eval(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    flags: dict[str, Any] = {"cases": str(path), **columns}
    return seen(load_measurement(Path("python.yaml"), flags).cases)


def by_key(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    lines = {"cases": path.name, **columns}
    keys = "".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items())
    Path("keyed.yaml").write_text(PYTHON + keys, encoding="utf-8")
    return seen(load_measurement(Path("keyed.yaml"), {}).cases)


def by_agent_file(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    text = (
        "name: a\nmodel: {provider: ollama, name: m}\ninstructions: {inline: Sort.}\n"
        "evaluations: {metrics: [{type: standard, metric: equality}]}\n"
    )
    Path("agent.yaml").write_text(f"{text}test_cases_file: {path.name}\n", encoding="utf-8")
    return seen(load_measurement(Path("agent.yaml"), {**columns}).cases)


def by_optimize(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    flags: dict[str, Any] = {"cases": str(path), **columns}
    data = load_project(Path("framework.yaml"), flags).setup.dataset
    return seen([*data.train, *data.holdout, *data.test])


def billing(query: str) -> str:
    del query
    return "billing"


def by_python(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    return seen(evaluate(billing, cases=path, metric=["equality"], **columns).cases)


def by_rows(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    del burnish
    rows = iter(TABLES[path.stem][0])
    return seen(evaluate(billing, cases=rows, metric=["equality"], **columns).cases)


def by_data(burnish: Burnish, path: Path, columns: dict[str, Any]) -> Cases:
    flags = [word for name, value in columns.items() for word in (f"--{name}", value)]
    assert burnish("data", "convert", path.name, "converted.jsonl", *flags).code == 0
    return seen(read_cases(Path("converted.jsonl")).cases)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567890abcdef")
    (tmp_path / "desk.py").write_text(DESK, encoding="utf-8")
    (tmp_path / "python.yaml").write_text(PYTHON, encoding="utf-8")
    (tmp_path / "framework.yaml").write_text(FRAMEWORK, encoding="utf-8")
    return tmp_path


DOORS = (by_init, by_eval, by_key, by_agent_file, by_optimize, by_python, by_rows, by_data)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_every_door_reads_the_same_cases(
    burnish: Burnish,
    project: Path,
    name: str,
    door: Callable[[Burnish, Path, dict[str, Any]], Cases],
) -> None:
    rows, columns = TABLES[name]
    expected = seen(cases_of_rows(rows, **columns).cases)
    first = next(iter(expected.values()))
    assert first[:2] == (rows[0]["what" if name == "odd" else [*rows[0]][1]], "billing")
    assert [*expected][:2] == (["T-0", "T-1"] if name == "odd" else ["0", "1"])
    assert door(burnish, table(project, name, "csv"), columns) == expected


@pytest.mark.parametrize("ending", FORMATS)
@pytest.mark.parametrize("name", TABLES)
def test_every_format_holds_the_same_cases(project: Path, name: str, ending: str) -> None:
    rows, columns = TABLES[name]
    file = read_cases(table(project, name, ending), **columns)
    assert seen(file.cases) == seen(cases_of_rows(rows, **columns).cases)


SAMPLES = (
    'input = "Message body" ("parcel for Berlin has g…"),',
    'expected = "Queue" ("billing"), name = "Ticket No" ("0")',
)


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "python.yaml", "--cases", "tickets.csv", "--dry-run"),
        ("eval", "python.yaml", "--cases", "tickets.csv", "--progress", "lines"),
        ("optimize", "framework.yaml", "--cases", "tickets.csv", "--dry-run"),
        ("data", "split", "tickets.csv", "-o", "parts"),
        ("data", "check", "tickets.csv"),
        ("init", "--yes", "--cases", "tickets.csv", "--folder", "made", "--model", "ollama:m"),
    ],
)
def test_a_sample_of_what_was_taken_is_shown(
    burnish: Burnish, project: Path, command: tuple[str, ...]
) -> None:
    table(project, "tickets", "csv")
    said = burnish(*command)
    lines = [line.strip() for line in (said.out + said.err).splitlines()]
    place = lines.index(SAMPLES[0])
    assert lines[place + 1] == SAMPLES[1]
    assert all(len(line) <= 80 for line in (said.out + said.err).splitlines() if "= " in line)


def test_usual_names_need_no_word(burnish: Burnish, project: Path) -> None:
    rows = [{"id": f"c{n}", "question": f"where is {n}?", "answer": "here"} for n in range(3)]
    (project / "usual.jsonl").write_text("\n".join(map(json.dumps, rows)))
    said = burnish("eval", "python.yaml", "--cases", "usual.jsonl", "--dry-run")
    assert "columns" not in said.out


@pytest.mark.parametrize(
    "command",
    [
        ("eval", "python.yaml", "--dry-run"),
        ("optimize", "framework.yaml", "--dry-run"),
        ("data", "check"),
        ("init", "--yes", "--folder", "made", "--model", "ollama:m"),
    ],
)
def test_a_table_without_a_question_says_what_there_is(
    burnish: Burnish, project: Path, command: tuple[str, ...]
) -> None:
    (project / "numbers.csv").write_text("Nr,Day\n0,2026-01-01\n1,2026-01-02\n", encoding="utf-8")
    cases = ("numbers.csv",) if command[0] == "data" else ("--cases", "numbers.csv")
    said = burnish(*command, *cases)
    assert said.code == (3 if command[0] == "eval" else 1)
    words = ("no column is plainly the question", "--input COLUMN", "'Nr' (0), 'Day' (2026-01-01)")
    refused(replace(said, code=1), *words)


def test_the_id_of_a_case_names_it_in_reports(burnish: Burnish, project: Path) -> None:
    table(project, "odd", "csv")
    said = burnish(
        "eval", "python.yaml", "--cases", "odd.csv", "--input", "what", "--json", "r.json"
    )
    assert said.code == 1
    rows = json.loads((project / "r.json").read_text())["cases"]
    assert {row["case"] for row in rows} == {row["Ticket #"] for row in ODD}
    assert "✗ T-1" in said.out


def test_a_run_with_named_columns_is_resumed_without_them(burnish: Burnish, project: Path) -> None:
    table(project, "odd", "csv")
    flags = ("--cases", "odd.csv", "--input", "what", "--expected", "Team")
    said = burnish("eval", "python.yaml", *flags, "--max-metric-calls", "10", "-o", "run", "-q")
    assert said.code == 1
    again = burnish("eval", "python.yaml", "--resume", "run", "--max-metric-calls", "100")
    assert "spent    48 calls" in again.out
    run = RunRecord.read(project / "run")
    data = run.header.project.spec["data"]
    assert isinstance(data, dict)
    assert (data["input"], data["expected"]) == ("what", "Team")
    assert "--input what --expected Team" in again.out


def test_a_client_sends_a_table(tmp_path: Path) -> None:
    rows, _ = TABLES["tickets"]
    datasets = Datasets(folder=tmp_path / "datasets")
    content = table(tmp_path, "tickets", "csv").read_bytes()
    stored = datasets.write("tickets.csv", content)
    assert str(stored.columns) == "input = Message body, expected = Queue, name = Ticket No"
    assert seen(stored.cases) == seen(cases_of_rows(rows).cases)
    assert datasets.read("tickets.csv").cases == stored.cases
    assert datasets.path("tickets.csv").read_text().startswith("name,input,expected\n")
