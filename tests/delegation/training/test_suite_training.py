"""Training on a suite with real delegations: the team is scripted, all else is as a user has it."""

import asyncio
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from burnish.cli import delegation
from burnish.core.errors import ConfigError, SealedTestRead
from burnish.delegation.experiments import Experiment
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.refine.plugin import RefineOptions, Seat, open_refinement
from burnish.delegation.refine.setup import RefineSettings
from burnish.delegation.training.setup import find_registry
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import refuse_spent_test
from burnish.testing.delegation_world import FAULT, RULE, Response, RoleTurn, suite_manager
from tests.cli.console import tree
from tests.delegation.delegation_world import GUILTY, suite_world, task
from tests.delegation.training.suite_places import FAULTY, Place

pytestmark = pytest.mark.slow

FOUR = ("heat", "rain", "wind", "snow")


def delegate(place: Place, name: str, **given: Any) -> None:
    """`burnish delegate workflow.yaml --task … -q`."""
    request = delegation.DelegateRequest(
        file=place.folder / "workflow.yaml", flags={"task": task(name)}, quiet=True, **given
    )
    delegation.delegate_task(request, models=place.world.models())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(folder=tmp_path)
    found.write("heat", "rain")
    return found


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as db:
        found = db.execute(sql).fetchall()
    db.close()
    return found


def test_the_fault_is_found_and_mended_for_a_task_that_nobody_saw(place: Place) -> None:
    place.write(*FOUR, holdout=("frost",))
    place.spoil()
    place.train(epochs=3, repeats=2)
    start, update, last = place.rows()
    assert update["trial"]["touched"] == [GUILTY]
    assert update["trial"]["decision"]["verdict"] == "accept"
    assert last["trial"]["problems"][0]["message"] == "nobody proposed a change"
    before, after = (row["trial"]["holdout"]["measurement"]["loss"] for row in (start, update))
    assert (before, after) == (pytest.approx(0.365), pytest.approx(0.03))
    # The registry that was trained is the one that other runs read.
    assert place.registry.texts()[GUILTY] == FAULTY.replace(FAULT, RULE)
    place.world.turns.clear()
    delegate(place, "frost", output_dir=place.folder / "frost")
    assert all(RULE in turn.system for turn in place.world.turns_of("worker"))
    assert "°C" in (place.folder / "frost" / "FINAL" / "report.md").read_text()
    page = (place.folder / "run" / "report.md").read_text()
    assert "frost (held out) | 0.365 | 0.030" in page
    assert "worker_pitfalls: version 2 was made active" in page
    assert "training score" not in page


def test_a_sealed_test_is_read_once_at_the_end_with_the_first_and_the_best_texts(
    place: Place,
) -> None:
    place.write(*FOUR[:2], holdout=("frost",), test=("hail", "fog"))
    place.spoil()
    setup = place.prepare(epochs=2).setup
    plan = list(strategy_plugin(setup.strategy.name).plan(setup))
    assert "tasks     train 2, holdout 1, sealed test 2" in plan
    assert any(line.startswith("reserved  about") for line in plan)
    ending = place.train(epochs=2)
    assert ending.sealed is not None
    assert ending.sealed.baseline_score == pytest.approx(1 - 0.365)
    assert ending.sealed.best_score == pytest.approx(1 - 0.03)
    assert ending.claim is not None
    assert ending.claim.verdict == "not shown", "two tasks are too few"
    page = (place.folder / "run" / "report.md").read_text()
    assert "**Sealed test, looked at once: score 0.635 → 0.970" in page
    assert not any("hail" in str(turn) for turn in place.world.turns_of("textgrad"))
    assert "hail" not in str(place.rows())
    with pytest.raises(SealedTestRead):
        refuse_spent_test(place.folder / "run")


def test_a_task_may_not_be_in_the_test_and_elsewhere(place: Place) -> None:
    place.write("heat", test=("heat",))
    with pytest.raises(ConfigError, match="two tasks have the name heat"):
        place.prepare()


def test_without_a_holdout_it_is_called_a_training_score(place: Place) -> None:
    place.train(with_textgrad=None)
    page = (place.folder / "run" / "report.md").read_text()
    assert "a training score: no task was held out" in page
    assert "- nothing was changed" in page
    assert [row["trial"]["phase"] for row in place.rows()] == ["baseline", "epoch"]


def test_the_registry_that_is_named_is_the_one_that_is_read_and_trained(place: Place) -> None:
    own = find_registry(place.folder / "own.db")
    place.spoil(own)
    place.train(db=str(own.path))
    assert own.active()[GUILTY] == 2
    assert not place.registry.path.exists(), "the usual one is not touched"
    read = {RULE in t.system: FAULT in t.system for t in place.world.turns_of("worker")}
    assert read == {False: True, True: False}


def test_an_experiment_has_a_registry_of_its_own(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_EXPERIMENTS_ROOT", str(place.folder / "experiments"))
    experiment = Experiment.new("weather").folder.name
    place.spoil(find_registry(None, experiment))
    place.train(experiment=experiment)
    assert find_registry(None, experiment).active()[GUILTY] == 2
    place.world.turns.clear()
    delegate(place, "snow", target=experiment)
    assert all(RULE in turn.system for turn in place.world.turns_of("worker"))
    assert not place.registry.path.exists()


def test_epochs_and_their_runs_are_in_the_registry(place: Place) -> None:
    place.spoil()
    place.train(repeats=2)
    path = place.registry.path
    epochs = query(path, "SELECT epoch_num, mean_loss, child_artifacts_json FROM epochs")
    assert [(n, round(loss, 3)) for n, loss, _ in epochs] == [(1, 0.365), (2, 0.03)]
    assert '"type": "update"' in epochs[1][2]
    assert '"worker_pitfalls": 2' in epochs[1][2]
    by = query(path, "SELECT version, epoch_id FROM artifact_versions")
    assert by == [(1, None), (2, 2)]
    runs = query(path, "SELECT epoch_id, run_id, task_name, loss FROM epoch_runs")
    assert Counter(epoch for epoch, *_ in runs) == {1: 4, 2: 4}
    assert len({run for _, run, *_ in runs}) == 8


def test_failing_tasks_have_names_of_their_own_and_count_worse_than_finished_ones(
    place: Place,
) -> None:
    def some_fail(turn: RoleTurn) -> Response:
        if "heat" in turn.text or "rain" in turn.text:
            return {"decision": "fail", "reason": "no data"}
        return suite_manager(turn)

    world = suite_world(manager=some_fail)
    broken = Place(folder=place.folder, world=world)
    broken.write("heat", "rain", "wind")
    broken.spoil()
    broken.train(with_textgrad=None, epochs=1)
    runs = query(broken.registry.path, "SELECT run_id, task_name, loss FROM epoch_runs")
    assert len({run for run, *_ in runs}) == 3
    losses = {name: loss for _, name, loss in runs}
    assert (losses["heat"], losses["rain"]) == (1.0, 1.0)
    assert losses["wind"] < 1.0


def test_a_suites_pins_are_read_in_its_runs_and_given_back(place: Place) -> None:
    place.spoil()
    place.write("heat", "rain", more=f"baseline_artifacts: {{{GUILTY}: 0}}")
    place.train()
    assert not any(FAULT in turn.system for turn in place.world.turns_of("worker"))
    assert place.registry.active()[GUILTY] == 1, "nothing was better, so nothing changed"


def test_what_the_registry_pins_is_left_alone(place: Place) -> None:
    place.spoil()
    place.registry.pin(GUILTY)
    place.train()
    assert len(place.world.turns_of("textgrad")) == 5
    assert place.registry.texts()[GUILTY] == FAULTY
    place.write("heat", "rain", more=f"baseline_artifacts: {{{GUILTY}: 0}}")
    with pytest.raises(ConfigError, match="pins version 1, but the suite names 0"):
        place.prepare()


def test_a_run_goes_on_from_where_it_started_though_it_has_changed_the_registry(
    place: Place,
) -> None:
    place.spoil()
    place.train()
    asked = len(place.world.turns)
    ending = place.go_on(epochs=3)
    new = Counter(role for role, _ in place.world.turns[asked:])
    assert new == {"textgrad": 6}, "only the third epoch is new"
    assert str(ending.best.values[GUILTY]) == FAULTY.replace(FAULT, RULE)
    assert place.registry.active()[GUILTY] == 2
    assert [len(query(place.registry.path, f"SELECT * FROM {t}")) for t in ("epochs",)] == [2]


def test_who_else_changes_the_registry_meanwhile_is_right(place: Place) -> None:
    place.spoil()
    plain = place.world.others["textgrad"]

    def meddled(turn: RoleTurn) -> Response:
        place.registry.add("pattern_library", "- By hand.\n", activate=True)
        return plain(turn)

    other = Place(folder=place.folder, world=suite_world(others={"textgrad": meddled}))
    other.train()
    assert other.rows()[1]["trial"]["decision"]["verdict"] == "accept"
    assert other.registry.active()[GUILTY] == 1
    assert [each.number for each in other.registry.history(GUILTY)] == [0, 1, 2]
    assert (
        "someone else changed the active policy texts"
        in (other.folder / "run" / "report.md").read_text()
    )


def test_without_rollback_what_is_no_better_stays_active(place: Place) -> None:
    def spoiling(turn: RoleTurn) -> Response:
        if turn.fields["artifact_name"] != GUILTY:
            return {"artifact_name": None}
        return {
            "artifact_name": GUILTY,
            "proposed_content": FAULTY,
            "expected_loss_reduction": 0.5,
            "confidence": 1,
        }

    other = Place(folder=place.folder, world=suite_world(others={"textgrad": spoiling}))
    other.train("strict")
    assert other.registry.active()[GUILTY] == 0
    other.train("lax", rollback=True)
    assert other.registry.texts()[GUILTY] == FAULTY
    assert "it is kept anyway" in (other.folder / "lax" / "report.md").read_text()


@pytest.mark.parametrize("strategy", ["auto", "reflective"])
def test_reflection_trains_the_texts_too(place: Place, strategy: str) -> None:
    def rewrite(turn: RoleTurn) -> Response:
        text = turn.fields["current_text"]
        return {"diagnosis": "units are left out", "new_text": text.replace(FAULT, RULE) + "\n"}

    other = Place(folder=place.folder, world=suite_world(others={"reflector": rewrite}))
    other.write("heat", "rain", holdout=("snow", "wind"))
    other.spoil()
    flags: dict[str, Any] = {"strategy": strategy, "epochs": None, "with_textgrad": None}
    flags["max_trials"] = 1
    ending = other.train(**flags)
    assert RULE in str(ending.best.values[GUILTY])
    assert RULE in other.registry.texts()[GUILTY]
    other.write("heat", "rain")
    with pytest.raises(ConfigError, match=f"{strategy} needs holdout tasks to decide"):
        other.prepare(**flags)
    with pytest.raises(ConfigError, match="--with-textgrad"):
        other.prepare(**{**flags, "with_textgrad": True})


def test_coordinate_descent_trains_the_texts_too(place: Place) -> None:
    def diagnose(turn: RoleTurn) -> Response:
        return {
            "failing_pattern": "no units",
            "root_cause_hypothesis": "the text asks for it",
            "suggested_change_direction": "ask for units",
            "confidence": 0.9,
            "citations": [],
        }

    def edit(turn: RoleTurn) -> Response:
        text = turn.fields["current_text"]
        new = text.replace(FAULT, RULE) + "\n"
        return {"edit_type": "replace", "rationale": "", "new_text": new, "diff_summary": ""}

    roles = {"critic": diagnose, "applier": edit}
    other = Place(folder=place.folder, world=suite_world(others=roles))
    other.spoil()
    other.train(epochs=None, with_textgrad=None, strategy="coordinate", max_trials=1)
    assert RULE in other.registry.texts()[GUILTY]


def test_refining_and_training_touch_disjoint_state(place: Place) -> None:
    place.spoil()
    seed = place.folder / "seed"
    delegate(place, "heat", output_dir=seed)
    before = tree(seed)
    place.train()
    assert tree(seed) == before, "training leaves runs alone"
    registry = place.registry.path.read_bytes()
    settings = RefineSettings(iterations=1)
    wishes = RefineOptions(models=place.world.models)
    session = asyncio.run(open_refinement(Seat.beside(seed), settings, options=wishes).run())
    assert place.registry.path.read_bytes() == registry, "refining leaves the registry alone"
    assert session.best_iter == 1, "and reads what was trained"
    assert (seed / "BEST" / "report.md").read_text().count("°C") == 3


def test_shipped_texts_are_read_where_nothing_was_trained(place: Place) -> None:
    delegate(place, "heat", output_dir=place.folder / "one")
    shipped = PolicyTexts.shipped()[GUILTY].strip()
    assert all(shipped in turn.system for turn in place.world.turns_of("worker"))
    assert not place.registry.path.exists()
