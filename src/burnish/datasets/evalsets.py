"""Reading and writing EvalSet files."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from burnish.core.cases import AS_WRITTEN, Case, Outcome, Rubric, Scenario, Step, Trace, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.datasets.agent_cases import (
    SPELLING,
    CaseFile,
    Complaints,
    listed,
    mapped,
    present,
    present_lists,
)
from burnish.datasets.evalset_messages import (
    EVALSET,
    PROMPTITER,
    RECORDED_TURNS,
    broken_rules,
    calls_of,
    case_extras,
    history_of,
    history_written,
    intermediate_written,
    invocation_extras,
    is_go_case,
    message_written,
    text_of,
    tools_written,
)
from burnish.datasets.evalset_shapes import (
    EvalCaseShape,
    EvalSetShape,
    InvocationShape,
    ScenarioShape,
    as_json,
    as_python,
    as_spelled,
    folded,
    spelled_twice,
)
from burnish.system.config import shown
from burnish.system.yaml import TreePath, YamlTree, read_tree

_Shape = TypeVar("_Shape", EvalCaseShape, EvalSetShape)


def _case_in(shape: EvalCaseShape) -> Case:
    scenario, traced = shape.conversation_scenario, shape.eval_mode == "trace"
    actual = shape.actual_conversation or ()
    turns = tuple(
        Turn(
            input=text_of(turn.user_content),
            expected=None if turn.final_response is None else text_of(turn.final_response),
            expected_calls=calls_of(turn),
            metrics=tuple(turn.metric_names or ()),
            extras=invocation_extras(turn),
        )
        for turn in shape.conversation or ()
    )
    if scenario is not None:
        turns = (Turn(input=scenario.starting_prompt),)
    return Case(
        name=shape.eval_id,
        turns=turns or tuple(Turn(input=text_of(one.user_content)) for one in actual),
        history=history_of(shape.context_messages or ()),
        rubrics=tuple(
            Rubric(
                id=rubric.id,
                text=rubric.content.text,
                description=rubric.description or "",
                kind=rubric.type or "",
                metric=rubric.metric_name or "",
            )
            for rubric in shape.rubrics or ()
        ),
        scenario=_scenario(scenario) if scenario else None,
        recorded=recorded_outcome(actual, turns) if traced else None,
        extras=case_extras(shape),
    )


def recorded_outcome(actual: Sequence[InvocationShape], reference: Sequence[Turn] = ()) -> Outcome:
    """The recorded outcome; turns of the reference that were not reached have no reply."""
    messages = tuple(text_of(one.user_content) for one in actual)
    replies = tuple(text_of(one.final_response) for one in actual)
    steps = tuple(
        Step(
            id=f"turn-{index}",
            node="agent",
            turn=index,
            input=messages[index],
            output=replies[index],
            tools=calls_of(one) or (),
        )
        for index, one in enumerate(actual)
    )
    unasked = tuple(turn.input for turn in reference[len(messages) :])
    return Outcome(replies=replies, asked=(*messages, *unasked), trace=Trace(steps=steps))


def _scenario(shape: ScenarioShape) -> Scenario:
    most = shape.max_allowed_invocations
    return Scenario(
        plan=shape.conversation_plan,
        stop_signal=shape.stop_signal or "",
        max_turns=most if most is not None and most > 0 else None,
    )


def _header_written(file: CaseFile, spelling: str) -> dict[str, Json]:
    header: dict[str, Json] = {
        "eval_set_id": file.eval_set_id,
        **present(app_name=file.app_name, name=file.name, description=file.description),
        "eval_cases": [],
        **present(creation_timestamp=file.creation_timestamp),
    }
    return _spelled(header, EvalSetShape, spelling)


def _case_written(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    extras, recorded, scenario = case.extras, case.recorded, case.scenario
    actual = _recorded_written(case, recorded, format) if recorded else None
    # Turns may be there only because something was said in the recording.
    only_recorded = recorded and case.turns == tuple(Turn(input=text) for text in recorded.asked)
    own = () if scenario or only_recorded else case.turns
    written: dict[str, Json] = {
        "eval_id": case.id,
        **present(
            eval_mode="trace" if recorded else extras.get("eval_mode"),
            context_messages=history_written(extras.get("context_messages"), case.history, format),
            conversation=[_invocation(turn, format) for turn in own],
            conversation_scenario=_written_scenario(case, scenario, format) if scenario else None,
            actual_conversation=actual or extras.get("actual_conversation"),
            session_input=extras.get("session_input"),
            creation_timestamp=extras.get("creation_timestamp"),
        ),
    }
    if format == PROMPTITER:
        written |= present(
            expected_runner_enabled=extras.get("expected_runner_enabled"),
            rubrics=[
                {
                    **present(metric_name=rubric.metric or None),
                    "id": rubric.id,
                    "content": {"text": rubric.text},
                    **present(description=rubric.description or None, type=rubric.kind or None),
                }
                for rubric in case.rubrics
            ],
        )
    return _spelled(written, EvalCaseShape, spelling)


def _invocation(turn: Turn, format: str) -> dict[str, Json]:  # noqa: A002
    extras = turn.extras
    written: dict[str, Json] = {
        **present(invocation_id=extras.get("invocation_id")),
        "user_content": message_written(extras.get("user_content"), turn.input, "user", format),
    }
    if turn.expected is not None:
        original = extras.get("final_response")
        written["final_response"] = message_written(original, turn.expected, "assistant", format)
    if format == PROMPTITER:
        written |= present(metric_names=[*turn.metrics])
        written |= present_lists(tools=tools_written(extras.get("tools"), turn.expected_calls))
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
    turn_extras = [mapped(extras) for extras in listed(case.extras.get(RECORDED_TURNS))]
    turn_extras += [{}] * len(recorded.replies)
    messages = recorded.asked or tuple(turn.input for turn in case.turns)
    written: list[Json] = []
    for index, reply in enumerate(recorded.replies[: len(messages)]):
        steps = (step for step in recorded.trace.steps if step.turn == index)
        calls = tuple(tool for step in steps for tool in step.tools)
        extras = turn_extras[index]
        turn = Turn(
            input=messages[index],
            expected=reply or None,
            expected_calls=calls or (() if extras.get("tools") == [] else None),
            extras=extras,
        )
        written.append(_invocation(turn, format))
    return written


def _written_scenario(case: Case, scenario: Scenario, format: str) -> dict[str, Json]:  # noqa: A002
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


def _spelled(
    written: dict[str, Json], model: type[EvalCaseShape | EvalSetShape], spelling: str
) -> dict[str, Json]:
    spelled = as_json(written, model) if spelling == "camel" else written
    assert isinstance(spelled, dict)
    return spelled


def read_evalset(path: Path) -> CaseFile:
    """Read an EvalSet of either framework."""
    return evalset_in(read_tree(path))


def evalset_in(tree: YamlTree) -> CaseFile:
    """The EvalSet of a parsed file."""
    complaints = Complaints.about(tree)
    raw = tree.data if isinstance(tree.data, dict) else {}
    key = next((key for key in raw if folded(key) == "evalcases"), "eval_cases")
    raw_cases = listed(raw.get(key))
    shape = _set_shape(tree.data, complaints)
    shapes = [_case_shape(one, complaints, (key, index)) for index, one in enumerate(raw_cases)]
    complaints.settle()
    assert shape is not None
    whole = [one for one in shapes if one is not None]
    format = PROMPTITER if any(map(is_go_case, whole)) else EVALSET  # noqa: A001
    spelling = "snake" if key == "eval_cases" else "camel"
    cases: list[Case] = []
    for raw_case, one in zip(raw_cases, whole, strict=True):
        case = _case_in(one)
        if _case_written(case, format, spelling) != raw_case:
            original: dict[str, Json] = {"format": format, "case": raw_case}
            case = replace(case, extras={**case.extras, AS_WRITTEN: original})
        cases.append(case)
    file = CaseFile(
        cases=tuple(cases),
        format=format,
        eval_set_id=shape.eval_set_id,
        app_name=shape.app_name,
        name=shape.name,
        description=shape.description,
        creation_timestamp=shape.creation_timestamp,
        extras={SPELLING: spelling},
    )
    header: dict[str, Json] = {**raw, key: []}
    same = _header_written(file, spelling) == header
    return file if same else replace(file, extras={**file.extras, AS_WRITTEN: header})


def _case_shape(raw: Json, complaints: Complaints, at: TreePath = ()) -> EvalCaseShape | None:
    if not complaints.is_json(raw, at=at):
        return None
    shape = _shaped(raw, EvalCaseShape, complaints, at)
    if shape is not None:
        complaints.named(shape.eval_id, at=at)
        for message, remedy in broken_rules(shape):
            complaints.add(message, at=at, remedy=remedy)
    return shape


def _set_shape(raw: Json, complaints: Complaints) -> EvalSetShape | None:
    if raw is None:
        complaints.add("the file is empty", remedy="write an EvalSet: eval_set_id and eval_cases")
        return None
    if not isinstance(raw, dict):
        complaints.add(f"expected an EvalSet with 'eval_cases', found {shown(raw)}")
        return None
    complaints.is_json({key: value for key, value in raw.items() if folded(key) != "evalcases"})
    return _shaped(raw, EvalSetShape, complaints)


def _shaped(
    raw: Json, model: type[_Shape], complaints: Complaints, at: TreePath = ()
) -> _Shape | None:
    for path, key in spelled_twice(raw, model):
        message = f"{key!r} occurs twice, in two spellings"
        complaints.add(message, at=(*at, *path, key), remedy="remove one")
    value = as_python(raw, model)
    return complaints.shaped(value, model, at=at, respell=lambda fault: as_spelled(fault, raw))


def write_evalset(file: CaseFile) -> str:
    """The file as JSON text."""
    usual = "camel" if file.format == PROMPTITER else "snake"
    spelling = str(file.extras.get(SPELLING, usual))
    cases: list[Json] = [_case(case, file.format, spelling) for case in file.cases]
    header = _header(file, spelling)
    whole = {key: cases if folded(key) == "evalcases" else held for key, held in header.items()}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def evalset_again(file: CaseFile) -> tuple[Case, ...]:
    """The cases after writing and reading them as an EvalSet."""
    complaints = Complaints(source=f"written as {file.format}")
    shapes = [
        _case_shape(_case(case, file.format, "snake"), complaints, (case.id,))
        for case in file.cases
    ]
    complaints.settle()
    return tuple(_case_in(shape) for shape in shapes if shape)


def _case(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    """The original case if it is unchanged, else a new one."""
    original = mapped(case.extras.get(AS_WRITTEN))
    raw = original.get("case")
    if original.get("format") != format or not isinstance(raw, dict):
        return _case_written(case, format, spelling)
    extras = {key: value for key, value in case.extras.items() if key != AS_WRITTEN}
    try:
        read = _case_in(EvalCaseShape.model_validate(as_python(raw, EvalCaseShape)))
    except (ValidationError, ConfigError):
        read = None
    same = read == replace(case, labels=(), extras=extras)
    return dict(raw) if same else _case_written(case, format, spelling)


def _header(file: CaseFile, spelling: str) -> dict[str, Json]:
    raw = file.extras.get(AS_WRITTEN)
    plain = _header_written(file, spelling)
    if not isinstance(raw, dict):
        return plain
    try:
        shape = EvalSetShape.model_validate(as_python(raw, EvalSetShape))
    except ValidationError:
        return plain
    fields = (shape.eval_set_id, shape.app_name, shape.name, shape.description)
    same = fields == (file.eval_set_id, file.app_name, file.name, file.description)
    return dict(raw) if same and shape.creation_timestamp == file.creation_timestamp else plain
