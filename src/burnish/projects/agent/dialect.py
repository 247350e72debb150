"""Agent files: which keys set which field, and which fields a search may change."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar, cast

from pydantic import JsonValue

from burnish.core.errors import Problem
from burnish.models.factory import spelled_out
from burnish.projects.dialects import Dialect, Document, Translation, setting_keys, value_under
from burnish.runs.draft import Draft, FilePlace, Strength
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.spec import WORKER_FIELDS, BudgetSpec
from burnish.system.config import MISSING
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
    added_values,
    expanded,
)
from burnish.targets.agent.paths import (
    DEMONSTRATIONS,
    INSTRUCTIONS,
    Named,
    is_instructions,
    parse_path,
)

_BLOCK = ("evaluations", "optimizer")
_BUDGET = (*_BLOCK, "budget")
_DOCUMENT = ("target", "document")
_AT_ONCE = ("execution", "parallel_test_cases")
_WHOLE = (*_BUDGET, "global")


class AgentFile(Dialect):
    """An agent file of HoloDeck or burnish."""

    kind: ClassVar[str] = "agent"
    target: ClassVar[str] = "agent"
    strategy: ClassVar[str] = "coordinate"
    strategy_at: ClassVar[TreePath] = (*_BLOCK, "strategy")
    confirms: ClassVar[bool] = False
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
        "confirm": "execution.confirm",
        "min_delta": "target.min_delta",
        "models": "models",
    }

    def recognises(self, document: Document) -> bool:
        if "kind" in document.data:
            return super().recognises(document)
        return "model" in document.data or "instructions" in document.data

    def translate(self, document: Document, draft: Draft, strategy: StrategyPlugin) -> None:
        """The agent as it is, and its optimizer block with variables expanded.

        The block only matters for searches, not for measurements.
        """
        agent = agent_keys(document.data)
        draft.put("target.document", agent, place=document.place(), strength=Strength.FILE)
        for each in added_values(agent, document.folder):
            *above, _ = each.at
            if isinstance(short := value_under(agent, tuple(above)), str):
                block, place = cast("JsonValue", spelled_out(short)), document.place(*above)
                draft.put((*_DOCUMENT, *above), block, place=place, strength=Strength.FILE)
            place = FilePlace(tree=each.tree, keys=each.keys)
            draft.put((*_DOCUMENT, *each.at), each.value, place=place, strength=Strength.FILE)
            if each.at == _AT_ONCE:
                draft.put("execution.concurrency", each.value, place=place, strength=Strength.FILE)
        draft.mark("data", document.place(*_BLOCK))
        draft.mark("target", document.place(*_BLOCK, "axes"))
        data = expanded(document.tree.data, where=document.name)
        written, document = document, replace(document, tree=replace(document.tree, data=data))
        translation = Translation(document, draft, strategy, written=written)
        translation.put("execution.concurrency", _AT_ONCE)
        for field in WORKER_FIELDS:
            translation.put(f"execution.{field}", ("execution", field))
        translation.put("source.name", ("name",))
        if document.at(_BLOCK) is not None and strategy.proposes:
            draft.default("target.axes", {})
            limits, phases = limit_keys(strategy)
            translation.block(_BUDGET, {"global": ""}, settings=phases, names=False)
            whole = {name: f"budget.{name}" for name in BudgetSpec.model_fields}
            translation.block(_WHOLE, whole, settings=limits, names=False)
            # Last, since a limit that is missing belongs right in the block.
            translation.block(_BLOCK, self.keys, settings=setting_keys(strategy.Settings))
            translation.problems += [*_loss(document), *_written_twice(document, strategy)]
        translation.settle()


def agent_keys(data: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The keys of a file that describe the agent: all but its optimizer block."""
    agent = dict(data)
    evaluations = agent.get(_BLOCK[0])
    if isinstance(evaluations, dict):
        agent[_BLOCK[0]] = {k: value for k, value in evaluations.items() if k != _BLOCK[1]}
    return agent


def limit_keys(strategy: StrategyPlugin) -> tuple[list[str], list[str]]:
    """The settings of a strategy that are limits: single ones, and blocks of them."""
    fields = setting_fields(strategy.Settings)
    paths = [field.path for field in fields if field.door.panel == "Limits"]
    single = [path[0] for path in paths if len(path) == 1]
    return single, list(dict.fromkeys(path[0] for path in paths if len(path) > 1))


def _loss(document: Document) -> Iterator[Problem]:
    """The loss is required: without it every metric would count."""
    weights = document.at((*_BLOCK, "loss"))
    where = str(document.place(*_BLOCK, "loss"))
    if weights is None:
        yield Problem(where=where, message=MISSING, remedy="add it")
    elif weights == {}:
        yield Problem(where=where, message="expected at least 1 metric with its weight")


def _written_twice(document: Document, strategy: StrategyPlugin) -> Iterator[Problem]:
    block = document.block(_BLOCK)
    insides = {
        "budget": {**document.block(_BUDGET), **document.block(_WHOLE)},
        strategy.name: document.block((*_BLOCK, strategy.name)),
    }
    for name, inside in insides.items():
        for key in block:
            if block[key] is not None and inside.get(key) is not None:
                yield Problem(
                    where=str(document.place(*_BLOCK, key)),
                    message=f"{key} is set twice: here and under {name}",
                    remedy="keep one of the two",
                )


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
    "source", "chunking_strategy", "max_chunk_tokens", "chunk_size", "chunk_overlap",
    "contextual_embeddings", "embedding_model", "embedding_dimensions", "vector_field", "id_field",
    "meta_fields", "field_separator", "delimiter", "record_path",
)  # fmt: skip
_READS_IN = (
    "it takes effect when documents are indexed, so every trial would have to index them again"
)
_ELSEWHERE = {
    "embedding_provider": _READS_IN,
    "evaluations": "it says how the agent is measured, not what it does",
    "execution": "it says how cases are run, not what the agent does",
    "user_simulator": "it plays the user, not the agent",
    DEMONSTRATIONS: "demonstrations have their own axis: axes.demonstrations",
}


def elsewhere(path: str) -> str:
    """Why a field does not affect what the agent does; empty for all others."""
    return _ELSEWHERE.get(str(parse_path(path)[0]), "")


def refusal(block: AgentBlock, path: str, hybrid: Collection[str] = ()) -> str:
    """Why an existing field cannot be tuned; empty if it can.

    `hybrid` names the tools whose search mode may become hybrid on its own axis.
    """
    steps = parse_path(path)
    if is_instructions(path):
        return ""
    if steps[0] == "tools":
        tool = tool_at(block, path)
        assert tool is not None
        return _of_tool(tool, str(steps[2]) if len(steps) == 3 else "", hybrid)
    if steps[0] == "model" and steps[1:] in [(name,) for name in _MODEL]:
        return ""
    if steps[0] == "model":
        return (
            f"only {', '.join(_MODEL)} of a model can be tuned; provider and address depend on "
            "the name, and one axis cannot change both"
        )
    return _ELSEWHERE.get(str(steps[0]), "it does not affect what the agent is asked")


def tunable(block: AgentBlock) -> list[str]:
    """The paths of a file that affect what the agent is asked, with their current tools."""
    fields = [("model", name) for name in _MODEL]
    fields += [(f"tools[name={t.name}]", name) for t in block.tools for name in _LIVE[type(t)]]
    paths = [f"{holder}.{name}" for holder, name in fields]
    return [INSTRUCTIONS[0], *(path for path in paths if not refusal(block, path))]


def tool_at(block: AgentBlock, path: str) -> ToolBlock | None:
    """The tool that a path goes through, if any."""
    steps = parse_path(path)
    if len(steps) < 2 or steps[0] != "tools":
        return None
    step = steps[1]
    for index, tool in enumerate(block.tools):
        value = getattr(tool, step.key, None) if isinstance(step, Named) else index
        if value == (step.value if isinstance(step, Named) else step):
            return tool
    return None


def _of_tool(tool: ToolBlock, name: str, hybrid: Collection[str]) -> str:
    live = _LIVE[type(tool)]
    if name in live:
        mode = getattr(tool, "search_mode", "hybrid")
        if name not in _HYBRID or mode == "hybrid" or tool.name in hybrid:
            return ""
        return f"it only has an effect in hybrid search, but the search_mode of this tool is {mode}"
    if name in _READING_IN:
        return _READS_IN
    if name in tool.without_effect:
        return "burnish reads it but does not use it"
    if isinstance(tool, McpTool) and name == "description":
        return "the server describes its tools itself, and the model never sees this"
    names = ", ".join(live) or "none"
    return f"it does not reach the model; of this tool, these can be tuned: {names}"
