"""One measured figure, and the goal it has to meet."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A number with its unit; small is good unless `more` says otherwise."""

    what: str
    value: float
    unit: str
    goal: float | None = None
    more: bool = False

    @property
    def shown(self) -> str:
        """The number as people read it."""
        return f"{_short(self.value)} {self.unit}"

    @property
    def goal_shown(self) -> str:
        """The goal as people read it."""
        if self.goal is None:
            return ""
        return f"{'≥' if self.more else '≤'} {_short(self.goal)} {self.unit}"

    @property
    def mark(self) -> str:
        """Whether the goal is met."""
        if self.goal is None:
            return ""
        met = self.value >= self.goal if self.more else self.value <= self.goal
        return "✓" if met else "✗"


def _short(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
