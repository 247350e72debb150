"""Checking a dataset: what makes its scores wrong, or worth less than they seem."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from burnish.core.cases import Case
from burnish.evaluation.datasets.findings import Finding, Findings, Severity
from burnish.evaluation.datasets.near_duplicates import NEAR
from burnish.evaluation.datasets.repetitions import repetitions
from burnish.evaluation.datasets.split_facts import facts_of, findings_in, has_reference
from burnish.evaluation.datasets.split_notes import listed
from burnish.evaluation.matching.excerpts import counted

_LONG, _TIMES = 2000, 10
"""An input stands out with so many characters, and so many times the usual length."""
_UNEVEN = 5
"""Labels are uneven where one has so many times the cases of another."""


def check(splits: Mapping[str, Sequence[Case]], *, near: float = NEAR) -> Findings:
    """Look at the splits of a dataset, by name, one by one and beside each other.

    An error is what law 3 forbids (a case in two splits) or a name that two cases share;
    warnings and notes leave the choice to the user.
    """
    facts = tuple(facts_of(name, cases) for name, cases in splits.items())
    found = [
        *repetitions(splits, near=near),
        *(finding for name, cases in splits.items() for finding in _contents(name, cases)),
        *_labels(splits),
        *_long_inputs(splits),
        *(finding for each in facts for finding in findings_in(each)),
    ]
    rank = {severity: rank for rank, severity in enumerate(Severity)}
    return Findings(splits=facts, found=tuple(sorted(found, key=lambda f: rank[f.severity])))


def _asks_nothing(case: Case) -> bool:
    return not any(turn.input.strip() or turn.attachments for turn in case.turns)


def _expects_blank(case: Case) -> bool:
    return any(turn.expected is not None and not turn.expected.strip() for turn in case.turns)


def _expects_nothing(case: Case) -> bool:
    expected = (each for turn in case.turns for each in (turn.expected_tools, turn.expected_calls))
    tools = any(each is not None for each in expected)
    return not (has_reference(case) or case.rubrics or tools)


_CONTENTS: tuple[tuple[Callable[[Case], bool], str, str], ...] = (
    (_asks_nothing, "ask nothing: their input is empty", "write the input, or remove them"),
    (
        _expects_blank,
        "have an empty reference",
        "write the reference, or leave it out: an empty one asks for an empty reply",
    ),
    (
        _expects_nothing,
        "expect nothing: no reference, no tools, no rubric",
        "only a judge that needs no reference can score them",
    ),
)
"""What a case may lack, what to say of those that do, and what to do."""


def _contents(where: str, cases: Sequence[Case]) -> Iterator[Finding]:
    for lacks, words, remedy in _CONTENTS:
        names = [case.id for case in cases if lacks(case)]
        if names:
            yield Finding(
                severity=Severity.WARNING,
                where=where,
                message=f"{len(names)} of {counted(len(cases), 'case')} {words}: {listed(names)}",
                remedy=remedy,
            )


def _labels(splits: Mapping[str, Sequence[Case]]) -> Iterator[Finding]:
    counts = {
        name: Counter(label for case in cases for label in dict.fromkeys(case.labels))
        for name, cases in splits.items()
        if cases
    }
    lacking: defaultdict[str, list[str]] = defaultdict(list)
    for label in sorted({label for found in counts.values() for label in found}):
        for name in (name for name, found in counts.items() if label not in found):
            lacking[name].append(f"'{label}'")
    for name, labels in lacking.items():
        yield Finding(
            severity=Severity.WARNING,
            where=name,
            message=f"no case has a label that other splits have: {listed(labels)}",
            remedy="split anew (`burnish data split` spreads labels), or add such cases",
        )
    for name, found in counts.items():
        if found and max(found.values()) >= _UNEVEN * min(found.values()):
            shown = [f"'{label}' {count}" for label, count in found.most_common()]
            message = f"labels are uneven: {listed(shown)}"
            yield Finding(severity=Severity.NOTE, where=name, message=message)


def _long_inputs(splits: Mapping[str, Sequence[Case]]) -> Iterator[Finding]:
    lengths = [_length(case) for cases in splits.values() for case in cases]
    limit = max(_LONG, _TIMES * median(lengths)) if lengths else 0
    for name, cases in splits.items():
        long = [f"{case.id} ({_length(case):,})" for case in cases if _length(case) > limit]
        if long:
            yield Finding(
                severity=Severity.WARNING,
                where=name,
                message="inputs far longer than the usual "
                f"{median(lengths):,.0f} characters: {listed(long)}",
                remedy="see that they are meant: they may not fit the model, and cost the most",
            )


def _length(case: Case) -> int:
    return sum(len(turn.input) for turn in case.turns)
