"""What changed case by case: passes won and lost, scores up and down, and what nobody knows."""

from burnish.core.cases import Failure, FailureKind, Outcome, Split
from burnish.core.comparisons import CaseChanges, Pair, case_changes, passes
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score

ONE = Objective(weights={"m": 1.0})
CRASH = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
GONE = Outcome(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message="no connection"))


def scored(case: str, value: float | None, passed: bool | None = None, draw: int = 0) -> CaseResult:
    score = Score(metric="m", value=value, passed=passed)
    return CaseResult(case=case, draw=draw, outcome=Outcome(replies=("x",)), scores=(score,))


def ran(case: str, outcome: Outcome) -> CaseResult:
    return CaseResult(case=case, outcome=outcome)


def evaluation(*results: CaseResult) -> Evaluation:
    return Evaluation(candidate="c", split=Split.HOLDOUT, results=results)


def changes(before: list[CaseResult], now: list[CaseResult]) -> CaseChanges:
    pair = Pair(candidate=evaluation(*now), incumbent=evaluation(*before))
    return case_changes(pair, ONE)


def test_passes_and_scores_are_told_apart() -> None:
    found = changes(
        before=[
            scored("won", 0.2, False),
            scored("lost", 1.0, True),
            scored("better", 0.2, False),
            scored("same", 0.5, False),
        ],
        now=[
            scored("won", 0.9, True),
            scored("lost", 0.4, False),
            scored("better", 0.3, False),
            scored("same", 0.5, False),
        ],
    )
    assert found == CaseChanges(
        new_pass=("won",), new_fail=("lost",), up=("won", "better"), down=("lost",)
    )


def test_what_is_missing_on_a_side_did_not_change() -> None:
    nothing = CaseChanges()
    assert changes([ran("a", GONE)], [scored("a", 1.0, True)]) == nothing
    assert changes([scored("a", 1.0, True)], [ran("a", GONE)]) == nothing
    assert changes([scored("a", 1.0, True)], [scored("a", None)]) == nothing
    assert changes([], [scored("a", 1.0, True)]) == nothing


def test_a_crash_is_a_new_failure_even_without_verdicts() -> None:
    assert changes([scored("a", 0.4)], [ran("a", CRASH)]).new_fail == ("a",)
    assert changes([ran("a", CRASH)], [ran("a", CRASH)]).new_fail == ()
    assert changes([ran("a", GONE)], [ran("a", CRASH)]).new_fail == ()


def test_a_case_passes_when_every_repeat_does() -> None:
    good, bad = scored("a", 1.0, True), scored("a", 0.0, False, draw=1)
    assert passes(evaluation(good, scored("a", 1.0, True, draw=1)), "a", ("m",)) is True
    assert passes(evaluation(good, bad), "a", ("m",)) is False
    assert passes(evaluation(good, scored("a", None, draw=1)), "a", ("m",)) is None
    assert passes(evaluation(bad, scored("a", None)), "a", ("m",)) is False
