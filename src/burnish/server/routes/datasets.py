"""Datasets: files of cases in the data folder, by name."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.server.datasets import NAME, Datasets
from burnish.server.manager import RunManager
from burnish.server.routes.parameters import Limit, Offset, manager_of
from burnish.server.shapes import CasePage, DatasetList, DatasetShape

router = APIRouter(tags=["datasets"])


async def _datasets(manager: Annotated[RunManager, Depends(manager_of)]) -> Datasets:
    return Datasets(folder=manager.places.datasets)


Kept = Annotated[Datasets, Depends(_datasets)]
Name = Annotated[str, Path(pattern=NAME, max_length=100)]
_FILE: dict[str, Any] = {
    "required": True,
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
}


@router.get("/datasets")
async def list_datasets(kept: Kept) -> DatasetList:
    """The names of all datasets."""
    return DatasetList(datasets=await asyncio.to_thread(kept.names))


@router.get("/datasets/{name}")
async def get_dataset(name: Name, kept: Kept, offset: Offset = 0, limit: Limit = 50) -> CasePage:
    """A dataset with some of its cases."""
    found = await asyncio.to_thread(kept.read, name)
    page = [codec(Case).encode(case) for case in found.cases[offset : offset + limit]]
    return CasePage.model_validate({**_about(name, found), "offset": offset, "page": page})


@router.put("/datasets/{name}", status_code=201, openapi_extra={"requestBody": _FILE})
async def put_dataset(name: Name, kept: Kept, request: Request) -> DatasetShape:
    """Keep a dataset; one that cannot be read is refused with all that is wrong.

    Cases are data: what is asked, what is expected, and attachments as bytes. A field that names
    metrics, models, code, files or addresses is refused with its place, and nothing is kept.
    """
    # As it was sent: whatever the client calls its type, its name says what it is.
    cases = await asyncio.to_thread(kept.write, name, await request.body())
    return DatasetShape.model_validate(_about(name, cases))


@router.delete("/datasets/{name}", status_code=204)
async def delete_dataset(name: Name, kept: Kept) -> Response:
    """Remove a dataset."""
    await asyncio.to_thread(kept.delete, name)
    return Response(status_code=204)


def _about(name: str, found: CaseFile) -> dict[str, object]:
    return {"name": name, "format": found.format, "cases": len(found.cases)}
