"""Agreement of people beyond chance, fitted thresholds, and whether a judge can be trusted."""

import random

import pytest

from burnish.metrics.agreement import (
    Kappa,
    Labelled,
    Trust,
    best_threshold,
    judge_verdict,
    rater_pairs,
    trust_in,
)


def test_kappa_is_agreement_beyond_chance() -> None:
    both = [("pass", "pass")] * 20 + [("fail", "fail")] * 15
    apart = [("pass", "fail")] * 5 + [("fail", "pass")] * 10
    kappa = Kappa.of([*both, *apart])
    assert kappa is not None
    assert kappa.value == pytest.approx(0.4)  # by hand: raw 0.7, by chance 0.5
    assert kappa.low < 0.4 < kappa.high


def test_kappa_of_several_classes() -> None:
    pairs = [("a", "a"), ("b", "b"), ("c", "c"), ("a", "b")]
    kappa = Kappa.of(pairs)
    assert kappa is not None
    chance = (2 * 1 + 1 * 2 + 1 * 1) / 16
    assert kappa.value == pytest.approx((0.75 - chance) / (1 - chance))


@pytest.mark.parametrize("pairs", [[], [("pass", "pass")] * 4])
def test_kappa_needs_two_answers_to_tell_apart(pairs: list[tuple[object, object]]) -> None:
    assert Kappa.of(pairs) is None


def test_full_agreement_of_a_few_is_not_certain() -> None:
    kappa = Kappa.of([("pass", "pass"), ("fail", "fail")] * 3)
    assert kappa is not None
    assert kappa.value == 1.0
    assert kappa.low < 0.5


@pytest.mark.parametrize(("truth", "share"), [(0.0, 0.5), (0.4, 0.3), (0.7, 0.5), (0.9, 0.3)])
def test_the_interval_holds_the_truth_nineteen_times_of_twenty(truth: float, share: float) -> None:
    rng = random.Random(7)
    held = 0
    for _ in range(600):
        ones = [rng.random() < share for _ in range(40)]
        pairs = [(one, one if rng.random() < truth else rng.random() < share) for one in ones]
        kappa = Kappa.of(pairs)
        held += kappa is not None and kappa.low <= truth <= kappa.high
    assert held >= 0.93 * 600


def test_people_are_compared_on_what_both_have_labelled() -> None:
    answers: dict[str, dict[str, str | float]] = {
        "ana": {"a": "pass", "b": "fail", "c": "pass"},
        "bob": {"b": "pass", "c": "pass", "d": "fail"},
        "cy": {},
    }
    first, second, _ = rater_pairs(answers)
    assert (first.one, first.other, first.cases, first.differing) == ("ana", "bob", 2, ("b",))
    assert (second.cases, second.agreement, second.kappa) == (0, None, None)


def test_scores_agree_on_the_same_side_of_one_half() -> None:
    scores: dict[str, dict[str, str | float]] = {
        "ana": {"a": 0.5, "b": 0.2},
        "bob": {"a": 1, "b": 0.5},
    }
    assert rater_pairs(scores)[0].differing == ("b",)


def judged(*pairs: tuple[bool, float | None]) -> list[Labelled]:
    return [Labelled(label=label, value=value) for label, value in pairs]


def test_the_best_threshold_separates_good_from_bad() -> None:
    items = judged((True, 0.9), (True, 0.8), (False, 0.7), (False, 0.6))
    assert best_threshold(items) == pytest.approx(0.75)
    assert best_threshold(judged((True, 0.9), (True, 0.8))) is None
    assert best_threshold(judged((True, 0.1), (False, 0.9))) is None  # it would be upside down


def test_a_judge_that_is_right_with_another_threshold() -> None:
    good, bad = (
        [(True, 0.95 - n / 500) for n in range(30)],
        [(False, 0.8 - n / 200) for n in range(30)],
    )
    verdict = judge_verdict(judged(*good, *bad), list(range(60)))
    assert verdict.kappa is not None
    assert verdict.kappa.value < 0.2  # at one half it passes nearly everything
    assert verdict.fitted is not None
    assert 0.8 < verdict.fitted.threshold < 0.9
    assert verdict.trust is Trust.YES
    assert "with the fitted threshold" in verdict.sentences()[-1]


def test_a_threshold_is_measured_on_labels_that_it_has_not_seen() -> None:
    """A judge of pure chance: the best threshold on all labels looks better than it is."""
    rng = random.Random(3)
    items = judged(*((rng.random() < 0.5, rng.random()) for _ in range(40)))
    threshold = best_threshold(items)
    assert threshold is not None
    seen = Kappa.of([(item.good(), item.reaches(threshold)) for item in items])
    verdict = judge_verdict(items, list(range(40)))
    assert seen is not None
    assert verdict.fitted is not None
    assert verdict.fitted.kappa is not None
    assert verdict.fitted.kappa.value < seen.value
    assert verdict.trust is not Trust.YES


def test_cases_that_are_alike_are_predicted_together() -> None:
    items = judged(*((n % 2 == 0, n / 12) for n in range(12)))
    alone = judge_verdict(items, [0] * 12)
    assert alone.fitted is None  # one group cannot be fitted on one part and measured on another
    apart = judge_verdict(items, [n // 4 for n in range(12)])
    assert apart.fitted is None or apart.fitted.parts == 3


def test_few_labels_decide_nothing() -> None:
    items = judged((True, 0.9), (False, 0.1), (True, 0.8), (False, 0.2))
    verdict = judge_verdict(items, list(range(4)))
    assert verdict.trust is Trust.UNCLEAR
    assert "labels would tell" in verdict.sentences()[-1]


def test_labels_that_are_all_the_same_decide_nothing() -> None:
    verdict = judge_verdict(judged((True, 0.9), (True, 0.1), (True, None)), [0, 1, 2])
    assert (verdict.trust, verdict.kappa, verdict.labels) == (Trust.UNCLEAR, None, 2)
    assert verdict.sentences()[-1].endswith("since all labels are the same")


def test_trust_takes_the_whole_interval() -> None:
    assert trust_in(Kappa(value=0.8, low=0.6, high=0.9)) is Trust.YES
    assert trust_in(Kappa(value=0.8, low=0.59, high=0.9)) is Trust.UNCLEAR
    assert trust_in(Kappa(value=0.4, low=0.2, high=0.59)) is Trust.NO
