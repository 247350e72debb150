"""A measurement beside an earlier one: what each case did since, and whether it means anything."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.comparisons import tied
from burnish.core.evaluations import mean
from burnish.core.randomness import stream
from burnish.core.statistics import paired_interval
from burnish.reports.eval_rows import CaseRow, CaseVerdict, Try

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
    """Something is missing on a side, or a metric that applied before does not apply now."""
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
    """Whether this is more than chance: the interval is clear of 0 and enough cases moved. To be
    better, it must be so with a score of 0 in the cases that were lost, too."""
    lost: int = 0
    """The cases that had a score before and to which the metric does not apply now."""


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
    silent: tuple[str, ...] = ()
    """The metrics that the baseline has scores of, and this has not a single one of."""


def compare_rows(
    now: Sequence[CaseRow],
    before: Sequence[CaseRow],
    *,
    seed: int,
    name: str = "",
    metrics: Collection[str] = (),
) -> BaselineComparison:
    """Compare case by case; cases are the same when name, input and expectation are.

    `metrics` are those that say anything now. Of any other nobody knows whether it was asked for.
    """
    earlier, later = ({row.case: row for row in rows} for rows in (before, now))
    changes = [_change(row, earlier.get(row.case), metrics) for row in now]
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
        metrics=tuple(_metrics(pairs, seed, metrics)),
        repeats=(_tries(before), _tries(now)),
        silent=tuple(sorted({m for row in before for m in row.values} - {*metrics})),
    )


def _same(now: CaseRow, before: CaseRow | None) -> bool:
    return before is not None and (now.asked, now.expected) == (before.asked, before.expected)


def _tries(rows: Sequence[CaseRow]) -> int:
    return max((len(row.tries) for row in rows), default=0)


def _change(now: CaseRow, before: CaseRow | None, metrics: Collection[str]) -> CaseChange:
    if before is None:
        return CaseChange(case=now.case, change=Change.ONLY_HERE)
    if not _same(now, before):
        return CaseChange(case=now.case, change=Change.REWRITTEN)
    old, new = _scores(before, now)
    change = _kind(before, now, old, new)
    worse = change in (Change.NEW_FAIL, Change.DOWN)
    if not worse and any(_lost(before, now, metric) for metric in metrics):
        change = Change.CANNOT_TELL
    return CaseChange(case=now.case, change=change, before=old, after=new)


def _lost(before: CaseRow, now: CaseRow, metric: str) -> bool:
    """Whether a metric spoke of the case before, and of some try now says nothing."""
    return any(_speaks(one, metric) for one in before.tries if one.answered) and not all(
        _speaks(one, metric) for one in now.tries if one.answered
    )


def _speaks(one: Try, metric: str) -> bool:
    return any(score.metric == metric for score in one.scores)


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


def _metrics(
    pairs: Sequence[tuple[CaseRow, CaseRow]], seed: int, asked: Collection[str]
) -> Iterator[MetricChange]:
    for metric in sorted({metric for _, now in pairs for metric in now.values}):
        values = [(before.values.get(metric), now.values.get(metric)) for before, now in pairs]
        both = [(old, new) for old, new in values if old is not None and new is not None]
        if both:
            lost = [
                old
                for before, now in pairs
                if metric in asked
                and _lost(before, now, metric)
                and (old := before.values.get(metric)) is not None
            ]
            yield _metric(metric, both, lost, seed)


def _metric(
    metric: str, both: Sequence[tuple[float, float]], lost: Sequence[float], seed: int
) -> MetricChange:
    differences = [new - old for old, new in both]
    moved = sum(not tied(difference) for difference in differences)
    found = paired_interval(differences, stream(seed, "baseline", metric))
    sure = found
    if lost and mean(differences) > 0:
        at_worst = [*differences, *(-old for old in lost)]
        sure = paired_interval(at_worst, stream(seed, "baseline", metric))
        sure = sure if mean(at_worst) > 0 else None
    return MetricChange(
        metric=metric,
        cases=len(both),
        before=mean([old for old, _ in both]),
        after=mean([new for _, new in both]),
        difference=mean(differences),
        low=None if found is None else found.low,
        high=None if found is None else found.high,
        moved=moved,
        distinguishable=sure is not None and sure.distinguishable and moved >= FEWEST_MOVED,
        lost=len(lost),
    )
