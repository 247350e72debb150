"""Folders that are whole or absent."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from burnish.system.file_trouble import file_trouble
from burnish.system.temporaries import spare_beside

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


def make_folder(path: Path, fill: Callable[[Path], None]) -> bool:
    """Make a folder that appears with all that `fill` puts in it; False where one is already."""
    spare = spare_beside(path)
    try:
        spare.mkdir()
        fill(spare)
        # rename, not replace: where a folder with content is, it must fail.
        os.rename(spare, path)  # noqa: PTH104
    except OSError as error:
        shutil.rmtree(spare, ignore_errors=True)
        if error.errno in _TAKEN:
            return False
        raise file_trouble("make", path, error) from error
    except BaseException:
        shutil.rmtree(spare, ignore_errors=True)
        raise
    return True
