"""What a search remembers from phase to phase. A replay fills it again from the journal."""

from dataclasses import dataclass, field

from burnish.strategies.coordinate.wording import Rejected


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Losses of what was tried, and diagnoses that brought nothing."""

    losses: dict[str, float | None] = field(default_factory=dict[str, float | None])
    """By candidate, on train; None where nobody could tell."""
    rejected: dict[str, list[Rejected]] = field(default_factory=dict[str, list[Rejected]])
    """By axis, in the order of the trials."""
