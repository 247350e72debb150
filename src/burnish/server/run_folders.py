"""Reading run folders for the service; nothing outside of one can be named."""

import json
from collections.abc import Iterator
from pathlib import Path

from burnish.core.candidates import Candidate
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.effects.places import POINTER
from burnish.effects.position import NAME as COUNT
from burnish.effects.sqlite_store import NAME as JOURNAL
from burnish.runs.directory import LOCK, PROCESSES
from burnish.runs.ledger import trial_lines
from burnish.runs.record import RunRecord
from burnish.runs.standing import BASELINE
from burnish.server.errors import FileMissing
from burnish.server.places import Place

_HIDDEN = (JOURNAL, COUNT, POINTER, LOCK, PROCESSES, "blobs")
"""What is burnish's own, and may change at any time."""


def require(place: Place) -> None:
    """Refuse a run that has no folder yet."""
    if not place.fetch():
        raise FileMissing("this run has not begun", remedy="ask again when it is running")


def trials(folder: Path) -> list[Json]:
    """The trials as trials.jsonl has them."""
    run = RunRecord.read(folder)
    return [json.loads(line) for line in trial_lines(run.rows, run.events)]


def candidates(folder: Path) -> list[Json]:
    """Where the run began, and each candidate that was accepted."""
    run = RunRecord.read(folder)
    found: list[Json] = []
    for row in run.rows:
        if row.trial.accepted or row.trial.phase == BASELINE:
            candidate = row.trial.candidate
            encoded = codec(Candidate).encode(candidate)
            assert isinstance(encoded, dict)
            found.append(
                {
                    "trial": row.number,
                    "id": candidate.id,
                    "values": encoded["values"],
                    "accepted": row.trial.accepted,
                    "files": [*run.files.get(row.number, ())],
                }
            )
    return found


def files(folder: Path) -> list[Json]:
    """Every file that may be looked at."""
    return [
        {"path": str(path.relative_to(folder)), "bytes": path.stat().st_size}
        for path in sorted(_walk(folder))
    ]


def file(folder: Path, name: str) -> Path:
    """One of them; a path that leads out of the folder, by dots or by a link, is none."""
    home = folder.resolve()
    try:
        path = (home / name).resolve(strict=True)
        inside = path.is_relative_to(home) and path.is_file()
    except (OSError, ValueError, RuntimeError):
        inside, path = False, home
    if not inside or _is_hidden(path.relative_to(home)):
        raise FileMissing(f"this run has no file '{name}'", remedy="…/files lists those it has")
    return path


def _walk(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not _is_hidden(path.relative_to(folder)):
            yield path


def _is_hidden(path: Path) -> bool:
    return not path.parts or path.parts[0].startswith(_HIDDEN)
