"""Making folders to start from, and saying what to do next."""

import json
import shlex
from pathlib import Path

import typer

from burnish.projects.artifacts.starter_folder import TASK_FILE, make_starter


def init_task(folder: Path) -> None:
    """Make a task's folder."""
    for path in make_starter(folder):
        typer.echo(f"made     {path}")
    file = shlex.quote(str(folder / TASK_FILE))
    typer.echo(f"look     burnish optimize {file} --dry-run")
    typer.echo(f"run      burnish optimize {file}")


def print_schema(kind: str) -> None:
    """The JSON Schema of a kind of file."""
    from burnish.projects.dialects import dialect_named
    from burnish.projects.schemas import file_schema

    typer.echo(json.dumps(file_schema(dialect_named(kind)), indent=2, ensure_ascii=False))
