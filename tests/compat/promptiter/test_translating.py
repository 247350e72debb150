"""Scores, losses and traces as PromptIter shows them."""

from collections.abc import Sequence

import pytest

from burnish.compat.promptiter.evaluation import CaseOrigin
from burnish.compat.promptiter.snapshot import SurfaceMap
from burnish.compat.promptiter.translation import Translator
from burnish.core.cases import (
    Case,
    Failure,
    FailureKind,
    Outcome,
    Split,
    Step,
    ToolCall,
    Trace,
    Turn,
)
from burnish.core.evaluations import CaseResult, Evaluation, Score
from burnish.strategies.backprop.packets import CaseLoss, SurfaceGradient, TerminalLoss
from burnish.strategies.backprop.rounds import Round
from tests.compat.promptiter.desk import PLAN, PLANNER, WRITE, WRITER, answer, desk

NAMES = ("a/1", "a/2", "b/1")


def translator(names: Sequence[str] = NAMES) -> Translator:
    origins = {name: CaseOrigin(eval_set=name[0], case=name[2:]) for name in names}
    cases = {name: Case(name=name, turns=(Turn(input=f"question {name}"),)) for name in names}
    return Translator(surface_map=SurfaceMap.of(desk()), origins=origins, cases=cases)


def score(value: float | None, metric: str = "q", turn: int | None = None) -> Score:
    if value is None:
        return Score.of_nothing(metric, "the judge is down")
    passed = value >= 0.5
    return Score(metric=metric, value=value, passed=passed, reason=f"{value}", turn=turn)


def result(case: str, *scores: Score, draw: int = 0, outcome: Outcome | None = None) -> CaseResult:
    made = outcome or answer(desk().baseline, Case.single(f"question {case}"), draw)
    return CaseResult(case=case, draw=draw, outcome=made, scores=scores)


def evaluation(*results: CaseResult) -> Evaluation:
    return Evaluation(candidate="x", split=Split.HOLDOUT, results=results)


def test_a_set_is_the_mean_over_cases_and_metrics_and_sets_count_the_same() -> None:
    found = translator().evaluation(
        evaluation(
            result("a/1", score(1.0), score(0.5, "r")),
            result("a/2", score(0.0)),
            result("b/1", score(1.0)),
        )
    )
    assert [each.overall_score for each in found.eval_sets] == [0.5, 1.0]
    assert found.overall_score == 0.75


def test_what_is_missing_is_not_evaluated_and_not_0() -> None:
    found = translator().evaluation(
        evaluation(
            result("a/1", score(None)), result("a/2", score(1.0)), result("b/1", score(None))
        )
    )
    first = found.eval_sets[0].cases[0].metrics[0]
    assert (first.status, first.reason) == ("not_evaluated", "the judge is down")
    assert [each.overall_score for each in found.eval_sets] == [1.0, None]
    assert found.overall_score == 1.0


def test_nothing_scored_has_no_score() -> None:
    assert translator().evaluation(evaluation(result("a/1"))).overall_score is None


def test_repeats_and_turns_of_a_case_are_one_row() -> None:
    found = translator().evaluation(
        evaluation(
            result("a/1", score(1.0, turn=0), score(0.0, turn=1)),
            result("a/1", score(1.0), draw=1),
        )
    )
    (row,) = found.eval_sets[0].cases
    (metric,) = row.metrics
    assert (metric.score, metric.status, metric.reason) == (0.75, "failed", "0.0")


def test_a_metric_without_a_verdict_is_unknown() -> None:
    found = translator().evaluation(evaluation(result("a/1", Score(metric="q", value=0.3))))
    assert found.eval_sets[0].cases[0].metrics[0].status == "unknown"


def test_a_trace_has_its_steps_nodes_and_surfaces() -> None:
    calls = (ToolCall(name="lookup", arguments={"q": "x"}, result=[1], id="call-1"),)
    step = Step(id="s", node=WRITER, surfaces=(WRITE,), input={"a": 1}, output="y", tools=calls)
    outcome = Outcome(replies=("y",), trace=Trace(steps=(step,)))
    found = translator().evaluation(evaluation(result("a/1", outcome=outcome)))
    trace = found.eval_sets[0].cases[0].trace
    assert trace is not None
    assert (trace.root_agent_name, trace.status) == ("planner", "completed")
    (shown,) = trace.steps
    assert (shown.node_id, shown.node_type, shown.applied_surface_ids) == (
        WRITER,
        "agent",
        (WRITE,),
    )
    assert shown.input is not None
    assert shown.input.text == '{"a":1}'
    assert shown.tools[0].to_json() == {
        "ID": "call-1",
        "Name": "lookup",
        "Arguments": {"q": "x"},
        "Result": [1],
        "Error": "",
    }


@pytest.mark.parametrize(
    ("kind", "status"), [(FailureKind.AGENT, "failed"), (FailureKind.INFRASTRUCTURE, "incomplete")]
)
def test_a_run_without_steps_is_one_step_of_the_entry(kind: FailureKind, status: str) -> None:
    outcome = Outcome(failure=Failure(kind=kind, message="boom"))
    found = translator().evaluation(evaluation(result("a/1", outcome=outcome)))
    trace = found.eval_sets[0].cases[0].trace
    assert trace is not None
    assert (trace.status, trace.steps[0].node_id, trace.steps[0].error) == (status, PLANNER, "boom")


def loss(case: str, draw: int, text: str) -> CaseLoss:
    one = TerminalLoss(case=case, draw=draw, metric="q", step="writer:1", severity="P1", text=text)
    return CaseLoss(case=case, draw=draw, losses=(one,))


def gradient(case: str, step: str, node: str, surface: str) -> SurfaceGradient:
    return SurfaceGradient(
        case=case, draw=0, step=step, node=node, surface=surface, severity="P1", text="better"
    )


def test_losses_and_gradients_are_in_order_of_set_case_and_trace() -> None:
    found = Round(
        number=1,
        parent=desk().baseline,
        train=evaluation(result("a/1"), result("b/1")),
        losses=(loss("b/1", 0, "x"), loss("a/1", 0, "y"), loss("a/1", 1, "y"), loss("a/1", 2, "z")),
        gradients=(
            gradient("b/1", "writer:1", WRITER, WRITE),
            gradient("a/1", "writer:1", WRITER, WRITE),
            gradient("a/1", "planner:1", PLANNER, PLAN),
        ),
    )
    losses = translator().losses(found)
    assert [(each.eval_set_id, each.eval_case_id) for each in losses] == [("a", "1"), ("b", "1")]
    assert [each.loss for each in losses[0].terminal_losses] == ["y", "z"]
    first, second = translator().backward(found).cases
    assert [each.step_id for each in first.step_gradients] == ["planner:1", "writer:1"]
    assert second.step_gradients[0].gradients[0].surface_id == WRITE
