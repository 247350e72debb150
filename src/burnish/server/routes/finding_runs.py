"""Finding the folder of a finished delegation by its id, among those that clients may name."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from burnish.core.errors import BurnishError
from burnish.runs.index import known_runs
from burnish.strategies.refine.run_files import COMPLETION, mapping, read_json, text
from burnish.strategies.refine.sessions import SESSIONS
from burnish.targets.delegation.target import DELEGATIONS

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_DEEPEST = 12
_PARTS = ("", "iter_*/run/", f"{DELEGATIONS}/*/")
"""Where delegations lie in a run: in its folder, as iterations of a refinement, in a suite."""


@dataclass(frozen=True, kw_only=True)
class DelegationPlaces:
    """Where the delegations lie that clients of a service may name."""

    data: Path
    """All of it is searched."""
    folders: tuple[Path, ...] = ()
    """Of these, only what the index of this machine's runs names."""

    def find(self, run_id: str) -> Path | None:
        """The finished delegation of this id, which is only compared, never a part of a path."""
        if not _ID.fullmatch(run_id):
            return None
        for folder in chain(finished_runs(self.data), self._indexed()):
            if folder.name == run_id or _id_of(folder) == run_id:
                return folder
        return None

    def _indexed(self) -> Iterator[Path]:
        # Resolved, so that no link leads out of the folders.
        roots = [folder.resolve() for folder in (self.data, *self.folders)]
        for folder in _known_delegations():
            if any(folder.resolve().is_relative_to(root) for root in roots):
                yield folder


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


def _known_delegations() -> Iterator[Path]:
    """Finished delegations of runs in the index: a run itself, or a part of one."""
    for run in known_runs():
        for pattern in _PARTS:
            yield from (path.parent for path in sorted(run.glob(f"{pattern}{COMPLETION}")))


def _id_of(folder: Path) -> str:
    try:
        return text(mapping(read_json(folder / COMPLETION)).get("run_id"))
    except BurnishError:
        return ""
