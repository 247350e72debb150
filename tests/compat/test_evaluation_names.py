"""Programs written for tRPC-Agent's evaluation: its types, runners, registries and pass rates."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

from burnish.compat.eval_sets import CasesFailed
from burnish.compat.evaluation import (
    CRITERION_REGISTRY,
    EVALUATOR_REGISTRY,
    LLM_EVALUATOR_REGISTRY,
    LLM_METRIC_NAMES,
    OPTIMIZER_REGISTRY,
    AgentEvaluator,
    BaseOptimizer,
    CriterionType,
    EvalCase,
    EvalConfig,
    EvalMetric,
    EvalSet,
    EvalStatus,
    EvaluationResult,
    Evaluator,
    FinalResponseCriterion,
    IntermediateData,
    Invocation,
    JSONCriterion,
    LLMJudgeCriterion,
    LocalEvalSetsManager,
    NotFoundError,
    TargetPrompt,
    TextCriterion,
    ToolTrajectoryCriterion,
    load_eval_set_from_file,
    pass_at_k,
    pass_hat_k,
)
from burnish.testing.servers import Answer, HttpRequest, ModelReply, ScriptedServer

QUICKSTART: dict[str, Any] = {
    "evalSetId": "weather",
    "evalCases": [
        {
            "evalId": "shanghai",
            "conversation": [
                {
                    "userContent": {"role": "user", "parts": [{"text": "Weather in Shanghai?"}]},
                    "finalResponse": {"role": "model", "parts": [{"text": "18°C"}]},
                    "intermediateData": {
                        "toolUses": [{"name": "get_weather", "args": {"city": "Shanghai"}}]
                    },
                }
            ],
            "sessionInput": {"appName": "weather", "userId": "user", "state": {}},
        }
    ],
}
TOOLS = EvalConfig(criteria={"tool_trajectory_avg_score": 1.0, "final_response_avg_score": 1.0})
TEXT = EvalConfig(criteria={"final_response_avg_score": 1.0})


def weather() -> EvalSet:
    return EvalSet.model_validate(QUICKSTART)


class Sessions:
    """A session service that remembers what it was asked for."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def get_session(self, *, app_name: str, user_id: str, session_id: str) -> object:
        del app_name, user_id
        return session_id if session_id in self.made else None

    async def create_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        assert (app_name, user_id) == ("weather", "user")
        self.made.append(session_id)


class Runner:
    """A runner whose agent calls one tool and then answers."""

    app_name = "weather"

    def __init__(self, city: str = "Shanghai") -> None:
        self.session_service = Sessions()
        self._city = city

    async def run_async(
        self, *, user_id: str, session_id: str, new_message: Any
    ) -> AsyncIterator[Any]:
        assert user_id == "user"
        assert session_id in self.session_service.made
        assert new_message.parts[0].text == "Weather in Shanghai?"
        call = SimpleNamespace(id="t1", name="get_weather", args={"city": self._city})
        yield event(SimpleNamespace(function_call=call))
        answer = SimpleNamespace(id="t1", name="get_weather", response={"t": 18})
        yield event(SimpleNamespace(function_response=answer))
        yield event(SimpleNamespace(text="18"), partial=True)
        yield event(SimpleNamespace(text="18°C"), final=True)


def event(part: Any, *, partial: bool = False, final: bool = False) -> Any:
    content = SimpleNamespace(role="model", parts=[part])
    return SimpleNamespace(content=content, partial=partial, is_final_response=lambda: final)


@pytest.fixture(autouse=True)
def registries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the registries as they were."""
    monkeypatch.setenv("SCRIPTED_LOGIN", "scripted-key-0123456789")
    added, compares = dict(EVALUATOR_REGISTRY._added), dict(EVALUATOR_REGISTRY.compares)  # pyright: ignore[reportPrivateUsage]
    yield
    EVALUATOR_REGISTRY._added = added  # pyright: ignore[reportPrivateUsage]
    EVALUATOR_REGISTRY.compares = compares
    for name in LLM_METRIC_NAMES:
        LLM_EVALUATOR_REGISTRY.register_judge_tools(name, [])


def test_the_types_read_and_write_both_spellings() -> None:
    eval_set = weather()
    conversation = eval_set.eval_cases[0].conversation
    assert conversation is not None
    assert conversation[0].intermediate_data is not None
    assert eval_set.model_dump(by_alias=True, exclude_unset=True) == QUICKSTART
    plain = json.loads(eval_set.model_dump_json(exclude_none=True))
    assert plain["eval_cases"][0]["session_input"]["app_name"] == "weather"
    assert (
        EvalSet.model_validate_json(json.dumps(plain)).case_file.cases == weather().case_file.cases
    )
    made = Invocation(
        user_content={"parts": [{"text": "Hi"}]},  # pyright: ignore[reportArgumentType]
        intermediate_data=IntermediateData(tool_uses=[]),
    )
    assert made.invocation_id == ""
    with pytest.raises(ValueError, match="user_contents"):
        Invocation.model_validate({"user_contents": {}})
    assert [int(each) for each in EvalStatus] == [1, 2, 3]


async def test_a_runner_is_an_agent_whose_tools_are_known() -> None:
    runner = Runner()
    result = await AgentEvaluator.evaluate_eval_set(
        weather(), runner=runner, eval_config=TOOLS, num_runs=2
    )
    assert len(set(runner.session_service.made)) == 2
    runs = result.results_by_eval_set_id["weather"].eval_results_by_eval_id["shanghai"]
    assert [run.run_id for run in runs] == [1, 2]
    assert {run.final_eval_status for run in runs} == {EvalStatus.PASSED}
    turn = runs[0].eval_metric_result_per_invocation[0]
    assert turn.actual_invocation.intermediate_data.tool_uses[0].args == {"city": "Shanghai"}  # pyright: ignore
    assert [each.metric_name for each in turn.eval_metric_results] == [
        "tool_trajectory_avg_score",
        "final_response_avg_score",
    ]


async def test_a_wrong_call_fails_and_the_executer_keeps_the_result(tmp_path: Path) -> None:
    path = tmp_path / "weather.evalset.json"
    path.write_text(json.dumps(QUICKSTART), encoding="utf-8")
    (tmp_path / "test_config.json").write_text(TOOLS.model_dump_json(include={"criteria"}))
    executer = AgentEvaluator.get_executer(path, runner=Runner("Beijing"), num_runs=3)
    assert executer.get_result() is None
    with pytest.raises(CasesFailed, match="tool_trajectory_avg_score"):
        await executer.evaluate()
    result = executer.get_result()
    assert result is not None
    nc = AgentEvaluator.parse_pass_nc(result)["weather"]
    assert nc == (3, 0)
    assert AgentEvaluator.pass_at_k(nc.n, nc.c, 2) == 0
    dumped = result.results_by_eval_set_id["weather"].eval_results_by_eval_id["shanghai"][0]
    assert dumped.model_dump(by_alias=True, mode="json")["finalEvalStatus"] == 2


@pytest.mark.parametrize("city", ["Shanghai", "Beijing"])
async def test_call_agent_may_return_an_invocation_with_its_tools(
    tmp_path: Path, city: str
) -> None:
    """A folder with a tool metric, and an agent behind `call_agent`: no runner is needed."""
    (tmp_path / "weather.evalset.json").write_text(json.dumps(QUICKSTART), encoding="utf-8")
    criterion = {"toolTrajectory": {"default": {"name": {"match": "exact"}, "arguments": {}}}}
    metric = {"metricName": "tool_trajectory_avg_score", "threshold": 1.0, "criterion": criterion}
    (tmp_path / "test_config.json").write_text(json.dumps({"metrics": [metric], "num_runs": 2}))

    async def agent(query: str) -> Invocation:
        call = {"id": "t1", "name": "get_weather", "args": {"city": city}}
        return Invocation.model_validate(
            {
                "user_content": {"role": "user", "parts": [{"text": query}]},
                "final_response": {"role": "model", "parts": [{"text": "18°C"}]},
                "intermediate_data": {"tool_uses": [call]},
            }
        )

    evaluation = AgentEvaluator.evaluate(tmp_path, call_agent=agent)
    if city == "Beijing":
        with pytest.raises(CasesFailed, match=r"tool_trajectory_avg_score 0\.00 of 1 needed"):
            await evaluation
        return
    result = await evaluation
    runs = result.results_by_eval_set_id["weather"].eval_results_by_eval_id["shanghai"]
    assert [run.final_eval_status for run in runs] == [EvalStatus.PASSED] * 2


async def test_an_agent_that_reports_no_tools_has_no_score_for_them() -> None:
    async def text(query: str) -> str:
        del query
        return "18°C"

    async def invocation(query: str) -> Invocation:
        asked, answered = ({"parts": [{"text": each}]} for each in (query, "18°C"))
        return Invocation(user_content=asked, final_response=answered)  # pyright: ignore[reportArgumentType]

    for agent in (text, invocation):
        with pytest.raises(CasesFailed, match="tool_trajectory_avg_score missing"):
            await AgentEvaluator.evaluate_eval_set(weather(), call_agent=agent, eval_config=TOOLS)


def test_pass_rates_of_repeated_runs() -> None:
    assert pass_at_k(4, 1, 2) == pytest.approx(0.5)
    assert (pass_at_k(5, 5, 3), pass_at_k(5, 0, 3)) == (1, 0)
    assert pass_hat_k(4, 2, 3) == pytest.approx(0.125)
    for wrong in ((3, 4, 1), (3, 1, 0), (3, 1, 4)):
        with pytest.raises(ValueError, match=r"k cannot|must be"):
            pass_at_k(*wrong)


class Short(Evaluator):
    """Passes short replies."""

    async def evaluate_invocations(
        self, actual_invocations: list[Invocation], expected_invocations: Any
    ) -> EvaluationResult:
        final: Any = actual_invocations[0].final_response
        reply: str = final.parts[0].text
        assert expected_invocations[0].final_response.parts[0].text == "18°C"
        assert self.eval_metric.metric_name == "short"
        held = len(reply) < 10
        return EvaluationResult(overall_score=float(held), overall_eval_status=EvalStatus.of(held))


async def test_registered_evaluators_and_comparisons_score() -> None:
    EVALUATOR_REGISTRY.register("short", Short)
    assert {"short", "response_match_score"} <= set(EVALUATOR_REGISTRY.list_registered())

    async def agent(query: str) -> str:
        return "18 degrees" if "long" in query else "18°c"

    config = EvalConfig(criteria={"short": 1.0})
    await AgentEvaluator.evaluate_eval_set(weather(), call_agent=agent, eval_config=config)
    with pytest.raises(CasesFailed):
        await AgentEvaluator.evaluate_eval_set(weather(), call_agent=agent, eval_config=TEXT)

    def same_letters(actual: str, expected: str) -> bool:
        return actual.casefold() == expected.casefold()

    CRITERION_REGISTRY.register(CriterionType.TEXT, same_letters)
    await AgentEvaluator.evaluate_eval_set(weather(), call_agent=agent, eval_config=TEXT)


async def test_criteria_are_made_by_a_program_or_read_in_both_spellings() -> None:
    same = {"textStrategy": {"matchStrategy": "contains", "caseInsensitive": True}}
    text = FinalResponseCriterion(text=TextCriterion(match="contains", case_insensitive=True))
    assert FinalResponseCriterion.model_validate(same) == text
    tools = ToolTrajectoryCriterion.model_validate(
        {"defaultStrategy": {"arguments": {"ignoreTree": {"city": True}}}, "orderSensitive": True}
    )
    assert tools.default.arguments == JSONCriterion(ignore_tree={"city": True})
    judged = {"judgeModel": {"modelName": "m"}, "knowledgeToolNames": ["search"]}
    assert LLMJudgeCriterion.model_validate(judged).knowledge_tool_names == ["search"]
    with pytest.raises(ValueError, match="matches"):
        TextCriterion.model_validate({"matches": "exact"})
    written = {
        "final_response_avg_score": text.model_dump(exclude_none=True),
        "tool_trajectory_avg_score": tools.model_dump(exclude_none=True, by_alias=True),
    }
    kinds = {
        "final_response_avg_score": "finalResponse",
        "tool_trajectory_avg_score": "toolTrajectory",
    }
    metrics = [
        EvalMetric.model_validate({"metricName": name, "criterion": {kinds[name]: each}})
        for name, each in written.items()
    ]
    config = EvalConfig.model_validate({"metrics": [each.model_dump() for each in metrics]})
    await AgentEvaluator.evaluate_eval_set(weather(), runner=Runner("Beijing"), eval_config=config)


def test_eval_sets_in_files(tmp_path: Path) -> None:
    manager = LocalEvalSetsManager(str(tmp_path))
    manager.create_eval_set("weather", "mine")
    with pytest.raises(ValueError, match="already exists"):
        manager.create_eval_set("weather", "mine")
    case = weather().eval_cases[0]
    manager.add_eval_case("weather", "mine", case)
    assert manager.list_eval_sets("weather") == ["mine"]
    assert manager.get_eval_case("weather", "mine", "shanghai") == case
    path = tmp_path / "weather" / "mine.evalset.json"
    assert load_eval_set_from_file(path, "mine").eval_cases == [case]
    manager.update_eval_case("weather", "mine", case.model_copy(update={"eval_mode": "trace"}))
    changed = manager.get_eval_case("weather", "mine", "shanghai")
    assert isinstance(changed, EvalCase)
    assert changed.eval_mode == "trace"
    manager.delete_eval_case("weather", "mine", "shanghai")
    with pytest.raises(NotFoundError):
        manager.delete_eval_case("weather", "mine", "shanghai")
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(ValueError, match="Failed to load"):
        load_eval_set_from_file(path, "mine")


def test_thresholds_of_the_framework_stop() -> None:
    limits = {"a": 0.5, "b": 0.9}

    def required(metrics: object) -> dict[str, float]:
        stop = SimpleNamespace(required_metrics=metrics)
        return BaseOptimizer.resolve_required_thresholds(stop, limits)

    assert required("all") == limits
    assert required(["b", "unknown"]) == {"b": 0.9}
    assert required(None) == required([]) == {}
    meets = BaseOptimizer.metrics_meet_thresholds
    assert meets({"a": 0.5, "b": 1.0}, limits)
    assert not meets({"a": 0.5}, limits)
    assert not meets({"a": 1.0}, {})
    assert "gepa_reflective" in OPTIMIZER_REGISTRY.list_registered()


async def test_trouble_with_prompt_files_is_what_python_raises(tmp_path: Path) -> None:
    path = tmp_path / "system.md"
    path.write_bytes(b"\xff")
    target = TargetPrompt().add_path("system", path)
    with pytest.raises(ValueError, match="not UTF-8"):
        await target.read_all()
    path.unlink()
    with pytest.raises(FileNotFoundError) as missing:
        await target.read_all()
    assert missing.value.errno == 2
    path.mkdir()
    with pytest.raises(OSError, match="cannot"):
        await target.write_all({"system": "New."})


async def test_write_all_raises_what_a_callback_raised(tmp_path: Path) -> None:
    path = tmp_path / "system.md"
    path.write_text("Old.", encoding="utf-8")
    refused = PermissionError("the store is closed")

    async def read() -> str:
        return ""

    async def write(text: str) -> None:
        del text
        raise refused

    target = TargetPrompt().add_path("system", path).add_callback("store", read=read, write=write)
    with pytest.raises(PermissionError) as raised:
        await target.write_all({"system": "New.", "store": "New."})
    assert raised.value is refused
    assert path.read_text(encoding="utf-8") == "Old."


# -- Tools of judges ------------------------------------------------------------------------------

Uses: TypeAlias = tuple[tuple[str, dict[str, Any]], ...]
POLICY = "The answer must name a temperature."


class FunctionTool:
    """A tool as `trpc_agent_sdk.tools` has it: a function in an object."""

    def __init__(self, func: Any) -> None:
        self.func = func


def get_eval_policy() -> str:
    """The standards of this case. Call it before you judge."""
    return POLICY


async def look_up(city: str, days: int = 1) -> dict[str, Any]:
    """What the weather was."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "days": days}


def rubric_config(base_url: str) -> EvalConfig:
    """The configuration of tRPC-Agent's example `llm_judge_tools`, with a rubric that names its
    tool."""
    judge_model = {"provider_name": "openai", "model_name": "scripted", "base_url": base_url}
    rubric = {"id": "1", "content": {"text": "Call get_eval_policy first, then judge by it."}}
    return EvalConfig.model_validate(
        {
            "metrics": [
                {
                    "metric_name": "llm_rubric_response",
                    "threshold": 1.0,
                    "criterion": {
                        "llm_judge": {
                            "judge_model": {**judge_model, "api_key": "${SCRIPTED_LOGIN}"},
                            "rubrics": [rubric],
                        }
                    },
                }
            ]
        }
    )


def told(request: HttpRequest) -> list[str]:
    """What tools gave the judge so far."""
    return [str(m["content"]) for m in request.json["messages"] if m["role"] == "tool"]


def rubric_verdict(verdict: str) -> str:
    item = {"id": "1", "rubric": "r", "evidence": "e", "reason": "as the tool says"}
    return json.dumps({"items": [{**item, "verdict": verdict}]})


async def temperature(query: str) -> str:
    del query
    return "18°C"


async def test_a_judge_calls_the_tools_that_a_program_registers() -> None:
    tools = [FunctionTool(get_eval_policy), look_up]
    LLM_EVALUATOR_REGISTRY.register_judge_tools("llm_rubric_response", tools)
    asked: list[dict[str, Any]] = []

    def judge(request: HttpRequest) -> Answer:
        asked.append(request.json)
        if not told(request):
            uses: Uses = (("get_eval_policy", {}), ("look_up", {"city": "Oslo", "days": 2}))
            return ModelReply(uses=uses)
        return rubric_verdict("yes" if POLICY in told(request) else "no")

    async with ScriptedServer(protocol="openai", answers=judge) as server:
        result = await AgentEvaluator.evaluate_eval_set(
            weather(), call_agent=temperature, eval_config=rubric_config(server.base_url)
        )
    assert result.results_by_eval_set_id["weather"].passed
    shown = {each["function"]["name"]: each["function"] for each in asked[0]["tools"]}
    assert sorted(shown) == ["get_eval_policy", "look_up"]
    assert shown["get_eval_policy"]["description"].startswith("The standards of this case")
    assert shown["look_up"]["parameters"]["required"] == ["city"]
    results = [m["content"] for m in asked[1]["messages"] if m["role"] == "tool"]
    assert results == [POLICY, '{"city":"Oslo","days":2}']


async def test_a_judge_is_told_what_is_wrong_with_a_tool_call_and_must_answer_at_last() -> None:
    LLM_EVALUATOR_REGISTRY.register_judge_tools("llm_rubric_response", [look_up])
    seen: list[str] = []

    def judge(request: HttpRequest) -> Answer:
        seen[:] = told(request)
        calls: Uses = (("look_up", {"city": "Atlantis"}), ("look_up", {}), ("search", {}))
        return ModelReply(uses=(calls[len(seen)],)) if len(seen) < 3 else rubric_verdict("yes")

    async with ScriptedServer(protocol="openai", answers=judge) as server:
        config = rubric_config(server.base_url)
        await AgentEvaluator.evaluate_eval_set(
            weather(), call_agent=temperature, eval_config=config
        )
    assert seen[0] == "error: LookupError: no such city"
    assert seen[1] == "error: ValueError: city: Field required"
    assert seen[2] == "error: there is no tool search; there are: look_up"

    again = ModelReply(uses=(("look_up", {"city": "Oslo"}),))
    async with ScriptedServer(protocol="openai", answers=[again] * 40) as server:
        config = rubric_config(server.base_url)
        with pytest.raises(CasesFailed, match="called tools 10 times in a row"):
            await AgentEvaluator.evaluate_eval_set(
                weather(), call_agent=temperature, eval_config=config
            )


def test_only_metrics_with_a_judge_take_tools() -> None:
    with pytest.raises(ValueError, match="'response_match_score' is not judged by a model"):
        LLM_EVALUATOR_REGISTRY.register_judge_tools("response_match_score", [look_up])
    assert LLM_EVALUATOR_REGISTRY.get_judge_tools("response_match_score") is None
    LLM_EVALUATOR_REGISTRY.register_judge_tools("llm_final_response", [look_up])
    assert LLM_EVALUATOR_REGISTRY.get_judge_tools("llm_final_response") == [look_up]
