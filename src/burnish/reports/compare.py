"""Two runs side by side, case by case where they share cases."""

from dataclasses import dataclass

from burnish.core.evaluations import mean
from burnish.runs.record import RunRecord, result_of


@dataclass(frozen=True, kw_only=True)
class CaseDelta:
    """How one case differs between the best candidates of two runs."""

    case: str
    left: float
    right: float

    @property
    def word(self) -> str:
        """`up`, `down` or `same`."""
        if abs(self.right - self.left) < 1e-9:
            return "same"
        return "up" if self.right > self.left else "down"


def compare_cases(left: RunRecord, right: RunRecord, split: str) -> list[CaseDelta]:
    """The cases that both best candidates were scored on, by the metrics that both have there.

    A metric that applies to one side only says nothing of the difference.
    """
    ours, theirs = (_case_means(run, split) for run in (left, right))
    return [
        CaseDelta(
            case=case,
            left=mean([ours[case][metric] for metric in shared]),
            right=mean([theirs[case][metric] for metric in shared]),
        )
        for case in sorted(set(ours) & set(theirs))
        if (shared := sorted(set(ours[case]) & set(theirs[case])))
    ]


def _case_means(run: RunRecord, split: str) -> dict[str, dict[str, float]]:
    """By case and metric, the mean over the repeats."""
    found = result_of(run.best, split)
    if found is None:
        return {}
    return {
        case: {
            metric: mean(known)
            for metric, values in metrics.items()
            if (known := [value for value in values if value is not None])
        }
        for case, metrics in found.scores.items()
    }
