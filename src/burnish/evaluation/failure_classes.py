"""Failure classes: the kind of mistake that a failed case shows."""

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from burnish.core.cases import Case, Turn
from burnish.core.evaluations import CaseResult
from burnish.core.outcomes import ToolCall
from burnish.core.scores import Score
from burnish.evaluation.matching.tool_arguments import compare_arguments


class FailureClass(StrEnum):
    """Where a failure is to be looked for."""

    WRONG_TOOL = "wrong tool"
    WRONG_ARGUMENTS = "wrong arguments"
    ROUTING = "routing"
    FORMAT = "format"
    KNOWLEDGE = "knowledge"
    FINAL_ANSWER = "final answer"


ROUTE = "route"
"""The extra of a case that lists the nodes its run should come by, in order."""
_FORMAT = re.compile(r"format|json|xml|schema|regex|length|valid", re.IGNORECASE)
_KNOWLEDGE = re.compile(r"knowledge|faithful|ground|hallucin|context|recall", re.IGNORECASE)
_INVALID = re.compile(r"invalid|schema|json|parse|output validation", re.IGNORECASE)


def failure_class(case: Case, result: CaseResult, failed: Sequence[Score]) -> FailureClass:
    """The kind of failure: the earliest cause that can be seen wins over what follows from it."""
    if _left_the_route(case, result):
        return FailureClass.ROUTING
    if (tools := _tools(case, result)) is not None:
        return tools
    if result.outcome.failure is not None:
        broken = _INVALID.search(result.outcome.failure.message)
        return FailureClass.FORMAT if broken else FailureClass.FINAL_ANSWER
    names = [score.metric for score in failed]
    if names and all(_FORMAT.search(name) for name in names):
        return FailureClass.FORMAT
    if any(_KNOWLEDGE.search(name) for name in names):
        return FailureClass.KNOWLEDGE
    return FailureClass.FINAL_ANSWER


def _left_the_route(case: Case, result: CaseResult) -> bool:
    """Whether the run came by other nodes than the case says."""
    wanted = case.extras.get(ROUTE)
    if not isinstance(wanted, list) or not result.outcome.trace.steps:
        return False
    nodes = [step.node for step in result.outcome.trace.steps]
    return not _in_order([str(name) for name in wanted], nodes)


def _in_order(wanted: Iterable[str], nodes: Sequence[str]) -> bool:
    """Whether the names come by in this order; a name may be the end of a node's path."""
    left = iter(nodes)
    return all(any(node == name or node.endswith(f"/{name}") for node in left) for name in wanted)


def _tools(case: Case, result: CaseResult) -> FailureClass | None:
    """What was wrong about the use of tools; a run that left no steps does not tell."""
    if not result.outcome.trace.steps:
        return None
    for number, turn in enumerate(case.turns):
        steps = [step for step in result.outcome.trace.steps if step.turn == number]
        used = [call for step in steps for call in step.tools]
        if (found := _of_turn(turn, used)) is not None:
            return found
    return None


def _of_turn(turn: Turn, used: Sequence[ToolCall]) -> FailureClass | None:
    """A tool that should have been used and was not, or was asked for something else; or any tool
    where none should have been."""
    if turn.expects_no_tool and used:
        return FailureClass.WRONG_TOOL
    tools = (*(turn.expected_tools or ()), *(turn.expected_calls or ()))
    wanted = [(tool.name, tool.arguments) for tool in tools]
    wrong: FailureClass | None = None
    for name, arguments in wanted:
        named = [call for call in used if name in call.name]
        if not named:
            return FailureClass.WRONG_TOOL
        if all(compare_arguments(arguments, call.arguments) for call in named):
            wrong = FailureClass.WRONG_ARGUMENTS
    return wrong
