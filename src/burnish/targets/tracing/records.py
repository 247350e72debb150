"""Records: steps while they are under way, and what becomes of them."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from burnish.core.content import Json
from burnish.core.outcomes import Step, ToolCall, Usage
from burnish.targets.tracing.places import Place
from burnish.targets.tracing.strands import Strand
from burnish.targets.tracing.values import plain, plain_mapping

NEVER_ENDED = "the step had not ended when the agent answered"


@dataclass(kw_only=True, eq=False)
class Record:
    """One step that was begun."""

    number: int
    """Its place in the order of beginnings."""
    node: str
    visit: int
    strand: "Strand[Record]"
    outer: "Record | None"
    before: "tuple[Record, ...]"
    """What came before its beginning."""
    said: bool = False
    """Whether the agent said what comes before it."""
    inner: bool = False
    """Whether a step began inside it."""
    aside: "tuple[Record, ...]" = ()
    """Open ends that it does not follow, since it said what it follows."""
    mark: object = None
    """What an adapter knows it by, whose code is called in contexts that are not the agent's."""
    left: "Place[Record] | None" = None
    """The place at which its end left its strand."""
    input: Json = None
    surfaces: dict[str, None] = field(default_factory=dict[str, None])
    tools: list[ToolCall] = field(default_factory=list[ToolCall])
    usage: Usage = field(default_factory=Usage)
    started: float = field(default_factory=time.perf_counter)
    ended: bool = False
    predecessors: "tuple[Record, ...]" = ()
    """Known when it has ended: the open ends inside it, else what came before it."""
    output: Json = None
    error: str = ""
    seconds: float = 0.0

    @property
    def id(self) -> str:
        """Its node and which visit of it this is."""
        return f"{self.node}-{self.visit}"

    @property
    def so_far(self) -> "tuple[Record, ...]":
        """What comes right before it, as far as it is known yet."""
        return self.predecessors if self.ended else self.before

    def apply(self, surface: str) -> None:
        """A surface whose value is in force here."""
        self.surfaces[surface] = None

    def use(self, requests: int, input_tokens: int, output_tokens: int) -> None:
        """What model calls in it took."""
        self.usage += Usage(
            requests=requests, input_tokens=input_tokens, output_tokens=output_tokens
        )

    def tool(
        self, name: str, arguments: Mapping[str, object], result: object, error: str, call: str
    ) -> None:
        """One use of a tool."""
        given, found = plain_mapping(arguments), plain(result)
        self.tools.append(ToolCall(name=name, arguments=given, result=found, error=error, id=call))

    def step(self) -> Step:
        """The step as a trace keeps it."""
        before = sorted(self.so_far, key=lambda record: record.number)
        return Step(
            id=self.id,
            node=self.node,
            predecessors=tuple(record.id for record in before),
            surfaces=tuple(self.surfaces),
            input=self.input,
            output=self.output,
            tools=tuple(self.tools),
            error=self.error if self.ended else self.error or NEVER_ENDED,
            usage=self.usage,
            seconds=self.seconds,
        )


def in_order(records: Iterable[Record]) -> list[Record]:
    """As they began, except that what comes before a record stands before it."""
    listed: dict[Record, None] = {}
    waiting = sorted(records, key=lambda record: -record.number)
    while waiting:
        record = waiting[-1]
        missing = [each for each in record.so_far if each not in listed]
        if missing:
            waiting += sorted(missing, key=lambda each: -each.number)
        else:
            listed[waiting.pop()] = None
    return list(listed)
