"""Prompt tools: a template that the model fills in and gets back."""

import re
from typing import Any

from pydantic_ai.tools import Tool

from burnish.core.errors import ConfigError, Problem
from burnish.targets.agent.functions import parameters_schema
from burnish.targets.agent.tool_blocks import PromptTool

_PLACE = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}|\{([A-Za-z_]\w*)\}")


def prompt_tool(tool: PromptTool, template: str, description: str) -> Tool[Any]:
    """The template as a tool."""
    named = {name or plain for name, plain in _PLACE.findall(template)}
    unknown = sorted(named - set(tool.parameters))
    if unknown:
        raise ConfigError(
            [
                Problem(
                    where=f"tool {tool.name}",
                    message=f"the template has a place for '{name}', which is no parameter",
                    remedy=f"there are: {', '.join(tool.parameters)}",
                )
                for name in unknown
            ]
        )

    def fill(**given: Any) -> str:
        return _PLACE.sub(lambda found: str(given.get(found[1] or found[2], "")), template)

    return Tool.from_schema(fill, tool.name, description, parameters_schema(tool.parameters))
