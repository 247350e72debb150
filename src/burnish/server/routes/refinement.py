"""Refinement over HTTP, on finished delegations that clients may name."""

import asyncio
import contextlib
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, ConfigDict, Field

from burnish.core.content import Json
from burnish.core.errors import BurnishError
from burnish.delegation.refine.gradients import COMPLETION, mapping, read_json, text
from burnish.delegation.refine.loop import MOST_ITERATIONS
from burnish.delegation.refine.sessions import SESSIONS, SessionFiles, best_so_far
from burnish.delegation.refine.settings import MIXED, Pair, RefineSettings
from burnish.delegation.refine.setup import OpenRefinement, RefineOptions, Seat, open_refinement
from burnish.delegation.target import DELEGATIONS
from burnish.runs.directory import known_runs

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


# -- Refinement over HTTP -------------------------------------------------------------------------


_READY = ("complete", "partial", "completed")
_log = logging.getLogger(__name__)


class RefineBody(BaseModel):
    """What a client may ask for."""

    model_config = ConfigDict(extra="ignore")

    iterations: Annotated[int, Field(strict=True, ge=1, le=MOST_ITERATIONS)] = 3
    model: str | None = None
    worker_model: str | None = None
    tier_low: Pair | None = None
    tier_mid: Pair | None = None
    tier_high: Pair | None = None

    def settings(self) -> RefineSettings:
        """As the command line would say it; with any tier, other models are left aside."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        settings = RefineSettings.model_validate(fields)
        if not settings.warnings:
            return settings
        _log.warning(MIXED)
        return settings.model_copy(update={"model": None, "worker_model": None})


class RefineStarted(BaseModel):
    """A session that is under way."""

    session_id: str
    status: str = "running"


def refinement_router(
    data: Path,
    folders: Sequence[Path] = (),
    *,
    wishes: RefineOptions | None = None,
    start: Callable[[OpenRefinement], None] | None = None,
) -> APIRouter:
    """The routes over the delegations below `data`, and the runs of this machine in `folders`.

    A client reaches nothing else: other folders of the user are none of its business.
    `start` runs an opened refinement, in a thread unless said.
    """
    router = APIRouter(prefix="/api/experiments", tags=["refinement"])
    begin = start or run_in_thread
    places = DelegationPlaces(data=data, folders=tuple(folders))

    @router.post("/{run_id}/refine", status_code=202)
    def refine(run_id: str, body: RefineBody | None = None) -> RefineStarted:
        """Start a session; its id is that of its file."""
        seat = _seat(places, run_id)
        try:
            settings = (body or RefineBody()).settings()
            opened = open_refinement(seat, settings, options=wishes)
        except BurnishError as error:
            raise HTTPException(409, str(error)) from error
        begin(opened)
        return RefineStarted(session_id=opened.session.session_id)

    @router.get("/{run_id}/refinement_sessions")
    def refinement_sessions(run_id: str) -> dict[str, Any]:
        """Every session of a run, and what is in its BEST."""
        folder = _folder(places, run_id)
        best = best_so_far(folder)
        sessions: list[Json] = list(SessionFiles(folder=folder / SESSIONS).rows())
        return {"sessions": sessions, "best": None if best is None else dict(best)}

    return router


def run_in_thread(opened: OpenRefinement) -> None:
    """Run it beside the service; what goes wrong stands in its session."""

    def run() -> None:
        with contextlib.suppress(BurnishError):
            asyncio.run(opened.run())

    threading.Thread(target=run, name=opened.session.session_id, daemon=True).start()


def _folder(places: DelegationPlaces, run_id: str) -> Path:
    folder = places.find(run_id)
    if folder is None:
        raise HTTPException(404, f"there is no finished run '{run_id}'")
    return folder


def _seat(places: DelegationPlaces, run_id: str) -> Seat:
    folder = _folder(places, run_id)
    try:
        status = text(mapping(read_json(folder / COMPLETION)).get("status"))
        seat = Seat.beside(folder)
    except BurnishError as error:
        raise HTTPException(409, str(error)) from error
    if status not in _READY:
        raise HTTPException(409, f"run '{run_id}' is {status or 'not finished'}: nothing to refine")
    return seat
