"""Tool trajectories and expected tools, turn by turn."""

import pytest

from burnish.core.cases import Case, ExpectedTool, Outcome, Step, ToolCall, Trace, Turn
from burnish.core.content import codec
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.computed import ExpectedTools, ToolTrajectory
from burnish.metrics.tool_matching import TrajectoryRule
from burnish.metrics.turns import TurnMetric
from tests.metrics.exchange_of import call, exchange_of, verdict_of

SUM, DIVIDE = call("sum", a=1, b=2), call("divide", a=3, b=2)
ANY_ORDER = ToolTrajectory(rule=TrajectoryRule())


@pytest.mark.parametrize(
    ("metric", "expected", "made", "score", "words"),
    [
        (ToolTrajectory(), (SUM, DIVIDE), (SUM, DIVIDE), 1, ""),
        (ToolTrajectory(), (SUM, DIVIDE), (DIVIDE, SUM), 0, "call 1 of 2, sum: tool: expected"),
        (ANY_ORDER, (SUM, DIVIDE), (DIVIDE, SUM), 1, ""),
        (
            ToolTrajectory(),
            (SUM,),
            (call("sum", a=1, b=5),),
            0,
            "call 1 of 1, sum: arguments $.b: expected 2, found 5",
        ),
        (ToolTrajectory(), (SUM,), (), 0, 'expected but not made: sum({"a": 1, "b": 2})'),
    ],
)
def test_trajectories(
    metric: ToolTrajectory,
    expected: tuple[ToolCall, ...],
    made: tuple[ToolCall, ...],
    score: float,
    words: str,
) -> None:
    verdict = verdict_of(metric, exchange_of("", expected_calls=expected, calls=made))
    assert verdict.value == score
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)


@pytest.mark.parametrize(
    ("expected", "made", "score", "words"),
    [
        ([ExpectedTool(name="sum")], (SUM,), 1, ""),
        ([ExpectedTool(name="sum"), ExpectedTool(name="divide")], (DIVIDE, SUM), 1, ""),
        (
            [ExpectedTool(name="sum"), ExpectedTool(name="lookup")],
            (SUM,),
            0.5,
            "expected a call of 'lookup', called: sum",
        ),
        ([ExpectedTool(name="sum")], (), 0, "expected a call of 'sum', no tool was called"),
        (
            [ExpectedTool(name="sum", arguments={"a": {"fuzzy": "1.0"}, "b": {"regex": "[34]"}})],
            (SUM,),
            0,
            "call 1, sum, has argument 'b': expected text that matches '[34]', found 2",
        ),
        ([ExpectedTool(name="sum", count=2)], (SUM,), 0, "at least 2 times, found 1"),
    ],
)
def test_expected_tools(
    expected: list[ExpectedTool], made: tuple[ToolCall, ...], score: float, words: str
) -> None:
    verdict = verdict_of(
        ExpectedTools(), exchange_of("", expected_tools=tuple(expected), calls=made)
    )
    assert verdict.value == score
    assert verdict.passed is (score == 1)
    assert words in verdict.reason
    assert bool(verdict.reason) == (score < 1)


def test_nothing_is_said_where_nothing_is_expected() -> None:
    exchange = exchange_of("", calls=(SUM,))
    assert ToolTrajectory().compute(exchange) is None
    assert ExpectedTools().compute(exchange) is None


async def scores(metric: TurnMetric, case: Case, outcome: Outcome) -> list[Score]:
    return list(await metric.score(case, outcome, effects=DirectEffects()))


def outcome(*turns: tuple[ToolCall, ...]) -> Outcome:
    steps = [Step(id=f"s{n}", node="a", turn=n, tools=made) for n, made in enumerate(turns)]
    return Outcome(replies=("r",) * len(turns), trace=Trace(steps=tuple(steps)))


async def test_a_turn_without_calls_expects_none_where_another_has_some() -> None:
    case = Case(turns=(Turn(input="a", expected_calls=(SUM,)), Turn(input="b")))
    good = await scores(ToolTrajectory(), case, outcome((SUM,), ()))
    assert [(score.turn, score.value) for score in good] == [(0, 1), (1, 1)]
    bad = await scores(ToolTrajectory(), case, outcome((SUM,), (DIVIDE,)))
    assert [score.value for score in bad] == [1, 0]
    assert "made but not expected: divide" in bad[1].reason


async def test_turns_that_nobody_wrote_have_no_trajectory() -> None:
    case = Case(turns=(Turn(input="a", expected_calls=(SUM,)),))
    talk = outcome((SUM,), (DIVIDE,))
    played = Outcome(replies=talk.replies, trace=talk.trace, asked=("a", "and then?"))
    assert [score.turn for score in await scores(ToolTrajectory(), case, played)] == [0]


async def test_part_of_the_tools_is_part_of_the_score_and_no_pass() -> None:
    expected = (ExpectedTool(name="sum"), ExpectedTool(name="lookup"))
    case = Case(turns=(Turn(input="a", expected_tools=expected),))
    (score,) = await scores(ExpectedTools(), case, outcome((SUM,)))
    assert (score.value, score.passed) == (0.5, False)
    (lenient,) = await scores(ExpectedTools(threshold=0.5), case, outcome((SUM,)))
    assert lenient.passed is True


SUBSET = ToolTrajectory(rule=TrajectoryRule(order_sensitive=True, subset_matching=True))


@pytest.mark.parametrize("metric", [ToolTrajectory(), ANY_ORDER, SUBSET, ExpectedTools()])
def test_an_empty_list_means_no_tool(metric: ToolTrajectory | ExpectedTools) -> None:
    quiet = verdict_of(metric, exchange_of("", expected_calls=(), expected_tools=()))
    assert (quiet.value, quiet.reason) == (1, "")
    busy = verdict_of(metric, exchange_of("", expected_calls=(), expected_tools=(), calls=(SUM,)))
    assert (busy.value, busy.reason) == (0, "expected no tool call, called: sum")


async def test_an_empty_list_speaks_of_its_own_turn_only() -> None:
    case = Case(turns=(Turn(input="a", expected_calls=()), Turn(input="b")))
    found = await scores(ToolTrajectory(), case, outcome((SUM,), (DIVIDE,)))
    assert [(score.turn, score.value) for score in found] == [(0, 0)]


def test_no_list_and_an_empty_list_are_two_cases() -> None:
    absent, empty = (Case(turns=(Turn(input="a", expected_calls=e),)) for e in (None, ()))
    other = Case(turns=(Turn(input="a", expected_tools=()),))
    assert len({absent.content_id, empty.content_id, other.content_id}) == 3
    assert codec(Case).decode(codec(Case).encode(empty)) == empty
    assert codec(Case).decode(codec(Case).encode(absent)) == absent
