"""Whole runs of the engine, with scripted stages."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from burnish.compat.promptiter import (
    AcceptancePolicy,
    BurnishOptions,
    EvalSetInput,
    Event,
    Profile,
    RunResult,
    RunStatus,
    StopPolicy,
    SurfaceOverride,
    SurfaceValue,
)
from burnish.core.cases import Case, Outcome, Turn
from burnish.core.errors import RoleFailed
from burnish.core.surfaces import Candidate
from tests.compat.promptiter.desk import (
    CITE,
    PLAN,
    PLANNER,
    TOOL,
    WRITE,
    Backward,
    Bench,
    Optimize,
    Quality,
    answer,
    cases,
    desk,
    request,
)

pytestmark = pytest.mark.slow

BETTER = f"Write the answer. {CITE}"
HALF = "Write the answer. Cite the source. In verse."


def verse(candidate: Candidate, case: Case, draw: int) -> Outcome:
    """Verses lose the source on the first question of each set."""
    lost = "verse" in str(candidate.values[WRITE]) and case.input.endswith("1")
    return Outcome(replies=("no source",)) if lost else answer(candidate, case, draw)


def strict_quality() -> list[Quality]:
    """Something always stays to be done: one metric is never content."""
    return [Quality(), Quality(name="polish", looks=lambda case, outcome: 0.5)]


async def test_a_round_is_accepted_the_next_rejected_and_patience_ends_it(tmp_path: Path) -> None:
    bench = Bench(
        tmp_path,
        target=desk(verse),
        optimize=Optimize(texts=(BETTER, HALF)),
        metrics=strict_quality(),
    )
    asked = request(
        max_rounds=5,
        stop_policy=StopPolicy(max_rounds_without_acceptance=1),
        acceptance_policy=AcceptancePolicy(min_score_gain=0.01),
    )
    found = await bench.engine.run(asked)
    assert (found.status, found.current_round, found.error_message) == ("succeeded", 2, "")
    assert found.baseline_validation is not None
    assert found.baseline_validation.overall_score == 0.25
    first, second = found.rounds
    assert first.acceptance is not None
    assert first.acceptance.to_json() == {
        "Accepted": True,
        "ScoreDelta": 0.5,
        "Reason": "candidate score gain satisfies acceptance policy",
    }
    assert first.stop is not None
    assert first.stop.to_json() == {"ShouldStop": False, "Reason": "continue optimization"}
    assert second.acceptance is not None
    assert second.acceptance.to_json() == {
        "Accepted": False,
        "ScoreDelta": -0.25,
        "Reason": "candidate score gain does not satisfy acceptance policy",
    }
    assert second.stop is not None
    assert second.stop.reason == "max rounds without acceptance reached"
    assert second.input_profile == first.output_profile == found.accepted_profile
    assert second.output_profile != found.accepted_profile
    assert bench.optimize.asked[1].surface.value.text == BETTER
    assert {each.surfaces[0].value.text for each in bench.backward.asked[2:]} == {BETTER}
    assert first.burnish is not None
    assert first.burnish["FailureClasses"] == {"t/c1": "final answer", "t/c2": "final answer"}
    assert RunResult.from_json(found.to_json()) == found
    files = sorted(path.name.split("_")[1] for path in (tmp_path / "out" / "app").iterdir())
    assert files == ["t", "t", "v", "v", "v"]
    one = next((tmp_path / "out" / "app").glob("*_baseline.evalset_result.json"))
    told = json.loads(one.read_text(encoding="utf-8"))
    assert [case["evalId"] for case in told["evalCaseResults"]] == ["c1", "c2"]
    assert told["evalCaseResults"][0]["finalEvalStatus"] == "failed"


async def test_events_come_in_order_and_once(tmp_path: Path) -> None:
    bench, heard, grown = Bench(tmp_path), list[Event](), list[RunResult]()

    async def observer(event: Event) -> None:
        await asyncio.sleep(0)
        heard.append(event)

    asked = request(max_rounds=1)
    found = await bench.engine.run(
        asked, observer=observer, run_dir=tmp_path / "run", progress=grown.append
    )
    assert [(each.kind.value, each.round, type(each.payload).__name__) for each in heard] == [
        ("structure_snapshot", 0, "Snapshot"),
        ("baseline_validation", 0, "EvaluationResult"),
        ("round_started", 1, "NoneType"),
        ("round_train_evaluation", 1, "EvaluationResult"),
        ("round_losses", 1, "tuple"),
        ("round_backward", 1, "BackwardResult"),
        ("round_aggregation", 1, "AggregationResult"),
        ("round_patch_set", 1, "PatchSet"),
        ("round_output_profile", 1, "Profile"),
        ("round_validation", 1, "EvaluationResult"),
        ("round_completed", 1, "RoundCompleted"),
    ]
    assert heard[-1].payload is not None
    assert found.rounds[0].stop is not None
    assert found.rounds[0].stop.reason == "max rounds reached"
    assert [each.status for each in grown[:-1]] == [RunStatus.RUNNING] * 11
    assert grown[-1] == found
    again = await bench.engine.run(asked, observer=observer, run_dir=tmp_path / "run")
    assert (again, len(heard), len(bench.backward.asked)) == (found, 11, 2)


@pytest.mark.parametrize("later", [False, True])
async def test_an_observer_that_raises_ends_the_run_and_hears_it_again(
    tmp_path: Path, later: bool
) -> None:
    bench, heard = Bench(tmp_path), list[str]()

    def angry(event: Event) -> None:
        heard.append(event.kind.value)
        if event.kind.value == "round_losses" and len(heard) < 6:
            raise OSError("the store is full")

    async def slowly(event: Event) -> None:
        angry(event)

    asked, observer = request(max_rounds=1), slowly if later else angry
    found = await bench.engine.run(asked, observer=observer, run_dir=tmp_path / "run")
    assert found.status == "failed"
    assert found.error_message == 'append run event "round_losses": the store is full'
    found = await bench.engine.run(asked, observer=observer, run_dir=tmp_path / "run")
    assert found.status == "succeeded"
    assert heard.count("round_losses") == 2
    assert heard.count("baseline_validation") == 1


async def test_a_stage_that_breaks_keeps_what_was_done_and_can_be_gone_on_with(
    tmp_path: Path,
) -> None:
    def broken(_: object) -> None:
        raise KeyError("oh")

    bench = Bench(tmp_path, backward=Backward(says=broken))
    asked = request(max_rounds=1)
    found = await bench.engine.run(asked, run_dir=tmp_path / "run")
    assert found.status == "failed"
    assert found.error_message.startswith("backward round 1: ")
    assert "KeyError" in found.error_message
    assert found.baseline_validation is not None
    assert len(found.rounds[0].losses) == 2
    bench.backward = Backward()
    found = await bench.engine.run(asked, run_dir=tmp_path / "run")
    assert (found.status, found.rounds[0].acceptance is not None) == ("succeeded", True)


async def test_a_stage_without_an_answer_costs_its_packet_only(tmp_path: Path) -> None:
    def half(asked: Any) -> Any:
        if asked.eval_case_id == "c1":
            raise RoleFailed("not this one")
        return {"Gradients": [{"SurfaceID": WRITE, "Gradient": "cite"}]}

    bench = Bench(tmp_path, backward=Backward(says=half))
    found = await bench.engine.run(request(max_rounds=1))
    (only,) = found.rounds
    assert found.status == "succeeded"
    assert only.backward is not None
    assert [each.eval_case_id for each in only.backward.cases] == ["c2"]
    assert only.burnish is not None
    assert "not this one" in json.dumps(only.burnish["Lost"])


class Waiting(Backward):
    """Never answers; takes itself for the other one."""

    fingerprint = "the backwarder"

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def backward(self, request: Any) -> Any:
        self.reached.set()
        await asyncio.Event().wait()


class Answering(Backward):
    """The same, once it answers."""

    fingerprint = "the backwarder"


async def test_a_cancelled_run_says_so_and_goes_on_later(tmp_path: Path) -> None:
    waiting, grown = Waiting(), list[RunResult]()
    bench = Bench(tmp_path, backward=waiting)
    asked = request(max_rounds=1)
    work = asyncio.create_task(
        bench.engine.run(asked, run_dir=tmp_path / "run", progress=grown.append)
    )
    await waiting.reached.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (grown[-1].status, grown[-1].error_message) == ("canceled", "run canceled")
    assert grown[-1].current_round == 1
    bench.backward = Answering()
    found = await bench.engine.run(asked, run_dir=tmp_path / "run")
    assert (found.status, found.rounds[0].train) == ("succeeded", grown[-1].rounds[0].train)
    assert found.burnish is not None
    spent = found.burnish["Spent"]
    assert isinstance(spent, dict)
    assert spent["metric_calls"] == 6


async def test_where_a_run_starts_and_what_it_may_change(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    start = Profile(overrides=(SurfaceOverride(surface_id=TOOL, value=_tool("Finds sources.")),))
    found = await bench.engine.run(request(max_rounds=1, initial_profile=start))
    assert found.accepted_profile is not None
    assert {each.surface_id for each in found.accepted_profile.overrides} == {TOOL, WRITE}
    assert found.rounds[0].input_profile is not None
    assert [each.surface_id for each in found.rounds[0].input_profile.overrides] == [TOOL]


async def test_blame_goes_upstream_to_what_may_change(tmp_path: Path) -> None:
    def blame(asked: Any) -> Any:
        if PLAN in asked.allowed_gradient_surface_ids:
            return {"Gradients": [{"SurfaceID": PLAN, "Gradient": "plan for sources"}]}
        assert asked.allowed_gradient_surface_ids == ()
        sent = {"Gradients": [{"Severity": "P0", "Gradient": "no source in the plan"}]}
        return {"Upstream": [{"PredecessorStepID": "planner:1", **sent}]}

    bench = Bench(tmp_path, backward=Backward(says=blame))
    found = await bench.engine.run(request(max_rounds=1, target_surface_ids=(PLAN,)))
    seen = [each for each in bench.backward.asked if each.node.node_id == PLANNER]
    assert {each.incoming[0].gradient for each in seen} == {"no source in the plan"}
    assert found.rounds[0].aggregation is not None
    assert [each.surface_id for each in found.rounds[0].aggregation.surfaces] == [PLAN]
    assert found.rounds[0].acceptance is not None
    assert not found.rounds[0].acceptance.accepted


async def test_hints_are_told_and_losses_begin_at_their_node(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    train = EvalSetInput.from_json(
        {
            "evalSetId": "t",
            "lossHints": [
                {"evalCaseId": "c1", "metricName": "quality", "reason": "ask why", "severity": "P0"}
            ],
            "lossTargets": [{"metricName": "quality", "nodeId": PLANNER}],
        }
    )
    asked = request(max_rounds=1, train=(train,), train_eval_set_ids=(), target_surface_ids=(PLAN,))
    found = await bench.engine.run(asked)
    first, second = found.rounds[0].losses
    told = [(each.severity, each.step_id, each.loss) for each in first.terminal_losses]
    assert told[0] == ("P0", "planner:1", "ask why")
    assert [each.step_id for each in second.terminal_losses] == ["planner:1"]


async def test_a_protected_case_and_several_candidates(tmp_path: Path) -> None:
    bench = Bench(tmp_path, target=desk(verse), optimize=Optimize(texts=(HALF, BETTER)))
    options = BurnishOptions(candidates_per_round=2, protected_cases=("c1",), repeats=1)
    found = await bench.engine.run(request(max_rounds=1, burnish=options))
    (only,) = found.rounds
    assert only.acceptance is not None
    assert only.acceptance.accepted
    assert only.patches is not None
    assert only.patches.patches[0].value.text == BETTER
    assert only.output_profile == found.accepted_profile
    assert only.burnish is not None
    assert isinstance(only.burnish["Candidates"], list)
    assert len(only.burnish["Candidates"]) == 2


async def test_a_budget_ends_the_run_and_the_last_round_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, optimize=Optimize(texts=("x", "y")), metrics=strict_quality())
    options = BurnishOptions(max_metric_calls=7)
    found = await bench.engine.run(request(max_rounds=9, burnish=options))
    assert found.status == "succeeded"
    assert found.rounds[-1].stop is not None
    assert found.rounds[-1].stop.should_stop
    assert found.rounds[-1].stop.reason.startswith("max_metric_calls: ")


async def test_a_baseline_that_nobody_can_score_fails_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path, metrics=[Quality(looks=lambda case, outcome: None)])
    found = await bench.engine.run(request())
    assert (found.status, found.rounds) == ("failed", ())
    assert found.error_message.startswith("evaluate baseline validation: ")


async def test_an_agent_that_only_raises_fails_the_run_before_a_stage_is_paid(
    tmp_path: Path,
) -> None:
    def raises(*_: object) -> Outcome:
        raise KeyError("OPENAI_API_KEY")

    bench = Bench(tmp_path, target=desk(raises))
    found = await bench.engine.run(request())
    assert (found.status, found.rounds, found.baseline_validation) == ("failed", (), None)
    assert "runs of cases ended in an error" in found.error_message
    assert "KeyError: 'OPENAI_API_KEY'" in found.error_message
    assert not bench.backward.asked


async def test_time_that_ends_before_the_baseline_fails_the_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    found = await bench.engine.run(request(burnish=BurnishOptions(max_minutes=1e-9)))
    assert (found.status, found.rounds) == ("failed", ())
    assert "the baseline could not be measured: max_minutes: " in found.error_message


async def test_the_teacher_writes_what_a_case_lacks_and_is_paid_once(tmp_path: Path) -> None:
    asked: list[str] = []

    async def teacher(question: str) -> str:
        asked.append(question)
        return "[cited]"

    def bare(prefix: str) -> list[Case]:
        turns = [(Turn(input=case.input),) for case in cases(prefix)]
        return [Case(name=f"c{n}", turns=turn) for n, turn in enumerate(turns, start=1)]

    bench = Bench(tmp_path, sets={"t": bare("train"), "v": bare("validation")})
    found = await bench.engine.run(request(max_rounds=1, teacher=teacher))
    assert found.rounds[0].acceptance is not None
    assert found.rounds[0].acceptance.accepted
    assert sorted(asked) == sorted(case.input for case in (*cases("train"), *cases("validation")))


async def test_the_judge_of_a_request_answers_for_judged_metrics(tmp_path: Path) -> None:
    async def judge(message: str) -> dict[str, Any]:
        verdict = "valid" if "answered [cited]" in message else "invalid"
        return {"reasoning": "looked", "is_the_agent_response_valid": verdict}

    folder = tmp_path / "data" / "app"
    folder.mkdir(parents=True)
    metric = {"metricName": "judged", "evaluatorName": "llm_final_response", "threshold": 1.0}
    (folder / "one.metrics.json").write_text(json.dumps([metric]), encoding="utf-8")
    bench = Bench(tmp_path, metrics=())
    engine = bench.engine
    engine.evaluation = replace(engine.evaluation, shared_metrics="one")
    found = await engine.run(request(max_rounds=1, judge=judge))
    assert found.rounds[0].acceptance is not None
    assert found.rounds[0].acceptance.score_delta == 1.0


def _tool(description: str) -> SurfaceValue:
    return SurfaceValue.from_json({"Tools": [{"ID": "lookup", "Description": description}]})
