"""Suite files: what they say, and everything that is wrong with them."""

from pathlib import Path
from typing import Any, cast

import pytest

from burnish.core.cases import Case, Split
from burnish.core.errors import ConfigError
from burnish.delegation.result import WEIGHTS
from burnish.delegation.target import DelegationLoss, DelegationTarget, weighed, weights_of
from burnish.delegation.training.epochs import Epochs
from burnish.projects import load_project
from tests.delegation.training.suite_places import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(folder=tmp_path)


def refused(place: Place, text: str) -> str:
    place.suite.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        place.prepare()
    return str(caught.value)


def test_every_field_of_the_seed_is_understood(place: Place) -> None:
    place.suite.write_text(
        """\
name: weather
description: reports
baseline_artifacts: {worker_pitfalls: 0}
tasks:
  - name: heat
    task: Write about heat.
    workflow: workflow.yaml
    model: openai/other-boss
    worker_model: openai:other-hand
    budget: {max_loops: 3}
    weights: {eval: 0.1}
    extra: {owner: me}
holdout:
  - {name: rain, task: Write about rain.}
""",
        encoding="utf-8",
    )
    setup = place.prepare(epochs=None, with_textgrad=None).setup
    assert isinstance(setup.target, DelegationTarget)
    assert isinstance(setup.strategy, Epochs)
    heat, rain = setup.target.tasks["heat"], setup.target.tasks["rain"]
    assert heat.workflow.models["manager"] == "openai:other-boss"
    assert heat.workflow.models["worker"] == "openai:other-hand"
    assert (heat.workflow.envelope.max_loops, rain.workflow.envelope.max_loops) == (3, 10)
    assert heat.kept["extra"] == {"owner": "me"}
    assert [case.id for case in setup.dataset.cases(Split.HOLDOUT)] == ["rain"]
    assert weights_of(heat.case)["eval"] == 0.1
    assert weights_of(rain.case)["eval"] == 0.4
    assert [metric.name for metric in setup.metrics] == [DelegationLoss().name]
    assert setup.budget.max_trials is None


@pytest.mark.slow
def test_a_suite_is_known_by_its_keys(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    place.write("heat")
    assert isinstance(load_project(place.suite, {}).setup.target, DelegationTarget)
    with pytest.raises(ConfigError, match="--editor: 'epochs' over 'policy' does not use it"):
        load_project(place.suite, {"editor": "openai:x"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name: w\ntasks: []\n", "tasks"),
        ("name: w\ntasks: [{name: a, task: x}, {name: a, task: y}]\n", "two tasks have the name a"),
        ("name: w\ntasks: [{name: a, task: x}]\nholdouts: []\n", "holdout"),
        ("name: w\ntasks: [{name: a, task: x, modell: y}]\n", "model"),
        ("name: w\ntasks: [{name: a, task: x, weights: {fun: 1}}]\n", "unknown fun"),
        ("name: w\ntasks: [{name: a, task: x, weights: {eval: 0.9}}]\n", "more than 1"),
        ("name: w\ntasks: [{name: a, task: x, weights: {eval: .nan}}]\n", "weights"),
        (
            "name: w\ntasks: [{name: a, task: x}]\nbaseline_artifacts: {tone: 1}\n",
            "unknown text tone",
        ),
        (
            "name: w\ntasks: [{name: a, task: x}]\nbaseline_artifacts: {worker_pitfalls: 4}\n",
            "no version 4",
        ),
        ("name: w\ntasks: [{name: a, task: x, workflow: gone.yaml}]\n", "gone.yaml"),
        (
            "name: w\ntasks: [{name: a, task: x}]\nholdout: [{name: b, task: ' X '}]\n",
            "case 'b' is in both",
        ),
        ("name: w\ntasks: [{name: a, task: x}]\noptimizer: {epochs: 0}\n", "epochs"),
    ],
)
def test_what_is_wrong_is_said(place: Place, text: str, told: str) -> None:
    place.suite.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        place.prepare(epochs=None).setup.check()
    assert told in str(caught.value)


def test_a_task_needs_somebody_to_do_it(place: Place) -> None:
    (place.folder / "workflow.yaml").unlink()
    assert "neither a workflow nor a model" in refused(
        place, "name: w\ntasks: [{name: a, task: x}]"
    )
    place.suite.write_text("name: w\ntasks: [{name: a, task: x, model: openai/m}]")
    setup = place.prepare().setup
    assert isinstance(setup.target, DelegationTarget)
    models = setup.target.tasks["a"].workflow.models
    assert models == {"manager": "openai:m", "worker": "openai:m", "critic": "openai:m"}
    assert any("it grades its own work" in note for note in setup.notes)


def test_the_model_of_a_task_may_be_a_block(place: Place) -> None:
    block = "{provider: openai, name: m, base_url: 'http://127.0.0.1:9/v1'}"
    place.suite.write_text(f"name: w\ntasks: [{{name: a, task: x, model: {block}}}]")
    setup = place.prepare().setup
    assert isinstance(setup.target, DelegationTarget)
    task = setup.target.tasks["a"]
    assert task.workflow.models["manager"] == "openai:m"
    kept = cast("dict[str, Any]", task.kept["overrides"])
    assert kept["manager"]["base_url"] == "http://127.0.0.1:9/v1"


def test_two_registries_are_one_too_many(place: Place) -> None:
    place.write("heat")
    with pytest.raises(ConfigError, match="an experiment has its own registry"):
        place.prepare(db="x.db", experiment="exp_0123456789")


def test_what_the_file_says_gives_way_to_flags(place: Place) -> None:
    block = "optimizer: {epochs: 7, learning_rate: 0.25, rollback: false, repeats: 4}"
    place.write("heat", more=block)
    strategy = place.prepare(epochs=None, repeats=None).setup.strategy
    assert isinstance(strategy, Epochs)
    said = strategy.settings
    assert (said.epochs, said.learning_rate, said.rollback, said.repeats) == (7, 0.25, False, 4)
    flagged = place.prepare(epochs=3, learning_rate=1.0).setup.strategy
    assert isinstance(flagged, Epochs)
    assert (flagged.settings.epochs, flagged.settings.learning_rate) == (3, 1.0)


def test_signals_are_weighed_and_not_stretched() -> None:
    signals: dict[str, float] = dict.fromkeys(WEIGHTS, 1.0)
    weights = weights_of(Case.single("x"))
    assert sum(weighed(signals, weights).values()) == pytest.approx(1.0)
