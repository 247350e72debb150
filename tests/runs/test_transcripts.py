"""What a proposer reads about a run: turn by turn, with what tools returned and what lacks."""

from burnish.core.cases import Case, Outcome, Step, ToolCall, Trace, Turn
from burnish.core.evaluations import CaseResult, Score
from burnish.runs.roles import transcript

CASE = Case(name="a", turns=(Turn(input="first?", expected="x"), Turn(input="second?")))


def test_tools_stand_in_their_turn_with_what_they_returned() -> None:
    tools = (
        ToolCall(name="look", arguments={"bin": 7}, result={"item": "bolts"}),
        ToolCall(name="find", passages=("a page", "another")),
        ToolCall(name="add", error="Timeout"),
        ToolCall(name="note"),
    )
    steps = [Step(id=str(n), node="agent", turn=n // 2, tools=(t,)) for n, t in enumerate(tools)]
    outcome = Outcome(replies=("y", "z"), trace=Trace(steps=tuple(steps)))
    assert transcript(CaseResult(case="a", outcome=outcome), CASE).splitlines() == [
        "case a",
        "asked: first?",
        "expected: x",
        'used look with {"bin":7}, which gave: {"item":"bolts"}',
        "used find with {}, which gave: a page",
        "another",
        "replied: y",
        "asked: second?",
        "used add with {}, which failed: Timeout",
        "used note with {}",
        "replied: z",
    ]


def test_every_score_with_room_is_told() -> None:
    scores = (
        Score(metric="right", value=1.0, passed=True, reason="well done"),
        Score(metric="near", value=0.8, passed=True, reason="a word lacks"),
        Score(metric="bare", value=0.2, turn=1),
        Score(metric="down", value=None, reason="the judge is down"),
    )
    result = CaseResult(case="a", outcome=Outcome(replies=("y", "z")), scores=scores)
    assert transcript(result, CASE).splitlines()[-3:] == [
        "near: a word lacks",
        "bare, turn 2: score 0.200",
        "down: the judge is down",
    ]
