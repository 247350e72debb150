"""Worlds for reflective search: the truth is true, and a rewrite knows what it was shown."""

from dataclasses import replace
from itertools import combinations
from statistics import fmean

import pytest

from burnish.core.cases import Case
from burnish.core.evaluations import Score
from burnish.core.surfaces import Candidate
from burnish.journal.once import DirectEffects
from burnish.strategies.reflective.reflection import Reflection, ReflectRequest
from tests.strategies.reflection_world import (
    CONFLICT,
    ONE_RULE_A_FIELD,
    Complete,
    World,
    always,
    answer,
    baseline,
    best_score,
    dataset,
    field_of,
    fields,
    lacking,
    metrics,
    never,
    population,
    reasons_in,
    reflector,
    revealed,
    rewrite,
    rules,
    stated,
    target,
    true_score,
    true_scores,
    values_of,
)

MANY_FIELDS = World(rules=6, fields=3, noise=0.2)
WORLDS = {
    "pass or fail": World(noise=0.25, train=600),
    "without noise": World(train=600),
    "continuous": World(noise=0.25, continuous=True, train=600),
    "crashing": World(noise=0.1, crash_rate=0.3, train=600),
    "many fields, rare rules": replace(MANY_FIELDS, skew=1.5, train=600),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())
def test_the_truth_is_the_mean_of_many_draws(world: World) -> None:
    some = values_of(world, rules(world)[::2])
    candidate, cases = Candidate(values=some), dataset(world).train
    measured = [_score(world, candidate, case, draw) for case in cases for draw in range(10)]
    # 600 cases drawn from 200 kinds differ a little from the whole population.
    assert fmean(measured) == pytest.approx(true_score(world, some), abs=0.05)


def test_a_case_of_each_kind_gives_the_truth_exactly_where_there_is_no_luck() -> None:
    world = World(needs=3)
    some = rules(world)[:4]
    passing = [set(kind) <= set(some) for kind in population(world)]
    assert true_score(world, values_of(world, some)) == pytest.approx(fmean(passing))


@pytest.mark.parametrize("world", [World(noise=0.2), CONFLICT, ONE_RULE_A_FIELD])
def test_nothing_is_worth_more_than_the_best(world: World) -> None:
    names = rules(world)[:4]
    some = [chosen for size in range(5) for chosen in combinations(names, size)]
    assert max(true_score(world, values_of(world, each)) for each in some) <= best_score(world)
    assert true_score(world, baseline(world)) < best_score(world)


def test_a_rule_counts_in_its_own_text_only() -> None:
    start = baseline(MANY_FIELDS)
    rule = rules(MANY_FIELDS)[4]
    right, wrong = field_of(MANY_FIELDS, rule), fields(MANY_FIELDS)[0]
    misplaced = {**start, wrong: f"{start[wrong]}\n{always(rule)}"}
    placed = {**start, right: f"{start[right]}\n{always(rule)}"}
    assert true_score(MANY_FIELDS, misplaced) == true_score(MANY_FIELDS, start)
    assert true_score(MANY_FIELDS, placed) > true_score(MANY_FIELDS, start)


def test_the_opposite_of_a_rule_is_worse_than_silence() -> None:
    world = World(noise=0.2)
    (field,) = fields(world)
    silent = values_of(world, ())
    opposed = {field: f"{silent[field]}\n{never('r00')}"}
    assert true_score(world, opposed) < true_score(world, silent)


def test_the_two_metrics_of_the_conflict_pull_apart() -> None:
    few, many = values_of(CONFLICT, ()), values_of(CONFLICT, rules(CONFLICT))
    complete_of_few, brief_of_few = true_scores(CONFLICT, few)
    complete_of_many, brief_of_many = true_scores(CONFLICT, many)
    assert complete_of_few < complete_of_many
    assert brief_of_few > brief_of_many
    assert [metric.name for metric in metrics(CONFLICT)] == ["complete", "brief"]


async def test_both_metrics_score_what_the_truth_says() -> None:
    case, some = dataset(CONFLICT).train[0], values_of(CONFLICT, rules(CONFLICT)[:3])
    outcome = answer(CONFLICT, Candidate(values=some), case, 0)
    complete, brief = [
        (await metric.score(case, outcome, effects=DirectEffects()))[0]
        for metric in metrics(CONFLICT)
    ]
    assert brief.value == pytest.approx(true_scores(CONFLICT, some)[1])
    assert complete.reason.count("lacks") == (case.expected or "").count("[") * (
        1 - (complete.value or 0.0)
    )


def test_one_rule_a_field_is_met_by_a_text_each() -> None:
    world = ONE_RULE_A_FIELD
    assert {field_of(world, rule) for rule in rules(world)} == set(fields(world))
    assert not any(stated(text) for text in baseline(world).values())


def test_a_rewrite_states_no_rule_that_it_was_not_shown() -> None:
    world = replace(MANY_FIELDS, idle_share=0.1, harmful_share=0.3)
    reasons = [lacking(field_of(world, rule), rule) for rule in rules(world)[2:5]]
    for draw in range(60):
        field = fields(world)[draw % 3]
        text = baseline(world)[field]
        _, new = rewrite(world, field, text, reasons, draw)
        assert set(stated(new)) <= {*stated(text), *revealed(field, reasons)}
        _, blind = rewrite(world, field, text, [], draw)
        assert set(stated(blind)) <= set(stated(text))


def test_rewrites_come_in_the_shares_that_the_world_names() -> None:
    world = World(known=3, idle_share=0.5, harmful_share=0.3)
    (field,) = fields(world)
    text = baseline(world)[field]
    before = true_score(world, {field: text})
    worth = [
        true_score(world, {field: rewrite(world, field, text, [lacking(field, "r05")], draw)[1]})
        for draw in range(600)
    ]
    assert fmean(each == before for each in worth) == pytest.approx(0.5, abs=0.06)
    assert fmean(each < before for each in worth) == pytest.approx(0.3, abs=0.06)


def test_a_rewrite_can_repair_what_another_has_spoilt() -> None:
    world = World(idle_share=0.0, harmful_share=0.0)
    (field,) = fields(world)
    spoilt = f"{baseline(world)[field]}\n{never('r02')}"
    _, mended = rewrite(world, field, spoilt, [lacking(field, "r02")], 0)
    assert "r02" in stated(mended)


async def test_the_reflector_reads_the_reasons_and_nothing_else_of_the_records() -> None:
    world = World(idle_share=0.0, harmful_share=0.0)
    assert "r05" in stated((await _reflect(world, _RECORDS, 0)).new_text)
    without = _RECORDS.replace(": the planner lacks [r05]", "")
    assert stated((await _reflect(world, without, 0)).new_text) == ["r00"]
    assert reasons_in(_RECORDS) == ["the planner lacks [r05]"]


async def test_everything_is_a_function_of_what_it_was_asked() -> None:
    world, other = World(noise=0.3, train=50), World(noise=0.3, train=50, seed=8)
    start, cases = target(world).baseline, dataset(world).train
    told = [_score(world, start, case, 0) for case in cases]
    assert told == [_score(world, start, case, 0) for case in cases]
    assert told != [_score(world, start, case, 1) for case in cases]
    assert dataset(world) == dataset(world)
    assert dataset(world) != dataset(other)
    assert await _reflect(world, _RECORDS, 3) == await _reflect(world, _RECORDS, 3)
    assert await _reflect(world, _RECORDS, 3) != await _reflect(world, _RECORDS, 4)


def test_the_splits_are_fit_for_a_run() -> None:
    assert dataset(World(train=40, holdout=40, test=40)).problems() == []


_RECORDS = """Case case-0003
Input: Customer 0003 asks about order 12345
Expected answer: [r04] [r05]
The agent's answer: [r04]
Wrong by complete: the planner lacks [r05]
Earlier answer, worth 0.00: [r06]"""


async def _reflect(world: World, records: str, draw: int) -> Reflection:
    request = ReflectRequest(
        field="planner",
        current_text=baseline(world)["planner"],
        records=records,
        other_texts="",
        rejected="",
        must_keep="",
        max_chars=2000,
    )
    role = reflector(world)
    return (await role.answer(request, draw=draw, effects=DirectEffects())).value


def _score(world: World, candidate: Candidate, case: Case, draw: int) -> float:
    try:
        outcome = answer(world, candidate, case, draw)
    except ValueError as error:
        return Score.of_failure("complete", str(error)).value or 0.0
    return Complete(world=world).judge(case, outcome).value or 0.0
