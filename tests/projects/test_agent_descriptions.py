"""Agent files as descriptions: what is kept, and what flags and other strategies may say."""

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.cli.optimization import OptimizeRequest, RunOpening, optimize_project
from burnish.core.errors import ConfigError, ReplayDiverged
from burnish.core.surfaces import TextSurface
from burnish.projects import LoadedProject, load_project
from burnish.projects.description import describe, from_stored
from burnish.projects.dialects import Document
from burnish.runs.build import build, kept_spec
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.coordinate.trials import CoordinateSettings
from tests.projects.optimizer_world import (
    echo,
    echo_models,
    optimizer,
    write_cases,
    write_world,
)

COMMENTED = """\
name: clerk
model: {provider: openai, name: m, api_key: "${CLERK_KEY}"}  # the small one
instructions: {inline: "Answer ${TONE}."}
evaluations:
  metrics: [{type: standard, metric: equality}]
  optimizer:
    loss: {equality: 1.0}
    train_cases_file: train.yaml
    holdout_cases_file: holdout.yaml
    min_holdout_cases: 1
    axes: {textual: [{path: instructions}]}
"""


def described(path: Path, **flags: Any) -> Any:
    return describe(Document.read(path), flags, environ={})


def prepared(path: Path, **flags: Any) -> LoadedProject:
    return load_project(path, flags, environ={}, models=echo_models(echo()))


def problems(path: Path, **flags: Any) -> list[str]:
    with pytest.raises(ConfigError) as error:
        prepared(path, **flags)
    return [str(problem) for problem in error.value.problems]


@pytest.fixture
def commented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with comments and variables."""
    write_world(tmp_path)
    monkeypatch.setenv("TONE", "politely")
    monkeypatch.setenv("CLERK_KEY", "sk-of-the-clerk-0123456789")
    path = tmp_path / "clerk.yaml"
    path.write_text(COMMENTED, encoding="utf-8")
    return path


def again(description: Any) -> Setup:
    """The run as it would be built from what run.json keeps."""
    kept = json.loads(json.dumps(kept_spec(description)))
    return build(from_stored(kept, {}), models=echo_models(echo()))


def exported(setup: Setup, folder: Path) -> str:
    assert setup.exporter is not None
    files = setup.exporter(setup.target.baseline, folder / "run", 1).files
    return next(content.decode() for name, content in files.items() if name.endswith(".yaml"))


# -- what is kept ----------------------------------------------------------------------------


def test_variables_are_kept_by_name_and_count_by_value(commented: Path) -> None:
    description = described(commented)
    kept: Any = kept_spec(description)
    assert kept["target"]["document"]["instructions"] == {"inline": "Answer ${TONE}."}
    assert kept["target"]["document"]["model"]["api_key"] == "${CLERK_KEY}"
    assert "optimizer" not in kept["target"]["document"]["evaluations"]
    (text,) = again(description).target.baseline.values.values()
    assert text == "Answer politely."


def with_variables(data: dict[str, Any]) -> None:
    block = optimizer(data)
    block["budget"] = {"global": {"max_trials": "${TRIALS}"}}
    block["train_cases_file"] = "${CASES}.yaml"
    block["critic"] = {"provider": "openai", "name": "${CRITIC}"}
    block["axes"] = {"numeric": [{"path": "model.temperature", "range": [0, "${HIGH}"]}]}


@pytest.mark.slow
def test_variables_of_the_optimizer_block_are_kept_by_name_and_expanded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def optimize(way: RunOpening, **flags: Any) -> None:
        request = OptimizeRequest(file=file, way=way, flags=flags, quiet=True)
        optimize_project(request, models=echo_models(echo()))

    monkeypatch.chdir(tmp_path)
    values = {"TRIALS": "1", "CASES": "train", "CRITIC": "m", "HIGH": "1.0"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    file = write_world(tmp_path, with_variables)
    optimize(RunOpening(output_dir=Path("run")))
    kept = json.loads(Path("run/run.json").read_text(encoding="utf-8"))["project"]["spec"]
    assert kept["budget"]["max_trials"] == "${TRIALS}"
    assert kept["data"]["train"] == "${CASES}.yaml"
    assert kept["roles"]["critic"]["name"] == "${CRITIC}"
    assert kept["target"]["axes"]["numeric"][0]["range"] == [0, "${HIGH}"]
    assert len(RunRecord.read(Path("run")).rows) == 1 + 1  # the baseline is a row too
    monkeypatch.setenv("TRIALS", "3")
    optimize(RunOpening(resume="run"))
    assert len(RunRecord.read(Path("run")).rows) == 1 + 3
    monkeypatch.setenv("HIGH", "0.95")
    with pytest.raises(ReplayDiverged, match="nothing was paid"):
        optimize(RunOpening(resume="run"), max_trials=4)
    monkeypatch.delenv("HIGH")
    with pytest.raises(ConfigError, match=r"target\.axes\.numeric.*HIGH"):
        optimize(RunOpening(resume="run"), max_trials=4)


def test_a_flag_wins_over_a_variable_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"TRIALS": "1", "CASES": "train", "CRITIC": "m", "HIGH": "1"}.items():
        monkeypatch.setenv(name, value)
    file = write_world(tmp_path, with_variables)
    description = described(file, max_trials=7)
    kept: Any = kept_spec(description)
    assert kept["budget"]["max_trials"] == 7
    assert ["budget", "max_trials"] not in kept["source"]["variables"]
    assert from_stored(kept, {"max_trials": 9}).spec.budget.max_trials == 9
    assert from_stored(kept, {}).spec == description.spec


def test_comments_come_from_the_file_as_long_as_it_says_the_same(
    commented: Path, tmp_path: Path
) -> None:
    description = described(commented)
    first = exported(build(description, models=echo_models(echo())), tmp_path)
    assert "# the small one" in first
    assert "train_cases_file: ../../train.yaml" in first
    text = COMMENTED.replace("min_holdout_cases: 1", "min_holdout_cases: 2")
    commented.write_text(text, encoding="utf-8")
    assert "# the small one" in exported(again(description), tmp_path)


@pytest.mark.parametrize("left", ["", COMMENTED.replace("name: m", "name: n")])
def test_the_kept_agent_is_built_whatever_became_of_its_file(
    commented: Path, tmp_path: Path, left: str
) -> None:
    description = described(commented)
    before = build(description, models=echo_models(echo()))
    if left:
        commented.write_text(left, encoding="utf-8")
    else:
        commented.unlink()
    setup = again(description)
    assert setup.target.description.fingerprint == before.target.description.fingerprint
    assert setup.target.baseline.values == before.target.baseline.values
    yaml = exported(setup, tmp_path)
    assert "# the small one" not in yaml
    assert "name: m\n" in yaml
    assert "inline: Answer ${TONE}." in yaml


def test_inline_cases_are_kept_with_the_agent(tmp_path: Path) -> None:
    def inline(data: dict[str, Any]) -> None:
        block = optimizer(data)
        del block["train_cases_file"], block["holdout_cases_file"]
        block["holdout_eval_policy"] = "skip"
        data["test_cases"] = [
            {"name": "one", "input": "rule one 1?", "ground_truth": "one1"},
        ]

    path = write_world(tmp_path, inline)
    description = described(path)
    path.write_text("{}", encoding="utf-8")
    assert [case.id for case in again(description).dataset.train] == ["one"]


# -- what flags may say ----------------------------------------------------------------------


def test_flags_name_other_cases_and_metrics(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    write_cases(tmp_path / "more.yaml", "more", 3)
    write_cases(tmp_path / "other.yaml", "other", 2)
    metrics = tmp_path / "metrics.yaml"
    metrics.write_text("- {type: standard, metric: equality}\n", encoding="utf-8")
    flags = {
        "train": str(tmp_path / "more.yaml"),
        "holdout": str(tmp_path / "other.yaml"),
        "metrics": str(metrics),
    }
    setup = prepared(path, **flags).setup
    assert [len(setup.dataset.train), len(setup.dataset.holdout)] == [9, 6]
    assert [metric.name for metric in setup.metrics] == ["equality"]
    missing = problems(path, train=str(tmp_path / "gone.yaml"))
    assert missing[0].startswith("--train: cannot read")


def test_cases_of_the_agent_that_nobody_asked_for_are_not_read(tmp_path: Path) -> None:
    def broken(data: dict[str, Any]) -> None:
        data["test_cases_file"] = "gone.yaml"

    assert len(prepared(write_world(tmp_path, broken)).setup.dataset.train) == 6


@pytest.mark.parametrize("flag", ["in_place", "update_source"])
def test_a_run_does_not_write_the_agent_file(tmp_path: Path, flag: str) -> None:
    (problem,) = problems(write_world(tmp_path), **{flag: True})
    assert problem.startswith(f"--{flag.replace('_', '-')}: runs do not write agent files")


# -- the settings of strategies --------------------------------------------------------------


def test_settings_of_another_strategy_have_no_effect(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        optimizer(data).update(minibatch=4, reflective={"minibatch": 5})
        optimizer(data)["budget"]["global"]["max_rounds"] = 9

    path = write_world(tmp_path, change)
    settings = described(path).spec.strategy.settings
    assert isinstance(settings, CoordinateSettings)
    other = described(write_world(tmp_path), strategy="backprop").spec.strategy.settings
    assert isinstance(other, BackpropSettings)
    assert other.repeats == 2


def test_a_strategy_takes_its_settings_from_the_block_or_from_under_its_name(
    tmp_path: Path,
) -> None:
    def right_in(data: dict[str, Any]) -> None:
        optimizer(data).update(minibatch=4, strategy="reflective")

    def under(data: dict[str, Any]) -> None:
        optimizer(data).update(reflective={"minibatch": 4}, strategy="reflective")

    def both(data: dict[str, Any]) -> None:
        right_in(data)
        under(data)

    for change in (right_in, under):
        spec = described(write_world(tmp_path, change)).spec
        assert spec.strategy.settings.minibatch == 4
    with pytest.raises(ConfigError, match="minibatch is set twice: here and under reflective"):
        described(write_world(tmp_path, both))


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ({"globl": {}}, "optimizer.budget.globl: unknown key 'globl' — did you mean 'global'?"),
        (
            {"global": {"max_cycle": 3}},
            "budget.global.max_cycle: unknown key 'max_cycle' — did you mean 'max_cycles'?",
        ),
        ({"critic": "openai:m"}, "optimizer.budget.critic: unknown key 'critic'"),
        ({"reflective": {}}, "optimizer.budget.reflective: unknown key 'reflective'"),
        ([], "optimizer.budget: expected keys with values"),
        ({"numeric_phase": {"max_trials": "x"}}, "budget.numeric_phase.max_trials: expected"),
    ],
)
def test_what_nobody_knows_under_budget_is_an_error(
    tmp_path: Path, budget: Any, problem: str
) -> None:
    def change(data: dict[str, Any]) -> None:
        optimizer(data)["budget"] = budget

    (message,) = problems(write_world(tmp_path, change))
    assert problem in message


def test_an_explicit_kind_is_taken_too(tmp_path: Path) -> None:
    path = write_world(tmp_path, lambda data: data.update(kind="agent"))
    setup = build(described(path), models=echo_models(echo()))
    assert any(isinstance(surface, TextSurface) for surface in setup.target.surfaces)
