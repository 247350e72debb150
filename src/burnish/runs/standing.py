"""The standing of a run: what its recorded trials add up to so far."""

from dataclasses import replace

from burnish.core.stopping import Standing
from burnish.core.trials import Trial

BASELINE = "baseline"
"""The phase of the trial that measures where the run starts."""


def after(standing: Standing, trial: Trial) -> Standing:
    """The standing once this trial is recorded."""
    baseline = trial.phase == BASELINE
    leads = trial.accepted or baseline
    counted = replace(
        standing,
        trials=standing.trials + (not baseline),
        proposals=standing.proposals + len(trial.proposals),
        since_accept=0 if leads else standing.since_accept + 1,
        tracked_candidates=standing.tracked_candidates + leads,
    )
    decisive = trial.holdout or trial.train
    if not leads or decisive is None:
        return counted
    return replace(
        counted,
        best_score=decisive.measurement.score,
        best_passing=decisive.passing,
    )
