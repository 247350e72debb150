"""The recorder: the steps of one run, in whatever tasks and threads they happen."""

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from burnish.core.content import Json
from burnish.core.outcomes import Step, ToolCall, Trace, Usage
from burnish.tracing.branches import Births, Strand, current_owner, open_ends
from burnish.tracing.steps import PLACE, RecordingContext, error_text, plain, plain_mapping

_NEVER_ENDED = "the step had not ended when the agent answered"


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
    declared: bool = False
    """Whether the agent said what comes before it."""
    inner: bool = False
    """Whether a step began inside it."""
    aside: "tuple[Record, ...]" = ()
    """Open ends that it does not follow, since it said what it follows."""
    mark: object = None
    """What an adapter knows it by, whose code is called in contexts that are not the agent's."""
    left: "RecordingContext[Record] | None" = None
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
        inputs, output = plain_mapping(arguments), plain(result)
        self.tools.append(
            ToolCall(name=name, arguments=inputs, result=output, error=error, id=call)
        )

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
            error=self.error if self.ended else self.error or _NEVER_ENDED,
            usage=self.usage,
            seconds=self.seconds,
        )


def _in_order(records: Iterable[Record]) -> list[Record]:
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


class StepRecorder:
    """Writes steps down, and works out which came before which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._visits: Counter[str] = Counter()
        self._births = Births()
        self._clock = 0
        self._closed = False

    def start(self) -> RecordingContext[Record]:
        """The place at which a recording begins."""
        return self._place(Strand[Record](current_owner()), None)

    def begin(
        self,
        place: RecordingContext[Record],
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: Sequence[Record] | None,
    ) -> Record | None:
        """A step begins here; None when the recording is over."""
        plain_inputs = plain(inputs)
        with self._lock:
            if self._closed:
                return None
            place = _fresh(place)
            strand = self._strand(place)
            strand.settle()
            record = self._record(strand, place.inside, node, after)
            record.input = plain_inputs
            record.surfaces.update(dict.fromkeys(surfaces))
            strand.heads = record.before
            strand.open += 1
            PLACE.set(self._place(strand, record))
            return record

    def end(self, record: Record, *, output: object, error: BaseException | None) -> None:
        """The step has ended."""
        plain_output, message = plain(output), error_text(error) if error is not None else ""
        with self._lock:
            strand = record.strand
            strand.settle()
            exactly = record.declared and not record.inner
            record.predecessors = record.before if exactly else strand.heads
            record.ended = True
            record.output, record.error = plain_output, message or record.error
            record.seconds = perf_counter() - record.started
            strand.covered.update(record.predecessors)
            strand.heads = open_ends((*record.aside, *strand.heads, record), strand.covered)
            strand.open -= 1
            self._tick(strand)
            record.left = self._place(strand, record.outer)
            PLACE.set(record.left)

    def settled(self, place: RecordingContext[Record]) -> RecordingContext[Record]:
        """The place with everything taken over that has ended by now."""
        with self._lock:
            place = _fresh(place)
            strand = self._strand(place)
            strand.settle()
            return self._place(strand, place.inside)

    @contextmanager
    def carried(self, place: RecordingContext[Record]) -> Generator[None, None, None]:
        """A function that was taken elsewhere from this place runs."""
        with self._lock:
            strand = Strand(current_owner(), place.heads, place.strand.loop)
            strand.carried = True
            place.strand.begin(strand)
        token = PLACE.set(self._place(strand, place.inside))
        try:
            yield
        finally:
            PLACE.reset(token)
            strand.carried = False

    def close(self) -> None:
        """What begins from now on is not recorded."""
        with self._lock:
            self._closed = True

    def trace(self) -> Trace:
        """What was recorded, so that what came before a step stands before it."""
        with self._lock:
            return Trace(steps=tuple(record.step() for record in _in_order(self._records)))

    def _record(
        self,
        strand: Strand[Record],
        outer: Record | None,
        node: str,
        after: Sequence[Record] | None,
    ) -> Record:
        path = f"{outer.node}/{node}" if outer is not None else node
        self._visits[path] += 1
        before = strand.heads if after is None else _ended(filter(self._is_own, after))
        record = Record(
            number=len(self._records),
            node=path,
            visit=self._visits[path],
            strand=strand,
            outer=outer,
            before=before,
            declared=after is not None,
            aside=tuple(each for each in strand.heads if each not in before),
        )
        if outer is not None:
            outer.inner = True
        self._records.append(record)
        return record

    def _tick(self, strand: Strand[Record]) -> None:
        """Note when a strand that others may come after has done with its outermost step."""
        if strand.forked and not strand.open:
            self._clock += 1
            strand.last = self._clock
            self._births.look(strand.loop, self._clock)

    def _is_own(self, record: Record) -> bool:
        number = record.number
        return number < len(self._records) and self._records[number] is record

    def _strand(self, place: RecordingContext[Record]) -> Strand[Record]:
        """The strand of whoever comes with this place: a new one, if it is somebody new."""
        owner, parent = current_owner(), place.strand
        if parent.is_owned_by(owner):
            return parent
        strand = Strand(owner, place.heads, parent.loop)
        for sibling in parent.unknown_at(place.settled):
            if self._births.after(owner, sibling):
                sibling.settle()
                strand.heads = open_ends((*strand.heads, *sibling.heads), sibling.covered)
        parent.begin(strand)
        return strand

    def _place(self, strand: Strand[Record], inside: Record | None) -> RecordingContext[Record]:
        return RecordingContext(
            recorder=self,
            strand=strand,
            heads=strand.heads,
            settled=strand.settled,
            inside=inside,
        )


# -- The recorder ---------------------------------------------------------------------------------


def _fresh(place: RecordingContext[Record]) -> RecordingContext[Record]:
    """The place, or where its step ended, if that was seen in a copy of the context only."""
    while (inside := place.inside) and inside.mark is not None and inside.left is not None:
        place = inside.left
    return place


def _ended(after: Iterable[Record]) -> tuple[Record, ...]:
    """What a step said that it follows; one that is still under way counts by what it follows."""
    records = (record for each in after for record in ((each,) if each.ended else each.before))
    return tuple(dict.fromkeys(records))


@contextmanager
def recording() -> Generator[StepRecorder, None, None]:
    """While entered, the steps of whoever is called from here are recorded."""
    recorder = StepRecorder()
    token = PLACE.set(recorder.start())
    try:
        yield recorder
    finally:
        recorder.close()
        PLACE.reset(token)
