"""Surfaces and their scales, the candidates that are values for them, the structure of an agent."""

import difflib
import hashlib
import json
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Protocol, TypeAlias, cast, runtime_checkable

from pydantic import BeforeValidator, Field, PlainSerializer

from burnish.core.content import Json, canonical, codec
from burnish.core.errors import ConfigError, Problem


def _as_text(arguments: object) -> object:
    if isinstance(arguments, Mapping):
        return canonical({**cast("Mapping[str, Json]", arguments)}).decode()
    return arguments


@dataclass(frozen=True, kw_only=True)
class DemonstratedCall:
    """One use of a tool in a worked example."""

    tool: str
    # In files it is an object like any other: to be read, and searched for secrets by key.
    arguments: Annotated[str, BeforeValidator(_as_text), PlainSerializer(json.loads)] = "{}"
    """A JSON object as canonical text, so that calls can be compared and hashed."""
    result: str = ""

    def __post_init__(self) -> None:
        arguments: Json = json.loads(self.arguments)
        if not isinstance(arguments, dict):
            raise ValueError(f"{self.tool}: the arguments are not a JSON object")  # noqa: TRY004
        object.__setattr__(self, "arguments", canonical(arguments).decode())

    @classmethod
    def of(cls, tool: str, arguments: Mapping[str, Json], result: str) -> "DemonstratedCall":
        """Create a call from its arguments by name."""
        return cls(tool=tool, arguments=canonical({**arguments}).decode(), result=result)

    @property
    def given(self) -> dict[str, Json]:
        """The arguments by name."""
        return json.loads(self.arguments)

    @property
    def size(self) -> int:
        return len(self.tool) + len(self.arguments) + len(self.result)

    def __str__(self) -> str:
        return f"{self.tool}({self.arguments}) = {self.result}"


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """One worked example shown to the agent."""

    input: str
    output: str
    case: str = ""
    """The case it came from: that case is never scored with its own answer in view."""
    # Left out when empty, so that ids from before there were calls stay valid.
    calls: Annotated[tuple[DemonstratedCall, ...], Field(exclude_if=lambda calls: not calls)] = ()
    """The tool calls on the way, in order."""

    @property
    def size(self) -> int:
        return len(self.input) + sum(call.size for call in self.calls) + len(self.output)

    def __str__(self) -> str:
        return " → ".join([self.input, *map(str, self.calls), self.output])


EPSILON = 1e-9
"""Computed numbers that differ by no more are equal."""

Scalar: TypeAlias = str | int | float | bool
Value: TypeAlias = str | int | float | bool | tuple[Demonstration, ...]

_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*\}|\{\{\s*[A-Za-z_][\w.]*\s*\}\}|\{[A-Za-z_][\w.]*\}")


def placeholders_in(text: str) -> tuple[str, ...]:
    """The placeholders of a template: `{name}`, `{{ name }}` and `${NAME}`, each once."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))


@dataclass(frozen=True, kw_only=True)
class _Bounded:
    id: str
    accepts: ClassVar[str]
    plural: ClassVar[str]

    def _problem(self, message: str, remedy: str = "") -> Problem:
        return Problem(where=self.id, message=message, remedy=remedy)

    def _wrong_type(self, value: object) -> list[Problem]:
        return [self._problem(f"expected {self.accepts}, found {_short(value)}")]

    def _too_long(
        self, subject: str, size: int, limit: int | None, remedy: str = ""
    ) -> list[Problem]:
        if limit is None or size <= limit:
            return []
        return [self._problem(f"{subject} {size} characters, {limit} are allowed", remedy)]


NO_LIMIT = ""
"""How many characters a text may have where nothing limits it: requests leave the sentence out."""


@dataclass(frozen=True, kw_only=True)
class TextSurface(_Bounded):
    """A text: instructions, a tool description, a template."""

    kind: Literal["text"] = "text"
    max_chars: int | None = None
    placeholders: tuple[str, ...] = ()
    """Each must stay in the text in the same spelling: `{{x}}` and `${x}` are not `{x}`."""
    frozen: tuple[str, ...] = ()
    """Parts that must stay word for word."""
    accepts: ClassVar[str] = "text"
    plural: ClassVar[str] = "texts"

    def problems(self, value: Value) -> list[Problem]:
        """What is wrong with a value for this surface."""
        if not isinstance(value, str):
            return self._wrong_type(value)
        problems = [] if value.strip() else [self._problem("the text is empty")]
        problems += self._too_long("the text has", len(value), self.max_chars, "shorten it")
        gone = [f"placeholder {_short(p)}" for p in self.placeholders if not _has(value, p)]
        gone += [f"frozen part {_short(part)}" for part in self.frozen if part not in value]
        return problems + [
            self._problem(f"the {part} is gone", "keep it word for word") for part in gone
        ]


@dataclass(frozen=True, kw_only=True)
class NumberSurface(_Bounded):
    """A number in a range, on a grid if there is a `step`."""

    low: float
    high: float
    kind: Literal["number"] = "number"
    integer: bool = False
    log: bool = False
    """Search it on a logarithmic scale."""
    step: float | None = None
    accepts: ClassVar[str] = "a number"
    plural: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"{self.id}: the range [{self.low}, {self.high}] is empty")
        if self.log and self.low <= 0:
            raise ValueError(f"{self.id}: a logarithmic range must start above 0")
        if self.step is not None and not 0 < self.step < math.inf:
            raise ValueError(f"{self.id}: the step must be above 0")

    def problems(self, value: Value) -> list[Problem]:
        """What is wrong with a value for this surface."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return self._wrong_type(value)
        if not -sys.float_info.max <= value <= sys.float_info.max:
            return [self._problem(f"{_short(value)} is not a finite number")]
        messages: list[str] = []
        slack = EPSILON * max(abs(self.low), abs(self.high))
        if not self.low - slack <= value <= self.high + slack:
            messages.append(f"{value:g} is outside [{self.low:g}, {self.high:g}]")
        if self.integer and value != int(value):
            messages.append(f"{value:g} is not a whole number")
        if self.step is not None:
            steps = (value - self.low) / self.step
            if abs(steps - round(steps)) >= 1e-6:
                messages.append(f"{value:g} is not a multiple of {self.step:g} above {self.low:g}")
        return [self._problem(message) for message in messages]


@dataclass(frozen=True, kw_only=True)
class ChoiceSurface(_Bounded):
    """One of a few fixed values. As in ids, 1.0 is 1, and True is not."""

    choices: tuple[Scalar, ...]
    kind: Literal["choice"] = "choice"
    accepts: ClassVar[str] = "one of the choices"
    plural: ClassVar[str] = "choices"

    def problems(self, value: Value) -> list[Problem]:
        """What is wrong with a value for this surface."""
        if any(isinstance(value, bool) is isinstance(c, bool) and value == c for c in self.choices):
            return []
        choices = ", ".join(map(str, self.choices))
        return [self._problem(f"{_short(value)} is not one of: {choices}")]


@dataclass(frozen=True, kw_only=True)
class DemosSurface(_Bounded):
    """Demonstrations, in order."""

    kind: Literal["demos"] = "demos"
    max_demos: int = 8
    max_chars: int | None = None
    accepts: ClassVar[str] = "demonstrations"
    plural: ClassVar[str] = "demonstrations"

    def problems(self, value: Value) -> list[Problem]:
        """What is wrong with a value for this surface."""
        if not isinstance(value, tuple):
            return self._wrong_type(value)
        problems: list[Problem] = []
        if len(value) > self.max_demos:
            message = f"{len(value)} demonstrations, {self.max_demos} are allowed"
            problems.append(self._problem(message))
        if len(set(value)) != len(value):
            problems.append(self._problem("a demonstration is there twice"))
        size = sum(demo.size for demo in value)
        return problems + self._too_long("the demonstrations have", size, self.max_chars)


@dataclass(frozen=True, kw_only=True)
class FileSurface(_Bounded):
    """The whole text of one file, named by a path relative to the target's folder."""

    path: str
    kind: Literal["file"] = "file"
    max_chars: int | None = None
    accepts: ClassVar[str] = "the text of a file"
    plural: ClassVar[str] = "files"

    def __post_init__(self) -> None:
        parts = self.path.replace("\\", "/").split("/")
        if parts[0] == "" or parts[-1] in ("", ".") or ".." in parts or "\0" in self.path:
            raise ValueError(
                f"{self.id}: '{self.path}' does not name a file inside the target's folder"
            )

    def problems(self, value: Value) -> list[Problem]:
        """What is wrong with a value for this surface."""
        if not isinstance(value, str):
            return self._wrong_type(value)
        if "\0" in value:
            return [self._problem("the file would be binary")]
        return self._too_long("the file has", len(value), self.max_chars)


Surface: TypeAlias = Annotated[
    TextSurface | NumberSurface | ChoiceSurface | DemosSurface | FileSurface,
    Field(discriminator="kind"),
]
AGENT_SURFACES: tuple[type[Surface], ...] = (
    TextSurface,
    NumberSurface,
    ChoiceSurface,
    DemosSurface,
)
SURFACES = (*AGENT_SURFACES, FileSurface)


def out_of_bounds(values: Mapping[str, Value], surfaces: Mapping[str, Surface]) -> list[Problem]:
    """Everything that is wrong with values for these surfaces, unknown surfaces included."""
    problems: list[Problem] = []
    remedy = f"there are: {', '.join(sorted(surfaces)) or 'none'}"
    for name, value in values.items():
        if name in surfaces:
            problems += surfaces[name].problems(value)
        else:
            problems.append(Problem(where=name, message="no such surface", remedy=remedy))
    return problems


def value_key(value: Value) -> bytes:
    """Canonical bytes of a value; 1 and 1.0 are the same number."""
    if isinstance(value, tuple):
        return canonical([codec(Demonstration).encode(d) for d in value])
    if isinstance(value, float) and value.is_integer():
        return canonical(int(value))
    return canonical(value)


def _has(text: str, placeholder: str) -> bool:
    if _PLACEHOLDER.fullmatch(placeholder):
        return placeholder in placeholders_in(text)
    return placeholder in text


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True, kw_only=True)
class Origin:
    """Where a candidate comes from."""

    kind: str = "proposal"
    """`baseline`, `proposal`, `merge`, or a word that the strategy chooses."""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Change:
    """One surface whose value differs between two candidates."""

    surface: str
    before: Value | None
    after: Value | None

    def lines(self) -> list[str]:
        """The change as a unified diff, for people."""
        before, after = _lines(self.before), _lines(self.after)
        return list(difflib.unified_diff(before, after, self.surface, self.surface, lineterm=""))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Values for surfaces + parents + origin. Two with the same values are the same candidate."""

    values: Mapping[str, Value]
    parents: tuple[str, ...] = ()
    origin: Origin = field(default_factory=Origin)

    @cached_property
    def id(self) -> str:
        """A hash of the values, independent of their order."""
        hasher = hashlib.sha256()
        for name in sorted(self.values):
            for part in (name.encode(), value_key(self.values[name])):
                hasher.update(len(part).to_bytes(8, "big") + part)
        return hasher.hexdigest()[:16]

    def child(self, changes: Mapping[str, Value], *, origin: Origin) -> "Candidate":
        """This candidate with some values changed."""
        return Candidate(values={**self.values, **changes}, parents=(self.id,), origin=origin)


def diff(before: Candidate, after: Candidate) -> tuple[Change, ...]:
    """The surfaces whose values differ, sorted by surface."""
    names = sorted(set(before.values) | set(after.values))
    changes = (
        Change(surface=name, before=before.values.get(name), after=after.values.get(name))
        for name in names
    )
    return tuple(
        change
        for change in changes
        if change.before is None
        or change.after is None
        or value_key(change.before) != value_key(change.after)
    )


def _lines(value: Value | None) -> list[str]:
    if value is None:
        return []
    if isinstance(value, tuple):
        return [str(demo) for demo in value]
    return str(value).split("\n")


class NodeKind(StrEnum):
    """The kind of a node."""

    AGENT = "agent"
    LLM = "llm"
    FUNCTION = "function"
    TOOL = "tool"


class SurfaceType(StrEnum):
    """The part of a node that a position edits."""

    INSTRUCTION = "instruction"
    GLOBAL_INSTRUCTION = "global_instruction"
    FEW_SHOT = "few_shot"
    MODEL = "model"
    TOOL = "tool"
    SKILL = "skill"


@dataclass(frozen=True, kw_only=True, order=True)
class Node:
    """One node of the graph."""

    id: str
    """The path from the root: `recap/planner`."""
    kind: NodeKind = NodeKind.AGENT
    name: str = ""


@dataclass(frozen=True, kw_only=True, order=True)
class Edge:
    """A connection from one node to another."""

    source: str
    to: str


@dataclass(frozen=True, kw_only=True)
class Position:
    """One editable position of a node: `planner#instruction`, `planner#tool.lookup`."""

    id: str
    node: str
    type: SurfaceType
    value: Value
    surface: str = ""
    """The target's surface that edits it; empty if there is none."""
    part: str = ""
    """The tool, skill or model setting."""
    about: Json = None
    """Data of the position that cannot be edited, such as a tool's schemas."""


@dataclass(frozen=True, kw_only=True)
class Structure:
    """A snapshot: the same structure has the same id, whatever its order."""

    entry: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
    positions: tuple[Position, ...] = ()

    @classmethod
    def of(
        cls,
        entry: str,
        nodes: Iterable[Node],
        edges: Iterable[Edge] = (),
        positions: Iterable[Position] = (),
    ) -> "Structure":
        """Create a sorted structure; raises with everything that does not fit together."""
        structure = cls(
            entry=entry,
            nodes=tuple(sorted(nodes)),
            edges=tuple(sorted(set(edges))),
            positions=tuple(sorted(positions, key=lambda position: position.id)),
        )
        if problems := structure.problems():
            raise ConfigError(problems)
        return structure

    @cached_property
    def id(self) -> str:
        """A hash of nodes, edges and values."""
        data: Json = [
            self.entry,
            [[node.id, node.kind.value, node.name] for node in self.nodes],
            [[edge.source, edge.to] for edge in self.edges],
            [[p.id, p.node, p.type.value, _plain(p.value), p.about] for p in self.positions],
        ]
        return f"struct_{hashlib.sha256(canonical(data)).hexdigest()}"

    def position(self, name: str) -> Position | None:
        """The position of this id, if there is one."""
        return self._by_id.get(name)

    def of_surface(self, surface: str) -> Position | None:
        """The position that a surface of the target edits."""
        return self._by_surface.get(surface)

    def problems(self) -> list[Problem]:
        """What does not fit together."""
        nodes = {node.id for node in self.nodes}
        messages = [f"two nodes are called '{name}'" for name in _twice(self.nodes)]
        messages += [f"two positions are called '{name}'" for name in _twice(self.positions)]
        if self.entry not in nodes:
            messages.append(f"the entry '{self.entry}' is not a node")
        ends = {end for edge in self.edges for end in (edge.source, edge.to)}
        homes = {position.node for position in self.positions}
        for kind, names in (("an edge", ends), ("a position", homes)):
            messages += [
                f"{kind} names the node '{name}', which does not exist"
                for name in sorted(names - nodes)
            ]
        return [Problem(where="structure", message=message) for message in messages]

    @cached_property
    def _by_id(self) -> dict[str, Position]:
        return {position.id: position for position in self.positions}

    @cached_property
    def _by_surface(self) -> dict[str, Position]:
        return {p.surface: p for p in self.positions if p.surface}


@runtime_checkable
class Structured(Protocol):
    """A target that knows its structure before it is run."""

    @property
    def structure(self) -> Structure:
        """Nodes, edges, and what can be edited at each."""
        ...


def node_path(*names: str) -> str:
    """The id of a node: the names from the root, escaped and joined."""
    return "/".join(name.replace("~", "~0").replace("/", "~1") or "_" for name in names)


def position_id(node: str, kind: SurfaceType, part: str = "") -> str:
    """The id of a position: `<node>#<type>`, with `.part` if a node has several."""
    return f"{node}#{kind.value}.{part}" if part else f"{node}#{kind.value}"


def _twice(items: Sequence[Node] | Sequence[Position]) -> list[str]:
    names = [item.id for item in items]
    return sorted({name for name in names if names.count(name) > 1})


def _plain(value: Value) -> Json:
    if isinstance(value, tuple):
        return [codec(Demonstration).encode(demo) for demo in value]
    return value


# -- Numbers as shares of their ranges, on the scale that they are searched on ---------------------


def values_of(axis: NumberSurface | ChoiceSurface) -> float:
    """How many values an axis has; infinite where it is continuous."""
    if isinstance(axis, ChoiceSurface):
        return len(axis.choices)
    if axis.low == axis.high:
        return 1
    if axis.step is not None:
        return math.floor((axis.high - axis.low) / axis.step + 1e-9) + 1
    return math.floor(axis.high) - math.ceil(axis.low) + 1 if axis.integer else math.inf


def grid_place(axis: NumberSurface, value: float) -> int:
    """Which place of its grid a value has, on an axis with a step."""
    return round((value - axis.low) / (axis.step or 1))


def on_grid(axis: NumberSurface, place: int) -> int | float:
    """The value at a place of the grid, as a person would write it: 0.3, not 0.3000…04."""
    value = Decimal(str(axis.low)) + place * Decimal(str(axis.step or 1))
    return int(value) if axis.integer else float(value)


def unit(axis: NumberSurface, value: float) -> float:
    """A number as a share of its range, on the scale it is searched on."""
    if axis.high == axis.low:
        return 0.5
    if axis.log:
        return math.log(value / axis.low) / math.log(axis.high / axis.low)
    return (value - axis.low) / (axis.high - axis.low)


def at_unit(axis: NumberSurface, share: float) -> int | float:
    """The number at a share of its range; the nearest one where not every number will do."""
    if axis.log:
        value = axis.low * (axis.high / axis.low) ** share
    else:
        value = axis.low + share * (axis.high - axis.low)
    if axis.step is not None:
        return on_grid(axis, min(grid_place(axis, value), int(values_of(axis)) - 1))
    if axis.integer:
        return min(math.floor(axis.high), max(math.ceil(axis.low), round(value)))
    return value


_DISTINCT = 100
"""Roughly how many values of a continuous axis can be told apart."""


def rounded(axis: NumberSurface, value: float) -> float:
    """A number of a continuous axis as a person would write it: 0.58, not 0.578085…

    It is rounded to the power of ten that is nearest to a hundredth of the range, or of the value
    on a log scale. The bounds count as round, whatever they are.
    """
    reach = value * math.log(axis.high / axis.low) if axis.log else axis.high - axis.low
    digits = -round(math.log10(reach / _DISTINCT)) if reach > 0 else 0
    near = [round(value, digits), axis.low, axis.high]
    return min((v for v in near if axis.low <= v <= axis.high), key=lambda v: abs(v - value))
