"""Workflow files: what they make, and that everything wrong with one is said at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import ConfigError
from burnish.delegation.envelope import Envelope
from burnish.delegation.team import LoadedWorkflow, load_workflow
from burnish.delegation.workers import CommandWorker, ModelWorker
from burnish.delegation.workflow_spec import WorkflowOverrides
from burnish.models.references import ModelRef
from burnish.testing.delegation_world import FLOW, DelegationWorld

WHOLE = """\
awp: "1.0.0"
workflow: {name: heat_report, version: "1.0.0", description: demo}
orchestration:
  engine: delegation_loop
  delegation_loop:
    manager: agents/manager
    models: {manager: openai:m1, worker: openai:m2}
    budget: {max_loops: 10, max_total_workers: 6, max_total_tokens: 150000, max_wall_time: 90,
             max_tool_calls: 30, max_depth: 2}
    critique: {enabled: true, min_score_to_complete: 0.5}
    planning: {enabled: true}
observability:
  evaluation:
    enabled: true
    metrics:
      - {name: c, kind: deterministic_test, weight: 1, params: {expr: "result.confidence > 0.6"}}
      - {name: j, kind: rubric_judge, params: {rubric: Is it good?}}
    thresholds: {accept: 0.8, retry: 0.6, fail: 0.2}
deliverables:
  - report.md
  - {path: data.json, schema: {type: object}}
refinement_tier_low: {manager: "openai:cheap", worker: ""}
refinement_tier_high: {worker: "openai:dear"}
"""
WRONG = """\
workflow: {name: x, nme: y}
orchestration:
  engine: command
  delegation_loop:
    budget: {max_loops: 0, max_wall_time: .nan}
observability:
  evaluation:
    metrics:
      - {name: a, kind: deterministic_test, params: {expr: "import os"}}
      - {name: b, kind: wishes}
      - {name: c, kind: deterministic_assertion, params: {path: ../c.md, contains: x}}
    thresholds: {accept: 0.1}
deliverables: [../out.md, /etc/passwd]
sandbox: maybe
"""


def load(folder: Path, text: str, **said: object) -> LoadedWorkflow:
    path = folder / "workflow.yaml"
    path.write_text(text, encoding="utf-8")
    overrides = WorkflowOverrides.model_validate(said)
    return load_workflow(path, overrides, models=DelegationWorld().models())


def test_a_file_of_the_other_system_is_read(tmp_path: Path) -> None:
    (tmp_path / "agents/manager").mkdir(parents=True)
    (tmp_path / "agents/manager/system_prompt.md").write_text("Be brief.")
    loaded = load(tmp_path, WHOLE)
    made = loaded.workflow
    assert made.own_instructions == "Be brief."
    assert made.models == {
        "manager": "openai:m1", "worker": "openai:m2", "critic": "openai:m1",
        "judge": "openai:m1",
    }  # fmt: skip
    assert made.envelope == Envelope(
        max_loops=10, max_total_workers=6, max_total_tokens=150000, max_wall_time=90,
        max_tool_calls=30, max_depth=2,
    )  # fmt: skip
    assert [each.path for each in made.deliverables] == ["report.md", "data.json"]
    assert made.deliverables[1].schema == {"type": "object"}
    assert made.gates.min_score_to_complete == 0.5
    assert [metric.name for metric in made.metrics] == ["c", "j"]
    assert loaded.team.tiers["low"].manager == "openai:cheap"
    assert loaded.team.tiers["mid"].manager == loaded.team.tiers["mid"].worker == ""
    assert loaded.team.tiers["high"].worker == "openai:dear"


def test_models_of_the_other_system_are_asked_at_its_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under their own names; references of burnish and other workflow files stay as they are."""
    awp = WHOLE.replace("openai:m1", "openai/gpt-5-mini").replace("worker: openai:m2", "worker: m2")
    awp = awp.replace("    manager: agents/manager\n", "")
    with pytest.raises(ConfigError, match="m2: not a reference to a model"):
        load(tmp_path, awp)
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LLM_API_KEY", "a-key-of-awp")
    loaded = load(tmp_path, awp)
    assert loaded.workflow.models["manager"] == "openai:openai/gpt-5-mini"
    hand = _worker(loaded)
    assert (hand.name, hand.base_url) == ("m2", "${LLM_BASE_URL}")
    assert hand.api_key == "${LLM_API_KEY}"
    mixed = awp.replace("worker: m2", "worker: openai:m2")
    assert load(tmp_path, mixed).workflow.models["worker"] == "openai:m2"
    with pytest.raises(ConfigError, match="m2: not a reference to a model"):
        load(tmp_path, awp.replace('awp: "1.0.0"\n', ""))


def test_other_models_for_the_same_workflow(tmp_path: Path) -> None:
    loaded = load(tmp_path, WHOLE, critic="openai:eye", max_loops=3)
    other = loaded.team.workflow(loaded.overrides.model_copy(update={"manager": "openai:cheap"}))
    assert other.models["manager"] == "openai:cheap"
    assert other.models["worker"] == "openai:m2"
    assert other.models["critic"] == "openai:eye"
    assert other.envelope.max_loops == 3


def test_a_flag_changes_the_name_of_a_model_and_not_where_it_is(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "{manager: openai:m1, worker: openai:m2}",
        '{manager: "openai:m1", worker: {ref: "openai:m2", base_url: "http://here/v1", seed: 7}}',
    )
    hand = _worker(load(tmp_path, text, worker="openai:other"))
    assert (hand.label, hand.base_url, hand.settings.seed) == ("openai:other", "http://here/v1", 7)
    assert _worker(load(tmp_path, text, worker="openai:big")) == replace(hand, name="big")
    elsewhere = _worker(load(tmp_path, text, worker="ollama:other"))
    assert (elsewhere.base_url, elsewhere.settings.seed) == ("", None)


def _worker(loaded: LoadedWorkflow) -> ModelRef:
    worker = loaded.workflow.worker
    assert isinstance(worker, ModelWorker)
    return worker.client.ref


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, WRONG)
    told = str(error.value)
    for words in (
        "workflow.yaml:1 workflow.nme",
        "orchestration.delegation_loop.budget.max_loops",
        "max_wall_time",
        "this expression cannot be used",
        "wishes",
        "metrics[2].params.path: it must be inside the workspace",
        "they must rise in the order fail, retry, accept",
        "deliverables[0]",
        "deliverables[1]",
        "sandbox",
    ):
        assert words in told, words


def test_what_the_rest_of_the_world_lacks_is_said_at_once(tmp_path: Path) -> None:
    text = (
        FLOW.replace("manager: openai:boss, ", "")
        + "workspace: {copy_from: gone}\n"
        + "tools: [{name: t, type: function, description: d, file: gone.py, function: f}]\n"
        + "refinement_tier_mid: {worker: nobody}\n"
    )
    with pytest.raises(ConfigError) as error:
        load(tmp_path, text)
    told = str(error.value)
    for words in (
        "there is no model for the manager", "gone is not a folder",
        "tool t: gone.py is not a file", "refinement_tier_mid.worker",
    ):  # fmt: skip
        assert words in told, words


def test_a_model_that_cannot_be_is_refused_where_it_stands(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, FLOW.replace("worker: openai:hand", "worker: opnai:hand"))
    told = str(error.value)
    assert "workflow.yaml:4 orchestration.delegation_loop.models.worker: opnai:hand" in told
    assert "did you mean 'openai:hand'" in told


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("engine: dag", "delegation_loop"),
        ("engine: command", "needs a block `command`"),
        ("command: {command: run}", "goes with engine: command"),
    ],
)
def test_engines(tmp_path: Path, change: str, words: str) -> None:
    text = FLOW.replace("orchestration:\n", f"orchestration:\n  {change}\n")
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, text)


def test_names_of_tools_are_taken_once(tmp_path: Path) -> None:
    tool = "{name: run_command, type: function, description: d, file: f.py, function: f}"
    with pytest.raises(
        ConfigError, match="burnish already has tools with these names: run_command"
    ):
        load(tmp_path, f"{FLOW}tools: [{tool}]\n")


def test_a_program_instead_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KEY", "a-rather-long-value")
    text = """\
workflow: {name: coder}
orchestration:
  engine: command
  command:
    {command: "coder --yes", env: [AGENT_KEY], usd_per_run: 0.5, critique: {enabled: false}}
"""
    made = load(tmp_path, text).workflow
    assert isinstance(made.worker, CommandWorker)
    assert made.worker.price.usd == 0.5
    assert made.models == {"worker": "coder --yes"}
    assert "a-rather-long-value" in made.secrets
    assert "a-rather-long-value" not in repr(made)
    assert any("without a critic" in note for note in made.notes())
    with pytest.raises(ConfigError, match="no models to change"):
        load(tmp_path, f"{text}refinement_tier_low: {{manager: 'openai:x'}}\n")
