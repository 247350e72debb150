"""The seed: which folders can be refined, and what is read of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import SeedRefused
from burnish.delegation.refine.seeds import ModelPair, read_seed
from burnish.delegation.refine.setup import RefineSettings, find_workflow
from tests.delegation.refine.run_folders import RUN_ID, awp_run, plain_run, put


def test_a_run_of_awp_agents_needs_no_preparation(tmp_path: Path) -> None:
    seed = read_seed(awp_run(tmp_path))
    assert seed.deliverable == tmp_path / "output" / "FINAL"
    assert seed.models == ModelPair(manager="openai/gpt-5-mini", worker="ollama/qwen:7b")
    envelope = seed.budget.envelope
    assert (envelope.max_loops, envelope.max_total_tokens, envelope.max_depth) == (12, 200001, 2)
    assert (envelope.max_tool_calls, envelope.max_wall_time) == (41, 120)
    assert seed.budget.seconds == 1.4
    assert seed.task == "Write a report."
    assert not (seed.folder / "FINAL").exists()


def test_the_final_of_another_run_is_not_taken(tmp_path: Path) -> None:
    run = awp_run(tmp_path)
    put(tmp_path / "output" / "FINAL" / "report.md", "that of a later run\n")
    assert read_seed(run).deliverable == tmp_path / "output" / RUN_ID


@pytest.mark.parametrize("place", ["FINAL", "output/FINAL", "output/seed"])
def test_where_a_deliverable_may_lie(tmp_path: Path, place: str) -> None:
    run = plain_run(tmp_path / "seed", files={})
    put(run / place / "deep" / "report.md", "x")
    assert read_seed(run).deliverable == run / place


def test_folders_around_a_run_are_not_its_own(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "runs" / "seed", files={})
    put(tmp_path / "output" / "FINAL" / "report.md", "somebody else's")
    with pytest.raises(SeedRefused, match="no deliverable"):
        read_seed(run)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = awp_run(tmp_path)
    monkeypatch.chdir(run.parent)
    assert read_seed(Path(RUN_ID)).gradient.rejected_gates
    monkeypatch.chdir(run)
    assert read_seed(Path()).run_id == RUN_ID


def test_flat_budgets_and_models_of_the_completion(tmp_path: Path) -> None:
    flat = {"max_loops": 9, "observed_wall_time": 7.0, "max_depth": 3}
    run = plain_run(
        tmp_path / "seed", final_budget={}, budget=flat, models={"manager": "a", "worker": "b"}
    )
    seed = read_seed(run)
    assert (seed.budget.envelope.max_loops, seed.budget.envelope.max_depth) == (9, 3)
    assert seed.budget.seconds == 7
    assert seed.budget.envelope.max_tool_calls == 600
    assert seed.models == ModelPair(manager="a", worker="b")


@pytest.mark.parametrize(
    ("completion", "words"),
    [
        (None, "has no run_completion.json"),
        ("[]", "is not an object"),
        ('[{"run_id": "x", "task": "t"}]', "is not an object"),
        ("{", "is damaged"),
        ('{"task": "t", "eval": {"score": NaN}}', "NaN has no JSON form"),
        ('{"run_id": "x"}', "does not contain the task"),
        ('{"task": "t"}', "has no deliverable"),
    ],
)
def test_what_cannot_be_refined(tmp_path: Path, completion: Any, words: str) -> None:
    if completion is not None:
        put(tmp_path / "run_completion.json", completion)
    with pytest.raises(SeedRefused, match=words) as refusal:
        read_seed(tmp_path)
    assert refusal.value.exit_code == 2


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SeedRefused, match="no run in"):
        read_seed(tmp_path / "nowhere")


def test_empty_folders_deliver_nothing(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "seed", files={})
    (run / "FINAL" / "deep").mkdir(parents=True)
    with pytest.raises(SeedRefused, match="no deliverable"):
        read_seed(run)


def test_an_interrupted_run_is_gone_on_with_first(tmp_path: Path) -> None:
    with pytest.raises(SeedRefused, match="was interrupted"):
        read_seed(plain_run(tmp_path / "seed", status="aborted"))


def test_what_the_seed_was_given_is_given_again(tmp_path: Path) -> None:
    run = plain_run(tmp_path / "seed")
    given = [put(tmp_path / "given" / name, "now") for name in ("a.csv", "b.csv", "report.md")]
    put(run / "workspace" / "input" / "a.csv", "then")
    told = [*map(str, given), str(tmp_path / "given" / "gone.csv")]
    put(run / "run_manifest.json", {"kept": {"inputs": told}})
    # The deliverable comes first where both have the name.
    assert read_seed(run).inputs == (run / "workspace" / "input" / "a.csv", given[1])
    awp = awp_run(tmp_path / "ws")
    data = put(tmp_path / "ws" / "workspace" / "inputs" / "data.csv", "1")
    assert read_seed(awp).inputs == (data,)


def test_a_worker_that_nobody_knows_is_never_replaced_in_silence(tmp_path: Path) -> None:
    run = awp_run(tmp_path)
    manifest = json.loads((run / "run_manifest.json").read_text())
    manifest["models"]["worker"] = "acme/agent-7"
    put(run / "run_manifest.json", manifest)
    seed = read_seed(run)
    with pytest.raises(SeedRefused, match="worker 'acme/agent-7' is not a reference") as refused:
        find_workflow(seed, RefineSettings(), tmp_path)
    assert "--worker-model" in refused.value.remedy
    named = RefineSettings(worker_model="openrouter/acme/agent-7")
    document, _ = find_workflow(seed, named, tmp_path)
    loop = document.data["orchestration"]["delegation_loop"]  # pyright: ignore
    assert loop["models"] == {  # pyright: ignore
        "manager": "openai:gpt-5-mini",
        "worker": "openrouter/acme/agent-7",
    }


def test_models_of_awp_agents_are_asked_at_its_own_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("LLM_API_KEY", "a-key-of-awp")
    run = awp_run(tmp_path)
    manifest = json.loads((run / "run_manifest.json").read_text())
    manifest["models"] = {"manager": "openai/gpt-5-mini", "worker": "acme/agent-7"}
    put(run / "run_manifest.json", manifest)
    document, _ = find_workflow(read_seed(run), RefineSettings(), tmp_path)
    loop = document.data["orchestration"]["delegation_loop"]  # pyright: ignore
    endpoint = {"base_url": "${LLM_BASE_URL}", "api_key": "${LLM_API_KEY}"}
    assert loop["models"] == {  # pyright: ignore
        "manager": {"ref": "openai:openai/gpt-5-mini", **endpoint},
        "worker": {"ref": "openai:acme/agent-7", **endpoint},
    }
    assert "a-key-of-awp" not in document.tree.text
