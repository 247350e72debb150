"""The axes of an agent file, and a block of them to start with."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
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
from burnish.targets.agent.blocks import (
    DEMONSTRATIONS,
    HierarchicalTool,
    McpTool,
    VectorstoreTool,
    demonstrations_of,
)
from burnish.targets.agent.files import LoadedAgent, edit, is_instructions, value_at
from burnish.targets.agent.runner import client_for

AXES = ("target", "axes")
"""Where the axes stand in a description."""
NumericSurface: TypeAlias = NumberSurface | ChoiceSurface
_NEUTRAL = {"top_p": "1.0", "min_score": "0.0", "min_similarity_score": "0.0"}
"""The value that changes nothing, for fields that a file may leave out."""

_MAX_CHARS = 8000
"""HoloDeck's limit of a text for which no other is set."""


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
        return self.type or ("float" if self.choices is None else "categorical")


class TextAxis(Settings):
    """A text."""

    path: Text
    max_chars: AtLeastOne | None = None
    """The maximum length; by default 8000, or none for a text that is already longer."""

    def limit(self, text: str) -> int | None:
        """The maximum length for a text that is like this now."""
        if self.max_chars is None and len(text) > _MAX_CHARS:
            return None
        return self.max_chars or _MAX_CHARS


class DemonstrationAxis(Settings):
    """Worked examples from train, shown to the agent."""

    max_demos: AtLeastOne = 8
    """The maximum number of examples."""
    max_chars: AtLeastOne | None = None
    """The maximum length of all examples together."""


class AxesBlock(Settings):
    """What is tuned."""

    numeric: list[NumericAxis] = Field(default_factory=list[NumericAxis])
    """Numbers and choices of the agent file."""
    textual: list[TextAxis] = Field(default_factory=list[TextAxis])
    """Texts of the agent file."""
    demonstrations: DemonstrationAxis | None = None


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
        demos = () if self.demonstrations is None else (self.demonstrations,)
        return (*self.numbers, *self.texts, *demos)


def axes_of(agent: LoadedAgent, block: AxesBlock, problems: Problems) -> Axes:
    """The valid axes; problems with the others are recorded."""
    making = _Making(agent, block, problems)
    axes = Axes(
        numbers=tuple(making.numbers()),
        texts=tuple(making.texts()),
        demonstrations=making.demonstrations(),
        places=making.places,
    )
    if not (block.numeric or block.textual or block.demonstrations):
        remedy = "`burnish optimize --suggest-axes` prints the axes of this agent"
        problems.add(AXES, "there is nothing to tune: the file has no axes", remedy)
    return axes


def probes(surface: NumericSurface) -> Sequence[Scalar]:
    """Representative values of an axis: its ends and one between, or every choice."""
    if isinstance(surface, ChoiceSurface):
        return surface.choices
    if surface.integer:
        return (int(surface.low), int(surface.high))
    # An odd share of the range, so that it is no whole number by chance.
    between = surface.low + 0.37 * (surface.high - surface.low)
    return (surface.low, between, surface.high)


class _Making:
    def __init__(self, agent: LoadedAgent, block: AxesBlock, problems: Problems) -> None:
        self.places: dict[str, TreePath] = {}
        self._agent = agent
        self._block = block
        self._problems = problems
        self._seen: set[str] = set()
        self._hybrid = set(self._hybrid_by_choice())

    def numbers(self) -> Iterator[NumericSurface]:
        for index, axis in enumerate(self._block.numeric):
            at: TreePath = (*AXES, "numeric", index)
            if not self._reachable(axis.path, at):
                continue
            surface = _surface(axis, at, self._problems)
            if surface and self._starts_within(surface, at) and self._applies(surface, at):
                self.places[surface.id] = at
                yield surface

    def texts(self) -> Iterator[TextSurface]:
        for index, axis in enumerate(self._block.textual):
            at: TreePath = (*AXES, "textual", index)
            if self._reachable(axis.path, at) and (text := self._text(axis, at)) is not None:
                self.places[axis.path] = at
                yield TextSurface(
                    id=axis.path,
                    max_chars=axis.limit(text),
                    placeholders=placeholders_in(text),
                )

    def demonstrations(self) -> DemosSurface | None:
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
            self._problems.add((*at, "path"), f"'{path}' already has an axis", "keep one of them")
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

    def _starts_within(self, surface: NumericSurface, at: TreePath) -> bool:
        """The search starts from the current value, so that must be on the axis."""
        now = value_at(self._agent.block, surface.id)
        if now is None:
            name = surface.id.rpartition(".")[2]
            neutral = f"add one to the file, such as {name}: {_NEUTRAL.get(name, '…')}"
            self._problems.add(at, f"'{surface.id}' has no value to start from", neutral)
            return False
        problems = surface.problems(cast("Value", now))
        if problems:
            remedy = "widen the range, or change the value in the file"
            message = f"the current value is out of range: {problems[0].message}"
            self._problems.add(at, message, remedy)
        return not problems

    def _applies(self, surface: NumericSurface, at: TreePath) -> bool:
        for value in probes(surface):
            try:
                edit(self._agent, {surface.id: value})
            except ConfigError as error:
                message = f"the file does not load with {value}: {error.problems[0].message}"
                whole = isinstance(value, float) and "whole number" in message
                self._problems.add(at, message, "set type: int" if whole else "change the axis")
                return False
        return True

    def _text(self, axis: TextAxis, at: TreePath) -> str | None:
        now = value_at(self._agent.block, axis.path)
        text = self._agent.instructions.text if is_instructions(axis.path) else now
        if not isinstance(text, str) or not text.strip():
            self._problems.add((*at, "path"), f"'{axis.path}' contains no text")
            return None
        if (most := axis.limit(text)) is not None and len(text) > most:
            message = f"the text has {len(text):,} characters now, {most:,} are allowed"
            self._problems.add((*at, "max_chars"), message, f"allow {len(text):,} or more")
            return None
        return text

    def _hybrid_by_choice(self) -> Iterator[str]:
        """The tools whose search mode is itself tuned, with hybrid among the choices."""
        for axis in self._block.numeric:
            hybrid = "hybrid" in (axis.choices or axis.range or [])
            if hybrid and axis.path.endswith(".search_mode"):
                with suppress(ConfigError):
                    tool = tool_at(self._agent.block, axis.path)
                    yield from [] if tool is None else [tool.name]


def _surface(axis: NumericAxis, at: TreePath, problems: Problems) -> NumericSurface | None:
    if axis.kind == "categorical":
        return _choice(axis, at, problems)
    if axis.choices is not None:
        remedy = "set type: categorical, or give a range"
        problems.add((*at, "choices"), f"type {axis.kind} does not take choices", remedy)
        return None
    return _number(axis, at, problems)


def _number(axis: NumericAxis, at: TreePath, problems: Problems) -> NumberSurface | None:
    ends, whole = axis.range or [], axis.kind == "int"
    numbers = [v for v in ends if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(ends) != 2 or len(numbers) != 2:
        message = "expected the lowest and the highest number"
        problems.add((*at, "range"), message, "such as range: [0.0, 1.0]")
        return None
    low, high = numbers
    about = f"the range [{low:g}, {high:g}]"
    if not low < high:
        problems.add((*at, "range"), f"{about} is empty", "the lower number comes first")
    elif whole and (low != int(low) or high != int(high)):
        remedy = "use whole numbers, or type: float"
        problems.add((*at, "range"), f"{about} does not consist of whole numbers", remedy)
    else:
        return NumberSurface(id=axis.path, low=low, high=high, integer=whole)
    return None


def _choice(axis: NumericAxis, at: TreePath, problems: Problems) -> ChoiceSurface | None:
    if axis.choices is not None and axis.range is not None:
        problems.add((*at, "range"), "there are already choices", "keep one of the two")
        return None
    choices = axis.choices or axis.range or []
    different = {value_key(choice) for choice in choices}
    if len(choices) < 2 or len(different) < len(choices):
        message = "expected two or more choices, each once"
        problems.add(at, message, "such as choices: [semantic, hybrid]")
        return None
    return ChoiceSurface(id=axis.path, choices=tuple(choices))


def starter(agent: LoadedAgent, models: Models) -> str:
    """An `optimizer` block with every axis of this agent, as text to paste."""
    measured, strategy = agent.block.evaluations, strategy_plugin(AgentFile.strategy)
    head = "# Under `evaluations:` of the agent file.\n" if measured else "evaluations:\n"
    names = [metric_name(each) for each in measured.metrics] if measured else ["equality"]
    lines = [
        "" if measured else "  metrics:\n    - {type: standard, metric: equality}\n",
        "  optimizer:\n",
        f"    loss: {_flow(dict.fromkeys(names, 1.0))}\n",
        *_files(agent),
        f"    repeats: {strategy.Settings().repeats}\n",
        "    axes:\n",
        *_axes(agent, models),
        *_budget(strategy),
    ]
    return head + "".join(lines)


def _files(agent: LoadedAgent) -> Iterator[str]:
    own = PurePosixPath(agent.block.test_cases_file or "cases.yaml")
    stem = own.stem.removesuffix("train")
    if stem == own.stem:  # not split yet
        stem = f"{stem}-"
        yield f"    # `burnish data split {own}` makes these three of one file of cases.\n"
    for key, part in (("train", "train"), ("holdout", "holdout"), ("sealed", "test")):
        yield f"    {key}_cases_file: {own.with_name(f'{stem}{part}{own.suffix}')}\n"


def _axes(agent: LoadedAgent, models: Models) -> Iterator[str]:
    numbers = [each for each in _numbers(agent, models) if _sound(agent, numeric=[each])]
    texts = [each for each in _texts(agent) if _sound(agent, textual=[each])]
    yield "      demonstrations: {max_demos: 8}\n"
    if numbers:
        yield "      numeric:\n"
    for axis in numbers:
        yield f"        - {_flow(axis.model_dump(exclude_none=True))}\n"
    # A local model neither diagnoses nor writes well enough to be its own critic.
    off = "# " if agent.block.model.provider == "local" else ""
    if texts:
        yield f"      {off}textual:{'    # with a critic that is a stronger model' * bool(off)}\n"
    for axis in texts:
        yield f"      {off}  - {_flow(axis.model_dump())}\n"
    if off:
        yield "    # critic: {provider: openai, name: gpt-4o}\n"


def _budget(strategy: StrategyPlugin) -> Iterator[str]:
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
    """Twice the current length, rounded up to hundreds."""
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
