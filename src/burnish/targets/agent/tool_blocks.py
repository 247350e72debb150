"""The tools of an agent file, as it spells them."""

import math
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from burnish.core.bounds import AboveZero, AtLeastOne, NoneOrMore, Share
from burnish.models.model_block import ModelBlock

Places: TypeAlias = Annotated[int, Field(ge=1, le=100)]
WEIGHTS = ("semantic_weight", "keyword_weight", "exact_weight")
"""The weights of a hybrid search; together they are 1."""


class ToolBlock(BaseModel):
    """What every tool has."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    without_effect: ClassVar[tuple[str, ...]] = ()
    """Keys that are read, and that burnish does nothing with."""

    name: Annotated[str, Field(pattern=r"^[0-9A-Za-z_]+$")]
    description: Annotated[str, Field(min_length=1)]
    defer_loading: bool = True

    def ignored(self) -> list[str]:
        """The keys that this file sets to no effect."""
        return [key for key in self.without_effect if getattr(self, key) not in (None, False, [])
                and key in self.model_fields_set]  # fmt: skip


class FunctionTool(ToolBlock):
    """A Python function."""

    type: Literal["function"]
    file: str
    function: str
    parameters: dict[str, dict[str, JsonValue]] | None = None
    """By name, a JSON schema each; taken from the type hints where it is left out."""


class VectorstoreTool(ToolBlock):
    """Passages that are near in meaning."""

    without_effect: ClassVar[tuple[str, ...]] = ("database", "record_prefix", "meta_prefix")

    type: Literal["vectorstore"]
    source: str
    embedding_model: str | ModelBlock | None = None
    """A name at the agent's provider of embeddings, `provider:name`, or a block that says more."""
    embedding_dimensions: int | None = None
    database: JsonValue = None
    top_k: Places = 5
    min_similarity_score: Share | None = None
    chunk_size: AtLeastOne | None = None
    chunk_overlap: NoneOrMore | None = None
    vector_field: str | list[str] | None = None
    id_field: str | None = None
    meta_fields: list[str] | None = None
    field_separator: str = "\n"
    delimiter: str | None = None
    record_path: str | None = None
    record_prefix: str | None = None
    meta_prefix: str | None = None

    @model_validator(mode="after")
    def _structured(self) -> "VectorstoreTool":
        if self.vector_field and not self.id_field:
            raise ValueError("vector_field needs an id_field")
        return self


class HierarchicalTool(ToolBlock):
    """Passages of structured documents, found by meaning and by words."""

    without_effect: ClassVar[tuple[str, ...]] = (
        "database",
        "keyword_index",
        "enable_reranking",
        "reranker_model",
        "contextual_embeddings",
        "context_model",
        "context_max_tokens",
        "context_concurrency",
        "extract_definitions",
        "extract_cross_references",
        "document_domain",
        "max_subsection_depth",
    )

    type: Literal["hierarchical_document"]
    source: str
    chunking_strategy: Literal["structure", "token"] = "structure"
    max_chunk_tokens: Annotated[int, Field(ge=100, le=2000)] = 800
    chunk_overlap: Annotated[int, Field(ge=0, le=200)] = 50
    document_domain: Literal[
        "none", "us_legislative", "au_legislative", "academic", "technical", "legal_contract"
    ] = "none"
    max_subsection_depth: int | None = None
    search_mode: Literal["semantic", "keyword", "hybrid"] = "hybrid"
    top_k: Places = 10
    min_score: Share | None = None
    semantic_weight: Share = 0.5
    keyword_weight: Share = 0.3
    exact_weight: Share = 0.2
    rrf_k: AtLeastOne = 60
    contextual_embeddings: bool = True
    context_max_tokens: int | None = None
    context_concurrency: int | None = None
    context_model: JsonValue = None
    extract_definitions: bool | None = None
    extract_cross_references: bool | None = None
    enable_reranking: bool = False
    reranker_model: JsonValue = None
    embedding_model: str | ModelBlock | None = None
    """A name at the agent's provider of embeddings, `provider:name`, or a block that says more."""
    database: JsonValue = None
    keyword_index: JsonValue = None

    @model_validator(mode="after")
    def _weighed(self) -> "HierarchicalTool":
        if self.search_mode != "hybrid":
            return self
        if abs(math.fsum(getattr(self, key) for key in WEIGHTS) - 1) > 1e-6:
            raise ValueError(f"in a hybrid search {', '.join(WEIGHTS)} must add up to 1")
        if self.semantic_weight + self.keyword_weight <= 0:
            raise ValueError("semantic_weight and keyword_weight may not both be 0")
        return self


class McpTool(ToolBlock):
    """A server of tools that speaks MCP."""

    without_effect: ClassVar[tuple[str, ...]] = (
        "config",
        "load_prompts",
        "registry_name",
        "terminate_on_close",
    )

    type: Literal["mcp"]
    transport: Literal["stdio", "http", "sse", "websocket"] = "stdio"
    command: str | None = None
    args: list[str] = Field(default_factory=list[str])
    env: dict[str, str] = Field(default_factory=dict[str, str])
    env_file: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    timeout: AboveZero | None = None
    sse_read_timeout: AboveZero | None = None
    request_timeout: AboveZero = 60
    terminate_on_close: bool = True
    config: JsonValue = None
    load_tools: bool | list[str] = True
    load_prompts: bool = False
    is_retrieval: bool = False
    registry_name: str | None = None

    @model_validator(mode="after")
    def _reachable(self) -> "McpTool":
        if self.transport in ("sse", "websocket"):
            raise ValueError(
                f"the transport '{self.transport}' is not supported: use stdio or http"
            )
        if self.transport == "stdio" and not self.command:
            raise ValueError("stdio needs a command")
        if self.transport == "http" and not self.url:
            raise ValueError("http needs a url")
        return self


class PromptTool(ToolBlock):
    """A template that a model fills out."""

    type: Literal["prompt"]
    template: str | None = None
    file: str | None = None
    parameters: dict[str, dict[str, JsonValue]]
    model: Any = None

    @model_validator(mode="after")
    def _one_text(self) -> "PromptTool":
        if (self.template is None) == (self.file is None):
            raise ValueError("give template or file, one of the two")
        return self


AgentTool: TypeAlias = Annotated[
    FunctionTool | VectorstoreTool | HierarchicalTool | McpTool | PromptTool,
    Field(discriminator="type"),
]
