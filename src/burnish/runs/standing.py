"""The standing of a run: what its recorded trials add up to so far."""

from dataclasses import replace

from burnish.core.stopping import Standing
from burnish.core.trials import SplitResult, Trial

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
        tracked_candidates=standing.tracked_candidates + (leads or trial.kept),
    )
    decisive = trial.holdout or trial.train
    if not leads or decisive is None:
        return counted
    return replace(
        counted,
        best_score=decisive.measurement.score,
        best_pass_rate=_pass_rate(decisive),
        best_passing=decisive.passing,
        best_means=_means(decisive),
    )


def _pass_rate(result: SplitResult) -> float | None:
    """What is missing may not look good: the rate of the rest is not the rate."""
    measured = result.measurement
    missing = measured.missing_cases or any(measured.missing.values())
    return None if missing else measured.pass_rate


def _means(result: SplitResult) -> dict[str, float]:
    """What is missing may not look good: its metric has no mean here."""
    missing = result.measurement.missing
    means = result.measurement.components
    return {metric: mean for metric, mean in means.items() if not missing.get(metric)}
