"""The graph file: every key it may have, its bounds and defaults."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue, model_validator

from burnish.core.bounds import AtLeastOne
from burnish.models.model_block import ModelBlock
from burnish.targets.agent.blocks import (
    AgentModel,
    Block,
    DemonstrationBlock,
    ExecutionBlock,
    InstructionsBlock,
)
from burnish.targets.agent.tool_blocks import AgentTool
from burnish.targets.graph.graphs import MAX_VISITS

Visits: TypeAlias = AtLeastOne

AGENT_KEYS = (
    "model",
    "instructions",
    "tools",
    "demonstrations",
    "response_format",
    "embedding_provider",
    "execution",
)
"""The keys of an agent file that a node may have."""


class PythonBlock(Block):
    """Something in Python: `module:name`, found beside the file."""

    python: str


class ConditionBlock(Block):
    """What must hold of a node's output."""

    contains: str | None = None
    equals: str | None = None
    matches: str | None = None
    """A regular expression."""
    python: str | None = None
    """`module:function`, which takes the output and says yes or no."""
    always: Literal[True] | None = None

    @model_validator(mode="after")
    def _one(self) -> "ConditionBlock":
        if len([key for key in type(self).model_fields if getattr(self, key) is not None]) != 1:
            raise ValueError("give one of contains, equals, matches, python, always")
        return self


class EdgeBlock(Block):
    """An edge. `a -> b` is short for `{from: a, to: b}`."""

    source: Annotated[str, Field(alias="from", min_length=1)]
    to: Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
    when: ConditionBlock | str | None = None


class NodeBlock(Block):
    """A node: the file of an agent, a Python function, or an agent that is told here."""

    agent: str | None = None
    python: str | None = None
    model: AgentModel | None = None
    instructions: InstructionsBlock | None = None
    tools: list[AgentTool] | None = None
    demonstrations: list[DemonstrationBlock] | None = None
    response_format: dict[str, JsonValue] | str | None = None
    embedding_provider: ModelBlock | None = None
    execution: ExecutionBlock | None = None
    skills: list[str] = Field(default_factory=list[str])
    input: str = ""
    """A template with `{question}` and the names of nodes."""
    max_visits: Visits | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> "NodeBlock":
        told = [key for key in AGENT_KEYS if getattr(self, key) is not None]
        kinds = [key for key in ("agent", "python") if getattr(self, key) is not None]
        if len(kinds) + bool(told) != 1:
            raise ValueError("give agent, or python, or model and instructions")
        if told and (self.model is None or self.instructions is None):
            raise ValueError("an agent that is told here needs model and instructions")
        if self.python is not None and self.skills:
            raise ValueError("a function has no skills")
        return self


class GraphBlock(Block):
    """A graph file."""

    kind: Literal["graph"]
    name: Annotated[str, Field(min_length=1)] = ""
    description: str | None = None
    entry: str = ""
    """Where a turn begins; the first node where it is left out."""
    models: JsonValue = None
    """How models are called; read by projects."""
    nodes: dict[str, NodeBlock] = Field(default_factory=dict[str, NodeBlock])
    edges: list[str | EdgeBlock] = Field(default_factory=list[str | EdgeBlock])
    global_instructions: InstructionsBlock | None = None
    max_visits: Visits = MAX_VISITS
    output: str = ""
    """Whose last output is the reply; where it is left out, of the nodes where the run ended."""
    graph: PythonBlock | None = None
    """A graph that is told in Python, instead of nodes and edges."""
    python_path: str = "."
    """The folder in which functions are found, from this file."""

    @model_validator(mode="after")
    def _told_once(self) -> "GraphBlock":
        keys = {"nodes", "edges", "entry", "output", "global_instructions", "max_visits"}
        both = sorted(keys & self.model_fields_set)
        if self.graph is not None and both:
            raise ValueError(f"a graph in Python says itself: {', '.join(both)}")
        if self.graph is None and (not self.nodes or not self.name):
            raise ValueError("give a name and nodes, or graph with python")
        return self
