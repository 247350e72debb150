"""Checking a dataset: repetitions, power, the numbers of its splits, and findings in words."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import NormalDist, median

from burnish.core.cases import Case, squeeze
from burnish.datasets.splits import NEAR, groups, listed
from burnish.metrics.text_matching import counted, quoted


class Severity(StrEnum):
    """An error must be mended, a warning thought about, a note known."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found, where, and what to do about it."""

    severity: Severity
    where: str
    """A split, or several."""
    message: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """What a split is made of, in numbers."""

    name: str
    cases: int
    turns: int
    without_reference: int
    """Cases of which no turn has a reference answer."""
    recorded: int
    scenarios: int
    labels: Mapping[str, int]
    """Cases by label; a case with two labels counts for both."""
    usual_answer: str = ""
    """The reference that most cases have, levelled out for comparing."""
    usual_count: int = 0
    usual_share: float | None = None
    """What always giving that answer would score, where there are references."""
    smallest_difference: float
    """In pass rate, to be found in four of five comparisons; infinite where none can be."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found, the worst first."""

    splits: tuple[SplitFacts, ...]
    found: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.found if finding.severity is severity)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What must be mended before anything is measured."""
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What makes measurements worth less than they seem."""
        return self.of(Severity.WARNING)


# -- How small a difference a set of cases can show -----------------------------------------------


def smallest_difference(
    cases: int,
    *,
    pass_rate: float = 0.5,
    changed: float | None = None,
    spread: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
) -> float:
    """The smallest true difference in pass rate that a comparison on so many cases would find.

    Both sides are measured on the same cases, and the difference d is called real when
    `b - c > z·√(b + c)`, where b cases got better, c got worse, and z is the normal quantile
    of a two-sided test at `confidence` (McNemar). Of n cases a share s = (b + c)/n changes; so
    the difference that is found with probability `power` is the d that solves

        d·√n = z(confidence)·√s + z(power)·√(s − d²)

    The answer hangs on s, which nobody knows beforehand:

    - by default the two sides are taken to be right and wrong independently of each other, at a
      mean pass rate of `pass_rate`: s = 2·p·(1 − p) + d²/2. That is careful: two versions of
      one agent mostly agree, and then smaller differences show.
    - `changed` sets s, where it is known how many cases flip between two runs or versions.
    - `spread` is for scores that are not pass or fail: the standard deviation of the difference
      per case; then d = (z(confidence) + z(power))·spread/√n.

    It is never less than 1/n, what one case makes; and infinite where even a change from all
    wrong to all right would not count as real, or where there is no case at all.
    """
    if cases < 1:
        return math.inf
    z_confidence, z_power = _quantile((1 + confidence) / 2), _quantile(power)
    if spread is not None:
        difference = max(1 / cases, (z_confidence + z_power) * spread / math.sqrt(cases))
        return difference if difference <= 1 else math.inf

    def reached(difference: float) -> bool:
        share = _share_changed(difference, pass_rate, changed)
        rest = math.sqrt(max(0.0, share - difference**2))
        return difference * math.sqrt(cases) >= z_confidence * math.sqrt(share) + z_power * rest

    return max(1 / cases, _first_where(reached)) if reached(1.0) else math.inf


def _share_changed(difference: float, pass_rate: float, changed: float | None) -> float:
    """The share of cases that flip; at least as many as make up the difference."""
    if changed is None:
        changed = 2 * pass_rate * (1 - pass_rate) + difference**2 / 2
    return min(1.0, max(changed, difference))


def _first_where(reached: Callable[[float], bool]) -> float:
    """The smallest number in (0, 1] for which this holds, to nine digits."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)


def cases_needed(difference: float, *, pass_rate: float = 0.5, changed: float | None = None) -> int:
    """How many cases it takes to find a difference, as `smallest_difference` reckons."""

    def detected(cases: int) -> bool:
        shown = smallest_difference(cases, pass_rate=pass_rate, changed=changed)
        return shown <= difference + 1e-9

    high = 1
    while not detected(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detected(middle) else (middle, high)
    return high


# -- Cases that come twice ------------------------------------------------------------------------


_APART = "a case may be in one split only: remove it from one of them, or split anew"


def _repetitions(splits: Mapping[str, Sequence[Case]], *, near: float) -> Iterator[Finding]:
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
    several = [alike for alike in _by_question(cases).values() if len(_ids(alike)) > 1]
    if several:
        yield Finding(
            severity=Severity.WARNING,
            where=where,
            message=f"asked more than once: {listed([_equals(alike) for alike in several])}",
            remedy="keep one of each: what is asked twice counts twice",
        )
    torn = [alike for alike in several if len(_answers(alike)) > 1]
    if torn:
        yield Finding(
            severity=Severity.WARNING,
            where=where,
            message="one question, different references: "
            f"{listed([_equals(alike) for alike in torn])}",
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
    by_homes: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in groups([case for _, case in placed], near=near):
        members = {placed[place][1].question_id: placed[place] for place in reversed(group)}
        if len(members) > 1:
            homes = tuple(dict.fromkeys(placed[place][0] for place in group))
            names = [case.id for _, case in reversed(members.values())]
            by_homes[homes].append(" ~ ".join([*names[:3], *(["…"] if len(names) > 3 else [])]))
    for homes, texts in by_homes.items():
        across = len(homes) > 1
        yield Finding(
            severity=Severity.WARNING if across else Severity.NOTE,
            where=", ".join(homes),
            message=f"nearly the same questions: {listed(texts)}",
            remedy="keep them in one split (`burnish data split` does)" if across else "",
        )


def _by_question(cases: Sequence[Case]) -> dict[str, list[Case]]:
    by_question: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_question[case.question_id].append(case)
    return dict(by_question)


def _ids(cases: Sequence[Case]) -> list[str]:
    return list(dict.fromkeys(case.id for case in cases))


def _equals(cases: Sequence[Case]) -> str:
    return " = ".join(_ids(cases))


def _answers(cases: Sequence[Case]) -> set[tuple[str | None, ...]]:
    return {
        tuple(None if turn.expected is None else squeeze(turn.expected) for turn in case.turns)
        for case in cases
    }


# -- The numbers of one split ---------------------------------------------------------------------


_USUAL = 0.5
"""From this share of equal references on, a constant answer looks good."""
_COARSE = 0.4
"""A set that shows no smaller difference is too small for most purposes."""


def _facts_of(name: str, cases: Sequence[Case]) -> SplitFacts:
    """What a split is made of."""
    answers = Counter(squeeze(case.expected) for case in cases if case.expected is not None)
    usual, count = (answers.most_common(1) or [("", 0)])[0]
    return SplitFacts(
        name=name,
        cases=len(cases),
        turns=sum(len(case.turns) for case in cases),
        without_reference=sum(not _has_reference(case) for case in cases),
        recorded=sum(case.recorded is not None for case in cases),
        scenarios=sum(case.scenario is not None for case in cases),
        labels=Counter(label for case in cases for label in dict.fromkeys(case.labels)),
        usual_answer=usual,
        usual_count=count,
        usual_share=count / answers.total() if answers else None,
        smallest_difference=smallest_difference(len(cases)),
    )


def _has_reference(case: Case) -> bool:
    """Whether any turn has a reference answer."""
    return any(turn.expected is not None for turn in case.turns)


def _findings_in(facts: SplitFacts) -> Iterator[Finding]:
    """What the numbers of a split say."""
    share = facts.usual_share or 0.0
    if share >= _USUAL and facts.usual_count > 1:
        yield Finding(
            severity=Severity.WARNING,
            where=facts.name,
            message=f"{100 * share:.0f}% of the references are {quoted(facts.usual_answer)}: "
            f"always saying that scores {share:.2f}",
            remedy="add cases with other answers, or judge gains against that score",
        )
    for count, words in (
        (facts.without_reference, "have no reference: metrics that compare leave them out"),
        (facts.recorded, "are recorded: they are scored as they stand, whatever the candidate"),
        (facts.scenarios, "are scenarios: a model plays the user"),
    ):
        if count:
            message = f"{count} of {counted(facts.cases, 'case')} {words}"
            yield Finding(severity=Severity.NOTE, where=facts.name, message=message)
    yield _resolution(facts)


def _resolution(facts: SplitFacts) -> Finding:
    """How small a difference the split can show."""
    smallest = facts.smallest_difference
    coarse = smallest > _COARSE
    have = counted(facts.cases, "case") if facts.cases else "no cases"
    message = (
        f"no difference between two versions can be told from chance with {have}"
        if math.isinf(smallest)
        else f"{have}: one makes {1 / facts.cases:.3f} of the pass rate, and a difference "
        f"under {smallest:.2f} is likely to go unnoticed"
    )
    return Finding(
        severity=Severity.WARNING if coarse else Severity.NOTE,
        where=facts.name,
        message=message,
        remedy=f"to notice a difference of 0.10 takes about {cases_needed(0.1)} cases"
        if coarse
        else "",
    )


_LONG, _TIMES = 2000, 10
"""An input stands out with so many characters, and so many times the usual length."""
# -- Checking a dataset ---------------------------------------------------------------------------


_UNEVEN = 5
"""Labels are uneven where one has so many times the cases of another."""


def check(splits: Mapping[str, Sequence[Case]], *, near: float = NEAR) -> Findings:
    """Look at the splits of a dataset, by name, one by one and beside each other.

    An error is what law 3 forbids (a case in two splits) or a name that two cases share;
    warnings and notes leave the choice to the user.
    """
    facts = tuple(_facts_of(name, cases) for name, cases in splits.items())
    findings = [
        *_repetitions(splits, near=near),
        *(finding for name, cases in splits.items() for finding in _contents(name, cases)),
        *_labels(splits),
        *_long_inputs(splits),
        *(finding for each in facts for finding in _findings_in(each)),
    ]
    rank = {severity: rank for rank, severity in enumerate(Severity)}
    return Findings(splits=facts, found=tuple(sorted(findings, key=lambda f: rank[f.severity])))


def _asks_nothing(case: Case) -> bool:
    return not any(turn.input.strip() or turn.attachments for turn in case.turns)


def _expects_blank(case: Case) -> bool:
    return any(turn.expected is not None and not turn.expected.strip() for turn in case.turns)


def _expects_nothing(case: Case) -> bool:
    expected = (each for turn in case.turns for each in (turn.expected_tools, turn.expected_calls))
    tools = any(each is not None for each in expected)
    return not (_has_reference(case) or case.rubrics or tools)


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
    for label in sorted({label for tally in counts.values() for label in tally}):
        for name in (name for name, tally in counts.items() if label not in tally):
            lacking[name].append(f"'{label}'")
    for name, labels in lacking.items():
        yield Finding(
            severity=Severity.WARNING,
            where=name,
            message=f"no case has a label that other splits have: {listed(labels)}",
            remedy="split anew (`burnish data split` spreads labels), or add such cases",
        )
    for name, tally in counts.items():
        if tally and max(tally.values()) >= _UNEVEN * min(tally.values()):
            shown = [f"'{label}' {count}" for label, count in tally.most_common()]
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
