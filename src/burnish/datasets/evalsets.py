"""EvalSets as files: cases read from them, and cases written as them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from burnish.core.cases import AS_WRITTEN, Case, Rubric, Scenario, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.core.outcomes import Outcome, Step, ToolCall, Trace
from burnish.datasets.agent_cases import Complaints, listed, mapped
from burnish.datasets.case_files import SPELLING, CaseFile, present, present_lists
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
    EvalRubricShape,
    EvalSetShape,
    InvocationShape,
    ScenarioShape,
    as_json,
    as_python,
    as_spelled,
    folded,
    spelled_twice,
)
from burnish.system.config_errors import shown
from burnish.system.yaml import TreePath, YamlTree, read_tree


def _case_in(shape: EvalCaseShape) -> Case:
    """The case that an EvalSet's case is."""
    scenario, traced = shape.conversation_scenario, shape.eval_mode == "trace"
    actual = shape.actual_conversation or ()
    turns = tuple(map(_turn, shape.conversation or ()))
    if scenario is not None:
        turns = (Turn(input=scenario.starting_prompt),)
    return Case(
        name=shape.eval_id,
        turns=turns or tuple(Turn(input=text_of(one.user_content)) for one in actual),
        history=history_of(shape.context_messages or ()),
        rubrics=tuple(map(_rubric, shape.rubrics or ())),
        scenario=_scenario(scenario) if scenario else None,
        recorded=_recorded(actual, turns) if traced else None,
        extras=case_extras(shape),
    )


def _turn(shape: InvocationShape) -> Turn:
    return Turn(
        input=text_of(shape.user_content),
        expected=None if shape.final_response is None else text_of(shape.final_response),
        expected_calls=calls_of(shape),
        metrics=tuple(shape.metric_names or ()),
        extras=invocation_extras(shape),
    )


def _recorded(actual: Sequence[InvocationShape], reference: Sequence[Turn]) -> Outcome:
    """What the agent gave; a turn of the reference that it never came to has no reply."""
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


def _rubric(shape: EvalRubricShape) -> Rubric:
    return Rubric(
        id=shape.id,
        text=shape.content.text,
        description=shape.description or "",
        kind=shape.type or "",
        metric=shape.metric_name or "",
    )


# -- Cases as those of an EvalSet -----------------------------------------------------------------


def _header_written(file: CaseFile, spelling: str) -> dict[str, Json]:
    """The set without its cases."""
    header: dict[str, Json] = {
        "eval_set_id": file.eval_set_id,
        **present(app_name=file.app_name, name=file.name, description=file.description),
        "eval_cases": [],
        **present(creation_timestamp=file.creation_timestamp),
    }
    return _spelled(header, EvalSetShape, spelling)


def _case_written(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    """One case."""
    extras, recorded = case.extras, case.recorded
    actual = _recorded_written(case, recorded, format) if recorded else None
    own = () if case.scenario or _only_recorded(case) else case.turns
    written: dict[str, Json] = {
        "eval_id": case.id,
        **present(
            eval_mode="trace" if recorded else extras.get("eval_mode"),
            context_messages=history_written(extras.get("context_messages"), case.history, format),
            conversation=[_invocation(turn, format) for turn in own],
            conversation_scenario=_written_scenario(case, case.scenario, format)
            if case.scenario
            else None,
            actual_conversation=actual or extras.get("actual_conversation"),
            session_input=extras.get("session_input"),
            creation_timestamp=extras.get("creation_timestamp"),
        ),
    }
    if format == PROMPTITER:
        written |= present(
            expected_runner_enabled=extras.get("expected_runner_enabled"),
            rubrics=[_written_rubric(rubric) for rubric in case.rubrics],
        )
    return _spelled(written, EvalCaseShape, spelling)


def _only_recorded(case: Case) -> bool:
    """Whether the turns are there only because something was said in the recording."""
    turns = tuple(Turn(input=text) for text in case.recorded.asked) if case.recorded else ()
    return case.turns == turns


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
    """The recorded conversation: one turn for each reply."""
    turn_extras = [mapped(extras) for extras in listed(case.extras.get(RECORDED_TURNS))]
    turn_extras += [{}] * len(recorded.replies)
    messages = recorded.asked or tuple(turn.input for turn in case.turns)
    calls = [_recorded_calls(recorded, index) for index in range(len(recorded.replies))]
    return [
        _invocation(
            Turn(
                input=messages[index],
                expected=reply or None,
                expected_calls=calls[index]
                or (() if turn_extras[index].get("tools") == [] else None),
                extras=turn_extras[index],
            ),
            format,
        )
        for index, reply in enumerate(recorded.replies[: len(messages)])
    ]


def _recorded_calls(recorded: Outcome, turn: int) -> tuple[ToolCall, ...]:
    return tuple(tool for step in recorded.trace.steps if step.turn == turn for tool in step.tools)


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


def _written_rubric(rubric: Rubric) -> dict[str, Json]:
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


# -- EvalSets read --------------------------------------------------------------------------------


def read_evalset(path: Path) -> CaseFile:
    """Read an EvalSet of either framework."""
    return evalset_in(read_tree(path))


def evalset_in(tree: YamlTree) -> CaseFile:
    """The EvalSet in a file that was read."""
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
    file = CaseFile(
        cases=tuple(
            _as_written(raw_case, _case_in(one), format, spelling)
            for raw_case, one in zip(raw_cases, whole, strict=True)
        ),
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
    """One case, looked into; None where it has problems, which are noted."""
    if not complaints.is_json(raw, at=at):
        return None
    for path, key in spelled_twice(raw, EvalCaseShape):
        message = f"{key!r} is there twice, in two spellings"
        complaints.add(message, at=(*at, *path, key), remedy="remove one")
    shape = complaints.shaped(
        as_python(raw, EvalCaseShape),
        EvalCaseShape,
        at=at,
        respell=lambda fault: as_spelled(fault, raw),
    )
    if shape is not None:
        complaints.named(shape.eval_id, at=at)
        for message, remedy in broken_rules(shape):
            complaints.add(message, at=at, remedy=remedy)
    return shape


def _as_written(raw: Json, case: Case, format: str, spelling: str) -> Case:  # noqa: A002
    """The case, with its spelling kept where plain writing would spell it otherwise."""
    if _case_written(case, format, spelling) == raw:
        return case
    original: dict[str, Json] = {"format": format, "case": raw}
    return replace(case, extras={**case.extras, AS_WRITTEN: original})


def _set_shape(raw: Json, complaints: Complaints) -> EvalSetShape | None:
    if raw is None:
        complaints.add("it is empty", remedy="write an EvalSet: eval_set_id and eval_cases")
        return None
    if not isinstance(raw, dict):
        complaints.add(f"expected an EvalSet with 'eval_cases', found {shown(raw)}")
        return None
    complaints.is_json({key: value for key, value in raw.items() if folded(key) != "evalcases"})
    for _, key in spelled_twice(raw, EvalSetShape):
        message = f"{key!r} is there twice, in two spellings"
        complaints.add(message, at=(key,), remedy="remove one")
    return complaints.shaped(
        as_python(raw, EvalSetShape), EvalSetShape, respell=lambda fault: as_spelled(fault, raw)
    )


# -- EvalSets as files ----------------------------------------------------------------------------


def write_evalset(file: CaseFile, path: Path) -> str:
    """The file as JSON text; a set without an id is called after its file."""
    named = replace(file, eval_set_id=file.eval_set_id or path.name.split(".")[0])
    spelling = _spelling(file)
    cases: list[Json] = [_case(case, file.format, spelling) for case in file.cases]
    header = _header(named, spelling)
    whole = {key: cases if folded(key) == "evalcases" else held for key, held in header.items()}
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def evalset_again(file: CaseFile) -> tuple[Case, ...]:
    """What the cases are once they were written in an EvalSet and read again."""
    complaints = Complaints(source=f"written as {file.format}")
    shapes = [
        _case_shape(_case(case, file.format, "snake"), complaints, (case.id,))
        for case in file.cases
    ]
    complaints.settle()
    return tuple(_case_in(shape) for shape in shapes if shape)


def _spelling(file: CaseFile) -> str:
    usual = "camel" if file.format == "promptiter" else "snake"
    return str(file.extras.get(SPELLING, usual))


def _case(case: Case, format: str, spelling: str) -> dict[str, Json]:  # noqa: A002
    """The case as it was written, unless it says something else by now."""
    original = mapped(case.extras.get(AS_WRITTEN))
    raw = original.get("case")
    if original.get("format") != format or not isinstance(raw, dict):
        return _case_written(case, format, spelling)
    extras = {key: value for key, value in case.extras.items() if key != AS_WRITTEN}
    same = _read(raw) == replace(case, labels=(), extras=extras)
    return dict(raw) if same else _case_written(case, format, spelling)


def _read(raw: Json) -> Case | None:
    try:
        return _case_in(EvalCaseShape.model_validate(as_python(raw, EvalCaseShape)))
    except (ValidationError, ConfigError):
        return None


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
