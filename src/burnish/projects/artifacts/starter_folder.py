"""The files of a task that runs right away, as a starting point."""

from importlib.resources import files
from pathlib import Path

from burnish.projects.schemas import schema_file, schema_text
from burnish.system import read_bytes

TASK_FILE = "task.yaml"
_SCHEMA = schema_file("task")
_NAMES = (
    TASK_FILE,
    _SCHEMA,
    "SKILL.md",
    "rubric.md",
    "README.md",
    "scripts/run_task.py",
    "scripts/score_task.py",
    "scripts/edit_task.py",
)


def starter_files() -> dict[str, bytes]:
    """The files by name."""
    shipped = Path(str(files("burnish.projects.artifacts") / "starter"))
    content = {name: read_bytes(shipped / name) for name in _NAMES if name != _SCHEMA}
    return {**content, _SCHEMA: schema_text("task").encode()}
