"""Rehearsing a case: the agent on effects alone, with the user's own tools left alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.core.effects import Call, Effects, Receipt
from burnish.core.outcomes import Outcome, ToolCall
from burnish.targets.agent.run_log import LoggedToolset, RunLog
from burnish.targets.agent.running import AgentParts, run_case
from burnish.targets.agent.tool_blocks import AgentTool, FunctionTool


async def rehearse_case(
    parts: AgentParts,
    case: Case,
    tools: Sequence[AgentTool],
    *,
    draw: int,
    effects: Effects,
    past: Outcome,
) -> Outcome:
    """The conversation of a case as it would go; nobody's function is called, nothing fetched."""
    for turn in case.turns:
        for attachment in turn.attachments:
            if attachment.url:
                await beyond(effects, "download", attachment.url)
    own = frozenset(tool.name for tool in tools if isinstance(tool, FunctionTool))
    calls = tuple(call for step in past.trace.steps for call in step.tools)
    toolsets = tuple(_rehearsed(toolset, own, calls) for toolset in parts.toolsets)
    return await run_case(replace(parts, toolsets=toolsets), case, draw=draw, effects=effects)


@dataclass
class RememberedToolset(WrapperToolset[RunLog]):
    """Tools that act in the user's world: what they said is said again, and no more than that."""

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
        """What the tool said to the same call; a tool that is burnish's own is called."""
        if self.acting is not None and name not in self.acting:
            return await super().call_tool(name, tool_args, ctx, tool)
        for call in self.calls:
            same = (call.name, call.id, dict(call.arguments)) == (name, ctx.tool_call_id, tool_args)
            if same and not call.error:
                ctx.deps.calls.append(call)
                return call.result
        return await beyond(ctx.deps.effects, "tool", name)


def _rehearsed(
    toolset: AbstractToolset[RunLog], own: frozenset[str], calls: tuple[ToolCall, ...]
) -> AbstractToolset[RunLog]:
    """Searches and prompts are burnish's own; functions and all tools of a server are not."""
    wrapped = toolset.wrapped if isinstance(toolset, LoggedToolset) else toolset
    acting = own if isinstance(wrapped, FunctionToolset) else None
    return RememberedToolset(toolset, calls=calls, acting=acting)


async def beyond(effects: Effects, kind: str, what: str) -> bool:
    """Ask for what no journal holds: a rehearsal ends here."""

    async def perform(nested: Effects) -> Receipt[bool]:
        del nested
        return Receipt(value=False)

    return await effects.once(Call(kind=kind, request=what, codec=codec(bool)), perform)
