"""People steer a run: strategies try their candidates, hear their hints and keep their pins."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.trials import TrialRow
from burnish.journal.limits import Budget
from burnish.runs.setup import Setup
from burnish.strategies.backprop.prompts import PatchRequest
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CritiqueRequest, Gradient, PhaseLimits
from burnish.strategies.edits.attempts import EditsSettings
from burnish.strategies.reflective.reflection import Reflection, ReflectRequest
from burnish.testing import ScriptedRole
from burnish.testing.doubles import story
from tests.runs.steered import note, steered, taken
from tests.strategies import (
    auto_runs,
    backprop_world,
    edit_world,
    reflection_world,
    reflective_runs,
    tuning_world,
)
from tests.strategies.coordinate_runs import Driven

HINT = "The date is always in UTC."


@dataclass(frozen=True, kw_only=True)
class Case:
    """A strategy in a world where its own proposals never help, and a text that does."""

    make: Callable[[], tuple[Setup, list[Any]]]
    """The setup, and where the requests of its proposer end up."""
    surface: str
    better: str


def _reflective() -> tuple[Setup, list[Any]]:
    def rewrite(request: ReflectRequest, draw: int) -> str:
        return f"{request.current_text} Style {draw}."

    talk = reflective_runs.Talk(rewrite=rewrite)
    agent = reflective_runs.says(lambda text: "yes" if "GOOD" in text else "no")
    setup = reflective_runs.scripted(agent, talk, budget=Budget(max_trials=4), train=3, holdout=4)
    return setup, talk.asked


def _diagnosed(request: CritiqueRequest, draw: int) -> Gradient:
    del request
    return Gradient(
        failing_pattern=f"pattern {draw}",
        root_cause_hypothesis="who knows",
        suggested_change_direction="ask for [step]",
        confidence=0.9,
        citations=[],
    )


def _coordinate() -> tuple[Setup, list[Any]]:
    setup = tuning_world.setup(
        tuning_world.TuningWorld(train=6, holdout=3),
        tuning_world.AXES.model_copy(
            update={
                "repeats": 1,
                "numbers": (),
                "demonstrations": "",
                "max_cycles": 1,
                "textual_phase": PhaseLimits(max_trials=3, patience=3),
            }
        ),
    )
    critic = ScriptedRole(
        name="critic", respond=_diagnosed, request_type=CritiqueRequest, answer_type=Gradient
    )
    assert isinstance(setup.strategy, Coordinate)
    return replace(setup, strategy=replace(setup.strategy, critic=critic)), []


def _backprop() -> tuple[Setup, list[Any]]:
    def patch(request: PatchRequest, draw: int) -> backprop_world.PatchAnswer:
        asked.append(request)
        return backprop_world.add_words(request, draw)

    asked: list[Any] = []
    roles = backprop_world.Roles(patch=patch)
    return backprop_world.world(roles=roles, budget=Budget(max_trials=4)), asked


def _edits() -> tuple[Setup, list[Any]]:
    script = edit_world.Script(edits=[edit_world.whole("2\n")])
    setup = edit_world.setup(script, EditsSettings(task="large"), budget=Budget(max_trials=4))
    return setup, script.seen


def _auto() -> tuple[Setup, list[Any]]:
    def rewrite(request: ReflectRequest, draw: int) -> Reflection:
        asked.append(request)
        return auto_runs.chatter(auto_runs.WORLD, request, draw)

    asked: list[Any] = []
    budget = Budget(max_trials=4)
    return auto_runs.setup(only=("reflection",), budget=budget, rewrite=rewrite), asked


REFLECTIVE = Case(make=_reflective, surface="system", better="GOOD. Answer {who}.\n")
COORDINATE = Case(
    make=_coordinate,
    surface=tuning_world.TEXT,
    better="\n".join(["For {shop}.", *tuning_world.RULES.values()]),
)
BACKPROP = Case(make=_backprop, surface=backprop_world.PLANNER, better="Make a FIX.")
EDITS = Case(make=_edits, surface=edit_world.PATH, better="50\n50\n")
AUTO = Case(make=_auto, surface=tuning_world.TEXT, better=COORDINATE.better)
CASES = {
    "reflective": REFLECTIVE,
    "backprop": BACKPROP,
    "edits": EDITS,
    "auto": AUTO,
    "coordinate": COORDINATE,
}
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def by_people(run: Driven) -> list[TrialRow]:
    return [row for row in run.rows if row.trial.candidate.origin.kind == "person"]


@ALL
def test_a_persons_candidate_is_the_next_trial_and_decided_like_any_other(
    case: Case, tmp_path: Path
) -> None:
    setup, _ = case.make()
    own = note("try", **{case.surface: case.better})
    run = steered(setup, tmp_path / "run", {1: [own]})
    (row,) = by_people(run)
    assert row.number == 2
    assert str(row.trial.candidate.values[case.surface]).strip() == case.better.strip()
    assert row.trial.candidate.origin.by == "alice"
    assert row.trial.candidate.origin.note == f"alice's own {case.surface}"
    assert row.trial.accepted, row.trial.decision
    assert row.trial.decision is not None
    others = [each for each in run.rows if each.trial.decision and each is not row]
    assert row.trial.decision.gate in {e.trial.decision.gate for e in others if e.trial.decision}
    assert row.trial.details["proposal_source"] == {
        "kind": "person",
        "by": "alice",
        "sent_at": "2026-01-01",
    }
    (event,) = taken(run)
    assert (event.action, event.by, event.trial, event.refused) == ("try", "alice", 2, "")
    assert run.ending.best.values[case.surface] == row.trial.candidate.values[case.surface]


@ALL
def test_a_candidate_that_fails_its_check_is_recorded_with_its_problems(
    case: Case, tmp_path: Path
) -> None:
    setup, _ = case.make()
    same = str(setup.target.baseline.values[case.surface])
    run = steered(setup, tmp_path / "run", {0: [note("try", **{case.surface: f"{same}"})]})
    (row,) = by_people(run)
    assert row.number == 1
    assert row.trial.problems
    assert row.spend.metric_calls == 0 or case is BACKPROP  # which measures train for the round
    assert not row.trial.accepted


@ALL
def test_a_stopped_run_takes_notes_in_when_it_is_resumed_and_a_replay_decides_the_same(
    case: Case, tmp_path: Path
) -> None:
    setup, _ = case.make()
    notes = {
        0: [note("tell", text=HINT)],
        1: [note("try", **{case.surface: case.better}, by="bob")],
    }
    whole = steered(setup, tmp_path / "whole", notes)
    # A process that ends after each trial; the note waits, is taken, and is replayed.
    *_, run = [
        steered(_until(case.make()[0], most), tmp_path / "cut", notes) for most in range(1, 5)
    ]
    rows, expected = (story(each / "trials.jsonl") for each in (run.folder, whole.folder))
    assert rows[: len(expected)] == expected[: len(rows)]
    assert len(by_people(run)) == 1
    assert [event.by for event in taken(run)] == ["alice", "bob"]
    assert not list((run.folder / "steering").iterdir())


def _until(setup: Setup, trials: int) -> Setup:
    return replace(setup, budget=replace(setup.budget, max_trials=trials))


@pytest.mark.parametrize("case", [*CASES.values()][:4], ids=[*CASES][:4])
def test_a_hint_reaches_every_later_request(case: Case, tmp_path: Path) -> None:
    setup, asked = case.make()
    run = steered(setup, tmp_path / "run", {1: [note("tell", text=HINT)]})
    before, after = asked[:1], asked[1:]
    assert [each.hints for each in before] == [""]
    assert after
    assert {each.hints for each in after} == {f"- {HINT}"}
    (event,) = taken(run)
    assert event.words == f"alice tells the proposer: {HINT}"


def test_critic_and_applier_hear_a_hint(tmp_path: Path) -> None:
    setup, _ = _coordinate()
    run = steered(setup, tmp_path / "run", {0: [note("tell", text=HINT)]})
    requests = [p.request for row in run.rows for p in row.trial.proposals]
    told = [each.get("hints") for each in requests if isinstance(each, dict)]
    assert set(told) == {f"- {HINT}"}
    assert {p.role for row in run.rows for p in row.trial.proposals} == {"critic", "applier"}


def test_what_is_pinned_is_not_rewritten_until_it_is_unpinned(tmp_path: Path) -> None:
    world = reflection_world.World(train=6, holdout=6, rules=4, fields=2, known=0, noise=0.0)
    setup = _until(reflection_world.setup(world), 8)
    planner, writer = reflection_world.fields(world)
    notes = {1: [note("pin", planner)], 5: [note("unpin", planner)]}
    run = steered(setup, tmp_path / "run", notes)
    touched = [row.trial.touched for row in run.rows]
    assert all(each == (writer,) for each in touched[2:6])
    assert any(planner in each for each in touched[6:])
    assert [(event.action, event.trial) for event in taken(run)] == [("pin", 2), ("unpin", 6)]


def test_an_edit_of_a_pinned_surface_is_turned_away(tmp_path: Path) -> None:
    planner, writer = backprop_world.PLANNER, backprop_world.WRITER
    setup = backprop_world.world(
        roles=backprop_world.Roles(patch=backprop_world.add_words), budget=Budget(max_trials=4)
    )
    run = steered(setup, tmp_path / "run", {1: [note("pin", planner)]})
    assert all(planner not in row.trial.touched for row in run.rows[2:])
    assert run.ending.best.values[writer] == backprop_world.START[writer]


def test_a_pinned_number_leaves_the_study(tmp_path: Path) -> None:
    settings = tuning_world.AXES.model_copy(
        update={
            "repeats": 1,
            "texts": (),
            "demonstrations": "",
            "max_cycles": 1,
            "numeric_phase": PhaseLimits(max_trials=5, patience=5),
        }
    )
    setup = tuning_world.setup(tuning_world.TuningWorld(train=4, holdout=3), settings)
    pinned = tuning_world.TEMPERATURE
    run = steered(setup, tmp_path / "run", {2: [note("pin", pinned)]})
    before = run.rows[2].trial.candidate
    for row in run.rows[3:]:
        assert pinned not in row.trial.touched
    assert run.rows[3:]
    own = note("try", **{tuning_world.TOP_K: "7"})
    tried = steered(setup, tmp_path / "tried", {2: [own]})
    assert tried.rows[3].trial.candidate.values[tuning_world.TOP_K] == 7
    assert before.id == tried.rows[2].trial.candidate.id


def test_two_candidates_at_once_are_two_trials_in_order(tmp_path: Path) -> None:
    setup, _ = _edits()
    first = note("try", **{edit_world.PATH: "9\n"}, text="a")
    second = note("try", **{edit_world.PATH: "8\n"}, text="b")
    run = steered(setup, tmp_path / "run", {0: [first, second]})
    assert [row.number for row in by_people(run)] == [1, 2]
    values = [row.trial.candidate.values[edit_world.PATH] for row in by_people(run)]
    assert values == ["9\n", "8\n"]
    assert [row.trial.accepted for row in by_people(run)] == [True, False]
