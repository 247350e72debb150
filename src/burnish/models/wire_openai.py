"""Chat completions without the OpenAI SDK's detours: one POST, its types, its errors."""

from typing import TYPE_CHECKING, Any

from burnish.models.wire_places import Place

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion


def post_directly(client: "AsyncOpenAI", http: "AsyncClient", place: Place) -> None:
    """Make the client post chat requests as they are.

    For each request the SDK walks through the whole conversation for fields to rename, of which
    chat requests have none, builds its headers anew and its answer field by field: together
    more than twice the work of the HTTP itself.
    """
    from openai import NotGiven, Omit
    from openai.resources.chat.completions import AsyncCompletions

    url = place.url("chat/completions")
    usual = {**client.default_headers, **client.auth_headers}
    # The SDK marks the absent ones with objects of its own.
    headers = {name: each for name, each in usual.items() if isinstance(each, str)}

    class Direct(AsyncCompletions):
        async def create(self, **fields: Any) -> "ChatCompletion":  # pyright: ignore[reportIncompatibleMethodOverride]
            # No setting of ours is sent in these; the time is kept outside.
            apart = {"extra_body", "extra_headers", "timeout"}
            absent = (NotGiven, Omit)
            body = {
                name: each
                for name, each in fields.items()
                if name not in apart and not isinstance(each, absent)
            }
            response = await http.post(url, json=body, headers=headers)
            if not response.is_success:
                raise _failure(response)
            return _completion(response.json())

    client.chat.__dict__["completions"] = Direct(client)


def _completion(document: Any) -> "ChatCompletion":
    """The answer in the SDK's type; what endpoints leave out is left out of it."""
    from openai.types.chat import ChatCompletion
    from pydantic import ValidationError

    try:
        return ChatCompletion.model_validate(document)
    except ValidationError:
        return ChatCompletion.construct(**document)


def _failure(response: "Response") -> "APIStatusError":
    from openai import APIStatusError

    try:
        document: Any = response.json()
    except ValueError:
        document = response.text
    body = document.get("error", document) if isinstance(document, dict) else document  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return APIStatusError(f"HTTP {response.status_code}", response=response, body=body)  # pyright: ignore[reportUnknownArgumentType]
