"""What is said to a model and what it says, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from burnish.core.content import Json
from burnish.core.messages import Message, ToolUse
from burnish.core.outcomes import Usage
from burnish.models.references import ModelRef

Finish: TypeAlias = Literal["stop", "length", "content_filter", "tool_call", "other"]
Form: TypeAlias = Literal["json_schema", "json_object", "prompt"]
"""How a structured answer is requested: a schema that the endpoint enforces, JSON mode with the
schema in the prompt, or the prompt alone."""


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    """A JSON schema of its arguments."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A conversation up to where the model answers."""

    messages: tuple[Message, ...]
    schema: Mapping[str, Json] | None = None
    """The JSON schema that the answer must keep, where it is to be JSON."""
    schema_name: str = "answer"
    tools: tuple[ToolSpec, ...] = ()
    """The tools the model may ask for."""


@dataclass(frozen=True, kw_only=True)
class ChatReply:
    """What a model answered, once."""

    text: str
    uses: tuple[ToolUse, ...] = ()
    """The tools it asks for, before it can answer."""
    finish: Finish = "stop"
    """`length`: cut off, so never to be adopted as it is."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    """What the endpoint says it is."""
    seconds: float = 0.0
    form: Form | None = None
    """How a structured answer was requested; None where none was, or where nobody can tell."""
    verbatim: Json = None
    """The answer as its provider wants it back in the next request."""

    @property
    def message(self) -> Message:
        """The answer as a message of the conversation."""
        return Message(role="assistant", content=self.text, uses=self.uses, verbatim=self.verbatim)


class Backend(Protocol):
    """Reaches the models of some providers.

    Raises ModelUnavailable (try again), ModelRejected (this request will never do) or
    ModelRefused (nothing will do until the user changes something).
    """

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        """One attempt at one answer. `draw` names the sample: equal draws may be equal answers."""
        ...

    def check(self, ref: ModelRef) -> None:
        """Raise ModelRefused when this model cannot be asked: extra, key, file, setting missing.

        Costs nothing and calls nobody.
        """
        ...

    def identity(self, ref: ModelRef) -> str:
        """What tells this model from another under the same reference: a file's content.

        Empty where the reference says all that can be known.
        """
        ...

    async def close(self) -> None:
        """Let go of connections and memory."""
        ...
