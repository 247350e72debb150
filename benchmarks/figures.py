"""One measured figure, the goal it has to meet, and what another program needs for the same."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number with its unit; small is good unless `more` says otherwise."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    more: bool = False
    peer: str = ""
    """Another program that was measured on the same work, in the same process."""
    peer_value: float = 0.0

    @property
    def shown(self) -> str:
        """The number as people read it."""
        return self.spelled(self.value)

    @property
    def goal_shown(self) -> str:
        """The goal as people read it."""
        if self.goal is None:
            return ""
        return f"{'≥' if self.more else '≤'} {self.spelled(self.goal)}"

    @property
    def mark(self) -> str:
        """Whether the goal is met."""
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.more else self.value <= self.goal
        return "✓" if met else "✗"

    @property
    def peer_shown(self) -> str:
        """What the other program needs, and how many times that burnish needs."""
        if not self.peer:
            return ""
        return f"{self.peer}: {self.spelled(self.peer_value)}, × {self.value / self.peer_value:.2f}"

    def spelled(self, value: float) -> str:
        """A value of this figure with its unit."""
        return f"{_short(value)} {self.unit}"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
