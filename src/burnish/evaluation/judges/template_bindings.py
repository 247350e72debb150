"""Where the variables of a judge's template get their values from."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.cases import Rubric
from burnish.core.content import Json
from burnish.core.errors import Problem
from burnish.core.outcomes import Step, ToolCall
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.evidence import as_text, said
from burnish.evaluation.matching.json_paths import path_problem, read_path


class Scope(StrEnum):
    """Whose value it is."""

    ACTUAL = "actual"
    EXPECTED = "expected"
    METRIC = "metric"


class Source(StrEnum):
    """Which value it is."""

    USER_CONTENT = "userContent"
    FINAL_RESPONSE = "finalResponse"
    STEP_INPUT = "traceStepInput"
    STEP_OUTPUT = "traceStepOutput"
    STEP_TOOLS = "traceStepTools"
    STEP_SKILLS = "traceStepSkills"
    RUBRICS = "rubrics"


_STEPS = (Source.STEP_INPUT, Source.STEP_OUTPUT, Source.STEP_TOOLS, Source.STEP_SKILLS)
_TALK = (Source.USER_CONTENT, Source.FINAL_RESPONSE)
_FIELDS = {
    Scope.ACTUAL: (*_TALK, *_STEPS),
    Scope.EXPECTED: _TALK,
    Scope.METRIC: (Source.RUBRICS,),
}


class CannotBind(ValueError):
    """A turn has no value for a variable; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One variable and where its value comes from."""

    variable: str
    scope: Scope
    field: Source
    node: str = ""
    """The node of the trace, for fields of a step: its last step of the turn is taken."""
    path: str = ""
    """A place inside the value; empty for all of it."""

    @property
    def needs_reference(self) -> bool:
        """Whether it asks for the reference answer."""
        return self.scope is Scope.EXPECTED and self.field is Source.FINAL_RESPONSE

    def problems(self, where: str) -> list[Problem]:
        """What can never be bound."""
        found: list[Problem] = []
        if self.field not in _FIELDS[self.scope]:
            known = f"{self.scope} has: {', '.join(_FIELDS[self.scope])}"
            message = f"{self.scope} has no field {self.field}"
            found.append(Problem(where=where, message=message, remedy=known))
        if self.field in _STEPS and not self.node:
            remedy = "name the node in selector.nodeID"
            found.append(
                Problem(where=where, message=f"{self.field} is of which node?", remedy=remedy)
            )
        if self.path and (message := path_problem(self.path)):
            found.append(Problem(where=where, message=message))
        return found

    def text(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> str:
        """The value for a turn: a string as it is, anything else as JSON. Raises CannotBind."""
        whole = self._whole(exchange, rubrics)
        reading = read_path(whole, self.path or "$", into_texts=True)
        if reading.problem:
            raise CannotBind(f"'{self.variable}' ({self.field}): {reading.problem}")
        return as_text(reading.value)

    def _whole(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> Json:
        if self.field is Source.RUBRICS:
            return [{"id": rubric.id, "text": rubric.text} for rubric in rubrics]
        if self.field in _STEPS:
            return self._of_step(_last_step(self.variable, exchange, self.node))
        if self.field is Source.USER_CONTENT:
            return exchange.asked if self.scope is Scope.ACTUAL else exchange.turn.input
        return said(exchange) if self.scope is Scope.ACTUAL else exchange.expected or ""

    def _of_step(self, step: Step) -> Json:
        if self.field is Source.STEP_TOOLS:
            return [_use(tool) for tool in step.tools]
        if self.field is Source.STEP_SKILLS:
            raise CannotBind(
                f"'{self.variable}': traces here do not record skills; "
                "bind traceStepTools, or another field of the step"
            )
        value = step.input if self.field is Source.STEP_INPUT else step.output
        if value is None:
            raise CannotBind(
                f"'{self.variable}': the step of node '{self.node}' has no {self.field}"
            )
        return value


def _last_step(variable: str, exchange: Exchange, node: str) -> Step:
    for step in reversed(exchange.steps):
        if step.node == node:
            return step
    ran = ", ".join(dict.fromkeys(step.node for step in exchange.steps)) or "none"
    raise CannotBind(f"'{variable}': node '{node}' did not run in this turn; nodes that ran: {ran}")


def _use(tool: ToolCall) -> Json:
    return {
        "name": tool.name,
        "arguments": dict(tool.arguments),
        "result": tool.result if tool.result is not None else list(tool.passages) or None,
        "error": tool.error,
    }
