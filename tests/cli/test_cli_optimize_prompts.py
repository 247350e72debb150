"""`burnish optimize` over prompts of any agent: whole runs, with scripted models."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.errors import ConfigError
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.references import ModelRef
from burnish.runs.directory import RunRecord
from tests.cli.console import Burnish, refused, tree
from tests.projects.optimizer_world import RULE as ECHO_RULE
from tests.projects.optimizer_world import EchoBackend, echo_models, optimizer
from tests.projects.optimizer_world import write_world as write_agent
from tests.projects.prompts.prompt_world import (
    BETTER,
    KEY,
    PROMPT,
    contents,
    flags,
    optimize,
    reflector,
    set_algorithm,
    set_optimize,
    write_world,
)

pytestmark = pytest.mark.slow

WORSE = "You are a careless assistant for letters.\n"
FLAGS = (
    *("--agent", "numbers_agent:call_agent"),
    *("--prompt", "system=prompts/system.md"),
    *("--train", "train.evalset.json", "--val", "val.evalset.json"),
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("P2B_TEST_API_KEY", KEY)


def prompt(folder: Path) -> str:
    return (folder / "prompts" / "system.md").read_text(encoding="utf-8")


def record(folder: Path, name: str = "run") -> RunRecord:
    return RunRecord.read(folder / name)


def test_a_better_prompt_is_found_and_the_source_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_world(tmp_path)
    before = tree(tmp_path)
    optimize(reflector(WORSE, BETTER), file=file, quiet=False, progress="lines", **flags(tmp_path))
    told = capsys.readouterr().out
    assert "stopped  required_metrics: every threshold is reached" in told
    assert "burnish adopt run" in told
    after = tree(tmp_path)
    assert {name: after[name] for name in before} == before
    best = record(tmp_path).best_candidate
    assert best is not None
    assert best.values == {"system": BETTER}
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["bestPrompts"] == {"system": BETTER}
    assert result["algorithm"] == "gepa_reflective"
    assert (tmp_path / "run" / "rounds" / "round_002.json").exists()


def test_no_key_reaches_any_file_of_a_run(tmp_path: Path) -> None:
    file = write_world(tmp_path)
    optimize(reflector(f"{WORSE} {KEY}", BETTER), file=file, **flags(tmp_path))
    found = contents(tmp_path / "run")
    assert not any(KEY.encode() in content for content in found)
    assert any(b"${P2B_TEST_API_KEY}" in content for content in found)


def test_the_source_is_updated_on_demand_and_that_can_be_undone(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_world(tmp_path)
    optimize(reflector(), file=file, update_source=True, **flags(tmp_path))
    assert "changed  prompts/system.md" in capsys.readouterr().out
    assert prompt(tmp_path) == BETTER
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert result["sourceUpdated"] is True
    assert "nothing to adopt" in burnish("adopt", "run", "--yes").out
    assert burnish("adopt", "run", "--undo").code == 0
    assert prompt(tmp_path) == PROMPT


def test_a_source_that_somebody_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = write_world(tmp_path, set_optimize(isolation="isolated"))
    agent = (tmp_path / "numbers_agent.py").read_text(encoding="utf-8")
    changed = agent.replace(
        'told = (PROMPTS / "system.md").read_text(encoding="utf-8")',
        '(PROMPTS / "system.md").write_text("mine now", encoding="utf-8")\n'
        '    told = prompt("system")',
    ).replace("from pathlib", "from burnish.targets.user_code import prompt\nfrom pathlib")
    (tmp_path / "numbers_agent.py").write_text(changed, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        optimize(reflector(), file=file, update_source=True, **flags(tmp_path))
    assert "is not what the run measured" in str(error.value)
    assert prompt(tmp_path) == "mine now"


def test_adopting_shows_the_diff_and_undoes(tmp_path: Path, burnish: Burnish) -> None:
    file = write_world(tmp_path)
    optimize(reflector(), file=file, **flags(tmp_path))
    diff = burnish("adopt", "run", "--diff").out
    added = BETTER.strip().removeprefix(PROMPT.strip())
    assert f"~{PROMPT.strip()}{{+{added}+}}" in diff
    assert prompt(tmp_path) == PROMPT
    assert burnish("adopt", "run", "--yes").code == 0
    assert prompt(tmp_path) == BETTER
    assert burnish("adopt", "run", "--undo").code == 0
    assert prompt(tmp_path) == PROMPT
    (tmp_path / "prompts" / "system.md").write_text("mine", encoding="utf-8")
    refused(burnish("adopt", "run", "--yes"), "is not what the run measured")


def test_a_run_goes_on_without_its_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_world(tmp_path)
    optimize(reflector(WORSE), file=file, max_trials=1, **flags(tmp_path))
    assert record(tmp_path).trials == 1
    spent = record(tmp_path).rows[-1].number
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    way = RunOpening(resume=str(tmp_path / "run"))
    optimize(reflector(BETTER), way=way, max_trials=4)
    assert record(tmp_path).best is not None
    assert record(tmp_path).rows[spent].trial.phase == "reflective"
    best = record(tmp_path).best_candidate
    assert best is not None
    assert best.values["system"] == BETTER


@pytest.mark.usefixtures("own_variables")
def test_runs_resume_needs_no_flags_either(
    tmp_path: Path, burnish: Burnish, capsys: pytest.CaptureFixture[str]
) -> None:
    write_world(tmp_path)
    metrics = tmp_path / "metrics.json"
    metrics.write_text(json.dumps([{"type": "standard", "metric": "equality"}]), encoding="utf-8")
    told: dict[str, Any] = {**flags(tmp_path), "metrics": str(metrics), "reflector": "openai:m"}
    optimize(reflector(WORSE), max_trials=1, **told)
    (tmp_path / ".env").write_text(f"OPENAI_API_KEY={KEY}\n", encoding="utf-8")
    said = burnish("runs", "resume", "run", "-q")
    assert said.code == 0, said
    assert "max_trials: 1 of 1 trials" in said.out


def test_flags_alone_run_resume_and_fork(tmp_path: Path) -> None:
    write_world(tmp_path)
    metrics = tmp_path / "metrics.json"
    metrics.write_text(json.dumps([{"type": "standard", "metric": "equality"}]), encoding="utf-8")
    told: dict[str, Any] = {**flags(tmp_path), "metrics": str(metrics), "reflector": "openai:m"}
    optimize(reflector(WORSE), max_trials=1, **told)
    assert record(tmp_path).header.project.kind == "prompts"
    optimize(reflector(BETTER), way=RunOpening(resume="run"), max_trials=3)
    assert record(tmp_path).accepted == 1
    fork = RunOpening(fork="run", output_dir=tmp_path / "fork")
    optimize(reflector(BETTER), way=fork, max_trials=2)
    assert record(tmp_path, "fork").header.forked_from == "run"


def test_the_sealed_test_is_read_once_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_world(tmp_path, set_algorithm(name="reflective", max_metric_calls=60))
    sealed = str(tmp_path / "sealed.evalset.json")
    optimize(reflector(), file=file, test=sealed, **flags(tmp_path))
    assert "0.000 → 1.000" in capsys.readouterr().out


def test_the_baseline_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_world(tmp_path)
    backend = reflector()
    optimize(backend, file=file, print_baseline=True, **flags(tmp_path))
    told = capsys.readouterr().out
    assert not backend.asked
    assert "pass rate" in told
    assert "final_response_avg_score" in told


def test_a_dry_run_says_the_floor_and_calls_nobody(tmp_path: Path, burnish: Burnish) -> None:
    write_world(tmp_path)
    before = tree(tmp_path)
    said = burnish("optimize", "optimizer.json", *FLAGS, "--dry-run")
    assert said.code == 0, said
    for part in (
        "agent     numbers_agent:call_agent, prompts in mode 'source'",
        "strategy  reflective (classic), seed 42, reflector openai:m",
        "system: 41 characters",
        "cases     train 4, holdout 3, no sealed test",
        "reflects  on 3 cases a round",
        "max_metric_calls 30, max_proposals 4, metric_thresholds final_response_avg_score 1",
        "baseline  about 3 calls",
        "about 6 calls",
        "at least  12 metric calls and 14 calls to finish one round",
        "nothing was paid",
    ):
        assert part in said.out, part
    assert tree(tmp_path) == before


def test_a_limit_under_which_no_round_could_end_is_refused_before_any_call(
    tmp_path: Path,
) -> None:
    write_world(tmp_path)
    file = tmp_path / "prompts.yaml"
    told = {
        "kind": "prompts",
        "target": {"python": "numbers_agent:call_agent"},
        "prompts": {"system": "prompts/system.md"},
        "train": "train.evalset.json",
        "holdout": "val.evalset.json",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "strategy": "auto",
        "repeats": 1,
        "reflector": "openai:m",
        "budget": {"max_calls": 40, "max_trials": 1},
    }
    file.write_text(json.dumps(told), encoding="utf-8")
    backend = reflector()
    for more in ({}, {"dry_run": True}):
        with pytest.raises(ConfigError, match=r"8 calls cannot finish one round.*allow 22"):
            optimize(backend, file=file, max_calls=8, **more)
    assert not backend.asked
    assert not (tmp_path / "run").exists()
    optimize(backend, file=file)
    # A resume and a fork take over what is paid for.
    asked = len(backend.asked)
    optimize(backend, way=RunOpening(resume="run"), max_calls=8, dry_run=True)
    fork = RunOpening(fork="run", output_dir=Path("forked"))
    optimize(backend, file=file, way=fork, max_calls=15)
    assert record(tmp_path, "forked").best_candidate is not None
    assert len(backend.asked) == asked


def test_flags_that_make_no_sense(tmp_path: Path, burnish: Burnish, toy: Path) -> None:
    write_world(tmp_path)
    refused(burnish("optimize", "optimizer.json"), "--agent", "--prompt", "--train", "--val")
    refused(
        burnish("optimize", str(toy), "--agent", "a:b"), "only a target of the kind 'prompts' has"
    )
    two = ("--prompt", "a=x", "--prompt", "a=y", "--prompt", "b")
    refused(burnish("optimize", "optimizer.json", *two), "two files", "NAME=FILE")
    looks = (*FLAGS, "--print-baseline", "--update-source")
    refused(burnish("optimize", "optimizer.json", *looks), "--print-baseline")
    refused(burnish("optimize", "optimizer.json", *FLAGS, "--max-cycles", "2"), "--max-cycles")
    refused(burnish("optimize", "prompts", *FLAGS), "this is a folder, not a file")


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("auto", {"proposer": "openai:m"}),
        ("coordinate", {"critic": "openai:m", "coordinate": {"max_cycles": 1, "patience": 1}}),
        ("reflective", {"reflector": "openai:m"}),
    ],
)
def test_prompts_of_a_project_file(strategy: str, settings: dict[str, Any], tmp_path: Path) -> None:
    write_world(tmp_path)
    file = tmp_path / "prompts.yaml"
    told = {
        "kind": "prompts",
        "target": {"python": "numbers_agent:call_agent"},
        "prompts": {"system": "prompts/system.md"},
        "train": "train.evalset.json",
        "holdout": "val.evalset.json",
        "metrics": [{"type": "standard", "metric": "equality"}],
        "strategy": strategy,
        "repeats": 1,
        "budget": {"max_trials": 2},
        **settings,
    }
    file.write_text(json.dumps(told), encoding="utf-8")
    optimize(reflector(), file=file)
    found = record(tmp_path)
    assert found.header.strategy == strategy
    assert found.best_candidate is not None
    assert found.best_candidate.values == {"system": BETTER}
    assert prompt(tmp_path) == PROMPT


class ReflectingEcho(EchoBackend):
    """The agent of the optimizer's tests, whose texts a reflector rewrites."""

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """A rewrite with the word that is needed, or what the agent says; nothing is blamed."""
        if request.schema_name == "backwarder":
            return ChatReply(text=json.dumps({"gradients": []}), model=ref.name)
        if request.schema_name != "reflector":
            return await super().complete(ref, request, draw=draw)
        text = f"Answer {{question}} {ECHO_RULE}.\n"
        said = {"diagnosis": "it was not told how", "new_text": text}
        return ChatReply(text=json.dumps(said), model=ref.name)


def test_auto_over_an_agent_file_finds_texts_and_numbers(tmp_path: Path) -> None:
    def longer(data: dict[str, Any]) -> None:
        block = optimizer(data)
        block["budget"] = {"global": {"max_trials": 24}}
        block["repeats"] = 1

    file = write_agent(tmp_path, longer)
    request = OptimizeRequest(
        file=file,
        flags={"strategy": "auto", "proposer": "openai:m"},
        way=RunOpening(output_dir=Path("run")),
    )
    backend = ReflectingEcho(respond=lambda _, __: "")
    optimize_project(request, models=echo_models(backend))
    found = record(tmp_path)
    assert found.header.strategy == "auto"
    assert found.best_candidate is not None
    assert ECHO_RULE in str(found.best_candidate.values["instructions.inline"])
    assert "## Who found what" in (tmp_path / "run" / "report.md").read_text(encoding="utf-8")
    accepted = {row.trial.phase for row in found.rows if row.trial.accepted}
    assert {"reflection", "numbers"} <= accepted


def test_reflection_over_an_agent_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def only_texts(data: dict[str, Any]) -> None:
        block = optimizer(data)
        block["axes"] = {"textual": [{"path": "instructions.inline", "max_chars": 400}]}
        block["budget"] = {"global": {"max_trials": 2}}
        block["repeats"] = 1
        block["reflective"] = {"minibatch": 6}

    file = write_agent(tmp_path, only_texts)
    backend = ReflectingEcho(respond=lambda _, __: "")
    request = OptimizeRequest(
        file=file,
        flags={"strategy": "reflective", "reflector": "openai:m"},
        way=RunOpening(output_dir=Path("run")),
        progress="lines",
    )
    optimize_project(replace(request, dry_run=True), models=echo_models(backend))
    optimize_project(request, models=echo_models(backend))
    assert "strategy  reflective (racing)" in capsys.readouterr().out
    found = record(tmp_path)
    assert found.header.strategy == "reflective"
    assert found.best_candidate is not None
    assert ECHO_RULE in str(found.best_candidate.values["instructions.inline"])
