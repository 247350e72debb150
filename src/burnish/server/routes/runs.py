"""The routes of runs, apps, datasets, evaluations, events and health."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import JsonValue

from burnish.compat.promptiter import read_request
from burnish.core.cases import Case
from burnish.core.content import codec
from burnish.datasets.case_files import CaseFile
from burnish.reports.rendering import write_report
from burnish.server import runs
from burnish.server.apps.projects import JobRequest
from burnish.server.manager import CONTENT_TYPE, RunManager, exposition
from burnish.server.results import run_result
from burnish.server.runs import NAME, Datasets, FileMissing, RunPlace, TooManyRuns
from burnish.server.security import NAME as APP_NAME
from burnish.server.shapes import (
    RUN_ID,
    AppList,
    AppShape,
    CandidateList,
    CasePage,
    DatasetList,
    DatasetShape,
    Detailed,
    ErrorBody,
    EventPage,
    EventShape,
    FileList,
    Health,
    LeftRun,
    NewEvaluation,
    NewRun,
    Readiness,
    RunList,
    RunShape,
    Structure,
    TrialPage,
)
from burnish.server.stores.records import RunFilter, RunStatus, StoredRun
from burnish.strategies.measure import Measure
from burnish.system import read_text
from burnish.version import VERSION

AppName = Annotated[str, Path(pattern=APP_NAME)]
RunId = Annotated[str, Path(pattern=RUN_ID)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=200)]

_DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "A token is needed.",
    403: "Not allowed.",
    404: "There is no such thing.",
    405: "Not with this method.",
    409: "Not in this state.",
    413: "The body is too large.",
    422: "Something in the request is wrong.",
    429: "Too many runs.",
    500: "A mistake of the service.",
    503: "The store does not answer, or the service goes down.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": sentence}
    for status, sentence in _DESCRIPTIONS.items()
}
DETAILED: dict[int | str, dict[str, Any]] = {
    **{status: ERRORS[status] for status in (401, 403, 413, 500)},
    **{
        status: {"model": Detailed, "description": _DESCRIPTIONS[status]}
        for status in (400, 404, 405, 409)
    },
}


async def manager_of(request: Request) -> RunManager:
    """The manager that the application was made with. Not a thread of its own for this."""
    return request.app.state.manager


# -- The apps that are served ---------------------------------------------------------------------


app_router = APIRouter(tags=["apps"])
Manager = Annotated[RunManager, Depends(manager_of)]


@app_router.get("/apps")
async def list_apps(manager: Manager) -> AppList:
    """Every app."""
    entries = [await asyncio.to_thread(app.about) for app in manager.apps.values()]
    return AppList(apps=[AppShape.model_validate(each) for each in entries])


@app_router.get("/apps/{app}")
async def get_app(app: AppName, manager: Manager) -> AppShape:
    """One app."""
    return AppShape.model_validate(await asyncio.to_thread(manager.app(app).about))


@app_router.get("/apps/{app}/structure")
async def get_structure(app: AppName, manager: Manager) -> Structure:
    """The nodes of an app, and what can be changed at each."""
    return Structure.model_validate({"structure": await manager.structure(app)})


# -- Datasets -------------------------------------------------------------------------------------


dataset_router = APIRouter(tags=["datasets"])


async def _datasets(manager: Annotated[RunManager, Depends(manager_of)]) -> Datasets:
    return Datasets(folder=manager.places.datasets)


DatasetFolder = Annotated[Datasets, Depends(_datasets)]
Name = Annotated[str, Path(pattern=NAME, max_length=100)]
_FILE: dict[str, Any] = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@dataset_router.get("/datasets")
async def list_datasets(datasets: DatasetFolder) -> DatasetList:
    """The names of all datasets."""
    return DatasetList(datasets=await asyncio.to_thread(datasets.names))


@dataset_router.get("/datasets/{name}")
async def get_dataset(
    name: Name, datasets: DatasetFolder, offset: Offset = 0, limit: Limit = 50
) -> CasePage:
    """A dataset with some of its cases."""
    dataset = await asyncio.to_thread(datasets.read, name)
    page = [codec(Case).encode(case) for case in dataset.cases[offset : offset + limit]]
    return CasePage.model_validate({**_about(name, dataset), "offset": offset, "page": page})


@dataset_router.put("/datasets/{name}", status_code=201, openapi_extra={"requestBody": _FILE})
async def put_dataset(name: Name, datasets: DatasetFolder, request: Request) -> DatasetShape:
    """Keep a dataset; one that cannot be read is refused with all that is wrong.

    Cases are data: what is asked, what is expected, and attachments as bytes. A field that names
    metrics, models, code, files or addresses is refused with its place, and nothing is kept.
    """
    # As it was sent: whatever the client calls its type, its name says what it is.
    cases = await asyncio.to_thread(datasets.write, name, await request.body())
    return DatasetShape.model_validate(_about(name, cases))


@dataset_router.delete("/datasets/{name}", status_code=204)
async def delete_dataset(name: Name, datasets: DatasetFolder) -> Response:
    """Remove a dataset."""
    await asyncio.to_thread(datasets.delete, name)
    return Response(status_code=204)


def _about(name: str, dataset: CaseFile) -> dict[str, object]:
    return {"name": name, "format": dataset.format, "cases": len(dataset.cases)}


# -- The events of a run --------------------------------------------------------------------------


event_router = APIRouter(tags=["runs"])
LastEventId = Annotated[int, Header(alias="Last-Event-ID", ge=0, le=10**9)]
_TEXT = {"type": "string"}
_FRAME = {
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT},
    "required": ["event", "data"],
}


@event_router.get("/apps/{app}/runs/{run_id}/events")
async def list_events(
    app: AppName, run_id: RunId, manager: Manager, after: Offset = 0, limit: Limit = 50
) -> EventPage:
    """What happened, oldest first."""
    await manager.get(app, run_id, result=False)
    events = await manager.events(app, run_id, after=after, limit=limit)
    return EventPage(events=[EventShape.model_validate(vars(each)) for each in events])


@event_router.get(
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


# -- Health, readiness and metrics ----------------------------------------------------------------


health_router = APIRouter(tags=["service"])


@health_router.get("/health")
async def health() -> Health:
    """Whether the service is alive. Open to all."""
    return Health(status="ok", version=VERSION)


@health_router.get("/ready")
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


@health_router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, manager: Manager) -> PlainTextResponse:
    """Counters for Prometheus."""
    return PlainTextResponse(
        exposition(manager, request.app.state.requests), media_type=CONTENT_TYPE
    )


# -- What a run's folder tells --------------------------------------------------------------------


run_detail_router = APIRouter(tags=["runs"])
RUN = "/apps/{app}/runs/{run_id}"


async def _place(app: AppName, run_id: RunId, manager: Manager) -> RunPlace:
    """The folder of a run; made here from the journal where that lies in a database."""
    record = await manager.get(app, run_id, result=False)
    place = manager.places.of(record)
    await asyncio.to_thread(runs.require, place)
    return place


Home = Annotated[RunPlace, Depends(_place)]


@run_detail_router.get(f"{RUN}/trials")
async def list_trials(home: Home, offset: Offset = 0, limit: Limit = 50) -> TrialPage:
    """The trials, accepted or not."""
    rows = await asyncio.to_thread(runs.trials, home.folder)
    page = rows[offset : offset + limit]
    return TrialPage.model_validate({"total": len(rows), "offset": offset, "trials": page})


@run_detail_router.get(f"{RUN}/candidates")
async def list_candidates(home: Home) -> CandidateList:
    """Where the run began, and each candidate that was accepted."""
    accepted = await asyncio.to_thread(runs.candidates, home.folder)
    return CandidateList.model_validate({"candidates": accepted})


@run_detail_router.get(f"{RUN}/files")
async def list_files(home: Home) -> FileList:
    """The files in the run's folder."""
    files = await asyncio.to_thread(runs.files, home.folder)
    return FileList.model_validate({"files": files})


@run_detail_router.get(
    f"{RUN}/files/{{path:path}}",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def get_file(home: Home, path: Annotated[str, Path(max_length=1000)]) -> Response:
    """One file of the run's folder, as it lies there."""
    file = await asyncio.to_thread(runs.file, home.folder, path)
    # Never as a page: what an agent wrote may be a script.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    return FileResponse(file, media_type="application/octet-stream", headers=headers)


@run_detail_router.get(
    f"{RUN}/report",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def get_report(home: Home) -> PlainTextResponse:
    """What is known of the run, in Markdown."""
    text = await asyncio.to_thread(lambda: read_text(write_report(home.folder)))
    return PlainTextResponse(text, media_type="text/markdown; charset=utf-8")


@run_detail_router.get(f"{RUN}/promptiter")
async def get_promptiter(app: AppName, run_id: RunId, manager: Manager) -> dict[str, object]:
    """The result so far in PromptIter's shape."""
    record = await manager.get(app, run_id)
    return {"result": await run_result(manager.store, record)}


# -- Runs of every strategy -----------------------------------------------------------------------


run_router = APIRouter(tags=["runs"])
Filter = Annotated[str, Query(max_length=255)]


@run_router.post("/apps/{app}/runs", status_code=201)
async def create_run(
    app: AppName, new: NewRun, manager: Manager, request: Request, response: Response
) -> RunShape:
    """Start a run. Everything that is wrong with it is said before anything is paid."""
    manager.app(app)
    if new.promptiter is not None:
        read_request(new.promptiter, strict=True)
    job = JobRequest(
        kind=new.kind,
        settings=new.settings,
        evaluation=new.evaluation,
        promptiter=new.promptiter,
    )
    record = await manager.start(app, job.to_json(), run_id=new.id or "")
    response.headers["Location"] = f"{request.url.path}/{record.run_id}"
    return shown(manager, record)


@run_router.get("/runs")
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


@run_router.get("/apps/{app}/runs/{run_id}")
async def get_run(
    app: AppName, run_id: RunId, manager: Manager, *, result: bool = True
) -> RunShape:
    """One run; a large result can be left out."""
    return shown(manager, await manager.get(app, run_id, result=result))


@run_router.post("/apps/{app}/runs/{run_id}/cancel", status_code=202)
async def cancel_run(app: AppName, run_id: RunId, manager: Manager) -> RunShape:
    """Stop a run for good, whichever process drives it; `resume` takes that back."""
    await manager.cancel(app, run_id)
    return shown(manager, await manager.get(app, run_id, result=False))


@run_router.post("/apps/{app}/runs/{run_id}/resume", status_code=202)
async def resume_run(app: AppName, run_id: RunId, manager: Manager) -> RunShape:
    """Go on with a run that failed, was canceled, or was left. Nothing is paid twice."""
    return shown(manager, await manager.resume(app, run_id))


@run_router.delete("/apps/{app}/runs/{run_id}", status_code=204)
async def delete_run(app: AppName, run_id: RunId, manager: Manager) -> Response:
    """Remove a run that nobody drives, with its folder and its journal."""
    await manager.delete(app, run_id)
    return Response(status_code=204)


def shown(manager: RunManager, record: StoredRun) -> RunShape:
    """A run, with what this service knows of it."""
    return RunShape.of(record, manager.left.get((record.app_name, record.run_id), ""))


# -- Measurements of apps -------------------------------------------------------------------------


evaluation_router = APIRouter(tags=["evaluations"])


@evaluation_router.post("/evaluations", status_code=201)
async def create_evaluation(
    new: NewEvaluation, manager: Manager, request: Request, response: Response
) -> RunShape:
    """Measure an app as it stands."""
    job = JobRequest(kind="evaluate", evaluation=new.settings)
    record = await manager.start(new.app, job.to_json(), run_id=new.id or "")
    base = request.url.path.removesuffix("/evaluations")
    response.headers["Location"] = f"{base}/evaluations/{new.app}/{record.run_id}"
    return shown(manager, record)


@evaluation_router.get("/evaluations")
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


@evaluation_router.get("/evaluations/{app}/{run_id}")
async def get_evaluation(app: AppName, run_id: RunId, manager: Manager) -> dict[str, JsonValue]:
    """The report of a measurement, as in its evaluation.json."""
    record = await manager.get(app, run_id)
    result = record.result if isinstance(record.result, dict) else {}
    evaluation = result.get("evaluation")
    if not isinstance(evaluation, dict):
        message = f"run '{run_id}' has no evaluation: it is {record.status.value}"
        raise FileMissing(message, remedy="ask again when it has succeeded")
    return evaluation
