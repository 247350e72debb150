"""The axes of an agent file, and a block of them to start with."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, cast

from pydantic import Field

from burnish.core.content import AtLeastOne, Json, canonical
from burnish.core.errors import ConfigError
from burnish.core.surfaces import (
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Scalar,
    Surface,
    TextSurface,
    Value,
    placeholders_in,
    value_key,
)
from burnish.metrics.files import metric_name
from burnish.models.factory import Models
from burnish.projects.agent.dialect import AgentFile, elsewhere, limit_keys, refusal, tool_at
from burnish.runs.draft import Places, Problems
from burnish.runs.plugins import StrategyPlugin, strategy_plugin
from burnish.system.settings import Settings, Text
from burnish.system.yaml import TreePath
from burnish.targets.agent.blocks import HierarchicalTool, McpTool, VectorstoreTool
from burnish.targets.agent.files import LoadedAgent, edit
from burnish.targets.agent.paths import DEMONSTRATIONS, demonstrations_of, is_instructions, value_at
from burnish.targets.agent.target import client_for

AXES = ("target", "axes")
"""Where the axes stand in a description."""
_MAX_CHARS = 8000
"""How long a text may become where its axis does not say."""
NumericSurface: TypeAlias = NumberSurface | ChoiceSurface
_NEUTRAL = {"top_p": "1.0", "min_score": "0.0", "min_similarity_score": "0.0"}
"""The value that changes nothing, for fields that a file may leave out."""
_BETWEEN = 0.37
"""Where in a range a value is tried that is no whole number by chance."""


# -- as they are written ---------------------------------------------------------------------


class NumericAxis(Settings):
    """A number in a range, or one of several choices."""

    path: Text
    type: Literal["float", "int", "categorical"] | None = None
    """`float`, unless there are choices."""
    range: list[Scalar] | None = None
    """Lowest and highest; for `categorical` the choices, as HoloDeck writes them."""
    choices: list[Scalar] | None = None

    @property
    def kind(self) -> str:
        """The type after its default."""
        return self.type or ("float" if self.choices is None else "categorical")


class TextAxis(Settings):
    """A text."""

    path: Text
    max_chars: AtLeastOne = _MAX_CHARS


class DemonstrationAxis(Settings):
    """Worked examples from train, shown to the agent."""

    max_demos: AtLeastOne = 8
    """Examples at most."""
    max_chars: AtLeastOne | None = None
    """Of all of them together."""


class AxesBlock(Settings):
    """What is tuned."""

    numeric: list[NumericAxis] = Field(default_factory=list[NumericAxis])
    """Numbers and choices of the agent file."""
    textual: list[TextAxis] = Field(default_factory=list[TextAxis])
    """Texts of the agent file."""
    demonstrations: DemonstrationAxis | None = None


# -- as surfaces -----------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What is tuned, as surfaces."""

    numbers: tuple[NumericSurface, ...] = ()
    texts: tuple[TextSurface, ...] = ()
    demonstrations: DemosSurface | None = None
    places: dict[str, TreePath] = field(default_factory=dict[str, TreePath])
    """By surface, where its axis stands in the description."""

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """All of them."""
        demos = () if self.demonstrations is None else (self.demonstrations,)
        return (*self.numbers, *self.texts, *demos)


def axes_of(agent: LoadedAgent, block: AxesBlock, problems: Problems) -> Axes:
    """The axes that are sound; what is wrong with the others is kept."""
    making = _Making(agent, block, problems)
    axes = Axes(
        numbers=tuple(making.numbers()),
        texts=tuple(making.texts()),
        demonstrations=making.demonstrations(),
        places=making.places,
    )
    if not (block.numeric or block.textual or block.demonstrations):
        remedy = "`burnish optimize --suggest-axes` prints those that this agent has"
        problems.add(AXES, "there is nothing to tune: no axis is given", remedy)
    return axes


def probes(surface: NumericSurface) -> Sequence[Scalar]:
    """Values of an axis that stand for all: its ends and one between, or every choice."""
    if isinstance(surface, ChoiceSurface):
        return surface.choices
    if surface.integer:
        return (int(surface.low), int(surface.high))
    between = surface.low + _BETWEEN * (surface.high - surface.low)
    return (surface.low, between, surface.high)


class _Making:
    """Makes the surfaces of one block."""

    def __init__(self, agent: LoadedAgent, block: AxesBlock, problems: Problems) -> None:
        self.places: dict[str, TreePath] = {}
        self._agent = agent
        self._block = block
        self._problems = problems
        self._seen: set[str] = set()
        self._hybrid = set(self._hybrid_by_choice())

    def numbers(self) -> Iterator[NumericSurface]:
        """Numbers and choices."""
        for index, axis in enumerate(self._block.numeric):
            at: TreePath = (*AXES, "numeric", index)
            if not self._reachable(axis.path, at):
                continue
            surface = _surface(axis, at, self._problems)
            if surface is not None and self._fits(surface, at):
                self.places[surface.id] = at
                yield surface

    def texts(self) -> Iterator[TextSurface]:
        """Texts, with the placeholders that they have now."""
        for index, axis in enumerate(self._block.textual):
            at: TreePath = (*AXES, "textual", index)
            if self._reachable(axis.path, at) and (text := self._text(axis, at)) is not None:
                self.places[axis.path] = at
                yield TextSurface(
                    id=axis.path, max_chars=axis.max_chars, placeholders=placeholders_in(text)
                )

    def demonstrations(self) -> DemosSurface | None:
        """Worked examples; those of the file must fit."""
        axis = self._block.demonstrations
        if axis is None:
            return None
        surface = DemosSurface(
            id=DEMONSTRATIONS, max_demos=axis.max_demos, max_chars=axis.max_chars
        )
        self.places[surface.id] = (*AXES, "demonstrations")
        for problem in surface.problems(demonstrations_of(self._agent.block)):
            remedy = "allow more, or take some out of the file"
            self._problems.add(self.places[surface.id], problem.message, remedy)
        return surface

    def _reachable(self, path: str, at: TreePath) -> bool:
        """Whether the path leads to a field that may be tuned, and that no other axis has."""
        meant = "instructions" if is_instructions(path) else path
        if meant in self._seen:
            self._problems.add((*at, "path"), f"'{path}' has an axis already", "keep one of them")
            return False
        self._seen.add(meant)
        try:
            why = elsewhere(path)
            if not why:
                value_at(self._agent.block, path)
                why = refusal(self._agent.block, path, self._hybrid)
        except ConfigError as error:
            for problem in error.problems:
                message = f"'{path}': {problem.message}"
                self._problems.add((*at, "path"), message, problem.remedy)
            return False
        if why:
            self._problems.add((*at, "path"), f"'{path}' cannot be tuned: {why}", "remove it")
        return not why

    def _fits(self, surface: NumericSurface, at: TreePath) -> bool:
        """Whether the agent starts within the axis, and loads with its values."""
        return self._starts_within(surface, at) and self._applies(surface, at)

    def _starts_within(self, surface: NumericSurface, at: TreePath) -> bool:
        """The search starts from the value of the file, so that has to be a point of it."""
        now = value_at(self._agent.block, surface.id)
        if now is None:
            name = surface.id.rpartition(".")[2]
            neutral = f"write one into the file, such as {name}: {_NEUTRAL.get(name, '…')}"
            self._problems.add(at, f"'{surface.id}' has no value to start from", neutral)
            return False
        problems = surface.problems(cast("Value", now))
        if problems:
            remedy = "widen it, or change the value in the file"
            message = f"the value of the file is outside: {problems[0].message}"
            self._problems.add(at, message, remedy)
        return not problems

    def _applies(self, surface: NumericSurface, at: TreePath) -> bool:
        """Whether the file still loads with values of the axis in it."""
        for value in probes(surface):
            try:
                edit(self._agent, {surface.id: value})
            except ConfigError as error:
                message = f"the file does not load with {value}: {error.problems[0].message}"
                whole = isinstance(value, float) and "whole number" in message
                self._problems.add(at, message, "say type: int" if whole else "change the axis")
                return False
        return True

    def _text(self, axis: TextAxis, at: TreePath) -> str | None:
        now = value_at(self._agent.block, axis.path)
        text = self._agent.instructions.text if is_instructions(axis.path) else now
        if not isinstance(text, str) or not text.strip():
            self._problems.add((*at, "path"), f"'{axis.path}' holds no text")
            return None
        if len(text) > axis.max_chars:
            message = f"the text has {len(text):,} characters now, {axis.max_chars:,} are allowed"
            self._problems.add((*at, "max_chars"), message, f"allow {len(text):,} or more")
            return None
        return text

    def _hybrid_by_choice(self) -> Iterator[str]:
        """The tools whose search mode is itself tuned, with hybrid among the choices."""
        for axis in self._block.numeric:
            if axis.path.endswith(".search_mode"):
                tool = _tool(self._agent, axis.path)
                if tool and "hybrid" in (axis.choices or axis.range or []):
                    yield tool


def _tool(agent: LoadedAgent, path: str) -> str:
    try:
        tool = tool_at(agent.block, path)
    except ConfigError:
        return ""
    return tool.name if tool is not None else ""


def _surface(axis: NumericAxis, at: TreePath, problems: Problems) -> NumericSurface | None:
    """The surface of an axis; what is wrong with it is kept, and None given."""
    if axis.kind == "categorical":
        return _choice(axis, at, problems)
    if axis.choices is not None:
        remedy = "say type: categorical, or give a range"
        problems.add((*at, "choices"), f"choices do not go with type {axis.kind}", remedy)
        return None
    return _number(axis, at, problems)


def _number(axis: NumericAxis, at: TreePath, problems: Problems) -> NumberSurface | None:
    ends = axis.range or []
    numbers = [v for v in ends if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(ends) != 2 or len(numbers) != 2:
        message = "expected the lowest and the highest number"
        problems.add((*at, "range"), message, "such as range: [0.0, 1.0]")
        return None
    low, high = numbers
    if not low < high:
        message = f"the range [{low:g}, {high:g}] is empty"
        problems.add((*at, "range"), message, "the lower number comes first")
        return None
    whole = axis.kind == "int"
    if whole and (low != int(low) or high != int(high)):
        message = f"the range [{low:g}, {high:g}] is not of whole numbers"
        problems.add((*at, "range"), message, "take whole numbers, or type: float")
        return None
    return NumberSurface(id=axis.path, low=low, high=high, integer=whole)


def _choice(axis: NumericAxis, at: TreePath, problems: Problems) -> ChoiceSurface | None:
    if axis.choices is not None and axis.range is not None:
        problems.add((*at, "range"), "there are choices already", "keep one of the two")
        return None
    choices = axis.choices or axis.range or []
    different = {value_key(choice) for choice in choices}
    if len(choices) < 2 or len(different) < len(choices):
        message = "expected two or more choices, each once"
        problems.add(at, message, "such as choices: [semantic, hybrid]")
        return None
    return ChoiceSurface(id=axis.path, choices=tuple(choices))


# -- A block to start with ------------------------------------------------------------------------


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


def _suggested_axes(agent: LoadedAgent, models: Models) -> AxesBlock:
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
    axes = _suggested_axes(agent, models)
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
        highest = max(1.0, block.model.temperature or 0.0)
        yield NumericAxis(path="model.temperature", range=[0.0, highest])
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
