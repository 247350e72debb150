"""The axes of an agent file: how they are written, and the surfaces that they become.

Each is tried on the agent before the start: it leads to a field that may be tuned, begins at the
value of the file, and the file loads with its values in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, cast

from pydantic import Field

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
from burnish.projects.agent.fields import elsewhere, refusal, tool_at
from burnish.runs.draft import Problems
from burnish.system.settings import AtLeastOne, Settings, Text
from burnish.system.yaml import TreePath
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.editing import edit
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.surface_paths import DEMONSTRATIONS, is_instructions, value_at

AXES = ("target", "axes")
"""Where the axes stand in a description."""
MAX_CHARS = 8000
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
    max_chars: AtLeastOne = MAX_CHARS


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
