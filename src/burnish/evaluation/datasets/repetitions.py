"""Cases that come twice: by name, by what they ask, or nearly."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from burnish.core.cases import Case, squeeze
from burnish.evaluation.datasets.findings import Finding, Severity
from burnish.evaluation.datasets.near_duplicates import groups
from burnish.evaluation.datasets.split_notes import listed

_APART = "a case may be in one split only: remove it from one of them, or split anew"


def repetitions(splits: Mapping[str, Sequence[Case]], *, near: float) -> Iterator[Finding]:
    """Everything that comes twice: in a split, in two, or in slightly other words."""
    for name, cases in splits.items():
        yield from _names_in(name, cases)
        yield from _questions_in(name, cases)
    for one, other in combinations(splits, 2):
        where = f"{one}, {other}"
        yield from _questions_across(where, splits[one], splits[other])
        yield from _names_across(where, splits[one], splits[other])
    yield from _nearly(splits, near)


def _names_in(where: str, cases: Sequence[Case]) -> Iterator[Finding]:
    counts = Counter(case.id for case in cases)
    repeated = [f"'{name}' ({count} times)" for name, count in counts.items() if count > 1]
    if repeated:
        yield Finding(
            severity=Severity.ERROR,
            where=where,
            message=f"cases are called the same: {listed(repeated)}",
            remedy="give each case a name of its own, or remove the repetition",
        )


def _questions_in(where: str, cases: Sequence[Case]) -> Iterator[Finding]:
    several = [found for found in _by_question(cases).values() if len(_ids(found)) > 1]
    if several:
        yield Finding(
            severity=Severity.WARNING,
            where=where,
            message=f"asked more than once: {listed([_equals(found) for found in several])}",
            remedy="keep one of each: what is asked twice counts twice",
        )
    torn = [found for found in several if len(_answers(found)) > 1]
    if torn:
        yield Finding(
            severity=Severity.WARNING,
            where=where,
            message="one question, different references: "
            f"{listed([_equals(found) for found in torn])}",
            remedy="decide on one answer: no agent can give both",
        )


def _questions_across(where: str, here: Sequence[Case], there: Sequence[Case]) -> Iterator[Finding]:
    ours, theirs = _by_question(here), _by_question(there)
    both = [_equals([*ours[key], *theirs[key]]) for key in ours if key in theirs]
    if both:
        yield Finding(
            severity=Severity.ERROR,
            where=where,
            message=f"asked in both: {listed(both)}",
            remedy=_APART,
        )


def _names_across(where: str, here: Sequence[Case], there: Sequence[Case]) -> Iterator[Finding]:
    """One name for two questions; the same question under one name is told as a question."""
    ours = {case.name: case.question_id for case in here if case.name}
    theirs = {case.name: case.question_id for case in there if case.name}
    both = [f"'{name}'" for name in ours if ours[name] != theirs.get(name, ours[name])]
    if both:
        yield Finding(
            severity=Severity.ERROR,
            where=where,
            message=f"one name for different cases: {listed(both)}",
            remedy="give each case a name of its own: scores are kept by name",
        )


def _nearly(splits: Mapping[str, Sequence[Case]], near: float) -> Iterator[Finding]:
    """Groups of different questions that are nearly the same, by the splits they lie in."""
    placed = [(name, case) for name, cases in splits.items() for case in cases]
    found: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in groups([case for _, case in placed], near=near):
        members = {placed[place][1].question_id: placed[place] for place in reversed(group)}
        if len(members) > 1:
            homes = tuple(dict.fromkeys(placed[place][0] for place in group))
            names = [case.id for _, case in reversed(members.values())]
            found[homes].append(" ~ ".join([*names[:3], *(["…"] if len(names) > 3 else [])]))
    for homes, texts in found.items():
        across = len(homes) > 1
        yield Finding(
            severity=Severity.WARNING if across else Severity.NOTE,
            where=", ".join(homes),
            message=f"nearly the same questions: {listed(texts)}",
            remedy="keep them in one split (`burnish data split` does)" if across else "",
        )


def _by_question(cases: Sequence[Case]) -> dict[str, list[Case]]:
    found: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[case.question_id].append(case)
    return dict(found)


def _ids(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.id for case in cases))


def _equals(cases: Sequence[Case]) -> str:
    return " = ".join(_ids(cases))


def _answers(cases: Sequence[Case]) -> set[tuple[str | None, ...]]:
    return {
        tuple(None if turn.expected is None else squeeze(turn.expected) for turn in case.turns)
        for case in cases
    }
