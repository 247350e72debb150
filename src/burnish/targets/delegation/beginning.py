"""How a workspace begins: a copy of a folder, and the given files under input/."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.system.files import file_trouble
from burnish.system.workspaces import copy_workspace, remove_tree
from burnish.targets.delegation.workspace import INPUT


@dataclass(frozen=True, kw_only=True)
class Given:
    """What a run is given to start from. Everything is copied; no link leads back."""

    source: Path | None = None
    """The workspace starts as a copy of this folder."""
    inputs: tuple[Path, ...] = ()
    """Files and folders that lie under input/ by their names."""
    seed_deliverable: Path | None = None
    """A folder whose files lie under input/, or one file."""

    def check(self) -> None:
        """Raise with everything that cannot be given."""
        problems = [
            Problem(where=str(path), message="there is no such file or folder")
            for path in (*self.inputs, self.seed_deliverable, self.source)
            if path is not None and not path.exists()
        ]
        names = [path.name for path in self.inputs]
        problems += [
            Problem(where=str(path), message="two inputs have this name", remedy="rename one")
            for path in self.inputs
            if names.count(path.name) > 1
        ]
        if problems:
            raise ConfigError(list(dict.fromkeys(problems)))

    def fill(self, folder: Path) -> None:
        """Make the folder, with all that was given in it."""
        remove_tree(folder)
        try:
            if self.source is None:
                folder.mkdir(parents=True)
            else:
                copy_workspace(self.source, folder)
            self._fill_input(folder / INPUT)
        except OSError as error:
            raise file_trouble("fill", folder, error) from error

    def _fill_input(self, place: Path) -> None:
        seed = self.seed_deliverable
        if seed is not None and seed.is_dir():
            remove_tree(place)
            copy_workspace(seed, place, exclude=())
        for path in (*self.inputs, *_file(seed)):
            place.mkdir(exist_ok=True)
            if path.is_dir():
                copy_workspace(path, place / path.name)
            else:
                shutil.copyfile(path, place / path.name)


def _file(seed: Path | None) -> Sequence[Path]:
    return () if seed is None or seed.is_dir() else (seed,)
