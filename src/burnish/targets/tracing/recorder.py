"""The recorder: the steps of one run, in whatever tasks and threads they happen."""

import threading
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from time import perf_counter

from burnish.core.outcomes import Trace
from burnish.targets.tracing.places import PLACE, Place
from burnish.targets.tracing.records import Record, in_order
from burnish.targets.tracing.strands import Births, Strand, current_owner, open_ends
from burnish.targets.tracing.values import error_text, plain


class Recorder:
    """Writes steps down, and works out which came before which."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: list[Record] = []
        self._visits: Counter[str] = Counter()
        self._births = Births()
        self._clock = 0
        self._closed = False

    def start(self) -> Place[Record]:
        """The place at which a recording begins."""
        return self._place(Strand[Record](current_owner()), None)

    def begin(
        self,
        place: Place[Record],
        node: str,
        *,
        inputs: object,
        surfaces: Iterable[str],
        after: Sequence[Record] | None,
    ) -> Record | None:
        """A step begins here; None when the recording is over."""
        given = plain(inputs)
        with self._lock:
            if self._closed:
                return None
            place = _fresh(place)
            strand = self._strand(place)
            strand.settle()
            record = self._record(strand, place.inside, node, after)
            record.input = given
            record.surfaces.update(dict.fromkeys(surfaces))
            strand.heads = record.before
            strand.open += 1
            PLACE.set(self._place(strand, record))
            return record

    def end(self, record: Record, *, output: object, error: BaseException | None) -> None:
        """The step has ended."""
        given, told = plain(output), error_text(error) if error is not None else ""
        with self._lock:
            strand = record.strand
            strand.settle()
            exactly = record.said and not record.inner
            record.predecessors = record.before if exactly else strand.heads
            record.ended = True
            record.output, record.error = given, told or record.error
            record.seconds = perf_counter() - record.started
            strand.covered.update(record.predecessors)
            strand.heads = open_ends((*record.aside, *strand.heads, record), strand.covered)
            strand.open -= 1
            self._tick(strand)
            record.left = self._place(strand, record.outer)
            PLACE.set(record.left)

    def settled(self, place: Place[Record]) -> Place[Record]:
        """The place with everything taken over that has ended by now."""
        with self._lock:
            place = _fresh(place)
            strand = self._strand(place)
            strand.settle()
            return self._place(strand, place.inside)

    @contextmanager
    def carried(self, place: Place[Record]) -> Generator[None, None, None]:
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
            return Trace(steps=tuple(record.step() for record in in_order(self._records)))

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
            said=after is not None,
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

    def _strand(self, place: Place[Record]) -> Strand[Record]:
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

    def _place(self, strand: Strand[Record], inside: Record | None) -> Place[Record]:
        return Place(
            recorder=self,
            strand=strand,
            heads=strand.heads,
            settled=strand.settled,
            inside=inside,
        )


def _fresh(place: Place[Record]) -> Place[Record]:
    """The place, or where its step ended, if that was seen in a copy of the context only."""
    while (inside := place.inside) and inside.mark is not None and inside.left is not None:
        place = inside.left
    return place


def _ended(after: Iterable[Record]) -> tuple[Record, ...]:
    """What a step said that it follows; one that is still under way counts by what it follows."""
    found = (record for each in after for record in ((each,) if each.ended else each.before))
    return tuple(dict.fromkeys(found))


@contextmanager
def recording() -> Generator[Recorder, None, None]:
    """While entered, the steps of whoever is called from here are recorded."""
    recorder = Recorder()
    token = PLACE.set(recorder.start())
    try:
        yield recorder
    finally:
        recorder.close()
        PLACE.reset(token)
