"""The eight stages of an iteration of the artifact loop, as its events tell them."""

from dataclasses import dataclass
from typing import ClassVar

from burnish.core.content import Json
from burnish.runs.events import EventData

LOAD_TASK = "load_task"
"""The stage that says what the loop is after."""


@dataclass(frozen=True, kw_only=True)
class StageReached(EventData):
    """One of the stages is under way; each has fields of its own."""

    kinds: ClassVar[tuple[str, ...]] = ("stage",)
    optional: ClassVar[frozenset[str]] = frozenset(
        {
            *("task", "primary", "direction", "constraints", "candidate", "parent", "files"),
            *("numbers", "decision", "reason", "trial"),
        }
    )

    stage: str = ""
    iteration: int = 0
    task: str | None = None
    primary: str | None = None
    """What the loop makes better."""
    direction: str | None = None
    constraints: Json = None
    """As texts when the task is loaded; with whether each holds when a candidate is checked."""
    candidate: str | None = None
    parent: str | None = None
    files: Json = None
    """Hashes of the files at the start."""
    numbers: Json = None
    decision: str | None = None
    reason: str | None = None
    trial: int | None = None
