"""Cases as those of an EvalSet, for Python or for Go, written plainly from what they hold."""

from burnish.core.cases import Case, Rubric, Scenario, Turn
from burnish.core.content import Json
from burnish.core.outcomes import Outcome, ToolCall
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.case_writing import asked, present
from burnish.evaluation.datasets.complaints import listed, mapped
from burnish.evaluation.datasets.evalset_calls import intermediate_written, tools_written
from burnish.evaluation.datasets.evalset_extras import RECORDED_TURNS
from burnish.evaluation.datasets.evalset_history import history_told
from burnish.evaluation.datasets.evalset_keys import as_json
from burnish.evaluation.datasets.evalset_messages import PROMPTITER, told
from burnish.evaluation.datasets.evalset_shapes import EvalCaseShape, EvalSetShape


def header_written(file: CaseFile, spelling: str) -> dict[str, Json]:
    """The set without its cases."""
    header: dict[str, Json] = {
        "eval_set_id": file.eval_set_id,
        **present(app_name=file.app_name, name=file.name, description=file.description),
        "eval_cases": [],
        **present(creation_timestamp=file.creation_timestamp),
    }
    return _spelled(header, EvalSetShape, spelling)


def case_written(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    """One case."""
    extras, recorded = case.extras, case.recorded
    actual = _recorded_written(case, recorded, format) if recorded else None
    own = () if case.scenario or _only_recorded(case) else case.turns
    written: dict[str, Json] = {
        "eval_id": case.id,
        **present(
            eval_mode="trace" if recorded else extras.get("eval_mode"),
            context_messages=history_told(extras.get("context_messages"), case.history, format),
            conversation=[_invocation(turn, format) for turn in own],
            conversation_scenario=_scenario(case, case.scenario, format) if case.scenario else None,
            actual_conversation=actual or extras.get("actual_conversation"),
            session_input=extras.get("session_input"),
            creation_timestamp=extras.get("creation_timestamp"),
        ),
    }
    if format == PROMPTITER:
        written |= present(
            expected_runner_enabled=extras.get("expected_runner_enabled"),
            rubrics=[_rubric(rubric) for rubric in case.rubrics],
        )
    return _spelled(written, EvalCaseShape, spelling)


def _only_recorded(case: Case) -> bool:
    """Whether the turns are there only because something was said in the recording."""
    said = tuple(Turn(input=said) for said in case.recorded.asked) if case.recorded else ()
    return case.turns == said


def _invocation(turn: Turn, format: str) -> dict[str, Json]:  # noqa: A002
    extras = turn.extras
    written: dict[str, Json] = {
        **present(invocation_id=extras.get("invocation_id")),
        "user_content": told(extras.get("user_content"), turn.input, "user", format),
    }
    if turn.expected is not None:
        kept = extras.get("final_response")
        written["final_response"] = told(kept, turn.expected, "assistant", format)
    if format == PROMPTITER:
        written |= present(metric_names=[*turn.metrics])
        written |= asked(tools=tools_written(extras.get("tools"), turn.expected_calls))
        written |= present(
            tool_mock=extras.get("tool_mock"),
            context_messages=extras.get("context_messages"),
            intermediate_responses=extras.get("intermediate_responses"),
        )
    else:
        middle = intermediate_written(extras.get("intermediate_data"), turn.expected_calls)
        written |= present(intermediate_data=middle)
    return written | present(creation_timestamp=extras.get("creation_timestamp"))


def _recorded_written(case: Case, recorded: Outcome, format: str) -> list[Json]:  # noqa: A002
    """The recorded conversation: one turn for each reply."""
    kept = [mapped(extras) for extras in listed(case.extras.get(RECORDED_TURNS))]
    kept += [{}] * len(recorded.replies)
    said = recorded.asked or tuple(turn.input for turn in case.turns)
    calls = [_recorded_calls(recorded, index) for index in range(len(recorded.replies))]
    return [
        _invocation(
            Turn(
                input=said[index],
                expected=reply or None,
                expected_calls=calls[index] or (() if kept[index].get("tools") == [] else None),
                extras=kept[index],
            ),
            format,
        )
        for index, reply in enumerate(recorded.replies[: len(said)])
    ]


def _recorded_calls(recorded: Outcome, turn: int) -> tuple[ToolCall, ...]:
    return tuple(tool for step in recorded.trace.steps if step.turn == turn for tool in step.tools)


def _scenario(case: Case, scenario: Scenario, format: str) -> dict[str, Json]:  # noqa: A002
    written: dict[str, Json] = {
        "starting_prompt": case.input,
        "conversation_plan": scenario.plan,
    }
    if format == PROMPTITER:
        written |= present(
            stop_signal=scenario.stop_signal or None,
            max_allowed_invocations=scenario.max_turns,
            driver=case.extras.get("driver"),
        )
    return written


def _rubric(rubric: Rubric) -> dict[str, Json]:
    return {
        **present(metric_name=rubric.metric or None),
        "id": rubric.id,
        "content": {"text": rubric.text},
        **present(description=rubric.description or None, type=rubric.kind or None),
    }


def _spelled(
    written: dict[str, Json], model: type[EvalCaseShape | EvalSetShape], spelling: str
) -> dict[str, Json]:
    spelled = as_json(written, model) if spelling == "camel" else written
    assert isinstance(spelled, dict)
    return spelled
