"""What an evaluation found, for programs and tests."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.evaluations import Evaluation
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, Complaint, Trouble, complaints_of, unwell
from burnish.reports.evaluation_page import two, verdict
from burnish.runs.driving import Ending

_LONGEST = 600


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An agent's outcomes and scores over all cases, and what they come to."""

    # Left out of the repr: asyncio spells out the result of what it ran, in full.
    cases: tuple[Case, ...] = field(repr=False)
    evaluation: Evaluation = field(repr=False)
    report: EvalReport = field(repr=False)
    """Rows by case, metrics with intervals, totals; `to_json` makes it a file."""
    ending: Ending
    folder: Path | None = None
    """The run's folder, where it was kept."""

    @property
    def passed(self) -> bool:
        """Whether every case passes every metric in every repeat, and none is missing."""
        return self.report.ok

    @property
    def failures(self) -> dict[str, tuple[Complaint, ...]]:
        """By case, what keeps it from passing: metric, expected, actual and reason."""
        return {row.case: complaints_of(row) for row in unwell(self.report.cases)}

    def score(self, metric: str) -> float | None:
        """The mean of a metric over cases and repeats; None where nothing is scored."""
        return self.evaluation.mean_of(metric)

    def explain(self) -> str:
        """The verdict, and each case that does not pass with expected, actual and reason."""
        told = (explained(row, complaints_of(row)) for row in unwell(self.report.cases))
        return "\n".join([verdict(self.report), *told])

    def require(self) -> "Evaluated":
        """Itself when everything passes; else an AssertionError that explains."""
        if not self.passed:
            raise AssertionError(self.explain())
        return self


def explained(row: CaseRow, complaints: tuple[Complaint, ...]) -> str:
    """A case that does not pass, in a few lines."""
    return "\n".join([f"✗ {row.case}", *(line for c in complaints for line in _lines(row, c))])


def _lines(row: CaseRow, told: Complaint) -> Iterator[str]:
    value = two(told.value) if told.trouble is Trouble.FAILED else told.trouble.value
    often = f" in {told.tries} of {len(row.tries)} runs" if len(row.tries) > 1 else ""
    yield f"  {told.where}: {value}{often}"
    if told.expected is not None:
        yield f"    expected  {_cut(told.expected)}"
    if told.trouble is Trouble.FAILED:
        yield f"    actual    {_cut(told.actual)}"
    if told.reason:
        yield f"    reason    {_cut(told.reason)}"


def _cut(text: str) -> str:
    kept = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return kept.replace("\n", "\n              ") or "(empty)"
