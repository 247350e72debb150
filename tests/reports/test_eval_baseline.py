"""A measurement beside an earlier one: every category, and differences that mean something."""

from dataclasses import replace

import pytest

from burnish.core.evaluations import CaseResult, Score
from burnish.reports.baseline import BaselineComparison, ChangeKind
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_page import change_counts, change_words, repeats_note
from tests.reports.measured import AWAY, CRASH, failing, report, scored, sweeps


def compared(now: EvalReport, before: EvalReport) -> BaselineComparison:
    found = now.against(before).baseline
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (scored("a", 0.2), scored("a", 0.8), ChangeKind.NEW_PASS),
        (scored("a", 0.8), scored("a", 0.2), ChangeKind.NEW_FAIL),
        (scored("a", 0.6), scored("a", 0.8), ChangeKind.UP),
        (scored("a", 0.3), scored("a", 0.4), ChangeKind.UP),
        (scored("a", 0.8), scored("a", 0.6), ChangeKind.DOWN),
        (scored("a", 0.8), scored("a", 0.8), ChangeKind.UNCHANGED),
        (scored("a", 0.8), failing("a", AWAY), ChangeKind.CANNOT_TELL),
        (failing("a", AWAY), scored("a", 0.8), ChangeKind.CANNOT_TELL),
        (scored("b", 0.8), scored("a", 0.8), ChangeKind.ONLY_HERE),
    ],
)
def test_what_a_case_did(before: object, now: object, change: ChangeKind) -> None:
    found = compared(report(now), report(before))  # pyright: ignore[reportArgumentType]
    assert found.cases[0].change is change


def test_cases_that_only_one_side_has_are_named_and_not_compared() -> None:
    found = compared(
        report(scored("a", 1.0), scored("b", 0.0)), report(scored("b", 1.0), scored("c", 0.0))
    )
    assert {one.case: one.change.value for one in found.cases} == {
        "a": "only here",
        "b": "new fail",
        "c": "only there",
    }
    assert change_counts(found) == "1 new fail, 1 only here, 1 only there"
    [graded] = found.metrics
    assert (graded.cases, graded.before, graded.after) == (1, 1.0, 0.0)
    assert (graded.low, graded.distinguishable) == (None, False)


def test_a_case_that_asks_something_else_now_is_not_compared() -> None:
    before = report(scored("a", 0.0))
    other = replace(before.cases[0], asked=("Something else?",))
    found = compared(report(scored("a", 1.0)), replace(before, cases=(other,)))
    assert change_counts(found) == "1 rewritten"
    assert found.metrics == ()


def test_few_cases_are_not_called_better() -> None:
    names = "abcdef"
    for moved, words in ((5, "may be chance"), (6, "better")):
        before = report(*(scored(name, 0.0 if n < moved else 1.0) for n, name in enumerate(names)))
        [graded] = compared(report(*(scored(name, 1.0) for name in names)), before).metrics
        assert change_words(graded) == words


def test_a_difference_in_the_noise_is_not_called_better() -> None:
    ups = [(0.2, 0.4), (0.4, 0.2)] * 5 + [(0.5, 0.55)]
    before = report(*(scored(f"c{n}", old) for n, (old, _) in enumerate(ups)))
    now = report(*(scored(f"c{n}", new) for n, (_, new) in enumerate(ups)))
    [graded] = compared(now, before).metrics
    assert graded.difference > 0
    assert not graded.distinguishable
    assert change_words(graded) == "may be chance"
    worse = compared(report(*(scored(f"c{n}", 0.0) for n in range(11))), before).metrics[0]
    assert change_words(worse) == "worse"


def test_other_numbers_of_repeats_are_said() -> None:
    once, thrice = report(scored("a", 1.0)), sweeps({"a": [1.0, 1.0, 1.0]})
    assert repeats_note(compared(once, once)) == ""
    assert repeats_note(compared(thrice, once)).startswith("the baseline had 1 repeat, this has 3")


def both(case: str, graded: float, faithful: float | None) -> CaseResult:
    """A case with a score, and one of a metric that may say nothing."""
    extra = () if faithful is None else scored(case, faithful, metric="faithful").scores
    found = scored(case, graded)
    return replace(found, scores=(*found.scores, *extra))


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (both("a", 0.8, 0.2), both("a", 0.8, None), ChangeKind.CANNOT_TELL),
        (both("a", 0.6, 0.8), both("a", 0.8, None), ChangeKind.CANNOT_TELL),
        (both("a", 0.8, 0.8), both("a", 0.2, None), ChangeKind.NEW_FAIL),
        (both("a", 0.8, 0.8), both("a", 0.6, None), ChangeKind.DOWN),
        (both("a", 0.8, None), both("a", 0.8, 0.8), ChangeKind.UNCHANGED),
    ],
)
def test_a_metric_that_fell_silent_makes_no_case_better(
    before: CaseResult, now: CaseResult, change: ChangeKind
) -> None:
    other = both("z", 0.8, 0.8)
    found = compared(report(now, other), report(before, other))
    assert found.cases[0].change is change


def test_an_agent_that_no_longer_crashes_lost_no_score() -> None:
    crashed = failing("a", CRASH)
    crashed = replace(crashed, scores=(*crashed.scores, Score.of_failure("faithful", "boom")))
    other = both("z", 0.8, 0.8)
    found = compared(report(both("a", 0.8, None), other), report(crashed, other))
    assert found.cases[0].change is ChangeKind.NEW_PASS


def test_lost_scores_are_counted_and_better_holds_without_them() -> None:
    names = [f"c{n}" for n in range(20)]
    before = report(*(both(name, 0.8, 0.5) for name in names))
    few = report(*(both(name, 0.8, None if name == "c0" else 0.9) for name in names))
    many = report(*(both(name, 0.8, None if n < 8 else 0.9) for n, name in enumerate(names)))
    [faithful, _] = compared(few, before).metrics
    assert (faithful.lost, change_words(faithful)) == (1, "better; no longer a score in 1 case")
    [faithful, _] = compared(many, before).metrics
    assert faithful.difference == pytest.approx(0.4)
    assert change_words(faithful) == "may be chance; no longer a score in 8 cases"


def test_a_metric_without_a_single_score_is_named() -> None:
    found = compared(report(both("a", 0.8, None)), report(both("a", 0.8, 0.1)))
    assert found.silent == ("faithful",)
