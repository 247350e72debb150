"""What the critic and the applier are told and answer: requests, gradients, edits."""

from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.cases import Case
from burnish.core.content import canonical
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.leaks import LeakWatch
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.runs.asking import transcript

MOST_TRACES = 10


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


class Rejected(Words):
    """A diagnosis that was carried out and brought nothing, and why."""

    gradient: Gradient
    reason: str


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
    """Diagnoses, one a line."""
    return _lines([each.model_dump() for each in gradients])


def rejections_told(rejected: Sequence[Rejected]) -> str:
    """Diagnoses that were tried and rejected, one a line, each with the reason."""
    return _lines([{**r.gradient.model_dump(), "rejected_because": r.reason} for r in rejected])


def _lines(rows: Sequence[dict[str, Any]]) -> str:
    return "\n".join(canonical(row).decode() for row in rows) or "(none)"


def failing(evaluation: Evaluation, metrics: Sequence[str]) -> list[CaseResult]:
    """The first failing run of each case that fails, in order."""
    found: dict[str, CaseResult] = {}
    for result in evaluation.results:
        if result.case not in found and _fails(result, metrics):
            found[result.case] = result
    return list(found.values())


def _fails(result: CaseResult, metrics: Sequence[str]) -> bool:
    """By the metrics' verdict; where they give none, any score below the best is a failure."""
    verdict = result.passed(metrics)
    if verdict is not None:
        return not verdict
    values = [result.value(metric) for metric in metrics if result.applies(metric)]
    return any(value is not None and value < 1 for value in values) and None not in values


def traces_told(
    results: Sequence[CaseResult], cases: Sequence[Case], *, secrets: LeakWatch
) -> list[str]:
    """Failing runs as the critic reads them, up to ten.

    An agent may say on a train case what a holdout case expects. That run is left out: it is
    neither the critic's to see nor a reason to end the search.
    """
    by_id = {case.id: case for case in cases}
    told = (transcript(result, by_id[result.case]) for result in results)
    return list(islice((trace for trace in told if secrets.leaked(trace) is None), MOST_TRACES))
