"""What the critic and the applier are told and answer: requests, gradients, edits."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Case
from burnish.core.content import canonical
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.models.calling import ModelClient
from burnish.models.prompts import RolePrompt
from burnish.models.roles import ModelRole

MOST_TRACES = 10
MOST_CHARS = 1200
"""Of one text in a trace; the middle of a longer one is left out."""


class Words(BaseModel):
    """Data that goes to a role or comes from one."""

    model_config = ConfigDict(frozen=True)


class Gradient(Words):
    """In which direction one text should move, and why."""

    failing_pattern: str
    root_cause_hypothesis: str
    suggested_change_direction: str
    confidence: Annotated[float, Field(ge=0, le=1)]
    citations: list[str]
    avoid: list[str] = Field(default_factory=list[str])


class CritiqueRequest(Words):
    """What the critic sees."""

    axis: str
    current_text: str
    failing_traces: str
    previous_gradients: str


class EditRequest(Words):
    """What the applier sees."""

    axis: str
    current_text: str
    gradient: str
    max_chars: int


class Edit(Words):
    """A text with one gradient carried out."""

    edit_type: Literal["insert", "replace", "delete", "restructure"]
    rationale: str
    new_text: str
    diff_summary: str


def critic(client: ModelClient, prompt: RolePrompt) -> ModelRole[CritiqueRequest, Gradient]:
    """The role that diagnoses."""
    return ModelRole(
        name="critic",
        request_type=CritiqueRequest,
        answer_type=Gradient,
        prompt=prompt,
        client=client,
    )


def applier(client: ModelClient, prompt: RolePrompt) -> ModelRole[EditRequest, Edit]:
    """The role that edits."""
    return ModelRole(
        name="applier", request_type=EditRequest, answer_type=Edit, prompt=prompt, client=client
    )


def gradients_told(gradients: Sequence[Gradient]) -> str:
    """Diagnoses that were tried and rejected, one a line."""
    return "\n".join(canonical(each.model_dump()).decode() for each in gradients) or "(none)"


def failing(evaluation: Evaluation, metrics: Sequence[str]) -> list[CaseResult]:
    """The first failing run of each case that fails, in order, up to ten."""
    found: dict[str, CaseResult] = {}
    for result in evaluation.results:
        if result.case not in found and result.passed(metrics) is False:
            found[result.case] = result
    return list(found.values())[:MOST_TRACES]


def traces_told(results: Sequence[CaseResult], cases: Sequence[Case]) -> str:
    """Failing runs as the critic reads them: asked, expected, done, said, and why it failed."""
    by_id = {case.id: case for case in cases}
    return "\n\n".join(_trace(result, by_id[result.case]) for result in results)


def _trace(result: CaseResult, case: Case) -> str:
    outcome = result.outcome
    lines = [f"case {result.case}"]
    replies = [*outcome.replies, *[""] * len(case.turns)]
    for turn, reply in zip(case.turns, replies, strict=False):
        lines.append(f"asked: {_cut(turn.input)}")
        if turn.expected is not None:
            lines.append(f"expected: {_cut(turn.expected)}")
        lines.append(f"replied: {_cut(reply) if reply else '(nothing)'}")
    lines += [
        f"used {tool.name} with {_cut(canonical(dict(tool.arguments)).decode())}"
        f"{f', which failed: {_cut(tool.error)}' if tool.error else ''}"
        for step in outcome.trace.steps
        for tool in step.tools
    ]
    if outcome.failure is not None:
        lines.append(f"it failed: {_cut(outcome.failure.message)}")
    lines += [f"{s.metric}: {_cut(s.reason)}" for s in result.scores if s.reason and not s.passed]
    return "\n".join(lines)


def _cut(text: str) -> str:
    if len(text) <= MOST_CHARS:
        return text
    half = MOST_CHARS // 2
    return f"{text[:half]} […] {text[-half:]}"
