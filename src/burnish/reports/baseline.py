"""A measurement beside another: an earlier one, or the same agent again, which shows the noise."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import stdev, variance

from burnish.core.comparisons import tied
from burnish.core.evaluations import html_table, mean
from burnish.core.formatting import number
from burnish.core.statistics import paired_interval
from burnish.datasets.checks import smallest_difference
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict


class ChangeKind(StrEnum):
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
    change: ChangeKind
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
    counts: Mapping[ChangeKind, int]
    cases: tuple[CaseChange, ...]
    metrics: tuple[MetricChange, ...]
    repeats: tuple[int, int] = (1, 1)
    """Tries a case: before and now."""
    silent: tuple[str, ...] = ()
    """The metrics that the baseline has scores of, and this has not a single one of."""

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        counts = [f"{count} {kind.value}" for kind, count in self.counts.items() if count]
        worse = "; ".join(self.regressions) or "no metric is worse beyond chance"
        rows = [
            (each.metric, number(each.before), number(each.after), number(each.difference),
             f"[{number(each.low)}, {number(each.high)}]", str(each.cases))
            for each in self.metrics
        ]  # fmt: skip
        head = ("metric", "before", "now", "difference", "95 % interval", "cases")
        since = self.baseline or "the baseline"
        return html_table(f"since {since}: {', '.join(counts)}; {worse}", head, rows)

    @property
    def regressions(self) -> list[str]:
        """What is worse beyond chance, in words."""
        worse = [each for each in self.metrics if each.distinguishable and each.difference < 0]
        return [f"{each.metric} fell by {-each.difference:.2f}" for each in worse]

    @property
    def unknown(self) -> list[str]:
        """What may hide a regression, in words: scores and cases that are there no more."""
        fewer = [each for each in self.metrics if each.lost]
        return [
            *(f"{metric} has no score any more" for metric in self.silent),
            *(f"{each.metric} no longer scores {each.lost} of its cases" for each in fewer),
            *([] if self.metrics else ["no case has a score on both sides"]),
        ]


def compare_rows(
    now: Sequence[CaseRow],
    before: Sequence[CaseRow],
    *,
    name: str = "",
    metrics: Collection[str] = (),
) -> BaselineComparison:
    """Compare case by case; cases are the same when name, input and expectation are.

    `metrics` are those that say anything now. Of any other nobody knows whether it was asked for.
    """
    earlier, later = ({row.case: row for row in rows} for rows in (before, now))
    changes = [_change(row, earlier.get(row.case), metrics) for row in now]
    changes += [
        CaseChange(case=row.case, change=ChangeKind.ONLY_THERE)
        for row in before
        if row.case not in later
    ]
    same = [row for row in now if _same(row, earlier.get(row.case))]
    pairs = [(earlier[row.case], row) for row in same]
    return BaselineComparison(
        baseline=name,
        counts={kind: sum(one.change is kind for one in changes) for kind in ChangeKind},
        cases=tuple(changes),
        metrics=tuple(_metrics(pairs, metrics)),
        repeats=(_tries(before), _tries(now)),
        silent=tuple(sorted({m for row in before for m in row.values} - {*metrics})),
    )


def _same(now: CaseRow, before: CaseRow | None) -> bool:
    return before is not None and (now.asked, now.expected) == (before.asked, before.expected)


def _tries(rows: Sequence[CaseRow]) -> int:
    return max((len(row.tries) for row in rows), default=0)


def _change(now: CaseRow, before: CaseRow | None, metrics: Collection[str]) -> CaseChange:
    if before is None:
        return CaseChange(case=now.case, change=ChangeKind.ONLY_HERE)
    if not _same(now, before):
        return CaseChange(case=now.case, change=ChangeKind.REWRITTEN)
    old, new = _scores(before, now)
    change = _kind(before, now, old, new)
    worse = change in (ChangeKind.NEW_FAIL, ChangeKind.DOWN)
    if not worse and any(_lost(before, now, metric) for metric in metrics):
        change = ChangeKind.CANNOT_TELL
    return CaseChange(case=now.case, change=change, before=old, after=new)


def _lost(before: CaseRow, now: CaseRow, metric: str) -> bool:
    """Whether a metric has a score of some try before, and none of some try now."""
    old, new = (
        [any(score.metric == metric for score in one.scores) for one in row.tries if one.answered]
        for row in (before, now)
    )
    return any(old) and not all(new)


def _kind(before: CaseRow, now: CaseRow, old: float | None, new: float | None) -> ChangeKind:
    verdicts = (before.verdict, now.verdict)
    if CaseVerdict.MISSING in verdicts:
        return ChangeKind.CANNOT_TELL
    if verdicts == (CaseVerdict.FAIL, CaseVerdict.PASS):
        return ChangeKind.NEW_PASS
    if verdicts == (CaseVerdict.PASS, CaseVerdict.FAIL):
        return ChangeKind.NEW_FAIL
    if old is None or new is None or tied(new - old):
        return ChangeKind.UNCHANGED
    return ChangeKind.UP if new > old else ChangeKind.DOWN


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
    pairs: Sequence[tuple[CaseRow, CaseRow]], compared: Collection[str]
) -> Iterator[MetricChange]:
    for metric in sorted({metric for _, now in pairs for metric in now.values}):
        values = [(before.values.get(metric), now.values.get(metric)) for before, now in pairs]
        both = [(old, new) for old, new in values if old is not None and new is not None]
        if both:
            lost = [
                old
                for before, now in pairs
                if metric in compared
                and _lost(before, now, metric)
                and (old := before.values.get(metric)) is not None
            ]
            yield paired_change(metric, both, lost)


_ERROR = 0.05


def simultaneous(comparisons: int) -> float:
    """The confidence of each of several intervals that together hold with 95 % (Bonferroni)."""
    return 1 - _ERROR / max(1, comparisons)


def paired_change(
    metric: str,
    both: Sequence[tuple[float, float]],
    lost: Sequence[float],
    *,
    comparisons: int = 1,
) -> MetricChange:
    """A score before and after on the same cases; one of so many that are looked at together."""
    differences = [new - old for old, new in both]
    moved = sum(not tied(difference) for difference in differences)
    confidence = simultaneous(comparisons)
    interval = paired_interval(differences, confidence=confidence)
    sure = interval
    if lost and mean(differences) > 0:
        at_worst = [*differences, *(-old for old in lost)]
        sure = paired_interval(at_worst, confidence=confidence)
        sure = sure if mean(at_worst) > 0 else None
    # Fewer than 6 cases that all move one way happen by chance more often than once in 20.
    fewest = math.ceil(1 + math.log2(max(1, comparisons) / _ERROR))
    clear = sure is not None and sure.distinguishable and moved >= fewest
    return MetricChange(
        metric=metric,
        cases=len(both),
        before=mean([old for old, _ in both]),
        after=mean([new for _, new in both]),
        difference=mean(differences),
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        moved=moved,
        distinguishable=clear,
        lost=len(lost),
    )


@dataclass(frozen=True, kw_only=True)
class _MetricNoise:
    """How one number moves between sweeps over the same cases."""

    metric: str
    cases: int
    """The cases that have it in every sweep; only they count here."""
    sweeps: tuple[float, ...]
    spread: float
    """The standard deviation of these means: the noise floor."""
    can_show: float | None
    """The smallest true difference that a paired comparison of two sweeps finds in 4 of 5 tries
    at 95 % confidence, by the noise seen here; None when no difference would do."""


@dataclass(frozen=True, kw_only=True)
class _FlakyCase:
    """A case whose verdict is not the same in every sweep."""

    case: str
    passes: int
    of: int


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What sweeps over the same cases with the same agent differ in."""

    sweeps: int
    metrics: tuple[_MetricNoise, ...]
    """The pass rate first, where there is one."""
    changed: float | None
    """The share of verdicts that differ between two sweeps; None when there are none."""
    careful: float | None
    """What the set can show in pass rate when nothing is known about the noise."""
    flaky: tuple[_FlakyCase, ...] = ()
    wavering: int = 0
    """Cases whose scores move while their verdict stays."""


def noise_of(rows: Sequence[CaseRow]) -> Noise:
    """What the tries of each case say of the noise."""
    sweeps = max((len(row.tries) for row in rows), default=0)
    judged = [row for row in rows if _verdicts(row, sweeps)]
    flaky = [row for row in judged if len(_verdicts(row, sweeps)) > 1]
    unsteady = {row.case for row in flaky}
    steady = [row for row in rows if row.case not in unsteady]
    wavering = [row for row in steady if any(len(set(_tried(row, m))) > 1 for m in row.values)]
    verdicts = [[float(one.verdict is CaseVerdict.PASS) for one in row.tries] for row in judged]
    rate = mean([mean(passes) for passes in verdicts]) if verdicts else None
    tried = {"pass rate": verdicts}
    for metric in sorted({metric for row in rows for metric in row.values}):
        values = (_tried(row, metric) for row in rows)
        tried[metric] = [each for each in values if len(each) == sweeps]
    return Noise(
        sweeps=sweeps,
        metrics=tuple(
            _noise(metric, cases) for metric, cases in tried.items() if cases and len(cases[0]) > 1
        ),
        changed=_changed(verdicts),
        careful=None if rate is None else _finite(smallest_difference(len(judged), pass_rate=rate)),
        flaky=tuple(_FlakyCase(case=r.case, passes=r.passes, of=sweeps) for r in flaky),
        wavering=len(wavering),
    )


def _verdicts(row: CaseRow, sweeps: int) -> set[CaseVerdict]:
    """The verdicts of a case; none if a sweep has no verdict on it."""
    verdicts = {one.verdict for one in row.tries}
    whole = len(row.tries) == sweeps and verdicts <= {CaseVerdict.PASS, CaseVerdict.FAIL}
    return verdicts if whole else set()


def _tried(row: CaseRow, metric: str) -> list[float]:
    """A metric's value in each try; empty if one is missing."""
    values: list[float] = []
    for one in row.tries:
        scores = [score.value for score in one.scores if score.metric == metric]
        whole = [value for value in scores if value is not None]
        if not whole or len(whole) != len(scores):
            return []
        values.append(mean(whole))
    return values


def _noise(metric: str, tried: Sequence[Sequence[float]]) -> _MetricNoise:
    means = tuple(mean(sweep) for sweep in zip(*tried, strict=True))
    return _MetricNoise(
        metric=metric,
        cases=len(tried),
        sweeps=means,
        spread=0.0 if len(set(means)) == 1 else stdev(means),
        can_show=_can_show(tried),
    )


def _can_show(tried: Sequence[Sequence[float]]) -> float | None:
    """From how many cases flip between two sweeps; or how far scores move, if they do not flip."""
    n = len(tried)
    if all(value in (0.0, 1.0) for values in tried for value in values):
        return _finite(smallest_difference(n, changed=_changed(tried)))
    # Two sweeps of one agent: the difference per case has twice its variance.
    spread = math.sqrt(2 * mean([variance(values) for values in tried]))
    return _finite(smallest_difference(n, spread=spread))


def _changed(tried: Sequence[Sequence[float]]) -> float | None:
    pairs = [pair for values in tried for pair in combinations(values, 2)]
    return mean([float(one != other) for one, other in pairs]) if pairs else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
