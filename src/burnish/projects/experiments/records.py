"""What experiment.json and task.json say."""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.content import Json

EXPERIMENT, TASK = "experiment.json", "task.json"
EXPERIMENT_ID = re.compile(r"exp_[a-z0-9]{6,16}")
TASK_ID = re.compile(r"\d{3,}-[a-z0-9-]{1,50}")
Mode: TypeAlias = Literal["seed", "continuation"]


class _Kept(BaseModel):
    """Keys of other versions are left aside."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    def to_json(self) -> dict[str, Json]:
        """As its file keeps it."""
        return self.model_dump(mode="json")


class ExperimentRecord(_Kept):
    """An experiment."""

    experiment_id: Annotated[str, Field(pattern=EXPERIMENT_ID.pattern)]
    name: str
    goal: str = ""
    created_at: str = ""
    task_order: list[str] = Field(default_factory=list[str])


class TaskInput(_Kept):
    """What a task starts from."""

    role: str = "primary"
    task_id: str = ""
    run_id: str = ""


class TaskRecord(_Kept):
    """A task of an experiment."""

    task_id: str
    experiment_id: str
    task_number: int
    mode: Mode
    user_prompt: str
    user_feedback: str | None = None
    """What is to be different from the primary input; only a continuation has it."""
    inputs: list[TaskInput] = Field(default_factory=list[TaskInput])
    created_at: str = ""


def slug(text: str) -> str:
    """A text as a part of a folder's name."""
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:50].strip("-") or "task"
