"""A block to start with: the fields of one agent that can be tuned, ready to paste."""

import math
from collections.abc import Iterator
from pathlib import PurePosixPath

from burnish.core.content import Json, canonical
from burnish.evaluation.metric_plugins import metric_name
from burnish.models.factory import Models
from burnish.projects.agent.axes import AxesBlock, NumericAxis, TextAxis, axes_of
from burnish.projects.agent.dialect import AgentFile, limit_keys
from burnish.projects.agent.fields import refusal
from burnish.runs.draft import Places, Problems
from burnish.runs.plugins import StrategyPlugin, strategy_plugin
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.target import client_for
from burnish.targets.agent.tool_blocks import HierarchicalTool, McpTool, VectorstoreTool

_MEASURED = "  metrics:\n    - {type: standard, metric: equality}\n"


def starter(agent: LoadedAgent, models: Models) -> str:
    """The `optimizer` block with every axis that this agent has, as text to paste."""
    measured, strategy = agent.block.evaluations, strategy_plugin(AgentFile.strategy)
    head = "# Under `evaluations:` of the agent file.\n" if measured else "evaluations:\n"
    lines = [
        "" if measured else _MEASURED,
        "  optimizer:\n",
        f"    loss: {_flow(dict.fromkeys(_metrics(agent), 1.0))}\n",
        *_files(agent),
        f"    repeats: {strategy.Settings().repeats}\n",
        "    axes:\n",
        *_axes(agent, models),
        *_budget(strategy),
    ]
    return head + "".join(lines)


def suggested_axes(agent: LoadedAgent, models: Models) -> AxesBlock:
    """The axes that this agent has, each of them sound."""
    numbers = [axis for axis in _numbers(agent, models) if _sound(agent, numeric=[axis])]
    texts = [axis for axis in _texts(agent) if _sound(agent, textual=[axis])]
    return AxesBlock(numeric=numbers, textual=texts)


def _metrics(agent: LoadedAgent) -> list[str]:
    block = agent.block.evaluations
    return [metric_name(each) for each in block.metrics] if block else ["equality"]


def _files(agent: LoadedAgent) -> Iterator[str]:
    own = PurePosixPath(agent.block.test_cases_file or "cases.yaml")
    stem = own.stem.removesuffix("train")
    if stem == own.stem:  # not split yet
        stem = f"{stem}-"
        yield f"    # `burnish data split {own}` makes these three of one file of cases.\n"
    for key, part in (("train", "train"), ("holdout", "holdout"), ("sealed", "test")):
        yield f"    {key}_cases_file: {own.with_name(f'{stem}{part}{own.suffix}')}\n"


def _axes(agent: LoadedAgent, models: Models) -> Iterator[str]:
    axes = suggested_axes(agent, models)
    yield "      demonstrations: {max_demos: 8}\n"
    if axes.numeric:
        yield "      numeric:\n"
    for axis in axes.numeric:
        yield f"        - {_flow(axis.model_dump(exclude_none=True))}\n"
    # A local model neither diagnoses nor writes well enough to be its own critic.
    off = "# " if agent.block.model.provider == "local" else ""
    if axes.textual:
        yield f"      {off}textual:{'    # with a critic that is a stronger model' * bool(off)}\n"
    for axis in axes.textual:
        yield f"      {off}  - {_flow(axis.model_dump())}\n"
    if off:
        yield "    # critic: {provider: openai, name: gpt-4o}\n"


def _budget(strategy: StrategyPlugin) -> Iterator[str]:
    """The limits of the usual strategy, with the values that they have anyway."""
    usual, (single, blocks) = strategy.Settings(), limit_keys(strategy)
    whole: dict[str, Json] = {name: getattr(usual, name) for name in single}
    yield "    budget:\n"
    yield f"      global: {_flow(whole)}    # also max_minutes, max_usd, max_calls, max_tokens\n"
    for name in sorted(blocks):
        yield f"      {name}: {_flow(getattr(usual, name).model_dump())}\n"


def _numbers(agent: LoadedAgent, models: Models) -> Iterator[NumericAxis]:
    block = agent.block
    if client_for(models, block).ref.settings.temperature is not None:
        yield NumericAxis(path="model.temperature", range=[0.0, max(1.0, _now(agent))])
    if block.model.top_p is not None:
        yield NumericAxis(path="model.top_p", range=[min(0.5, block.model.top_p), 1.0])
    for tool in block.tools:
        at = f"tools[name={tool.name}]"
        if isinstance(tool, VectorstoreTool | HierarchicalTool):
            low, high = max(1, tool.top_k // 2), min(100, 2 * tool.top_k)
            yield NumericAxis(path=f"{at}.top_k", type="int", range=[low, high])
        if isinstance(tool, HierarchicalTool):
            yield NumericAxis(path=f"{at}.search_mode", choices=["semantic", "keyword", "hybrid"])
            if not refusal(block, f"{at}.semantic_weight"):
                yield NumericAxis(path=f"{at}.semantic_weight", range=[0.0, 1.0])


def _now(agent: LoadedAgent) -> float:
    return agent.block.model.temperature or 0.0


def _texts(agent: LoadedAgent) -> Iterator[TextAxis]:
    yield TextAxis(path="instructions", max_chars=_room(agent.instructions.text, 2000))
    for tool in agent.block.tools:
        if not isinstance(tool, McpTool):
            room = _room(tool.description, 300)
            yield TextAxis(path=f"tools[name={tool.name}].description", max_chars=room)


def _room(text: str, least: int) -> int:
    """Twice what there is now, in hundreds."""
    return max(least, 100 * math.ceil(len(text) / 50))


def _sound(
    agent: LoadedAgent,
    numeric: list[NumericAxis] | None = None,
    textual: list[TextAxis] | None = None,
) -> bool:
    problems = Problems(places=Places())
    axes_of(agent, AxesBlock(numeric=numeric or [], textual=textual or []), problems)
    return not problems.found


def _flow(data: Json) -> str:
    """Plain data in one line of YAML."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{key}: {_flow(value)}" for key, value in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(_flow, data)) + "]"
    if isinstance(data, str) and not data.replace("_", "").isalnum():
        return canonical(data).decode()
    return str(data) if isinstance(data, str | float) else canonical(data).decode()
