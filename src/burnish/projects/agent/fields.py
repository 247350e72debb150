"""Which fields of an agent file a search may change, and why it may not change the others."""

from collections.abc import Collection

from burnish.targets.agent.blocks import AgentBlock
from burnish.targets.agent.surface_paths import (
    DEMONSTRATIONS,
    Named,
    Step,
    is_instructions,
    parse_path,
)
from burnish.targets.agent.tool_blocks import (
    WEIGHTS,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    ToolBlock,
    VectorstoreTool,
)

NOISY = ("model.temperature", "model.top_p")
"""What makes answers vary: without repeats nobody knows by how much."""
HYBRID = (*WEIGHTS, "rrf_k")
"""What counts in a hybrid search only."""

_MODEL = ("name", "temperature", "top_p", "max_tokens")
_SEARCH = ("description", "top_k")
_LIVE: dict[type[ToolBlock], tuple[str, ...]] = {
    FunctionTool: ("description",),
    PromptTool: ("description", "template"),
    VectorstoreTool: (*_SEARCH, "min_similarity_score"),
    HierarchicalTool: (*_SEARCH, "search_mode", "min_score", *HYBRID),
    McpTool: (),
}
"""By kind of tool, the fields that reach what the agent is asked or finds."""
_READING_IN = (
    "source",
    "chunking_strategy",
    "max_chunk_tokens",
    "chunk_size",
    "chunk_overlap",
    "contextual_embeddings",
    "embedding_model",
    "embedding_dimensions",
    "vector_field",
    "id_field",
    "meta_fields",
    "field_separator",
    "delimiter",
    "record_path",
)
_READS_IN = (
    "it counts when documents are read in, so every trial would have to read and embed them again"
)
_ELSEWHERE = {
    "embedding_provider": _READS_IN,
    "evaluations": "it says how the agent is measured, not what it does",
    "execution": "it says how cases are run, not what the agent does",
    "user_simulator": "it plays the user, not the agent",
    DEMONSTRATIONS: "demonstrations have an axis of their own: axes.demonstrations",
}


def elsewhere(path: str) -> str:
    """What a field is about that does not say what the agent does; empty for all others."""
    return _ELSEWHERE.get(str(parse_path(path)[0]), "")


def refusal(block: AgentBlock, path: str, hybrid: Collection[str] = ()) -> str:
    """Why a field cannot be tuned; empty where it can. The path leads somewhere.

    `hybrid` names the tools whose search mode may become hybrid on an axis of its own.
    """
    steps = parse_path(path)
    if is_instructions(path):
        return ""
    if steps[0] == "tools":
        return _of_tool(block, steps, hybrid)
    if steps[0] == "model":
        return "" if steps[1:] in [(name,) for name in _MODEL] else _of_model()
    return _ELSEWHERE.get(str(steps[0]), "it does not reach what the agent is asked")


def tool_at(block: AgentBlock, path: str) -> ToolBlock | None:
    """The tool that a path goes through, if any."""
    steps = parse_path(path)
    if len(steps) < 2 or steps[0] != "tools":
        return None
    found = [tool for index, tool in enumerate(block.tools) if _is_meant(steps[1], index, tool)]
    return found[0] if found else None


def _is_meant(step: Step, index: int, tool: ToolBlock) -> bool:
    if isinstance(step, Named):
        return getattr(tool, step.key, None) == step.value
    return step == index


def _of_model() -> str:
    return (
        f"of a model {', '.join(_MODEL)} can be tuned; provider and address belong to a name, "
        "and one axis cannot change both"
    )


def _of_tool(block: AgentBlock, steps: tuple[Step, ...], hybrid: Collection[str]) -> str:
    tool = next(t for i, t in enumerate(block.tools) if _is_meant(steps[1], i, t))
    name = str(steps[2]) if len(steps) == 3 else ""
    if name in _LIVE[type(tool)]:
        return _of_search(tool, name, hybrid)
    if name in _READING_IN:
        return _READS_IN
    if name in tool.without_effect:
        return "burnish reads it and does nothing with it"
    if isinstance(tool, McpTool) and name == "description":
        return "the server describes its tools itself, and the model never sees this"
    return f"it does not reach the model; of this tool there are: {_tunable(tool)}"


def _of_search(tool: ToolBlock, name: str, hybrid: Collection[str]) -> str:
    mode = getattr(tool, "search_mode", "hybrid")
    if name not in HYBRID or mode == "hybrid" or tool.name in hybrid:
        return ""
    return f"it counts in a hybrid search only, and the search_mode of this tool is {mode}"


def _tunable(tool: ToolBlock) -> str:
    return ", ".join(_LIVE[type(tool)]) or "none"
