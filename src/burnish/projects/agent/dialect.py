"""Agent files: which keys set which field, and which fields a search may change."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from pydantic import JsonValue

from burnish.core.errors import Problem
from burnish.projects.dialects import Dialect, Document, Translation, setting_keys
from burnish.runs.draft import Draft, Strength
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.spec import BudgetSpec
from burnish.system.config_errors import MISSING
from burnish.system.settings import setting_fields
from burnish.system.yaml import TreePath
from burnish.targets.agent.blocks import (
    WEIGHTS,
    AgentBlock,
    FunctionTool,
    HierarchicalTool,
    McpTool,
    PromptTool,
    ToolBlock,
    VectorstoreTool,
    expanded,
)
from burnish.targets.agent.paths import DEMONSTRATIONS, Named, Step, is_instructions, parse_path

_BLOCK = ("evaluations", "optimizer")
_BUDGET = (*_BLOCK, "budget")
_WHOLE = (*_BUDGET, "global")
_LIMITS = "Limits"
"""The panel of the settings that are limits: they may stand under `budget`."""


class AgentFile(Dialect):
    """An agent file of HoloDeck or burnish."""

    kind: ClassVar[str] = "agent"
    target: ClassVar[str] = "agent"
    strategy: ClassVar[str] = "coordinate"
    strategy_at: ClassVar[TreePath] = (*_BLOCK, "strategy")
    known_by: ClassVar[str] = "its model and instructions"
    keys: ClassVar[Mapping[str, str]] = {
        "loss": "objective.weights",
        "penalties": "objective.penalties",
        "constraints": "objective.constraints",
        "train_cases_file": "data.train",
        "holdout_cases_file": "data.holdout",
        "sealed_cases_file": "data.test",
        "min_holdout_cases": "target.min_holdout_cases",
        "axes": "target.axes",
        "budget": "",
        "strategy": "strategy.name",
        "seed": "execution.seed",
        "min_delta": "target.min_delta",
    }

    def recognises(self, document: Document) -> bool:
        """By `kind: agent`, or by the keys of an agent."""
        if "kind" in document.data:
            return super().recognises(document)
        return "model" in document.data or "instructions" in document.data

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """The agent as it stands, and what its optimizer block says, variables by their values.

        That block is about searches: it says nothing of a measurement.
        """
        agent = agent_keys(document.data)
        draft.put("target.document", agent, place=document.place(), strength=Strength.FILE)
        draft.mark("data", document.place(*_BLOCK))
        draft.mark("target", document.place(*_BLOCK, "axes"))
        data = expanded(document.tree.data, where=document.name)
        written, document = document, replace(document, tree=replace(document.tree, data=data))
        translation = Translation(document, draft, strategy, written=written)
        translation.put("execution.concurrency", ("execution", "parallel_test_cases"))
        translation.put("source.name", ("name",))
        if document.at(_BLOCK) is not None and strategy.proposes:
            draft.default("target.axes", {})
            _translate_block(translation, self.keys)
        translation.settle()


def agent_keys(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The keys of a file that are about the agent: all but its optimizer block."""
    agent = dict(data)
    evaluations = agent.get(_BLOCK[0])
    if isinstance(evaluations, dict):
        agent[_BLOCK[0]] = {k: value for k, value in evaluations.items() if k != _BLOCK[1]}
    return agent


def _translate_block(translation: Translation, keys: Mapping[str, str]) -> None:
    strategy = translation.strategy
    limits, phases = limit_keys(strategy)
    translation.block(_BUDGET, {"global": ""}, settings=phases, names=False)
    whole = {name: f"budget.{name}" for name in BudgetSpec.model_fields}
    translation.block(_WHOLE, whole, settings=limits, names=False)
    # Last, since a limit that is missing belongs right in the block.
    translation.block(_BLOCK, keys, settings=setting_keys(strategy.Settings))
    translation.problems += [*_loss(translation.document), *_written_twice(translation)]


def limit_keys(strategy: StrategyPlugin) -> tuple[list[str], list[str]]:
    """The settings of a strategy that are limits: single ones, and blocks of them."""
    paths = [
        field.path for field in setting_fields(strategy.Settings) if field.door.panel == _LIMITS
    ]
    single = [path[0] for path in paths if len(path) == 1]
    return single, list(dict.fromkeys(path[0] for path in paths if len(path) > 1))


def _loss(document: Document) -> Iterator[Problem]:
    """What is tuned has to be told; without it every metric would count."""
    weights = document.at((*_BLOCK, "loss"))
    where = str(document.place(*_BLOCK, "loss"))
    if weights is None:
        yield Problem(where=where, message=MISSING, remedy="add it")
    elif weights == {}:
        yield Problem(where=where, message="expected at least 1 metric with its weight")


def _written_twice(translation: Translation) -> Iterator[Problem]:
    """The settings that stand right in the block and in a block inside of it."""
    document, block = translation.document, translation.document.block(_BLOCK)
    insides = {
        "budget": {**document.block(_BUDGET), **document.block(_WHOLE)},
        translation.strategy.name: document.block((*_BLOCK, translation.strategy.name)),
    }
    for name, inside in insides.items():
        for key in block:
            if block[key] is not None and inside.get(key) is not None:
                yield Problem(
                    where=str(document.place(*_BLOCK, key)),
                    message=f"{key} is written twice: here and under {name}",
                    remedy="keep one of the two",
                )


# -- Which fields of an agent file a search may change --------------------------------------------


NOISY = ("model.temperature", "model.top_p")
"""What makes answers vary: without repeats nobody knows by how much."""
_HYBRID = (*WEIGHTS, "rrf_k")
"""What counts in a hybrid search only."""

_MODEL = ("name", "temperature", "top_p", "max_tokens")
_SEARCH = ("description", "top_k")
_LIVE: dict[type[ToolBlock], tuple[str, ...]] = {
    FunctionTool: ("description",),
    PromptTool: ("description", "template"),
    VectorstoreTool: (*_SEARCH, "min_similarity_score"),
    HierarchicalTool: (*_SEARCH, "search_mode", "min_score", *_HYBRID),
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
    tools = [tool for index, tool in enumerate(block.tools) if _is_meant(steps[1], index, tool)]
    return tools[0] if tools else None


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
    if name not in _HYBRID or mode == "hybrid" or tool.name in hybrid:
        return ""
    return f"it counts in a hybrid search only, and the search_mode of this tool is {mode}"


def _tunable(tool: ToolBlock) -> str:
    return ", ".join(_LIVE[type(tool)]) or "none"
