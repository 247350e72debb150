"""What a search takes to finish its first round, and the limits that do not allow it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from burnish.core.errors import Problem
from burnish.core.formatting import counted
from burnish.core.money import NOTHING, Spend
from burnish.journal.limits import Budget


@dataclass(frozen=True, kw_only=True)
class FirstRound:
    """What it takes to finish one round, as far as that is known before the first call.

    Runs of cases are counted, and calls are expected. Tokens, US dollars and minutes are only
    estimated, so limits on them are left to the run.
    """

    baseline: Spend
    """Measuring the baseline."""
    candidate: Spend = NOTHING
    """Making a candidate and measuring it; nothing where the baseline alone is a result."""
    usual: Spend = NOTHING
    """What a candidate usually takes besides. Some end without it, so it may be missing."""
    reserved: Spend = NOTHING
    """What a run asks before the baseline, and what it keeps back for the end."""
    including: str = ""
    """What is kept back, in words."""
    places: Mapping[str, str] = field(default_factory=dict[str, str])
    """By limit, where it is set, for messages."""

    @property
    def whole(self) -> Spend:
        """What is enough."""
        return self.baseline + self.candidate + self.usual + self.reserved

    def problems(self, budget: Budget) -> Iterator[Problem]:
        """The limits under which a run would stop before its first round ends."""
        least, whole = self._least, self.whole
        for name, unit, limit, need, enough in (
            ("max_metric_calls", "runs of cases", budget.max_metric_calls, least.metric_calls,
             whole.metric_calls),
            ("max_calls", "calls", budget.max_calls, least.calls, whole.calls),
        ):  # fmt: skip
            if limit is None or limit >= need:
                continue
            last = f", including {self.including}" if self.including else ""
            if self.candidate.is_nothing:
                message = f"{limit} {unit} cannot measure the baseline: that takes {enough}{last}"
                remedy = f"allow {enough} or more, or use fewer cases"
            else:
                message = (
                    f"{limit} {unit} cannot finish one round: measuring the baseline and one "
                    f"candidate takes {enough}{last}"
                )
                remedy = f"allow {enough} or more, use fewer cases, or a smaller minibatch"
            where = self.places.get(name, f"budget.{name}")
            yield Problem(where=where, message=message, remedy=remedy)

    @property
    def _least(self) -> Spend:
        """What a run cannot do without, since it checks each step before it begins it.

        A baseline may turn out to take fewer calls than expected, such as where a conversation
        ends early, but no less than one for each run of a case. What is left pays for the round.
        """
        sure = replace(self.baseline, calls=min(self.baseline.calls, self.baseline.metric_calls))
        return self.baseline.at_least(sure + self.candidate) + self.reserved

    def line(self) -> str:
        """What is enough, as a line of a plan."""
        whole = self.whole
        amounts = counted(whole.metric_calls, "metric call")
        if whole.calls > whole.metric_calls:
            amounts += f" and {counted(whole.calls, 'call')}"
        return f"at least  {amounts} to finish one round"
