"""From the axes of an optimizer block to surfaces, each tried on the agent before the start."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from burnish.core.errors import ConfigError
from burnish.core.surfaces import (
    DemosSurface,
    Surface,
    TextSurface,
    Value,
    placeholders_in,
)
from burnish.projects.gathering import Keys
from burnish.projects.optimizer_block import AxesBlock, TextAxis
from burnish.projects.optimizer_fields import refusal, tool_at
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_ranges import NumericSurface, probes, surface_of
from burnish.targets.agent.demonstrating import demonstrations_of
from burnish.targets.agent.editing import edit
from burnish.targets.agent.loading import LoadedAgent
from burnish.targets.agent.surface_paths import DEMONSTRATIONS, is_instructions, value_at

_NEUTRAL = {"top_p": "1.0", "min_score": "0.0", "min_similarity_score": "0.0"}
"""The value that changes nothing, for fields that a file may leave out."""


@dataclass(frozen=True, kw_only=True)
class Axes:
    """What is tuned, as surfaces."""

    numbers: tuple[NumericSurface, ...] = ()
    texts: tuple[TextSurface, ...] = ()
    demonstrations: DemosSurface | None = None

    @property
    def surfaces(self) -> tuple[Surface, ...]:
        """All of them."""
        demos = () if self.demonstrations is None else (self.demonstrations,)
        return (*self.numbers, *self.texts, *demos)


def axes_of(agent: LoadedAgent, block: AxesBlock, findings: Findings) -> Axes:
    """The axes that are sound; what is wrong with the others is kept."""
    making = _Making(agent, block, findings)
    made = Axes(
        numbers=tuple(making.numbers()),
        texts=tuple(making.texts()),
        demonstrations=making.demonstrations(),
    )
    if not (block.numeric or block.textual or block.demonstrations):
        remedy = "`burnish optimize --suggest-axes` prints those that this agent has"
        findings.wrong(("axes",), "there is nothing to tune: no axis is given", remedy)
    return made


class _Making:
    """Makes the surfaces of one block."""

    def __init__(self, agent: LoadedAgent, block: AxesBlock, findings: Findings) -> None:
        self._agent = agent
        self._block = block
        self._findings = findings
        self._seen: set[str] = set()
        self._hybrid = set(self._hybrid_by_choice())

    def numbers(self) -> Iterator[NumericSurface]:
        """Numbers and choices."""
        for index, axis in enumerate(self._block.numeric):
            at: Keys = ("axes", "numeric", index)
            if not self._reachable(axis.path, at):
                continue
            surface = surface_of(axis, at, self._findings)
            if surface is not None and self._fits(surface, at):
                yield surface

    def texts(self) -> Iterator[TextSurface]:
        """Texts, with the placeholders that they have now."""
        for index, axis in enumerate(self._block.textual):
            at: Keys = ("axes", "textual", index)
            if self._reachable(axis.path, at) and (text := self._text(axis, at)) is not None:
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
        for problem in surface.problems(demonstrations_of(self._agent.block)):
            remedy = "allow more, or take some out of the file"
            self._findings.wrong(("axes", "demonstrations"), problem.message, remedy)
        return surface

    def _reachable(self, path: str, at: Keys) -> bool:
        """Whether the path leads to a field that may be tuned, and that no other axis has."""
        meant = "instructions" if is_instructions(path) else path
        if meant in self._seen:
            self._findings.wrong((*at, "path"), f"'{path}' has an axis already", "keep one of them")
            return False
        self._seen.add(meant)
        try:
            value_at(self._agent.block, path)
            why = refusal(self._agent.block, path, self._hybrid)
        except ConfigError as error:
            for problem in error.problems:
                told = f"'{path}': {problem.message}"
                self._findings.wrong((*at, "path"), told, problem.remedy)
            return False
        if why:
            self._findings.wrong((*at, "path"), f"'{path}' cannot be tuned: {why}", "remove it")
        return not why

    def _fits(self, surface: NumericSurface, at: Keys) -> bool:
        """Whether the agent starts within the axis, and loads with its values."""
        return self._starts_within(surface, at) and self._applies(surface, at)

    def _starts_within(self, surface: NumericSurface, at: Keys) -> bool:
        """The search starts from the value of the file, so that has to be a point of it."""
        now = value_at(self._agent.block, surface.id)
        if now is None:
            field = surface.id.rpartition(".")[2]
            neutral = f"write one into the file, such as {field}: {_NEUTRAL.get(field, '…')}"
            self._findings.wrong(at, f"'{surface.id}' has no value to start from", neutral)
            return False
        problems = surface.problems(cast("Value", now))
        if problems:
            remedy = "widen it, or change the value in the file"
            told = f"the value of the file is outside: {problems[0].message}"
            self._findings.wrong(at, told, remedy)
        return not problems

    def _applies(self, surface: NumericSurface, at: Keys) -> bool:
        """Whether the file still loads with values of the axis in it."""
        for value in probes(surface):
            try:
                edit(self._agent, {surface.id: value})
            except ConfigError as error:
                told = f"the file does not load with {value}: {error.problems[0].message}"
                whole = isinstance(value, float) and "whole number" in told
                self._findings.wrong(at, told, "say type: int" if whole else "change the axis")
                return False
        return True

    def _text(self, axis: TextAxis, at: Keys) -> str | None:
        now = value_at(self._agent.block, axis.path)
        text = self._agent.instructions.text if is_instructions(axis.path) else now
        if not isinstance(text, str) or not text.strip():
            self._findings.wrong((*at, "path"), f"'{axis.path}' holds no text")
            return None
        if len(text) > axis.max_chars:
            told = f"the text has {len(text):,} characters now, {axis.max_chars:,} are allowed"
            self._findings.wrong((*at, "max_chars"), told, f"allow {len(text):,} or more")
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
