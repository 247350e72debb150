"""The optimizer block: both shapes load, and flag, file, environment and default come in order."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, TextSurface
from burnish.models.roles import ModelRole
from burnish.projects import LoadedProject, load_project
from burnish.projects.measurements import load_measurement
from burnish.runs.setup import Setup
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, PhaseLimits
from tests.projects.optimizer_world import Change, echo, echo_models, optimizer, write_world


def prepared(
    path: Path, environ: Mapping[str, str] | None = None, **flags: float | str
) -> LoadedProject:
    told = flags
    return load_project(path, told, environ=environ or {}, models=echo_models(echo()))


def settings_of(setup: Setup) -> CoordinateSettings:
    assert isinstance(setup.strategy, Coordinate)
    return setup.strategy.settings


def writers(setup: Setup) -> list[str]:
    """The models of critic and applier."""
    return [role.client.ref.label for role in setup.strategy.roles if isinstance(role, ModelRole)]


SEEDS: dict[str, Any] = {
    "loss": {"equality": 0.7, "numeric": 0.3},
    "penalties": {"cost_per_usd": 0.0, "latency_per_sec": 0.1},
    "constraints": [{"metric": "latency_sec", "op": "<=", "value": 2.0}],
    "train_cases_file": "train.yaml",
    "holdout_cases_file": "holdout.yaml",
    "sealed_cases_file": "sealed.yaml",
    "holdout_eval_policy": "every_trial",
    "min_holdout_cases": 3,
    "repeats": 4,
    "accept_sigma": 2.0,
    "max_errored_fraction": 0.1,
    "min_confidence": 0.6,
    "numeric_convergence_eps": 0.01,
    "axes": {
        "numeric": [
            {"path": "model.temperature", "range": [0.0, 1.0]},
            {"path": "tools[name=mixed].top_k", "range": [3, 20], "type": "int"},
            {"path": "model.name", "type": "categorical", "choices": ["m", "m-large"]},
        ],
        "textual": [
            {"path": "instructions.inline", "max_chars": 4000},
            {"path": "tools[name=mixed].description", "max_chars": 200},
        ],
        "demonstrations": {"max_demos": 3, "max_chars": 900},
    },
    "budget": {
        "global": {"max_cycles": 5, "max_minutes": 60, "max_calls": 900},
        "numeric_phase": {"max_trials": 12, "patience": 3},
        "textual_phase": {"max_trials": 7},
        "demonstration_phase": {"max_trials": 6, "patience": 2},
    },
    "critic": {"provider": "anthropic", "name": "big"},
    "strategy": "coordinate",
    "seed": 7,
}


def given(block: dict[str, Any]) -> Change:
    def change(data: dict[str, Any]) -> None:
        data["evaluations"]["metrics"].append({"type": "standard", "metric": "numeric"})
        data["evaluations"]["optimizer"] = block

    return change


def test_the_seeds_shape_becomes_a_setup(tmp_path: Path) -> None:
    setup = prepared(write_world(tmp_path, given(SEEDS), tools=True)).setup
    kinds = {surface.id: type(surface) for surface in setup.target.surfaces}
    assert kinds == {
        "model.temperature": NumberSurface,
        "tools[name=mixed].top_k": NumberSurface,
        "model.name": ChoiceSurface,
        "instructions.inline": TextSurface,
        "tools[name=mixed].description": TextSurface,
        "demonstrations": DemosSurface,
    }
    settings = settings_of(setup)
    assert settings.numbers == ("model.temperature", "tools[name=mixed].top_k", "model.name")
    assert (settings.repeats, settings.accept_sigma, settings.max_cycles) == (4, 2.0, 5)
    assert settings.holdout_policy == "every_trial"
    assert (settings.max_errored_fraction, settings.min_confidence) == (0.1, 0.6)
    assert settings.numeric_phase == PhaseLimits(max_trials=12, patience=3)
    assert settings.textual_phase == PhaseLimits(max_trials=7, patience=4)
    assert settings.demonstration_phase == PhaseLimits(max_trials=6, patience=2)
    assert (setup.seed, setup.budget.max_minutes, setup.budget.max_calls) == (7, 60, 900)
    assert setup.objective.weights == {"equality": 0.7, "numeric": 0.3}
    assert setup.objective.penalties.latency_per_sec == 0.1
    assert [str(constraint) for constraint in setup.objective.constraints] == ["latency_sec <= 2"]
    assert [len(cases) for cases in vars(setup.dataset).values()] == [6, 3, 3]
    assert setup.test_repeats == 4
    assert writers(setup) == ["anthropic:big", "anthropic:big"]


def test_placeholders_of_the_text_must_stay(tmp_path: Path) -> None:
    setup = prepared(write_world(tmp_path)).setup
    text = next(s for s in setup.target.surfaces if isinstance(s, TextSurface))
    assert text.placeholders == ("{question}",)
    assert text.max_chars == 400


def test_the_shipped_shape_loads_too(tmp_path: Path) -> None:
    shipped = {
        "loss": {"equality": 1.0},
        "axes": {
            "numeric": [
                {"path": "model.temperature", "type": "float", "range": [0.0, 1.0]},
                {"path": "model.name", "type": "categorical", "range": ["m", "m-large", "m-tiny"]},
            ],
            "textual": [{"path": "instructions.inline"}],
        },
        "max_cycles": 3,
        "numeric_phase": {"max_trials": 10, "patience": 5},
        "textual_phase": {"max_trials": 5, "patience": 3},
        "min_delta": 0.01,
        "seed": 41,
        "train_cases_file": "train.yaml",
        "holdout_cases_file": "holdout.yaml",
        "min_holdout_cases": 1,
    }
    setup = prepared(write_world(tmp_path, given(shipped))).setup
    settings = settings_of(setup)
    assert (settings.max_cycles, setup.seed, settings.repeats) == (3, 41, 3)
    assert settings.numeric_phase == PhaseLimits(max_trials=10, patience=5)
    assert settings.textual_phase == PhaseLimits(max_trials=5, patience=3)
    choice = next(s for s in setup.target.surfaces if isinstance(s, ChoiceSurface))
    assert choice.choices == ("m", "m-large", "m-tiny")
    assert any(note.startswith("min_delta has no effect") for note in setup.notes)


@pytest.mark.parametrize(
    ("flag", "name", "in_file", "value"),
    [
        ("repeats", "repeats", ("repeats",), 5),
        ("accept_sigma", "accept_sigma", ("accept_sigma",), 0.5),
        ("max_cycles", "max_cycles", ("budget", "global", "max_cycles"), 9),
        ("numeric_max_trials", "numeric_phase.max_trials",
         ("budget", "numeric_phase", "max_trials"), 11),
        ("numeric_patience", "numeric_phase.patience", ("budget", "numeric_phase", "patience"), 2),
        ("textual_max_trials", "textual_phase.max_trials",
         ("budget", "textual_phase", "max_trials"), 6),
        ("textual_patience", "textual_phase.patience", ("budget", "textual_phase", "patience"), 1),
    ],
)  # fmt: skip
def test_flag_then_file_then_environment_then_default(
    tmp_path: Path, flag: str, name: str, in_file: tuple[str, ...], value: float
) -> None:
    def found(*changes: Change, environ: Mapping[str, str] | None = None, **flags: float) -> object:
        path = write_world(tmp_path, emptied, *changes)
        node: object = settings_of(prepared(path, environ, **flags).setup)
        for step in name.split("."):
            node = getattr(node, step)
        return node

    def emptied(data: dict[str, Any]) -> None:
        block = optimizer(data)
        block["budget"] = {"global": {}, "numeric_phase": {}, "textual_phase": {}}
        del block["repeats"]

    def written(data: dict[str, Any]) -> None:
        *way, last = in_file
        node = optimizer(data)
        for step in way:
            node = node[step]
        node[last] = 3

    weak = {f"BURNISH_{flag.upper()}": "4"}
    usual: object = CoordinateSettings()
    for step in name.split("."):
        usual = getattr(usual, step)
    assert found() == usual
    assert found(environ=weak) == 4
    assert found(written, environ=weak) == 3
    assert found(written, environ=weak, **{flag: value}) == value


def test_sealed_cases_critic_and_applier_come_from_flag_file_or_environment(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    sealed = str(tmp_path / "sealed.yaml")
    setup = prepared(path, test=sealed, critic="anthropic:a", applier="openai:b").setup
    assert len(setup.dataset.test) == 3
    assert writers(setup) == ["anthropic:a", "openai:b"]
    weak = prepared(path, {"BURNISH_CRITIC": "anthropic:c"}).setup
    assert writers(weak) == ["anthropic:c", "anthropic:c"]
    assert writers(prepared(path).setup) == ["openai:m", "openai:m"]


def test_a_local_agent_leaves_texts_out_unless_a_critic_is_named(tmp_path: Path) -> None:
    def local(data: dict[str, Any]) -> None:
        data["model"] = {"provider": "local", "name": "smollm2", "temperature": 0.5}

    path = write_world(tmp_path, local)
    alone = prepared(path).setup
    assert settings_of(alone).texts == ()
    assert settings_of(alone).numbers == ("model.temperature",)
    assert any(note.startswith("the textual phase is left out") for note in alone.notes)
    helped = prepared(path, critic="openai:m").setup
    assert settings_of(helped).texts == ("instructions.inline",)
    assert not any("left out" in note for note in helped.notes)

    def texts_only(data: dict[str, Any]) -> None:
        local(data)
        optimizer(data)["axes"] = {"textual": [{"path": "instructions"}]}

    with pytest.raises(ConfigError, match=r"critic: the agent's own model is a local one"):
        prepared(write_world(tmp_path, texts_only))


def test_without_a_holdout_the_agents_own_cases_will_do_with_a_loud_warning(tmp_path: Path) -> None:
    def skipping(data: dict[str, Any]) -> None:
        block = optimizer(data)
        del block["train_cases_file"], block["holdout_cases_file"]
        block["holdout_eval_policy"] = "skip"
        data["test_cases_file"] = "train.yaml"

    setup = prepared(write_world(tmp_path, skipping)).setup
    assert (len(setup.dataset.train), len(setup.dataset.holdout)) == (6, 0)
    assert any("NOTHING GUARDS AGAINST OVERFITTING" in note for note in setup.notes)
    assert any("the search learns from the agent's test cases" in note for note in setup.notes)


def test_concurrency_and_limits_follow_the_same_order(tmp_path: Path) -> None:
    def said(data: dict[str, Any]) -> None:
        data["execution"] = {"parallel_test_cases": 3}
        optimizer(data)["budget"]["global"] |= {"max_usd": 2.0, "max_trials": 9}

    environ = {"BURNISH_CONCURRENCY": "5", "BURNISH_MAX_CALLS": "70"}
    plain = prepared(write_world(tmp_path), environ).setup
    assert (plain.concurrency, plain.budget.max_calls) == (5, 70)
    setup = prepared(write_world(tmp_path, said), environ, max_usd=1.0).setup
    assert setup.concurrency == 3
    assert (setup.budget.max_usd, setup.budget.max_trials) == (1.0, 9)
    assert prepared(write_world(tmp_path, said), concurrency=2).setup.concurrency == 2


def test_how_long_an_outage_is_waited_for_stands_beside_how_cases_are_run(tmp_path: Path) -> None:
    def said(data: dict[str, Any]) -> None:
        data |= {"execution": {"wait_minutes": 20}, "test_cases": [{"input": "a"}]}

    assert prepared(write_world(tmp_path)).setup.wait_minutes == 5
    file = write_world(tmp_path, said)
    assert prepared(file).setup.wait_minutes == 20
    measured = load_measurement(file, {}, environ={}, models=echo_models(echo()))
    assert measured.setup.wait_minutes == 20
    assert prepared(file).setup.notes == prepared(write_world(tmp_path)).setup.notes


def test_runs_lie_beside_the_agent_and_keep_their_flags(tmp_path: Path) -> None:
    project = prepared(write_world(tmp_path), repeats=3, keep_best_only=True)
    assert project.root == tmp_path / "results" / "optimizer"
    assert project.setup.project.kind == "agent"
    assert set(project.setup.project.config) == {"files"}
    spec: Any = project.setup.project.spec
    assert spec["strategy"]["settings"]["repeats"] == 3
    assert spec["output"] == {"keep_best_only": True}
