"""The routes by which people steer a run: try, tell, pin, unpin."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path

from burnish.runs.steering import Note, person_name
from burnish.server.manager import RunManager
from burnish.server.routes.runs import client_of
from burnish.server.security import Name
from burnish.server.shapes import NewCandidate, NewHint, NoteShape, PinnedSurfaces
from burnish.server.tokens import Client

_Client = Annotated[Client, Depends(client_of)]
_Name = Annotated[Name, Path()]


def steering_router(manager: RunManager) -> APIRouter:
    """The routes, each of which sends a note to a run in the name of the token."""
    router = APIRouter(prefix="/apps/{app}/runs/{run_id}", tags=["runs"])

    async def sent(client: Client, app: str, run_id: str, note: Note) -> NoteShape:
        waiting = await manager.steer(app, run_id, note, client=client)
        by = person_name(client.account)
        return NoteShape(id=note.id, action=note.action, by=by, at=note.at, waiting=waiting)

    @router.post("/try", status_code=202)
    async def try_candidate(
        app: _Name, run_id: _Name, new: NewCandidate, client: _Client
    ) -> NoteShape:
        """Let a run try your own candidate: the next trial, with the same check and gate."""
        return await sent(client, app, run_id, Note(action="try", values=new.values))

    @router.post("/tell", status_code=202)
    async def tell_proposers(app: _Name, run_id: _Name, new: NewHint, client: _Client) -> NoteShape:
        """Give the proposers of a run a hint. Text of held-out cases is refused."""
        return await sent(client, app, run_id, Note(action="tell", text=new.text))

    @router.post("/pin", status_code=202)
    async def pin_surfaces(
        app: _Name, run_id: _Name, new: PinnedSurfaces, client: _Client
    ) -> NoteShape:
        """Freeze surfaces: no candidate may change them any more."""
        note = Note(action="pin", surfaces=tuple(new.surfaces))
        return await sent(client, app, run_id, note)

    @router.post("/unpin", status_code=202)
    async def unpin_surfaces(
        app: _Name, run_id: _Name, new: PinnedSurfaces, client: _Client
    ) -> NoteShape:
        """Free surfaces that were pinned."""
        note = Note(action="unpin", surfaces=tuple(new.surfaces))
        return await sent(client, app, run_id, note)

    return router
