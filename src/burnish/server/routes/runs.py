"""The routes of runs, apps, datasets, evaluations, events and health."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import lru_cache, partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from pydantic import BeforeValidator, JsonValue
from starlette.types import Receive, Scope, Send

from burnish.compat.promptiter import read_request
from burnish.core.cases import Case
from burnish.core.content import codec
from burnish.core.formatting import shorten
from burnish.datasets.agent_cases import CaseFile
from burnish.projects.clients import DATASET_NAME
from burnish.reports.rendering import write_report
from burnish.runs.spec import set_tags
from burnish.server import runs
from burnish.server.guards import CLIENT
from burnish.server.manager import CONTENT_TYPE, RunManager, exposition
from burnish.server.routes.promptiter import run_result
from burnish.server.runs import Datasets, FileMissing, RunPlace, is_dataset_name
from burnish.server.security import Name, NameFilter, NameRefused, public
from burnish.server.shapes import (
    AccountShape,
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
    JobRequest,
    LeftRun,
    NewEvaluation,
    NewRun,
    NewTags,
    ProcessShape,
    Readiness,
    RunList,
    RunQuery,
    RunShape,
    Structure,
    TrialPage,
)
from burnish.server.stores.records import RunFilter, StoredRun
from burnish.server.tokens import LOCAL, Client, TokenScope
from burnish.strategies.measure import Measure
from burnish.system import read_text
from burnish.version import VERSION

_AppName = Annotated[Name, Path()]
_RunId = Annotated[Name, Path()]
_Offset = Annotated[int, Query(ge=0, le=10**9)]
_Limit = Annotated[int, Query(ge=1, le=200)]
_Filter = Annotated[NameFilter, Query()]
_Cursor = Annotated[str, Query(max_length=100)]
_RUN = "/apps/{app}/runs/{run_id}"
_service = APIRouter(tags=["service"])
_apps = APIRouter(tags=["apps"])
_runs = APIRouter(tags=["runs"])
_datasets = APIRouter(tags=["datasets"])
_evaluations = APIRouter(tags=["evaluations"])
ROUTERS = (_service, _apps, _runs, _datasets, _evaluations)
WORKER_ROUTERS = (_service,)
"""What a process answers that only drives runs."""

_DESCRIPTIONS = {
    400: "The request cannot be read.",
    401: "A token is required.",
    403: "Not allowed.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The request did not arrive in time.",
    409: "Not possible in the current state.",
    413: "The body is too large.",
    422: "Something in the request is wrong.",
    429: "Too many runs or event streams, or a limit of the token is reached.",
    500: "Internal error.",
    503: "The store or a disk does not answer, or the service is shutting down.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": sentence}
    for status, sentence in _DESCRIPTIONS.items()
}
DETAILED: dict[int | str, dict[str, Any]] = {
    **{status: ERRORS[status] for status in (401, 408, 500, 503)},
    # Refused before the route, or by it.
    **{
        status: {"model": ErrorBody | Detailed, "description": _DESCRIPTIONS[status]}
        for status in (403, 413, 429)
    },
    **{
        status: {"model": Detailed, "description": _DESCRIPTIONS[status]}
        for status in (400, 404, 405, 409)
    },
}


async def _manager_of(request: Request) -> RunManager:
    # Async, so that FastAPI needs no thread for it.
    return request.app.state.manager


async def client_of(request: Request) -> Client:
    """Who sends a request."""
    client = request.scope.get(CLIENT)
    return client if isinstance(client, Client) else Client(scope=TokenScope.READ)


_Manager = Annotated[RunManager, Depends(_manager_of)]
_Client = Annotated[Client, Depends(client_of)]


@_service.get("/health")
async def health() -> Health:
    """Whether the service is alive. Needs no token."""
    return Health(status="ok", version=VERSION)


@_service.get("/ready")
async def ready(manager: _Manager, request: Request) -> Readiness:
    """Whether the store answers. With a token: who is there, and which runs cannot continue."""
    await manager.list_runs(limit=1)
    if request.scope.get(CLIENT) is None:
        return Readiness(status="ready")
    left = [
        LeftRun(app=app, id=run, why=public(why))
        for (app, run), why in sorted(manager.left.items())
    ]
    return Readiness(
        status="ready",
        apps=sorted(manager.apps),
        running=manager.launcher.running,
        waiting=await manager.waiting(),
        left=left,
        processes=[
            ProcessShape.model_validate(vars(each)) for each in await manager.launcher.processes()
        ],
    )


@_service.get("/account")
async def get_account(manager: _Manager, client: _Client) -> AccountShape:
    """The limits of your token, and what it has used of them."""
    use = await manager.store.accounts.standing(client.account)
    return AccountShape(
        name=client.account,
        scope=client.scope,
        limits=client.limits.model_dump(),
        spent=vars(use.spent),
        reserved=vars(use.reserved),
        runs=use.runs,
    )


@_service.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request, manager: _Manager) -> PlainTextResponse:
    """Counters for Prometheus, and how many workers are needed."""
    return PlainTextResponse(
        await exposition(manager, request.app.state.requests), media_type=CONTENT_TYPE
    )


@_apps.get("/apps")
async def list_apps(manager: _Manager) -> AppList:
    """List the apps."""
    entries = [await asyncio.to_thread(app.about) for app in manager.apps.values()]
    return AppList(apps=[AppShape.model_validate(each) for each in entries])


@_apps.get("/apps/{app}")
async def get_app(app: _AppName, manager: _Manager) -> AppShape:
    """Get one app."""
    return AppShape.model_validate(await asyncio.to_thread(manager.app(app).about))


@_apps.get("/apps/{app}/structure")
async def get_structure(app: _AppName, manager: _Manager) -> Structure:
    """The nodes of an app, and what can be changed in each."""
    return Structure.model_validate({"structure": await manager.structure(app, whole=True)})


@_runs.post("/apps/{app}/runs", status_code=201)
async def create_run(
    app: _AppName,
    new: NewRun,
    manager: _Manager,
    client: _Client,
    request: Request,
    response: Response,
) -> RunShape:
    """Start a run. All problems are reported before any paid call is made."""
    manager.app(app)
    if new.promptiter is not None:
        read_request(new.promptiter, strict=True)
    job = JobRequest(**{name: value for name, value in new if name != "id"})
    record = await manager.start(app, job.to_json(), run_id=new.id or "", client=client)
    response.headers["Location"] = f"{request.url.path}/{record.run_id}"
    return _shown(manager, record)


@_runs.get("/runs", response_model=RunList)
async def list_runs(manager: _Manager, query: Annotated[RunQuery, Query()]) -> Response:
    """List runs, newest first, without requests and results.

    With a tag, a page may have fewer runs than its limit; only an empty cursor ends the list.
    """
    which = RunFilter(app_name=query.app, status=query.status, strategy=query.strategy)
    return await _run_list(manager, which, query.limit, query.cursor, tag=query.tag)


@_runs.get(_RUN, response_model=RunShape)
async def get_run(
    app: _AppName, run_id: _RunId, manager: _Manager, *, result: bool = True
) -> Response:
    """Get one run; a large result can be left out."""
    shown = _shown(manager, await manager.get(app, run_id, result=result))
    return _answer(shown.model_dump_json().encode())


@_runs.post(f"{_RUN}/cancel", status_code=202)
async def cancel_run(app: _AppName, run_id: _RunId, manager: _Manager, client: _Client) -> RunShape:
    """Stop a run for good, whichever process drives it; `resume` can still continue it."""
    await manager.cancel(app, run_id, client=client)
    return _shown(manager, await manager.get(app, run_id, result=False))


@_runs.post(f"{_RUN}/resume", status_code=202)
async def resume_run(app: _AppName, run_id: _RunId, manager: _Manager, client: _Client) -> RunShape:
    """Resume a run that failed, was canceled or was abandoned. No call is paid for twice."""
    return _shown(manager, await manager.resume(app, run_id, client=client))


@_runs.delete(_RUN, status_code=204)
async def delete_run(app: _AppName, run_id: _RunId, manager: _Manager, client: _Client) -> Response:
    """Delete a run that nobody drives, with its folder and journal."""
    await manager.delete(app, run_id, client=client)
    return Response(status_code=204)


def _shown(manager: RunManager, record: StoredRun) -> RunShape:
    left = manager.left.get((record.app_name, record.run_id), "")
    return RunShape.of(record, left, manager.places.tags(record))


def _answer(content: bytes) -> Response:
    """The answer that FastAPI would make, without validating what was just made."""
    return Response(content, media_type="application/json")


async def _run_list(
    manager: RunManager, which: RunFilter, limit: int, cursor: str, *, tag: str = ""
) -> Response:
    page = await manager.list_runs(which, limit=limit, cursor=cursor)
    left, places = manager.left, manager.places
    find = places.tags if tag else places.recent_tags

    def content() -> bytes:
        tagged = ((run, find(run)) for run in page.runs)
        listed = [
            _listed(run, left.get((run.app_name, run.run_id), ""), tags)
            for run, tags in tagged
            if tag in ("", *tags)
        ]
        more = json.dumps(page.cursor).encode()
        return b'{"runs":[' + b",".join(listed) + b'],"cursor":' + more + b"}"

    return _answer(await asyncio.to_thread(content))


@lru_cache(maxsize=2_000)
def _listed(record: StoredRun, left: str, tags: tuple[str, ...]) -> bytes:
    """A run of a list as JSON. Lists are polled, and most of their runs are as they were."""
    return RunShape.of(record, left, tags).model_dump_json().encode()


async def _place(app: _AppName, run_id: _RunId, manager: _Manager) -> RunPlace:
    """The place of a run; its folder is created here if the journal is in a database."""
    place = manager.places.of(await manager.get(app, run_id, result=False))
    if not await asyncio.to_thread(place.fetch):
        raise FileMissing("this run has not begun", remedy="ask again when it is running")
    return place


_Home = Annotated[RunPlace, Depends(_place)]


@_runs.put(f"{_RUN}/tags")
async def tag_run(
    app: _AppName, run_id: _RunId, new: NewTags, home: _Home, manager: _Manager, client: _Client
) -> RunShape:
    """Replace the tags of a run that has begun."""
    await manager.accounting.check_owner(client, (app, run_id))
    await asyncio.to_thread(set_tags, home.folder, new.tags)
    record = await manager.get(app, run_id, result=False)
    manager.places.forget_tags(record)
    return _shown(manager, record)


@_runs.get(f"{_RUN}/trials")
async def list_trials(home: _Home, offset: _Offset = 0, limit: _Limit = 50) -> TrialPage:
    """List the trials, accepted or not."""
    rows = await asyncio.to_thread(runs.trials, home.folder)
    page = rows[offset : offset + limit]
    return TrialPage.model_validate({"total": len(rows), "offset": offset, "trials": page})


@_runs.get(f"{_RUN}/candidates")
async def list_candidates(home: _Home) -> CandidateList:
    """The starting point of the run, and each accepted candidate."""
    accepted = await asyncio.to_thread(runs.candidates, home.folder)
    return CandidateList.model_validate({"candidates": accepted})


@_runs.get(f"{_RUN}/files")
async def list_files(home: _Home) -> FileList:
    """List the files in the run's folder."""
    files = await asyncio.to_thread(runs.files, home.folder)
    return FileList.model_validate({"files": files})


@_runs.get(
    f"{_RUN}/files/{{path:path}}",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def get_file(home: _Home, path: Annotated[str, Path(max_length=1000)]) -> Response:
    """Download one file of the run's folder."""
    file = await asyncio.to_thread(runs.file, home.folder, path)
    # Never as a page: what an agent wrote may be a script.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    return FileResponse(file, media_type="application/octet-stream", headers=headers)


@_runs.get(
    f"{_RUN}/report",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def get_report(home: _Home) -> Response:
    """The report of the run, in Markdown."""
    text = await asyncio.to_thread(lambda: read_text(write_report(home.folder)))
    content = text.encode("utf-8", "replace")
    return Response(content, media_type="text/markdown; charset=utf-8")


@_runs.get(f"{_RUN}/promptiter")
async def get_promptiter(app: _AppName, run_id: _RunId, manager: _Manager) -> dict[str, object]:
    """The result so far in PromptIter's shape."""
    record = await manager.get(app, run_id)
    return {"result": await run_result(manager.store, record)}


_LastEventId = Annotated[int, Header(alias="Last-Event-ID", ge=0, le=10**9)]
_TEXT = {"type": "string"}
_FRAME = {
    "type": "object",
    "properties": {"id": _TEXT, "event": _TEXT, "data": _TEXT},
    "required": ["event", "data"],
}


@_runs.get(f"{_RUN}/events")
async def list_events(
    app: _AppName, run_id: _RunId, manager: _Manager, after: _Offset = 0, limit: _Limit = 50
) -> EventPage:
    """List the events of a run, oldest first."""
    await manager.get(app, run_id, result=False)
    events = await manager.events(app, run_id, after=after, limit=limit)
    return EventPage(events=[EventShape.model_validate(vars(each)) for each in events])


@_runs.get(
    f"{_RUN}/stream",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"text/event-stream": {"schema": _FRAME}}},
        204: {"description": "The run has ended, and all events were sent."},
    },
)
async def stream_events(
    app: _AppName,
    run_id: _RunId,
    manager: _Manager,
    client: _Client,
    last_event_id: _LastEventId = 0,
    after: _Offset = 0,
) -> Response:
    """Server-sent events from the beginning or after a number; ends with the run."""
    record = await manager.get(app, run_id, result=False)
    begin = max(last_event_id, after)
    if record.status.finished and begin and begin >= record.events:
        return Response(status_code=204)  # tells an EventSource to stop asking
    leave = manager.tails.admit("" if client.account == LOCAL else client.account)
    frames = manager.tails.listen(app, run_id, after=begin, newest=record.events)
    return EventStream(frames, leave)


class EventStream(StreamingResponse):
    """A stream that gives the place of its listener back, however it ends."""

    def __init__(self, frames: AsyncGenerator[bytes, None], leave: Callable[[], None]) -> None:
        async def content() -> AsyncGenerator[bytes, None]:
            async with aclosing(frames):  # at once when the client goes away
                async for frame in frames:
                    yield frame

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(content(), media_type="text/event-stream", headers=headers)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def _datasets_of(manager: _Manager) -> Datasets:
    return Datasets(folder=manager.places.datasets)


_DatasetFolder = Annotated[Datasets, Depends(_datasets_of)]


def _dataset_name(value: str) -> str:
    if not is_dataset_name(value):
        remedy = "use a name such as holdout.jsonl: letters, digits, '-', '_' and a suffix"
        raise NameRefused("the request has a name that cannot name a dataset", remedy=remedy)
    return value


_Name = Annotated[str, BeforeValidator(_dataset_name), Path(pattern=DATASET_NAME, max_length=100)]
_Column = Annotated[str, Query(max_length=200)]
_FILE: dict[str, Any] = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@_datasets.get("/datasets")
async def list_datasets(datasets: _DatasetFolder) -> DatasetList:
    """List the names of all datasets."""
    return DatasetList(datasets=await asyncio.to_thread(datasets.names))


@_datasets.get("/datasets/{name}")
async def get_dataset(
    name: _Name, datasets: _DatasetFolder, offset: _Offset = 0, limit: _Limit = 50
) -> CasePage:
    """A dataset with some of its cases."""
    dataset = await asyncio.to_thread(datasets.read, name)
    page = [codec(Case).encode(case) for case in dataset.cases[offset : offset + limit]]
    return CasePage.model_validate({**_about(name, dataset), "offset": offset, "page": page})


@_datasets.put("/datasets/{name}", status_code=201, openapi_extra={"requestBody": _FILE})
async def put_dataset(
    name: _Name,
    datasets: _DatasetFolder,
    manager: _Manager,
    client: _Client,
    request: Request,
    input: _Column = "",  # noqa: A002
    expected: _Column = "",
) -> DatasetShape:
    """Store a dataset; one that cannot be read is rejected with all its problems.

    `input` and `expected` name the columns of the question and the answer, where names and values
    would not tell them. They are stored under these names; the answer says what was taken.

    Cases are data: inputs, expectations, and attachments as bytes. A field that names metrics,
    models, code, files or addresses is rejected with its location, and nothing is stored.
    """
    # As it was sent: whatever the client calls its type, its name says what it is.
    content = await request.body()
    check = partial(datasets.check, name, content, input=input, expected=expected)
    cases, content = await asyncio.to_thread(check)
    await manager.accounting.upload(client, name)
    await asyncio.to_thread(datasets.store, name, content)
    return DatasetShape.model_validate(_about(name, cases))


@_datasets.delete("/datasets/{name}", status_code=204)
async def delete_dataset(
    name: _Name, datasets: _DatasetFolder, manager: _Manager, client: _Client
) -> Response:
    """Delete a dataset."""
    await manager.accounting.check_dataset_owner(client, name)
    await asyncio.to_thread(datasets.delete, name)
    await manager.store.accounts.remove_upload(name)
    return Response(status_code=204)


def _about(name: str, dataset: CaseFile) -> dict[str, object]:
    columns = dict[str, object]()
    if dataset.columns is not None and not dataset.columns.usual:
        samples = dataset.columns.samples(dataset.cases)
        for column, part in dataset.columns.parts.items():
            columns[part] = {"column": column, "sample": shorten(samples[part], 200)}
    about = {"name": name, "cases": len(dataset.cases)}
    return {**about, "columns": columns}


@_evaluations.post("/evaluations", status_code=201)
async def create_evaluation(
    new: NewEvaluation, manager: _Manager, client: _Client, request: Request, response: Response
) -> RunShape:
    """Measure an app as it is."""
    job = JobRequest(kind="evaluate", evaluation=new.settings)
    record = await manager.start(new.app, job.to_json(), run_id=new.id or "", client=client)
    base = request.url.path.removesuffix("/evaluations")
    response.headers["Location"] = f"{base}/evaluations/{new.app}/{record.run_id}"
    return _shown(manager, record)


@_evaluations.get("/evaluations", response_model=RunList)
async def list_evaluations(
    manager: _Manager,
    app: _Filter = "",
    limit: _Limit = 50,
    cursor: _Cursor = "",
) -> Response:
    """List measurements, newest first."""
    which = RunFilter(app_name=app, strategy=Measure.name)
    return await _run_list(manager, which, limit, cursor)


@_evaluations.get("/evaluations/{app}/{run_id}")
async def get_evaluation(app: _AppName, run_id: _RunId, manager: _Manager) -> dict[str, JsonValue]:
    """The report of a measurement, as in its evaluation.json."""
    record = await manager.get(app, run_id)
    result = record.result if isinstance(record.result, dict) else {}
    evaluation = result.get("evaluation")
    if not isinstance(evaluation, dict):
        message = f"run '{run_id}' has no evaluation: it is {record.status.value}"
        raise FileMissing(message, remedy="ask again when it has succeeded")
    return evaluation
