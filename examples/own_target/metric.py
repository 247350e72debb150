"""A metric of its own: how far down the list the right article stands."""

from collections.abc import Sequence
from dataclasses import dataclass

from burnish import Case, Effects, Outcome, Score, Spend
from burnish.core.content import short_id


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank:
    """1 for the first place, 1/2 for the second, 1/3 for the third; only the first passes."""

    name: str = "reciprocal_rank"

    @property
    def fingerprint(self) -> str:
        """Changes when the metric does: raise the version with every change of `score`."""
        return short_id([self.name, "version 1"])

    def estimate(self, case: Case) -> Spend:
        """Nothing: it computes."""
        del case
        return Spend()

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """One score; none for a case that expects nothing in particular."""
        del effects
        if case.expected is None:
            return []
        found = outcome.data if isinstance(outcome.data, list) else [outcome.output]
        if case.expected not in found:
            reason = f"'{case.expected}' was not found"
            return [Score(metric=self.name, value=0.0, passed=False, reason=reason)]
        rank = found.index(case.expected) + 1
        reason = "" if rank == 1 else f"'{case.expected}' stands at {rank}, after '{found[0]}'"
        return [Score(metric=self.name, value=1 / rank, passed=rank == 1, reason=reason)]
