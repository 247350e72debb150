"""The benchmark of true claims: worlds whose truth is known, runs that repeat, tables that fail.

The shares themselves need hundreds of runs, which the benchmark makes.
"""

import math
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from benchmarks.truth.__main__ import main
from benchmarks.truth.cheats import Attempt, Cheat
from benchmarks.truth.plays import Play, Played
from benchmarks.truth.searches import SEARCHES
from benchmarks.truth.tables import cheat_table, gain_table, null_table, power_table, shift_table
from benchmarks.truth.worlds import START, SURFACE, AnswerWorld, Effect, TaskWorld, TrueGain

from burnish.core.cases import Case
from burnish.core.statistics import Interval
from burnish.core.surfaces import Candidate

_LOOKS = 400


def play(strategy: str = "coordinate", *, effect: Effect = "null", sealed: bool = True) -> Play:
    return Play(strategy=strategy, effect=effect, sealed=sealed, number=1)


def improved(part: Play, *, gain: float = 0.2, truth: float = 0.2) -> Played:
    return Played(
        play=part,
        changed=True,
        verdict="improved",
        basis=part.basis,
        interval=Interval(mean=gain, low=gain - 0.1, high=gain + 0.1, cases=16),
        truth=TrueGain(here=truth, everywhere=truth),
    )


def unshown(part: Play) -> Played:
    return replace(improved(part), verdict="not shown", interval=None)


@pytest.mark.parametrize(
    ("strategy", "sealed"),
    [
        *((name, True) for name in SEARCHES),
        *((name, False) for name in ("coordinate", "reflective", "edits")),
    ],
)
def test_a_run_in_a_world_can_be_repeated(strategy: str, *, sealed: bool) -> None:
    part = play(strategy, effect="power", sealed=sealed)
    first = part.result()
    assert first == part.result()
    assert first.changed
    assert first.basis == part.basis
    assert first.truth.everywhere == pytest.approx(2 * part.smallest_shown, abs=0.05)


@pytest.mark.parametrize("strategy", SEARCHES)
def test_nothing_helps_in_a_null_world(strategy: str) -> None:
    world = play(strategy).world()
    text = START
    for draw in range(5):
        text = world.proposal(text, draw)
    assert len(text.splitlines()) == 6
    assert world.true_gain(text, world.dataset().test) == TrueGain(here=0.0, everywhere=0.0)


def test_a_shift_gains_on_some_cases_what_it_loses_on_others() -> None:
    world = play(effect="shift").world()
    text, cases = world.proposal(START), world.dataset().test
    assert world.true_gain(text, cases).everywhere == pytest.approx(0.0)
    gains = {round(world.true_gain(text, [case]).here, 6) for case in cases}
    assert gains == {0.2, -0.2}


def test_in_a_world_with_gains_some_proposals_help_and_some_harm() -> None:
    world = play(effect="gain").world()
    gains = [
        world.true_gain(world.proposal(START, n), world.dataset().test).everywhere
        for n in range(100)
    ]
    assert 25 < sum(gain > 0 for gain in gains) < 55
    assert 10 < sum(gain < 0 for gain in gains) < 30


@pytest.mark.parametrize(("kind", "repeats"), [(AnswerWorld, 2), (TaskWorld, 5)])
def test_the_smallest_gain_that_can_be_shown_is_shown_half_of_the_time(
    kind: type[AnswerWorld] | type[TaskWorld], repeats: int
) -> None:
    """At that gain zero is at the end of the expected interval, so it is out as often as in."""
    gain = kind.smallest_shown(repeats)
    shown = 0
    for number in range(_LOOKS):
        world = kind(effect="power", number=number, sealed=True, help=gain)
        shown += _interval_above_zero(world, repeats)
    assert 0.4 < shown / _LOOKS < 0.6


def _interval_above_zero(world: AnswerWorld | TaskWorld, repeats: int) -> bool:
    before = Candidate(values={SURFACE: START})
    after = Candidate(values={SURFACE: world.proposal(START)})

    def scores(candidate: Candidate, case: Case) -> list[float]:
        outcomes = (world.respond(candidate, case, draw) for draw in range(repeats))
        return [each.measures.get("score", float(each.output == "yes")) for each in outcomes]

    tests = world.dataset().test
    if isinstance(world, TaskWorld):
        old, new = scores(before, tests[0]), scores(after, tests[0])
        error = math.sqrt((stdev(old) ** 2 + stdev(new) ** 2) / repeats)
        return fmean(new) - fmean(old) > 2.306 * error
    gains = [fmean(scores(after, case)) - fmean(scores(before, case)) for case in tests]
    return fmean(gains) > 2.131 * stdev(gains) / math.sqrt(len(gains))


def test_a_claim_from_fresh_draws_is_held_against_its_own_cases() -> None:
    truth = TrueGain(here=0.25, everywhere=0.5)
    fresh = replace(improved(play(sealed=False)), truth=truth)
    sealed = replace(improved(play()), truth=truth)
    assert (fresh.covers, fresh.covers_everywhere, fresh.error) == (
        True,
        False,
        pytest.approx(-0.05),
    )
    assert (sealed.covers, sealed.error) == (False, pytest.approx(-0.3))
    assert unshown(play()).covers is None


def test_a_gain_claimed_in_a_null_world_is_counted_against_the_goal() -> None:
    claims = [improved(play(), truth=0.0), *[unshown(play())] * 19]
    assert null_table(claims).met
    missed = null_table([improved(play(), truth=0.0), *claims])
    assert not missed.met
    assert missed.rows == [
        ["coordinate", "sealed test", "21", "100%", "9.5%", "2.7% to 28.9%", "≤ 5% ✗"]
    ]


def test_only_a_sealed_test_must_see_through_a_shift() -> None:
    assert not shift_table([improved(play(effect="shift"), truth=0.0)]).met
    assert shift_table([improved(play(effect="shift", sealed=False), truth=0.0)]).met


def test_a_truth_outside_of_its_interval_is_counted_against_the_goal() -> None:
    right, wrong = improved(play(effect="gain")), improved(play(effect="gain"), truth=-0.2)
    assert gain_table([right] * 20).met
    assert not gain_table([*[right] * 12, wrong]).met
    assert not gain_table([unshown(play(effect="gain"))]).met, "no interval, no coverage"
    assert "1 of 1" in gain_table([*[right] * 12, wrong]).rows[0]


def test_a_gain_that_is_not_claimed_is_counted_against_the_goal() -> None:
    part = play(effect="power")
    assert power_table([*[improved(part)] * 4, unshown(part)]).met
    assert not power_table([*[improved(part)] * 3, unshown(part)]).met


def test_a_cheat_that_is_accepted_is_shown() -> None:
    cheat = Cheat(
        name="lie", strategy="edits", play=lambda _: Attempt(accepted=True, offered=False)
    )
    assert cheat_table([(cheat, Attempt(accepted=False, offered=False))]).met
    table = cheat_table([(cheat, Attempt(accepted=True, offered=False))])
    assert not table.met
    assert "| lie | edits | yes | no | ✗ |" in str(table)


def test_what_the_rule_accepts_may_still_not_be_offered() -> None:
    cheat = Cheat(
        name="luck", strategy="edits", play=lambda _: Attempt(accepted=False, offered=False)
    )
    table = cheat_table([(cheat, Attempt(accepted=False, by_rule=True, offered=False))])
    assert table.met
    assert "| luck | edits | by rule | no | ✓ |" in str(table)
    assert not cheat_table([(cheat, Attempt(accepted=False, by_rule=True, offered=True))]).met


def test_the_command_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["null", "--runs", "2", "--strategy", "edits", "--basis", "sealed", "--processes", "1"]
    assert main(names) == 0
    shown = capsys.readouterr().out
    assert f'`make bench PART=truth ARGS="{" ".join(names)}"`' in shown
    assert "| edits | sealed test | 2 |" in shown


def test_the_part_about_judges_that_change_has_runs_with_and_without_a_gain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["drift", "--runs", "1", "--basis", "fresh", "--processes", "1"])
    shown = capsys.readouterr().out
    for judge in ("a judge that drifts", "good and bad minutes"):
        for at_once in (1, 8):
            assert f"| {judge} | fresh draws | {at_once} | 1 |" in shown
