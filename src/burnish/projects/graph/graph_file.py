"""The graph file as a project: what stands in it beside the graph itself."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from burnish.models.model_block import ModelBlock
from burnish.projects.agent_blocks import Text
from burnish.projects.backprop_block import BackpropBlock
from burnish.projects.case_splits import SplitFile
from burnish.projects.prompts.project_file import CoordinateBlock
from burnish.projects.reflective_block import ReflectiveBlock
from burnish.system.settings import Repeats, Settings
from burnish.targets.graph.blocks import GraphBlock


class GraphOptimizerBlock(BackpropBlock):
    """How a graph is made better; the settings of back-propagation stand right in it."""

    strategy: Literal["backprop", "reflective", "coordinate"] | None = None
    repeats: Repeats | None = None
    """How often each case is run; `repeats` of the file unless said."""
    choices: dict[str, Annotated[list[Text], Field(min_length=1)]] = Field(
        default_factory=dict[str, list[str]]
    )
    """By surface (`#model`), the models to choose from."""
    ranges: dict[str, tuple[float, float]] = Field(default_factory=dict[str, tuple[float, float]])
    """By surface (`#model.temperature`), lowest and highest."""
    proposer: ModelBlock | None = None
    """Who fills the roles that nobody is named for; else the first model of the graph."""
    backwarder: ModelBlock | None = None
    aggregator: ModelBlock | None = None
    patcher: ModelBlock | None = None
    reflector: ModelBlock | None = None
    critic: ModelBlock | None = None
    applier: ModelBlock | None = None
    reflective: ReflectiveBlock = Field(default_factory=ReflectiveBlock)
    coordinate: CoordinateBlock = Field(default_factory=CoordinateBlock)


class GraphFile(SplitFile):
    """A graph file. What makes the graph itself is read, and checked, by the target."""

    description: JsonValue = None
    entry: JsonValue = None
    nodes: JsonValue = None
    edges: JsonValue = None
    global_instructions: JsonValue = None
    max_visits: JsonValue = None
    output: JsonValue = None
    graph: JsonValue = None
    python_path: JsonValue = None
    optimizer: GraphOptimizerBlock = Field(default_factory=GraphOptimizerBlock)


OWN_KEYS = frozenset(GraphFile.model_fields) - frozenset(GraphBlock.model_fields)
"""The keys that the graph itself does not have."""


class NamedSet(Settings):
    """A file of cases, and which of them."""

    file: Text
    """By its whole path."""
    cases: tuple[Text, ...] = ()
    """All of them when none is named."""


class AskedBlock(Settings):
    """What a request says instead of the file."""

    optimizer: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """Keys of the optimizer block."""
    train: tuple[NamedSet, ...] = ()
    holdout: tuple[NamedSet, ...] = ()
