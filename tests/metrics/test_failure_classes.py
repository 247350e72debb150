"""The kind of mistake that a failed case shows: the earliest cause wins."""

import pytest

from burnish.core.cases import (
    Case,
    ExpectedTool,
    Failure,
    FailureKind,
    Outcome,
    Step,
    ToolCall,
    Trace,
    Turn,
)
from burnish.core.content import Json
from burnish.core.evaluations import CaseResult, Score
from burnish.metrics.turns import ROUTE, FailureClass, failure_class

LOOKUP = ExpectedTool(name="lookup", arguments={"city": "Rome"})


def case(*, tools: tuple[ExpectedTool, ...] | None = None, route: list[str] | None = None) -> Case:
    extras: dict[str, Json] = {} if route is None else {ROUTE: [*route]}
    return Case(turns=(Turn(input="q", expected="a", expected_tools=tools),), extras=extras)


def found(
    asked: Case,
    *,
    metric: str = "exact",
    nodes: tuple[str, ...] = ("g/agent",),
    calls: tuple[ToolCall, ...] = (),
    error: str = "",
) -> FailureClass:
    steps = [Step(id=f"{n}", node=name, tools=calls) for n, name in enumerate(nodes)]
    failure = Failure(kind=FailureKind.AGENT, message=error) if error else None
    outcome = Outcome(replies=("x",), trace=Trace(steps=tuple(steps)), failure=failure)
    score = Score(metric=metric, value=0.0, passed=False)
    return failure_class(asked, CaseResult(case="c", outcome=outcome, scores=(score,)), [score])


def call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


def test_tools_that_were_not_used_or_were_asked_for_something_else() -> None:
    wanted = case(tools=(LOOKUP,))
    assert found(wanted, calls=(call("search"),)) is FailureClass.WRONG_TOOL
    assert found(wanted, calls=(call("lookup", city="Paris"),)) is FailureClass.WRONG_ARGUMENTS
    right = (call("lookup", city="Paris"), call("city_lookup", city="Rome"))
    assert found(wanted, calls=right) is FailureClass.FINAL_ANSWER


def test_any_tool_is_wrong_where_none_should_be_used() -> None:
    assert found(case(tools=()), calls=(call("search"),)) is FailureClass.WRONG_TOOL
    assert found(case(tools=()), calls=()) is FailureClass.FINAL_ANSWER
    assert found(case(), calls=(call("search"),)) is FailureClass.FINAL_ANSWER


def test_without_steps_nobody_can_tell_which_tools_were_used() -> None:
    assert found(case(tools=(LOOKUP,)), nodes=()) is FailureClass.FINAL_ANSWER


def test_a_run_that_left_its_route_comes_before_all_else() -> None:
    routed = case(tools=(LOOKUP,), route=["planner", "billing"])
    assert found(routed, nodes=("g/planner", "g/sales")) is FailureClass.ROUTING
    assert found(routed, nodes=("g/planner", "x", "g/billing")) is FailureClass.WRONG_TOOL


@pytest.mark.parametrize(
    ("metric", "error", "kind"),
    [
        ("json_schema", "", FailureClass.FORMAT),
        ("faithfulness", "", FailureClass.KNOWLEDGE),
        ("knowledge_recall", "", FailureClass.KNOWLEDGE),
        ("quality", "", FailureClass.FINAL_ANSWER),
        ("quality", "the output is not valid JSON", FailureClass.FORMAT),
        ("quality", "ZeroDivisionError", FailureClass.FINAL_ANSWER),
    ],
)
def test_what_metrics_and_errors_say(metric: str, error: str, kind: FailureClass) -> None:
    assert found(case(), metric=metric, error=error) is kind
