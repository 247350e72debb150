"""Writing the files of a new project; what exists is never overwritten."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.system import make_folder
from burnish.system.files import file_trouble


def write_new(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Create the folder, or fill an existing one; nothing is written if one of the files exists."""

    def fill(home: Path) -> None:
        for name, content in files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(content)

    if folder.is_dir():
        there = [name for name in files if (folder / name).exists() or (folder / name).is_symlink()]
        if there:
            raise _taken(folder, f"these files already exist: {', '.join(there)}")
        try:
            fill(folder)
        except OSError as error:
            raise file_trouble("write to", folder, error) from error
    else:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise file_trouble("make", folder.parent, error) from error
        if not make_folder(folder, fill):
            raise _taken(folder, "the folder already exists")
    return [folder / name for name in files]


def _taken(folder: Path, message: str) -> ConfigError:
    remedy = "name another folder; nothing was changed"
    return ConfigError([Problem(where=str(folder), message=message, remedy=remedy)])
