"""What passes: a threshold or a yes decides, a graded score alone does not; unknown is missing."""

import json
from collections.abc import Iterator

import pytest

from burnish import evaluate
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
from burnish.core.content import codec
from burnish.core.errors import ConfigError
from burnish.core.evaluations import CaseResult, Score
from burnish.journal.once import DirectEffects
from burnish.metrics.computed import DistinctPhrases, Equality, ExpectedTools, ToolTrajectory
from burnish.metrics.eval_factory import ScoreAnswer
from burnish.metrics.files import StandardBlock
from burnish.metrics.geval import GEvalAnswer, QualityAnswer
from burnish.metrics.judged import JudgeAnswer
from burnish.metrics.overlap import RougeMetric
from burnish.metrics.turns import TOOLS_UNKNOWN, ComputedMetric, TurnMetric
from burnish.system import validate_config


async def score(metric: TurnMetric, reply: str, expected: str = "one two three") -> Score:
    case = Case.single("?", expected, name="a")
    (found,) = await metric.score(case, Outcome(replies=(reply,)), effects=DirectEffects())
    return found


@pytest.mark.parametrize(
    ("metric", "passed"),
    [
        (RougeMetric(name="rouge"), None),
        (RougeMetric(name="rouge", threshold=0.3), True),
        (RougeMetric(name="rouge", threshold=0.9), False),
        (DistinctPhrases(), None),
        (Equality(), False),
        (Equality(threshold=0.0), True),
    ],
)
async def test_a_graded_score_passes_by_a_threshold_only(
    metric: ComputedMetric, passed: bool | None
) -> None:
    assert (await score(metric, "one or two")).passed is passed


async def test_a_text_without_words_is_no_verdict_of_a_graded_metric() -> None:
    found = await score(RougeMetric(name="rouge"), "?", expected="?")
    assert (found.value, found.passed) == (1.0, None)


@pytest.mark.parametrize(("judges", "passed"), [(True, False), (False, None)])
def test_a_crash_is_a_verdict_of_metrics_that_give_one(judges: bool, passed: bool | None) -> None:
    assert RougeMetric(name="m").judges is False
    assert Equality().judges
    crash = Outcome(failure=Failure(kind=FailureKind.AGENT, message="boom"))
    score = Score.of_failure("m", "boom", judges=judges)
    assert CaseResult(case="a", outcome=crash, scores=(score,)).passed(["m"]) is passed


TOOLS = Turn(input="?", expected="x", expected_tools=(), expected_calls=())
CALL = Turn(
    input="?",
    expected="x",
    expected_tools=(ExpectedTool(name="search"),),
    expected_calls=(ToolCall(name="search"),),
)
KNOWN = Trace(steps=(Step(id="s", node="agent"),))
UNKNOWN = Trace(steps=(Step(id="s", node="agent", tools_known=False),))


@pytest.mark.parametrize("metric", [ExpectedTools(), ToolTrajectory()], ids=lambda m: m.name)
@pytest.mark.parametrize("turn", [TOOLS, CALL], ids=["none", "one"])
@pytest.mark.parametrize(
    ("trace", "known"), [(KNOWN, True), (UNKNOWN, False), (Trace(), False)], ids=["yes", "no", "-"]
)
async def test_tools_that_nobody_recorded_are_missing(
    metric: TurnMetric, turn: Turn, trace: Trace, known: bool
) -> None:
    outcome = Outcome(replies=("x",), trace=trace)
    (found,) = await metric.score(Case(turns=(turn,)), outcome, effects=DirectEffects())
    if known:
        assert found.value == float(turn is TOOLS)
    else:
        assert (found.value, found.reason) == (None, TOOLS_UNKNOWN)


def says_x(query: str) -> str:
    return "x"


def test_a_function_without_steps_does_not_score_on_tools() -> None:
    cases = [Case(name="a", turns=(TOOLS,))]
    measured = evaluate(says_x, cases=cases, metric=[ExpectedTools()])
    assert measured.score("expected_tools") is None
    assert measured.report.cases[0].why_missing == TOOLS_UNKNOWN
    assert not measured.passed


def test_only_what_is_unknown_is_written_down() -> None:
    known, unknown = (codec(Trace).encode(trace) for trace in (KNOWN, UNKNOWN))
    assert "tools_known" not in json.dumps(known)
    assert '"tools_known": false' in json.dumps(unknown)
    assert codec(Trace).decode(unknown) == UNKNOWN


def _answers(kind: type[JudgeAnswer]) -> Iterator[type[JudgeAnswer]]:
    for each in kind.__subclasses__():
        yield each
        yield from _answers(each)


def test_the_bounds_of_a_judge_are_in_its_schema() -> None:
    for kind in _answers(JudgeAnswer):
        text = json.dumps(kind.model_json_schema())
        assert '"ge"' not in text, kind
        assert '"le"' not in text, kind
    for kind, low, high in ((GEvalAnswer, 0, 10), (QualityAnswer, 1, 5), (ScoreAnswer, 0, 1)):
        field = kind.model_json_schema()["properties"]["score"]
        assert (field["minimum"], field["maximum"]) == (low, high)


@pytest.mark.parametrize("path", ["$.answer", "answer", "a.b[0]", "a['*']", ""])
def test_a_path_that_can_be_read_loads(path: str) -> None:
    block = {"type": "standard", "metric": "equality", "response_path": path}
    assert validate_config(block, StandardBlock, source="m").response_path == path


@pytest.mark.parametrize(
    "path", ["/answer", "$.items[*].x", "$.items.*", "a..b", "a.", "$[?(@.x)]"]
)
def test_a_path_that_cannot_be_read_is_refused_when_loaded(path: str) -> None:
    block = {"type": "standard", "metric": "equality", "response_path": path}
    with pytest.raises(ConfigError, match="is not a path: write it like"):
        validate_config(block, StandardBlock, source="m")
    with pytest.raises(ConfigError, match="is not a path: write it like"):
        Equality(response_path=path)
