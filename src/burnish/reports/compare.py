"""Two runs side by side, case by case where they share cases."""

from dataclasses import dataclass

from burnish.core.evaluations import mean
from burnish.reports.reading import RunRecord, result_of


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
    """The cases that both best candidates were scored on."""
    ours, theirs = (_case_means(run, split) for run in (left, right))
    return [
        CaseDelta(case=case, left=ours[case], right=theirs[case])
        for case in sorted(set(ours) & set(theirs))
    ]


def _case_means(run: RunRecord, split: str) -> dict[str, float]:
    found = result_of(run.best, split)
    if found is None:
        return {}
    means: dict[str, float] = {}
    for case, metrics in found.scores.items():
        known = [v for values in metrics.values() for v in values if v is not None]
        if known:
            means[case] = mean(known)
    return means
