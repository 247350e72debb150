"""What a run must have: a measured baseline, and proposers that answer; and who may end it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Failure, FailureKind, Outcome, Split
from burnish.core.errors import BaselineUnmeasured, ProposerFailed, RoleFailed
from burnish.core.evaluations import CaseResult, Constraint, Evaluation, Objective, Score
from burnish.core.trials import SplitResult, Trial
from burnish.journal.limits import Budget
from burnish.metrics.geval import Groundedness
from burnish.runs.directory import RunRecord
from burnish.runs.evaluation import Conditions
from burnish.runs.roles import RoleAnswers
from burnish.runs.run import Run
from burnish.runs.stoppers import STOP_FILE
from burnish.strategies.requirements import require_measured
from burnish.testing import ScriptedRole
from tests.metrics.judge_bench import panel, prompt
from tests.runs.small import TEST, driven, longer, small

EXACT = {"exact": 1.0}
Steps = Callable[[Run], Awaitable[None]]


def fails(request: str, draw: int) -> str:
    raise RoleFailed("no key")


SILENT = ScriptedRole(name="critic", respond=fails, request_type=str, answer_type=str)


async def baseline(run: Run) -> None:
    train = await run.evaluate(run.target.baseline, split=Split.TRAIN)
    result = SplitResult.of(train, run.objective)
    run.record(Trial(candidate=run.target.baseline, phase="baseline", train=result))
    run.advance(run.target.baseline)


async def ask_once(run: Run) -> None:
    """A search that asks its proposer in vain."""
    await baseline(run)
    with pytest.raises(RoleFailed):
        await run.ask(SILENT, "why?")
    run.record(Trial(candidate=run.target.baseline, phase="text"))
    run.stop_reason()


async def test_a_search_that_had_nothing_to_try_fails_before_the_sealed_test(
    tmp_path: Path,
) -> None:
    made = small(steps=ask_once, roles=[SILENT], test=TEST)
    with pytest.raises(ProposerFailed, match="the critic never gave a usable answer: no key"):
        await driven(made, tmp_path / "run")
    record = RunRecord.read(tmp_path / "run")
    assert (record.status, record.sealed) == ("failed", None)
    assert len(record.rows) == 2


@pytest.mark.parametrize("code", ["signal", "stop_file", "lunch"])
async def test_whoever_stops_a_run_can_go_on_with_it(tmp_path: Path, code: str) -> None:
    async def steps(run: Run) -> None:
        if code == "signal":
            run.ask_to_stop("asked to stop by a signal")
        if code == "stop_file":
            (tmp_path / "run" / STOP_FILE).touch()
        await ask_once(run)

    made = small(steps=steps, roles=[SILENT], stop_callbacks={"lunch": lambda: code == "lunch"})
    ending = await driven(made, tmp_path / "run")
    assert ending.reason.code == code
    assert RunRecord.read(tmp_path / "run").status != "failed"


@pytest.mark.parametrize(
    "budget", [Budget(max_trials=1), Budget(max_calls=7), Budget(patience=1), Budget(max_minutes=0)]
)
async def test_every_other_end_is_a_failure(tmp_path: Path, budget: Budget) -> None:
    with pytest.raises(ProposerFailed):
        await driven(small(steps=ask_once, roles=[SILENT], budget=budget), tmp_path / "run")


async def test_where_something_was_tried_the_silence_is_told_once(tmp_path: Path) -> None:
    async def steps(run: Run) -> None:
        await ask_once(run)
        better = longer(run.target.baseline)
        train = await run.evaluate(better, split=Split.TRAIN)
        run.record(Trial(candidate=better, train=SplitResult.of(train, run.objective)))

    made = small(steps=steps, roles=[SILENT])
    for _ in range(2):
        assert (await driven(made, tmp_path / "run")).reason.code == "finished"
    events = RunRecord.read(tmp_path / "run").events
    told = [str(event.data["message"]) for event in events if event.kind == "warning"]
    assert [each.startswith("the critic never gave a usable answer: no key") for each in told] == [
        True
    ]


def test_a_role_that_answered_once_is_not_silent() -> None:
    answering = RoleAnswers()
    answering.count("critic", "cut off")
    answering.count("applier", "no key")
    answering.count("critic")
    assert answering.silent == ("applier",)
    answering.require("critic", "applier", after=2)
    answering.require("critic", after=1)
    with pytest.raises(ProposerFailed, match="the applier never gave a usable answer: no key"):
        answering.require("critic", "applier", after=1)


def missing(case: str, why: str) -> CaseResult:
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, message=why)
    return CaseResult(case=case, outcome=Outcome(failure=failure))


def scored(case: str, value: float | None, why: str = "") -> CaseResult:
    score = Score(metric="exact", value=value, reason=why)
    return CaseResult(case=case, outcome=Outcome(replies=("x",)), scores=(score,))


def conditions(weights: Mapping[str, float]) -> Conditions:
    return replace(small(), objective=Objective(weights=weights))


def measured(*results: CaseResult) -> Evaluation:
    return Evaluation(candidate="c", split=Split.HOLDOUT, results=results)


def test_the_commonest_error_speaks_for_a_baseline() -> None:
    found = measured(
        missing("a", "the first, and the only one of its kind"),
        missing("b", "connection\n refused"),
        scored("c", None, "connection refused"),
        scored("d", 1.0),
    )
    with pytest.raises(BaselineUnmeasured) as failed:
        require_measured(None, found, conditions=conditions(EXACT), max_missing=0.25)
    assert failed.value.message == (
        "the baseline could not be measured: of 4 cases of holdout, 3 are missing; "
        "in 2 cases: connection refused"
    )
    assert failed.value.exit_code == 1


def test_a_long_error_is_cut() -> None:
    with pytest.raises(BaselineUnmeasured, match=r"in 1 case: x+…\n"):
        require_measured(
            measured(missing("a", "x" * 5000)), conditions=conditions(EXACT), max_missing=0.25
        )


def test_a_few_missing_cases_are_no_reason_to_give_up() -> None:
    found = measured(missing("a", "down"), *(scored(case, 1.0) for case in "bcde"))
    require_measured(found, None, conditions=conditions(EXACT), max_missing=0.25)


def test_a_metric_that_only_limits_must_be_known() -> None:
    limited = Score(metric="polite", value=None, reason="the metric raised RuntimeError: no model")
    found = measured(
        *(replace(scored(case, 1.0), scores=(*scored(case, 1.0).scores, limited)) for case in "ab")
    )
    limit = Constraint(metric="polite", op=">=", value=0.5)
    asked = replace(small(), objective=Objective(weights=EXACT, constraints=(limit,)))
    with pytest.raises(BaselineUnmeasured, match=r"2 are missing; in 2 cases: the metric raised"):
        require_measured(found, conditions=asked, max_missing=0.25)


def test_where_a_number_is_compared_only_that_has_to_be_there() -> None:
    ran = measured(CaseResult(case="a", outcome=Outcome(replies=("x",))))
    unmeasured = conditions({"nobody": 1.0})
    require_measured(ran, conditions=unmeasured, max_missing=0.0, primary="score")
    with pytest.raises(BaselineUnmeasured, match="'nobody' applies to no case of holdout"):
        require_measured(ran, conditions=unmeasured, max_missing=0.0)
    needy = replace(
        unmeasured,
        metrics=(
            Groundedness(name="nobody", panel=panel("never"), prompt=prompt("judge_groundedness")),
        ),
    )
    with pytest.raises(BaselineUnmeasured, match="nobody needs retrieved passages") as failed:
        require_measured(ran, conditions=needy, max_missing=0.0)
    assert "Remove it from the loss" in failed.value.remedy
    unjudged = measured(scored("a", None, "the judge is down"))
    with pytest.raises(BaselineUnmeasured, match="the judge is down"):
        require_measured(unjudged, conditions=conditions({}), max_missing=0.0, primary="exact")
