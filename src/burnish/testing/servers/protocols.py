"""The protocols that a scripted server speaks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from burnish.testing.servers.answers import Reply, Status
from burnish.testing.servers.bodies import (
    Document,
    anthropic_error,
    anthropic_events,
    anthropic_reply,
    google_error,
    google_reply,
    openai_error,
    openai_reply,
)

ProtocolName: TypeAlias = Literal["openai", "anthropic", "google", "ollama"]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How one protocol words what a script says."""

    prefix: str
    """What a client's base address ends with."""
    question: str
    """The end of the path on which a model is asked."""
    reply: Callable[[Reply, str], Document]
    error: Callable[[Status], Document]
    events: Callable[[Document], list[Document]] | None = None
    """The same reply as a stream of events, where clients may ask for one."""


_CHAT = "/chat/completions"
PROTOCOLS: Mapping[ProtocolName, Protocol] = {
    "openai": Protocol(prefix="/v1", question=_CHAT, reply=openai_reply, error=openai_error),
    "ollama": Protocol(prefix="/v1", question=_CHAT, reply=openai_reply, error=openai_error),
    "anthropic": Protocol(
        prefix="",
        question="/v1/messages",
        reply=anthropic_reply,
        error=anthropic_error,
        events=anthropic_events,
    ),
    "google": Protocol(
        prefix="", question=":generateContent", reply=google_reply, error=google_error
    ),
}


def listed_models(names: tuple[str, ...]) -> Document:
    """What Ollama says on `/api/tags`."""
    return {"models": [{"name": name, "model": name, "size": 1} for name in names]}
