"""The demonstrations of an agent file: read, written, and held against the tools there are."""

import difflib
from collections.abc import Collection, Iterator, Sequence

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.demonstrations import DemonstratedCall, Demonstration
from burnish.core.errors import Problem
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.surface_paths import DEMONSTRATIONS
from burnish.targets.agent.tool_blocks import AgentTool, HierarchicalTool, McpTool, VectorstoreTool


def demonstrations_of(block: AgentBlock) -> tuple[Demonstration, ...]:
    """The worked examples of a file."""
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
    """A worked example as a file has it."""
    data = codec(Demonstration).encode(demo)
    assert isinstance(data, dict)
    return {key: value for key, value in data.items() if value or key != "case"}


def unknown_tools(block: AgentBlock, demos: Sequence[Demonstration]) -> Iterator[Problem]:
    """The calls of tools that the agent does not have: it would be taught what it cannot do."""
    if any(isinstance(tool, McpTool) and tool.load_tools is True for tool in block.tools):
        return  # What a server offers is known once it runs.
    known = [name for tool in block.tools for name in _offered(tool)]
    for number, demo in enumerate(demos):
        for place, call in enumerate(demo.calls):
            if call.tool not in known:
                where = f"{DEMONSTRATIONS}[{number}].calls[{place}].tool"
                message = f"the agent has no tool '{call.tool}'"
                yield Problem(where=where, message=message, remedy=_remedy(call.tool, known))


def _offered(tool: AgentTool) -> Sequence[str]:
    """The names under which a model is told of a tool."""
    match tool:
        case VectorstoreTool() | HierarchicalTool():
            return [f"{tool.name}_search"]
        case McpTool():
            return tool.load_tools if isinstance(tool.load_tools, list) else []
        case _:
            return [tool.name]


def _remedy(name: str, known: Collection[str]) -> str:
    if near := difflib.get_close_matches(name, known, n=1):
        return f"did you mean '{near[0]}'?"
    there = f"there are: {', '.join(known)}" if known else "it has none"
    return f"remove the call, or add the tool; {there}"
