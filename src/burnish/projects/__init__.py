"""A config file becomes a Run: registries of names, resume, adopt."""

from burnish.projects.launch import LoadedProject, launch, load_project, optimize, reload_project

__all__ = [
    "LoadedProject",
    "launch",
    "load_project",
    "optimize",
    "reload_project",
]
