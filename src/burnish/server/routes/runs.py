"""Runs of every strategy: create, list, get, cancel, resume, delete."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from burnish.compat.promptiter import read_request
from burnish.server.apps.asking import Asked
from burnish.server.manager import RunManager
from burnish.server.routes.parameters import AppName, Limit, RunId, manager_of
from burnish.server.shapes import NewRun, RunList, RunShape
from burnish.server.stores.records import RunFilter, RunRecord, RunStatus

router = APIRouter(tags=["runs"])
Manager = Annotated[RunManager, Depends(manager_of)]
Filter = Annotated[str, Query(max_length=255)]


@router.post("/apps/{app}/runs", status_code=201)
async def create_run(
    app: AppName, new: NewRun, manager: Manager, request: Request, response: Response
) -> RunShape:
    """Start a run. Everything that is wrong with it is said before anything is paid."""
    manager.app(app)
    if new.promptiter is not None:
        read_request(new.promptiter, strict=True)
    asked = Asked(
        kind=new.kind,
        settings=new.settings,
        evaluation=new.evaluation,
        promptiter=new.promptiter,
    )
    record = await manager.start(app, asked.to_json(), run_id=new.id or "")
    response.headers["Location"] = f"{request.url.path}/{record.run_id}"
    return shown(manager, record)


@router.get("/runs")
async def list_runs(
    manager: Manager,
    app: Filter = "",
    status: RunStatus | None = None,
    strategy: Filter = "",
    limit: Limit = 50,
    cursor: Annotated[str, Query(max_length=100)] = "",
) -> RunList:
    """Runs, newest first, without requests and results."""
    which = RunFilter(app_name=app, status=status, strategy=strategy)
    page = await manager.list_runs(which, limit=limit, cursor=cursor)
    return RunList(runs=[shown(manager, each) for each in page.runs], cursor=page.cursor)


@router.get("/apps/{app}/runs/{run_id}")
async def get_run(
    app: AppName, run_id: RunId, manager: Manager, *, result: bool = True
) -> RunShape:
    """One run; a large result can be left out."""
    return shown(manager, await manager.get(app, run_id, result=result))


@router.post("/apps/{app}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(app: AppName, run_id: RunId, manager: Manager) -> RunShape:
    """Stop a run for good, whichever process drives it; `resume` takes that back."""
    await manager.cancel(app, run_id)
    return shown(manager, await manager.get(app, run_id, result=False))


@router.post("/apps/{app}/runs/{run_id}/resume", status_code=202)
async def resume_run(app: AppName, run_id: RunId, manager: Manager) -> RunShape:
    """Go on with a run that failed, was canceled, or was left. Nothing is paid twice."""
    return shown(manager, await manager.resume(app, run_id))


@router.delete("/apps/{app}/runs/{run_id}", status_code=204)
async def delete_run(app: AppName, run_id: RunId, manager: Manager) -> Response:
    """Remove a run that nobody drives, with its folder and its journal."""
    await manager.delete(app, run_id)
    return Response(status_code=204)


def shown(manager: RunManager, record: RunRecord) -> RunShape:
    """A run, with what this service knows of it."""
    return RunShape.of(record, manager.left.get((record.app_name, record.run_id), ""))
