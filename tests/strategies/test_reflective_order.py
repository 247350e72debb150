"""Same seed, same decisions: however fast anyone is, wherever it stops and goes on."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.core.cases import Case
from burnish.core.content import stream
from burnish.core.evaluations import Objective, Penalties
from burnish.core.money import NOTHING
from burnish.core.surfaces import Candidate, TextSurface
from burnish.journal.limits import Budget
from burnish.runs.driver import Ending, drive
from burnish.runs.setup import Setup, fork
from burnish.runs.stoppers import STOP_FILE
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import ROLE, Reflection, ReflectRequest
from burnish.strategies.reflective.search import Reflective
from burnish.testing import CallCounter, ScriptedRole, ScriptedTarget
from burnish.testing.doubles import story
from tests.strategies import tuning_world
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.reflection_world import World, setup
from tests.strategies.reflective_runs import CLASSIC, Agent

pytestmark = pytest.mark.slow

ROUGH = World(rules=5, train=10, holdout=20, noise=0.1, crash_rate=0.02, role_failure_rate=0.1)
THREE = ReflectiveSettings(proposals_per_round=3, history_top_k=3)


def uneven(made: Setup, speed: int) -> Setup:
    """The same run, with an agent that takes its time, another for each call and speed."""
    target = made.target
    assert isinstance(target, ScriptedTarget)
    slow = replace(target, respond=_late(target, speed))
    return replace(made, target=slow)


def _late(target: ScriptedTarget, speed: int) -> Agent:
    async def respond(candidate: Candidate, case: Case, draw: int) -> Any:
        luck = stream(speed, candidate.id, case.id, draw).random()
        await asyncio.sleep(0.004 * luck)
        return target.respond(candidate, case, draw)

    return respond


@pytest.mark.parametrize(
    "settings",
    [
        THREE,
        THREE.model_copy(update={"parent_selection": "pareto", "merge": True}),
        CLASSIC.model_copy(update={"proposals_per_round": 3, "merge": True}),
    ],
)
def test_who_is_faster_decides_nothing(tmp_path: Path, settings: ReflectiveSettings) -> None:
    told: list[list[Any]] = []
    for speed, concurrency in ((1, 2), (2, 16)):
        made = setup(replace(ROUGH, fields=2), settings, budget=Budget(max_metric_calls=220))
        made = replace(uneven(made, speed), concurrency=concurrency)
        run = driven(made, tmp_path / f"run-{speed}")
        told.append(story(run.folder / "trials.jsonl"))
        assert run.ending.spent.metric_calls <= 220
    assert told[0] == told[1]
    rounds = [row["trial"]["cycle"] for row in told[0][1:]]
    assert rounds == sorted(rounds)
    assert max(rounds.count(number) for number in rounds) == 3


def test_another_seed_is_another_search(tmp_path: Path) -> None:
    made = setup(ROUGH, budget=Budget(max_trials=6))
    seeds = [driven(replace(made, seed=n), tmp_path / f"run-{n}") for n in (1, 2)]
    batches = [[row.trial.details.get("minibatch") for row in run.rows[1:]] for run in seeds]
    assert batches[0] != batches[1]


def test_a_stop_file_ends_it_and_a_resume_goes_on(tmp_path: Path) -> None:
    whole = driven(setup(ROUGH, budget=Budget(max_trials=8)), tmp_path / "whole")
    made = setup(ROUGH, budget=Budget(max_trials=8))
    looks = iter([False] * 9 + [True])
    stopped = replace(made, stop_callbacks={"touch": lambda: _touch(tmp_path / "run", looks)})
    run = driven(stopped, tmp_path / "run")
    assert run.ending.reason.code == "stop_file"
    assert 1 < len(run.rows) < len(whole.rows)
    again = driven(replace(made, stop_callbacks={"touch": lambda: False}), tmp_path / "run")
    assert again.ending.reason.code == "max_trials"
    assert story(run.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")


def _touch(folder: Path, looks: Iterator[bool]) -> bool:
    if next(looks, False):
        (folder / STOP_FILE).touch()
    return False


def test_a_callbacks_label_is_the_reason(tmp_path: Path) -> None:
    looks = iter([False] * 4)
    made = setup(ROUGH, budget=Budget(max_trials=50))
    made = replace(made, stop_callbacks={"slo_breach": lambda: next(looks, True)})
    run = driven(made, tmp_path / "run")
    assert run.ending.reason.code == "slo_breach"


def test_minutes_end_it(tmp_path: Path) -> None:
    # However far it gets in that time: a reflector that had failed until then would fail the run.
    world = replace(ROUGH, call_seconds=0.002, role_failure_rate=0.0)
    made = setup(world, budget=Budget(max_minutes=0.001))
    run = driven(made, tmp_path / "run")
    assert run.ending.reason.code == "max_minutes"


def test_a_run_that_its_budget_cut_goes_on_with_more(tmp_path: Path) -> None:
    settings = ReflectiveSettings(parent_selection="current_best", proposals_per_round=2)
    counter = CallCounter(path=tmp_path / "calls")
    for limit in (60, 95, 130, 171, 220):
        made = setup(ROUGH, settings, budget=Budget(max_metric_calls=limit), counter=counter)
        run = driven(made, tmp_path / "run")
        assert run.ending.spent.metric_calls <= limit
    whole = driven(
        setup(ROUGH, settings, budget=Budget(max_metric_calls=220)), tmp_path / "in one go"
    )
    assert story(run.folder / "trials.jsonl") == story(whole.folder / "trials.jsonl")
    assert run.ending.best.id == whole.ending.best.id
    assert len(set(counter.calls())) == len(counter.calls())


def test_a_fork_pays_for_nothing_that_is_unchanged_and_has_limits_of_its_own(
    tmp_path: Path,
) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    world = replace(ROUGH, holdout=40, idle_share=0.2)
    made = setup(world, budget=Budget(max_trials=9), counter=counter)
    short = driven(made, tmp_path / "short")
    assert any(row.trial.kept for row in short.rows)

    forked = forked_from(
        short.folder, replace(made, budget=Budget(max_trials=14)), tmp_path / "long"
    )
    assert forked.ending.reason.code == "max_trials"
    assert len(set(counter.calls())) == len(counter.calls())


def forked_from(folder: Path, made: Setup, new: Path) -> Driven:
    """A fork of a run, driven to its end."""

    async def go() -> Ending:
        run = fork(made, folder, folder=new)
        try:
            return await drive(run)
        finally:
            await run.close()

    return Driven(folder=new, ending=asyncio.run(go()))


@pytest.mark.parametrize("budget", [Budget(max_trials=20), Budget(max_metric_calls=260)])
def test_a_fork_of_a_finished_run_goes_the_same_way(tmp_path: Path, budget: Budget) -> None:
    counter = CallCounter(path=tmp_path / "calls")
    made = setup(replace(ROUGH, holdout=16), budget=budget, counter=counter)
    first = driven(made, tmp_path / "first")
    assert sum(row.trial.holdout is not None for row in first.rows[1:]) > 1
    again = forked_from(first.folder, made, tmp_path / "again")
    # With metric calls of its own to spend, a fork goes on where the first run ended.
    assert _decisions(again)[: len(first.rows)] == _decisions(first)
    assert len(set(counter.calls())) == len(counter.calls())
    if budget.max_trials:
        assert len(again.rows) == len(first.rows)
        assert again.ending.spent == NOTHING


def test_a_fork_with_nearer_limits_still_races_its_tip(tmp_path: Path) -> None:
    world = replace(ROUGH, holdout=40, idle_share=0.2)
    made = setup(world, budget=Budget(max_trials=9))
    first = driven(made, tmp_path / "first")
    kept = next(place for place, row in enumerate(first.rows) if row.trial.kept)
    short = replace(made, budget=Budget(max_trials=kept))
    assert forked_from(first.folder, short, tmp_path / "short").rows[kept].trial.holdout is not None


def _decisions(run: Driven) -> list[Any]:
    return [
        (row.trial.candidate.id, row.trial.phase, row.trial.decision, row.trial.holdout)
        for row in run.rows
    ]


def test_with_penalties_nothing_ends_early_and_a_winner_is_still_run_again(tmp_path: Path) -> None:
    made = setup(replace(ROUGH, noise=0.0), budget=Budget(max_metric_calls=300))
    dear = Objective(weights={"complete": 1.0}, penalties=Penalties(latency_per_sec=0.001))
    run = driven(replace(made, objective=dear), tmp_path / "run")
    held = [row.trial for row in run.rows[1:] if row.trial.holdout is not None]
    assert any(trial.accepted for trial in held)
    for trial in held:
        assert trial.details["whole_holdout"]
        assert trial.holdout is not None
        if trial.accepted:
            assert {len(of["complete"]) for of in trial.holdout.scores.values()} == {2}


def test_texts_beside_numbers_are_rewritten_and_the_numbers_left_alone(tmp_path: Path) -> None:
    world = tuning_world.TuningWorld(train=10, holdout=8)
    made = tuning_world.setup(world)

    def rewrite(request: ReflectRequest, draw: int) -> Reflection:
        lacks = [name for name in tuning_world.RULES if f"[{name}]" in request.records]
        text = request.current_text
        fresh = [name for name in lacks if tuning_world.RULES[name] not in text]
        rule = tuning_world.RULES[fresh[0]] if fresh else f"Be kind, {draw}."
        return Reflection(diagnosis="they lack it", new_text=f"{text} {rule}")

    role = ScriptedRole(
        name=ROLE, respond=rewrite, request_type=ReflectRequest, answer_type=Reflection
    )
    run = driven(
        replace(made, strategy=Reflective(reflector=role), budget=Budget(max_metric_calls=250)),
        tmp_path / "run",
    )
    start, best = made.target.baseline.values, run.ending.best.values
    assert len(tuning_world.rules_in(best[tuning_world.TEXT])) > 1
    assert isinstance(made.target.surfaces[0], TextSurface)
    assert {name for name in start if start[name] != best[name]} == {tuning_world.TEXT}
    assert all(row.trial.touched in {(), (tuning_world.TEXT,)} for row in run.rows)
