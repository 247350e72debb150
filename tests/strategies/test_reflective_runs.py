"""Whole searches in worlds with known truth: what is found, kept, run again, and how it ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.errors import BaselineUnmeasured
from burnish.core.money import Spend
from burnish.core.trials import Verdict
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.setup import Setup
from burnish.strategies.partial_evaluations import BLOCK
from burnish.strategies.reflective.attempts import (
    FieldSelection,
    FrontierType,
    ParentSelection,
    ReflectiveSettings,
)
from burnish.testing import CallCounter, check_strategy
from tests.strategies.coordinate_runs import Driven, driven
from tests.strategies.reflection_world import (
    CONFLICT,
    ONE_RULE_A_FIELD,
    World,
    best_score,
    setup,
    true_score,
)
from tests.strategies.reflective_runs import CLASSIC, Talk, says, scripted

pytestmark = pytest.mark.slow

CLEAN = World(rules=4, train=12, holdout=12)
BRANCHING = replace(
    ONE_RULE_A_FIELD, train=12, holdout=12, needs=1, idle_share=0.2, harmful_share=0.0
)


def truth(world: World, run: Driven) -> tuple[float, float]:
    """What the start is truly worth, and what was found."""
    start = run.rows[0].trial.candidate
    return true_score(world, start.values), true_score(world, run.ending.best.values)


@pytest.mark.parametrize(
    "settings", [ReflectiveSettings(), CLASSIC, CLASSIC.model_copy(update={"reuse": True})]
)
def test_without_noise_the_rules_are_found(tmp_path: Path, settings: ReflectiveSettings) -> None:
    made = setup(CLEAN, settings, budget=Budget(max_metric_calls=500))
    run = driven(made, tmp_path / "run")
    began, ended = truth(CLEAN, run)
    assert began + 0.5 < ended <= best_score(CLEAN)
    assert run.ending.spent.metric_calls <= 500


@pytest.mark.parametrize("frontier", ["instance", "objective", "hybrid", "cartesian"])
def test_every_type_of_frontier_searches(tmp_path: Path, frontier: FrontierType) -> None:
    world = replace(CONFLICT, train=8, holdout=8)
    settings = CLASSIC.model_copy(update={"frontier": frontier})
    run = driven(setup(world, settings, budget=Budget(max_metric_calls=120)), tmp_path / "run")
    assert any(row.trial.accepted or row.trial.kept for row in run.rows)
    assert run.ending.reason.code == "max_metric_calls"


@pytest.mark.parametrize("selection", ["pareto", "current_best", "epsilon_greedy", "top_k_pareto"])
@pytest.mark.parametrize("racing", [True, False])
def test_every_selection_of_parents_finds_something(
    tmp_path: Path, selection: ParentSelection, racing: bool
) -> None:
    settings = ReflectiveSettings(parent_selection=selection, racing=racing)
    run = driven(setup(CLEAN, settings, budget=Budget(max_metric_calls=300)), tmp_path / "run")
    began, ended = truth(CLEAN, run)
    assert ended > began


@pytest.mark.parametrize("fields", ["round_robin", "all", "random"])
def test_every_selection_of_texts_rewrites_what_it_says(
    tmp_path: Path, fields: FieldSelection
) -> None:
    settings = ReflectiveSettings(field_selection=fields)
    run = driven(setup(BRANCHING, settings, budget=Budget(max_metric_calls=120)), tmp_path / "run")
    rows = [row.trial for row in run.rows if row.trial.proposals]
    assert {len(trial.touched) for trial in rows} == ({4} if fields == "all" else {1})
    if fields == "round_robin":
        turns = ("planner", "writer", "checker", "router") * len(rows)
        assert [trial.touched[0] for trial in rows] == [*turns[: len(rows)]]


@pytest.mark.parametrize("settings", [CLASSIC, ReflectiveSettings(parent_selection="pareto")])
def test_what_two_learned_is_merged(tmp_path: Path, settings: ReflectiveSettings) -> None:
    merging = settings.model_copy(update={"merge": True, "reuse": True, "proposals_per_round": 3})
    run = driven(setup(BRANCHING, merging, budget=Budget(max_metric_calls=300)), tmp_path / "run")
    merges = [row.trial for row in run.rows if row.trial.phase == "merge"]
    assert any(trial.accepted for trial in merges)
    known = {row.trial.candidate.id: row.trial.candidate for row in run.rows}
    for trial in merges:
        sides = [known[name] for name in trial.candidate.parents]
        assert not trial.proposals
        for name, text in trial.candidate.values.items():
            assert any(side.values[name] == text for side in sides)
        assert trial.candidate.id not in {side.id for side in sides}
    began, ended = truth(BRANCHING, run)
    assert began + 0.5 < ended


def test_merging_pays_where_each_learned_something_else(tmp_path: Path) -> None:
    def found(merge: bool, seed: int) -> float:
        update = {"merge": merge, "reuse": True, "proposals_per_round": 3}
        settings = CLASSIC.model_copy(update=update)
        made = setup(BRANCHING, settings, budget=Budget(max_metric_calls=120))
        run = driven(replace(made, seed=seed), tmp_path / f"{merge}-{seed}")
        fired = any(row.trial.phase == "merge" and row.trial.accepted for row in run.rows)
        assert fired is merge
        return truth(BRANCHING, run)[1]

    for seed in (0, 1, 3):
        assert found(True, seed) > found(False, seed) + 0.2


def test_there_are_no_more_merges_than_allowed(tmp_path: Path) -> None:
    merging = CLASSIC.model_copy(
        update={"merge": True, "reuse": True, "proposals_per_round": 3, "max_merges": 1}
    )
    run = driven(setup(BRANCHING, merging, budget=Budget(max_metric_calls=300)), tmp_path / "run")
    assert sum(row.trial.phase == "merge" for row in run.rows) == 1


@pytest.mark.parametrize(
    ("settings", "why"), [(CLASSIC, "nothing_new"), (ReflectiveSettings(), "no_failures")]
)
def test_rounds_without_a_failure_are_skipped_and_in_the_end_the_search_is_over(
    tmp_path: Path, settings: ReflectiveSettings, why: str
) -> None:
    world = replace(CLEAN, known=4)
    counter = CallCounter(path=tmp_path / "calls")
    run = driven(setup(world, settings, counter=counter), tmp_path / "run")
    assert run.why == why
    rounds = run.rows[1:]
    assert all(row.trial.details["skipped"] == "subsample perfect" for row in rounds)
    # Where results are used again, what was seen once is known.
    assert len(rounds) <= 3 if settings.reuse else len(rounds) == 12
    assert not [call for call in counter.calls() if call.startswith("role")]
    assert run.ending.best.id == run.rows[0].trial.candidate.id


def test_with_reuse_nothing_is_run_twice_and_without_it_every_look_is_new(tmp_path: Path) -> None:
    counters = [CallCounter(path=tmp_path / name) for name in ("again", "anew")]
    for settings, counter in zip(
        (CLASSIC.model_copy(update={"reuse": True}), CLASSIC), counters, strict=True
    ):
        made = setup(CLEAN, settings, budget=Budget(max_metric_calls=150), counter=counter)
        run = driven(made, tmp_path / f"{counter.path.name}.run")
        assert len(set(counter.calls())) == len(counter.calls())
        assert run.ending.billed == run.ending.spent
    draws = [
        {call.split()[-1] for call in counter.calls() if call.startswith("run")}
        for counter in counters
    ]
    assert draws[0] == {"0"}
    assert draws[1] >= {"0", "1", "2"}


def test_a_winner_is_run_again_and_luck_is_turned_down(tmp_path: Path) -> None:
    world = World(train=12, holdout=16, noise=0.25, seed=3)
    settings = ReflectiveSettings(parent_selection="current_best")
    made = setup(world, settings, budget=Budget(max_metric_calls=900))
    run = driven(made, tmp_path / "run")
    lucky = [r.trial for r in run.rows if r.trial.decision and r.trial.decision.code == "luck"]
    assert lucky
    assert all(trial.decision and "run again" in trial.decision.reason for trial in lucky)
    accepted = [row.trial for row in run.rows if row.trial.accepted]
    assert accepted
    for trial in accepted:
        assert trial.holdout is not None
        runs = {len(of["complete"]) for of in trial.holdout.scores.values()}
        assert runs == {2}


def test_where_chance_plays_no_part_the_second_run_is_short(tmp_path: Path) -> None:
    made = setup(replace(CLEAN, holdout=24), budget=Budget(max_metric_calls=400))
    run = driven(made, tmp_path / "run")
    accepted = [row.trial.candidate.id for row in run.rows if row.trial.accepted]
    again = [e.request for e in run.effects if e.kind == "run" and e.draw == 1]
    held = {case.id for case in made.dataset.holdout}
    told = [r["candidate"] for r in again if isinstance(r, dict) and r["name"] in held]
    assert accepted
    assert {name: told.count(name) for name in accepted} == dict.fromkeys(accepted, BLOCK)


def test_a_race_ends_where_it_is_lost(tmp_path: Path) -> None:
    world = replace(CLEAN, holdout=40, noise=0.1)
    settings = ReflectiveSettings(parent_selection="current_best")
    run = driven(setup(world, settings, budget=Budget(max_metric_calls=900)), tmp_path / "run")
    ended = [r.trial for r in run.rows if r.trial.decision and r.trial.decision.gate == "race"]
    short = [trial for trial in ended if not trial.details["whole_holdout"]]
    assert short
    for trial in short:
        assert trial.holdout is not None
        assert trial.holdout.measurement.cases % BLOCK == 0
        assert trial.holdout.measurement.cases < 40
        assert trial.decision is not None
        assert trial.decision.verdict is Verdict.REJECT


@pytest.mark.parametrize("proposals", [1, 3])
@pytest.mark.parametrize("limit", [77, 100, 131])
@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC])
def test_a_budget_of_metric_calls_is_never_overrun(
    tmp_path: Path, settings: ReflectiveSettings, limit: int, proposals: int
) -> None:
    world = World(train=12, holdout=20, noise=0.1)
    made = setup(
        world,
        settings.model_copy(update={"proposals_per_round": proposals, "merge": True}),
        budget=Budget(max_metric_calls=limit),
    )
    run = driven(made, tmp_path / "run")
    assert run.ending.reason.code == "max_metric_calls"
    assert limit - 60 < run.ending.spent.metric_calls <= limit
    assert run.ending.billed.metric_calls <= limit


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_limit_of_60_is_used_until_nothing_more_can_be_decided(
    tmp_path: Path, size: int, seed: int
) -> None:
    """Where no whole round fits, short ones reflect on what is known: less than one run over
    holdout is left, and none is beyond the limit."""
    made = setup(World(train=size, holdout=size, noise=0.1), CLASSIC,
                 budget=Budget(max_metric_calls=60))  # fmt: skip
    run = driven(replace(made, seed=seed), tmp_path / "run")
    assert run.ending.reason.code == "max_metric_calls"
    assert 60 - size < run.ending.spent.metric_calls <= 60
    reflected = [row.trial for row in run.rows if row.trial.phase == "reflective"]
    short = [t for t in reflected if t.train is None or t.train.measurement.cases < 3]
    assert any(trial.holdout is not None for trial in short)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [3, 4, 8])
def test_a_trail_with_races_uses_its_limit_too(tmp_path: Path, size: int, seed: int) -> None:
    """Less is left than it takes to make a candidate lead: holdout, and a block of it again."""
    made = setup(World(train=size, holdout=size, noise=0.1), ReflectiveSettings(),
                 budget=Budget(max_metric_calls=60))  # fmt: skip
    run = driven(replace(made, seed=seed), tmp_path / "run")
    assert run.ending.reason.code == "max_metric_calls"
    assert 60 - 2 * size < run.ending.spent.metric_calls <= 60
    before = [row.trial for row in run.rows]
    more = replace(made, seed=seed, budget=Budget(max_metric_calls=90))
    again = driven(more, tmp_path / "run")
    assert [row.trial for row in again.rows[: len(before)]] == before
    assert 60 < again.ending.spent.metric_calls <= 90


def test_a_short_round_can_find_the_winner_and_a_resume_repeats_it(tmp_path: Path) -> None:
    """Baseline 3, a round of 6 that fails, and 4 left: one to screen, 3 to decide."""
    texts = ["Worse {who}.", "Answer {who}: yes"]
    talk = Talk(rewrite=lambda _, draw: texts[min(draw - 1, 1)])

    def made(limit: int) -> Setup:
        return scripted(
            says(lambda text: text.rpartition(" ")[2]),
            talk,
            settings=CLASSIC,
            budget=Budget(max_metric_calls=limit),
            train=3,
            holdout=3,
        )

    run = driven(made(13), tmp_path / "run")
    assert [row.trial.accepted for row in run.rows[1:]] == [False, True]
    assert run.rows[2].trial.train is not None
    assert run.rows[2].trial.train.measurement.cases == 1
    assert run.ending.spent.metric_calls == 13
    before = [row.trial for row in run.rows]
    again = driven(made(40), tmp_path / "run")
    assert [row.trial for row in again.rows[:3]] == before


def test_the_sealed_test_is_paid_from_the_same_budget(tmp_path: Path) -> None:
    world = replace(CLEAN, test=10)
    run = driven(setup(world, budget=Budget(max_metric_calls=150)), tmp_path / "run")
    assert run.ending.sealed is not None
    assert run.ending.spent.metric_calls <= 150


def test_a_limit_on_calls_counts_the_reflector_too(tmp_path: Path) -> None:
    run = driven(setup(CLEAN, budget=Budget(max_calls=90)), tmp_path / "run")
    assert run.ending.reason.code == "max_calls"
    assert run.ending.spent.calls <= 90


def test_what_cannot_be_measured_at_the_start_is_not_searched(tmp_path: Path) -> None:
    made = setup(replace(CLEAN, outage_rate=0.6))
    with pytest.raises(BaselineUnmeasured, match=r"not be measured: of .* are missing; in"):
        driven(made, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, len(record.rows)) == ("failed", 1)


@pytest.mark.parametrize("settings", [ReflectiveSettings(), CLASSIC])
def test_what_is_missing_never_wins(tmp_path: Path, settings: ReflectiveSettings) -> None:
    world = replace(CLEAN, outage_rate=0.15, crash_rate=0.1)
    run = driven(setup(world, settings, budget=Budget(max_metric_calls=400)), tmp_path / "run")
    for row in run.rows[1:]:
        decision = row.trial.decision
        if decision is None or row.trial.holdout is None:
            continue
        if decision.missing.too_many and decision.missing.dropped:
            assert decision.verdict is Verdict.CANNOT_TELL
    assert truth(world, run)[1] >= truth(world, run)[0]


@pytest.mark.parametrize(
    "settings",
    [
        ReflectiveSettings(parent_selection="current_best"),
        CLASSIC,
        ReflectiveSettings(proposals_per_round=3),
        CLASSIC.model_copy(
            update={"proposals_per_round": 3, "merge": True, "field_selection": "all"}
        ),
    ],
)
async def test_a_run_that_was_cut_goes_on_as_if_it_had_not_been(
    tmp_path: Path, settings: ReflectiveSettings
) -> None:
    world = replace(BRANCHING, noise=0.05, crash_rate=0.03, role_failure_rate=0.1)
    ending = await check_strategy(
        lambda: setup(world, settings, budget=Budget(max_metric_calls=160)), tmp_path, cut_at=6
    )
    assert ending.spent != Spend()
