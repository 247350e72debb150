"""Tools of workers: what each is told to be, and how one use of it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from burnish.core.content import Json
from burnish.models.chat import ToolSpec
from burnish.targets.agent.tool_blocks import FunctionTool, McpTool

OwnTool: TypeAlias = FunctionTool | McpTool
"""A tool of the user's own, as a workflow file names it."""
BUILT_IN = ("file_read", "file_write", "file_list", "file_delete", "run_command")


class ToolRefused(Exception):
    """A tool did not do what it was asked for; the message is for the worker."""


class WorkerTool(Protocol):
    """Something that a worker can use."""

    @property
    def spec(self) -> ToolSpec:
        """As the model is told of it."""
        ...

    @property
    def only_looks(self) -> bool:
        """Whether it surely leaves the workspace as it is."""
        ...

    async def use(self, arguments: Mapping[str, Json]) -> str:
        """What comes back. Raises ToolRefused."""
        ...


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """All tools of a run, by name."""

    tools: Mapping[str, WorkerTool]

    def allowed(self, names: Sequence[str]) -> dict[str, WorkerTool]:
        """Those that a manager allows, under this spelling or that of other systems; none, all."""
        wanted = {_spelled(name) for name in names}
        if not wanted:
            return dict(self.tools)
        return {name: tool for name, tool in self.tools.items() if name in wanted}

    def listed(self) -> str:
        """One line a tool, for the manager."""
        return "\n".join(
            f"- {name}: {tool.spec.description.splitlines()[0]}"
            for name, tool in self.tools.items()
        )


def _spelled(name: str) -> str:
    return "run_command" if name in ("code.execute", "shell") else name.replace(".", "_")


def text_of(arguments: Mapping[str, Json], name: str, *, otherwise: str | None = None) -> str:
    """A text among the arguments."""
    value = arguments.get(name, otherwise)
    if not isinstance(value, str):
        raise ToolRefused(f"'{name}' must be a text")
    return value


def readable(text: str) -> str:
    """The text without halves of characters, which no file and no model can hold."""
    return text.encode("utf-8", "replace").decode()


def schema(required: Sequence[str], **properties: str) -> dict[str, Json]:
    """The JSON schema of arguments that are texts, each with its description."""
    described: dict[str, Json] = {
        name: {"type": "string", "description": told} for name, told in properties.items()
    }
    return {
        "type": "object",
        "properties": described,
        "required": list(required),
        "additionalProperties": False,
    }
