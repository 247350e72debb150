"""Traces in PromptIter's terms."""

from dataclasses import dataclass

from burnish.compat.promptiter.anatomy import Anatomy
from burnish.compat.promptiter.traces import (
    Step,
    Text,
    TokenUsage,
    ToolRecord,
    Trace,
    TraceStatus,
)
from burnish.core import outcomes
from burnish.core.cases import Case
from burnish.core.content import Json, canonical
from burnish.core.evaluations import CaseResult
from burnish.core.outcomes import Outcome, Usage
from burnish.core.structures import Node
from burnish.strategies.backprop.losses import WHOLE, trace_of


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """Reads the runs of one case."""

    anatomy: Anatomy
    case: Case

    def trace(self, result: CaseResult, *, session: str) -> Trace:
        """What happened in a run; one without steps is one step with everything in force."""
        outcome, root = result.outcome, self._node(self.anatomy.structure.entry)
        asked = outcome.asked or tuple(turn.input for turn in self.case.turns)
        steps = trace_of(result, self.case, tuple(self.anatomy.editable)).steps
        return Trace(
            root_agent_name=root.name if root else "",
            session_id=session,
            status=_status(outcome),
            input=Text(text="\n".join(asked)),
            output=Text(text=outcome.output),
            usage=_usage(outcome.usage),
            steps=tuple(self._step(step) for step in steps),
        )

    def _step(self, step: outcomes.Step) -> Step:
        name = self.node_in(self.anatomy, step.node)
        node = self._node(name)
        return Step(
            step_id=step.id,
            agent_name=node.name if node else step.node,
            node_id=name,
            node_type=node.kind.value if node else "",
            predecessor_step_ids=step.predecessors,
            applied_surface_ids=tuple(map(self.anatomy.name_of, step.surfaces)),
            input=None if step.input is None else Text(text=_text(step.input)),
            output=None if step.output is None else Text(text=_text(step.output)),
            usage=_usage(step.usage),
            tools=tuple(map(_tool, step.tools)),
            error=step.error,
        )

    def _node(self, name: str) -> Node | None:
        return next((node for node in self.anatomy.structure.nodes if node.id == name), None)

    @staticmethod
    def node_in(anatomy: Anatomy, name: str) -> str:
        """The node that a step names; a run without steps is a run of the entry."""
        known = {node.id for node in anatomy.structure.nodes}
        return anatomy.structure.entry if name == WHOLE and name not in known else name


def _status(outcome: Outcome) -> TraceStatus:
    if outcome.missing:
        return "incomplete"
    return "failed" if outcome.failed else "completed"


def _usage(usage: Usage) -> TokenUsage:
    asked, answered = usage.input_tokens, usage.output_tokens
    return TokenUsage(
        prompt_tokens=asked, completion_tokens=answered, total_tokens=asked + answered
    )


def _tool(call: outcomes.ToolCall) -> ToolRecord:
    return ToolRecord(
        id=call.id,
        name=call.name,
        arguments=dict(call.arguments),
        result=call.result,
        error=call.error,
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
