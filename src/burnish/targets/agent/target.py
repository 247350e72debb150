"""An agent file as a target: surfaces by path, candidates by editing, runs and rehearsals."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic_ai import RunContext
from pydantic_ai.toolsets import AbstractToolset, FunctionToolset, WrapperToolset
from pydantic_ai.toolsets.abstract import ToolsetTool

from burnish.core.cases import Case
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome, ToolCall, Usage
from burnish.core.protocols import Call, Description, Effects, Receipt, Role
from burnish.core.structures import Node, Position, Structure, node_path
from burnish.core.surfaces import Candidate, Origin, Surface, Value
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelSettings
from burnish.targets.agent.blocks import (
    AgentBlock,
    AgentTool,
    FunctionTool,
    HierarchicalTool,
    VectorstoreTool,
)
from burnish.targets.agent.conversation import AgentParts, LoggedToolset, RunLog, run_case
from burnish.targets.agent.files import (
    LoadedAgent,
    edit,
    export_agent,
    positions_of,
    response_schema,
)
from burnish.targets.agent.paths import (
    DEMONSTRATIONS,
    INSTRUCTIONS,
    demonstrations_of,
    is_instructions,
    value_at,
)

if TYPE_CHECKING:
    from burnish.targets.agent.search import SearchTools


_CHARS = 4
"""Characters that make about one token."""
_REPLY = 150
"""Tokens of a reply where no reference tells how long one is."""
_SLACK = 16
"""Tokens that a reply has more than its reference."""


def forecast(agent: LoadedAgent, client: ModelClient, case: Case, spend: Spend) -> Spend:
    """The calls of `spend` with the tokens and the money that they are expected to take."""
    usage = _usage(agent, client, case, spend.calls)
    cost = client.prices.nano_usd(client.ref, usage) if client.priced else 0
    tokens = {"tokens_in": usage.input_tokens, "tokens_out": usage.output_tokens}
    return replace(spend, nano_usd=cost or 0, **tokens)


def _usage(agent: LoadedAgent, client: ModelClient, case: Case, calls: int) -> Usage:
    """Each turn says again what was said before."""
    standing = len(agent.instructions.text) + sum(
        demo.size for demo in demonstrations_of(agent.block)
    )
    context, read, written = standing + sum(len(m.content) for m in case.history), 0, 0
    most = client.ref.settings.max_tokens or math.inf
    for turn in (case.turns * calls)[:calls]:
        context += len(turn.input)
        read += math.ceil(context / _CHARS)
        reply = _REPLY if turn.expected is None else len(turn.expected) // _CHARS + _SLACK
        written += int(min(reply, most))
        context += reply * _CHARS
    return Usage(requests=calls, input_tokens=read, output_tokens=written)


# -- Rehearsing a case ----------------------------------------------------------------------------


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


# -- An agent file as a target --------------------------------------------------------------------


_KEPT = 16
"""Candidates whose agents are kept ready."""
_NOT_THE_AGENT = ("kind", "evaluations", "test_cases", "test_cases_file", "execution", "author",
                  "observability", "deployment", "claude", "openai", "description")  # fmt: skip


class EditableTarget:
    """What agents of files and graphs of them have in common."""

    leaf = False

    def __init__(
        self, surfaces: Sequence[Surface], user: Role[TalkSoFar, NextRemark] | None
    ) -> None:
        self._surfaces = tuple(surfaces)
        self._user = user
        """Who plays the user of a scenario."""

    @property
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited."""
        return self._surfaces


class AgentTarget(EditableTarget):
    """An agent as its file describes it."""

    def __init__(
        self,
        agent: LoadedAgent,
        models: Models,
        *,
        surfaces: Sequence[Surface] = (),
        user: Role[TalkSoFar, NextRemark] | None = None,
    ) -> None:
        from burnish.targets.agent.tools import Toolbox

        self.agent = agent
        self._models = models
        super().__init__(surfaces, user)
        self._search = _search_tools(agent, models)
        self._sources = self._search.contents(agent.block.tools) if self._search else {}
        self._toolbox: Toolbox = Toolbox(agent, self._search)
        self._ready: OrderedDict[str, AgentParts] = OrderedDict()
        self._making = asyncio.Lock()
        self.client = client_for(models, agent.block)

    @property
    def description(self) -> Description:
        """The file without what does not concern the agent, and hashes of the files it names."""
        about = {key: value for key, value in self.agent.data.items() if key not in _NOT_THE_AGENT}
        contents: dict[str, Json] = {**self.agent.contents, "sources": {**self._sources}}
        config: dict[str, Json] = {"agent": about, "contents": contents}
        return Description(kind="agent", config=config)

    @property
    def notes(self) -> list[str]:
        """What the user should know before the start."""
        searching = self._search.notes(self.agent.block.tools) if self._search else []
        return [*self.agent.notes, *searching]

    @property
    def structure(self) -> Structure:
        """A graph of one node."""
        name = self.agent.block.name
        node = node_path(name)
        return Structure.of(node, [Node(id=node, name=name)], (), self.positions(node))

    @property
    def schemas(self) -> dict[str, Json]:
        """What each tool takes, by its name."""
        return self._toolbox.schemas()

    def positions(self, node: str) -> tuple[Position, ...]:
        """What can be edited, as positions of this node."""
        positions = positions_of(self.agent, node, self.schemas)
        offered = {_usual(surface.id): surface.id for surface in self._surfaces}
        return tuple(replace(each, surface=offered.get(each.surface, "")) for each in positions)

    @property
    def baseline(self) -> Candidate:
        """The values the file has now."""
        values = {surface.id: self._now(surface.id) for surface in self._surfaces}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        """Whether the file still loads with these values in it."""
        try:
            edit(self.agent, candidate.values)
        except ConfigError as error:
            return error.problems
        return ()

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        """Have the case's conversation with the agent."""
        parts = await self.parts(candidate)
        outcome = await run_case(parts, case, draw=draw, effects=effects)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """The case's conversation as far as `effects` know it; the user's tools are left alone."""

        parts, tools = await self.parts(candidate), self.agent.block.tools
        return await rehearse_case(parts, case, tools, draw=draw, effects=effects, past=past)

    def estimate(self, case: Case) -> Spend:
        """One call a turn, as well as can be told: tools may take more."""
        turns = len(case.turns)
        if case.scenario is not None:
            turns = case.scenario.max_turns or DEFAULT_TURNS
        return self.client.estimate().times(turns)

    def forecast(self, case: Case) -> Spend:
        """The same with tokens and money."""
        spend = self.estimate(case)
        return forecast(self.agent, self.client, case, spend) if spend.calls else spend

    @property
    def plan_summary(self) -> str:
        """Its name and its model."""
        return f"{self.agent.block.name}, {self.client.ref.label}"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The agent file with these values in it, so that it loads from `home`."""
        return export_agent(self.agent, edit(self.agent, candidate.values), home)

    async def close(self) -> None:
        """Stop the servers of its tools, let go of their indexes."""
        self._ready.clear()
        await self._toolbox.close()
        if self._search is not None:
            await self._search.close()

    def _now(self, path: str) -> Value:
        if is_instructions(path):
            return self.agent.instructions.text
        if path == DEMONSTRATIONS:
            return demonstrations_of(self.agent.block)
        return cast("Value", value_at(self.agent.block, path))

    async def parts(self, candidate: Candidate) -> AgentParts:
        """The agent of a candidate, made once while it is in use."""
        async with self._making:
            if candidate.id not in self._ready:
                self._ready[candidate.id] = await self._make(candidate)
            self._ready.move_to_end(candidate.id)
            while len(self._ready) > _KEPT:
                self._ready.popitem(last=False)
            return self._ready[candidate.id]

    async def _make(self, candidate: Candidate) -> AgentParts:
        edited = edit(self.agent, candidate.values)
        demos = edited.demonstrations
        return AgentParts(
            name=node_path(edited.block.name),
            instructions=edited.instructions,
            client=client_for(self._models, edited.block),
            toolsets=await self._toolbox.toolsets(edited.block.tools),
            folder=self.agent.folder,
            surfaces=tuple(surface.id for surface in self._surfaces),
            schema=response_schema(self.agent, edited.block),
            demonstrations=demonstrations_of(edited.block) if demos is None else demos,
            user=self._user,
        )


def _usual(path: str) -> str:
    return INSTRUCTIONS[0] if is_instructions(path) else path


def _search_tools(agent: LoadedAgent, models: Models) -> "SearchTools | None":
    """What the agent searches with; retrieval loads only where a tool searches."""
    if not any(isinstance(tool, VectorstoreTool | HierarchicalTool) for tool in agent.block.tools):
        return None
    from burnish.targets.agent.search import SearchTools

    return SearchTools(agent, models)


def client_for(models: Models, block: AgentBlock) -> ModelClient:
    """The agent's model. A temperature that only the defaults ask for gives way where a model
    takes none."""
    ref = block.model.reference()
    ref = replace(ref, settings=replace(ref.settings, timeout=block.execution.llm_timeout))
    client = models.client(ref)
    if "temperature" in block.model.model_fields_set:
        return client
    try:
        client.check()
    except ModelRefused:
        settings: ModelSettings = replace(ref.settings, temperature=None)
        bare = models.client(replace(ref, settings=settings))
        return bare if _answers(bare) else client
    return client


def _answers(client: ModelClient) -> bool:
    try:
        client.check()
    except ModelRefused:
        return False
    return True
