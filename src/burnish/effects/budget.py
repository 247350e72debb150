"""Budgets: limits on what a run may spend, and the meter that counts what it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnish.core.money import NOTHING, Spend, to_nano, to_usd
from burnish.core.stopping import StopReason


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Every limit a run can have. None is no limit."""

    max_metric_calls: int | None = None
    max_calls: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None
    max_trials: int | None = None
    max_proposals: int | None = None
    max_tracked_candidates: int | None = None
    patience: int | None = None
    """Trials in a row without an accept."""
    score_threshold: float | None = None
    """Good enough: the incumbent's score on the split that decides."""
    pass_rate_threshold: float | None = None
    """Good enough: the share of cases on that split in which the incumbent passes everything."""
    required_metrics: tuple[str, ...] = ()
    """Good enough: the incumbent passes these metrics on every case."""
    metric_thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Good enough: the incumbent's mean of each of these metrics reaches its threshold."""

    def within(self, **limits: float | None) -> "Budget":
        """The same with these limits where they are stricter; a limit is never raised."""
        stricter = {
            name: limit
            for name, limit in limits.items()
            if limit is not None and ((own := getattr(self, name)) is None or limit < own)
        }
        return replace(self, **stricter)  # pyright: ignore[reportArgumentType]

    def spend_limit(self, spent: Spend, need: Spend = NOTHING) -> StopReason | None:
        """Why nothing more may be spent; with `need`, why not that much more."""
        if self.max_usd is not None and spent.unpriced:
            return StopReason(
                code="price_unknown",
                detail=f"{spent.unpriced} calls have no known price, so USD cannot be limited",
            )
        for code, unit, limit, used, more in self._limits(spent, need):
            if used >= limit or used + more > limit:
                return StopReason(code=code, detail=_told(unit, limit, used, more))
        return None

    def left(self, spent: Spend) -> dict[str, float]:
        """The share that is left of each limit, by its name."""
        return {
            code: max(0.0, 1 - used / limit) if limit else 0.0
            for code, _, limit, used, _ in self._limits(spent, NOTHING)
        }

    def _limits(self, spent: Spend, need: Spend) -> list[tuple[str, str, int, int, int]]:
        limits = (
            ("max_metric_calls", "metric calls", self.max_metric_calls, "metric_calls"),
            ("max_calls", "calls", self.max_calls, "calls"),
            ("max_tokens", "tokens", self.max_tokens, "tokens"),
            ("max_usd", "USD", None if self.max_usd is None else to_nano(self.max_usd), "nano_usd"),
        )
        return [
            (code, unit, limit, getattr(spent, name), getattr(need, name))
            for code, unit, limit, name in limits
            if limit is not None
        ]


def _told(unit: str, limit: int, used: int, more: int) -> str:
    def show(amount: int) -> str:
        return f"{to_usd(amount):.4f}" if unit == "USD" else f"{amount:,}"

    told = f"{show(used)} of {show(limit)} {unit} spent"
    return told if used >= limit else f"{told}, and the next step needs {show(more)}"


class Meter:
    """Counts what is spent: each distinct effect once, when its result is first used."""

    def __init__(self) -> None:
        self.spent: Spend = NOTHING
        self._used: set[bytes] = set()

    def use(self, spends: Mapping[str, Spend]) -> Spend:
        """Count these effects, those used before excepted; what was added."""
        added = NOTHING
        for key, spend in spends.items():
            compact = bytes.fromhex(key)
            if compact not in self._used:
                self._used.add(compact)
                added += spend
        self.spent += added
        return added
