"""Health, readiness and metrics."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import PlainTextResponse, Response

from burnish.server.manager import RunManager
from burnish.server.metrics import CONTENT_TYPE, exposition
from burnish.server.routes.parameters import manager_of
from burnish.server.shapes import Health, LeftRun, Readiness
from burnish.version import VERSION

router = APIRouter(tags=["service"])
Manager = Annotated[RunManager, Depends(manager_of)]


@router.get("/health")
async def health() -> Health:
    """Whether the service is alive. Open to all."""
    return Health(status="ok", version=VERSION)


@router.get("/ready")
async def ready(manager: Manager) -> Readiness:
    """Whether the store answers; and which runs cannot go on here, and why."""
    await manager.list_runs(limit=1)
    left = [LeftRun(app=app, id=run, why=why) for (app, run), why in sorted(manager.left.items())]
    return Readiness(
        status="ready",
        apps=sorted(manager.apps),
        running=manager.launcher.running,
        waiting=manager.launcher.waiting,
        left=left,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, manager: Manager) -> PlainTextResponse:
    """Counters for Prometheus."""
    return PlainTextResponse(
        exposition(manager, request.app.state.requests), media_type=CONTENT_TYPE
    )
