"""The routes of grids: measurements of one app side by side.

Each column is an ordinary run, in the queue and under the limits of its token. A grid is stored
nowhere else: the request of each run says which column it is.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request, Response

from burnish.core.content import Json, codec
from burnish.core.errors import RunNotFound
from burnish.projects.grid_axes import GridAxes
from burnish.reports.evaluation import EvalReport
from burnish.reports.grid import NOT_YET, GridReport, MeasuredColumn, grid_of
from burnish.server.apps import FileApp
from burnish.server.manager import RunManager
from burnish.server.routes.runs import client_of
from burnish.server.security import Name, public
from burnish.server.shapes import (
    ColumnRequest,
    GridColumnShape,
    GridShape,
    JobRequest,
    NewGrid,
    refuse_kind,
)
from burnish.server.stores.records import StoredRun
from burnish.server.tokens import Client

_Client = Annotated[Client, Depends(client_of)]
_Name = Annotated[Name, Path()]


_MOST_COLUMNS = 24


def grids_router(manager: RunManager) -> APIRouter:
    """The routes, over the runs of a manager."""
    router = APIRouter(prefix="/grids", tags=["evaluations"])

    @router.post("", status_code=201)
    async def create_grid(
        new: NewGrid, client: _Client, request: Request, response: Response
    ) -> GridShape:
        """Measure every combination. All of them are checked before the first is started."""
        app = manager.app(new.app)
        if not isinstance(app, FileApp):
            raise refuse_kind("measure a grid", new.app)
        name = new.id or f"grid-{uuid.uuid4().hex[:12]}"
        settings = {axis: tuple(values) for axis, values in new.values.items()}
        axes = GridAxes(models=tuple(new.models), settings=settings)
        jobs = await asyncio.to_thread(app.columns, new.settings, axes, name, most=_MOST_COLUMNS)
        requests = {_run_id(name, n): job.to_json() for n, job in enumerate(jobs, start=1)}
        started = await manager.start_all(new.app, requests, client=client)
        response.headers["Location"] = f"{request.url.path}/{new.app}/{name}"
        columns = [(_column_of(record), record) for record in started]
        return _shape(new.app, name, columns)

    @router.get("/{app}/{grid}")
    async def get_grid(app: _Name, grid: _Name) -> GridShape:
        """The columns as far as they are measured, compared with the first of them."""
        columns = await _columns(manager, app, grid)
        shape = _shape(app, grid, columns)
        return shape.model_copy(update={"report": _report(app, columns)})

    return router


_Columns = Sequence[tuple[ColumnRequest, StoredRun | None]]
"""Each column with its run; None if that was deleted."""


def _run_id(grid: str, number: int) -> str:
    return f"{grid}-{number}"


def _column_of(record: StoredRun) -> ColumnRequest:
    column = JobRequest.read(record.request).column
    if column is None:
        raise RunNotFound("there is no such grid", remedy="a grid is read by its own id")
    return column


async def _columns(manager: RunManager, app: str, grid: str) -> _Columns:
    first = await manager.get(app, _run_id(grid, 1))
    head = _column_of(first)
    columns: list[tuple[ColumnRequest, StoredRun | None]] = [(head, first)]
    for number in range(2, head.columns + 1):
        try:
            record = await manager.get(app, _run_id(grid, number))
        except RunNotFound:
            gone = ColumnRequest(
                grid=grid,
                number=number,
                columns=head.columns,
                label=f"column {number}",
                values={},
                weights=head.weights,
            )
            columns.append((gone, None))
        else:
            columns.append((_column_of(record), record))
    return columns


def _shape(app: str, grid: str, columns: _Columns) -> GridShape:
    return GridShape(
        app=app,
        id=grid,
        finished=all(record is None or record.status.finished for _, record in columns),
        columns=[
            GridColumnShape(
                number=column.number,
                label=column.label,
                id=_run_id(grid, column.number),
                status="deleted" if record is None else record.status.value,
            )
            for column, record in columns
        ],
    )


def _report(app: str, columns: _Columns) -> Json:
    measured = [_measured(column, record) for column, record in columns]
    return codec(GridReport).encode(grid_of(measured, columns[0][0].weights, GridReport(agent=app)))


def _measured(column: ColumnRequest, record: StoredRun | None) -> MeasuredColumn:
    """What came of a column; its run is named by its id, not by a folder of the host."""
    made = MeasuredColumn(label=column.label, values=column.values)
    if record is None:
        return replace(made, failure="its run was deleted")
    made = replace(made, run=record.run_id)
    result = record.result if isinstance(record.result, dict) else {}
    evaluation = result.get("evaluation")
    if isinstance(evaluation, dict):
        return replace(made, report=codec(EvalReport).decode(evaluation))
    if not record.status.finished:
        return replace(made, failure=NOT_YET)
    return replace(made, failure=str(public(record.error)) or record.status.value)
