"""The events of a run: a page of them, or a stream that can be taken up again."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.responses import Response, StreamingResponse

from burnish.server.errors import TooManyRuns
from burnish.server.manager import RunManager
from burnish.server.routes.parameters import AppName, Limit, Offset, RunId, manager_of
from burnish.server.shapes import EventPage, EventShape

router = APIRouter(tags=["runs"])
Manager = Annotated[RunManager, Depends(manager_of)]
LastEventId = Annotated[int, Header(alias="Last-Event-ID", ge=0, le=10**9)]
_TEXT = {"type": "string"}
_FRAME = {
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT},
    "required": ["event", "data"],
}


@router.get("/apps/{app}/runs/{run_id}/events")
async def list_events(
    app: AppName, run_id: RunId, manager: Manager, after: Offset = 0, limit: Limit = 50
) -> EventPage:
    """What happened, oldest first."""
    await manager.get(app, run_id, result=False)
    found = await manager.events(app, run_id, after=after, limit=limit)
    return EventPage(events=[EventShape.model_validate(vars(each)) for each in found])


@router.get(
    "/apps/{app}/runs/{run_id}/stream",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": _FRAME}}},
        204: {"description": "The run has ended, and everything was told."},
    },
)
async def stream_events(
    app: AppName,
    run_id: RunId,
    manager: Manager,
    last_event_id: LastEventId = 0,
    after: Offset = 0,
) -> Response:
    """Server-sent events from the beginning, or after a number; ends with the run."""
    record = await manager.get(app, run_id, result=False)
    begin = max(last_event_id, after)
    if record.status.finished and begin and begin >= record.events:
        return Response(status_code=204)  # tells an EventSource to stop asking
    if manager.tails.listeners >= manager.limits.listeners:
        raise TooManyRuns("too many listen already", remedy="ask for pages of events instead")
    frames = manager.tails.listen(app, run_id, after=begin, newest=record.events)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_until_gone(frames), media_type="text/event-stream", headers=headers)


async def _until_gone(frames: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """The frames; a listener that goes away is no listener any more."""
    async with aclosing(frames):
        async for frame in frames:
            yield frame
