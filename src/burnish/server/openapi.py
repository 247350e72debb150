"""The OpenAPI document: FastAPI's own, and PromptIter's routes, which are not FastAPI's."""

from collections.abc import Mapping
from typing import Any, TypeAlias, cast

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from burnish.compat.promptiter import RunRequest, RunResult
from burnish.compat.promptiter.shapes import Snapshot
from burnish.server.routes.promptiter import SubPaths
from burnish.server.security import NAME

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


def add_promptiter(document: _Document, base: str, paths: SubPaths) -> _Document:
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
