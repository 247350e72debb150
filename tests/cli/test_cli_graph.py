"""`burnish optimize graph.yaml`: whole runs over graphs and agents, with scripted models."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer

from burnish.cli.evaluation import EvalRequest as Measuring
from burnish.cli.evaluation import evaluate_agent
from burnish.cli.optimization import RunOpening
from burnish.core.errors import ConfigError
from burnish.models.chat import ChatRequest
from burnish.projects.measurements import load_measurement, measurement_for
from burnish.runs.directory import RunRecord
from burnish.strategies.backprop.strategy import Backprop
from burnish.testing.doubles import ScriptedBackend
from tests.cli.console import Burnish, tree
from tests.projects.graph.graph_world import (
    BETTER,
    PLAN,
    RULE,
    file,
    models,
    optimize,
    optimizer,
    prepared,
    respond,
    write_world,
)
from tests.projects.prompts.prompt_world import AGENT as CALLED_AGENT
from tests.projects.prompts.prompt_world import PROMPT, flags, write_cases
from tests.projects.prompts.prompt_world import RULE as PROMPT_RULE
from tests.projects.prompts.prompt_world import optimize as optimize_prompts

pytestmark = pytest.mark.slow

PLANNER = "shop/planner#instruction"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(folder: Path) -> RunRecord:
    return RunRecord.read(folder / "run")


def test_a_graph_is_made_better_and_the_result_adopted_and_undone(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_world(tmp_path, file(sealed="cases/sealed.json"))
    before = tree(tmp_path)
    optimize(path, dry_run=True)
    plan = capsys.readouterr().out
    assert "graph     3 nodes, 1 edge, from shop/planner" in plan
    assert "per failing case and step, for the backwarder" in plan
    assert f"* text    {PLANNER}: 33 of at most 2,000 characters" in plan
    optimize(path)
    told = capsys.readouterr().out
    assert "baseline          score on hold 0.000" in told
    line = next(each for each in told.splitlines() if each.startswith("[r1]"))
    assert line.split()[1:] == [
        *("planner#instruction", "train", "0.000", "hold", "0.000→1.000", "(▲1.000)"),
        *("accept", "✓", *line.split()[-2:]),
    ]
    assert "search over · no_losses: no train case fails any more" in told
    assert "sealed test, looked at once: score 0.000 → 1.000" in told
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    said = burnish("adopt", "run", "--yes")
    assert said.code == 0
    assert "~Plan the answer to the question.{+ NAME THE UNIT.+}" in said.out
    assert (tmp_path / "agents" / "planner.md").read_text(encoding="utf-8") == f"{BETTER}\n"
    assert burnish("adopt", "run", "--undo").code == 0
    assert {name: tree(tmp_path)[name] for name in before} == before


def test_an_exported_graph_is_a_project_of_its_own(tmp_path: Path) -> None:
    optimize(write_world(tmp_path), quiet=True)
    best = tmp_path / "run" / "candidates" / "best" / "graph.yaml"
    setup = prepared(best).setup
    assert setup.target.baseline.values[PLANNER] == f"{BETTER}\n"
    assert len(setup.dataset.holdout) == 3


def test_values_of_the_graph_file_itself_are_adopted_with_its_comments(
    tmp_path: Path, burnish: Burnish
) -> None:
    path = tmp_path / "graph.yaml"
    write_world(tmp_path)
    text = f"""\
# ours
kind: graph
name: shop
nodes:
  planner:
    model: {{provider: openai, name: m}}   # small
    instructions:
      inline: {PLAN}
  writer:
    model: {{provider: openai, name: m}}
    instructions: {{inline: Write what the plan says.}}
edges: [planner -> writer]
train: cases/train.json
holdout: cases/holdout.json
metrics: [{{type: standard, metric: equality}}]
"""
    path.write_text(text, encoding="utf-8")
    optimize(path, quiet=True)
    assert burnish("adopt", "run", "--yes").code == 0
    assert path.read_text(encoding="utf-8") == text.replace(PLAN, BETTER)
    assert burnish("adopt", "run", "--undo").code == 0
    assert path.read_text(encoding="utf-8") == text


def test_a_run_that_is_resumed_pays_for_nothing_again(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    first = ScriptedBackend(respond=respond)
    optimize(path, first, quiet=True, flags={"max_trials": 1})
    again = ScriptedBackend(respond=respond)
    optimize(path, again, quiet=True, way=RunOpening(resume=str(tmp_path / "run")), flags={})
    assert not again.asked
    assert record(tmp_path).accepted == 1


def test_the_baseline_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    optimize(write_world(tmp_path), quiet=True, flags={"print_baseline": True})
    told = capsys.readouterr().out
    assert "pass rate" in told
    assert record(tmp_path).trials == 0


def test_a_graph_is_measured_as_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_world(tmp_path)

    load = partial(measurement_for, models=models())

    with pytest.raises(typer.Exit) as ended:
        evaluate_agent(Measuring(agent=path, progress="none"), load=load)
    assert ended.value.exit_code == 1
    told = capsys.readouterr().out
    assert "train-0" in told
    assert "holdout-0" not in told
    assert "0 passed, 3 failed, of 3" in told


def test_a_graph_without_cases_cannot_be_measured(tmp_path: Path) -> None:
    path = write_world(tmp_path, lambda data: data.pop("train"))
    with pytest.raises(ConfigError, match="--cases FILE"):
        load_measurement(path, {})


@pytest.mark.parametrize("strategy", ["auto", "reflective", "coordinate"])
def test_another_strategy_on_a_graph(tmp_path: Path, strategy: str) -> None:
    change = optimizer(strategy=strategy, targets=["planner#instruction"], repeats=1)
    path = write_world(tmp_path, change, file(budget={"max_trials": 2}))
    optimize(path, quiet=True)
    best = record(tmp_path).best_candidate
    assert best is not None
    assert best.values[PLANNER] == f"{BETTER}\n"


def test_a_graph_is_made_cheaper(tmp_path: Path) -> None:
    targets = ["planner#instruction"]
    path = write_world(tmp_path, optimizer(strategy="frugal", targets=targets))
    idle = f"{BETTER} Take all the time that you need, and remember whom you work for.\n"
    (tmp_path / "agents" / "planner.md").write_text(idle, encoding="utf-8")
    optimize(path, quiet=True)
    best, claim = record(tmp_path).best_candidate, record(tmp_path).claim
    assert best is not None
    assert str(best.values[PLANNER]).rstrip() == f"{RULE}."
    assert claim is not None
    assert claim.verdict == "not shown", "three cases cannot show that nothing is lost"


def test_back_propagation_on_an_agent_file_with_tools(tmp_path: Path) -> None:
    (tmp_path / "shop_tools.py").write_text(
        'def unit(thing: str) -> str:\n    """Look up the unit."""\n    return "kg"\n',
        encoding="utf-8",
    )
    write_world(tmp_path)
    agent: dict[str, Any] = {
        "name": "shop",
        "model": {"provider": "openai", "name": "m"},
        "instructions": {"inline": PLAN},
        "tools": [
            {
                "name": "unit",
                "type": "function",
                "description": "Look up the unit.",
                "file": "shop_tools.py",
                "function": "unit",
            }
        ],
        "evaluations": {
            "metrics": [{"type": "standard", "metric": "equality"}],
            "optimizer": {
                "strategy": "backprop",
                "loss": {"equality": 1.0},
                "train_cases_file": "cases/train.json",
                "holdout_cases_file": "cases/holdout.json",
                "min_holdout_cases": 3,
                "axes": {
                    "textual": [
                        {"path": "instructions"},
                        {"path": "tools[name=unit].description"},
                    ]
                },
                "backprop": {"targets": ["instructions"], "max_rounds": 2},
            },
        },
    }
    path = tmp_path / "agent.yaml"
    path.write_text(json.dumps(agent), encoding="utf-8")
    optimize(path, ScriptedBackend(respond=_with_a_tool), quiet=True)
    found = record(tmp_path)
    assert found.header.strategy == Backprop.name
    assert found.best_candidate is not None
    assert found.best_candidate.values["instructions"] == BETTER
    steps = json.dumps(found.rows[-1].trial.proposals[0].request, ensure_ascii=False)
    assert "Look up the unit." in steps


def _with_a_tool(request: ChatRequest, draw: int) -> str:
    """The agent by itself: with the rule it gives the whole answer."""
    if request.schema:
        return respond(request, draw)
    said = "".join(m.content for m in request.messages if m.role == "user")
    told = "".join(m.content for m in request.messages if m.role == "system")
    answer = said.strip().rstrip("?").replace(" ", "")
    return f"{answer} kg" if RULE in told else answer


def test_back_propagation_on_prompts_of_any_agent(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "system.md").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "numbers_agent.py").write_text(CALLED_AGENT, encoding="utf-8")
    write_cases(tmp_path / "train.evalset.json", "learned", 2)
    write_cases(tmp_path / "val.evalset.json", "held", 2)
    project: dict[str, Any] = {
        "kind": "prompts",
        "strategy": "backprop",
        "proposer": "openai:m",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "backprop": {"max_rounds": 1},
    }
    (tmp_path / "prompts.yaml").write_text(json.dumps(project), encoding="utf-8")
    better = f"{PROMPT.strip()} Answer {PROMPT_RULE}."
    said = {
        "backwarder": {"gradients": [{"surface": "system", "gradient": "be plain"}]},
        "aggregator": {"gradients": [{"gradient": "be plain", "sources": [1, 2]}]},
        "patcher": {"value": better, "reason": "nobody told it how"},
    }
    backend = ScriptedBackend(respond=lambda request, _: json.dumps(said[request.schema_name]))
    optimize_prompts(backend, file=tmp_path / "prompts.yaml", **flags(tmp_path))
    best = record(tmp_path).best_candidate
    assert best is not None
    assert best.values == {"system": f"{better}\n"}


REQUEST: dict[str, Any] = {
    "run": {
        "train": [{"evalSetId": "lessons", "evalCaseIds": ["learned_0"]}],
        "validation": [{"evalSetId": "checks"}],
        "TargetSurfaceIDs": [PLANNER],
        "AcceptancePolicy": {"MinScoreGain": 0.01},
        "StopPolicy": {"MaxRoundsWithoutAcceptance": 3, "TargetScore": 1.0},
        "BackwardOptions": {"CaseParallelismEnabled": False},
        "maxRounds": 3,
    }
}


def test_a_run_request_is_put_over_the_file_and_kept_for_a_resume(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    (tmp_path / "data").mkdir()
    write_cases(tmp_path / "data" / "lessons.evalset.json", "learned", 2)
    write_cases(tmp_path / "data" / "checks.evalset.json", "held", 2)
    asked = tmp_path / "request.json"
    asked.write_text(json.dumps(REQUEST), encoding="utf-8")

    def answers(request: ChatRequest, draw: int) -> str:
        return respond(request, draw) if request.schema else "no idea"

    backend = ScriptedBackend(respond=answers)
    optimize(path, backend, request=asked, quiet=True, flags={"max_rounds": 1})
    found = record(tmp_path)
    assert found.header.cases == {"train": 1, "holdout": 2, "test": 0}
    assert found.rows[-1].trial.touched == (PLANNER,)
    assert not found.accepted
    again = ScriptedBackend(respond=answers)
    way = RunOpening(resume=str(tmp_path / "run"))
    optimize(path, again, quiet=True, way=way, flags={"max_rounds": 1})
    assert not again.asked


def test_what_is_wrong_with_a_request_is_named_where_it_stands(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    asked = tmp_path / "request.json"
    wrong = {
        "targetSurfaceIds": ["planer#instruction"],
        "MaxRounds": 2,
        "Burnish": {"ProtectedCases": ["holdout-9"]},
    }
    asked.write_text(json.dumps({"run": wrong}, indent=1), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        optimize(path, request=asked, dry_run=True)
    surface, case = (str(problem) for problem in caught.value.problems)
    place = "request.json:4 run.targetSurfaceIds[0]"
    assert surface.startswith(f"{place}: there is no surface 'planer#instruction'")
    assert case.startswith("request.json:9 run.Burnish.ProtectedCases[0]: there is no case")


def test_a_request_may_name_what_the_file_leaves_out(tmp_path: Path) -> None:
    path = write_world(tmp_path, optimizer(targets=["writer#instruction"]))
    asked = tmp_path / "request.json"
    asked.write_text(json.dumps({"TargetSurfaceIDs": [PLANNER]}), encoding="utf-8")
    optimize(path, request=asked, quiet=True)
    best = record(tmp_path).best_candidate
    assert best is not None
    assert best.values[PLANNER] == f"{BETTER}\n"


def test_a_flag_wins_over_a_request_and_a_request_over_the_file(tmp_path: Path) -> None:
    path = write_world(tmp_path, optimizer(max_rounds=2, gate="sigma"), file(budget=LIMITS))
    asked = tmp_path / "request.json"
    options = {"MaxCalls": 500, "Seed": 7, "Gate": "strict"}
    asked.write_text(json.dumps({"MaxRounds": 3, "Burnish": options}), encoding="utf-8")
    optimize(path, request=asked, quiet=True, flags={"max_rounds": 1})
    spec: Any = record(tmp_path).header.project.spec
    settings = {"max_rounds": 1, "gate": "strict", "patches_alone": False}
    assert spec["strategy"]["settings"] == settings
    assert spec["budget"] == {"max_calls": 500, "max_tokens": 9000}
    assert spec["execution"] == {"seed": 7, "confirm": False}
    assert record(tmp_path).header.seed == 7


LIMITS = {"max_calls": 900, "max_tokens": 9000}


def test_a_run_goes_on_with_the_flags_it_was_started_with(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    optimize(path, quiet=True, flags={"seed": 9, "max_trials": 1, "accept_sigma": 2.0})
    again, way = ScriptedBackend(respond=respond), RunOpening(resume=str(tmp_path / "run"))
    moved = path.rename(tmp_path / "shop.yaml")
    optimize(moved, again, quiet=True, way=way)
    assert not again.asked


def test_a_set_that_is_nowhere_is_named(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    asked = tmp_path / "request.json"
    seed_form = {"TrainEvalSetIDs": ["lessons"], "ValidationEvalSetIDs": ["checks"]}
    asked.write_text(json.dumps(seed_form), encoding="utf-8")
    with pytest.raises(ConfigError, match="no eval set 'lessons'") as caught:
        optimize(path, request=asked, dry_run=True)
    assert len(caught.value.problems) == 2
