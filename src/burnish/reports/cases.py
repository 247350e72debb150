"""Cases across measurements: what became of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from burnish.core.cases import Dataset, Split
from burnish.core.evaluations import mean
from burnish.core.formatting import visible
from burnish.core.trials import SplitResult
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.report_sections import SPLITS

GROUPS = {
    "broken": "broken",
    "fixed": "fixed",
    "failing": "still failing",
    "passing": "still passing",
    "worse": "lower score",
    "better": "higher score",
    "same": "same score",
    "missing": "not measured",
}
"""What became of a case from baseline to best, in the order in which people want to read them."""


@dataclass(frozen=True, kw_only=True)
class CaseLine:
    """One case in the table: what became of it, and its scores."""

    split: str
    case: str
    group: str
    before: float | None
    """The mean of its metrics under the baseline."""
    after: float | None
    metrics: Mapping[str, tuple[float | None, float | None]]
    tags: tuple[str, ...] = ()
    error: str = ""

    @property
    def anchor(self) -> str:
        return f"case-{self.split}-{self.case}"


def case_lines(run: RunRecord, cases: Dataset | None = None) -> tuple[CaseLine, ...]:
    """Every case that baseline and best were both run on, the broken ones first.

    A task that is scored as a whole has no scores of cases, and no lines.
    """
    lines = [line for split in SPLITS for line in _lines(run, split, cases)]
    order = list(GROUPS)
    return tuple(sorted(lines, key=lambda line: order.index(line.group)))


def group_counts(lines: Iterable[CaseLine]) -> dict[str, int]:
    """How many cases are in each group that has any."""
    groups = [line.group for line in lines]
    return {group: groups.count(group) for group in GROUPS if group in groups}


def _lines(run: RunRecord, split: str, cases: Dataset | None) -> Iterator[CaseLine]:
    old, new = result_of(run.baseline, split), result_of(run.best, split)
    if old is None or new is None:
        return
    tags = {} if cases is None else {c.id: c.labels for c in cases.cases(Split(split))}
    for case, scores in new.scores.items():
        if case not in old.scores:
            continue
        before, after = _means(old.scores[case]), _means(scores)
        group = _group(case, old, new)
        if group == "same" and not before and not after:
            continue
        yield CaseLine(
            split=split,
            case=case,
            group=group,
            before=_mean(before),
            after=_mean(after),
            metrics={m: (before.get(m), after.get(m)) for m in sorted({*before, *after})},
            tags=tuple(tags.get(case, ())),
            error=visible(new.errors.get(case, "")),
        )


def _group(case: str, old: SplitResult, new: SplitResult) -> str:
    if any(case in side.measurement.missing_cases for side in (old, new)):
        return "missing"
    if old.measurement.pass_rate is None or new.measurement.pass_rate is None:
        before, after = _mean(_means(old.scores[case])), _mean(_means(new.scores[case]))
        change = (after or 0.0) - (before or 0.0)
        return "same" if abs(change) < 1e-9 else "better" if change > 0 else "worse"
    failed, fails = case in old.failed_cases, case in new.failed_cases
    names = {(True, False): "fixed", (False, True): "broken", (True, True): "failing"}
    return names.get((failed, fails), "passing")


def _means(scores: Mapping[str, list[float | None]]) -> dict[str, float | None]:
    means: dict[str, float | None] = {}
    for metric, values in scores.items():
        numbers = [value for value in values if value is not None]
        means[metric] = mean(numbers) if numbers else None
    return means


def _mean(means: Mapping[str, float | None]) -> float | None:
    numbers = [value for value in means.values() if value is not None]
    return mean(numbers) if numbers else None
