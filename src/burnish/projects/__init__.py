"""From files to runs: descriptions, dialects, targets, adoption."""

from burnish.projects.launch import LoadedProject, launch, load_project, optimize, reload_project

__all__ = [
    "LoadedProject",
    "launch",
    "load_project",
    "optimize",
    "reload_project",
]
