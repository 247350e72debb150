"""What to call a run in a command that a user can copy."""

import shlex
from pathlib import Path

from burnish.core.errors import RunNotFound
from burnish.runs.header import Header
from burnish.runs.index import find_run
from burnish.runs.plugins import strategy_plugin


def run_name(folder: Path) -> str:
    """Its id where that leads back to it, its path otherwise; ready for a shell."""
    try:
        known = find_run(folder.name) == folder.resolve()
    except RunNotFound:
        known = False
    return shlex.quote(folder.name if known else str(folder))


def resume_command(folder: Path) -> str:
    """The command that goes on with a run."""
    header = Header.read(folder)
    command = strategy_plugin(header.strategy).resume_command
    if command and header.project.file:
        return f"burnish {command} {file_name(header.project.file)} --resume {run_name(folder)}"
    return f"burnish runs resume {run_name(folder)}"


def file_name(path: str) -> str:
    """A file as seen from here, ready for a shell."""
    here, file = Path.cwd(), Path(path)
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))
