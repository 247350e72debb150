"""Files, defects and plans as texts that a model reads: bounded, the same for the same state."""

from collections.abc import Iterable, Sequence

from burnish.evaluation.matching.excerpts import without_middle
from burnish.system.workspaces import shown
from burnish.targets.delegation.states import StateStore
from burnish.targets.delegation.words import Defect, Subtask
from burnish.targets.delegation.workspace import Workspace

NONE = "(none)"
_MOST_LISTED = 200
_MOST_OF_A_FILE = 12_000
_MOST_IN_ALL = 60_000


def listing(workspace: Workspace) -> str:
    """Every file with its size."""
    entries = workspace.store.entries(workspace.state)
    lines = [f"{shown(path)} ({entries[path].size} bytes)" for path in workspace.files]
    more = [f"… and {len(lines) - _MOST_LISTED} more"] if len(lines) > _MOST_LISTED else []
    return "\n".join([*lines[:_MOST_LISTED], *more]) or NONE


def contents(store: StateStore, state: str, paths: Iterable[str]) -> str:
    """What files hold, one after the other; of long ones the beginning and the end."""
    parts: list[str] = []
    left = _MOST_IN_ALL
    for path in paths:
        content = store.read(state, path)
        if b"\0" in content[:4096]:
            text = f"(not text: {len(content)} bytes)"
        else:
            text = without_middle(content.decode("utf-8", "replace"), _MOST_OF_A_FILE)
        if len(text) > left:
            text = f"(left out: {len(content)} bytes)"
        left -= len(text)
        parts.append(f"--- {shown(path)}\n{text}")
    return "\n".join(parts) or NONE


def bullets(lines: Sequence[str]) -> str:
    """One line each."""
    return "\n".join(f"- {line}" for line in lines) or NONE


def defect_lines(defects: Iterable[Defect]) -> list[str]:
    """One line a defect."""
    return [
        f"[{defect.severity}] {defect.category}"
        f"{f' at {defect.location}' if defect.location else ''}: {defect.description}"
        for defect in defects
    ]


def plan_lines(subtasks: Sequence[Subtask], done: Iterable[str]) -> str:
    """The plan, with what was delegated of it."""
    finished = set(done)
    lines: list[str] = []
    for task in subtasks:
        state = "delegated" if task.id in finished else "open"
        outputs = f" → {', '.join(task.required_outputs)}" if task.required_outputs else ""
        lines.append(f"{task.id} [{state}]: {task.description}{outputs}")
    return bullets(lines)
