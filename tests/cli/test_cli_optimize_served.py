"""`burnish optimize` and `burnish eval` against a real endpoint: what is found can be had again."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.testing.servers import HttpRequest as Question
from tests.cli.console import Burnish
from tests.cli.served_echo import served, serving
from tests.projects.optimizer_world import RULE, Change, optimizer, write_world

pytestmark = pytest.mark.slow

SPLITS = ("train", "holdout")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Question]:
    monkeypatch.setenv("ECHO_KEY", "key-of-the-echo-agent")
    return []


def rows_of(folder: Path) -> list[Any]:
    lines = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def without_demonstrations(data: dict[str, Any]) -> None:
    """What needs to be shown stays wrong, so that the best is not perfect."""
    del optimizer(data)["axes"]["demonstrations"]
    few = {"max_trials": 2, "patience": 1}
    budget = {"global": {"max_cycles": 1}, "numeric_phase": few, "textual_phase": few}
    optimizer(data)["budget"] = budget


def test_the_exported_best_scores_as_it_did_from_its_own_folder(
    tmp_path: Path, burnish: Burnish, asked: list[Question], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    with serving(asked) as url:
        write_world(tmp_path, served(url), without_demonstrations, tools=True)
        assert burnish("optimize", "agent.yaml", "-q", "-o", "run").code == 0
        monkeypatch.chdir(folder)
        reports = {split: measured(burnish, tmp_path / f"{split}.yaml") for split in SPLITS}
    rows = rows_of(folder)
    best: Any = rows[rows[-1]["study_state"]["best_trial_id"]]
    seed = json.loads((folder / "run.json").read_text(encoding="utf-8"))["seed"]
    for split, report in reports.items():
        assert 0 < best[split]["loss"] < 1
        assert report["about"]["seed"] == seed
        assert scores_in(report) == best["trial"][split]["scores"]


def measured(burnish: Burnish, cases: Path) -> Any:
    """`burnish eval` of the best, as often as the search has run each case."""
    flags = ("--cases", str(cases), "--repeats", "2", "--json", "-", "-q")
    said = burnish("eval", "best.yaml", *flags)
    assert said.code == 1, "a case fails: it would take demonstrations"
    return said.json


def scores_in(report: Any) -> dict[str, dict[str, list[float]]]:
    """By case and metric, one value a repeat."""
    found: dict[str, dict[str, list[float]]] = {}
    for case in report["cases"]:
        for score in (score for one in case["tries"] for score in one["scores"]):
            of_case = found.setdefault(case["case"], {})
            of_case.setdefault(score["metric"], []).append(score["value"])
    return found


def test_critic_and_applier_are_asked_over_http_and_named_in_the_rows(
    tmp_path: Path, burnish: Burnish, asked: list[Question]
) -> None:
    with serving(asked) as url:
        write_world(tmp_path, served(url), writers(url))
        assert burnish("optimize", "-q", "-o", "run").code == 0
    textual = [row for row in rows_of(tmp_path / "run") if row["phase"] == "textual"]
    source = textual[0]["proposal_source"]
    assert source["critic"]["model"] == "openai:doctor"
    assert source["applier"]["model"] == "openai:surgeon"
    assert textual[0]["decision"]["accepted"]
    for name in ("train", "holdout"):
        assert 0 < textual[0][name]["duration_sec"] <= textual[0]["seconds"]
    told = {name: said_to(asked, name) for name in ("doctor", "surgeon")}
    assert "learned" in told["doctor"]
    assert "it says it has no idea" in told["surgeon"]
    assert "held" not in told["doctor"] + told["surgeon"]
    best = (tmp_path / "run" / "best-instructions.md").read_text(encoding="utf-8")
    assert RULE in best


@pytest.mark.parametrize("refused", [("json_schema",), ("json_schema", "json_object")])
def test_an_endpoint_without_schemas_that_answers_in_a_fence_will_do(
    tmp_path: Path, burnish: Burnish, asked: list[Question], refused: tuple[str, ...]
) -> None:
    fenced = "Here you are:\n\n```json\n{}\n```\nIs there anything else?"
    with serving(asked, refuses=refused, written=fenced) as url:
        write_world(tmp_path, served(url), writers(url))
        assert burnish("optimize", "-q", "-o", "run").code == 0
        rows, answered = rows_of(tmp_path / "run"), len(asked)
        assert burnish("optimize", "-q", "--resume", "run").code == 0
    assert len(asked) == answered, "a resume asks nobody"
    assert rows_of(tmp_path / "run") == rows
    textual = next(row for row in rows if row["phase"] == "textual")
    assert textual["decision"]["accepted"]
    for proposal in textual["trial"]["proposals"]:
        assert (proposal["error"], proposal["mended"]) == ("", ["text around the JSON object"])
    # A role's question is billed once, however often its form was refused.
    assert textual["spend"]["calls"] == 2 + 2 * len(SPLITS) * 3 + 2 * 3
    assert RULE in (tmp_path / "run" / "best-instructions.md").read_text(encoding="utf-8")


def writers(url: str) -> Change:
    """Texts only, written by two models of their own."""

    def change(data: dict[str, Any]) -> None:
        block = optimizer(data)
        block["axes"] = {"textual": [{"path": "instructions"}]}
        for role, name in (("critic", "doctor"), ("applier", "surgeon")):
            block[role] = {**data["model"], "name": name, "endpoint": url}

    return change


def said_to(asked: list[Question], model: str) -> str:
    """Everything that a model was told."""
    told = [question.json for question in asked if question.json["model"] == model]
    assert told, f"nobody asked {model}"
    return "\n".join(message["content"] for body in told for message in body["messages"])
