"""What a look at a dataset gives: facts about each split, and findings in words."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error must be mended, a warning thought about, a note known."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was found, where, and what to do about it."""

    severity: Severity
    where: str
    """A split, or several."""
    message: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """What a split is made of, in numbers."""

    name: str
    cases: int
    turns: int
    without_reference: int
    """Cases of which no turn has a reference answer."""
    recorded: int
    scenarios: int
    labels: Mapping[str, int]
    """Cases by label; a case with two labels counts for both."""
    usual_answer: str = ""
    """The reference that most cases have, levelled out for comparing."""
    usual_count: int = 0
    usual_share: float | None = None
    """What always giving that answer would score, where there are references."""
    smallest_difference: float
    """In pass rate, to be found in four of five comparisons; infinite where none can be."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """All that was found, the worst first."""

    splits: tuple[SplitFacts, ...]
    found: tuple[Finding, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(finding for finding in self.found if finding.severity is severity)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What must be mended before anything is measured."""
        return self.of(Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What makes measurements worth less than they seem."""
        return self.of(Severity.WARNING)
