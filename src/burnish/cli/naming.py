"""What to call a run in a command that a user can copy."""

import shlex
from pathlib import Path

from burnish.core.errors import RunNotFound
from burnish.runs.header import Header, Project
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


def eval_command(project: Project) -> str:
    """The `burnish eval` that made a run, for doing the same again."""
    wanted = project.config.get("wanted")
    told = wanted if isinstance(wanted, dict) else {}
    words = ["burnish eval", file_name(project.file)]
    for key, flag in (("cases", "--cases"), ("metric_file", "--metrics")):
        if isinstance(path := told.get(key), str):
            words += [flag, file_name(path)]
    names = told.get("metrics")
    for name in names if isinstance(names, list) else []:
        words += ["--metric", shlex.quote(str(name))]
    often = "--aa" if project.config.get("noise") is True else "--repeats"
    for key, flag in (("judge", "--judge"), ("repeats", often)):
        if told.get(key):
            words += [flag, shlex.quote(str(told[key]))]
    return " ".join(words)


def file_name(path: str) -> str:
    """A file as seen from here, ready for a shell."""
    here, file = Path.cwd(), Path(path)
    return shlex.quote(str(file.relative_to(here) if file.is_relative_to(here) else file))
