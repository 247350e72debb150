"""Trajectories: which calls, in which order, with what, and what they gave."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import ToolCall
from burnish.metrics.document_matching import JsonRule
from burnish.metrics.text_matching import TextRule
from burnish.metrics.tool_matching import STRICT, ToolRule, TrajectoryRule, compare_trajectories
from tests.metrics.exchange_of import call

A, B, C, D = (call(name) for name in "ABCD")
ANY = TrajectoryRule()
SUBSET = TrajectoryRule(subset_matching=True)
ORDERED_SUBSET = TrajectoryRule(subset_matching=True, order_sensitive=True)
WITH_RESULT = TrajectoryRule(default=ToolRule(result=JsonRule()))


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (ANY, [A], [A, B], "made but not expected: B({})"),
        (SUBSET, [A], [A, B], ""),
        (SUBSET, [C, A], [A, B, C], ""),
        (ORDERED_SUBSET, [A, C], [A, B, C], ""),
        (
            ORDERED_SUBSET,
            [C, A],
            [A, B, C],
            "call 2 of 2, A({}), was not made in this order, after",
        ),
        (SUBSET, [C, D], [A, B, C], "expected but not made: D({})"),
        (ANY, [A, A], [A], "expected but not made: A({})"),
        (SUBSET, [A, A], [A], "expected but not made: A({})"),
        (STRICT, [A, A], [A], "expected but not made: A({})"),
        (ORDERED_SUBSET, [A, A], [A], "A({}), was not made in this order"),
        (ANY, [A, B], [B, A], ""),
        (STRICT, [A, B], [B, A], "call 1 of 2, A: tool: expected 'A', found 'B'; called: B, A"),
        (STRICT, [A, B], [A, B], ""),
        (STRICT, [A], [A, B], "made but not expected: B({})"),
        (STRICT, [], [A], "made but not expected: A({})"),
        (STRICT, [], [], ""),
        (SUBSET, [], [A], ""),
        (STRICT, [A], [], "expected but not made: A({})"),
        (ANY, [A, B, C, D], [], "A({}), B({}), C({}) and 1 more"),
    ],
)
def test_which_calls_in_which_order(
    rule: TrajectoryRule, expected: list[ToolCall], found: list[ToolCall], words: str
) -> None:
    match = compare_trajectories(expected, found, rule)
    assert bool(match) == bool(words)
    assert words in match


PARIS, LYON = call("weather", city="Paris"), call("weather", city="Lyon")
IGNORE_ID = JsonRule(ignore_tree={"trace_id": True})


@pytest.mark.parametrize(
    ("rule", "expected", "found", "words"),
    [
        (STRICT, PARIS, PARIS, ""),
        (STRICT, call("t", n=1), call("t", n=1.0), ""),
        (STRICT, PARIS, LYON, "weather: arguments $.city: expected 'Paris', found 'Lyon'"),
        (
            ANY,
            PARIS,
            LYON,
            "weather was called, but arguments $.city: expected 'Paris', found 'Lyon'",
        ),
        (SUBSET, PARIS, LYON, "but arguments $.city"),
        (ORDERED_SUBSET, PARIS, LYON, "weather was called, but arguments $.city"),
        (STRICT, PARIS, call("weather"), "$.city: missing, expected 'Paris'"),
        (STRICT, call("t", result=1), call("t", result=2), ""),
        (
            TrajectoryRule(overrides={"t": ToolRule(arguments=IGNORE_ID)}),
            call("t", trace_id=1),
            call("t", trace_id=2),
            "",
        ),
        (
            TrajectoryRule(overrides={"u": ToolRule(arguments=IGNORE_ID)}),
            call("t", trace_id=1),
            call("t", trace_id=2),
            "$.trace_id",
        ),
        (
            TrajectoryRule(default=ToolRule(name=TextRule(case_insensitive=True))),
            call("Search"),
            call("search"),
            "",
        ),
        (
            TrajectoryRule(default=ToolRule(name=TextRule(match="regex"))),
            call("^find_.*"),
            call("find_flight"),
            "",
        ),
        (
            TrajectoryRule(default=ToolRule(arguments=JsonRule(ignore=True))),
            PARIS,
            LYON,
            "",
        ),
    ],
)
def test_with_what(rule: TrajectoryRule, expected: ToolCall, found: ToolCall, words: str) -> None:
    match = compare_trajectories([expected], [found], rule)
    assert bool(match) == bool(words)
    assert words in match


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        (call("t", result={"n": 1}), call("t", result={"n": 1.0}), ""),
        (call("t", result={"n": 1}), call("t", result='{"n": 1}'), ""),
        (call("t", result="sunny"), call("t", result="sunny"), ""),
        (
            call("t", result="sunny"),
            call("t", result="rain"),
            "result $: expected 'sunny', found 'rain'",
        ),
        (call("t", result=1), call("t", error="timed out"), "result is an error: 'timed out'"),
        (call("t", error="gone"), call("t", error="gone"), ""),
    ],
)
def test_defect_001_1_a_result_that_the_rule_asks_for_is_compared(
    expected: ToolCall, found: ToolCall, words: str
) -> None:
    match = compare_trajectories([expected], [found], WITH_RESULT)
    assert bool(match) == bool(words)
    assert words in match


def test_defect_001_1_unordered_matching_is_not_greedy() -> None:
    any_search = ToolRule(name=TextRule(match="contains"), arguments=JsonRule(ignore=True))
    rule = TrajectoryRule(overrides={"search": any_search})
    expected = [call("search"), call("search_flights", to="Oslo")]
    found = [call("search_flights", to="Oslo"), call("search_hotels", to="Rome")]
    for order in permutations(found):
        assert compare_trajectories(expected, list(order), rule) == ""


def test_reasons_stay_short() -> None:
    expected = [call("e" * 500, text="x" * 5_000) for _ in range(20)]
    found = [call("f" * 500, text="y" * 5_000) for _ in range(20)]
    for rule in (STRICT, ANY, SUBSET, ORDERED_SUBSET):
        match = compare_trajectories(expected, found, rule)
        assert match
        assert len(match) < 1_000


calls = st.lists(st.sampled_from([A, B, C, PARIS, LYON]), max_size=4)


class TestLaws:
    @given(made=calls, rule=st.sampled_from([STRICT, ANY, SUBSET, ORDERED_SUBSET]))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_a_trajectory_is_itself(self, made: list[ToolCall], rule: TrajectoryRule) -> None:
        assert compare_trajectories(made, made, rule) == ""

    @given(expected=calls, found=calls)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_against_every_order(self, expected: list[ToolCall], found: list[ToolCall]) -> None:
        some_order = any(
            not compare_trajectories(expected, list(order), STRICT) for order in permutations(found)
        )
        assert (not compare_trajectories(expected, found, ANY)) == some_order

    @given(expected=calls, found=calls)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_what_is_stricter_never_holds_alone(
        self, expected: list[ToolCall], found: list[ToolCall]
    ) -> None:
        rules = {"strict": STRICT, "any": ANY, "sub": SUBSET, "osub": ORDERED_SUBSET}
        held = {n: not compare_trajectories(expected, found, r) for n, r in rules.items()}
        assert held["strict"] <= held["any"] <= held["sub"]
        assert held["strict"] <= held["osub"] <= held["sub"]
