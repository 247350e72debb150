"""How a race over holdout stands part way, and whether it is worth going on with."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from burnish.core.cases import Case
from burnish.core.comparisons import cases, paired
from burnish.core.evaluations import Evaluation, Objective, Penalties
from burnish.core.statistics import Race
from burnish.core.trials import Decision, Verdict


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a candidate is run over, and against whom."""

    order: Sequence[Case]
    incumbent: Evaluation
    repeats: int
    block: int
    early: bool
    """Whether it may end before every case was run."""
    draw: int = 0
    earlier: Evaluation | None = None
    """The first run, when this is the second."""
    slack: float | None = None
    """How much lower its score may be in the end; None if it must win."""


class RaceSoFar:
    """The gains of the cases that were run, and what the others can add.

    What one case says does not depend on the others, so each block is looked at once.
    """

    def __init__(self, course: Course, objective: Objective) -> None:
        self._course = course
        self._objective = objective
        self._gains: list[float] = []
        self._ended = 0
        """How many cases were run, the first of the course."""
        self._room: list[float] = []
        """By place on the course, the most that a case can add before it is run."""
        self._promised: list[float] = []
        """By place on the course, what it is known to add by then."""
        before = course.earlier or replace(course.incumbent, results=())
        for new, old in self._scores(before, [case.id for case in course.order]):
            # In a second run one half of each case is known already.
            self._room.append((1.0 if new is None else (new + 1.0) / 2) - (old or 0.0))
            self._promised.append(0.0 if new is None or old is None else (new - old) / 2)

    def add(self, part: Evaluation) -> None:
        """Look at the next cases of the course."""
        earlier = self._course.earlier
        known = [] if earlier is None else [r for c in part.cases for r in earlier.of_case(c)]
        both = replace(part, results=(*known, *part.results))
        for new, old in self._scores(both, part.cases):
            self._gains += [] if new is None or old is None else [new - old]
        self._ended += len(part.cases)

    def _scores(
        self, candidate: Evaluation, cases: Sequence[str]
    ) -> Iterator[tuple[float | None, float | None]]:
        """By case, the score of the candidate and that of the incumbent."""
        objective, incumbent = self._objective, self._course.incumbent
        shared = paired(candidate, incumbent, objective.weights).known
        for case in cases:
            yield objective.case_score(shared, case), objective.case_score(incumbent, case)

    @property
    def race(self) -> Race:
        """How it stands."""
        slack = self._course.slack
        return Race(
            gains=tuple(self._gains),
            room=tuple(self._room[self._ended :]),
            promised=math.fsum(self._promised[self._ended :]),
            slack=None if slack is None else slack * len(self._course.order),
        )


def may_end_early(incumbent: Evaluation, objective: Objective) -> bool:
    """Whether a race can be clear before its end: nothing bounds what a case may cost."""
    return objective.penalties == Penalties() and adds_up(incumbent, objective)


def adds_up(evaluation: Evaluation, objective: Objective) -> bool:
    """Whether the score of the whole is the mean of the cases: every metric applies to each."""
    results = [result for result in evaluation.results if not result.outcome.missing]
    return all(result.applies(metric) for result in results for metric in objective.weights)


def lost_by(race: Race) -> Decision | None:
    """Why a race is not worth going on with, or None."""
    hope = race.hope()
    if hope == "open" or not race.gains:
        return None
    n, left, ahead = len(race.gains), len(race.room), race.ahead
    reason = f"after {cases(n)} {ahead:+.2f}, "
    if hope == "hopeless":
        reason += f"and the {left} left can add no more than {race.best_end - ahead:.2f}"
    else:
        reason += f"which the {left} left are not likely to make up"
    numbers = {"gain_so_far": ahead, "cases": float(n), "cases_left": float(left)}
    return Decision(gate="race", verdict=Verdict.REJECT, code=hope, reason=reason, numbers=numbers)
