"""Paths of a task file: they stay in the task's folder, however they are written."""

import os
from pathlib import Path, PurePosixPath

from burnish.system.workspaces.paths import pattern_problem

_GIT = ".git"


def inside(path: str) -> str:
    """The path, if it could lie inside a folder; links are looked at once the folder is known."""
    if problem := pattern_problem(path):
        raise ValueError(f"it must stay in the folder of the task file: {problem}")
    if _GIT in (part.casefold() for part in path.split("/")):
        raise ValueError(".git is never edited: name files of your own")
    return path


def leads_out(folder: Path, path: str) -> bool:
    """Whether a link on the way leads out of the folder, as far as the path exists."""
    home = Path(os.path.realpath(folder))
    found = Path(os.path.realpath(folder / path))
    return found != home and home not in found.parents


def plain(path: str) -> str:
    """One spelling for one path: no `./`, no slash at the end."""
    return PurePosixPath(path).as_posix()
