"""Retrieval tools: passages from the sources that a tool names."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai.messages import ToolReturn
from pydantic_ai.tools import Tool

from burnish.core.errors import ConfigError, Problem
from burnish.models.factory import ModelBlock, Models
from burnish.models.references import ModelRef, split_reference
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

_SearchTool: TypeAlias = VectorstoreTool | HierarchicalTool


class SearchTools:
    """The indexes of an agent's sources, shared by all candidates and cases."""

    def __init__(self, agent: LoadedAgent, models: Models) -> None:
        self._agent = agent
        self._models = models
        self._indexes = Indexes()
        self._embedders: dict[tuple[ModelRef | None, int | None], Embedder | None] = {}

    def contents(self, tools: Sequence[AgentTool]) -> dict[str, str]:
        """A hash of the content that each tool searches; raises if it cannot be read."""
        return {
            tool.name: self._indexes.hash_of(self._source(tool), self._embedder(tool))
            for tool in tools
            if isinstance(tool, _SearchTool)
        }

    def notes(self, tools: Sequence[AgentTool]) -> list[str]:
        """What the user should know about how the tools search."""
        return [
            f"tool {tool.name}: {WITHOUT}"
            for tool in tools
            if isinstance(tool, _SearchTool)
            and getattr(tool, "search_mode", "semantic") != "keyword"
            and self._embedder(tool) is None
        ]

    def tool(self, block: _SearchTool) -> Tool[RunLog]:
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
        """Close the indexes and the models."""
        self._indexes.close()
        for embedder in self._embedders.values():
            if embedder is not None:
                await embedder.close()
        self._embedders.clear()

    def _source(self, tool: _SearchTool) -> SourceSettings:
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

    def _embedder(self, tool: _SearchTool) -> Embedder | None:
        ref = self._embedding_model(tool)
        size = tool.embedding_dimensions if isinstance(tool, VectorstoreTool) else None
        if (ref, size) not in self._embedders:
            if ref is None:
                self._embedders[ref, size] = usual_embedder()
            else:
                client = self._models.client(ref)
                self._embedders[ref, size] = embedder_for(client, dimensions=size)
        return self._embedders[ref, size]

    def _embedding_model(self, tool: _SearchTool) -> ModelRef | None:
        """The tool's own model, or one of the agent's provider of embeddings."""
        block, named = self._agent.block, tool.embedding_model
        if isinstance(named, ModelBlock):
            return named.reference()
        provider = block.embedding_provider
        if provider is not None:
            return provider.model_copy(update={"name": named or provider.name}).reference()
        if named is None:
            return None
        if split_reference(named) is not None:
            return ModelRef.parse(named)
        if block.model.row.has_embeddings:
            return block.model.model_copy(
                update={"name": named, "temperature": None, "max_tokens": None}
            ).reference()
        message = f"no provider is set for the embedding model '{named}'"
        remedy = "add an embedding_provider, or use local:minilm"
        raise ConfigError([Problem(where=f"tool {tool.name}", message=message, remedy=remedy)])


def _settings(tool: _SearchTool) -> SearchSettings:
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
    passages = [
        f"[{number}] {hit.chunk.source}{f', {hit.chunk.place}' if hit.chunk.place else ''}\n"
        f"{hit.chunk.text}"
        for number, hit in enumerate(hits, start=1)
    ]
    return "\n\n".join(passages) or "nothing was found"
