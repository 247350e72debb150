"""An agent file as a target: surfaces by path, candidates by editing, runs by pydantic-ai."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.effects import Effects, Receipt
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Description, Role
from burnish.core.structures import Node, Position, Structure, node_path
from burnish.core.surfaces import Surface, Value
from burnish.evaluation.simulation import DEFAULT_TURNS, NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import Models
from burnish.models.references import ModelSettings
from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.costs import forecast
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.editing import edit
from burnish.targets.agent.exporting import export_agent
from burnish.targets.agent.loading import LoadedAgent, response_schema
from burnish.targets.agent.positions import positions_of
from burnish.targets.agent.surface_paths import (
    DEMONSTRATIONS,
    INSTRUCTIONS,
    is_instructions,
    value_at,
)
from burnish.targets.agent.tool_blocks import HierarchicalTool, VectorstoreTool

if TYPE_CHECKING:
    from burnish.targets.agent.running import AgentParts
    from burnish.targets.agent.searching import SearchTools

_KEPT = 16
"""Candidates whose agents are kept ready."""
_NOT_THE_AGENT = ("kind", "evaluations", "test_cases", "test_cases_file", "execution", "author",
                  "observability", "deployment", "claude", "openai", "description")  # fmt: skip


class AgentTarget:
    """An agent as its file describes it."""

    leaf = False

    def __init__(
        self,
        agent: LoadedAgent,
        models: Models,
        *,
        surfaces: Sequence[Surface] = (),
        user: Role[TalkSoFar, NextRemark] | None = None,
    ) -> None:
        from burnish.targets.agent.toolbox import Toolbox

        self.agent = agent
        self._models = models
        self._surfaces = tuple(surfaces)
        self._user = user
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
    def surfaces(self) -> Sequence[Surface]:
        """What may be edited."""
        return self._surfaces

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
        found = positions_of(self.agent, node, self.schemas)
        offered = {_usual(surface.id): surface.id for surface in self._surfaces}
        return tuple(replace(each, surface=offered.get(each.surface, "")) for each in found)

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
        from burnish.targets.agent.running import run_case

        parts = await self.parts(candidate)
        outcome = await run_case(parts, case, draw=draw, effects=effects)
        return Receipt(value=outcome, missing=outcome.missing)

    async def rehearse(
        self, candidate: Candidate, case: Case, *, draw: int, effects: Effects, past: Outcome
    ) -> Outcome:
        """The case's conversation as far as `effects` know it; the user's tools are left alone."""
        from burnish.targets.agent.rehearsing import rehearse_case

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

    async def parts(self, candidate: Candidate) -> "AgentParts":
        """The agent of a candidate, made once while it is in use."""
        async with self._making:
            if candidate.id not in self._ready:
                self._ready[candidate.id] = await self._make(candidate)
            self._ready.move_to_end(candidate.id)
            while len(self._ready) > _KEPT:
                self._ready.popitem(last=False)
            return self._ready[candidate.id]

    async def _make(self, candidate: Candidate) -> "AgentParts":
        from burnish.targets.agent.running import AgentParts

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
    from burnish.targets.agent.searching import SearchTools

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
