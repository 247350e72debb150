"""Pairing: which scores of a candidate can be compared with the incumbent's.

A metric without a score does not apply to a case. If it applied to the incumbent's run and not
to the candidate's, the candidate caused that: it retrieved nothing, or called no tool. Such a
score is *lost*. It is missing, and every comparison takes it at its worst, so that no candidate
gains by avoiding a metric. Scores that only the candidate has are not compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from burnish.core.evaluations import CaseResult, Evaluation, Score


class _Place(NamedTuple):
    metric: str
    turn: int


class _Run(NamedTuple):
    case: str
    draw: int


@dataclass(frozen=True, kw_only=True)
class Pairing:
    """A candidate beside an incumbent, on the cases that both ran."""

    own: Evaluation
    """The candidate as it was measured."""
    shared: Evaluation
    """The same without the scores that the incumbent has no counterpart for."""
    lost: Mapping[_Run, Collection[_Place]]
    """By run of the candidate, the scores that only the incumbent has there."""
    doubtful: Mapping[_Run, Collection[_Place]]
    """The same where the incumbent only has the zeros of a failed run: perhaps no such score."""

    @cached_property
    def lost_cases(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.case for run in self.lost))

    @cached_property
    def lost_metrics(self) -> tuple[str, ...]:
        """The metrics that no longer apply somewhere."""
        return tuple(sorted({place.metric for lost in self.lost.values() for place in lost}))

    def at(self, value: float) -> Evaluation:
        """The shared scores, with every lost score as `value`."""
        return self._filled(self.shared, value)

    def own_at(self, value: float) -> Evaluation:
        """All of the candidate's scores, with every lost score as `value`."""
        return self._filled(self.own, value)

    @cached_property
    def known(self) -> Evaluation:
        """The shared scores, with every lost score missing."""
        return _with(self.shared, self.lost, None)

    @cached_property
    def own_known(self) -> Evaluation:
        """All of the candidate's scores, with every lost score missing."""
        return _with(self.own, self.lost, None)

    def _filled(self, side: Evaluation, value: float) -> Evaluation:
        return _with(_with(side, self.lost, value), self.doubtful, value)


def paired(
    candidate: Evaluation,
    incumbent: Evaluation,
    metrics: Collection[str] | None = None,
    *,
    dropped: Collection[str] = (),
) -> Pairing:
    """Pair a candidate's scores of these metrics, or of all, with an incumbent's.

    Cases that are `dropped` say nothing about which metrics could have applied to the others.
    """
    names = {*candidate.metrics, *incumbent.metrics}
    kept = set(candidate.cases).intersection(incumbent.cases).difference(dropped)
    applied = {*candidate.only(kept).metrics, *incumbent.only(kept).metrics}
    if metrics is not None:
        # `metrics` may also name numbers of a run, such as its cost.
        names, applied = names & set(metrics), applied & set(metrics)
    lost: dict[_Run, list[_Place]] = {}
    doubtful: dict[_Run, list[_Place]] = {}
    results: list[CaseResult] = []
    for result in candidate.results:
        others = incumbent.of_case(result.case)
        finished = [run for run in others if run.outcome.failure is None]
        if not others or result.outcome.failure is not None:
            results.append(result)
            continue
        run, here = _Run(result.case, result.draw), _places(result)
        there = {place for other in finished for place in _places(other)}
        gone = {p for p in there - here if p.metric in names and _has(result, p.turn)}
        if gone:
            lost[run] = sorted(gone)
        if not finished and any(other.outcome.failed for other in others):
            known = names if result.case in dropped else applied
            silent = known - {place.metric for place in here}
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


def _places(result: CaseResult) -> set[_Place]:
    return {_place(score) for score in result.scores}


def _place(score: Score) -> _Place:
    return _Place(score.metric, score.turn or 0)


def _has(result: CaseResult, turn: int) -> bool:
    """Whether a run reached this turn: a generated conversation may be shorter."""
    questions = result.outcome.asked
    return not questions or turn < len(questions)


def _with(
    side: Evaluation, places: Mapping[_Run, Collection[_Place]], value: float | None
) -> Evaluation:
    """The evaluation with scores of this value added at these places."""
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
