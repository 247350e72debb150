"""What managers, workers and critics say: typed answers, read leniently where nothing is lost."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

DecisionKind: TypeAlias = Literal["plan", "delegate", "diagnose", "complete", "fail"]
Severity: TypeAlias = Literal["critical", "warning", "info"]
_KINDS = ("plan", "delegate", "diagnose", "complete", "fail")
_KEYS = {
    "subtasks": "plan",
    "delegations": "delegate",
    "hypotheses": "diagnose",
    "final_result": "complete",
    "reason": "fail",
}
_SEVERITIES = {"high": "critical", "error": "critical", "medium": "warning", "low": "info"}


def _as_text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _as_name(value: Any) -> Any:
    """A worker's name becomes the name of a folder: nothing in it may lead anywhere."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", str(value)).strip("-")[:60] or "worker"


def _as_severity(value: Any) -> Any:
    told = str(value).strip().lower()
    return _SEVERITIES.get(told, told)


Text: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
Texts: TypeAlias = Annotated[list[str], BeforeValidator(_as_list)]
Name: TypeAlias = Annotated[str, BeforeValidator(_as_name)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class Said(BaseModel):
    """What a model said: keys that nobody knows are left aside, NaN is refused."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Subtask(Said):
    """One part of a plan."""

    id: Text
    description: Text = ""
    dependencies: Texts = Field(default_factory=list[str])
    success_criteria: Texts = Field(default_factory=list[str])
    required_outputs: Texts = Field(default_factory=list[str])
    """Files that it leaves in the workspace: the deliverables."""
    delegation_strategy: Literal["worker", "submanager"] = "worker"


class Assignment(Said):
    """What a manager gives to one worker."""

    worker_id: Name
    subtask_id: Text = ""
    instructions: Text
    tools_allowed: Texts = Field(default_factory=list[str])
    """Empty allows all."""
    as_submanager: bool = False


class ManagerDecision(Said):
    """What a manager wants next."""

    decision: DecisionKind
    subtasks: list[Subtask] = Field(default_factory=list[Subtask])
    delegations: list[Assignment] = Field(default_factory=list[Assignment])
    hypotheses: Texts = Field(default_factory=list[str])
    final_result: Text = ""
    confidence: Share | None = None
    reason: Text = ""

    @model_validator(mode="before")
    @classmethod
    def _lenient(cls, value: Any) -> Any:
        """Other names for the same, a decision in many words, and one that its keys imply."""
        if not isinstance(value, dict):
            return value
        told = dict(cast("dict[str, Any]", value))
        for alias in ("workers", "tasks"):
            if alias in told and "delegations" not in told:
                told["delegations"] = told.pop(alias)
        told["decision"] = _kind(str(told.get("decision", "")).lower(), told)
        return {name: each for name, each in told.items() if each is not None}


def _kind(said: str, keys: Iterable[str]) -> str:
    named = [kind for kind in _KINDS if kind in said]
    if len(named) == 1:
        return named[0]
    return next((kind for key, kind in _KEYS.items() if key in keys and not said), said)


class WorkerResult(Said):
    """What a worker gives back."""

    summary: Text
    result: Text = ""
    outputs: Texts = Field(default_factory=list[str])
    """Files that it made or changed, by its own account."""
    confidence: Share | None = None
    status: Literal["done", "failed", "missing"] = "done"
    """`failed`: the worker's own fault. `missing`: nobody could be reached."""


class Defect(Said):
    """One thing that is wrong with a result."""

    category: Text = "incomplete"
    location: Text = ""
    description: Annotated[Text, Field(min_length=1)]
    severity: Annotated[Severity, BeforeValidator(_as_severity)] = "warning"


class Critique(Said):
    """What a critic says of one worker's result."""

    score: Share
    defects: list[Defect] = Field(default_factory=list[Defect])
    prescriptions: Texts = Field(default_factory=list[str])
    reusable_patterns: Texts = Field(default_factory=list[str])
    effort_estimate: Literal["trivial", "moderate", "major"] = "moderate"
    summary: Text = ""

    def count(self, severity: Severity) -> int:
        """How many defects are that severe."""
        return sum(defect.severity == severity for defect in self.defects)


class Judgement(Said):
    """What a judge says of the whole deliverable by one rubric."""

    score: Share
    reason: Text = ""
