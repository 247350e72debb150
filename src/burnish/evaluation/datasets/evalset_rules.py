"""What the shape of an EvalSet's case alone does not say: the rules, and whose file it is."""

from collections.abc import Iterator

from burnish.evaluation.datasets.evalset_message_shapes import MessageShape
from burnish.evaluation.datasets.evalset_messages import says_nothing
from burnish.evaluation.datasets.evalset_shapes import EvalCaseShape, InvocationShape

_GO_CASE = frozenset({"expected_runner_enabled", "rubrics"})
_GO_SCENARIO = frozenset({"stop_signal", "max_allowed_invocations", "driver"})
_GO_TURN = frozenset(
    {"metric_names", "tools", "tool_mock", "context_messages", "intermediate_responses"}
)


def broken_rules(case: EvalCaseShape) -> list[tuple[str, str]]:
    """What is wrong with a case, each with what to do."""
    broken = _of_a_trace(case) if case.eval_mode == "trace" else _of_a_run(case)
    for name in ("conversation", "actual_conversation"):
        invocations: list[InvocationShape] | None = getattr(case, name)
        if invocations == []:
            broken.append((f"{name} is empty", "add a turn, or leave it out"))
        broken += [
            (f"{name}[{index}].user_content says nothing", "give it parts with a text")
            for index, one in enumerate(invocations or ())
            if says_nothing(one.user_content)
        ]
    return broken


def _of_a_run(case: EvalCaseShape) -> list[tuple[str, str]]:
    if case.conversation is not None and case.conversation_scenario is not None:
        return [("conversation and conversation_scenario are both given", "keep one of them")]
    if case.conversation is None and case.conversation_scenario is None:
        remedy = "give one of them"
        if case.actual_conversation is not None:
            remedy += ", or say eval_mode 'trace' if the actual_conversation is to be scored"
        return [("there is neither conversation nor conversation_scenario", remedy)]
    return []


def _of_a_trace(case: EvalCaseShape) -> list[tuple[str, str]]:
    broken: list[tuple[str, str]] = []
    if case.actual_conversation is None:
        remedy = "give what the agent did, or leave out eval_mode to have it run"
        broken.append(("eval_mode 'trace' needs an actual_conversation", remedy))
    if case.conversation_scenario is not None:
        remedy = "a trace is scored as it stands: remove the scenario"
        broken.append(("eval_mode 'trace' cannot have a conversation_scenario", remedy))
    return broken


def is_go_case(case: EvalCaseShape) -> bool:
    """Whether a case says something that only Go's files say."""
    turns = [*(case.conversation or ()), *(case.actual_conversation or ())]
    scenario = case.conversation_scenario
    return bool(
        _GO_CASE & case.model_fields_set
        or any(_GO_TURN & turn.model_fields_set for turn in turns)
        or (scenario and _GO_SCENARIO & scenario.model_fields_set)
        or any(message.parts is None for message in _messages(case, turns))
    )


def _messages(case: EvalCaseShape, turns: list[InvocationShape]) -> Iterator[MessageShape]:
    yield from case.context_messages or ()
    for turn in turns:
        yield turn.user_content
        if turn.final_response is not None:
            yield turn.final_response
