"""Parts of a reflective search to test with: evaluations, members and pools in a line."""

from collections.abc import Mapping, Sequence

from burnish.core.cases import Case, Outcome, Split
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.statistics import Race
from burnish.core.surfaces import Candidate, Origin
from burnish.strategies.races import Course, RaceSoFar
from burnish.strategies.reflective.attempts import FrontierType, Member, Pool

ONE = Objective(weights={"m": 1.0})
TWO = Objective(weights={"m": 1.0, "n": 1.0})


def candidate(parents: Sequence[str] = (), **texts: str) -> Candidate:
    """A candidate with these texts."""
    return Candidate(values=texts, parents=tuple(parents), origin=Origin(kind="proposal"))


def result(case: str, draw: int = 0, **scores: float | None) -> CaseResult:
    """A run of a case with these scores."""
    given = tuple(Score(metric=metric, value=value) for metric, value in scores.items())
    return CaseResult(case=case, draw=draw, outcome=Outcome(replies=("ok",)), scores=given)


def evaluated(scores: Sequence[float | None], *, draw: int = 0) -> Evaluation:
    """One metric over the cases c0, c1, …"""
    results = [result(f"c{n}", draw, m=score) for n, score in enumerate(scores)]
    return Evaluation(candidate="x", split=Split.HOLDOUT, results=tuple(results))


def both(cases: Mapping[str, tuple[float, float]]) -> Evaluation:
    """Two metrics over named cases."""
    results = [result(case, m=first, n=second) for case, (first, second) in cases.items()]
    return Evaluation(candidate="x", split=Split.HOLDOUT, results=tuple(results))


def holdout(count: int) -> tuple[Case, ...]:
    """The cases c0, c1, …"""
    return tuple(Case.single(f"question {n}", "yes", name=f"c{n}") for n in range(count))


def race_so_far(done: Evaluation, course: Course, objective: Objective) -> Race:
    """How a race stands after these cases."""
    so_far = RaceSoFar(course, objective)
    so_far.add(done)
    return so_far.race


def pool_of(
    *scores: Sequence[float | None], frontier: FrontierType = "instance"
) -> tuple[Pool, list[Member]]:
    """A pool of members with these scores, a text each; the best of them leads."""
    pool = Pool(ONE, frontier)
    sums = [sum(score or 0.0 for score in row) for row in scores]
    members = [
        pool.add(candidate(text=f"text {n}"), evaluated(row), leads=n == sums.index(max(sums)))
        for n, row in enumerate(scores)
    ]
    return pool, members
