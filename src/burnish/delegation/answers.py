"""The answers of managers, workers and critics, and the texts that they read."""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from burnish.delegation.workspace import StateStore, TeamWorkspace
from burnish.metrics.text_matching import without_middle
from burnish.system.workspaces import shown

_DecisionKind: TypeAlias = Literal["plan", "delegate", "diagnose", "complete", "fail"]
_Severity: TypeAlias = Literal["critical", "warning", "info"]
DECISION_KEYS = {
    "plan": "subtasks",
    "delegate": "delegations",
    "diagnose": "hypotheses",
    "complete": "final_result",
    "fail": "reason",
}
"""What each decision needs."""
_SEVERITIES = {"high": "critical", "error": "critical", "medium": "warning", "low": "info"}


def _as_text(value: Any) -> Any:
    return value if isinstance(value, str) or value is None else json.dumps(value)


def _as_list(value: Any) -> Any:
    if value is None:
        return []
    return [value] if isinstance(value, str) else value


def _as_name(value: Any) -> Any:
    """A worker's name becomes a folder name, so it may not contain path separators."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", str(value)).strip("-")[:60] or "worker"


def _as_severity(value: Any) -> Any:
    word = str(value).strip().lower()
    return _SEVERITIES.get(word, word)


_Text: TypeAlias = Annotated[str, BeforeValidator(_as_text)]
_Texts: TypeAlias = Annotated[list[str], BeforeValidator(_as_list)]
_Name: TypeAlias = Annotated[str, BeforeValidator(_as_name)]
_Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class _LenientAnswer(BaseModel):
    """An answer of a model: unknown keys are ignored, NaN is rejected."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Subtask(_LenientAnswer):
    """One part of a plan."""

    id: _Text
    description: _Text = ""
    dependencies: _Texts = Field(default_factory=list[str])
    success_criteria: _Texts = Field(default_factory=list[str])
    required_outputs: _Texts = Field(default_factory=list[str])
    """The deliverables: files that it leaves in the workspace."""
    delegation_strategy: Literal["worker", "submanager"] = "worker"


class Assignment(_LenientAnswer):
    """What a manager gives to one worker."""

    worker_id: _Name
    subtask_id: _Text = ""
    instructions: _Text
    tools_allowed: _Texts = Field(default_factory=list[str])
    """Empty allows all."""
    as_submanager: bool = False


class ManagerDecision(_LenientAnswer):
    """What a manager wants next."""

    decision: _DecisionKind
    subtasks: list[Subtask] = Field(default_factory=list[Subtask])
    delegations: list[Assignment] = Field(default_factory=list[Assignment])
    hypotheses: _Texts = Field(default_factory=list[str])
    final_result: _Text = ""
    confidence: _Share | None = None
    reason: _Text = ""

    @model_validator(mode="before")
    @classmethod
    def _lenient(cls, value: Any) -> Any:
        """Accept aliases, wordy decisions, and decisions that only the keys imply."""
        if not isinstance(value, dict):
            return value
        fields = dict(cast("dict[str, Any]", value))
        for alias in ("workers", "tasks"):
            if alias in fields and "delegations" not in fields:
                fields["delegations"] = fields.pop(alias)
        answer = str(fields.get("decision", "")).lower()
        named = [kind for kind in DECISION_KEYS if kind in answer]
        implied = [kind for kind, key in DECISION_KEYS.items() if key in fields and not answer]
        if len(named) == 1 or implied:
            answer = named[0] if len(named) == 1 else implied[0]
        fields["decision"] = answer
        return {name: each for name, each in fields.items() if each is not None}


class WorkerResult(_LenientAnswer):
    """What a worker gives back."""

    summary: _Text
    result: _Text = ""
    outputs: _Texts = Field(default_factory=list[str])
    """Files that it created or changed, as it reports."""
    confidence: _Share | None = None
    status: Literal["done", "failed", "missing"] = "done"
    """`failed`: the worker's own fault. `missing`: the model could not be reached."""


class Defect(_LenientAnswer):
    """One thing that is wrong with a result."""

    category: _Text = "incomplete"
    location: _Text = ""
    description: Annotated[_Text, Field(min_length=1)]
    severity: Annotated[_Severity, BeforeValidator(_as_severity)] = "warning"


class Critique(_LenientAnswer):
    """What a critic says of one worker's result."""

    score: _Share
    defects: list[Defect] = Field(default_factory=list[Defect])
    prescriptions: _Texts = Field(default_factory=list[str])
    reusable_patterns: _Texts = Field(default_factory=list[str])
    effort_estimate: Literal["trivial", "moderate", "major"] = "moderate"
    summary: _Text = ""

    def count(self, severity: _Severity) -> int:
        """The number of defects of this severity."""
        return sum(defect.severity == severity for defect in self.defects)


class Judgement(_LenientAnswer):
    """What a judge says of the whole deliverable by one rubric."""

    score: _Share
    reason: _Text = ""


_NONE = "(none)"
_MOST_LISTED = 200


def listing(workspace: TeamWorkspace) -> str:
    """Every file with its size; empty if there is none."""
    entries = workspace.store.entries(workspace.state)
    lines = [f"{shown(path)} ({entries[path].size} bytes)" for path in workspace.files]
    more = [f"… and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    return "\n".join([*lines[:_MOST_LISTED], *more])


def contents(store: StateStore, state: str, paths: Iterable[str]) -> str:
    """The contents of files one after the other; long ones without their middle."""
    parts: list[str] = []
    left = 60_000
    for path in paths:
        content = store.read(state, path)
        if b"\0" in content[:4096]:
            text = f"(not text: {len(content)} bytes)"
        else:
            text = without_middle(content.decode("utf-8", "replace"), 12_000)
        if len(text) > left:
            text = f"(left out: {len(content)} bytes)"
        left -= len(text)
        parts.append(f"--- {shown(path)}\n{text}")
    return "\n".join(parts) or _NONE


def bullets(lines: Sequence[str], *, empty: str = _NONE) -> str:
    """Lines as a Markdown list; `empty` if there are none."""
    return "\n".join(f"- {line}" for line in lines) or empty


def defect_lines(defects: Iterable[Defect]) -> list[str]:
    """One line per defect."""
    return [
        f"[{defect.severity}] {defect.category}"
        f"{f' at {defect.location}' if defect.location else ''}: {defect.description}"
        for defect in defects
    ]


def plan_lines(subtasks: Sequence[Subtask], done: Iterable[str]) -> str:
    """The plan, marking the subtasks that were delegated."""
    finished = set(done)
    lines: list[str] = []
    for task in subtasks:
        state = "delegated" if task.id in finished else "open"
        outputs = f" → {', '.join(task.required_outputs)}" if task.required_outputs else ""
        lines.append(f"{task.id} [{state}]: {task.description}{outputs}")
    return bullets(lines, empty="")
