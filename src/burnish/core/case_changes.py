"""What changed case by case between two evaluations: passes won and lost, scores up and down."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from burnish.core.comparisons import Pair
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.pairing import paired
from burnish.core.surfaces import EPSILON


@dataclass(frozen=True, kw_only=True)
class CaseChanges:
    """The cases that both sides have, by what became of them."""

    new_pass: tuple[str, ...] = ()
    new_fail: tuple[str, ...] = ()
    """It passed and fails now, or the agent gave an answer and now gives none."""
    up: tuple[str, ...] = ()
    """A higher score than before, whether or not it passes now."""
    down: tuple[str, ...] = ()


def case_changes(pair: Pair, objective: Objective) -> CaseChanges:
    """Compare case by case; a case that is missing on a side changed in no way that is known.

    Nor did one to which a metric applied before and does not apply any more.
    """
    pairing = paired(pair.candidate, pair.incumbent)
    scored = replace(pair, candidate=pairing.known)
    pair = replace(pair, candidate=pairing.own_known)
    new_pass: list[str] = []
    new_fail: list[str] = []
    up: list[str] = []
    down: list[str] = []
    wanted = judged_metrics(pair, objective)
    for case in pair.candidate.cases:
        now, before = passes(pair.candidate, case, wanted), passes(pair.incumbent, case, wanted)
        if now is True and before is False:
            new_pass.append(case)
        if now is False and (before is True or (before is None and _broke(pair, case))):
            new_fail.append(case)
        gain = _gain(scored, objective, case)
        if gain > EPSILON:
            up.append(case)
        if gain < -EPSILON:
            down.append(case)
    return CaseChanges(
        new_pass=tuple(new_pass), new_fail=tuple(new_fail), up=tuple(up), down=tuple(down)
    )


def judged_metrics(pair: Pair, objective: Objective) -> tuple[str, ...]:
    """The metrics a case must pass to pass: those that the objective names, else all."""
    if objective.required is not None:
        return objective.required
    return tuple(sorted({*pair.candidate.metrics, *pair.incumbent.metrics}))


def passes(evaluation: Evaluation, case: str, metrics: Collection[str]) -> bool | None:
    """Whether a case passes in every repeat; None when it is missing or has no verdict."""
    verdicts = [result.passed(metrics) for result in evaluation.of_case(case)]
    if not verdicts or None in verdicts:
        # One run that fails is enough to know, whatever the others would have said.
        return False if False in verdicts else None
    return all(verdicts)


def _broke(pair: Pair, case: str) -> bool:
    """Whether the agent fails on a case now that had scores without a verdict before."""
    runs = pair.incumbent.of_case(case)
    there = bool(runs) and not any(run.outcome.missing for run in runs)
    gave_scores = all(score.value is not None for run in runs for score in run.scores)
    fails = any(run.outcome.failed for run in pair.candidate.of_case(case))
    return there and gave_scores and fails


def _gain(pair: Pair, objective: Objective, case: str) -> float:
    now, before = (objective.case_score(side, case) for side in (pair.candidate, pair.incumbent))
    return 0.0 if now is None or before is None else now - before
