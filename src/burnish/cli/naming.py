"""What to call a run in a command that a user can copy."""

import shlex
from pathlib import Path

from burnish.core.errors import RunNotFound
from burnish.runs.index import find_run


def run_name(folder: Path) -> str:
    """Its id where that leads back to it, its path otherwise; ready for a shell."""
    try:
        known = find_run(folder.name) == folder.resolve()
    except RunNotFound:
        known = False
    return shlex.quote(folder.name if known else str(folder))
