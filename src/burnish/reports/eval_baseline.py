"""A measurement beside an earlier one: what each case did since, and whether it means anything."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.comparisons import tied
from burnish.core.evaluations import mean
from burnish.core.randomness import stream
from burnish.core.statistics import paired_interval
from burnish.reports.eval_rows import CaseRow, CaseVerdict

FEWEST_MOVED = 6
"""Fewer cases than these, all moving one way, happen by chance more often than once in 20."""


class Change(StrEnum):
    """What a case did since the baseline."""

    NEW_PASS = "new pass"  # noqa: S105
    NEW_FAIL = "new fail"
    UP = "up"
    """The verdict is the same, the score is higher."""
    DOWN = "down"
    UNCHANGED = "unchanged"
    CANNOT_TELL = "cannot tell"
    """Something is missing on a side."""
    REWRITTEN = "rewritten"
    """The case has the same name and asks or expects something else: not compared."""
    ONLY_HERE = "only here"
    ONLY_THERE = "only there"


@dataclass(frozen=True, kw_only=True)
class CaseChange:
    """One case on both sides."""

    case: str
    change: Change
    before: float | None = None
    """The mean of the metrics that both sides have."""
    after: float | None = None


@dataclass(frozen=True, kw_only=True)
class MetricChange:
    """One metric on the cases that both sides have."""

    metric: str
    cases: int
    before: float
    after: float
    difference: float
    low: float | None = None
    """Of the 95 % interval of the paired difference; None with one case."""
    high: float | None = None
    moved: int = 0
    """The cases whose score differs."""
    distinguishable: bool = False
    """Whether this is more than chance: the interval is clear of 0 and enough cases moved."""


@dataclass(frozen=True, kw_only=True)
class BaselineComparison:
    """Everything that changed."""

    baseline: str
    """The run it is compared with."""
    counts: Mapping[Change, int]
    cases: tuple[CaseChange, ...]
    metrics: tuple[MetricChange, ...]
    repeats: tuple[int, int] = (1, 1)
    """Tries a case: before and now."""


def compare_rows(
    now: Sequence[CaseRow], before: Sequence[CaseRow], *, seed: int, name: str = ""
) -> BaselineComparison:
    """Compare case by case; cases are the same when name, input and expectation are."""
    earlier, later = ({row.case: row for row in rows} for rows in (before, now))
    changes = [_change(row, earlier.get(row.case)) for row in now]
    changes += [
        CaseChange(case=row.case, change=Change.ONLY_THERE)
        for row in before
        if row.case not in later
    ]
    pairs = [(earlier[row.case], row) for row in now if _same(row, earlier.get(row.case))]
    return BaselineComparison(
        baseline=name,
        counts={kind: sum(one.change is kind for one in changes) for kind in Change},
        cases=tuple(changes),
        metrics=tuple(_metrics(pairs, seed)),
        repeats=(_tries(before), _tries(now)),
    )


def _same(now: CaseRow, before: CaseRow | None) -> bool:
    return before is not None and (now.asked, now.expected) == (before.asked, before.expected)


def _tries(rows: Sequence[CaseRow]) -> int:
    return max((len(row.tries) for row in rows), default=0)


def _change(now: CaseRow, before: CaseRow | None) -> CaseChange:
    if before is None:
        return CaseChange(case=now.case, change=Change.ONLY_HERE)
    if not _same(now, before):
        return CaseChange(case=now.case, change=Change.REWRITTEN)
    old, new = _scores(before, now)
    return CaseChange(case=now.case, change=_kind(before, now, old, new), before=old, after=new)


def _kind(before: CaseRow, now: CaseRow, old: float | None, new: float | None) -> Change:
    verdicts = (before.verdict, now.verdict)
    if CaseVerdict.MISSING in verdicts:
        return Change.CANNOT_TELL
    if verdicts == (CaseVerdict.FAIL, CaseVerdict.PASS):
        return Change.NEW_PASS
    if verdicts == (CaseVerdict.PASS, CaseVerdict.FAIL):
        return Change.NEW_FAIL
    if old is None or new is None or tied(new - old):
        return Change.UNCHANGED
    return Change.UP if new > old else Change.DOWN


def _scores(before: CaseRow, now: CaseRow) -> tuple[float | None, float | None]:
    """The mean over the metrics that both sides have a value of."""
    pairs = [
        (old, new)
        for metric, old in before.values.items()
        if old is not None and (new := now.values.get(metric)) is not None
    ]
    if not pairs:
        return None, None
    return mean([old for old, _ in pairs]), mean([new for _, new in pairs])


def _metrics(pairs: Sequence[tuple[CaseRow, CaseRow]], seed: int) -> Iterator[MetricChange]:
    for metric in sorted({metric for _, now in pairs for metric in now.values}):
        values = [(before.values.get(metric), now.values.get(metric)) for before, now in pairs]
        both = [(old, new) for old, new in values if old is not None and new is not None]
        if both:
            yield _metric(metric, both, seed)


def _metric(metric: str, both: Sequence[tuple[float, float]], seed: int) -> MetricChange:
    differences = [new - old for old, new in both]
    moved = sum(not tied(difference) for difference in differences)
    found = paired_interval(differences, stream(seed, "baseline", metric))
    return MetricChange(
        metric=metric,
        cases=len(both),
        before=mean([old for old, _ in both]),
        after=mean([new for _, new in both]),
        difference=mean(differences),
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        moved=moved,
        distinguishable=found is not None and found.distinguishable and moved >= FEWEST_MOVED,
    )
