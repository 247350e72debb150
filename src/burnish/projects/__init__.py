"""From files to runs: descriptions, dialects, targets, adoption."""

from burnish.projects.launch import LoadedProject, launch, launch_in, load_project, reload_project

__all__ = [
    "LoadedProject",
    "launch",
    "launch_in",
    "load_project",
    "reload_project",
]
