"""Grids: which columns the axes make, what each of them pays, what fails alone, what is refused."""

import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from burnish.core.errors import ConfigError, ResumeRefused
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.dialects import Flags
from burnish.projects.grid_axes import GridAxes, named_candidate, split_assignments
from burnish.projects.grids import (
    MeasuredGrid,
    PreparedGrid,
    find_grid,
    fork_of,
    load_grid,
    make_grid_folder,
    measure_grid,
)
from burnish.projects.measurements import Forked, measurement_doors
from burnish.runs.directory import Header
from burnish.testing.doubles import ScriptedBackend

AGENT = """\
name: clerk
model: {provider: openai, name: good, temperature: 0.2}
instructions: {inline: Answer with yes.}
test_cases_file: cases.jsonl
evaluations:
  metrics: [{type: standard, metric: equality}]
"""
PROMPTS = """\
kind: prompts
target: {python: echoing:call_agent}
prompts: {system: system.md, tone: tone.md}
isolation: source
train: cases.jsonl
metrics: [{type: standard, metric: equality}]
"""
CODE = """
from pathlib import Path

def call_agent(query):
    return Path("system.md").read_text().strip()
"""
GRAPH = """\
kind: graph
name: desk
output: say
nodes:
  think: {model: {provider: openai, name: good, temperature: 0.2}, instructions: {inline: Think.}}
  say: {model: openai:good, instructions: {inline: Answer with yes.}}
edges: [think -> say]
train: cases.jsonl
metrics: [{type: standard, metric: equality}]
"""


def _says(name: str, temperature: float | None) -> str:
    return "yes" if name == "good" and (temperature or 0) < 0.9 else "no"


@dataclass(frozen=True, kw_only=True)
class Zoo(ScriptedBackend):
    """Models by name: `good` is right unless it is hot, `gone` is refused, others are wrong."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        if ref.name == "gone":
            raise ModelRefused("there is no model 'gone'", remedy="name another")
        said = _says(ref.name, ref.settings.temperature)

        def respond(asked: ChatRequest, number: int) -> str:
            del asked, number
            return said

        return await ScriptedBackend.complete(
            replace(self, respond=respond), ref, request, draw=draw
        )


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BURNISH_HTML", "never")
    monkeypatch.delitem(sys.modules, "echoing", raising=False)
    texts = {"agent.yaml": AGENT, "prompts.yaml": PROMPTS, "graph.yaml": GRAPH, "echoing.py": CODE}
    texts |= {"system.md": "yes and no", "tone.md": "Be kind to everybody."}
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    write_cases(8)


def write_cases(number: int) -> None:
    rows = [{"name": f"c{n}", "input": f"{n}?", "ground_truth": "yes"} for n in range(number)]
    Path("cases.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")


def zoo() -> Zoo:
    return Zoo(respond=lambda _, __: "")


def prepared(
    file: str = "agent.yaml",
    *,
    models: tuple[str, ...] = (),
    candidates: tuple[str, ...] = (),
    sets: tuple[str, ...] = (),
    flags: Flags | None = None,
    resumed: Path | None = None,
    backend: Zoo | None = None,
    most: int = 24,
) -> PreparedGrid:
    doors = measurement_doors(Path(file))
    settings, axes = split_assignments(sets, doors)
    named: dict[str, JsonValue] = {"set": [*settings]} if settings else {}
    return load_grid(
        Path(file),
        {**named, **(flags or {})},
        GridAxes(models=models, candidates=tuple(map(named_candidate, candidates)), settings=axes),
        resumed=resumed,
        most=most,
        models=Models(backends={"openai": backend or zoo()}),
        doors=doors,
    )


def run(grid: PreparedGrid, folder: str = "grid", forked: Forked | None = None) -> MeasuredGrid:
    return measure_grid(grid, make_grid_folder(grid, Path(folder)), forked=forked)


def labels(grid: PreparedGrid) -> list[str]:
    return [column.choice.label for column in grid.columns]


def scores(measured: MeasuredGrid) -> dict[str, float | None]:
    return {each.label: each.score for each in measured.report.columns}


def test_every_combination_is_a_column_over_the_same_cases() -> None:
    backend = zoo()
    measured = run(
        prepared(models=("openai:good", "openai:bad"), sets=("temperature=0,1",), backend=backend)
    )
    assert scores(measured) == {
        "openai:good temperature=0": 1.0,
        "openai:good temperature=1": 0.0,
        "openai:bad temperature=0": 0.0,
        "openai:bad temperature=1": 0.0,
    }
    assert len(backend.asked) == 4 * 8
    assert [each.cases for each in measured.report.columns] == [8] * 4


def test_an_added_model_pays_for_its_own_column_only() -> None:
    first = run(prepared(models=("openai:good", "openai:bad")))
    backend = zoo()
    again = prepared(models=("openai:worse",), resumed=first.folder, backend=backend)
    assert labels(again) == ["openai:good", "openai:bad", "openai:worse"]
    assert [each.is_there for each in again.columns] == [True, True, False]
    assert scores(run(again)) == {"openai:good": 1.0, "openai:bad": 0.0, "openai:worse": 0.0}
    assert len(backend.asked) == 8


def test_a_grid_that_is_there_costs_nothing_again() -> None:
    first = run(prepared(models=("openai:good", "openai:bad")))
    backend = zoo()
    again = run(prepared(resumed=first.folder, backend=backend))
    assert backend.asked == []
    assert again.report.columns == first.report.columns


def test_a_grid_is_found_by_its_id() -> None:
    first = run(prepared(models=("openai:good", "openai:bad")), folder="a-grid-of-mine")
    assert find_grid("a-grid") == first.folder
    assert find_grid("another") is None
    assert find_grid("") is None


def test_changed_cases_are_not_mixed_with_others_but_a_fork_pays_for_the_new_ones() -> None:
    first = run(prepared(models=("openai:good", "openai:bad")))
    write_cases(10)
    with pytest.raises(ResumeRefused, match="--fork"):
        run(prepared(resumed=first.folder))
    backend = zoo()
    axes = ("openai:good", "openai:bad", "openai:worse")
    forked = run(prepared(models=axes, backend=backend), "second", fork_of(str(first.folder)))
    assert [each.cases for each in forked.report.columns] == [10, 10, 10]
    assert len(backend.asked) == 2 + 2 + 10
    again = fork_of(str(first.folder), retry_missing=True)
    assert again == Forked(run=first.folder, retry_missing=True)


def test_a_grid_can_be_forked_from_a_plain_run() -> None:
    one = run(prepared(models=("openai:good", "openai:bad")))
    column = Path(one.report.columns[0].run)
    backend = zoo()
    run(prepared(models=("openai:good", "openai:worse"), backend=backend), "b", Forked(run=column))
    assert len(backend.asked) == 8


def test_a_model_that_is_refused_fails_alone() -> None:
    measured = run(prepared(models=("openai:good", "openai:gone", "openai:bad")))
    good, gone, bad = measured.report.columns
    assert (good.failure, bad.failure) == ("", "")
    assert "there is no model 'gone'" in gone.failure
    assert bad.change is not None
    assert not measured.report.ok


def test_a_model_without_a_key_fails_before_anything_is_paid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    grid = prepared(models=("openai:good", "anthropic:x"))
    assert [bool(each.failure) for each in grid.columns] == [False, True]
    assert "ANTHROPIC_API_KEY" in grid.columns[1].failure
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        prepared(models=("anthropic:x",))


def test_one_budget_is_for_all_columns() -> None:
    backend = zoo()
    limit: Flags = {"max_calls": 20}
    axes = ("openai:good", "openai:bad", "openai:worse")
    measured = run(prepared(models=axes, flags=limit, backend=backend))
    assert [bool(each.failure) for each in measured.report.columns] == [False, False, True]
    assert "calls" in measured.report.columns[2].failure
    assert len(backend.asked) == 16
    more = run(prepared(resumed=measured.folder, flags={"max_calls": 30}, backend=backend))
    assert [each.failure for each in more.report.columns] == ["", "", ""]
    assert len(backend.asked) == 24


def test_a_judge_stays_the_same_whichever_model_is_measured() -> None:
    Path("agent.yaml").write_text(
        AGENT.replace("equality}", "equality}, {type: geval, name: kind, criteria: Is it kind?}"),
        encoding="utf-8",
    )
    grid = prepared(models=("openai:good", "openai:bad"))
    made = [each.measurement.setup.inputs() for each in grid.columns if each.measurement]
    assert len({each["metrics"] for each in made}) == 1
    assert len({each["target"] for each in made}) == 2


def test_a_candidate_is_an_agent_file_measured_as_this_one_is() -> None:
    Path("best").mkdir()
    better = AGENT.replace("name: good", "name: bad").replace("cases.jsonl", "none.jsonl")
    Path("best/best.yaml").write_text(better, encoding="utf-8")
    measured = run(prepared(candidates=("current", "best/best.yaml")))
    assert scores(measured) == {"current": 1.0, "best.yaml": 0.0}


def test_a_candidate_of_prompts_is_a_file_with_texts() -> None:
    Path("best.yaml").write_text("system: 'yes'\n", encoding="utf-8")
    measured = run(prepared("prompts.yaml", candidates=("current", "best.yaml")))
    assert scores(measured) == {"current": 0.0, "best.yaml": 1.0}
    assert Path("system.md").read_text(encoding="utf-8") == "yes and no"


def test_a_candidate_is_the_best_of_a_run() -> None:
    first = run(prepared("prompts.yaml", sets=("system=yes,no",)))
    found = Path(first.report.columns[0].run)
    again = run(prepared("prompts.yaml", candidates=("current", str(found))), "second")
    assert scores(again) == {"current": 0.0, found.name: 1.0}
    assert named_candidate(found.name) == str(found)


def test_a_text_with_a_comma_is_quoted() -> None:
    measured = run(prepared("prompts.yaml", sets=('system="yes, yes",yes',)))
    assert scores(measured) == {"system=yes, yes": 0.0, "system=yes": 1.0}


def test_a_graph_has_its_positions_as_axes() -> None:
    one = run(prepared("graph.yaml", models=("openai:good", "openai:bad")))
    assert scores(one) == {"openai:good": 1.0, "openai:bad": 0.0}
    say = run(prepared("graph.yaml", sets=("say#model=openai:good,openai:bad",)), "second")
    assert [each.score for each in say.report.columns] == [1.0, 0.0]
    hot = run(prepared("graph.yaml", sets=("think#model.temperature=0.2,1",)), "third")
    assert [each.failure for each in hot.report.columns] == ["", ""]


def test_a_run_stores_its_column_so_that_it_can_be_resumed_alone() -> None:
    measured = run(prepared(models=("openai:good", "openai:bad")))
    stored = Header.read(Path(measured.report.columns[1].run)).project.spec["target"]
    assert isinstance(stored, dict)
    document = stored["document"]
    assert isinstance(document, dict)
    assert document["model"] == {"provider": "openai", "name": "bad", "temperature": 0.2}


def test_what_is_named_twice_is_measured_once_and_said() -> None:
    grid = prepared(models=("openai:bad", "openai:bad", "openai:good", "current"))
    assert labels(grid) == ["openai:bad", "openai:good"]
    assert grid.notes == (
        "openai:bad was named twice: it is measured once",
        "current is the same as openai:good: it is measured once",
    )


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        (("temprature=1",), "did you mean 'model.temperature'"),
        (("temperature=hot",), "expected a number"),
        (("temperature=9",), "temperature"),
        (("temperature=",), "names no value"),
        (("=3",), "names no value"),
        (("demonstrations=[[1]]",), "--candidate FILE"),
        (("model=openai:x",), "--model MODEL"),
    ],
)
def test_axes_that_do_not_fit_are_refused(sets: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        prepared(sets=sets)


def test_the_axes_there_are_are_named() -> None:
    with pytest.raises(ConfigError) as caught:
        prepared("prompts.yaml", models=("openai:x",))
    assert "no model that could be changed" in caught.value.message
    assert "axes of this target: system, tone" in caught.value.message
    with pytest.raises(ConfigError, match="could be any of"):
        prepared("graph.yaml", sets=("instruction=x",))


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere.yaml", "there is no file"), ("cases.jsonl", "no candidate"), ("", "there is no")],
)
def test_what_is_no_candidate_is_refused(name: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        prepared(candidates=(name,))


def test_a_candidate_of_something_else_is_refused() -> None:
    Path("best.yaml").write_text("style: short\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="a value for 'style', which this target does not have"):
        prepared("prompts.yaml", candidates=("best.yaml",))


def test_a_grid_that_is_too_large_is_refused_before_anything_is_paid() -> None:
    values = ",".join(str(n / 100) for n in range(7))
    with pytest.raises(ConfigError, match=r"7 columns, and 6 are allowed.*--max-columns 7"):
        prepared(sets=(f"temperature={values}",), most=6)
    assert len(prepared(sets=(f"temperature={values}",), most=7).columns) == 7


def test_settings_of_the_run_are_no_axes() -> None:
    grid = prepared(models=("openai:good", "openai:bad"), sets=("budget.max_calls=7", "repeats=2"))
    assert grid.base.setup.budget.max_calls == 7
    assert grid.base.measure.repeats == 2
    assert labels(grid) == ["openai:good", "openai:bad"]


def test_what_a_column_is_expected_to_cost() -> None:
    grid = prepared(models=("openai:good", "openai:bad"), flags={"repeats": 3})
    assert [each.expected.calls for each in grid.columns] == [24, 24]
