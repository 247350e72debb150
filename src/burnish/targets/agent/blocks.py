"""The agent file: every key it may have, its bounds and defaults."""

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from burnish.core.bounds import AboveZero, AtLeastOne, Places
from burnish.evaluation.configs.reading import EvaluationsBlock
from burnish.models.model_block import ModelBlock
from burnish.models.references import ModelSettings
from burnish.targets.agent.tool_blocks import AgentTool, PromptTool

USUAL = ModelSettings(temperature=0.3, max_tokens=1000)
"""How a model is asked where the file leaves it open."""


class Block(BaseModel):
    """A block of an agent file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AgentModel(ModelBlock):
    """The model of an agent."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = USUAL.temperature
    max_tokens: AtLeastOne | None = USUAL.max_tokens


class InstructionsBlock(Block):
    """The system prompt: in a file of its own, or here."""

    file: str | None = None
    inline: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _mapping(cls, value: object) -> object:
        if isinstance(value, str):
            raise ValueError("write `inline:` before the text, or `file:` before a path")  # noqa: TRY004
        return value

    @model_validator(mode="after")
    def _one(self) -> "InstructionsBlock":
        if (self.file is None) == (self.inline is None):
            raise ValueError("give file or inline, one of the two")
        return self


class ExecutionBlock(Block):
    """How cases are run."""

    file_timeout: AboveZero | None = None
    llm_timeout: AboveZero = 60
    """Seconds for one answer of a model."""
    download_timeout: AboveZero | None = None
    cache_enabled: bool | None = None
    cache_dir: str | None = None
    verbose: bool | None = None
    quiet: bool | None = None
    parallel_test_cases: Places = 1
    """Cases at once; the turns of one case follow each other."""


class CallBlock(Block):
    """A use of a tool in a worked example."""

    tool: Annotated[str, Field(min_length=1)]
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    result: str = ""
    """What came back."""


class DemonstrationBlock(Block):
    """A worked example that the agent is shown before the conversation."""

    input: str
    output: str
    case: str = ""
    calls: list[CallBlock] = Field(default_factory=list[CallBlock])
    """The tools that are used between input and output, in order."""


class AgentBlock(Block):
    """An agent file."""

    without_effect: ClassVar[tuple[str, ...]] = ("observability", "deployment", "claude", "openai")

    name: Annotated[str, Field(min_length=1)]
    description: str | None = None
    author: str | None = None
    model: AgentModel
    instructions: InstructionsBlock
    demonstrations: list[DemonstrationBlock] = Field(default_factory=list[DemonstrationBlock])
    response_format: dict[str, JsonValue] | str | None = None
    """A JSON schema, or a file that holds one: the agent then answers with such an object."""
    tools: Annotated[list[AgentTool], Field(max_length=50)] = Field(default_factory=list[AgentTool])
    evaluations: EvaluationsBlock | None = None
    test_cases: JsonValue = None
    test_cases_file: str | None = None
    execution: ExecutionBlock = Field(default_factory=ExecutionBlock)
    embedding_provider: ModelBlock | None = None
    user_simulator: ModelBlock | None = None
    """Who plays the user in conversation scenarios."""
    observability: JsonValue = None
    deployment: JsonValue = None
    claude: JsonValue = None
    openai: JsonValue = None
    kind: Literal["agent"] | None = None
    """What the file is; its other keys tell as well."""

    @model_validator(mode="after")
    def _distinct(self) -> "AgentBlock":
        names = [tool.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"two tools have the same name: {', '.join(twice)}")
        if self.test_cases is not None and self.test_cases_file is not None:
            raise ValueError("give test_cases or test_cases_file, not both")
        return self

    def ignored(self) -> list[str]:
        """What this file says that has no effect here, in words."""
        blocks = [key for key in self.without_effect if key in self.model_fields_set]
        told = [f"the block {key} has no effect on an evaluation" for key in blocks]
        for tool in self.tools:
            keys = tool.ignored()
            told += [f"tool {tool.name}: {', '.join(keys)} has no effect here"] if keys else []
            if isinstance(tool, PromptTool) and tool.model is not None:
                told.append(f"tool {tool.name}: model has no effect here: it fills a template")
        used = ("file_timeout", "download_timeout", "cache_enabled", "cache_dir")
        keys = [key for key in used if getattr(self.execution, key) is not None]
        return told + ([f"execution: {', '.join(keys)} has no effect here"] if keys else [])
