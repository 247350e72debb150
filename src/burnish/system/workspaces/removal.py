"""Removing folders that a command filled, whatever it put there."""

import contextlib
import itertools
import os
import stat
from pathlib import Path

_PASSES = 3


def remove_tree(folder: Path) -> bool:
    """Remove a folder with all that is in it; whether it is gone.

    Made for what hostile commands leave: folders without permissions, and nested deeper than any
    path may be long. Links are removed, never followed.
    """
    for _ in range(_PASSES):
        with contextlib.suppress(OSError):
            _flatten(folder)
        if not os.path.lexists(folder):
            return True
    return False


def _flatten(folder: Path) -> None:
    """Empty each subfolder by moving its own subfolders up, so that no path ever gets long."""
    if not stat.S_ISDIR(folder.lstat().st_mode):
        folder.unlink()
        return
    names = itertools.count()
    folder.chmod(0o700)
    while entries := list(os.scandir(folder)):
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _empty(Path(entry.path), folder, names)
                os.rmdir(entry.path)  # noqa: PTH106
            else:
                os.unlink(entry.path)  # noqa: PTH108
    folder.rmdir()


def _empty(folder: Path, above: Path, names: "itertools.count[int]") -> None:
    folder.chmod(0o700)
    for entry in os.scandir(folder):
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.path)  # noqa: PTH108
            continue
        os.chmod(entry.path, 0o700)  # noqa: PTH101
        os.rename(entry.path, _free(above, names))  # noqa: PTH104


def _free(above: Path, names: "itertools.count[int]") -> Path:
    return next(place for n in names if not os.path.lexists(place := above / f".removed-{n}"))
