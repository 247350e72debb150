"""Finding the folder of a finished delegation by its id, wherever below a folder it lies."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from burnish.core.errors import BurnishError
from burnish.strategies.refine.run_files import COMPLETION, mapping, read_json, text
from burnish.strategies.refine.session_files import SESSIONS

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEEPEST = 12


def find_run_folder(data: Path, run_id: str) -> Path | None:
    """The finished run of this id; the id is only compared, never a part of a path."""
    if not _ID.fullmatch(run_id):
        return None
    for folder in finished_runs(data):
        if folder.name == run_id or _id_of(folder) == run_id:
            return folder
    return None


def finished_runs(data: Path) -> Iterator[Path]:
    """Every folder with a run_completion.json; of a run only its refinements are looked into."""
    depth = len(data.parts)
    for inside, folders, files in os.walk(data):
        place = Path(inside)
        folders.sort()
        if COMPLETION in files:
            folders[:] = [name for name in folders if name == SESSIONS]
            yield place
        if len(place.parts) - depth >= _DEEPEST:
            folders.clear()


def _id_of(folder: Path) -> str:
    try:
        return text(mapping(read_json(folder / COMPLETION)).get("run_id"))
    except BurnishError:
        return ""
