"""`burnish init task`: a folder with a task that runs at once, to be made one's own."""

from importlib.resources import files
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.system import make_folder, read_bytes
from burnish.system.files import file_trouble

TASK_FILE = "task.yaml"
_NAMES = (
    TASK_FILE,
    "SKILL.md",
    "rubric.md",
    "README.md",
    "scripts/run_task.py",
    "scripts/score_task.py",
    "scripts/edit_task.py",
)


def make_starter(folder: Path) -> list[Path]:
    """Make the folder, or fill one that is empty; what is there is never overwritten."""
    if folder.is_dir():
        _fill_empty(folder)
    else:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_trouble("make", folder.parent, error) from error
        if not make_folder(folder, _fill):
            raise _taken(folder, "it is there already")
    return [folder / name for name in _NAMES]


def _fill_empty(folder: Path) -> None:
    """A folder may have other files; none of ours may be among them."""
    there = [name for name in _NAMES if (folder / name).exists() or (folder / name).is_symlink()]
    if there:
        raise _taken(folder, f"there is already: {', '.join(there)}")
    try:
        _fill(folder)
    except OSError as error:
        raise file_trouble("write to", folder, error) from error


def _fill(folder: Path) -> None:
    for name in _NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(read_bytes(_shipped() / name))


def _shipped() -> Path:
    return Path(str(files("burnish.projects.artifacts") / "starter"))


def _taken(folder: Path, message: str) -> ConfigError:
    remedy = "name another folder; nothing was changed"
    return ConfigError([Problem(where=str(folder), message=message, remedy=remedy)])
