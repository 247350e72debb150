"""The service as an ASGI application, alone or mounted in another, and its OpenAPI document."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, cast

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from burnish.compat.promptiter import Engine, RunRequest, RunResult, Slimming
from burnish.compat.promptiter.shapes import Snapshot
from burnish.core.content import Json
from burnish.core.errors import (
    MOST_PROBLEMS,
    BurnishError,
    ConfigError,
    FileTrouble,
    MoreProblems,
    Problem,
    first_problems,
)
from burnish.core.formatting import shorten
from burnish.projects.clients import AllowedNames
from burnish.projects.description import Doors, all_doors
from burnish.runs.setup import RESULTS
from burnish.server.apps import EngineApp, FileApp
from burnish.server.guards import (
    INTERNAL,
    Guard,
    Sessions,
    as_bytes,
    error_body,
    log_trouble,
    path_of,
    problem,
    status_of,
)
from burnish.server.manager import Requests, RunManager
from burnish.server.routes import docs, pages, runs
from burnish.server.routes.grids import grids_router
from burnish.server.routes.promptiter import PromptIterRoutes, SubPaths
from burnish.server.routes.refinement import Refinements, refinement_router
from burnish.server.routes.runs import DETAILED, ERRORS, get_run, list_runs
from burnish.server.security import NAME, NameRefused, Security, public
from burnish.server.shapes import (
    NewEvaluation,
    NewRun,
    RunQuery,
)
from burnish.server.tokens import ServiceRole
from burnish.system.config import nearest
from burnish.system.removed import way_out
from burnish.system.settings import SchemaPosition
from burnish.version import VERSION

_Document: TypeAlias = dict[str, Any]
_PREFIX = "PromptIter"
"""Before the names of its shapes, some of which burnish's own API has too."""
_SENTENCES = {
    400: "Something in the request is wrong.",
    401: "A token is required.",
    403: "Not allowed.",
    404: "There is no such app or run, or it does not run.",
    405: "Method not allowed.",
    409: "The app is broken, or does not support the request.",
    408: "The request did not arrive in time, or the run was canceled.",
    413: "The body is too large.",
    429: "Too many runs.",
    500: "The run failed, or an error in the service.",
    503: "The store or a disk does not answer.",
    504: "A blocking run took too long.",
}
_COMMON = (400, 401, 403, 404, 405, 409, 500, 503)
_WITH_BODY = (*_COMMON, 408, 413, 429)


def _add_promptiter(document: _Document, base: str, paths: SubPaths) -> _Document:
    """Add PromptIter's routes under a base path, with their shapes and errors."""
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(_shapes())
    scheme: list[_Document] = [{name: []} for name in components.get("securitySchemes", {})]
    routes = {**_blocking_routes(paths), **_asynchronous_routes(paths)}
    for (method, path), operation in routes.items():
        parameters = [_parameter(name) for name in ("app", "run_id") if f"{{{name}}}" in path]
        operation |= {"tags": ["promptiter"], "parameters": parameters}
        operation["operationId"] = f"promptiter_{operation['operationId']}"
        if scheme:
            operation["security"] = scheme
        document["paths"].setdefault(f"{base}/{{app}}/{path}", {})[method] = operation
    return document


def _blocking_routes(paths: SubPaths) -> Mapping[tuple[str, str], _Document]:
    structure = _answer("The structure.", _object(structure=_ref(Snapshot)))
    return {
        ("get", paths.structure): {
            "operationId": "structure",
            "summary": "The nodes of an app, and what can be changed in each",
            "responses": {"200": structure, **_errors(*_COMMON)},
        },
        ("post", paths.runs): {
            "operationId": "run",
            "summary": "Run, and answer when the run has ended",
            "description": "The run is canceled if the client disconnects.",
            "requestBody": _request(),
            "responses": {"200": _result("The result."), **_errors(*_WITH_BODY, 504)},
        },
    }


def _asynchronous_routes(paths: SubPaths) -> Mapping[tuple[str, str], _Document]:
    started = _result("The run is queued.")
    started["headers"] = {
        "Location": {"description": "The address of the run.", "schema": {"type": "string"}}
    }
    return {
        ("post", paths.async_runs): {
            "operationId": "start",
            "summary": "Start a run",
            "requestBody": _request(),
            "responses": {"201": started, **_errors(*_WITH_BODY)},
        },
        ("get", f"{paths.async_runs}/{{run_id}}"): {
            "operationId": "get",
            "summary": "The result of a run, or its state so far",
            "responses": {"200": _result("The run."), **_errors(*_COMMON)},
        },
        ("post", f"{paths.async_runs}/{{run_id}}/cancel"): {
            "operationId": "cancel",
            "summary": "Stop a run for good",
            "responses": {
                "202": {"description": "The run stops."},
                **_errors(*_WITH_BODY),
            },
        },
    }


def _shapes() -> _Document:
    models: list[tuple[type[BaseModel], Any]] = [
        (RunRequest, "validation"),
        (RunResult, "serialization"),
        (Snapshot, "serialization"),
    ]
    template = f"#/components/schemas/{_PREFIX}{{model}}"
    _, defined = models_json_schema(models, by_alias=True, ref_template=template)
    shapes = cast("_Document", defined["$defs"])
    for name in _reached(shapes, RunRequest.__name__):
        # Clients of newer versions send more; that is ignored.
        shapes[name].pop("additionalProperties", None)
    # A run of another strategy adds its own fields.
    shapes[RunResult.__name__].pop("additionalProperties", None)
    # A run that has not begun a round has null here.
    rounds = shapes[RunResult.__name__]["properties"]["Rounds"]
    rounds["type"] = [rounds["type"], "null"]
    shapes["Error"] = {**_object(error={"type": "string"}), "description": "The body of an error."}
    return {f"{_PREFIX}{name}": shape for name, shape in shapes.items()}


def _reached(shapes: _Document, first: str) -> set[str]:
    """A shape, and those that it is made of."""
    reached, waiting = set[str](), [first]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [other for other in shapes if f"{_PREFIX}{other}'" in repr(shapes[name])]
    return reached


def _ref(model: type[BaseModel]) -> _Document:
    return {"$ref": f"#/components/schemas/{_PREFIX}{model.__name__}"}


def _object(**properties: _Document) -> _Document:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _answer(description: str, schema: _Document) -> _Document:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _result(description: str) -> _Document:
    return _answer(description, _object(result=_ref(RunResult)))


def _request() -> _Document:
    content = {"application/json": {"schema": _object(run=_ref(RunRequest))}}
    return {"required": True, "content": content}


def _errors(*statuses: int) -> _Document:
    error = {"$ref": f"#/components/schemas/{_PREFIX}Error"}
    return {str(status): _answer(_SENTENCES[status], error) for status in sorted(statuses)}


def _parameter(name: str) -> _Document:
    schema = {"type": "string", "pattern": NAME}
    return {"name": name, "in": "path", "required": True, "schema": schema}


BASE_PATH = "/promptiter/v1/apps"
_API = "/api/v1"
_REFINEMENT = "/api/experiments"
"""The routes of AWP refine, whose errors have FastAPI's own shape."""
_METRICS = "/metrics"
_DOCUMENT = f"{_API}/openapi.json"
_CODES = {404: "not_found", 405: "method_not_allowed", 400: "bad_request"}


def create_app(
    manager: RunManager | None = None,
    *,
    app_name: str = "",
    engine: Engine | None = None,
    base_path: str = BASE_PATH,
    security: Security | None = None,
    sub_paths: SubPaths | None = None,
    slimming: Slimming | None = None,
    open_metrics: bool = False,
) -> FastAPI:
    """The service over a manager, or over a single engine and then with blocking runs only.

    Served alone, the application opens and closes the manager. If you mount it in another
    application, do so there: `async with manager:` in its lifespan. With `open_metrics`, the
    metrics need no token. A worker answers only questions about itself.
    """
    whole = manager is not None
    manager = manager or _blocking_manager(app_name, engine)
    base = "/" + base_path.strip("/")
    app = _Service(
        title="burnish",
        version=VERSION,
        openapi_url=_DOCUMENT if whole else None,
        docs_url=None,  # its pages load scripts from elsewhere; `routes/docs.py` has our own
        redoc_url=None,
        redirect_slashes=False,
        lifespan=_lifespan,
    )
    routes = PromptIterRoutes(
        manager=manager,
        base_path=base,
        paths=sub_paths or SubPaths(),
        serve_async=whole,
        slimming=slimming,
    )
    app.state.manager, app.state.requests, app.state.promptiter = manager, Requests(), routes
    role, security = manager.launcher.role, security or Security()
    sessions = Sessions(security)
    if role.answers:
        app.mount(base, routes)
    if whole:
        _add_routes(app, manager, security, sessions)
    has_pages = whole and role.answers
    app.add_middleware(
        Guard,
        security=security,
        requests=app.state.requests,
        limits=manager.limits,
        plain_under=base,
        open_paths=frozenset(
            {
                *(f"{_API}/health", f"{_API}/ready", _DOCUMENT, *docs.PATHS),
                *(() if has_pages or not whole else ("/",)),
                *((_METRICS, f"{_API}{_METRICS}") if open_metrics else ()),
            }
        ),
        pages=pages.page_access(sessions) if has_pages else None,
    )
    for error, answer in (
        (BurnishError, _burnish_error),
        (RequestValidationError, _invalid),
        (HTTPException, _http),
        (OSError, _no_file),
        (Exception, _unexpected),
    ):
        app.add_exception_handler(error, answer)
    return app


def _blocking_manager(app_name: str, engine: Engine | None) -> RunManager:
    """A manager of one engine."""
    if engine is None:
        remedy = "pass a manager, or an engine with the name of its app"
        raise ConfigError.of("create_app", "there is nothing to serve", remedy)
    name = app_name.strip() or engine.evaluation.app_name
    data = engine.evaluation.output_dir or RESULTS
    return RunManager([EngineApp(name, engine)], data=data)


def _add_routes(app: FastAPI, manager: RunManager, security: Security, sessions: Sessions) -> None:
    """The service's own API and pages, as far as its role has them."""
    role = manager.launcher.role
    # The guard asks for tokens; this only says so in the document.
    documented = [] if security.tokens is None else [Depends(HTTPBearer(auto_error=False))]
    answered = (*runs.ROUTERS, grids_router(manager))
    if role.answers:
        app.router.routes.extend(_shortcuts(_API))
    for each in answered if role.answers else runs.WORKER_ROUTERS:
        app.include_router(each, prefix=_API, responses=ERRORS, dependencies=documented)
    app.add_api_route(_METRICS, runs.metrics, include_in_schema=False)
    # Who accepts a refinement drives it.
    refinements = None
    if role is ServiceRole.BOTH:
        refinements = Refinements(allowance=_allowance(manager), manager=manager)
        folders = [app.folder for app in manager.apps.values() if app.folder is not None]
        refinement = refinement_router(manager.places.data, folders, refinements=refinements)
        app.include_router(refinement, responses=DETAILED, dependencies=documented)
    if role.answers:
        app.include_router(docs.docs_router(_DOCUMENT))
        app.include_router(pages.pages_router(manager, sessions, refinements))


class _Service(FastAPI):
    """FastAPI with PromptIter's routes in its document."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            self.openapi_schema = _add_promptiter(
                document, self.state.promptiter.base_path, self.state.promptiter.paths
            )
        return self.openapi_schema


def _allowance(manager: RunManager) -> AllowedNames:
    """What the operator allows requests for every file to name."""
    apps = [app for app in manager.apps.values() if isinstance(app, FileApp)]
    return AllowedNames(names=frozenset[str]().union(*(app.allowance.names for app in apps)))


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with app.state.manager:
        yield


def _json(document: Json, status: int, headers: Mapping[str, str] | None = None) -> Response:
    body = as_bytes(document)
    return Response(body, status, dict(headers or {}), media_type="application/json")


async def _burnish_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, BurnishError)
    log_trouble(error)
    status, _ = status_of(error)
    body = error_body(error)
    if path_of(request.scope).startswith(_REFINEMENT):
        body = {"detail": cast("dict[str, Json]", body["error"])["message"]}
    return _json(body, status)


async def _no_file(request: Request, error: Exception) -> Response:
    """A full disk, a folder that has gone: the operator's to mend."""
    trouble = FileTrouble(f"{type(error).__name__}: {error}")
    return await _burnish_error(request, trouble)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    if path_of(request.scope).startswith(_REFINEMENT):
        return _json({"detail": _details(error.errors())}, 422)
    problems = first_problems(error.errors(), _problem_of)
    body = problem("invalid_request", "the request is not valid", problems=problems)
    return _json(body, 422)


def _details(errors: Sequence[Any]) -> list[Json]:
    """The first errors in FastAPI's shape, without the values: some of them have no JSON."""
    details: list[Json] = [
        {"type": each["type"], "loc": [*map(_short, each["loc"])], "msg": each["msg"]}
        for each in errors[:MOST_PROBLEMS]
    ]
    if more := len(errors) - len(details):
        rest = MoreProblems.of(more).message
        details.append({"type": "more_problems", "loc": ["body"], "msg": rest})
    return details


def _problem_of(error: Any) -> Problem:
    where = ".".join(str(_short(step)) for step in error["loc"])
    remedy = _remedy(error["type"], error["loc"])
    return Problem(where=where, message=str(error["msg"]), remedy=remedy)


def _short(step: str | int) -> str | int:
    """A key for a message; a client may send a very long one."""
    return step if isinstance(step, int) else shorten(step, 60)


def _remedy(kind: str, loc: tuple[str | int, ...]) -> str:
    """For an unknown field: the field that was probably meant, or why a client may not set it."""
    if kind != "extra_forbidden" or len(loc) < 2:
        return ""
    *above, key = loc[1:]
    if gone := way_out(f"request {key}") or way_out(str(key)):
        return gone
    for body in (NewRun, NewEvaluation):
        place = SchemaPosition.of(body)
        for step in above:
            place = place.below(step)
        if likely := nearest(str(key), place.keys):
            return f"did you mean '{likely}'?"
    closed = {name for doors in all_doors() for name in (*doors.named(), *_last_keys(doors))}
    return "only the operator may set it, in the project file" if key in closed else ""


def _last_keys(doors: Doors) -> Iterator[str]:
    """The names of all fields, with or without a flag."""
    return (setting.path[-1] for setting in doors.fields())


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, message = path_of(request.scope), str(error.detail).lower()
    if path.startswith(_REFINEMENT):
        return _json({"detail": public(str(error.detail))}, error.status_code, error.headers)
    plain = path.startswith(cast("str", request.app.state.promptiter.base_path))
    body = {"error": message} if plain else problem(_CODES.get(error.status_code, "http"), message)
    return _json(cast("Json", body), error.status_code, error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    """Answers without details, which may contain anything; the log has them."""
    del request, error
    status, code = INTERNAL
    return _json(problem(code, "an error in the service; see its log"), status)


# -- The shortest way to the reads that are most frequent ------------------------------------------
#
# FastAPI takes longer to find a route and to take a request apart than a run takes to be read. So a
# request that is plainly right goes straight to its endpoint. Every other one goes the usual way,
# which also words what is wrong with it. The guard is before both.

_Arguments: TypeAlias = Mapping[str, Any]
_ARGUMENTS = "burnish.arguments"
_NAME = NAME[1:-1]


class Shortcut(BaseRoute):
    """A way to an endpoint that matches only what needs no more checks."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Awaitable[Response]],
        read: Callable[[bytes], _Arguments | None],
    ) -> None:
        self._path = re.compile(path)
        self._endpoint = endpoint
        self._read = read
        """What a query says, as arguments; None if it has to be checked."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and scope["method"] == "GET":
            found = self._path.fullmatch(path_of(scope))
            arguments = None if found is None else self._read(scope["query_string"])
            if found is not None and arguments is not None:
                return Match.FULL, {_ARGUMENTS: {**found.groupdict(), **arguments}}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        manager = scope["app"].state.manager
        response = await self._endpoint(manager=manager, **scope[_ARGUMENTS])
        await response(scope, receive, send)


def _shortcuts(prefix: str) -> list[BaseRoute]:
    """Those of the API under a prefix: one run, and a list of runs."""
    run = rf"{prefix}/apps/(?P<app>{_NAME})/runs/(?P<run_id>{_NAME})"
    return [
        Shortcut(run, get_run, lambda query: None if query else {}),
        Shortcut(f"{prefix}/runs", list_runs, _list_query),
    ]


def _list_query(query: bytes) -> _Arguments | None:
    try:
        return {"query": RunQuery.model_validate(dict(QueryParams(query)))}
    except (ValidationError, NameRefused):
        return None
