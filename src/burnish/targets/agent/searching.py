"""Retrieval tools: passages found in the sources that a tool names."""

from typing import Any

from pydantic_ai.tools import Tool

from burnish.models.factory import Models
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.tool_blocks import HierarchicalTool, VectorstoreTool


class SearchTools:
    """The indexes of an agent's sources, shared by all its candidates."""

    def __init__(self, agent: LoadedAgent, models: Models) -> None:
        self._agent = agent
        self._models = models

    def tool(self, block: VectorstoreTool | HierarchicalTool) -> Tool[Any]:
        """The tool that searches one source."""
        raise NotImplementedError
