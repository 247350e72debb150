"""What every deterministic metric keeps: the contract, its name, a hash of its settings."""

import pytest

from burnish.core.cases import Case, ExpectedTool, Outcome, Step, Trace, Turn
from burnish.core.content import codec
from burnish.metrics.computed import (
    Equality,
    ExpectedTools,
    FinalResponse,
    Length,
    LengthCompliance,
    Numeric,
    ToolTrajectory,
)
from burnish.metrics.document_matching import JsonRule, XmlRule
from burnish.metrics.rouge import RougeRule
from burnish.metrics.text_matching import LengthRule, TextRule
from burnish.metrics.tool_matching import ToolRule, TrajectoryRule
from burnish.metrics.turns import ComputedMetric
from burnish.testing.doubles import check_metric
from tests.metrics.exchange_of import call

RULES = TrajectoryRule(overrides={"t": ToolRule(result=JsonRule(only_tree={"a": {"b": True}}))})
METRICS: list[ComputedMetric] = [
    Equality(),
    Equality(case_insensitive=True),
    Equality(strip_whitespace=True),
    Equality(strip_punctuation=True),
    Equality(response_path="a"),
    Numeric(),
    Numeric(absolute_tolerance=0.1),
    Numeric(relative_tolerance=0.1),
    Numeric(accept_percent=True),
    Numeric(accept_thousands_separators=True),
    Numeric(threshold=1.0),
    FinalResponse(text=TextRule(length=LengthRule(max=5))),
    FinalResponse(name="mine"),
    FinalResponse(json=JsonRule(schema={"type": "object"}, ignore_tree={"a": {"b": True}})),
    FinalResponse(xml=XmlRule(match="exact")),
    Length(max=3),
    Length(max=3, unit="words"),
    LengthCompliance(min=1, max=9),
    LengthCompliance(min=1, max=9, preferred_max=5),
    FinalResponse(),
    FinalResponse(text=TextRule(), json=JsonRule(), xml=XmlRule(), rouge=RougeRule(min_f1=0.5)),
    ToolTrajectory(),
    ToolTrajectory(rule=RULES),
    ExpectedTools(),
]
CASE = Case(
    turns=(
        Turn(
            input="?",
            expected="42",
            expected_tools=(ExpectedTool(name="t", arguments={"n": 1}),),
            expected_calls=(call("t", n=1),),
        ),
        Turn(input="and?", expected='{"a": 1}'),
    )
)
LONG = "An answer that is too long to be quoted whole. " * 2_000
OUTCOMES = [
    Outcome(replies=("42", '{"a": 1}')),
    Outcome(replies=("41", "```json\n{}\n```"), data={"a": 2}),
    Outcome(replies=(LONG, "שלום \u202e🙂\u200d")),
    Outcome(
        replies=("x", "<a/>"),
        trace=Trace(steps=(Step(id="s", node="a", tools=(call("t", n=2), call("u"))),)),
    ),
]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
async def test_the_contract_of_metrics(metric: ComputedMetric) -> None:
    await check_metric(metric, CASE, OUTCOMES)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_settings_survive_being_kept(metric: ComputedMetric) -> None:
    kept = codec(type(metric))
    assert kept.decode(kept.encode(metric)) == metric


def test_every_setting_is_in_the_fingerprint() -> None:
    prints = [metric.fingerprint for metric in METRICS]
    assert len(set(prints)) == len(prints)


def test_the_names_that_files_use() -> None:
    assert {metric.name for metric in METRICS} == {
        "equality",
        "numeric",
        "mine",
        "length",
        "final_response_length_compliance",
        "final_response_avg_score",
        "tool_trajectory_avg_score",
        "expected_tools",
    }
