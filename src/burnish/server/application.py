"""The service as an ASGI application, to be served alone or mounted in one's own."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from fastapi import Depends, FastAPI, Request
from fastapi.exception_handlers import (
    http_exception_handler,
    request_validation_exception_handler,
)
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from burnish.compat.promptiter import Engine
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.projects.description import all_doors
from burnish.server.apps import EngineApp
from burnish.server.guards import INTERNAL, Guard, error_body, path_of, problem, status_of
from burnish.server.manager import Requests, RunManager
from burnish.server.routes import runs
from burnish.server.routes.promptiter import PromptIterRoutes
from burnish.server.routes.refinement import refinement_router
from burnish.server.routes.runs import DETAILED, ERRORS
from burnish.server.security import Security
from burnish.server.shapes import NewEvaluation, NewRun
from burnish.server.stores.documents import Slimming
from burnish.system.config_errors import nearest
from burnish.system.settings import SchemaPosition
from burnish.version import VERSION

_log = logging.getLogger("burnish.server")
BASE_PATH = "/promptiter/v1/apps"
_API = "/api/v1"
_REFINEMENT = "/api/experiments"
"""AWP refine's routes, whose errors are in FastAPI's own shape."""
_ROUTERS = (
    runs.health_router,
    runs.app_router,
    runs.run_router,
    runs.run_detail_router,
    runs.event_router,
    runs.dataset_router,
    runs.evaluation_router,
)
_CODES = {404: "not_found", 405: "method_not_allowed", 400: "bad_request"}


def create_app(
    manager: RunManager | None = None,
    *,
    app_name: str = "",
    engine: Engine | None = None,
    base_path: str = BASE_PATH,
    security: Security | None = None,
    slimming: Slimming | None = None,
) -> FastAPI:
    """The service over a manager; or over one engine alone, then with blocking runs only.

    Served alone, the application opens and closes the manager. Mounted in another application,
    that one does: `async with manager:` in its lifespan.
    """
    whole = manager is not None
    manager = manager or _manager_of(app_name, engine)
    base = "/" + base_path.strip("/")
    app = FastAPI(
        title="burnish",
        version=VERSION,
        openapi_url=f"{_API}/openapi.json" if whole else None,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    app.state.manager, app.state.requests, app.state.base_path = manager, Requests(), base
    app.mount(
        base,
        PromptIterRoutes(manager=manager, base_path=base, serve_async=whole, slimming=slimming),
    )
    security = security or Security()
    # The guard asks for tokens; this only says so in the document.
    documented = [] if security.tokens is None else [Depends(HTTPBearer(auto_error=False))]
    if whole:
        for each in _ROUTERS:
            app.include_router(each, prefix=_API, responses=ERRORS, dependencies=documented)
        folders = [app.folder for app in manager.apps.values() if app.folder is not None]
        refinement = refinement_router(manager.places.data, folders)
        app.include_router(refinement, responses=DETAILED, dependencies=documented)
    app.add_middleware(
        Guard,
        security=security,
        requests=app.state.requests,
        body_bytes=manager.limits.body_bytes,
        plain_under=base,
        open_paths=frozenset({f"{_API}/health"}),
    )
    _tell_errors(app)
    return app


def _manager_of(app_name: str, engine: Engine | None) -> RunManager:
    if engine is None:
        message = "there is nothing to serve"
        remedy = "give a manager, or an engine with the name of its app"
        raise ConfigError([Problem(where="create_app", message=message, remedy=remedy)])
    name = app_name.strip() or engine.evaluation.app_name
    return RunManager([EngineApp(name, engine)], data=engine.evaluation.output_dir)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with app.state.manager:
        yield


# -- errors ----------------------------------------------------------------------------------


def _tell_errors(app: FastAPI) -> None:
    app.add_exception_handler(BurnishError, _own)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _own(request: Request, error: Exception) -> JSONResponse:
    del request
    assert isinstance(error, BurnishError)
    status, _ = status_of(error)
    if status == INTERNAL[0]:
        _log.error("a request failed: %s", error)
    return JSONResponse(error_body(error), status_code=status)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if path_of(request.scope).startswith(_REFINEMENT):
        return await request_validation_exception_handler(request, error)
    problems: list[Json] = [
        {
            "where": ".".join(map(str, each["loc"])),
            "message": str(each["msg"]),
            "remedy": _remedy(each["type"], each["loc"]),
        }
        for each in error.errors()
    ]
    body = problem("invalid_request", "the request is not valid", problems=problems)
    return JSONResponse(body, status_code=422)


def _remedy(kind: str, loc: tuple[str | int, ...]) -> str:
    """For a field that nobody knows: the one that was meant, or why a client may not set it."""
    if kind != "extra_forbidden" or len(loc) < 2:
        return ""
    *above, key = loc[1:]
    for body in (NewRun, NewEvaluation):
        place = SchemaPosition.of(body)
        for step in above:
            place = place.below(step)
        if likely := nearest(str(key), place.keys):
            return f"did you mean '{likely}'?"
    closed = {name for doors in all_doors() for name in doors.named()}
    return "only the operator may set it, in the project file" if key in closed else ""


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, message = path_of(request.scope), str(error.detail).lower()
    if path.startswith(_REFINEMENT):
        return await http_exception_handler(request, error)
    plain = path.startswith(cast("str", request.app.state.base_path))
    body = {"error": message} if plain else problem(_CODES.get(error.status_code, "http"), message)
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    """Nothing of what went wrong leaves the service: it may hold anything. The log has it."""
    del request, error
    status, code = INTERNAL
    return JSONResponse(problem(code, "a mistake of the service; its log says more"), status)
