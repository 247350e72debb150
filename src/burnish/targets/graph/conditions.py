"""Conditions of edges: whether what a node gave leads on to another node."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.targets.graph.calls import GivenFunction

Kind: TypeAlias = Literal["always", "contains", "equals", "matches", "python"]


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What must hold of a node's output for an edge to be taken."""

    kind: Kind
    text: str = ""
    function: GivenFunction | None = None

    def __post_init__(self) -> None:
        if self.kind == "matches":
            try:
                re.compile(self.text)
            except re.error as error:
                message = f"'{self.text}' is no regular expression: {error}"
                raise ConfigError([Problem(where="when.matches", message=message)]) from error

    @classmethod
    def of(cls, given: "Condition | Callable[[Any], Any] | str") -> "Condition":
        """A text means that the output contains it; a function takes the output."""
        if isinstance(given, Condition):
            return given
        if isinstance(given, str):
            return cls(kind="contains", text=given)
        return cls(kind="python", function=GivenFunction.of(given))

    @property
    def described(self) -> Json:
        """The condition as data."""
        told: Json = self.function.described if self.function else self.text
        return {self.kind: told}

    def reads(self, text: str) -> bool:
        """Whether it holds of a text; a function is asked elsewhere."""
        match self.kind:
            case "contains":
                return self.text in text
            case "equals":
                return self.text.strip() == text.strip()
            case "matches":
                return re.search(self.text, text) is not None
            case _:
                return True
