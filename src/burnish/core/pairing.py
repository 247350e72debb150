"""Pairing: which scores of a candidate can be held against the incumbent's.

A metric that says nothing about a case does not apply to it. Where it spoke of the incumbent's
run of the case and is silent about the candidate's, that silence is the candidate's doing: it
retrieved nothing, called no tool. Such a score is *lost*. It is missing, and in every comparison
it is worth the worst that it could have been, so that nobody gains by making a metric fall
silent where it is hard to please. What a metric says of the candidate alone is not compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from burnish.core.evaluations import CaseResult, Evaluation, Score


@dataclass(frozen=True, order=True)
class _Place:
    """What a score is about: a metric, in a turn."""

    metric: str
    turn: int


@dataclass(frozen=True)
class _Run:
    """One run of one case."""

    case: str
    draw: int


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A candidate beside an incumbent over the cases that both were run on."""

    own: Evaluation
    """The candidate as it was measured."""
    shared: Evaluation
    """The same without the scores that nothing of the incumbent's can be held against."""
    lost: Mapping[_Run, Collection[_Place]]
    """By run of the candidate, the scores that the incumbent has there and it has not."""
    doubtful: Mapping[_Run, Collection[_Place]]
    """The same where the incumbent has only the zeros of a failed run: perhaps no such score."""

    @cached_property
    def lost_cases(self) -> tuple[str, ...]:
        """The cases in which the candidate lost a score."""
        return tuple(dict.fromkeys(run.case for run in self.lost))

    @cached_property
    def lost_metrics(self) -> tuple[str, ...]:
        """The metrics that fell silent."""
        return tuple(sorted({place.metric for lost in self.lost.values() for place in lost}))

    def at(self, value: float) -> Evaluation:
        """What is compared, had every lost score been `value`."""
        return self._filled(self.shared, value)

    def own_at(self, value: float) -> Evaluation:
        """All that was measured, had every lost score been `value`."""
        return self._filled(self.own, value)

    @cached_property
    def known(self) -> Evaluation:
        """What is compared, with every lost score as a missing one."""
        return _with(self.shared, self.lost, None)

    @cached_property
    def own_known(self) -> Evaluation:
        """All that was measured, with every lost score as a missing one."""
        return _with(self.own, self.lost, None)

    def _filled(self, side: Evaluation, value: float) -> Evaluation:
        return _with(_with(side, self.lost, value), self.doubtful, value)


def paired(
    candidate: Evaluation, incumbent: Evaluation, metrics: Collection[str] | None = None
) -> Pairing:
    """Hold a candidate's scores of these metrics, or of all, against an incumbent's."""
    names = {*candidate.metrics, *incumbent.metrics}
    if metrics is not None:
        # Others may be numbers of a run, such as its cost: no metric gives those.
        names &= set(metrics)
    lost: dict[_Run, list[_Place]] = {}
    doubtful: dict[_Run, list[_Place]] = {}
    results: list[CaseResult] = []
    for result in candidate.results:
        others = incumbent.of_case(result.case)
        finished = [run for run in others if _finished(run)]
        if not others or not _finished(result):
            results.append(result)
            continue
        run, here = _Run(result.case, result.draw), _places(result)
        there = {place for other in finished for place in _places(other)}
        gone = {p for p in there - here if p.metric in names and _has(result, p.turn)}
        if gone:
            lost[run] = sorted(gone)
        if not finished and any(other.outcome.failed for other in others):
            silent = names - {place.metric for place in here}
            doubtful[run] = [_Place(metric, 0) for metric in sorted(silent)]
        alone = {
            place for place in here - there if any(_has(other, place.turn) for other in finished)
        }
        scores = tuple(score for score in result.scores if _place(score) not in alone)
        results.append(
            result if len(scores) == len(result.scores) else replace(result, scores=scores)
        )
    shared = replace(candidate, results=tuple(results))
    return Pairing(own=candidate, shared=shared, lost=lost, doubtful=doubtful)


def _finished(result: CaseResult) -> bool:
    return result.outcome.failure is None


def _places(result: CaseResult) -> set[_Place]:
    return {_place(score) for score in result.scores}


def _place(score: Score) -> _Place:
    return _Place(score.metric, score.turn or 0)


def _has(result: CaseResult, turn: int) -> bool:
    """Whether a run got as far as this turn: a talk that was made up may be shorter."""
    questions = result.outcome.asked
    return not questions or turn < len(questions)


def _with(
    side: Evaluation, places: Mapping[_Run, Collection[_Place]], value: float | None
) -> Evaluation:
    """The evaluation with these scores, each of this value, beside its own."""
    if not places:
        return side
    results = [
        replace(result, scores=(*result.scores, *(_score(place, value) for place in due)))
        if (due := places.get(_Run(result.case, result.draw)))
        else result
        for result in side.results
    ]
    return replace(side, results=tuple(results))


def _score(place: _Place, value: float | None) -> Score:
    return Score(
        metric=place.metric,
        value=value,
        passed=None if value is None else value > 0,
        reason="the metric applied to the incumbent here and does not apply any more",
        turn=place.turn,
    )
