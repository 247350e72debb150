"""Matches: whether something is as a rule asks, and in words why it is not."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Match:
    """Whether a rule holds; where it does not, what was expected and what was found."""

    held: bool
    reason: str = ""

    @classmethod
    def missed(cls, reason: str) -> "Match":
        """A rule that does not hold, and why."""
        return cls(held=False, reason=reason)


HELD = Match(held=True)


def all_of(matches: Iterable[Match]) -> Match:
    """Holds where every match does; the reasons of the others stand side by side."""
    reasons = [match.reason for match in matches if not match.held]
    return Match.missed("; ".join(reasons)) if reasons else HELD
