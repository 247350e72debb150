"""Agreement with labels: numbers worked out by hand, leans that are there and that are not."""

import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.evaluations import Score
from burnish.metrics.agreement import (
    Agreement,
    Confusion,
    Labelled,
    Share,
    agreement,
    cohens_kappa,
    length_bias,
    position_bias,
)
from tests.metrics.judge_bench import CASE, KINDS, OUTCOME, panel, said, score


def rng() -> random.Random:
    return random.Random(7)


def items(
    *, both_pass: int = 0, both_fail: int = 0, let_through: int = 0, turned_down: int = 0
) -> list[Labelled]:
    """So many of each kind."""
    counts = [
        (True, 1.0, both_pass),
        (False, 0.0, both_fail),
        (False, 1.0, let_through),
        (True, 0.0, turned_down),
    ]
    return [Labelled(label=label, value=v) for label, v, count in counts for _ in range(count)]


def measured(**counts: int) -> Agreement:
    return agreement(items(**counts), rng())


def test_twenty_labels_worked_out_by_hand() -> None:
    found = measured(both_pass=11, both_fail=7, let_through=1, turned_down=1)
    assert found.confusion == Confusion(
        both_pass=11, both_fail=7, only_judge_passes=1, only_judge_fails=1
    )
    # Chance: (12 · 12 + 8 · 8) / 400 = 0.52, so kappa = (0.9 − 0.52) / 0.48.
    assert found.kappa == pytest.approx(0.38 / 0.48)
    assert found.sentences() == (
        "agrees with 18 of 20 labels (accuracy 0.90 [0.70, 0.97]), kappa 0.79",
        "calling every reply good would agree with 12: the judge does better",
        "of 8 bad replies it rejected 7 (recall 0.88 [0.53, 0.98]); "
        "of the 8 it rejected, 7 were bad (precision 0.88 [0.53, 0.98])",
        "cannot tell whether length matters to it: "
        "this takes 8 judged replies with their lengths, found 0",
    )


@pytest.mark.parametrize(("count", "of"), [(18, 20), (5, 10), (1, 3), (1, 400), (399, 400)])
def test_the_wilson_interval_ends_where_the_share_would_just_be_odd(count: int, of: int) -> None:
    share = Share.of_counts(count, of)
    assert share is not None
    z = NormalDist().inv_cdf(0.975)
    for end in (share.low, share.high):
        assert abs(share.value - end) == pytest.approx(z * math.sqrt(end * (1 - end) / of))


@pytest.mark.parametrize(("count", "low", "high"), [(0, 0.0, 0.2775), (10, 0.7225, 1.0)])
def test_the_wilson_interval_touches_the_ends(count: int, low: float, high: float) -> None:
    share = Share.of_counts(count, 10)
    assert share is not None
    assert (share.low, share.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_there_is_no_share_of_nothing() -> None:
    assert Share.of_counts(0, 0) is None


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=50)
def test_a_share_lies_in_its_interval(counts: tuple[int, int]) -> None:
    share = Share.of_counts(*counts)
    assert share is not None
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert share.low < share.high


@pytest.mark.parametrize(
    ("found", "kappa"),
    [
        (Confusion(both_pass=5, both_fail=5), 1.0),
        (Confusion(only_judge_passes=5, only_judge_fails=5), -1.0),
        (Confusion(both_pass=5, only_judge_passes=5), 0.0),
        (Confusion(both_pass=4, both_fail=4, only_judge_passes=1, only_judge_fails=1), 0.6),
        (Confusion(both_pass=9), None),
        (Confusion(both_fail=9, only_judge_passes=2), None),
        (Confusion(both_pass=9, only_judge_fails=2), None),
        (Confusion(), None),
    ],
)
def test_kappa(found: Confusion, kappa: float | None) -> None:
    assert cohens_kappa(found) == (None if kappa is None else pytest.approx(kappa))


def test_a_judge_that_always_passes_is_no_better_than_that() -> None:
    found = measured(both_pass=9, let_through=3)
    assert found.kappa == 0.0
    told = found.sentences()
    assert told[1] == "calling every reply good would agree with 9: the judge does no better"
    assert (
        told[2]
        == "of 3 bad replies it rejected 0 (recall 0.00 [0.00, 0.56]), and no good one either"
    )
    assert found.fail_precision is None


def test_labels_of_one_kind_say_little() -> None:
    told = measured(both_pass=4, turned_down=1).sentences()
    assert "kappa is undefined, since all labels are the same" in told[0]
    assert told[2] == (
        "no reply is labelled bad, so it is not known what it would miss; "
        "it rejected 1 of 5 good replies"
    )


def test_what_is_missing_counts_neither_way() -> None:
    gone = Labelled(label=True, value=None)
    found = agreement([*items(both_pass=2, both_fail=2), gone, gone], rng())
    assert (found.items, found.missing, found.confusion.total) == (6, 2, 4)
    assert found.sentences()[0] == ("the judge gave no verdict on 2 of 6 items, left out here")
    nothing = agreement([gone], rng())
    assert nothing.accuracy is None
    assert nothing.sentences() == (
        "the judge gave no verdict on any of 1 items: nothing to compare",
    )


@pytest.mark.parametrize(
    ("label", "value", "passed", "bar", "agrees"),
    [
        (0.7, 0.6, None, 0.5, True),
        (0.7, 0.6, None, 0.65, False),
        (0.7, 0.6, True, 0.65, True),
        (1.0, 0.9, False, 0.5, False),
        (True, 0.2, True, 0.5, True),
        (0.0, 0.49, None, 0.5, True),
    ],
)
def test_numbers_pass_from_the_bar_on_and_a_verdict_comes_first(
    label: float, value: float, passed: bool | None, bar: float, agrees: bool
) -> None:
    found = agreement([Labelled(label=label, value=value, passed=passed)], rng(), bar=bar)
    assert found.confusion.agreed == int(agrees)


def of_length(lengths: list[int], errors: list[float]) -> list[Labelled]:
    return [
        Labelled(label=0.5, value=0.5 + error, length=length)
        for length, error in zip(lengths, errors, strict=True)
    ]


def test_a_judge_that_likes_length_is_found_out() -> None:
    lengths = list(range(10, 130, 10))
    found = length_bias(of_length(lengths, [each / 400 for each in lengths]), rng())
    assert found.correlation == pytest.approx(1.0)
    assert found.lean == "long"
    assert str(found).startswith("it favours long replies: its error and the length")
    turned = length_bias(of_length(lengths, [-each / 400 for each in lengths]), rng())
    assert (turned.lean, turned.correlation) == ("short", pytest.approx(-1.0))


def test_a_judge_that_minds_no_length_is_left_in_peace() -> None:
    lengths = [10, 20, 30, 40, 50, 60, 70, 80]
    errors = [0.1, -0.1, -0.1, 0.1, 0.1, -0.1, -0.1, 0.1]
    found = length_bias(of_length(lengths, errors), rng())
    assert found.correlation == pytest.approx(0.0)
    assert found.lean == ""
    assert found.chance_low < -0.5 < 0.5 < found.chance_high
    assert str(found).startswith("no sign that length matters to it")


def test_the_correlation_is_pearsons() -> None:
    # Lengths 1 to 8 against one error at the end: sum of (x − 4.5)(e − 1/16) over the sizes.
    found = length_bias(of_length([1, 2, 3, 4, 5, 6, 7, 8], [0.0] * 7 + [0.5]), rng())
    assert found.correlation == pytest.approx(3.5 * 0.5 / math.sqrt(42 * 0.21875))


@pytest.mark.parametrize(
    ("lengths", "errors", "words"),
    [
        ([1] * 9, [0.0, 0.1, 0.2] * 3, "its errors or the lengths do not vary"),
        (list(range(9)), [0.0] * 9, "its errors or the lengths do not vary"),
        (list(range(7)), [0.0, 0.1, 0.2, 0.3, 0.2, 0.1, 0.0], "takes 8 judged replies"),
    ],
)
def test_where_length_cannot_be_told(lengths: list[int], errors: list[float], words: str) -> None:
    found = length_bias(of_length(lengths, errors), rng())
    assert found.correlation is None
    assert found.lean == ""
    assert words in str(found)


def test_the_same_seed_gives_the_same_range() -> None:
    given_items = of_length(list(range(20)), [(each % 7) / 20 for each in range(20)])
    assert length_bias(given_items, rng()) == length_bias(given_items, rng())


def pairs(*margins: tuple[float, float]) -> list[Labelled]:
    return [Labelled(label=True, value=0.5, first_margins=each) for each in margins]


def test_a_judge_that_likes_the_first_place_is_found_out() -> None:
    found = position_bias(pairs(*[(0.2, 0.3)] * 6))
    assert found is not None
    assert (found.flips.count, found.lean) == (6, "first")
    assert str(found) == (
        "the order changes the outcome of 6 of 6 pairs (1.00 [0.61, 1.00]); "
        "it favours the first position: the first wins 12 of 12 (1.00 [0.76, 1.00])"
    )
    turned = position_bias(pairs(*[(-0.2, -0.3)] * 6))
    assert turned is not None
    assert turned.lean == "second"


def test_a_judge_that_keeps_to_its_choice_does_not_flip() -> None:
    found = position_bias(pairs((0.2, -0.2), (-0.1, 0.4), (0.0, 0.0)))
    assert found is not None
    assert (found.flips.count, found.flips.of, found.lean) == (0, 3, "")
    assert found.first_wins is not None
    assert (found.first_wins.count, found.first_wins.of) == (2, 4)


def test_ties_have_no_winner() -> None:
    found = position_bias(pairs((0.0, 0.0)))
    assert found is not None
    assert found.first_wins is None
    assert str(found).endswith("all are ties")
    half = position_bias(pairs((0.0, 0.3)))
    assert half is not None
    assert half.flips.count == 1


def test_a_judge_of_single_replies_has_no_places() -> None:
    assert position_bias(items(both_pass=3)) is None


async def test_the_orders_of_a_pairwise_score_are_read_from_it() -> None:
    first_is_best = said(reasoning="r", first_grade="A", second_grade="K")
    metric = KINDS["llm_verifier_pairwise"].make(panel(first_is_best))
    found = Labelled.of(await score(metric, CASE, OUTCOME), label=True, length=12)
    assert found.first_margins == (pytest.approx(10 / 19), pytest.approx(10 / 19))
    assert (found.value, found.length) == (0.5, 12)
    told = agreement([found], rng()).sentences()
    assert "the order changes the outcome of 1 of 1 pairs" in told[-1]
    plain = Labelled.of(Score(metric="m", value=1.0, passed=True), label=False)
    assert (plain.first_margins, plain.passed) == (None, True)
