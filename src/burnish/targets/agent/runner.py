"""An agent file with its models: its tools, its parts under a candidate, and rehearsals."""

import asyncio
import math
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from burnish.core.cases import Case, Usage
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import Spend
from burnish.core.protocols import Description, Role
from burnish.core.surfaces import Candidate, Surface, node_path
from burnish.metrics.turns import NextRemark, TalkSoFar
from burnish.models.chat import ModelClient
from burnish.models.errors import ModelRefused
from burnish.models.factory import AGENT, Models
from burnish.models.references import ModelSettings
from burnish.targets.agent.blocks import (
    AgentBlock,
    HierarchicalTool,
    VectorstoreTool,
    demonstrations_of,
)
from burnish.targets.agent.files import LoadedAgent, edit, response_schema

if TYPE_CHECKING:
    # Loads pydantic-ai, which takes a second: only an agent that is made needs it.
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
    tools = bool(block.tools)
    client = models.client(ref, role=AGENT, tools=tools)
    if "temperature" in block.model.model_fields_set:
        return client
    try:
        client.check()
    except ModelRefused:
        settings = replace(ref.settings, temperature=None)
        bare = models.client(replace(ref, settings=settings), role=AGENT, tools=tools)
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

    def secrets(self) -> Sequence[str]:
        """What its tools are sent and nobody may store."""
        return self.agent.secrets()

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
