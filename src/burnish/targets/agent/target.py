"""An agent file as a target: its models and tools, surfaces by path, runs and rehearsals."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from burnish.core.cases import Case, Outcome, Usage
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Description, Effects, Receipt, Role
from burnish.core.surfaces import (
    Candidate,
    Node,
    Origin,
    Position,
    Structure,
    Surface,
    Value,
    node_path,
)
from burnish.metrics.turns import DEFAULT_TURNS, NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelSettings
from burnish.targets.agent.blocks import (
    DEMONSTRATIONS,
    AgentBlock,
    HierarchicalTool,
    VectorstoreTool,
    demonstrations_of,
)
from burnish.targets.agent.files import (
    INSTRUCTIONS,
    LoadedAgent,
    edit,
    export_agent,
    is_instructions,
    positions_of,
    response_schema,
    value_at,
)

if TYPE_CHECKING:
    from burnish.targets.agent.conversation import AgentParts
    from burnish.targets.agent.tools import SearchTools


_CHARS = 4
"""Characters that make about one token."""


def forecast(agent: LoadedAgent, client: ModelClient, case: Case, spend: Spend) -> Spend:
    """Add the expected tokens and money to the calls of `spend`; each turn repeats the last."""
    context = len(agent.instructions.text) + sum(len(m.content) for m in case.history)
    context += sum(demo.size for demo in demonstrations_of(agent.block))
    read = written = 0
    most = client.ref.settings.max_tokens or math.inf
    for turn in (case.turns * spend.calls)[: spend.calls]:
        context += len(turn.input)
        read += math.ceil(context / _CHARS)
        # A reply is a little longer than its reference.
        reply = 150 if turn.expected is None else len(turn.expected) // _CHARS + 16
        written += int(min(reply, most))
        context += reply * _CHARS
    usage = Usage(requests=spend.calls, input_tokens=read, output_tokens=written)
    cost = client.prices.nano_usd(client.ref, usage) if client.priced else 0
    return replace(spend, nano_usd=cost or 0, tokens_in=read, tokens_out=written)


def client_for(models: Models, block: AgentBlock) -> ModelClient:
    """The client of the agent's model, without the default temperature if the model takes none."""
    # A timeout of the model itself is the more specific one.
    ref = block.model.reference(ModelSettings(timeout=block.execution.llm_timeout))
    client = models.client(ref)
    if "temperature" in block.model.model_fields_set:
        return client
    try:
        client.check()
    except ModelRefused:
        bare = models.client(replace(ref, settings=replace(ref.settings, temperature=None)))
        with suppress(ModelRefused):
            bare.check()
            return bare
    return client


_NOT_THE_AGENT = ("kind", "evaluations", "test_cases", "test_cases_file", "execution", "author",
                  "observability", "deployment", "claude", "openai", "description")  # fmt: skip


class AgentRunner:
    """An agent file that can run under any candidate."""

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
        self.surfaces: Sequence[Surface] = tuple(surfaces)
        self._models = models
        self._user = user
        """Plays the user of a scenario."""
        self._search = _search_tools(agent, models)
        self._sources = self._search.contents(agent.block.tools) if self._search else {}
        self._toolbox = Toolbox(agent, self._search)
        self._ready: OrderedDict[str, AgentParts] = OrderedDict()
        self._making = asyncio.Lock()
        self.client = client_for(models, agent.block)

    @property
    def description(self) -> Description:
        """The keys that concern the agent, and hashes of the files it names."""
        about = {
            key: value for key, value in self.agent.described.items() if key not in _NOT_THE_AGENT
        }
        contents: dict[str, Json] = {**self.agent.contents, "sources": {**self._sources}}
        return Description(kind="agent", config={"agent": about, "contents": contents})

    @property
    def notes(self) -> list[str]:
        """What the user should know before the start."""
        searching = self._search.notes(self.agent.block.tools) if self._search else []
        return [*self.agent.block.ignored(), *searching]

    @property
    def schemas(self) -> dict[str, Json]:
        """The JSON schema of each tool's arguments, by name."""
        return self._toolbox.schemas()

    def check(self, candidate: Candidate) -> Sequence[Problem]:
        try:
            edit(self.agent, candidate.values)
        except ConfigError as error:
            return error.problems
        return ()

    async def parts(self, candidate: Candidate) -> "AgentParts":
        """The agent of a candidate; the parts of the last 16 candidates are kept."""
        async with self._making:
            if candidate.id not in self._ready:
                self._ready[candidate.id] = await self._make(candidate)
            self._ready.move_to_end(candidate.id)
            while len(self._ready) > 16:
                self._ready.popitem(last=False)
            return self._ready[candidate.id]

    async def close(self) -> None:
        """Stop the servers of its tools and close their indexes."""
        self._ready.clear()
        await self._toolbox.close()
        if self._search is not None:
            await self._search.close()

    async def _make(self, candidate: Candidate) -> "AgentParts":
        from burnish.targets.agent.conversation import AgentParts

        edited = edit(self.agent, candidate.values)
        demos = edited.demonstrations
        return AgentParts(
            name=node_path(edited.block.name),
            instructions=edited.instructions,
            client=client_for(self._models, edited.block),
            toolsets=await self._toolbox.toolsets(edited.block.tools),
            folder=self.agent.folder,
            surfaces=tuple(surface.id for surface in self.surfaces),
            schema=response_schema(self.agent, edited.block),
            demonstrations=demonstrations_of(edited.block) if demos is None else demos,
            user=self._user,
        )


def _search_tools(agent: LoadedAgent, models: Models) -> "SearchTools | None":
    """Retrieval is imported only if a tool searches."""
    if not any(isinstance(tool, VectorstoreTool | HierarchicalTool) for tool in agent.block.tools):
        return None
    from burnish.targets.agent.tools import SearchTools

    return SearchTools(agent, models)


# -- The target ------------------------------------------------------------------------------------


class AgentTarget(AgentRunner):
    """An agent as its file describes it."""

    leaf = False

    @property
    def structure(self) -> Structure:
        """A graph of one node."""
        name = self.agent.block.name
        node = node_path(name)
        return Structure.of(node, [Node(id=node, name=name)], (), self.positions(node))

    def positions(self, node: str) -> tuple[Position, ...]:
        """What can be edited, as positions of this node."""
        positions = positions_of(self.agent, node, self.schemas)
        offered = {
            INSTRUCTIONS[0] if is_instructions(surface.id) else surface.id: surface.id
            for surface in self.surfaces
        }
        return tuple(replace(each, surface=offered.get(each.surface, "")) for each in positions)

    @property
    def baseline(self) -> Candidate:
        values = {surface.id: self._current_value(surface.id) for surface in self.surfaces}
        return Candidate(values=values, origin=Origin(kind="baseline"))

    async def run(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects
    ) -> Receipt[Outcome]:
        parts = await self.parts(candidate)
        outcome = await parts.run(case, draw=draw, effects=effects)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """Run the case as far as `effects` know it, without calling the user's tools."""
        from burnish.targets.agent.conversation import rehearse_case

        parts, tools = await self.parts(candidate), self.agent.block.tools
        return await rehearse_case(parts, case, tools, draw=draw, effects=effects, past=past)

    def estimate(self, case: Case) -> Spend:
        """One call per turn; tools may take more."""
        turns = len(case.turns)
        if case.scenario is not None:
            turns = case.scenario.max_turns or DEFAULT_TURNS
        return self.client.estimate().times(turns)

    def forecast(self, case: Case) -> Spend:
        """The estimate with tokens and money."""
        spend = self.estimate(case)
        return forecast(self.agent, self.client, case, spend) if spend.calls else spend

    @property
    def plan_summary(self) -> str:
        """Its name and its model."""
        return f"{self.agent.block.name}, {self.client.ref.label}"

    def export(self, candidate: Candidate, home: Path) -> Mapping[str, bytes]:
        """The agent file with these values in it, so that it loads from `home`."""
        return export_agent(self.agent, edit(self.agent, candidate.values), home)

    def _current_value(self, path: str) -> Value:
        if is_instructions(path):
            return self.agent.instructions.text
        if path == DEMONSTRATIONS:
            return demonstrations_of(self.agent.block)
        return cast("Value", value_at(self.agent.block, path))
