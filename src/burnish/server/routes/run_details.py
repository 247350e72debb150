"""What a run's folder tells: trials, candidates, files, report."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Path
from fastapi.responses import FileResponse, PlainTextResponse, Response

from burnish.reports.report import write_report
from burnish.server import run_folders
from burnish.server.manager import RunManager
from burnish.server.places import Place
from burnish.server.results import run_result
from burnish.server.routes.parameters import AppName, Limit, Offset, RunId, manager_of
from burnish.server.shapes import CandidateList, FileList, TrialPage
from burnish.system import read_text

router = APIRouter(tags=["runs"])
Manager = Annotated[RunManager, Depends(manager_of)]
RUN = "/apps/{app}/runs/{run_id}"


async def _place(app: AppName, run_id: RunId, manager: Manager) -> Place:
    """The folder of a run; made here from the journal where that lies in a database."""
    record = await manager.get(app, run_id, result=False)
    place = manager.places.of(record)
    await asyncio.to_thread(run_folders.require, place)
    return place


Home = Annotated[Place, Depends(_place)]


@router.get(f"{RUN}/trials")
async def list_trials(home: Home, offset: Offset = 0, limit: Limit = 50) -> TrialPage:
    """The trials, accepted or not."""
    rows = await asyncio.to_thread(run_folders.trials, home.folder)
    page = rows[offset : offset + limit]
    return TrialPage.model_validate({"total": len(rows), "offset": offset, "trials": page})


@router.get(f"{RUN}/candidates")
async def list_candidates(home: Home) -> CandidateList:
    """Where the run began, and each candidate that was accepted."""
    found = await asyncio.to_thread(run_folders.candidates, home.folder)
    return CandidateList.model_validate({"candidates": found})


@router.get(f"{RUN}/files")
async def list_files(home: Home) -> FileList:
    """The files in the run's folder."""
    found = await asyncio.to_thread(run_folders.files, home.folder)
    return FileList.model_validate({"files": found})


@router.get(
    f"{RUN}/files/{{path:path}}",
    response_class=FileResponse,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
async def get_file(home: Home, path: Annotated[str, Path(max_length=1000)]) -> Response:
    """One file of the run's folder, as it lies there."""
    found = await asyncio.to_thread(run_folders.file, home.folder, path)
    # Never as a page: what an agent wrote may be a script.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment"}
    return FileResponse(found, media_type="application/octet-stream", headers=headers)


@router.get(
    f"{RUN}/report",
    response_class=Response,
    responses={200: {"content": {"text/markdown": {"schema": {"type": "string"}}}}},
)
async def get_report(home: Home) -> PlainTextResponse:
    """What is known of the run, in Markdown."""
    text = await asyncio.to_thread(lambda: read_text(write_report(home.folder)))
    return PlainTextResponse(text, media_type="text/markdown; charset=utf-8")


@router.get(f"{RUN}/promptiter")
async def get_promptiter(app: AppName, run_id: RunId, manager: Manager) -> dict[str, object]:
    """The result so far in PromptIter's shape."""
    record = await manager.get(app, run_id)
    return {"result": await run_result(manager.store, record)}
