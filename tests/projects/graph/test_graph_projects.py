"""Graph files as projects: what they become, and everything that is wrong said at once."""

from pathlib import Path
from typing import Any

import pytest

from burnish.core.errors import ConfigError
from burnish.projects.file_kinds import GraphFile
from burnish.strategies.backprop.packets import BackpropSettings, GuardSettings, Severity
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.reflective.search import Reflective
from tests.projects.graph.graph_world import Change, file, optimizer, prepared, write_world


def problems(path: Path, **flags: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        prepared(path, **flags)
    return [str(problem) for problem in caught.value.problems]


def settings(path: Path, **flags: Any) -> BackpropSettings:
    strategy = prepared(path, **flags).setup.strategy
    assert isinstance(strategy, Backprop)
    return strategy.settings


def test_a_graph_file_becomes_a_search(tmp_path: Path) -> None:
    setup = prepared(write_world(tmp_path)).setup
    assert setup.strategy.name == "backprop"
    assert [role.name for role in setup.strategy.roles] == ["backwarder", "aggregator", "patcher"]
    assert [s.id for s in setup.target.surfaces if s.kind == "text"] == [
        "shop/planner#instruction",
        "shop/writer#instruction",
    ]
    assert len(setup.dataset.train) == len(setup.dataset.holdout) == 3
    assert list(setup.objective.weights) == ["equality"]
    setup.check()


def test_every_setting_of_the_block_reaches_the_strategy(tmp_path: Path) -> None:
    said: dict[str, Any] = {
        "targets": ["planner#instruction", "shop/writer#model.temperature"],
        "ranges": {"writer#model.temperature": [0, 1]},
        "max_rounds": 7,
        "max_rounds_without_acceptance": 3,
        "target_score": 0.9,
        "min_score_gain": 0.05,
        "gate": "sigma",
        "accept_sigma": 2,
        "guards": {
            "protected": ["holdout-1"],
            "no_new_failures": True,
            "floors": {"equality": 0.2},
        },
        "repeats": 2,
        "candidates_per_round": 2,
        "cases_per_round": 4,
        "loss_hints": [{"case": "train-0", "metric": "equality", "reason": "r", "severity": "P0"}],
        "loss_targets": {"equality": "writer"},
        "backward_parallelism": {"enabled": False},
        "aggregation_parallelism": 3,
        "patch_parallelism": False,
        "merge_single": True,
    }
    found = settings(write_world(tmp_path, optimizer(**said)))
    assert found.targets == ("shop/planner#instruction", "shop/writer#model.temperature")
    assert found.max_rounds == 7
    assert (found.max_rounds_without_acceptance, found.target_score) == (3, 0.9)
    assert (found.min_score_gain, found.gate, found.accept_sigma) == (0.05, "sigma", 2)
    assert (found.guards.protected, found.guards.no_new_failures) == (("holdout-1",), True)
    assert found.guards.floors == {"equality": 0.2}
    assert (found.repeats, found.candidates_per_round, found.cases_per_round) == (2, 2, 4)
    assert found.loss_hints[0].severity is Severity.P0
    assert found.loss_targets == {"equality": "shop/writer"}
    assert found.backward_parallelism == found.patch_parallelism == 1
    assert found.aggregation_parallelism == 3
    assert found.merge_single


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    path = write_world(tmp_path)
    found = settings(path, max_rounds=9, repeats=3, accept_sigma=0.5)
    assert (found.max_rounds, found.repeats, found.accept_sigma) == (9, 3, 0.5)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"max_cycles": 2}, "--max-cycles: 'backprop' over 'graph' does not use it"),
        ({"strategy": "coordinate", "max_rounds": 2}, "it is for the strategy 'backprop'"),
        ({"strategy": "reflective", "max_cycles": 2}, "it is for the strategy 'coordinate'"),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(
    tmp_path: Path, flags: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        prepared(write_world(tmp_path), **flags)


MISTAKES: list[tuple[Change, str, str]] = [
    (file(trian="x"), "unknown key 'trian'", "train"),
    (optimizer(max_round=3), "unknown key 'max_round'", "max_rounds"),
    (optimizer(targets=["planer#instruction"]), "no surface 'planer#", "planner#instruction"),
    (optimizer(choices={"shop/writer#modle": ["openai:m"]}), "no surface", "#model"),
    (optimizer(ranges={"writer#model.temperature": [0.6, 1]}), "0.5", "widen the range"),
    (optimizer(loss_targets={"equality": "plannr"}), "no node 'plannr'", "planner"),
    (optimizer(loss_targets={"equalty": "planner"}), "no metric 'equalty'", "equality"),
    (
        optimizer(guards={"protected": ["train-0"]}),
        "no case of holdout 'train-0'",
        "there are",
    ),
    (
        optimizer(loss_hints=[{"case": "x", "metric": "equality", "reason": "r"}]),
        "no case of train 'x'",
        "train-0",
    ),
    (optimizer(strategy="evolve"), "no strategy 'evolve'", "there are: auto, backprop"),
    (
        optimizer(strategy="edits"),
        "optimizer.strategy: 'edits' needs files, but a file of kind 'graph' has none",
        "there are: auto, backprop, coordinate, frugal, reflective",
    ),
    (optimizer(strategy="reflective", max_rounds=0), "optimizer.max_rounds", "at least 1"),
    (optimizer(coordinate={"max_cycle": 2}), "unknown key 'max_cycle'", "max_cycles"),
    (file(proposer="openai:m"), "unknown key 'proposer'", "known keys"),
    (lambda data: data["edges"].append("writer -> plan"), "no node 'plan'", "planner"),
    (lambda data: data.pop("train"), "no cases for train", "--train"),
    (file(metrics=[]), "no metrics", "add one"),
    (lambda data: data["nodes"]["planner"].update(agnt="x"), "unknown key 'agnt'", "agent"),
]


@pytest.mark.parametrize(("change", "message", "remedy"), MISTAKES)
def test_a_mistake_is_named_with_what_was_meant(
    tmp_path: Path, change: Change, message: str, remedy: str
) -> None:
    found = "\n".join(problems(write_world(tmp_path, change)))
    assert message in found
    assert remedy in found


def test_a_model_to_choose_must_be_within_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (found,) = problems(
        write_world(tmp_path, optimizer(choices={"writer#model": ["anthropic:x", "openai:n"]}))
    )
    assert "no key for anthropic:x" in found


def test_all_mistakes_are_said_at_once(tmp_path: Path) -> None:
    path = write_world(
        tmp_path,
        optimizer(targets=["nobody#instruction"], ranges={"planner#modle.temperature": [0, 1]}),
        lambda data: data.pop("train"),
        file(metrics=[]),
    )
    assert len(problems(path)) == 4


def test_the_graph_and_the_project_are_checked_together(tmp_path: Path) -> None:
    path = write_world(tmp_path, optimizer(xyz=1), file(entry="nobody"))
    found = "\n".join(problems(path))
    assert "unknown key 'xyz'" in found
    assert "no node 'nobody'" in found


def test_reflection_and_coordinate_descent_take_the_texts(tmp_path: Path) -> None:
    path = write_world(
        tmp_path,
        optimizer(
            targets=["planner#instruction", "planner#few_shot", "writer#model.temperature"],
            ranges={"writer#model.temperature": [0, 1]},
        ),
    )
    reflective = prepared(path, strategy="reflective").setup
    assert isinstance(reflective.strategy, Reflective)
    assert reflective.strategy.settings.fields == ("shop/planner#instruction",)
    assert any("shop/writer#model.temperature" in note for note in reflective.notes)
    coordinate = prepared(path, strategy="coordinate").setup
    assert isinstance(coordinate.strategy, Coordinate)
    assert coordinate.strategy.settings.texts == ("shop/planner#instruction",)
    assert coordinate.strategy.settings.numbers == ("shop/writer#model.temperature",)
    assert any("shop/planner#few_shot" in note for note in coordinate.notes)


def test_settings_of_another_strategy_stand_under_its_name(tmp_path: Path) -> None:
    path = write_world(tmp_path, optimizer(coordinate={"max_cycles": 3}, accept_sigma=2, repeats=2))
    assert settings(path).accept_sigma == 2
    strategy = prepared(path, strategy="coordinate").setup.strategy
    assert isinstance(strategy, Coordinate)
    assert (strategy.settings.max_cycles, strategy.settings.repeats) == (3, 2)
    assert strategy.settings.accept_sigma == 1.0


def test_a_graph_with_nothing_to_tune(tmp_path: Path) -> None:
    (tmp_path / "shop_nodes_of_a_test.py").write_text("def plan(question):\n    return question\n")
    nodes = {"planner": {"python": "shop_nodes_of_a_test:plan"}}
    (found,) = problems(write_world(tmp_path, file(nodes=nodes, edges=[])))
    assert "'backprop' needs texts, numbers, choices or demonstrations" in found
    assert "there are none to tune" in found


def test_a_graph_that_is_told_in_python(tmp_path: Path) -> None:
    (tmp_path / "shop_graph_of_a_test.py").write_text(
        "import burnish\n"
        "made = burnish.graph('shop')\n"
        "made.agent('planner', model='openai:m', instructions='Plan it.')\n",
        encoding="utf-8",
    )

    def python(data: dict[str, Any]) -> None:
        for key in ("nodes", "edges", "name"):
            data.pop(key)
        data["graph"] = {"python": "shop_graph_of_a_test:made"}

    setup = prepared(write_world(tmp_path, python)).setup
    assert [s.id for s in setup.target.surfaces][:1] == ["shop/planner#instruction"]


def test_the_page_names_every_key() -> None:
    page = Path(__file__).parents[3] / "docs" / "multi-agent.md"
    told = page.read_text(encoding="utf-8")
    keys = {*GraphFile.block, *BackpropSettings.model_fields, *GuardSettings.model_fields}
    assert [key for key in sorted(keys) if f"`{key}" not in told] == []
