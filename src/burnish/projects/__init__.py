"""A config file becomes a Run: registries of names, resume, adopt."""

from burnish.projects.launching import launch, optimize
from burnish.projects.loading import LoadedProject, load_project, reload_project

__all__ = [
    "LoadedProject",
    "launch",
    "load_project",
    "optimize",
    "reload_project",
]
