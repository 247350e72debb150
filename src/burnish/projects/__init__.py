"""A config file becomes a Run: registries of names, resume, adopt."""

from burnish.projects.launching import launch, optimize
from burnish.projects.loading import LoadedProject, load_project, reload_project
from burnish.projects.settings import BudgetSettings, ProjectFile

__all__ = [
    "BudgetSettings",
    "LoadedProject",
    "ProjectFile",
    "launch",
    "load_project",
    "optimize",
    "reload_project",
]
