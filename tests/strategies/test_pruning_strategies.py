"""Each strategy prunes its winner, offers what is left, and reports what it took out."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.surfaces import Candidate
from burnish.journal.limits import Budget
from burnish.reports.rendering import write_report
from burnish.runs.directory import RunRecord
from burnish.runs.events import PRUNE, Event, PhaseStarted, read_all
from burnish.runs.plugins import strategy_plugin
from burnish.runs.setup import Setup
from burnish.strategies.auto.search import Auto, AutoSettings
from burnish.strategies.backprop.packets import BackpropSettings
from burnish.strategies.backprop.prompts import PatchAnswer, PatchRequest
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CoordinateSettings, Edit, EditRequest, PhaseLimits
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.pruning import pruning_plan
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import Reflection, ReflectRequest
from burnish.testing import ScriptedRole, reflection_world, tuning_world
from tests.strategies import auto_runs, backprop_world, edit_world
from tests.strategies.pruning_world import made, pruned

IDLE = "Stay calm whatever happens."


def _pruned(setup: Setup, folder: Path) -> tuple[Candidate, RunRecord, str]:
    """The best candidate, the run, and its report."""
    ending, record = made(setup, folder)
    report = write_report(folder).read_text(encoding="utf-8")
    assert "## What was taken out again" in report
    assert record.best_candidate is not None
    assert record.best_candidate.id == ending.best.id
    lines = list(strategy_plugin(setup.strategy.name).progress().lines(_phase(record), 80))
    assert lines[0].startswith("── pruning")
    return ending.best, record, report


def _phase(record: RunRecord) -> Event:
    return next(e for e in record.events if e.kind == "phase_started" and e.data["phase"] == PRUNE)


def _verbose(request: EditRequest, draw: int) -> Edit:
    edit = tuning_world._apply(tuning_world.TuningWorld(), request, draw)  # pyright: ignore[reportPrivateUsage]
    text = edit.new_text if IDLE in edit.new_text else f"{edit.new_text} {IDLE}"
    return edit.model_copy(update={"new_text": text})


def test_coordinate(tmp_path: Path) -> None:
    settings = CoordinateSettings(
        texts=(tuning_world.TEXT,),
        demonstrations=tuning_world.DEMOS,
        repeats=1,
        max_cycles=1,
        demonstration_phase=PhaseLimits(max_trials=1, patience=1),
        textual_phase=PhaseLimits(max_trials=1, patience=1),
        prune=True,
    )
    world = tuning_world.setup(settings=settings)
    assert isinstance(world.strategy, Coordinate)
    applier = ScriptedRole(
        name="applier", respond=_verbose, request_type=EditRequest, answer_type=Edit
    )
    world = replace(world, strategy=replace(world.strategy, applier=applier))
    best, record, report = _pruned(world, tmp_path / "run")
    assert (IDLE, True) in pruned(record)
    assert IDLE not in str(best.values[tuning_world.TEXT])
    assert len(tuning_world.rules_in(best.values[tuning_world.TEXT])) == 2
    assert f"“{IDLE}”" in report


def test_auto(tmp_path: Path) -> None:
    def rewrite(request: ReflectRequest, draw: int) -> Reflection:
        told = auto_runs.missing_rule(auto_runs.WORLD, request, draw)
        text = told.new_text if IDLE in told.new_text else f"{IDLE} {told.new_text}"
        return told.model_copy(update={"new_text": text})

    budget = Budget(max_metric_calls=4000)
    setup = auto_runs.setup(settings=AutoSettings(prune=True), budget=budget, rewrite=rewrite)
    best, record, report = _pruned(setup, tmp_path / "run")
    assert (IDLE, True) in pruned(record)
    assert IDLE not in str(best.values[tuning_world.TEXT])
    assert tuning_world.rules_in(best.values[tuning_world.TEXT])
    assert f"“{IDLE}”" in report


def _with_small_limits(strategy: str, calls: int) -> Setup:
    world = reflection_world.World(rules=8, train=12, holdout=40, idle_share=0.2)
    budget = Budget(max_metric_calls=calls)
    plain = reflection_world.setup(world, ReflectiveSettings(prune=True), budget=budget)
    if strategy == "reflective":
        return plain
    offers = (auto_runs.reflection_of(plain),)
    return replace(plain, strategy=Auto(offers=offers, settings=AutoSettings(prune=True)))


def _deciding(record: RunRecord) -> int:
    held = record.rows[0].trial.holdout
    return 0 if held is None else len(held.scores)


@pytest.mark.parametrize("strategy", ["reflective", "auto"])
def test_a_part_of_holdout_decides_where_the_limits_do_not_pay_for_pruning(
    strategy: str, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    _, record = made(_with_small_limits(strategy, 120), folder)
    assert _deciding(record) == 12
    assert "12 of 40 holdout cases decided" in write_report(folder).read_text(encoding="utf-8")
    _, longer = made(_with_small_limits(strategy, 3_000), folder, again=True)
    assert longer.trials > record.trials
    assert _deciding(longer) == 12, "a resume with higher limits keeps to the part"
    assert not pruned(longer)


@pytest.mark.parametrize("strategy", ["reflective", "auto"])
def test_all_of_holdout_decides_where_the_limits_pay_for_pruning(
    strategy: str, tmp_path: Path
) -> None:
    _, record = made(_with_small_limits(strategy, 3_000), tmp_path / "run")
    assert _deciding(record) == 40
    assert pruned(record)


@pytest.mark.parametrize(("calls", "prunes"), [(1_100, False), (1_130, True)])
def test_plan_and_run_agree_on_pruning_where_the_winner_is_measured_again(
    calls: int, prunes: bool, tmp_path: Path
) -> None:
    setup = replace(_with_small_limits("reflective", calls), confirm=True)
    plan = "\n".join(pruning_plan(setup, ReflectiveSettings(prune=True)))
    assert ("pruning   none" not in plan) is prunes
    _, record = made(setup, tmp_path / "run")
    begun = [each.phase for each in read_all(record.events, PhaseStarted)]
    assert (PRUNE in begun) is prunes


def test_reflective_rewordings_that_do_nothing_are_undone(tmp_path: Path) -> None:
    world = reflection_world.World(rules=3, train=8, holdout=8)
    setup = reflection_world.setup(
        world, ReflectiveSettings(prune=True), budget=Budget(max_metric_calls=2_000)
    )
    best, record, _ = _pruned(setup, tmp_path / "run")
    text = str(best.values["planner"])
    assert "style 000000" in text
    assert reflection_world.stated(text) == list(reflection_world.rules(world))
    assert any(left for _, left in pruned(record))


def _talkative(request: PatchRequest, draw: int) -> PatchAnswer:
    del draw
    return PatchAnswer(value=f"{request.surface.value} FIX\n{IDLE}", reason="the plan lacks FIX")


@pytest.mark.parametrize("gate", ["min_gain", "sigma", "strict"])
def test_backprop(tmp_path: Path, gate: str) -> None:
    settings = BackpropSettings(max_rounds=1, prune=True, gate=gate)  # pyright: ignore[reportArgumentType]
    world = backprop_world.world(roles=backprop_world.Roles(patch=_talkative), settings=settings)
    best, record, _ = _pruned(world, tmp_path / "run")
    assert (IDLE, True) in pruned(record)
    assert best.values[backprop_world.PLANNER] == "Make a plan. FIX"


@pytest.mark.parametrize("holdout", [False, True])
def test_edits(tmp_path: Path, holdout: bool) -> None:
    script = edit_world.Script(edits=[edit_world.whole("1\n1\n1\n0\n50\n0\n")])
    settings = EditsSettings(task="make the numbers large", prune=True)
    world = edit_world.setup(script, settings, holdout=holdout, budget=Budget(max_proposals=1))
    best, record, report = _pruned(world, tmp_path / "run")
    assert best.values[edit_world.PATH] == "1\n1\n1\n50\n"
    assert [left for what, left in pruned(record) if what == "0"] == [True, True]
    assert "1: 1 keep, 0 discard, 0 crash" in report


def test_the_setting_is_off_where_nobody_says_and_then_changes_no_fingerprint() -> None:
    for settings in (ReflectiveSettings(), BackpropSettings(), CoordinateSettings()):
        assert not settings.prune
        assert "prune" not in settings.fingerprinted()
        assert settings.model_copy(update={"prune": True}).fingerprinted()["prune"] is True
