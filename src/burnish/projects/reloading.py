"""Setting a run up again, whatever made it: from a project file, or from the run's own folder."""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TypeAlias

from burnish.core.errors import ConfigError, Problem
from burnish.projects.loading import LoadedProject, reload_project
from burnish.projects.overrides import Overrides, flag_of
from burnish.runs.header import Header

Reload: TypeAlias = Callable[[Path], LoadedProject]
_FROM_FOLDER: Mapping[str, str] = {
    "delegation": "burnish.projects.delegation.runs:reload_delegation",
    "refinement": "burnish.projects.refining.opening:reload_refinement",
}
"""Kinds whose runs keep in their folder what they were started with; loaded when one is met."""


def reload_run(folder: Path, flags: Overrides) -> LoadedProject:
    """Everything it takes to go on with a run, with newer flags on top."""
    kind = Header.read(folder).project.kind
    place = _FROM_FOLDER.get(kind)
    if place is None:
        return reload_project(folder, flags)
    if settings := flags.to_json():
        message = f"a {kind} keeps what it was started with"
        raise ConfigError([Problem(where=flag_of(name), message=message) for name in settings])
    reload: Reload = EntryPoint(name="reload", group="burnish", value=place).load()
    return reload(folder)
