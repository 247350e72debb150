"""The report of a watch: the chart, the alarm in words, the traces that fail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.evaluations import mean
from burnish.core.formatting import (
    Facts,
    Heading,
    Listing,
    Section,
    Series,
    Table,
    Text,
    cell,
    counted,
    duration,
    number,
    sparkline,
)
from burnish.core.statistics import ChartReading
from burnish.reports.rendering import NAME, to_markdown
from burnish.system import write_atomic

_FAILURES = 20
_CHECKS = 50


@dataclass(frozen=True, kw_only=True)
class WatchedCheck:
    """A check as a report shows it."""

    number: int
    at: str
    fresh: int
    judged: int
    missing: int
    values: tuple[float, ...]
    alarm: str = ""

    @property
    def level(self) -> float | None:
        return mean(self.values) if self.values else None


@dataclass(frozen=True, kw_only=True)
class FailedTrace:
    """A trace that fails, as a report shows it."""

    case: str
    time: str
    input: str
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class WatchReport:
    """Everything that the report of a watch shows."""

    log: str
    project: str
    charted: str
    reading: ChartReading
    checks: tuple[WatchedCheck, ...]
    failures: tuple[FailedTrace, ...] = ()
    """The newest first."""
    judges: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    spent: str = ""
    proposals: str = ""
    searches: Mapping[str, str] = field(default_factory=dict[str, str])
    """By the folder of a search that an alarm has started, what came of it."""

    @property
    def verdict(self) -> str:
        """What the chart says, in a sentence."""
        design, reading = self.reading.design, self.reading
        alarms = [check for check in self.checks if check.alarm]
        if alarms:
            last = alarms[-1]
            more = f" It is alarm {len(alarms)} of this watch." if len(alarms) > 1 else ""
            return f"Alarm in check {last.number}: {last.alarm}.{more}"
        if not reading.ready:
            left = design.baseline - reading.scores
            return f"No chart yet: {counted(left, 'more judged trace')} complete the baseline."
        return f"No alarm: nothing beyond noise since the baseline of {design.baseline} traces."

    def sections(self) -> Iterator[Section]:
        """The report in sections."""
        yield Heading(f"Watch of {cell(Path(self.log).name)}", level=1)
        yield Text.of(self.verdict)
        facts = [("log", self.log), ("metrics of", self.project), ("chart", self._what)]
        facts += [("spent", self.spent)] if self.spent else []
        facts += [("proposals", self.proposals)] if self.proposals else []
        facts += [("search", f"{words}: {place}") for place, words in self.searches.items()]
        yield Facts(tuple((name, cell(value, 200)) for name, value in facts))
        yield from self._chart()
        yield from self._promise()
        yield from self._failed()
        yield from self._judge_words()

    @property
    def _what(self) -> str:
        return f"mean of {self.charted}" if self.charted else "share of traces that pass"

    def _chart(self) -> Iterator[Section]:
        yield Heading("Checks")
        levels = tuple(check.level for check in self.checks)
        sums = self.reading.sums
        drawing = [f"{self._what}, by check   {sparkline(levels[-_CHECKS:])}"]
        if sums:
            drawing.append(f"sum, by trace              {sparkline(_thinned(sums, 60))}")
            drawing.append(f"now {sums[-1]:.2f}, limit {self.reading.limit:.2f}")
        yield Series(values={self._what: levels}, drawing=tuple(drawing))
        rows = tuple(
            (
                str(check.number),
                check.at,
                f"{check.fresh:,}",
                str(check.judged),
                str(check.missing),
                number(check.level),
                "alarm" if check.alarm else "",
            )
            for check in self.checks[-_CHECKS:]
        )
        yield Table(("check", "at", "new", "judged", "missing", "mean", ""), rows)

    def _promise(self) -> Iterator[Section]:
        yield Heading("What the chart promises")
        yield Listing(tuple(promise_lines(self.reading)))

    def _failed(self) -> Iterator[Section]:
        yield Heading("Traces that fail")
        if not self.failures:
            yield Text.of("None of those that were judged.")
            return
        rows = tuple(
            (cell(f.case, 30), cell(f.time, 25), cell(f.input), cell(_reason(f), 100))
            for f in self.failures[:_FAILURES]
        )
        yield Table(("trace", "time", "input", "why"), rows)
        if len(self.failures) > _FAILURES:
            yield Text.of(f"… and {len(self.failures) - _FAILURES} more in the proposals.")

    def _judge_words(self) -> Iterator[Section]:
        if not self.judges:
            return
        yield Heading("The judges")
        for name, sentences in self.judges.items():
            unchecked = ("not checked against labels: what it says may be wrong",)
            yield Listing(sentences or unchecked, lead=f"{cell(name)}:")

    def write(self, folder: Path) -> Path:
        """Write report.md."""
        path = folder / NAME
        write_atomic(path, to_markdown(self.sections()))
        return path


def promise_lines(reading: ChartReading) -> Iterator[str]:
    """What the chart promises, one sentence each."""
    design = reading.design
    yield (
        f"False alarms: without any change, {design.false_alarms:.0%} of all periods of "
        f"{design.period:,} judged traces raise an alarm, with the luck of the baseline counted in."
    )
    if not reading.ready:
        yield f"The baseline has {reading.scores} of {design.baseline} traces so far."
        return
    fall = f"a fall by {design.shift:g} from {reading.usual:.2f}"
    if reading.delay is None:
        yield (
            f"Power: {fall} is noticed within a period in {reading.noticed:.0%} of all cases. "
            "A larger baseline would tell more."
        )
    else:
        yield (
            f"Power: half of the time, {fall} is noticed within "
            f"{counted(reading.delay, 'judged trace')}; in a period, {reading.noticed:.0%} of it."
        )


def _reason(failed: FailedTrace) -> str:
    return "; ".join(f"{name}: {text}" if text else name for name, text in failed.reasons.items())


def _thinned(values: Sequence[float], most: int) -> list[float]:
    """At most so many of the values, evenly, with the last one."""
    step = max(1, -(-len(values) // most))
    return [max(values[n : n + step]) for n in range(0, len(values), step)]


def waiting_words(seconds: float) -> str:
    """When the next check is."""
    return f"next check in {duration(seconds)}; Ctrl-C ends the watch"
