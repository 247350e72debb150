"""Exchanges for the tests of metrics, in one line each."""

from burnish.core.cases import Case, ExpectedTool, Outcome, Step, ToolCall, Trace, Turn
from burnish.core.content import Json
from burnish.metrics.turns import ComputedMetric, Exchange, Verdict, exchanges


def exchange_of(
    reply: str,
    expected: str | None = None,
    *,
    data: Json = None,
    calls: tuple[ToolCall, ...] = (),
    expected_calls: tuple[ToolCall, ...] | None = None,
    expected_tools: tuple[ExpectedTool, ...] | None = None,
) -> Exchange:
    """One turn, and what the agent made of it."""
    turn = Turn(
        input="?", expected=expected, expected_calls=expected_calls, expected_tools=expected_tools
    )
    trace = Trace(steps=(Step(id="s1", node="agent", tools=calls),))
    outcome = Outcome(replies=(reply,), data=data, trace=trace)
    return exchanges(Case(turns=(turn,)), outcome)[0]


def verdict_of(metric: ComputedMetric, exchange: Exchange) -> Verdict:
    """What a metric says of a turn that it applies to."""
    verdict = metric.compute(exchange)
    assert verdict is not None, "the metric does not apply"
    return verdict


def call(name: str, result: Json = None, error: str = "", **arguments: Json) -> ToolCall:
    """One call of a tool."""
    return ToolCall(name=name, arguments=arguments, result=result, error=error)
