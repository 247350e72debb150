"""Measurements of apps: runs of the strategy `measure`, and what they found."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response
from pydantic import JsonValue

from burnish.server.apps.asking import Asked
from burnish.server.errors import FileMissing
from burnish.server.manager import RunManager
from burnish.server.routes.parameters import AppName, Limit, RunId, manager_of
from burnish.server.routes.runs import shown
from burnish.server.shapes import NewEvaluation, RunList, RunShape
from burnish.server.stores.records import RunFilter
from burnish.strategies.measure import Measure

router = APIRouter(tags=["evaluations"])
Manager = Annotated[RunManager, Depends(manager_of)]


@router.post("/evaluations", status_code=201)
async def create_evaluation(
    new: NewEvaluation, manager: Manager, request: Request, response: Response
) -> RunShape:
    """Measure an app as it stands."""
    asked = Asked(kind="evaluate", evaluation=new.settings)
    record = await manager.start(new.app, asked.to_json(), run_id=new.id or "")
    base = request.url.path.removesuffix("/evaluations")
    response.headers["Location"] = f"{base}/evaluations/{new.app}/{record.run_id}"
    return shown(manager, record)


@router.get("/evaluations")
async def list_evaluations(
    manager: Manager,
    app: Annotated[str, Query(max_length=255)] = "",
    limit: Limit = 50,
    cursor: Annotated[str, Query(max_length=100)] = "",
) -> RunList:
    """Measurements, newest first."""
    which = RunFilter(app_name=app, strategy=Measure.name)
    page = await manager.list_runs(which, limit=limit, cursor=cursor)
    return RunList(runs=[shown(manager, each) for each in page.runs], cursor=page.cursor)


@router.get("/evaluations/{app}/{run_id}")
async def get_evaluation(app: AppName, run_id: RunId, manager: Manager) -> dict[str, JsonValue]:
    """The report of a measurement, as in its evaluation.json."""
    record = await manager.get(app, run_id)
    result = record.result if isinstance(record.result, dict) else {}
    found = result.get("evaluation")
    if not isinstance(found, dict):
        told = f"run '{run_id}' has no evaluation: it is {record.status.value}"
        raise FileMissing(told, remedy="ask again when it has succeeded")
    return found
