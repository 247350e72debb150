"""EvalSet files of either framework."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from burnish.core.cases import Case, Outcome, Rubric, Scenario, Step, Trace, Turn
from burnish.core.content import Json
from burnish.datasets.agent_cases import (
    CaseFile,
    Complaints,
    listed,
)
from burnish.datasets.evalset_messages import (
    broken_rules,
    calls_of,
    case_extras,
    history_of,
    text_of,
)
from burnish.datasets.evalset_shapes import (
    EvalCaseShape,
    EvalSetShape,
    InvocationShape,
    ScenarioShape,
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
    return CaseFile(cases=tuple(map(_case_in, whole)), eval_set_id=shape.eval_set_id)


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
