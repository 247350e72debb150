"""AgentEvaluator in a test: what passes, what the assertion says, and the eight callbacks."""

import json
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.compat import AgentEvaluator, Callback, CallbackResult, Callbacks, Moment
from burnish.compat.agent_calls import CallbackFailed
from burnish.compat.eval_sets import CasesFailed
from burnish.core.errors import ConfigError
from burnish.models.chat import ChatRequest
from burnish.models.factory import Models
from burnish.testing import ScriptedBackend

EXACT: dict[str, Any] = {"metric_name": "final_response_avg_score", "threshold": 1.0}


def turn(asked: str, expected: str) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": asked}]},
        "final_response": {"role": "model", "parts": [{"text": expected}]},
    }


def write_set(folder: Path, name: str, cases: dict[str, list[dict[str, Any]]]) -> Path:
    path = folder / f"{name}.evalset.json"
    whole = {
        "eval_set_id": name,
        "eval_cases": [{"eval_id": key, "conversation": turns} for key, turns in cases.items()],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def write_config(folder: Path, *metrics: dict[str, Any], **more: Any) -> Path:
    path = folder / "test_config.json"
    path.write_text(json.dumps({"metrics": list(metrics), **more}), encoding="utf-8")
    return path


async def sums(query: str) -> str:
    if query == "crash":
        raise ValueError("cannot add that")
    return str(sum(int(part) for part in query.split("+")))


@pytest.fixture
def sums_set(tmp_path: Path) -> Path:
    write_config(tmp_path, EXACT)
    return write_set(tmp_path, "sums", {"one": [turn("1+1", "2")], "two": [turn("2+2", "4")]})


async def test_a_set_that_passes_gives_its_result(
    sums_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = await AgentEvaluator.evaluate(str(sums_set), call_agent=sums)
    found = result.results_by_eval_set_id["sums"]
    assert found.passed
    assert [r.outcome.output for r in found.evaluation.results] == ["2", "4"]
    assert capsys.readouterr().out == (
        "sums: 2 of 2 cases pass\n"
        "  ✓ one: final_response_avg_score 1.00 of 1 needed\n"
        "  ✓ two: final_response_avg_score 1.00 of 1 needed\n"
    )
    assert burnish.AgentEvaluator is AgentEvaluator


async def test_the_assertion_lists_each_failed_case_with_expected_actual_and_reason(
    tmp_path: Path,
) -> None:
    write_config(tmp_path, EXACT)
    path = write_set(
        tmp_path,
        "sums",
        {
            "right": [turn("1+1", "2")],
            "wrong": [turn("2+2", "5")],
            "broken": [turn("crash", "0")],
        },
    )
    with pytest.raises(AssertionError) as raised:
        await AgentEvaluator.evaluate(path, call_agent=sums, print_detailed_results=False)
    told = str(raised.value)
    assert told.startswith("sums: 2 of 3 cases do not pass\n✗ wrong\n")
    assert "expected  5" in told
    assert "actual    4" in told
    assert "reason" in told
    assert "✗ broken\n  agent: crashed" in told
    assert "ValueError: cannot add that" in told
    assert "final_response_avg_score 0.00 of 1 needed" in told
    assert "right" not in told
    assert isinstance(raised.value, CasesFailed)
    assert raised.value.result.results_by_eval_set_id["sums"].score(EXACT["metric_name"]) == 1 / 3


@pytest.mark.parametrize(("threshold", "passes"), [(0.5, True), (0.7, False)])
async def test_the_mean_over_runs_decides(tmp_path: Path, threshold: float, passes: bool) -> None:
    write_config(tmp_path, {**EXACT, "threshold": threshold}, num_runs=3)
    path = write_set(tmp_path, "flaky", {"one": [turn("q", "yes")]})
    said = iter(["yes", "no", "yes"])

    def agent(query: str) -> str:
        return next(said)

    if passes:
        result = await AgentEvaluator.evaluate(path, call_agent=agent)
        assert len(result.results_by_eval_set_id["flaky"].evaluation.results) == 3
    else:
        with pytest.raises(AssertionError, match=r"0\.67 of 0\.7 needed"):
            await AgentEvaluator.evaluate(path, call_agent=agent)


async def test_what_is_said_here_is_stronger_than_the_file(sums_set: Path) -> None:
    calls: list[str] = []

    async def counted(query: str) -> str:
        calls.append(query)
        return await sums(query)

    await AgentEvaluator.evaluate(sums_set, call_agent=counted, num_runs=2)
    assert sorted(calls) == ["1+1", "1+1", "2+2", "2+2"]


async def test_a_folder_of_sets_each_with_its_own_config(tmp_path: Path) -> None:
    for name, threshold in (("a", 1.0), ("b", 0.0)):
        write_set(tmp_path / name, name, {"one": [turn("1+1", "2" if name == "a" else "3")]})
        write_config(tmp_path / name, {**EXACT, "threshold": threshold})
    result = await AgentEvaluator.evaluate(tmp_path, call_agent=sums)
    assert {k: f.passed for k, f in result.results_by_eval_set_id.items()} == {
        "a": True, "b": True,
    }  # fmt: skip


async def test_the_names_of_both_documents_work(sums_set: Path, tmp_path: Path) -> None:
    config = tmp_path / "optimizer.json"
    (tmp_path / "test_config.json").unlink()
    config.write_text(json.dumps({"evaluate": {"metrics": [EXACT]}, "optimize": {}}))
    await AgentEvaluator.evaluate(
        call_agent=sums, eval_set_path=sums_set, test_config_path=str(config)
    )
    await AgentEvaluator.evaluate(
        eval_dataset_file_path_or_dir=str(sums_set),
        eval_metrics_file_path_or_dir=str(config),
        call_agent=sums,
    )


async def test_tools_that_nobody_knows_are_missing_not_wrong(sums_set: Path) -> None:
    calls: dict[str, Any] = {"intermediate_data": {"tool_uses": [{"name": "add", "args": {}}]}}
    write_set(sums_set.parent, "sums", {"one": [turn("1+1", "2") | calls]})
    write_config(sums_set.parent, {"metric_name": "tool_trajectory_avg_score"}, EXACT)
    with pytest.raises(CasesFailed, match="tool_trajectory_avg_score missing"):
        await AgentEvaluator.evaluate(sums_set, call_agent=sums)


async def test_a_conversation_keeps_its_history(tmp_path: Path) -> None:
    write_config(tmp_path, EXACT)
    talk = [turn("I am Ana.", "0"), turn("Who am I?", "2")]
    path = write_set(tmp_path, "talk", {"one": talk})

    async def agent(query: str, history: list[dict[str, str]]) -> str:
        return str(len(history))

    await AgentEvaluator.evaluate(path, call_agent=agent)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ("config", r"test_config\.json does not exist"),
        ("metrics", "the configuration has no metrics"),
        ("agent", "call_agent is missing, but 2 cases are not recorded"),
        ("path", "no eval set was given"),
        ("twice", "another eval set is called 'sums'"),
    ],
)
async def test_what_is_missing_is_said(
    sums_set: Path, tmp_path: Path, prepare: str, words: str
) -> None:
    place: Path | None = sums_set
    if prepare == "config":
        (tmp_path / "test_config.json").unlink()
    elif prepare == "metrics":
        write_config(tmp_path)
    elif prepare == "path":
        place = None
    elif prepare == "twice":
        copied = write_set(tmp_path / "more", "sums", {"x": [turn("1+1", "2")]})
        write_config(copied.parent, EXACT)
        place = tmp_path
    with pytest.raises(ConfigError, match=words):
        await AgentEvaluator.evaluate(place, call_agent=None if prepare == "agent" else sums)


async def test_recorded_sets_need_no_agent(tmp_path: Path) -> None:
    write_config(tmp_path, EXACT)
    case = {
        "eval_id": "one",
        "eval_mode": "trace",
        "conversation": [turn("1+1", "2")],
        "actual_conversation": [turn("1+1", "2")],
    }
    path = tmp_path / "kept.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "kept", "eval_cases": [case]}))
    result = await AgentEvaluator.evaluate(path)
    assert result.results_by_eval_set_id["kept"].passed


async def test_a_judge_and_a_played_user(tmp_path: Path) -> None:
    write_config(tmp_path, {"metric_name": "llm_final_response"})
    case = {
        "eval_id": "trip",
        "conversation_scenario": {"starting_prompt": "hello", "conversation_plan": "Say Oslo."},
    }
    path = tmp_path / "trip.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "trip", "eval_cases": [case]}))

    async def agent(query: str) -> str:
        return query.upper()

    with pytest.raises(ConfigError, match="no model to simulate its user"):
        await AgentEvaluator.evaluate(path, call_agent=agent, judge="openai:m")

    def respond(request: ChatRequest, draw: int) -> str:
        over = "agent: OSLO" in request.messages[-1].content
        return json.dumps({"thought": "t", "done": over, "remark": "" if over else "Oslo"})

    models = Models(backends={"openai": ScriptedBackend(respond=respond)})
    with pytest.raises(AssertionError, match="no metric gives a verdict") as raised:
        await AgentEvaluator.evaluate(
            path, call_agent=agent, judge="openai:m", user_simulator="openai:m", models=models
        )
    assert isinstance(raised.value, CasesFailed)
    (had,) = raised.value.result.results_by_eval_set_id["trip"].evaluation.results
    assert had.outcome.asked == ("hello", "Oslo")


async def test_results_are_kept_where_asked_and_always_new(sums_set: Path, tmp_path: Path) -> None:
    calls: list[str] = []

    async def counted(query: str) -> str:
        calls.append(query)
        return await sums(query)

    output = tmp_path / "results"
    for _ in range(2):
        result = await AgentEvaluator.evaluate(
            sums_set, call_agent=counted, eval_result_output_dir=str(output)
        )
    assert len(calls) == 4
    folder = result.results_by_eval_set_id["sums"].folder  # pyright: ignore[reportPossiblyUnboundVariable]
    assert folder is not None
    assert folder.parent == output
    assert (folder / "evaluation.json").exists()


# -- callbacks -------------------------------------------------------------------------------

POINTS = (
    "before_inference_set", "after_inference_set", "before_inference_case",
    "after_inference_case", "before_evaluate_set", "after_evaluate_set",
    "before_evaluate_case", "after_evaluate_case",
)  # fmt: skip


def recording(seen: list[tuple[str, Moment]]) -> Callbacks:
    def at(point: str) -> Any:
        def hear(context: dict[str, Any], moment: Moment) -> None:
            seen.append((point, moment))

        return hear

    return Callbacks().register("recorder", Callback(**{point: at(point) for point in POINTS}))


async def test_the_eight_callbacks_in_order(tmp_path: Path) -> None:
    write_config(tmp_path, EXACT, {**EXACT, "metric_name": "response_match_score"})
    path = write_set(tmp_path, "sums", {"one": [turn("1+1", "2")]})
    seen: list[tuple[str, Moment]] = []
    await AgentEvaluator.evaluate(path, call_agent=sums, callbacks=recording(seen))
    assert [point for point, _ in seen] == [
        "before_inference_set",
        "before_evaluate_set",
        "before_inference_case",
        "after_inference_case",
        "before_evaluate_case",
        "after_evaluate_case",
        "after_inference_set",
        "after_evaluate_set",
    ]
    told = dict(seen)
    assert told["before_inference_case"].eval_case_id == "one"
    assert (told["before_inference_case"].run_id, told["before_inference_case"].outcome) == (
        1,
        None,
    )
    assert told["after_inference_case"].outcome is not None
    assert told["after_inference_case"].outcome.output == "2"
    assert len(told["after_evaluate_case"].scores) == 2
    assert told["after_evaluate_set"].evaluation is not None
    assert {moment.eval_set_id for _, moment in seen} == {"sums"}


async def test_callbacks_hear_of_a_crash_too(tmp_path: Path) -> None:
    write_config(tmp_path, EXACT)
    path = write_set(tmp_path, "sums", {"broken": [turn("crash", "0")]})
    seen: list[tuple[str, Moment]] = []
    with pytest.raises(AssertionError):
        await AgentEvaluator.evaluate(path, call_agent=sums, callbacks=recording(seen))
    told = dict(seen)
    assert len(seen) == 8
    assert isinstance(told["after_inference_case"].error, ValueError)
    assert [score.value for score in told["after_evaluate_case"].scores] == [0.0]


async def test_callbacks_share_a_context_and_may_be_async(sums_set: Path) -> None:
    heard: list[Any] = []

    async def begin(context: dict[str, Any], moment: Moment) -> CallbackResult:
        return CallbackResult(context={"run": 7})

    def each(context: dict[str, Any], moment: Moment) -> None:
        heard.append(context["context"]["run"])

    callbacks = Callbacks().register("a", Callback(before_inference_set=begin))
    callbacks.register("b", Callback(after_evaluate_case=each))
    await AgentEvaluator.evaluate(sums_set, call_agent=sums, callbacks=callbacks)
    assert heard == [7, 7]


@pytest.mark.parametrize("point", POINTS)
async def test_a_callback_that_raises_is_no_failure_of_the_agent(
    sums_set: Path, point: str
) -> None:
    def broken(context: dict[str, Any], moment: Moment) -> None:
        raise KeyError("oops")

    callbacks = Callbacks().register("mine", Callback(**{point: broken}))
    with pytest.raises(CallbackFailed, match=f"{point} of mine raised KeyError: 'oops'"):
        await AgentEvaluator.evaluate(sums_set, call_agent=sums, callbacks=callbacks)
