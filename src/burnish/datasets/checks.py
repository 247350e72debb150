"""Checking a dataset: repetitions, statistical power, and what each split contains."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from statistics import NormalDist, median

from burnish.core.cases import Case, squeeze
from burnish.core.formatting import listed
from burnish.datasets.splits import NEAR, groups
from burnish.metrics.text_matching import counted, quoted


class Severity(StrEnum):
    """An error must be fixed, a warning considered, a note known."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A problem in a dataset, its place and a remedy."""

    severity: Severity
    where: str
    """One split or several."""
    message: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """The statistics of a split."""

    name: str
    cases: int
    turns: int
    without_reference: int
    """Cases without a reference answer in any turn."""
    recorded: int
    scenarios: int
    labels: Mapping[str, int]
    """Cases by label; a case with two labels counts for both."""
    usual_answer: str = ""
    """The most common reference answer, normalised."""
    usual_count: int = 0
    usual_share: float | None = None
    """The score of always giving that answer; None without references."""
    smallest_difference: float
    """In pass rate, detectable with a power of 0.8; infinite if none is."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All findings, the worst first."""

    splits: tuple[SplitFacts, ...]
    found: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.found if finding.severity is severity)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self.of(Severity.WARNING)


def smallest_difference(
    cases: int,
    *,
    pass_rate: float = 0.5,
    changed: float | None = None,
    spread: float | None = None,
) -> float:
    """The smallest true difference in pass rate that a comparison on so many cases detects.

    Both sides are measured on the same cases, and a difference d is significant if
    `b - c > z·√(b + c)`, where b cases got better, c got worse, and z is the normal quantile of a
    two-sided test at 95 % (McNemar). A share s = (b + c)/n of the cases changes; so the difference
    that is detected with a power of 0.8 is the d that solves

        d·√n = z(confidence)·√s + z(power)·√(s − d²)

    The result depends on s, which is not known in advance:

    - by default both sides are assumed to be independent, at a mean pass rate of `pass_rate`:
      s = 2·p·(1 − p) + d²/2. That is conservative: two versions of an agent mostly agree.
    - `changed` sets s, if it is known how many cases flip between two runs or versions.
    - `spread` is for scores other than pass or fail: the standard deviation of the difference
      per case; then d = (z(confidence) + z(power))·spread/√n.

    It is at least 1/n, the weight of one case, and infinite if no difference is significant.
    """
    if cases < 1:
        return math.inf
    quantile = NormalDist().inv_cdf
    z_confidence, z_power = quantile((1 + 0.95) / 2), quantile(0.8)
    if spread is not None:
        difference = max(1 / cases, (z_confidence + z_power) * spread / math.sqrt(cases))
        return difference if difference <= 1 else math.inf

    def reached(difference: float) -> bool:
        independent = 2 * pass_rate * (1 - pass_rate) + difference**2 / 2
        share = min(1.0, max(independent if changed is None else changed, difference))
        rest = math.sqrt(max(0.0, share - difference**2))
        return difference * math.sqrt(cases) >= z_confidence * math.sqrt(share) + z_power * rest

    if not reached(1.0):
        return math.inf
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return max(1 / cases, high)


def cases_needed(difference: float) -> int:
    """The number of cases at which `smallest_difference` is this small."""

    def detected(cases: int) -> bool:
        return smallest_difference(cases) <= difference + 1e-9

    high = 1
    while not detected(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detected(middle) else (middle, high)
    return high


def _error(where: str, message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.ERROR, where=where, message=message, remedy=remedy)


def _warning(where: str, message: str, remedy: str) -> Finding:
    return Finding(severity=Severity.WARNING, where=where, message=message, remedy=remedy)


def _note(where: str, message: str) -> Finding:
    return Finding(severity=Severity.NOTE, where=where, message=message)


def _repetitions(splits: Mapping[str, Sequence[Case]], *, near: float) -> Iterator[Finding]:
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
        remedy = "give each case its own name, or remove the repetition"
        yield _error(where, f"several cases have the same name: {listed(repeated)}", remedy)


def _questions_in(where: str, cases: Sequence[Case]) -> Iterator[Finding]:
    several = [alike for alike in _by_question(cases).values() if len(_ids(alike)) > 1]
    if several:
        message = f"asked more than once: {listed([_equals(alike) for alike in several])}"
        yield _warning(where, message, "keep one of each: what is asked twice counts twice")
    torn = [_equals(alike) for alike in several if len(_answers(alike)) > 1]
    if torn:
        message = f"one question, different references: {listed(torn)}"
        yield _warning(where, message, "decide on one answer: no agent can give both")


def _questions_across(where: str, here: Sequence[Case], there: Sequence[Case]) -> Iterator[Finding]:
    ours, theirs = _by_question(here), _by_question(there)
    both = [_equals([*ours[key], *theirs[key]]) for key in ours if key in theirs]
    if both:
        remedy = "a case may be in one split only: remove it from one of them, or split again"
        yield _error(where, f"asked in both: {listed(both)}", remedy)


def _names_across(where: str, here: Sequence[Case], there: Sequence[Case]) -> Iterator[Finding]:
    """One name for two questions; equal questions are reported separately."""
    ours = {case.name: case.question_id for case in here if case.name}
    theirs = {case.name: case.question_id for case in there if case.name}
    both = [f"'{name}'" for name in ours if ours[name] != theirs.get(name, ours[name])]
    if both:
        remedy = "give each case its own name: scores are kept by name"
        yield _error(where, f"one name for different cases: {listed(both)}", remedy)


def _nearly(splits: Mapping[str, Sequence[Case]], near: float) -> Iterator[Finding]:
    """Groups of nearly equal questions, by the splits that they are in."""
    placed = [(name, case) for name, cases in splits.items() for case in cases]
    by_homes: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for group in groups([case for _, case in placed], near=near):
        members = {placed[place][1].question_id: placed[place] for place in reversed(group)}
        if len(members) > 1:
            homes = tuple(dict.fromkeys(placed[place][0] for place in group))
            names = [case.id for _, case in reversed(members.values())]
            by_homes[homes].append(" ~ ".join([*names[:3], *(["…"] if len(names) > 3 else [])]))
    for homes, texts in by_homes.items():
        where, message = ", ".join(homes), f"nearly the same questions: {listed(texts)}"
        if len(homes) > 1:
            yield _warning(where, message, "keep them in one split (`burnish data split` does)")
        else:
            yield _note(where, message)


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


def _facts_of(name: str, cases: Sequence[Case]) -> SplitFacts:
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
    return any(turn.expected is not None for turn in case.turns)


def _findings_in(facts: SplitFacts) -> Iterator[Finding]:
    share = facts.usual_share or 0.0
    if share >= 0.5 and facts.usual_count > 1:
        usual = f"{100 * share:.0f}% of the references are {quoted(facts.usual_answer)}"
        remedy = "add cases with other answers, or judge gains against that score"
        yield _warning(facts.name, f"{usual}: always giving that answer scores {share:.2f}", remedy)
    for count, words in (
        (facts.without_reference, "have no reference: metrics that compare skip them"),
        (facts.recorded, "are recorded: they are scored as they are, whatever the candidate"),
        (facts.scenarios, "are scenarios: a model plays the user"),
    ):
        if count:
            yield _note(facts.name, f"{count} of {counted(facts.cases, 'case')} {words}")
    yield _resolution(facts)


def _resolution(facts: SplitFacts) -> Finding:
    """The smallest difference that the split can show."""
    smallest = facts.smallest_difference
    have = counted(facts.cases, "case") if facts.cases else "no cases"
    message = (
        f"no difference between two versions can be told from chance with {have}"
        if math.isinf(smallest)
        else f"{have}: each counts for {1 / facts.cases:.3f} of the pass rate, and a difference "
        f"below {smallest:.2f} will probably go unnoticed"
    )
    if smallest <= 0.4:
        return _note(facts.name, message)
    remedy = f"about {cases_needed(0.1)} cases are needed to notice a difference of 0.10"
    return _warning(facts.name, message, remedy)


def check(splits: Mapping[str, Sequence[Case]], *, near: float = NEAR) -> Findings:
    """Check the splits of a dataset, by name, on their own and against each other.

    Errors are cases in two splits and names that two cases share.
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


def _expects_nothing(case: Case) -> bool:
    expected = (each for turn in case.turns for each in (turn.expected_tools, turn.expected_calls))
    tools = any(each is not None for each in expected)
    return not (_has_reference(case) or case.rubrics or tools)


_CONTENTS: tuple[tuple[Callable[[Case], bool], str, str], ...] = (
    (
        lambda case: not any(turn.input.strip() or turn.attachments for turn in case.turns),
        "have an empty input",
        "write the input, or remove them",
    ),
    (
        lambda case: "" in [turn.expected and turn.expected.strip() for turn in case.turns],
        "have an empty reference",
        "write the reference, or leave it out: an empty one asks for an empty reply",
    ),
    (
        _expects_nothing,
        "have no reference, no tools and no rubric",
        "only a judge that needs no reference can score them",
    ),
)
"""Tests for incomplete cases, each with a message and a remedy."""


def _contents(where: str, cases: Sequence[Case]) -> Iterator[Finding]:
    for lacks, words, remedy in _CONTENTS:
        names = [case.id for case in cases if lacks(case)]
        if names:
            count = f"{len(names)} of {counted(len(cases), 'case')}"
            yield _warning(where, f"{count} {words}: {listed(names)}", remedy)


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
        message = f"no case has a label that other splits have: {listed(labels)}"
        remedy = "split again (`burnish data split` spreads labels), or add such cases"
        yield _warning(name, message, remedy)
    for name, tally in counts.items():
        if tally and max(tally.values()) >= 5 * min(tally.values()):
            shown = [f"'{label}' {count}" for label, count in tally.most_common()]
            yield _note(name, f"labels are uneven: {listed(shown)}")


def _long_inputs(splits: Mapping[str, Sequence[Case]]) -> Iterator[Finding]:
    lengths = [_length(case) for cases in splits.values() for case in cases]
    limit = max(2000, 10 * median(lengths)) if lengths else 0
    for name, cases in splits.items():
        long = [f"{case.id} ({_length(case):,})" for case in cases if _length(case) > limit]
        if long:
            usual = f"the usual {median(lengths):,.0f} characters"
            remedy = "check that they are intended: they may not fit the model, and cost the most"
            yield _warning(name, f"inputs far longer than {usual}: {listed(long)}", remedy)


def _length(case: Case) -> int:
    return sum(len(turn.input) for turn in case.turns)
