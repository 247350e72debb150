"""A scripted model: what it answers is a function of what it is asked."""

from collections.abc import Callable
from dataclasses import dataclass, field

from burnish.core.outcomes import Usage
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.references import ModelRef
from burnish.testing.doubles import CallCounter


@dataclass(frozen=True, kw_only=True)
class ScriptedBackend:
    """Answers by a function of the request and the draw; it may raise as real endpoints do.

    Hand it to `Models(backends={"openai": ScriptedBackend(…)})`.
    """

    respond: Callable[[ChatRequest, int], str | ChatReply]
    asked: list[ChatRequest] = field(default_factory=list[ChatRequest])
    """Every request that reached it, attempts included."""
    counter: CallCounter | None = None

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """Call the function."""
        self.asked.append(request)
        if self.counter is not None:
            self.counter.count(f"model {ref.label} {draw}")
        said = self.respond(request, draw)
        if isinstance(said, ChatReply):
            return said
        words = sum(len(message.content.split()) for message in request.messages)
        usage = Usage(requests=1, input_tokens=words, output_tokens=len(said.split()))
        return ChatReply(text=said, usage=usage, model=ref.name)

    def check(self, ref: ModelRef) -> None:
        """A script can always be asked."""
        del ref

    def identity(self, ref: ModelRef) -> str:
        """A script is its reference."""
        del ref
        return ""

    async def close(self) -> None:
        """There is nothing to let go of."""
