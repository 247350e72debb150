"""Chat requests that are posted as they are, past the work that OpenAI's SDK does for each."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from burnish.models.errors import inside

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response
    from openai import APIStatusError, AsyncOpenAI
    from openai.types.chat import ChatCompletion


def post_directly(
    client: "AsyncOpenAI",
    http: "AsyncClient",
    address: str,
    key_header: Mapping[str, str] | None = None,
) -> None:
    """Make the client post chat requests unchanged, with its usual key header or this one.

    For each request the SDK searches the whole conversation for fields to rename, of which chat
    requests have none, and rebuilds headers and answer: twice the work of the HTTP itself.
    """
    from httpx2 import URL
    from openai import NotGiven, Omit
    from openai.resources.chat.completions import AsyncCompletions

    url = URL(address)
    usual = {**client.default_headers, **client.auth_headers}
    absent = (NotGiven, Omit)  # How the SDK marks what is not to be sent.
    headers = {name: each for name, each in usual.items() if isinstance(each, str)}
    if key_header is not None:
        headers.pop("Authorization", None)
        headers |= key_header

    class Direct(AsyncCompletions):
        async def create(  # pyright: ignore[reportIncompatibleMethodOverride]
            self,
            *,
            extra_headers: Mapping[str, str] | None = None,
            extra_body: Mapping[str, Any] | None = None,
            timeout: object = None,  # noqa: ASYNC109 - the SDK's; the time is kept outside.
            **fields: Any,
        ) -> "ChatCompletion":
            del timeout
            sent = {name: each for name, each in fields.items() if not isinstance(each, absent)}
            response = await http.post(
                url,
                json={**sent, **(extra_body or {})},
                headers={**headers, **(extra_headers or {})},
            )
            if not response.is_success:
                raise _failure(response)
            return _completion(response.json())

    client.chat.__dict__["completions"] = Direct(client)


def _completion(document: Any) -> "ChatCompletion":
    """The answer in the SDK's type, even if the endpoint left out some fields."""
    from openai.types.chat import ChatCompletion
    from pydantic import ValidationError

    try:
        return ChatCompletion.model_validate(document)
    except ValidationError:
        return ChatCompletion.construct(**document)


def _failure(response: "Response") -> "APIStatusError":
    from openai import APIStatusError

    try:
        document = cast("object", response.json())
    except (ValueError, RecursionError):
        document = response.text
    body = inside(document)
    return APIStatusError(f"HTTP {response.status_code}", response=response, body=body)
