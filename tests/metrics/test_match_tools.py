"""Tool arguments and expected tools: what meets an expectation, and what is said when none does."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import ExpectedTool, ToolCall
from burnish.core.content import Json
from burnish.metrics.tool_matching import (
    assigned,
    compare_argument,
    compare_arguments,
    compare_expected_tools,
)
from tests.metrics.exchange_of import call


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        (206588, 206588.0),
        (206588.0, 206588),
        (True, True),
        (None, None),
        ([1, 2], [1.0, 2.0]),
        ({"mode": "fast"}, {"mode": "fast"}),
        ({"fuzzy": 1, "regex": 2}, {"fuzzy": 1, "regex": 2}),
        ({"fuzzy": "206588"}, "206,588"),
        ({"fuzzy": "206588"}, "206 588"),
        ({"fuzzy": "206588"}, 206588.0),
        ({"fuzzy": 206588}, "206_588"),
        ({"fuzzy": "14.14%"}, 0.1414),
        ({"fuzzy": "YES"}, " yes "),
        ({"fuzzy": "Net  Cash"}, "net\ncash"),
        ({"fuzzy": "net_cash"}, "NetCash"),
        ({"fuzzy": "None"}, None),
        ({"fuzzy": "true"}, True),
        ({"fuzzy": "caf\u00e9"}, "CAFE\u0301"),
        ({"regex": "2009.*"}, "2009 cash flow"),
        ({"regex": r"181001(\.0+)?"}, 181001.0),
        ({"regex": "True"}, True),
        ({"regex": "None"}, None),
    ],
)
def test_an_argument_as_expected(expected: Json, found: Json) -> None:
    match = compare_argument(expected, found)
    assert match == ""


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        (206588, 206000, "expected 206588, found 206000"),
        (True, 1, "expected true, found 1"),
        (1, True, "expected 1, found true"),
        ("5", 5, "expected '5', found 5"),
        ("Paris", "paris", "expected 'Paris', found 'paris'"),
        ({"mode": "fast"}, {"mode": "fast", "x": 1}, 'expected {"mode": "fast"}, found'),
        ({"fuzzy": "206588"}, 205000, "expected about '206588', found 205000"),
        ({"fuzzy": "12"}, "1,2", "expected about '12', found '1,2'"),
        ({"fuzzy": "ab"}, "a b", "expected about 'ab'"),
        (
            {"regex": "2009.*"},
            "report 2009",
            "expected text that matches '2009.*', found 'report 2009'",
        ),
        ({"regex": "("}, "x", "the pattern '(' is not a valid regular expression"),
    ],
)
def test_an_argument_that_is_not(expected: Json, found: Json, words: str) -> None:
    match = compare_argument(expected, found)
    assert match
    assert words in match


def test_arguments_not_spoken_of_do_not_count() -> None:
    assert compare_arguments({"a": 1}, {"a": 1, "b": "x"}) == []
    assert compare_arguments({"a": 1, "b": 2}, {"a": 1}) == ["argument 'b' is missing, expected 2"]
    wrong = compare_arguments({"a": {"regex": "x+"}, "b": {"fuzzy": "y"}}, {})
    assert wrong[0] == "argument 'a' is missing, expected text that matches 'x+'"
    assert wrong[1] == "argument 'b' is missing, expected about 'y'"


def tool(name: str, count: int = 1, **arguments: Json) -> ExpectedTool:
    return ExpectedTool(name=name, count=count, arguments=arguments)


LOOKUP, OTHER = call("archive_lookup", key="a"), call("divide", a=1, b=2)


@pytest.mark.parametrize(
    ("expected", "calls", "words"),
    [
        ([tool("lookup")], [OTHER, LOOKUP], [""]),
        ([tool("lookup", key="a"), tool("divide")], [OTHER, LOOKUP], ["", ""]),
        ([tool("divide", 2)], [OTHER, LOOKUP, OTHER], [""]),
        ([tool("lookup"), tool("archive")], [LOOKUP, LOOKUP], ["", ""]),
        ([tool("lookup")], [], ["expected a call of 'lookup', no tool was called"]),
        ([tool("Lookup")], [LOOKUP], ["'Lookup', called: archive_lookup"]),
        ([tool("divide", 3)], [OTHER, OTHER], ["'divide' at least 3 times, found 2"]),
        (
            [tool("divide", a=9, b=2)],
            [call("divide", a=1), OTHER],
            ["call 2, divide, has argument 'a': expected 9, found 1"],
        ),
        (
            [tool("divide", 2, a=1)],
            [OTHER, call("divide", a=5)],
            ["at least 2 times, found 1 that fit, and call 2, divide, has argument 'a'"],
        ),
        (
            [tool("lookup"), tool("archive")],
            [LOOKUP],
            ["", "the matching calls count for other expectations"],
        ),
        ([tool("divide", 2), tool("divide")], [OTHER, OTHER], ["count for other", ""]),
        ([tool("divide", 10**12)], [OTHER], ["at least 1000000000000 times, found 1"]),
    ],
)
def test_expected_tools(
    expected: list[ExpectedTool], calls: list[ToolCall], words: list[str]
) -> None:
    matches = compare_expected_tools(expected, calls)
    assert [match == "" for match in matches] == [word == "" for word in words]
    for match, word in zip(matches, words, strict=True):
        assert word in match


def test_who_is_picky_is_not_robbed() -> None:
    anything, picky = tool("divide"), tool("divide", a=1)
    first, second = call("divide", a=1), call("divide", a=2)
    for calls in ([first, second], [second, first]):
        assert not any(compare_expected_tools([anything, picky], calls))


def test_who_cannot_be_met_takes_nothing_away() -> None:
    first, second, third = call("t", a=1), call("t", a=2), call("t", a=3)
    expected = [
        tool("t", a=1),
        tool("t", 2, a={"regex": "[12]"}),
        tool("t", 2, a={"regex": "[23]"}),
    ]
    matches = compare_expected_tools(expected, [first, second, third])
    assert [not match for match in matches] == [True, False, True]


def test_many_calls_are_not_all_listed() -> None:
    calls = [call(f"tool{n}" * 50) for n in range(500)]
    (match,) = compare_expected_tools([tool("x")], calls)
    assert len(match) < 500


def most(choices: list[list[int]], used: frozenset[int] = frozenset()) -> int:
    """The largest number of places that can be taken, found by trying everything."""
    if not choices:
        return 0
    takes = [1 + most(choices[1:], used | {p}) for p in choices[0] if p not in used]
    return max([most(choices[1:], used), *takes])


wishes = st.lists(st.lists(st.integers(0, 3), max_size=3, unique=True), max_size=4)


class TestLaws:
    @given(value=st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats(-9, 9)))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_a_value_is_itself(self, value: Json) -> None:
        assert compare_argument(value, value) == ""
        assert compare_argument({"x": [value]}, {"x": [value]}) == ""
        if isinstance(value, str):
            assert compare_argument({"fuzzy": value}, value) == ""

    @given(flag=st.booleans(), number=st.one_of(st.integers(), st.floats(allow_nan=False)))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_true_and_one_are_never_the_same(self, flag: bool, number: float) -> None:
        assert compare_argument(flag, number)
        assert compare_argument(number, flag)

    @given(choices=wishes)
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_an_assignment_is_as_large_as_can_be(self, choices: list[list[int]]) -> None:
        made = assigned(choices)
        places = list(made.place_of.values())
        assert all(place in choices[who] for who, place in made.place_of.items())
        assert len(set(places)) == len(places) == len(made.taken)
        assert len(places) == most(choices)

    @given(choices=wishes, counts=st.lists(st.integers(1, 2), min_size=4, max_size=4))
    @settings(max_examples=50, deadline=None, derandomize=True)
    def test_all_are_met_where_all_can_be(
        self, choices: list[list[int]], counts: list[int]
    ) -> None:
        calls = [
            ToolCall(
                name="t",
                arguments={f"k{who}": place in fits for who, fits in enumerate(choices)},
            )
            for place in range(4)
        ]
        wanted = [tool("t", counts[who], **{f"k{who}": True}) for who in range(len(choices))]
        matches = compare_expected_tools(wanted, calls)
        slots = [fits for who, fits in enumerate(choices) for _ in range(counts[who])]
        assert (not any(matches)) == (len(assigned(slots).taken) == len(slots))
        if all(tool.count == 1 for tool in wanted):
            assert sum(not match for match in matches) == most(choices)
