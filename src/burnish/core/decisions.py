"""Decisions: accepted or not, with every number used and a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

MAX_MISSING = 0.25
"""The share of cases that may be missing before nobody can tell."""


class Verdict(StrEnum):
    """What a gate says."""

    ACCEPT = "accept"
    KEEP = "keep"
    """Worth building on, though it does not lead."""
    REJECT = "reject"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True)
class MissingCases:
    """What a comparison had to do without."""

    compared: int = 0
    """Cases that both sides have."""
    candidate: int = 0
    """Cases missing on the candidate's side."""
    incumbent: int = 0
    """Cases missing on the incumbent's side."""
    dropped: int = 0
    """Cases left out because either side lacks them."""
    lost: int = 0
    """Of the cases compared, those in which a metric that applied to the incumbent does not apply
    to the candidate: there it counts as the worst it could be."""
    silent: tuple[str, ...] = ()
    """The metrics of these cases."""
    allowed: float = 1.0
    """The share of cases in which something may be missing."""
    could_turn: bool = False
    """Whether what is missing could have turned the verdict."""

    @property
    def share(self) -> float:
        """The share of cases in which something is missing."""
        whole = self.compared + self.dropped
        return (self.dropped + self.lost) / whole if whole else 0.0

    @property
    def too_many(self) -> bool:
        """Too many are missing, or nothing is left, to tell anything."""
        return not self.compared or self.share > self.allowed


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What a gate decided, and everything it decided on."""

    gate: str
    verdict: Verdict
    code: str
    """The reason in one word, for tables: `better`, `noise`, `worse`, `holdout`, …"""
    reason: str
    """The reason in one sentence, made from `numbers`."""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])
    missing: MissingCases = field(default_factory=MissingCases)

    @property
    def accepted(self) -> bool:
        """Whether the candidate becomes the incumbent."""
        return self.verdict is Verdict.ACCEPT
