"""Messages: what is said in a conversation, and by whom."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Speaker: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, kw_only=True)
class Message:
    """One thing said."""

    role: Speaker
    content: str
