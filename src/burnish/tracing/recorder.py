"""The recorder: the steps of one run, across tasks and threads."""

import threading
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from time import perf_counter

from burnish.core.cases import Trace
from burnish.tracing.steps import (
    PLACE,
    Births,
    Record,
    RecordingContext,
    Strand,
    current_owner,
    error_text,
    open_ends,
    plain,
)


def _in_order(records: Iterable[Record]) -> list[Record]:
    """Sorted by start, except that predecessors come first."""
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
    """Records steps, and works out which came before which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._visits: Counter[str] = Counter()
        self._births = Births()
        self._clock = 0
        self._closed = False

    def start(self) -> RecordingContext:
        """The context in which a recording begins."""
        return self._place(Strand[Record](current_owner()), None)

    def begin(
        self,
        place: RecordingContext,
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: Sequence[Record] | None,
    ) -> Record | None:
        """Begin a step; None when the recording is over."""
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
        """End a step."""
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

    def settled(self, place: RecordingContext) -> RecordingContext:
        """The context after joining everything that has ended by now."""
        with self._lock:
            place = _fresh(place)
            strand = self._strand(place)
            strand.settle()
            return self._place(strand, place.inside)

    @contextmanager
    def carried(self, place: RecordingContext) -> Generator[None, None, None]:
        """Record a function that `carry` took elsewhere from this place while it runs."""
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
        """Record no steps that begin from now on."""
        with self._lock:
            self._closed = True

    def trace(self) -> Trace:
        """The recorded steps, each after its predecessors."""
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
        before = strand.heads
        if after is not None:
            # One that is still open counts by what it follows.
            own = [each for each in after if each in self._records[each.number : each.number + 1]]
            ended = (record for each in own for record in ((each,) if each.ended else each.before))
            before = tuple(dict.fromkeys(ended))
            before += _failed_tries(strand, path, before)
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
        """Note when a forked strand has finished its outermost step."""
        if strand.forked and not strand.open:
            self._clock += 1
            strand.last = self._clock
            self._births.look(strand.loop, self._clock)

    def _strand(self, place: RecordingContext) -> Strand[Record]:
        """The strand of whoever uses this context: a new one, if it is someone new."""
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

    def _place(self, strand: Strand[Record], inside: Record | None) -> RecordingContext:
        return RecordingContext(
            recorder=self,
            strand=strand,
            heads=strand.heads,
            settled=strand.settled,
            inside=inside,
        )


def _failed_tries(
    strand: Strand[Record], node: str, before: tuple[Record, ...]
) -> tuple[Record, ...]:
    """The tries at a step that failed just before it: same node, same steps before it.

    A retry follows them too, so that a run does not seem to have ended there.
    """
    return tuple(
        each
        for each in strand.heads
        if each.strand is strand
        and each.node == node
        and each.error
        and each.declared
        and set(before) <= set(each.before)
    )


def _fresh(place: RecordingContext) -> RecordingContext:
    """The context after its step ended, if that was only seen in a copy of the context."""
    while (inside := place.inside) and inside.mark is not None and inside.left is not None:
        place = inside.left
    return place


@contextmanager
def recording() -> Generator[StepRecorder, None, None]:
    """Record the steps of everything called inside the block."""
    recorder = StepRecorder()
    token = PLACE.set(recorder.start())
    try:
        yield recorder
    finally:
        recorder.close()
        PLACE.reset(token)
