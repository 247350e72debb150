"""Messages: what is said in a conversation, by whom, and which tools are used in it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from burnish.core.content import Json

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, kw_only=True)
class ToolUse:
    """A model's wish to use a tool."""

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Image:
    """A picture that goes with what is said."""

    media_type: str
    base64: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing said."""

    role: Speaker
    content: str
    images: tuple[Image, ...] = ()
    uses: tuple[ToolUse, ...] = ()
    """The tools an assistant wants to use."""
    answers: str = ""
    """The id of the tool use that this answers, where a tool speaks."""
    tool: str = ""
    """The tool that speaks."""
    verbatim: Json = None
    """An assistant's answer as its provider wants it back: thoughts and their signatures too."""
