"""Cases that look wrong, or tell nothing, by what several measurements say of them."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from burnish.core.cases import squeeze
from burnish.core.errors import ConfigError, Problem
from burnish.core.formatting import counted, shorten
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict, Try

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
