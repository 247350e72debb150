"""A trial's row in the words of HoloDeck: what changed, why it was tried, what it scored, and why.

Projected from what the journal holds. What a row cannot know is null.
"""

import difflib
import math
from collections.abc import Mapping

from burnish.core.content import Json
from burnish.core.decisions import Decision
from burnish.core.surfaces import EPSILON
from burnish.core.trials import SplitResult, Trial, TrialDetails, TrialRow
from burnish.runs.leading import Leader
from burnish.runs.standing import BASELINE

_NUMBERS = (
    "best_train_mean_before",
    "train_mean",
    "train_std",
    "train_improvement",
    "accept_sigma",
    "noise_bar",
    "holdout_mean",
    "best_holdout_mean_before",
    "holdout_regression",
    "holdout_noise_bar",
)
"""What the gate of HoloDeck decided on; another gate leaves out what it has no word for."""


def audited(row: TrialRow, before: Leader, after: Leader) -> dict[str, Json]:
    """HoloDeck's fields of a row, given who was ahead before and after it."""
    trial = row.trial
    source = proposal_source(trial)
    return {
        "trial_id": row.number,
        "timestamp": row.at,
        "cycle": trial.cycle,
        "phase": trial.phase,
        "axis_target": axis_target(trial) or None,
        "baseline_before_path": before.path,
        "proposal_source": _explained(source, trial, before),
        "candidate_path": before.path_at(row.number) if trial.accepted else None,
        "repeats": _repeats(trial),
        "train": _split(trial.train, row.split_seconds.get("train")),
        "holdout": _split(trial.holdout, row.split_seconds.get("holdout")),
        "decision": _decision(trial),
        "study_state": {
            "cycle": trial.cycle,
            "phase": trial.phase,
            "numeric_study_id": source.get("numeric_study_id"),
            "tpe_n_observations_this_study": source.get("tpe_n_observations_this_study"),
            "best_trial_id": after.number,
        },
    }


def axis_target(trial: Trial) -> str:
    """What the trial aimed at: one axis, or the axes that were moved together."""
    axis = TrialDetails.of(trial).axis_target
    return ", ".join(trial.touched) if axis is None else axis


def proposal_source(trial: Trial) -> Mapping[str, Json]:
    """Where the proposal came from, as the strategy tells it."""
    return TrialDetails.of(trial).proposal_source or {}


def _explained(source: Mapping[str, Json], trial: Trial, before: Leader) -> Json:
    """The source with what the row knows beside it."""
    told: dict[str, Json] = {**source}
    critic, applier = source.get("critic"), source.get("applier")
    if isinstance(critic, dict):
        told["critic"] = {"model": None, **critic}
    if isinstance(applier, dict):
        added, removed = _lines_changed(trial, before)
        counts: dict[str, Json] = {"diff_lines_added": added, "diff_lines_removed": removed}
        told["applier"] = {"model": None, **applier, **counts}
    return told or None


def _lines_changed(trial: Trial, before: Leader) -> tuple[int | None, int | None]:
    axis = axis_target(trial)
    new = trial.candidate.values.get(axis)
    old = None if before.candidate is None else before.candidate.values.get(axis)
    if not isinstance(new, str) or not isinstance(old, str):
        return None, None
    marks = [line[:2] for line in difflib.ndiff(old.splitlines(), new.splitlines())]
    return marks.count("+ "), marks.count("- ")


def _repeats(trial: Trial) -> int | None:
    measured = trial.train or trial.holdout
    if measured is None:
        return None
    kept = (len(values) for metrics in measured.scores.values() for values in metrics.values())
    return max(kept, default=len(measured.measurement.runs)) or None


def _split(result: SplitResult | None, seconds: float | None) -> Json:
    if result is None:
        return None
    found = result.measurement
    rate = found.pass_rate
    return {
        "report_summary": {
            "pass_rate": None if rate is None else round(100 * rate, 9),
            "pass_rate_unit": "percent",
            "average_scores": {**found.components},
        },
        "loss_components": {**found.components},
        "penalty_components": {**found.penalties},
        "loss": found.loss,
        "loss_std": None if found.loss is None else found.std,
        "loss_runs": [*found.runs],
        "errored_runs_excluded": sum(found.missing.values()),
        "duration_sec": seconds,
        "trial_usd": _agent_usd(result),
    }


def _agent_usd(result: SplitResult) -> float | None:
    """What the agent's own runs cost, all repeats; a run that failed is charged, not priced."""
    cost, sweeps = result.measurement.values.get("cost_usd"), len(result.measurement.runs)
    return None if cost is None or result.errors or not sweeps else cost * sweeps


def _decision(trial: Trial) -> Json:
    if trial.phase == BASELINE:
        return None
    made = trial.decision
    numbers: Mapping[str, float] = made.numbers if made else {}
    told: dict[str, Json] = {name: numbers.get(name) for name in _NUMBERS}
    return {
        **told,
        "pooled_train_std": _pooled(numbers),
        "improvement_clears_noise": _clears(numbers),
        "holdout_within_noise": _holds(numbers),
        "accepted": trial.accepted,
        "reason": _reason(trial, made),
    }


def _reason(trial: Trial, made: Decision | None) -> str | None:
    if trial.problems:
        return f"turned away: {'; '.join(map(str, trial.problems))}"
    return None if made is None else made.reason


def _pooled(numbers: Mapping[str, float]) -> float | None:
    ours, theirs = numbers.get("train_std"), numbers.get("best_train_std")
    return None if ours is None or theirs is None else math.hypot(ours, theirs)


def _clears(numbers: Mapping[str, float]) -> bool | None:
    gain, bar = numbers.get("train_improvement"), numbers.get("noise_bar")
    return None if gain is None or bar is None else gain > EPSILON and gain >= bar - EPSILON


def _holds(numbers: Mapping[str, float]) -> bool | None:
    fall, bar = numbers.get("holdout_regression"), numbers.get("holdout_noise_bar")
    return None if fall is None or bar is None else fall <= bar + EPSILON
