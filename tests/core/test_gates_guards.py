"""Guards: an accept that breaks one is turned down, one that cannot be checked is not an accept."""

import pytest
from tests.core.test_case_changes import CRASH, GONE, ONE, evaluation, ran, scored

from burnish.core.comparisons import Pair
from burnish.core.evaluations import CaseResult
from burnish.core.gates import Guards, guarded
from burnish.core.trials import Decision, Verdict

YES = Decision(gate="min_gain", verdict=Verdict.ACCEPT, code="better", reason="it is better")


def judged(guards: Guards, *now: CaseResult) -> Decision:
    before = evaluation(scored("a", 0.8, True), scored("b", 0.1, False))
    pair = Pair(candidate=evaluation(*now), incumbent=before)
    return guarded(YES, pair=pair, objective=ONE, guards=guards)


def test_without_guards_or_without_harm_the_decision_stands() -> None:
    good = (scored("a", 0.9, True), scored("b", 1.0, True))
    every = Guards(protected=("a", "b"), no_new_failures=True, floors={"m": 0.95})
    assert judged(Guards(), scored("a", 0.0, False)) == YES
    assert judged(every, *good) == YES


@pytest.mark.parametrize(
    ("guards", "words"),
    [
        (Guards(protected=("a",)), "the protected case 'a' got worse"),
        (Guards(no_new_failures=True), "these passed before and fail now: a"),
        (Guards(floors={"m": 0.9}), "the mean of m, 0.850 < 0.900, is below its floor"),
    ],
)
def test_a_broken_guard_turns_an_accept_down_and_says_which(guards: Guards, words: str) -> None:
    found = judged(guards, scored("a", 0.7, False), scored("b", 1.0, True))
    assert (found.verdict, found.code) == (Verdict.REJECT, "guard")
    assert found.reason == f"it is better, but {words}"


@pytest.mark.parametrize(
    ("guards", "words"),
    [
        (Guards(protected=("a",)), "the protected case 'a' is missing"),
        (Guards(no_new_failures=True), "these passed before and are missing now: a"),
        (Guards(floors={"n": 0.5}), "the mean of n is not known, and 0.5 is its floor"),
    ],
)
def test_what_cannot_be_checked_is_no_accept(guards: Guards, words: str) -> None:
    found = judged(guards, ran("a", GONE), scored("b", 1.0, True))
    assert found.verdict is Verdict.CANNOT_TELL
    assert found.reason.endswith(words)


def test_a_crash_of_a_protected_case_is_worse_and_a_rejection_stays_one() -> None:
    assert "got worse" in judged(Guards(protected=("a",)), ran("a", CRASH)).reason
    no = Decision(gate="min_gain", verdict=Verdict.REJECT, code="below", reason="no")
    pair = Pair(candidate=evaluation(ran("a", GONE)), incumbent=evaluation())
    guards = Guards(protected=("a",))
    assert guarded(no, pair=pair, objective=ONE, guards=guards) is no
