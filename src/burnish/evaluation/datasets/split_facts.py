"""The numbers of one split, and what they say."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from burnish.core.cases import Case, squeeze
from burnish.evaluation.datasets.findings import Finding, Severity, SplitFacts
from burnish.evaluation.datasets.power import cases_needed, smallest_difference
from burnish.evaluation.matching.excerpts import counted, quoted

_USUAL = 0.5
"""From this share of equal references on, a constant answer looks good."""
_COARSE = 0.4
"""A set that shows no smaller difference is too small for most purposes."""


def facts_of(name: str, cases: Sequence[Case]) -> SplitFacts:
    """What a split is made of."""
    answers = Counter(squeeze(case.expected) for case in cases if case.expected is not None)
    usual, count = (answers.most_common(1) or [("", 0)])[0]
    return SplitFacts(
        name=name,
        cases=len(cases),
        turns=sum(len(case.turns) for case in cases),
        without_reference=sum(not has_reference(case) for case in cases),
        recorded=sum(case.recorded is not None for case in cases),
        scenarios=sum(case.scenario is not None for case in cases),
        labels=Counter(label for case in cases for label in dict.fromkeys(case.labels)),
        usual_answer=usual,
        usual_count=count,
        usual_share=count / answers.total() if answers else None,
        smallest_difference=smallest_difference(len(cases)),
    )


def has_reference(case: Case) -> bool:
    """Whether any turn has a reference answer."""
    return any(turn.expected is not None for turn in case.turns)


def findings_in(facts: SplitFacts) -> Iterator[Finding]:
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
    told = (
        f"no difference between two versions can be told from chance with {have}"
        if math.isinf(smallest)
        else f"{have}: one makes {1 / facts.cases:.3f} of the pass rate, and a difference "
        f"under {smallest:.2f} is likely to go unnoticed"
    )
    return Finding(
        severity=Severity.WARNING if coarse else Severity.NOTE,
        where=facts.name,
        message=told,
        remedy=f"to notice a difference of 0.10 takes about {cases_needed(0.1)} cases"
        if coarse
        else "",
    )
