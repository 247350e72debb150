"""Whether a model takes the settings it is given, seen in the request that would be sent.

Libraries drop what they believe a model does not take, with a warning at best. So the request
is made once, for real, up to the socket that is not there, and looked at.
"""

import asyncio
import json
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from burnish.core.messages import Message
from burnish.models.chat import ChatRequest
from burnish.models.references import ModelRef
from burnish.models.troubles import ModelRefused
from burnish.models.wire.errors import Blame, failures
from burnish.models.wire.messages import messages_for, parameters_for, settings_for
from burnish.models.wire.places import Place

_FIELDS = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "max_tokens": ("max_tokens", "max_completion_tokens", "maxOutputTokens"),
    "seed": ("seed",),
    "stop": ("stop", "stop_sequences", "stopSequences"),
}
"""The names that a setting has on some wire."""


def require_settings(ref: ModelRef, place: Place) -> None:
    """Raise ModelRefused when a setting would not reach the model."""
    wanted = ref.settings.sent()
    if not wanted:
        return
    found = _flat(sent_for(ref, place))
    lost = [name for name, value in wanted.items() if not _among(found, name, value)]
    if lost:
        named = " and ".join(lost)
        raise ModelRefused(
            f"the model {ref.label} takes no {named}: it would be ignored",
            remedy=f"remove {named} from its settings, or take another model",
        )


def sent_for(ref: ModelRef, place: Place) -> Mapping[str, Any]:
    """The body of the request that this reference makes; nothing leaves this process."""
    # In a thread of its own, since this may be called from inside a running event loop.
    with ThreadPoolExecutor(1) as thread:
        body = thread.submit(lambda: asyncio.run(_capture(ref, place))).result()
    if isinstance(body, Exception):
        raise Blame(ref=ref, place=place).of(body)
    return cast("Mapping[str, Any]", json.loads(body))


async def _capture(ref: ModelRef, place: Place) -> bytes | Exception:
    import httpx2

    from burnish.models.wire.models import build_model, http_client

    bodies: list[bytes] = []

    class Nowhere(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            bodies.append(await request.aread())
            raise httpx2.ConnectError("not sent")

    question = ChatRequest(messages=(Message(role="user", content="?"),))
    async with http_client(place, Nowhere()) as client:
        model = build_model(ref, place, client)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                await model.request(
                    messages_for(question.messages),
                    settings_for(ref, 0),
                    parameters_for(model, question),
                )
            except failures() as error:
                return bodies[0] if bodies else error
    raise AssertionError("a request went nowhere and was answered")


def _flat(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**body, **body.get("generationConfig", {})}


def _among(found: Mapping[str, Any], name: str, value: object) -> bool:
    expected = list(cast("tuple[str, ...]", value)) if name == "stop" else value
    return any(found.get(field) == expected for field in _FIELDS[name])
