"""A case once more from the journal, without the user's tools."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from burnish.core.cases import Case, Outcome, ToolCall
from burnish.core.protocols import Effects
from burnish.targets.agent.blocks import AgentTool, FunctionTool
from burnish.targets.agent.conversation import AgentParts, LoggedToolset, RunLog
from burnish.targets.agent.runner import beyond


async def rehearse_case(
    parts: AgentParts,
    case: Case,
    tools: Sequence[AgentTool],
    *,
    draw: int,
    effects: Effects,
    past: Outcome,
) -> Outcome:
    """Run a case without calling the user's functions or downloading anything."""
    for turn in case.turns:
        for attachment in turn.attachments:
            if attachment.url:
                await beyond(effects, "download", attachment.url)
    own = frozenset(tool.name for tool in tools if isinstance(tool, FunctionTool))
    calls = tuple(call for step in past.trace.steps for call in step.tools)
    toolsets: list[AbstractToolset[RunLog]] = []
    for toolset in parts.toolsets:
        wrapped = toolset.wrapped if isinstance(toolset, LoggedToolset) else toolset
        # Searches and prompts are burnish's own; functions and all tools of a server are not.
        acting = own if isinstance(wrapped, FunctionToolset) else None
        toolsets.append(_RememberedToolset(toolset, calls=calls, acting=acting))
    parts = replace(parts, toolsets=tuple(toolsets))
    return await parts.run(case, draw=draw, effects=effects)


@dataclass
class _RememberedToolset(WrapperToolset[RunLog]):
    """Repeats the recorded results of tools that act in the user's world."""

    calls: tuple[ToolCall, ...] = ()
    acting: frozenset[str] | None = None
    """The tools that act; None for all of them."""

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[RunLog],
        tool: ToolsetTool[RunLog],
    ) -> Any:
        if self.acting is not None and name not in self.acting:
            return await super().call_tool(name, tool_args, ctx, tool)
        for call in self.calls:
            same = (call.name, call.id, dict(call.arguments)) == (name, ctx.tool_call_id, tool_args)
            if same and not call.error:
                ctx.deps.calls.append(call)
                return call.result
        return await beyond(ctx.deps.effects, "tool", name)
