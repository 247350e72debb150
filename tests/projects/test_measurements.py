"""Measurements of any file: what flags and limits mean, what run.json keeps, how they go on."""

import json
import sys
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError, ResumeRefused
from burnish.projects.dialects import Flags
from burnish.projects.measurements import (
    PreparedMeasurement,
    load_measurement,
    measure,
    measurement_for,
    measuring_flags,
)
from burnish.reports.evaluation import EvalReport
from burnish.runs.directory import Header

pytestmark = pytest.mark.usefixtures("toy_plugin")

AGENT = """
from pathlib import Path

def call_agent(query):
    return Path("prompt.md").read_text().strip() + query
"""
PYTHON = """\
kind: python
name: shouter
target: shouting:call_agent
cases: cases.jsonl
metrics: [{type: standard, metric: equality}, {type: standard, metric: rouge}]
"""
PROMPTS = """\
kind: prompts
target: {python: shouting:call_agent}
prompts: {system: prompt.md}
isolation: source
train: cases.jsonl
metrics: [{type: standard, metric: equality}]
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "shouting", raising=False)
    (tmp_path / "shouting.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "prompt.md").write_text("oh ", encoding="utf-8")
    cases(tmp_path / "cases.jsonl", "yes", "no")
    cases(tmp_path / "other.jsonl", "maybe")


def cases(path: Path, *inputs: str) -> None:
    rows = [{"name": each, "input": each, "expected": f"oh{each}"} for each in inputs]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def loaded(text: str, flags: Flags | None = None, **environ: str) -> PreparedMeasurement:
    path = Path("agent.yaml")
    path.write_text(text, encoding="utf-8")
    return load_measurement(path, flags or {}, environ=environ)


def refused(text: str, flags: Flags | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        loaded(text, flags)
    return str(error.value)


def test_every_flag_is_a_patch_on_the_description() -> None:
    flags: Flags = {
        "cases": "other.jsonl",
        "metric": ["rouge"],
        "judge": "openai:gpt-4o",
        "repeats": 3,
        "concurrency": 2,
        "seed": 7,
        "max_calls": 9,
    }
    measurement = loaded(PYTHON, flags)
    setup, spec = measurement.setup, measurement.spec
    assert spec is not None
    assert [case.id for case in measurement.cases] == ["maybe"]
    assert [metric.name for metric in setup.metrics] == ["rouge"]
    assert (measurement.measure.repeats, setup.concurrency, setup.seed) == (3, 2, 7)
    assert setup.budget.max_calls == 9
    assert spec.metrics.judge is not None
    assert spec.metrics.judge.reference().label == "openai:gpt-4o"
    names = [field.name for field, _ in measuring_flags(spec)]
    assert names == [
        "cases", "metric", "judge", "repeats", "max_calls", "seed", "concurrency",
    ]  # fmt: skip


def test_limits_of_the_file_and_of_the_environment_hold() -> None:
    text = f"{PYTHON}budget: {{max_calls: 5}}\n"
    assert loaded(text).setup.budget.max_calls == 5
    assert loaded(text, {"max_calls": 3}).setup.budget.max_calls == 3
    budget = loaded(text, BURNISH_MAX_CALLS="1", BURNISH_MAX_MINUTES="2").setup.budget
    assert (budget.max_calls, budget.max_minutes) == (5, 2)


def test_it_goes_on_from_what_run_json_says_alone(tmp_path: Path) -> None:
    first = measure(loaded(PYTHON, {"cases": "other.jsonl"}), folder=tmp_path / "run")
    assert first.report is not None
    header = Header.read(tmp_path / "run")
    assert (header.strategy, header.project.kind) == ("measure", "python")
    assert header.project.spec["data"] == {"cases": [{"file": "other.jsonl"}]}
    Path("agent.yaml").write_text("kind: nothing at all", encoding="utf-8")
    with pytest.raises(ResumeRefused, match="kind: 'python' → 'nothing at all'"):
        measurement_for(Path("agent.yaml"), {}, resume=tmp_path / "run")
    Path("agent.yaml").unlink()
    again = measurement_for(Path("agent.yaml"), {"concurrency": 1}, resume=tmp_path / "run")
    second = measure(again, resumed=tmp_path / "run").report
    assert second is not None
    assert second == EvalReport.read(tmp_path / "run")
    assert second.cases == first.report.cases
    assert first.report.about.agent == "shouter"


def test_the_prompts_of_an_agent_are_measured_as_they_stand() -> None:
    measurement = loaded(PROMPTS)
    report = measure(measurement, folder=Path("run")).report
    assert report is not None
    assert report.ok
    assert Path("prompt.md").read_text(encoding="utf-8") == "oh "
    assert [case.id for case in loaded(PROMPTS, {"cases": "other.jsonl"}).cases] == ["maybe"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: toy\n", "agent.yaml: files of the kind 'toy' cannot be measured on their own"),
        ("artifacts: {include: [a]}\nscorer: {}\n", "burnish optimize agent.yaml --print-baseline"),
        ("kind: pyton\n", "agent.yaml:1 kind: unknown kind 'pyton' — did you mean 'python'?"),
        (PROMPTS.replace("train: cases.jsonl\n", ""), "agent.yaml train: there are no cases"),
    ],
)
def test_what_is_not_measured_says_what_to_do(text: str, words: str) -> None:
    assert words in refused(text)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"max_trials": 3}, "--max-trials: 'measure' over 'python' does not use it"),
        ({"holdout": "cases.jsonl"}, "it is for a run that searches"),
        ({"metric": ["rogue"]}, "--metric: rogue: no such metric — did you mean 'rouge'?"),
        ({"repeats": 0}, "--repeats: expected at least 1, found 0"),
        ({"judge": "nobody"}, "--judge"),
        ({"cases": "gone.jsonl"}, "--cases: "),
    ],
)
def test_a_wrong_flag_is_named(flags: Flags, words: str) -> None:
    assert words in refused(PYTHON, flags)


OWN_METRICS = "    evaluations: [{type: standard, metric: equality}]\n"


@pytest.mark.parametrize(
    ("case", "metrics"),
    [
        ("    expected_tools: []\n", ["expected_tools"]),
        ("    turns: [{input: hm, expected_tools: [{name: search}]}]\n", ["expected_tools"]),
        (OWN_METRICS, ["equality"]),
        (f"    expected_tools: []\n{OWN_METRICS}", ["equality", "expected_tools"]),
        ("", ["answered"]),
    ],
)
def test_an_agent_without_metrics_is_measured_by_what_its_cases_bring(
    tmp_path: Path, case: str, metrics: list[str]
) -> None:
    path = tmp_path / "agent.yaml"
    asked = "" if "turns" in case else "    input: hm\n    ground_truth: x\n"
    path.write_text(
        "name: clerk\nmodel: {provider: ollama, name: m}\ninstructions: {inline: Hello.}\n"
        f"test_cases:\n  - name: one\n{asked}{case}",
        encoding="utf-8",
    )
    assert [each.name for each in load_measurement(path, {}).setup.metrics] == metrics


@pytest.mark.parametrize("path", ["/total", "a[*]"])
def test_a_path_that_nobody_can_read_is_refused_before_anything_runs(
    tmp_path: Path, path: str
) -> None:
    metrics = f"metrics: [{{type: standard, metric: equality, response_path: '{path}'}}]"
    text = PYTHON.replace(PYTHON.splitlines()[-1], metrics)
    (tmp_path / "agent.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="is not a path: write it like") as failed:
        load_measurement(tmp_path / "agent.yaml", {})
    assert "response_path" in str(failed.value)
