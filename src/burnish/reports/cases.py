"""Cases across measurements: what became of each, and which look wrong or tell nothing."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.cases import Dataset, Split, squeeze
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.formatting import counted, shorten, visible
from burnish.core.trials import SplitResult
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict, Try
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


_ANSWER = 60
"""Columns that an answer gets in the evidence."""


class Doubt(StrEnum):
    """Why a case should be looked at, the most urgent first."""

    CONTRADICTED = "contradicted"
    """Another case asks the same and expects something else."""
    MISLABELLED = "likely mislabelled"
    """Agents that are right elsewhere agree on another answer."""
    ALWAYS_FAILS = "always fails"
    NEVER_FAILS = "never fails"


@dataclass(frozen=True, kw_only=True)
class Doubtful:
    """A case with the reason and the evidence."""

    case: str
    doubt: Doubt
    evidence: str


@dataclass(frozen=True, kw_only=True)
class CaseAudit:
    """What was looked at, and what was found."""

    measurements: tuple[str, ...]
    cases: int
    """Those with a verdict in at least one measurement."""
    found: tuple[Doubtful, ...]

    def of(self, doubt: Doubt) -> list[Doubtful]:
        return [each for each in self.found if each.doubt is doubt]


def audit_cases(reports: Mapping[str, EvalReport]) -> CaseAudit:
    """Look at every case of the measurements, which are best of different agents.

    Repeats of one agent tend to repeat its mistakes, so a measurement has one voice on what the
    right answer is: that of most of its tries. A case whose text differs is another case.
    """
    rows: defaultdict[_Key, dict[str, CaseRow]] = defaultdict(dict)
    for name, report in reports.items():
        for row in report.cases:
            rows[row.case, row.asked, row.expected][name] = row
    _check_common(reports, rows)
    judged = {key: _judged(by_report) for key, by_report in rows.items()}
    right = {name: _share_right(report) for name, report in reports.items()}
    found = [
        *_contradictions(list(rows)),
        *(
            doubtful
            for key, tries in judged.items()
            if tries
            for doubtful in _doubts(key, rows[key], tries, right)
        ),
    ]
    order = list(Doubt)
    return CaseAudit(
        measurements=tuple(reports),
        cases=sum(bool(tries) for tries in judged.values()),
        found=tuple(sorted(found, key=lambda each: order.index(each.doubt))),
    )


_Key = tuple[str, tuple[str, ...], tuple[str | None, ...]]


def _check_common(
    reports: Mapping[str, EvalReport], rows: Mapping[_Key, Mapping[str, CaseRow]]
) -> None:
    """A measurement of other cases can only have been named by mistake."""
    if len(reports) < 2:
        return
    alone = [
        name
        for name in reports
        if not any(name in each and len(each) > 1 for each in rows.values())
    ]
    if alone:
        message = "none of its cases is in another of these measurements"
        raise ConfigError(
            [Problem(where=name, message=message) for name in alone],
            remedy="name measurements over the same cases",
        )


def _judged(by_report: Mapping[str, CaseRow]) -> list[Try]:
    sure = (CaseVerdict.PASS, CaseVerdict.FAIL)
    return [one for row in by_report.values() for one in row.tries if one.verdict in sure]


def _share_right(report: EvalReport) -> float:
    rate = report.totals.pass_rate
    return 0.0 if rate is None or not rate.of else rate.count / rate.of


def _contradictions(keys: Sequence[_Key]) -> Iterator[Doubtful]:
    asked: defaultdict[tuple[str, ...], list[_Key]] = defaultdict(list)
    for key in keys:
        asked[tuple(map(squeeze, key[1]))].append(key)
    for alike in asked.values():
        for key in alike:
            others = [other for other in alike if _answers(other) != _answers(key)]
            if others and all(_answers(key)):
                name, _, expected = others[0]
                words = f"{_quoted(expected[-1])} in {name}, {_quoted(key[2][-1])} here"
                yield Doubtful(case=key[0], doubt=Doubt.CONTRADICTED, evidence=words)


def _answers(key: _Key) -> tuple[str, ...]:
    return tuple(squeeze(expected or "") for expected in key[2])


def _doubts(
    key: _Key, by_report: Mapping[str, CaseRow], tries: Sequence[Try], right: Mapping[str, float]
) -> Iterator[Doubtful]:
    passes = sum(one.verdict is CaseVerdict.PASS for one in tries)
    often = f"of {counted(len(tries), 'run')} in {counted(len(by_report), 'measurement')}"
    if passes == len(tries):
        if len(tries) > 1:
            yield Doubtful(
                case=key[0], doubt=Doubt.NEVER_FAILS, evidence=f"passes {passes} {often}"
            )
        return
    agreed = _agreed_answer(by_report, right)
    if agreed and squeeze(agreed[0]) != _answers(key)[-1]:
        answer, voices, of = agreed
        words = f"{voices} of {of} agents answer {_quoted(answer)}, expected {_quoted(key[2][-1])}"
        yield Doubtful(case=key[0], doubt=Doubt.MISLABELLED, evidence=words)
    elif not passes and len(tries) > 1:
        yield Doubtful(
            case=key[0], doubt=Doubt.ALWAYS_FAILS, evidence=f"fails {len(tries)} {often}"
        )


def _agreed_answer(
    by_report: Mapping[str, CaseRow], right: Mapping[str, float]
) -> tuple[str, int, int] | None:
    """An answer that fails and that at least two agents give, and two of three.

    Only agents that are right more often than not have a voice.
    """
    voices: list[str] = []
    for name, row in by_report.items():
        replies = [
            one.replies[-1]
            for one in row.tries
            if one.answered and one.replies and one.verdict is CaseVerdict.FAIL
        ]
        if right[name] > 0.5 and len(replies) * 2 > len(row.tries):
            same = Counter(map(squeeze, replies)).most_common(1)[0][0]
            voices.append(next(reply for reply in replies if squeeze(reply) == same))
    if not voices:
        return None
    answer, count = Counter(map(squeeze, voices)).most_common(1)[0]
    heard = sum(share > 0.5 for name, share in right.items() if name in by_report)
    if count < 2 or count * 3 < heard * 2 or not answer:
        return None
    return next(voice for voice in voices if squeeze(voice) == answer), count, heard


def _quoted(text: str | None) -> str:
    return f"“{shorten(text or '', _ANSWER)}”"
