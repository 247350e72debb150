"""`--update-source` and `--in-place`: the best put where it came from, once a run ended well."""

from pathlib import Path

import typer

from burnish.cli.adopt_words import tell_changed
from burnish.cli.naming import run_name
from burnish.core.errors import BurnishError
from burnish.projects.adopting import adopt, adopting, mend
from burnish.projects.adopting_planning import plan_adoption
from burnish.runs.header import Project
from burnish.runs.record import RunRecord
from burnish.strategies.reflective.result_files import RESULT, write_result_files


def asks_for_update(project: Project) -> bool:
    """Whether the command said so, now or when the run was started."""
    flags = ("update_source", "in_place")
    places = (project.spec.get("output"), project.config.get("overrides"))
    return any(
        isinstance(place, dict) and place.get(flag) is True for place in places for flag in flags
    )


def update_source(folder: Path) -> None:
    """Adopt the run's best without asking: all files or none, and only if nobody touched one."""
    run = RunRecord.read(folder)
    try:
        with adopting(run):
            mend(run)
            plan = plan_adoption(run)
            if plan.nothing:
                typer.echo(f"source   nothing to update: {plan.nothing}")
            else:
                adopt(plan)
    except BurnishError as error:
        _tell_result(folder, trouble=str(error))
        raise
    _tell_result(folder, updated=bool(plan.files))
    if plan.files:
        tell_changed(plan)
        typer.echo(f"undo     burnish adopt {run_name(folder)} --undo")


def _tell_result(folder: Path, *, updated: bool = False, trouble: str = "") -> None:
    if (folder / RESULT).exists():
        write_result_files(folder, update_source=True, source_updated=updated, trouble=trouble)
