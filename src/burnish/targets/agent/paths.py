"""Paths to fields of an agent file, and the demonstrations in it."""

import difflib
import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from pydantic import BaseModel

from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.surfaces import DemonstratedCall, Demonstration
from burnish.models.factory import model_keys
from burnish.targets.agent.blocks import (
    AgentBlock,
    AgentTool,
    HierarchicalTool,
    McpTool,
    VectorstoreTool,
)

INSTRUCTIONS = ("instructions", "instructions.inline", "instructions.file")
"""All three mean the text of the instructions, inline or in a file."""
DEMONSTRATIONS = "demonstrations"

_STEP = re.compile(r"\.?([A-Za-z_]\w*)|\[(\d+)\]|\[([A-Za-z_]\w*)=([^\]]+)\]")


@dataclass(frozen=True)
class Named:
    """The item of a list that has this value under this key."""

    key: str
    value: str


_Step: TypeAlias = str | int | Named


def parse_path(path: str) -> tuple[_Step, ...]:
    """Parse a path into its steps."""
    steps: list[_Step] = []
    at = 0
    while at < len(path):
        match = _STEP.match(path, at)
        if match is None or (not steps and path[at] in ".["):
            raise _wrong(path, "not a path; write it like tools[name=archive].top_k")
        name, index, key, value = match.groups()
        steps.append(name or (int(index) if index else Named(key, value.strip("'\""))))
        at = match.end()
    if not steps:
        raise _wrong(path, "the path is empty")
    return tuple(steps)


def is_instructions(path: str) -> bool:
    """Whether the path means the text of the instructions."""
    return path in INSTRUCTIONS


def value_at(block: BaseModel, path: str) -> Any:
    """The value in a validated file, or its default."""
    node: Any = block
    for step in parse_path(path):
        node = _below(node, step, path)
    return node


def put_at(root: MutableMapping[str, Any], path: str, value: Any) -> None:
    """Set a value in the file's tree; missing blocks are created."""
    node: Any = root
    *way, last = parse_path(path)
    for step in way:
        node = _into(node, step, path)
    if isinstance(last, Named):
        raise _wrong(path, "the path must end in a field")
    node[last] = value


def _into(node: Any, step: _Step, path: str) -> Any:
    if isinstance(step, Named):
        return _item(node, step, path)
    if isinstance(step, str) and isinstance(node, MutableMapping):
        mapping = cast("MutableMapping[str, Any]", node)
        if step == "model" and isinstance(short := mapping.get(step), str):
            mapping[step] = model_keys(short)  # `provider:name` has no room for settings
        return mapping.setdefault(step, {})
    return node[step]


def _below(node: Any, step: _Step, path: str) -> Any:
    if isinstance(step, Named):
        return _item(node, step, path)
    if isinstance(step, int):
        items = cast("Sequence[Any]", node if isinstance(node, list) else [])
        if step >= len(items):
            raise _wrong(path, f"there is no item {step}")
        return items[step]
    if isinstance(node, BaseModel) and step in type(node).model_fields:
        return getattr(node, step)
    if isinstance(node, Mapping) and step in node:
        return cast("Mapping[str, Any]", node)[step]
    raise _wrong(path, f"there is no '{step}'", _near(step, node))


def _item(node: Any, step: Named, path: str) -> Any:
    items = cast("list[Any]", node) if isinstance(node, list) else []
    names = [
        cast("Mapping[str, Any]", item).get(step.key)
        if isinstance(item, Mapping)
        else getattr(item, step.key, None)
        for item in items
    ]
    if step.value not in names:
        listing = ", ".join(str(name) for name in names) or "none"
        raise _wrong(path, f"nothing has {step.key} '{step.value}'", f"there are: {listing}")
    return items[names.index(step.value)]


def _near(step: str, node: Any) -> str:
    if isinstance(node, BaseModel):
        names = list(type(node).model_fields)
    else:
        names = list(cast("Mapping[str, Any]", node)) if isinstance(node, Mapping) else []
    near = difflib.get_close_matches(step, names, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"there are: {', '.join(names)}" if names else ""


def _wrong(path: str, message: str, remedy: str = "") -> ConfigError:
    return ConfigError([Problem(where=path, message=message, remedy=remedy)])


def demonstrations_of(block: AgentBlock) -> tuple[Demonstration, ...]:
    """The demonstrations of a file."""
    return tuple(
        Demonstration(
            input=demo.input,
            output=demo.output,
            case=demo.case,
            calls=tuple(
                DemonstratedCall.of(call.tool, call.arguments, call.result) for call in demo.calls
            ),
        )
        for demo in block.demonstrations
    )


def written(demo: Demonstration) -> Json:
    """A demonstration as a file has it."""
    data = codec(Demonstration).encode(demo)
    assert isinstance(data, dict)
    return {key: value for key, value in data.items() if value or key != "case"}


def unknown_tools(block: AgentBlock, demos: Sequence[Demonstration]) -> Iterator[Problem]:
    """Calls of tools that the agent does not have."""
    if any(isinstance(tool, McpTool) and tool.load_tools is True for tool in block.tools):
        return  # What a server offers is known once it runs.
    offered = [name for tool in block.tools for name in _offered(tool)]
    for number, demo in enumerate(demos):
        for place, call in enumerate(demo.calls):
            if call.tool not in offered:
                where = f"{DEMONSTRATIONS}[{number}].calls[{place}].tool"
                message = f"the agent has no tool '{call.tool}'"
                there = f"there are: {', '.join(offered)}" if offered else "the agent has none"
                near = difflib.get_close_matches(call.tool, offered, n=1)
                remedy = f"remove the call, or add the tool; {there}"
                if near:
                    remedy = f"did you mean '{near[0]}'?"
                yield Problem(where=where, message=message, remedy=remedy)


def _offered(tool: AgentTool) -> Sequence[str]:
    """The names under which a model sees a tool."""
    match tool:
        case VectorstoreTool() | HierarchicalTool():
            return [f"{tool.name}_search"]
        case McpTool():
            return tool.load_tools if isinstance(tool.load_tools, list) else []
        case _:
            return [tool.name]
