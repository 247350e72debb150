"""What the original got wrong, item by item of facts/001 section 3: here it is right."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from burnish.compat import Callback, Callbacks, LabeledStopper, OptimizeResult
from burnish.core.errors import ConfigError
from burnish.testing.servers import Answer, HttpRequest, Status
from tests.compat.optimizing import BASELINE, BETTER, reflection, turn, world

pytestmark = pytest.mark.slow
KEY = "scripted-key-0123456789"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("SCRIPTED_LOGIN", KEY)


def worse(count: int = 9) -> list[Answer]:
    return [reflection(f"{BASELINE}Never mind {n}.\n") for n in range(count)]


async def test_item_1_nothing_runs_on_after_a_cancel(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        started = asyncio.Event()

        async def agent(query: str) -> str:
            if here.prompt.read_text() != BASELINE:
                started.set()
                await asyncio.sleep(3600)
            return await here.call_agent(query)

        here.agent = agent
        task = asyncio.create_task(here.optimize())
        await started.wait()
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        calls = len(here.calls)
        await asyncio.sleep(0)
        assert len(here.calls) == calls
        assert here.prompt.read_text() == BASELINE
        told = OptimizeResult.from_file(here.out / "result.json")
        assert (told.status, told.finish_reason) == ("CANCELED", "error")
        assert (told.stop_reason, told.baseline_pass_rate) == ("user_requested_stop", 0.0)


async def test_item_2_everything_is_on_disk_as_it_happens(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:
        seen: dict[int, set[str]] = {}

        async def agent(query: str) -> str:
            there = {str(p.relative_to(here.out)) for p in here.out.rglob("*") if p.is_file()}
            seen.setdefault(len(list((here.out / "rounds").glob("*.json"))), there)
            return await here.call_agent(query)

        here.agent = agent
        await here.optimize()
    assert {"config.snapshot.json", "baseline_prompts/system.md"} <= seen[0]
    assert "rounds/round_001.json" in seen[1]
    assert "rounds/round_002.json" in seen[2]
    assert "result.json" not in seen[2]


async def test_item_3_the_pass_rate_is_a_pass_rate(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:
        talks = [[turn(f"{n}+1", str(n + 1)), turn(f"{n}+2", "wrong")] for n in (10, 20, 30)]
        cases = [{"eval_id": f"c{n}", "conversation": talk} for n, talk in enumerate(talks)]
        whole = {"eval_set_id": "val", "eval_cases": cases}
        (tmp_path / "val.evalset.json").write_text(json.dumps(whole))
        here.configure(score_threshold=0.5, max_candidate_proposals=1)
        result = await here.optimize()
    assert (result.baseline_pass_rate, result.baseline_mean_score) == (0.0, 0.5)
    assert result.stop_reason == "max_candidate_proposals"


async def test_item_4_crashing_cases_are_no_success(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:
        here.prompt.write_text(BETTER)

        async def agent(query: str) -> str:
            if query in ("5+5", "6+6"):
                raise ValueError("cannot add that")
            return await here.call_agent(query)

        here.agent = agent
        here.configure(max_candidate_proposals=1)
        result = await here.optimize()
    assert result.baseline_metric_breakdown == {"final_response_avg_score": 1 / 3}
    assert result.baseline_pass_rate == 1 / 3
    assert result.stop_reason != "required_metrics_passing"


async def test_item_5_an_agents_error_reaches_the_reflection_model(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:

        async def agent(query: str) -> str:
            if query.startswith("6"):
                return "no answer"
            raise ValueError("the calculator is out of ink")

        here.agent = agent
        here.configure(max_candidate_proposals=1)
        await here.optimize()
        asked = json.dumps(here.server.requests[0].json)
    assert "the calculator is out of ink" in asked


async def test_item_6_a_rejected_proposal_is_kept_whole(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:
        here.configure(max_candidate_proposals=1)
        result = await here.optimize()
        told = json.loads((here.out / "rounds" / "round_001.json").read_text())
    (only,) = result.rounds
    assert not only.accepted
    assert only.candidate_prompts == {"system": f"{BASELINE}Never mind 0.\n"}
    assert only.per_field_diagnosis == {"system": "the answers lack a beginning"}
    assert only.acceptance_reason
    assert (only.train_pass_rate, only.skip_reason, only.error_message) == (0.0, None, None)
    assert told["candidatePrompts"] == only.candidate_prompts
    assert "The text now:" in json.dumps(told["reflections"][0]["request"])
    assert told["reflections"][0]["answer"]["new_text"] == only.candidate_prompts["system"]


async def test_item_7_a_reflection_model_that_never_answers_is_a_failure(tmp_path: Path) -> None:
    async with world(tmp_path, [Status(400, message="not this request")]) as here:
        here.configure(max_candidate_proposals=None, max_iterations_without_improvement=20)
        result = await here.optimize(update_source=True)
        assert here.prompt.read_text() == BASELINE
    assert (result.status, result.finish_reason) == ("FAILED", "error")
    assert (result.stop_reason, result.source_updated) == (None, False)
    assert "not this request" in result.error_message
    assert "not this request" in (result.rounds[0].error_message or "")
    assert result.rounds[0].skip_reason == "no proposal"
    assert result.rounds[0].candidate_prompts == {}


async def test_item_8_what_was_done_before_a_failure_is_kept(tmp_path: Path) -> None:
    async with world(tmp_path, worse()) as here:

        def fail(context: dict[str, Any], moment: Any) -> None:
            if len(list((here.out / "rounds").glob("*.json"))) == 2:
                raise RuntimeError("the dashboard broke")

        callbacks = Callbacks().register("mine", Callback(before_inference_case=fail))
        result = await here.optimize(callbacks=callbacks)
        files = {p.name for p in here.out.iterdir()}
    assert (result.status, result.total_rounds) == ("FAILED", 2)
    assert "the dashboard broke" in result.error_message
    assert result.baseline_pass_rate == 0.0
    assert result.best_prompts == result.baseline_prompts == {"system": BASELINE}
    assert "result.json" in files
    assert "run.log" in files
    assert not files & {"summary.txt", "best_prompts"}


@pytest.mark.parametrize(("labelled", "reason"), [(True, "slo_breach"), (False, "completed")])
async def test_item_9_the_label_of_a_stopper_reaches_the_stop_reason(
    tmp_path: Path, labelled: bool, reason: str
) -> None:
    async with world(tmp_path, worse()) as here:
        seen: list[int] = []

        def late(gepa_state: Any = None) -> bool:
            seen.append(gepa_state.total_num_evals)
            return gepa_state.i >= 0

        stopper = LabeledStopper(late, "slo_breach") if labelled else late
        result = await here.optimize(extra_stop_callbacks=[stopper])
    assert (result.status, result.stop_reason, result.total_rounds) == ("SUCCEEDED", reason, 1)
    assert seen[-1] == result.total_metric_calls
    if isinstance(stopper, LabeledStopper):
        assert stopper.last_triggered


async def test_item_9_verbose_2_shows_what_the_reflection_model_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with world(tmp_path) as here:
        here.configure(module_selector="random")
        result = await here.optimize(verbose=2)
    told = capsys.readouterr().out
    assert result.status == "SUCCEEDED"
    assert "prompt of reflector" in told
    assert "You add up the numbers" in told
    assert "Optimization complete | status=SUCCEEDED" in told
    assert told.isascii()


async def test_verbose_0_prints_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async with world(tmp_path) as here:
        await here.optimize()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        ({"max_metric_calls": 12}, "budget_exhausted"),
        ({"max_iterations_without_improvement": 2}, "no_improvement"),
        ({"max_candidate_proposals": 2}, "max_candidate_proposals"),
        ({"score_threshold": 0.0}, "score_threshold"),
        ({"max_tracked_candidates": 1}, "max_tracked_candidates"),
    ],
)
async def test_item_10_stop_reasons_and_totals(
    tmp_path: Path, algorithm: dict[str, Any], reason: str
) -> None:
    async with world(tmp_path, worse(20)) as here:
        here.configure(**{"max_candidate_proposals": None, **algorithm})
        result = await here.optimize()
        told = here.told()
    assert (result.status, result.stop_reason) == ("SUCCEEDED", reason)
    assert told["totalMetricCalls"] == told["metricCallsTotal"] == len(here.calls)
    assert told["proposalsTotal"] == told["totalReflectionLmCalls"] == told["totalRounds"]
    assert (told["roundsAccepted"], told["mergeRoundsTotal"]) == (0, 0)
    if "max_metric_calls" in algorithm:
        assert told["rounds"][-1]["budgetTotal"] == 12
        assert told["rounds"][-1]["budgetUsed"] == len(here.calls) <= 12


async def test_a_timeout_after_the_baseline_is_a_success_and_before_it_a_failure(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, worse(20)) as here:
        here.configure(max_candidate_proposals=None, timeout_seconds=0.001)
        result = await here.optimize()
        assert (result.status, result.stop_reason, here.calls) == ("FAILED", None, [])
        assert result.finish_reason == "error"
        assert "the baseline could not be measured: max_minutes: " in result.error_message
        here.configure(max_candidate_proposals=1)
        assert (await here.optimize()).status == "SUCCEEDED", "the same folder goes on"
        here.configure(max_candidate_proposals=None, timeout_seconds=0.001)
        result = await here.optimize()
    assert (result.status, result.stop_reason) == ("SUCCEEDED", "timeout")


async def test_an_agent_that_only_raises_is_a_failure_that_can_go_on(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        mended: list[str] = []

        async def agent(query: str) -> str:
            if not mended:
                raise KeyError("OPENAI_API_KEY")
            return await here.call_agent(query)

        here.agent = agent
        result = await here.optimize()
        assert (result.status, result.baseline_pass_rate) == ("FAILED", None)
        assert "3 of 3 runs of cases ended in an error" in result.error_message
        assert "KeyError: 'OPENAI_API_KEY'" in result.error_message
        assert not here.server.requests, "no proposal is paid"
        assert result.best_prompts == result.baseline_prompts
        mended.append("the key is set")
        result = await here.optimize()
    assert result.status == "SUCCEEDED"
    assert result.baseline_pass_rate == 0.0


async def test_item_11_calls_of_judges_are_counted_and_unknown_prices_are_unknown(
    tmp_path: Path,
) -> None:
    def answer(asked: HttpRequest) -> str:
        judging = "is_the_agent_response_valid" in json.dumps(asked.json)
        verdict = {"reasoning": "so", "is_the_agent_response_valid": "invalid"}
        return json.dumps(verdict) if judging else reflection()

    async with world(tmp_path, answer) as here:
        judge = {
            "model_name": "j",
            "base_url": here.server.base_url,
            "api_key": "${SCRIPTED_LOGIN}",
        }
        metric = {
            "metric_name": "llm_final_response",
            "criterion": {"llm_judge": {"judge_model": judge}},
        }
        here.configure(evaluate={"metrics": [metric]}, max_candidate_proposals=1)
        result = await here.optimize()
    assert result.total_judge_model_calls == result.judge_usage.calls == len(here.calls)
    assert result.judge_usage.prompt == 7 * len(here.calls)
    assert result.total_reflection_lm_calls == result.reflection_usage.calls == 1
    assert result.total_token_usage == {"prompt": 7, "completion": 3, "total": 10}
    assert result.agent_usage.calls == len(here.calls)
    assert (result.total_llm_cost, result.judge_usage.cost) == (None, None)


async def test_item_15_no_secret_is_in_any_file(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        here.prompt.write_text(f"{BASELINE}The key of the till is {KEY}.\n")
        await here.optimize()
        snapshot = json.loads((here.out / "config.snapshot.json").read_text())
        assert KEY in here.prompt.read_text()
    model = snapshot["optimize"]["algorithm"]["reflectionLm"]
    assert model["apiKey"] == "${SCRIPTED_LOGIN}"
    for path in here.out.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path


async def test_a_best_text_without_its_secret_is_not_written_back(tmp_path: Path) -> None:
    secret = f"The key of the till is {KEY}.\n"
    async with world(tmp_path, [reflection(f"{BETTER}{secret}")]) as here:
        here.prompt.write_text(f"{BASELINE}{secret}")
        with pytest.raises(ConfigError, match="a secret was redacted from the best text"):
            await here.optimize(update_source=True)
        assert here.prompt.read_text() == f"{BASELINE}{secret}"
        told = here.told()
    assert (told["status"], told["sourceUpdated"]) == ("SUCCEEDED", False)
    assert told["extras"]["redacted_fields"] == ["system"]


async def test_what_only_looks_like_a_secret_stays_in_the_prompts(tmp_path: Path) -> None:
    example = "A key looks like sk-abcdefghijklmnopqrstuvwxyz.\n"
    async with world(tmp_path) as here:
        target = here.target().add_path("note", tmp_path / "note.md")
        (tmp_path / "note.md").write_text(example)
        result = await here.optimize(target_prompt=target)
        assert (here.out / "baseline_prompts" / "note.md").read_text() == example
        assert (here.out / "best_prompts" / "note.md").read_text() == example
    assert result.best_prompts == {"system": BETTER, "note": example}


async def test_item_16_everything_runs_in_the_callers_loop_and_thread(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        loops: set[Any] = set()
        kept = {"rule": "A rule that is not to be changed."}

        def note() -> None:
            loops.add((asyncio.get_running_loop(), threading.current_thread()))

        async def agent(query: str) -> str:
            note()
            return await here.call_agent(query)

        async def read() -> str:
            note()
            return kept["rule"]

        async def write(text: str) -> None:
            note()
            kept["rule"] = text

        here.agent = agent
        target = here.target().add_callback("rule", read=read, write=write)
        result = await here.optimize(target_prompt=target)
        assert loops == {(asyncio.get_running_loop(), threading.current_thread())}
    assert result.status == "SUCCEEDED"
    assert kept == {"rule": "A rule that is not to be changed."}
