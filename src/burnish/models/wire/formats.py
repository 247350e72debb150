"""The forms in which a structured answer can be requested, and whether an endpoint refuses one.

Every OpenAI-compatible endpoint says that it takes `response_format`; many refuse the value
`json_schema`, some `json_object` too. So the same question goes down a ladder: the schema
enforced by the endpoint, JSON mode with the schema in the prompt, the prompt alone.
"""

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from burnish.models.chat import ChatRequest, Form
from burnish.models.wire.messages import enforces
from burnish.models.wire.words import words_of

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelHTTPError
    from pydantic_ai.models import Model

LADDER: tuple[Form, ...] = ("json_schema", "json_object", "prompt")

_STATUSES = {400, 404, 415, 422, 501}
_SILENT = 400
"""The only status that may be a refusal without a word about the form."""

_THE_FORM = re.compile(
    r"response[\s_.-]?(format|schema|mime|json)|json[\s_-]?(schema|object|mode)|structured[\s_-]?output"
    r"|guided[\s_-]?(json|decoding|grammar)|output_(config|format)",
    re.IGNORECASE,
)
_WORD = re.compile(r"[a-z]+")
_TOO_LONG = re.compile(
    r"context[\s_-]?(length|window|size)|maximum context|too (long|large|many tokens)"
    r"|reduce the length|exceeds? the (limit|maximum)",
    re.IGNORECASE,
)
_NO_CAUSE = re.compile(
    r"an?|the|this|is|was|not|of|in|none|null|http|code|status|error|detail|client|provider|upstream"
    r"|bad|invalid|malformed|unknown|unsupported|supported|failed|returned|contains|validation"
    r"|request|input|body|payload|format|feature|option|value|arguments?|param(eter)?s?"
)
"""A word that names no cause, nor a model or a setting that would be one."""


def forms_for(model: "Model[Any]", request: ChatRequest) -> tuple[Form, ...]:
    """The rungs of the ladder that this model has for this request; none for a plain text."""
    if request.schema is None:
        return ()
    skipped: set[Form] = set()
    if not enforces(model, request.schema):
        skipped.add("json_schema")
    if not model.profile.get("supports_json_object_output", False):
        skipped.add("json_object")
    return tuple(form for form in LADDER if form not in skipped)


def refuses_form(error: "ModelHTTPError") -> bool:
    """Whether an endpoint seems to refuse the form of the answer, rather than the request.

    In doubt it does: the next form shows.
    """
    if error.status_code not in _STATUSES:
        return False
    text = _spelled(error.body)
    if _TOO_LONG.search(text):
        return False
    if _THE_FORM.search(text):
        return True
    words = _WORD.findall(_words(error.body))
    return error.status_code == _SILENT and all(map(_NO_CAUSE.fullmatch, words))


def _spelled(body: object) -> str:
    """All that an endpoint said: gateways keep the words of the model's server somewhere inside."""
    return body if isinstance(body, str) else json.dumps(body, default=str)


def _words(body: object) -> str:
    """What an endpoint said about the cause, in lower case."""
    message = words_of(body)
    if not message and isinstance(body, Mapping):
        detail = cast("Mapping[str, object]", body).get("detail")  # Where FastAPI keeps it.
        message = "" if detail is None else _spelled(detail)
    return message.lower()
