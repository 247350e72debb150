"""Function tools: Python functions of the user's own, with schemas from their type hints."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.tools import Tool

from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.system.user_functions import leaving_no_bytecode
from burnish.targets.agent.tool_blocks import FunctionTool


def load_function(tool: FunctionTool, folder: Path) -> Callable[..., Any]:
    """The function that a tool names."""
    path = (folder / tool.file).resolve()
    home = str(folder.resolve())
    if home not in sys.path:
        sys.path.insert(0, home)
    if not path.is_file():
        raise _wrong(tool, f"{tool.file} is not a file")
    # A name of its own for each file: two agents may both have a tools.py.
    spec = importlib.util.spec_from_file_location(f"burnish_tools_{short_id(str(path))}", path)
    if spec is None or spec.loader is None:
        raise _wrong(tool, f"{tool.file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        with leaving_no_bytecode():
            spec.loader.exec_module(module)
    except Exception as error:
        raise _wrong(tool, f"{tool.file} raised {type(error).__name__}: {error}") from error
    function = getattr(module, tool.function, None)
    if not callable(function):
        raise _wrong(tool, f"{tool.file} has no function '{tool.function}'")
    return function


def function_tool(tool: FunctionTool, function: Callable[..., Any], description: str) -> Tool[Any]:
    """The function as a tool; its schema is in the file, or in its type hints."""
    try:
        if tool.parameters is None:
            return Tool(function, takes_ctx=False, name=tool.name, description=description)
        schema = parameters_schema(tool.parameters)
        return Tool.from_schema(function, tool.name, description, schema)
    except (UserError, TypeError, NameError) as error:
        raise _wrong(tool, f"no schema can be made for '{tool.function}': {error}") from error


def parameters_schema(parameters: dict[str, dict[str, Json]]) -> dict[str, Any]:
    """The parameters of a file as a JSON schema; a parameter with a default may be left out."""
    needed = [
        name
        for name, told in parameters.items()
        if "default" not in told and told.get("required", True)
    ]
    properties = {
        name: {key: value for key, value in told.items() if key != "required"}
        for name, told in parameters.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": needed,
        "additionalProperties": False,
    }


def _wrong(tool: FunctionTool, message: str) -> ConfigError:
    return ConfigError([Problem(where=f"tool {tool.name}", message=message)])
