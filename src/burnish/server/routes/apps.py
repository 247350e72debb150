"""The apps that are served, and what they are made of."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends

from burnish.server.manager import RunManager
from burnish.server.routes.parameters import AppName, manager_of
from burnish.server.shapes import AppList, AppShape, Structure

router = APIRouter(tags=["apps"])
Manager = Annotated[RunManager, Depends(manager_of)]


@router.get("/apps")
async def list_apps(manager: Manager) -> AppList:
    """Every app."""
    told = [await asyncio.to_thread(app.about) for app in manager.apps.values()]
    return AppList(apps=[AppShape.model_validate(each) for each in told])


@router.get("/apps/{app}")
async def get_app(app: AppName, manager: Manager) -> AppShape:
    """One app."""
    return AppShape.model_validate(await asyncio.to_thread(manager.app(app).about))


@router.get("/apps/{app}/structure")
async def get_structure(app: AppName, manager: Manager) -> Structure:
    """The nodes of an app, and what can be changed at each."""
    return Structure.model_validate({"structure": await manager.structure(app)})
