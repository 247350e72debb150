"""The page about two runs side by side, case by case where they share cases."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from burnish.core.formatting import duration, moment, number, spending
from burnish.pages.changes import ShownChange, shown_changes
from burnish.pages.document import ALONE, Place, render
from burnish.reports.rendering import CaseDelta, compare_cases
from burnish.runs.claims import claim_summary
from burnish.runs.directory import RunRecord, whole_loss
from burnish.runs.report_sections import SPLITS

_WORDS = {"up": "better", "down": "worse", "same": "same"}


@dataclass(frozen=True, kw_only=True)
class SplitDeltas:
    """The shared cases of a split, those that moved first."""

    split: str
    deltas: tuple[CaseDelta, ...]

    @property
    def counts(self) -> dict[str, int]:
        counter = Counter(_WORDS[delta.word] for delta in self.deltas)
        return {word: counter[word] for word in _WORDS.values() if counter[word]}


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """Two runs side by side."""

    left: RunRecord
    right: RunRecord

    @property
    def names(self) -> tuple[str, ...]:
        return distinct_names((self.left, self.right))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the two may not be comparable."""
        return tuple(differences(self.left, self.right).values())

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        return side_by_side((self.left, self.right))

    @property
    def splits(self) -> tuple[SplitDeltas, ...]:
        order = list(_WORDS)[::-1]
        splits = (
            SplitDeltas(
                split=split,
                deltas=tuple(
                    sorted(
                        compare_cases(self.left, self.right, split),
                        key=lambda delta: -order.index(delta.word),
                    )
                ),
            )
            for split in SPLITS
        )
        return tuple(each for each in splits if each.deltas)

    @property
    def changes(self) -> tuple[ShownChange, ...]:
        """How the winner on the right differs from the one on the left."""
        left, right = self.left.best_candidate, self.right.best_candidate
        return () if left is None or right is None else shown_changes(left, right)

    def word(self, delta: CaseDelta) -> str:
        """`better`, `worse` or `same`, from left to right."""
        return _WORDS[delta.word]

    def to_html(self, place: Place = ALONE) -> str:
        """The whole document."""
        title = " and ".join(self.names)
        return render("comparison.html.j2", {"page": self, "title": title}, place=place)


_DIFFERENCES = {
    "data": "They were not measured on the same cases: only shared cases are compared.",
    "metrics": "They were not measured with the same metrics, so scores may differ by that alone.",
    "target": "They are not about the same target.",
}


def differences(left: RunRecord, right: RunRecord) -> dict[str, str]:
    """By the name of what differs, why two runs may not be comparable."""
    ours, theirs = left.header.inputs, right.header.inputs
    return {
        name: words for name, words in _DIFFERENCES.items() if ours.get(name) != theirs.get(name)
    }


def distinct_names(runs: Sequence[RunRecord]) -> tuple[str, ...]:
    """The name of each run; one that has the name of another has a number too."""
    seen = Counter[str]()
    names: list[str] = []
    for run in runs:
        name = run.header.id
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(names)


def side_by_side(runs: Sequence[RunRecord]) -> tuple[tuple[str, ...], ...]:
    """The rows of a table with one column for each run, after the names of the rows."""
    return tuple(
        (label, *words)
        for label, words in (
            ("claim", [claim_summary(run.claim) for run in runs]),
            *((f"{s} loss", [_losses(run, s) for run in runs]) for s in SPLITS),
            ("strategy", [run.header.strategy for run in runs]),
            ("status", [run.status for run in runs]),
            ("trials", [f"{run.trials:,}, {run.accepted} accepted" for run in runs]),
            ("spent", [spending(run.spent) for run in runs]),
            ("time", [duration(run.active_seconds) for run in runs]),
            ("started", [moment(run.header.started_at) for run in runs]),
        )
    )


def _losses(run: RunRecord, split: str) -> str:
    return " → ".join(number(whole_loss(run, row, split)) for row in (run.baseline, run.best))
