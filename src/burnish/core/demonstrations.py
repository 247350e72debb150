"""Demonstrations: worked examples that an agent is shown, with the tools that were used in them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, cast

from pydantic import BeforeValidator, Field, PlainSerializer

from burnish.core.content import Json, canonical


def _spelled(arguments: object) -> object:
    """Arguments by name as the text they are kept as."""
    if isinstance(arguments, Mapping):
        return canonical({**cast("Mapping[str, Json]", arguments)}).decode()
    return arguments


@dataclass(frozen=True, kw_only=True)
class DemonstratedCall:
    """One use of a tool in a worked example."""

    tool: str
    # In files it is an object like any other: to be read, and searched for secrets by key.
    arguments: Annotated[str, BeforeValidator(_spelled), PlainSerializer(json.loads)] = "{}"
    """A JSON object as text, spelled one way, so that calls can be compared and hashed."""
    result: str = ""
    """What came back, as the agent read it."""

    def __post_init__(self) -> None:
        given: Json = json.loads(self.arguments)
        if not isinstance(given, dict):
            raise ValueError(f"{self.tool}: the arguments are not a JSON object")  # noqa: TRY004
        object.__setattr__(self, "arguments", canonical(given).decode())

    @classmethod
    def of(cls, tool: str, arguments: Mapping[str, Json], result: str) -> "DemonstratedCall":
        """A call with its arguments by name."""
        return cls(tool=tool, arguments=canonical({**arguments}).decode(), result=result)

    @property
    def given(self) -> dict[str, Json]:
        """The arguments by name."""
        return json.loads(self.arguments)

    @property
    def size(self) -> int:
        """How many characters it takes."""
        return len(self.tool) + len(self.arguments) + len(self.result)

    def __str__(self) -> str:
        return f"{self.tool}({self.arguments}) = {self.result}"


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """One worked example shown to the agent."""

    input: str
    output: str
    case: str = ""
    """The case it came from, so that this case is never scored with its own answer in view."""
    # Left out of the spelling where there are none: ids made before there were calls still hold.
    calls: Annotated[tuple[DemonstratedCall, ...], Field(exclude_if=lambda calls: not calls)] = ()
    """The tools that were used on the way, in order."""

    @property
    def size(self) -> int:
        """How many characters it takes."""
        return len(self.input) + sum(call.size for call in self.calls) + len(self.output)

    def __str__(self) -> str:
        return " → ".join([self.input, *map(str, self.calls), self.output])
