"""Retrieval tools: passages found in the sources that a tool names."""

from collections.abc import Sequence
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import Tool

from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.models.providers import find_provider
from burnish.models.references import ModelRef
from burnish.retrieval import (
    Embedder,
    Hit,
    Indexes,
    SearchSettings,
    SourceSettings,
    embedder_for,
    search,
    usual_embedder,
)
from burnish.retrieval.embedders import WITHOUT
from burnish.targets.agent.blocks import AgentTool, HierarchicalTool, VectorstoreTool
from burnish.targets.agent.conversation import RunLog
from burnish.targets.agent.files import LoadedAgent

_NOTHING_FOUND = "nothing was found"


class SearchTools:
    """The indexes of an agent's sources: made once, shared by all candidates and cases."""

    def __init__(self, agent: LoadedAgent, models: Models) -> None:
        self._agent = agent
        self._models = models
        self._indexes = Indexes()
        self._embedders: dict[tuple[ModelRef | None, int | None], Embedder | None] = {}

    def contents(self, tools: Sequence[AgentTool]) -> dict[str, str]:
        """The content that each tool searches, as a hash; raises where it cannot be read."""
        return {
            tool.name: self._indexes.hash_of(self._source(tool), self._embedder(tool))
            for tool in tools
            if isinstance(tool, VectorstoreTool | HierarchicalTool)
        }

    def notes(self, tools: Sequence[AgentTool]) -> list[str]:
        """What the user should know of how the tools search."""
        return [
            f"tool {tool.name}: {WITHOUT}"
            for tool in tools
            if isinstance(tool, VectorstoreTool | HierarchicalTool)
            and getattr(tool, "search_mode", "semantic") != "keyword"
            and self._embedder(tool) is None
        ]

    def tool(self, block: VectorstoreTool | HierarchicalTool) -> Tool[RunLog]:
        """The tool that searches one source."""
        source, settings, embedder = self._source(block), _settings(block), self._embedder(block)

        async def find(ctx: RunContext[RunLog], query: str) -> ToolReturn[str]:
            effects = ctx.deps.effects
            index = await self._indexes.open(source, embedder=embedder, effects=effects)
            hits = await search(index, query, settings, embedder=embedder, effects=effects)
            return ToolReturn(_passages(hits), metadata=tuple(hit.chunk.passage for hit in hits))

        return Tool(
            find, takes_ctx=True, name=f"{block.name}_search", description=block.description
        )

    async def close(self) -> None:
        """Let go of the indexes and the models."""
        self._indexes.close()
        for embedder in self._embedders.values():
            if embedder is not None:
                await embedder.close()
        self._embedders.clear()

    def _source(self, tool: VectorstoreTool | HierarchicalTool) -> SourceSettings:
        shared: dict[str, Any] = {"source": tool.source, "folder": self._agent.folder}
        if isinstance(tool, HierarchicalTool):
            return SourceSettings(
                **shared,
                chunking=tool.chunking_strategy,
                max_chunk_tokens=tool.max_chunk_tokens,
                chunk_overlap=tool.chunk_overlap,
            )
        fields = [tool.vector_field] if isinstance(tool.vector_field, str) else tool.vector_field
        size: dict[str, Any] = {
            "max_chunk_tokens": tool.chunk_size,
            "chunk_overlap": tool.chunk_overlap,
        }
        return SourceSettings(
            **shared,
            **{key: value for key, value in size.items() if value is not None},
            id_field=tool.id_field or "",
            vector_fields=tuple(fields or ()),
            meta_fields=tuple(tool.meta_fields or ()),
            field_separator=tool.field_separator,
            delimiter=tool.delimiter,
            record_path=tool.record_path,
        )

    def _embedder(self, tool: VectorstoreTool | HierarchicalTool) -> Embedder | None:
        ref = self._embedding_model(tool)
        size = tool.embedding_dimensions if isinstance(tool, VectorstoreTool) else None
        if (ref, size) not in self._embedders:
            if ref is None:
                self._embedders[ref, size] = usual_embedder()
            else:
                client = self._models.client(ref)
                self._embedders[ref, size] = embedder_for(client, dimensions=size)
        return self._embedders[ref, size]

    def _embedding_model(self, tool: VectorstoreTool | HierarchicalTool) -> ModelRef | None:
        """The tool's own model, by itself or at the agent's provider of embeddings, or that
        provider's."""
        block, named = self._agent.block, tool.embedding_model
        if isinstance(named, ModelBlock):
            return named.reference()
        provider = block.embedding_provider
        if provider is not None:
            return provider.model_copy(update={"name": named or provider.name}).reference()
        if named is None:
            return None
        if find_provider(named.partition(":")[0]) is not None and ":" in named:
            return ModelRef.parse(named)
        if block.model.row.has_embeddings:
            return block.model.model_copy(
                update={"name": named, "temperature": None, "max_tokens": None}
            ).reference()
        raise ConfigError([_no_provider(tool)])


def _settings(tool: VectorstoreTool | HierarchicalTool) -> SearchSettings:
    if isinstance(tool, VectorstoreTool):
        least = tool.min_similarity_score
        return SearchSettings(mode="semantic", top_k=tool.top_k, min_score=least)
    return SearchSettings(
        mode=tool.search_mode,
        top_k=tool.top_k,
        min_score=tool.min_score,
        semantic_weight=tool.semantic_weight,
        keyword_weight=tool.keyword_weight,
        exact_weight=tool.exact_weight,
        rrf_k=tool.rrf_k,
    )


def _passages(hits: Sequence[Hit]) -> str:
    """The passages as the model reads them."""
    passages = [
        f"[{number}] {hit.chunk.source}{f', {hit.chunk.place}' if hit.chunk.place else ''}\n"
        f"{hit.chunk.text}"
        for number, hit in enumerate(hits, start=1)
    ]
    return "\n\n".join(passages) or _NOTHING_FOUND


def _no_provider(tool: VectorstoreTool | HierarchicalTool) -> Problem:
    return Problem(
        where=f"tool {tool.name}",
        message=f"nobody is named who has the embedding model '{tool.embedding_model}'",
        remedy="add an embedding_provider, or take local:minilm",
    )
