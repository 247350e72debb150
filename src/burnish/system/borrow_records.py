"""Records of what processes have borrowed or made for a while, for those who come after them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from burnish.system.state_folder import state_folder

SCHEMA = 1
"""Of the records: those of another burnish are left to it."""


def borrowed_folder(home: Path | None = None) -> Path:
    """Where records of borrowed files lie; `home` is the state folder unless it is given."""
    return (home or state_folder()) / "borrowed"


def records_in(folder: Path, pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The records in a folder, each with what it says; those that say nothing are passed over."""
    try:
        names = os.listdir(folder)  # noqa: PTH208 - one call that fails at once
    except OSError:
        return
    for path in sorted(folder / name for name in names):
        if path.match(pattern):
            try:
                told: Any = json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue  # somebody else was faster, or it is none of ours
            known = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
            if known.get("schema") == SCHEMA:
                yield path, known
