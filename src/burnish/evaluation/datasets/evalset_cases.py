"""The case that a case of an EvalSet is."""

from collections.abc import Sequence

from burnish.core.cases import Case, Rubric, Scenario, Turn
from burnish.core.outcomes import Outcome, Step, Trace
from burnish.evaluation.datasets.evalset_calls import calls_of
from burnish.evaluation.datasets.evalset_extras import case_extras, invocation_extras
from burnish.evaluation.datasets.evalset_history import history_of
from burnish.evaluation.datasets.evalset_messages import text_of
from burnish.evaluation.datasets.evalset_shapes import (
    EvalCaseShape,
    InvocationShape,
    RubricShape,
    ScenarioShape,
)


def case_in(shape: EvalCaseShape) -> Case:
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
    asked = tuple(text_of(one.user_content) for one in actual)
    replies = tuple(text_of(one.final_response) for one in actual)
    steps = tuple(
        Step(
            id=f"turn-{index}",
            node="agent",
            turn=index,
            input=asked[index],
            output=replies[index],
            tools=calls_of(one) or (),
        )
        for index, one in enumerate(actual)
    )
    unasked = tuple(turn.input for turn in reference[len(asked) :])
    return Outcome(replies=replies, asked=(*asked, *unasked), trace=Trace(steps=steps))


def _scenario(shape: ScenarioShape) -> Scenario:
    most = shape.max_allowed_invocations
    return Scenario(
        plan=shape.conversation_plan,
        stop_signal=shape.stop_signal or "",
        max_turns=most if most is not None and most > 0 else None,
    )


def _rubric(shape: RubricShape) -> Rubric:
    return Rubric(
        id=shape.id,
        text=shape.content.text,
        description=shape.description or "",
        kind=shape.type or "",
        metric=shape.metric_name or "",
    )
