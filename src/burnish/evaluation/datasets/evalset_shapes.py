"""The shape of an EvalSet: what the Python and the Go framework write, under Python's names.

The Go one is also called the PromptIter evalset. Keys come here folded (see `evalset_keys`), so
that one shape serves snake_case, camelCase and whatever case Go would accept.
"""

from pydantic import Field, StrictBool, StrictInt

from burnish.core.content import Json
from burnish.evaluation.datasets.evalset_message_shapes import (
    IntermediateShape,
    MessageShape,
    Shape,
    ToolShape,
)

Number = StrictInt | float


class InvocationShape(Shape):
    """One turn."""

    user_content: MessageShape
    invocation_id: str | None = None
    final_response: MessageShape | None = None
    intermediate_data: IntermediateShape | None = None
    creation_timestamp: Number | None = None
    metric_names: list[str] | None = None
    context_messages: list[MessageShape] | None = None
    tools: list[ToolShape] | None = None
    tool_mock: Json = None
    intermediate_responses: list[MessageShape] | None = None


class ScenarioShape(Shape):
    """A conversation whose user is played by a model."""

    starting_prompt: str
    conversation_plan: str
    stop_signal: str | None = None
    max_allowed_invocations: StrictInt | None = None
    driver: str | None = None


class SessionShape(Shape):
    """What a session starts with."""

    app_name: str | None = None
    user_id: str | None = None
    state: dict[str, Json] | None = None


class RubricTextShape(Shape):
    """What a rubric asks for."""

    text: str


class RubricShape(Shape):
    """A rubric of one case."""

    id: str
    content: RubricTextShape
    metric_name: str | None = None
    description: str | None = None
    type: str | None = None


class EvalCaseShape(Shape):
    """One case."""

    eval_id: str = Field(min_length=1)
    eval_mode: str | None = None
    conversation: list[InvocationShape] | None = None
    actual_conversation: list[InvocationShape] | None = None
    conversation_scenario: ScenarioShape | None = None
    session_input: SessionShape | None = None
    context_messages: list[MessageShape] | None = None
    creation_timestamp: Number | None = None
    expected_runner_enabled: StrictBool | None = None
    rubrics: list[RubricShape] | None = None


class EvalSetShape(Shape):
    """The set around the cases, which are looked at one by one."""

    eval_set_id: str
    eval_cases: list[object]
    app_name: str | None = None
    name: str | None = None
    description: str | None = None
    creation_timestamp: Number | None = None
