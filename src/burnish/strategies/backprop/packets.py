"""What travels back through a trace, and values as roles read and write them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.content import Json
from burnish.core.evaluations import Evaluation
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    Demonstration,
    DemosSurface,
    FileSurface,
    NumberSurface,
    Surface,
    TextSurface,
    Value,
)
from burnish.core.trials import Proposal
from burnish.metrics.turns import FailureClass


class Severity(StrEnum):
    """How bad it is; P0 first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


def rank(severity: str) -> int:
    """The place of a severity; unknown ones come last."""
    levels = [*Severity]
    return levels.index(Severity(severity)) if severity in levels else len(levels)


@dataclass(frozen=True, kw_only=True)
class TerminalLoss:
    """A failed metric, at the step where its way back begins."""

    case: str
    draw: int
    metric: str
    step: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str, str]:
        return rank(self.severity), self.metric, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class CaseLoss:
    """The losses of one run of a case."""

    case: str
    draw: int
    losses: tuple[TerminalLoss, ...]


@dataclass(frozen=True, kw_only=True)
class Packet:
    """What later steps say to an earlier one."""

    source: str
    """The step that sent it; the step itself for a loss."""
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, str]:
        return rank(self.severity), self.source, self.text


@dataclass(frozen=True, kw_only=True)
class SurfaceGradient:
    """What one run of a case says should change about a surface."""

    case: str
    draw: int
    step: str
    node: str
    surface: str
    severity: str
    text: str

    @property
    def order(self) -> tuple[int, str, int, str, str]:
        return rank(self.severity), self.case, self.draw, self.step, self.text


@dataclass(frozen=True, kw_only=True)
class MergedGradient:
    """One thing that should change about a surface, and its sources."""

    surface: str
    severity: str
    text: str
    sources: tuple[SurfaceGradient, ...]


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A request to a role without a usable answer: it costs its packet, not the run."""

    role: str
    where: str
    """The case and step, or the surface."""
    why: str


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a round found out before a candidate was tried."""

    number: int
    parent: Candidate
    train: Evaluation
    losses: tuple[CaseLoss, ...] = ()
    missing: tuple[str, ...] = ()
    """The train cases that teach nothing, because something is missing."""
    classes: Mapping[str, FailureClass] | None = None
    """By failing case, what kind of failure it is."""
    gradients: tuple[SurfaceGradient, ...] = ()
    merged: Mapping[str, Sequence[MergedGradient]] | None = None
    lost: tuple[Lost, ...] = ()
    proposals: tuple[Proposal, ...] = ()

    def blame(self, surface: str) -> tuple[int, int, str]:
        """A place in the order of blame: by train cases that name the surface, then severity."""
        own = [each for each in self.gradients if each.surface == surface]
        cases = {each.case for each in own}
        return -len(cases), min((rank(each.severity) for each in own), default=0), surface


class BadValue(ValueError):
    """Data that is not a valid value of its surface."""


def shown_value(value: Value) -> Json:
    """A value as a role reads it."""
    if isinstance(value, tuple):
        return [{"input": demo.input, "output": demo.output} for demo in value]
    return value


def value_from(data: Json, surface: Surface) -> Value:
    """What a role wrote, as a value; raises BadValue if it is not one."""
    if isinstance(surface, DemosSurface):
        return _demonstrations(data)
    if isinstance(surface, TextSurface | FileSurface) and not isinstance(data, str):
        raise BadValue("the value must be a text")
    if isinstance(surface, NumberSurface):
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise BadValue("the value must be a number")
        return int(data) if surface.integer and float(data).is_integer() else data
    if isinstance(data, str | int | float | bool):
        return data
    raise BadValue(f"the value must be {surface.accepts}")


def value_schema(surface: Surface) -> dict[str, Json]:
    """The JSON schema of a value."""
    if isinstance(surface, NumberSurface):
        kind = "integer" if surface.integer else "number"
        return {"type": kind, "minimum": surface.low, "maximum": surface.high}
    if isinstance(surface, ChoiceSurface):
        return {"enum": [*surface.choices]}
    if isinstance(surface, DemosSurface):
        text: dict[str, Json] = {"type": "string"}
        pair: dict[str, Json] = {
            "type": "object",
            "properties": {"input": text, "output": text},
            "required": ["input", "output"],
            "additionalProperties": False,
        }
        return {"type": "array", "items": pair, "maxItems": surface.max_demos}
    return {"type": "string"}


def bounds_of(surface: Surface) -> str:
    """The bounds of a new value, in words."""
    if isinstance(surface, NumberSurface):
        step = f", in steps of {surface.step:g}" if surface.step else ""
        return f"a number from {surface.low:g} to {surface.high:g}{step}"
    if isinstance(surface, ChoiceSurface):
        return f"one of: {', '.join(map(str, surface.choices))}"
    if isinstance(surface, DemosSurface):
        return f"at most {surface.max_demos} worked examples"
    most = f"at most {surface.max_chars} characters" if surface.max_chars else "a text"
    pieces = [*surface.placeholders, *surface.frozen] if isinstance(surface, TextSurface) else []
    return f"{most}; keep word for word: {', '.join(pieces)}" if pieces else most


def _demonstrations(data: Json) -> tuple[Demonstration, ...]:
    if not isinstance(data, list):
        raise BadValue("the value must be a list of worked examples")
    demos: list[Demonstration] = []
    for row in data:
        pair = row if isinstance(row, dict) else {}
        question, answer = pair.get("input"), pair.get("output")
        if not isinstance(question, str) or not isinstance(answer, str):
            raise BadValue("a worked example has an input and an output, both texts")
        demos.append(Demonstration(input=question, output=answer))
    return tuple(demos)
