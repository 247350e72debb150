"""Parameters and answers that many routes share."""

from typing import Annotated, Any

from fastapi import Path, Query, Request

from burnish.server.manager import RunManager
from burnish.server.naming import NAME as APP_NAME
from burnish.server.shapes import RUN_ID, Detailed, ErrorBody

AppName = Annotated[str, Path(pattern=APP_NAME)]
RunId = Annotated[str, Path(pattern=RUN_ID)]
Offset = Annotated[int, Query(ge=0, le=10**9)]
Limit = Annotated[int, Query(ge=1, le=200)]

_TOLD = {
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
    status: {"model": ErrorBody, "description": told} for status, told in _TOLD.items()
}
DETAILED: dict[int | str, dict[str, Any]] = {
    **{status: ERRORS[status] for status in (401, 403, 413, 500)},
    **{
        status: {"model": Detailed, "description": _TOLD[status]} for status in (400, 404, 405, 409)
    },
}


async def manager_of(request: Request) -> RunManager:
    """The manager that the application was made with. Not a thread of its own for this."""
    return request.app.state.manager
