"""The end of a search: why it stops, the closing pass, and what is reserved for measuring at last.

Where a pass begins and ends depends on the limits, which a resume may change. So both are marks in
the journal: a replay goes the same way, whatever the limits are now.
"""

import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from burnish.core.cases import Case, Split
from burnish.core.content import canonical, codec, short_id
from burnish.core.money import NOTHING, Spend, to_nano, to_usd, total
from burnish.core.trials import FINISHED, Standing, StopReason
from burnish.journal.journal import Journal
from burnish.journal.limits import Budget, Meter
from burnish.runs.directory import AFTER_SEARCH, RunDirectory, look_into
from burnish.runs.evaluation import Conditions
from burnish.runs.stoppers import (
    STOP_FILE,
    ImpureStopper,
    Stops,
    callback_stopper,
    out_of_time,
    stop_file,
)

SHARE = 0.1
"""Of every limit on spending, time and trials, at most so much goes to the closing pass."""
_FIRST_FRESH_DRAW, _FRESH_DRAWS = 1_000_000, 1_000
"""Draws that no search comes to: each winner has its own, small enough to be added to a seed."""
_SPENT = ("metric_calls", "calls", "tokens", "usd", "minutes", "trials")
"""What limits of a closing pass are about."""


@dataclass(frozen=True, kw_only=True)
class _Beginning:
    """Where a pass began, as the journal stores it."""

    check: int
    """Checks for a reason to stop that were made before."""
    seconds: float
    """Active time of the run."""
    stop: StopReason | None = None
    """Why the search stopped; None if it had nothing left to try."""


@dataclass(frozen=True, kw_only=True)
class _End:
    """Where a pass ended."""

    trial: int


def closing_share(budget: Budget, sealed: Spend) -> Spend:
    """The share of each limit that is set; what the sealed test needs is not shared."""

    def share(limit: int | None, other: int) -> int:
        return 0 if limit is None else max(0, math.floor(SHARE * (limit - other)))

    usd = None if budget.max_usd is None else to_nano(budget.max_usd)
    return Spend(
        metric_calls=share(budget.max_metric_calls, sealed.metric_calls),
        calls=share(budget.max_calls, sealed.calls),
        tokens_in=share(budget.max_tokens, sealed.tokens),
        nano_usd=share(usd, sealed.nano_usd),
    )


def closing_trials(budget: Budget) -> int:
    """The share of the limit on trials, if it is set."""
    return math.floor(SHARE * (budget.max_trials or 0))


def pays_for(budget: Budget, sealed: Spend, need: Spend) -> bool:
    """Whether the share of every limit pays for so much."""
    limits = _spending(budget, closing_share(budget, sealed))
    if budget.max_trials is not None and not closing_trials(budget):
        return False
    return limits.spend_limit(NOTHING, need) is None


def _spending(budget: Budget, limit: Spend, *, beyond: Spend = NOTHING) -> Budget:
    """The same limits on spending, each no higher than `limit` beyond what was spent."""
    usd = to_usd(beyond.nano_usd + limit.nano_usd)
    amounts = {
        "max_metric_calls": beyond.metric_calls + limit.metric_calls,
        "max_calls": beyond.calls + limit.calls,
        "max_tokens": beyond.tokens + limit.tokens,
        "max_usd": usd,
    }
    own = {name: getattr(budget, name) for name in amounts}
    return Budget(
        **{name: min(amounts[name], most) for name, most in own.items() if most is not None}  # pyright: ignore[reportArgumentType]
    )


class _ClosingPasses:
    """The closing passes of a run: one at the end of each search.

    A resume with more budget searches on after a pass that had ended, and makes another one.
    """

    def __init__(self, journal: Journal, budget: Budget) -> None:
        self._journal = journal
        self._budget = budget
        self._sealed = NOTHING
        self._reserves = False
        self._number = 0
        """The pass that is in progress, or that comes next."""
        self._recorded: _Beginning | None = None
        """Where that pass began, if it did."""
        self._begun: _Beginning | None = None
        """None while the run searches."""
        self._limit: Budget | None = None

    def set_aside(self, need: Spend, *, sealed: Spend) -> None:
        """Reserve a share of every limit, if it pays for `need` and the sealed test is paid."""
        self._sealed = sealed
        self._reserves = pays_for(self._budget, sealed, need)
        self._look_up()

    def give_back(self) -> None:
        """Reserve nothing: there will be no pass."""
        self._reserves = False

    @property
    def is_possible(self) -> bool:
        """Whether there is something to spend on a pass, or it was begun before."""
        return self._reserves or self._recorded is not None

    @property
    def aside(self) -> Spend:
        """What the search may not spend."""
        searching = self._reserves and self._begun is None
        return closing_share(self._budget, self._sealed) if searching else NOTHING

    @property
    def budget(self) -> Budget:
        """The limits now: in a pass, only those on spending and trials."""
        whole = self._budget
        if self._limit is not None or whole.max_trials is None or not self._reserves:
            return self._limit or whole
        return replace(whole, max_trials=whole.max_trials - closing_trials(whole))

    @property
    def minutes(self) -> float | None:
        """The active minutes of the run at which to stop."""
        whole = self._budget.max_minutes
        if whole is None or not self._reserves:
            return whole
        if self._begun is None:
            return (1 - SHARE) * whole
        return min(whole, self._begun.seconds / 60 + SHARE * whole)

    def is_due(self, check: int) -> bool:
        """Whether a pass began here, after a search that had nothing left to try."""
        recorded = None if self.active else self._recorded
        return recorded is not None and recorded.stop is None and recorded.check == check

    def stopped_at(self, check: int) -> StopReason | None:
        """Why the search stopped at this check, if a pass began then."""
        recorded = None if self.active else self._recorded
        return recorded.stop if recorded is not None and recorded.check == check else None

    def begin(
        self,
        check: int,
        *,
        seconds: float,
        stop: StopReason | None,
        spent: Spend,
        sealed: Spend,
    ) -> None:
        """Begin a pass, or repeat one that was begun before.

        `sealed` is what the sealed test needs, as far as that is known now.
        """
        if self._recorded is None:
            self._recorded = _Beginning(check=check, seconds=seconds, stop=stop)
            encoded = canonical(codec(_Beginning).encode(self._recorded)).decode()
            self._journal.set_mark(self._name, encoded)
        self._begun = self._recorded
        share = closing_share(self._budget, self._sealed) + sealed
        limit = _spending(self._budget, share, beyond=spent)
        self._limit = replace(limit, max_trials=self._budget.max_trials)

    @property
    def active(self) -> bool:
        return self._begun is not None

    @property
    def stop(self) -> StopReason | None:
        """Why the search before this pass stopped."""
        return None if self._begun is None else self._begun.stop

    def is_over(self, trial: int) -> bool:
        """Whether the pass ended before this trial when it was made."""
        end = self._recorded_end()
        return end is not None and trial >= end.trial

    def end(self, trial: int) -> bool:
        """End the pass; whether it had ended before, so that the search may go on."""
        before = self._recorded_end() is not None
        if not before:
            encoded = canonical(codec(_End).encode(_End(trial=trial))).decode()
            self._journal.set_mark(f"{self._name}:end", encoded)
        self.leave()
        self._number += 1
        self._look_up()
        return before

    def leave(self) -> None:
        """Break off a pass: a resume continues it."""
        self._begun = self._limit = None

    @property
    def _name(self) -> str:
        return f"closing:{self._number}"

    def _look_up(self) -> None:
        mark = self._journal.mark(self._name)
        self._recorded = None if mark is None else codec(_Beginning).decode(json.loads(mark))

    def _recorded_end(self) -> _End | None:
        mark = self._journal.mark(f"{self._name}:end")
        return None if mark is None else codec(_End).decode(json.loads(mark))


class Estimates:
    """What evaluations should cost: as expected, but no less than runs have cost so far."""

    def __init__(self, setup: Conditions, meter: Meter) -> None:
        self._setup = setup
        self._meter = meter
        self._splits: dict[tuple[Split, int], tuple[Spend, int]] = {}
        """By split and repeats, what is expected, and for how many runs."""
        self._cases: dict[tuple[str, bool], tuple[Spend, int]] = {}

    def cases(self, cases: Collection[Case], repeats: int) -> Spend:
        """Of so many runs of each of these cases."""
        expected = [self._case(case) for case in cases]
        cost = total(spend for spend, _ in expected)
        return self._at_least(cost.times(repeats), repeats * sum(runs for _, runs in expected))

    def split(self, split: Split, repeats: int) -> Spend:
        """The same for a whole split, for whoever asks often."""
        if (split, repeats) not in self._splits:
            expected, runs = self._setup.expected(self._setup.dataset.cases(split))
            self._splits[split, repeats] = expected.times(repeats), repeats * runs
        return self._at_least(*self._splits[split, repeats])

    def _case(self, case: Case) -> tuple[Spend, int]:
        key = case.content_id, case.recorded is None
        if key not in self._cases:
            self._cases[key] = self._setup.expected([case])
        return self._cases[key]

    def _at_least(self, expected: Spend, runs: int) -> Spend:
        return expected.at_least(self._meter.typical(runs)) if runs else expected


class Confirmations:
    """Measuring winners again after the search: under which draws, and what it costs."""

    def __init__(self, setup: Conditions, directory: RunDirectory, estimates: Estimates) -> None:
        self._setup = setup
        self._directory = directory
        self._estimates = estimates
        self.meter = Meter()
        """What was spent on them, which no trial accounts for."""

    @property
    def wanted(self) -> bool:
        """Whether a winner is measured again at the end, if there is no sealed test."""
        setup = self._setup
        return setup.confirm and self._directory.header.confirm and not setup.dataset.test

    def begin(self, winner: str) -> range:
        """The draws of a winner; a resume finishes what was begun."""
        self._directory.journal.set_mark(self.name(winner), "begun")
        first = _FIRST_FRESH_DRAW + _FRESH_DRAWS * int(short_id(winner)[:5], 16)
        return range(first, first + self._setup.test_repeats)

    def name(self, winner: str) -> str:
        """The name of measuring a winner again: of its mark, and in the keys of its effects."""
        return f"confirmation of {winner}"

    def no_room(self, winner: str, spent: Spend) -> str:
        """Why the limits do not allow to measure the winner again; empty if they do."""
        if self._directory.journal.mark(self.name(winner)) is not None:
            return ""  # its cost was reserved
        reason = self._setup.budget.spend_limit(spent, self._cost)
        return "" if reason is None else f"no budget is left ({reason.detail})"

    def count_earlier(self) -> None:
        """Once the search is over, count what earlier sessions spent on measuring winners again."""
        self.meter.use(self._earlier)

    @property
    def last_cost(self) -> Spend:
        """What is reserved for the end: baseline and best, in the sealed test or measured again,
        and before a second judge. What a resumed run has spent on this before is gone, too.
        """
        sealed = self._estimates.split(Split.TEST, 2 * self._setup.test_repeats)
        return sealed + self._cost + self._setup.second_judging + self._earlier_cost

    @property
    def _cost(self) -> Spend:
        if not self.wanted:
            return NOTHING
        return self._estimates.split(self._setup.deciding_split, 2 * self._setup.test_repeats)

    @cached_property
    def _earlier_cost(self) -> Spend:
        return total(self._earlier.values())

    @cached_property
    def _earlier(self) -> Mapping[str, Spend]:
        """By effect, what earlier sessions spent."""
        if self._directory.journal.session == 1:
            return {}
        with look_into(self._directory.folder) as reader:
            costs = [*reader.costs(since=AFTER_SEARCH)]
        return {key: spend for cost in costs for key, spend in cost.spends.items()}


class SearchEnd:
    """When and why the search of a run stops, and the pass of trials that may follow it."""

    def __init__(
        self,
        setup: Conditions,
        directory: RunDirectory,
        confirmations: Confirmations,
        *,
        spent: Callable[[], Spend],
        trial: Callable[[], int],
    ) -> None:
        self.stopped: StopReason | None = None
        """The first reason to stop that the strategy got."""
        self.signal = ""
        """Why the user wants the run to stop."""
        self._setup = setup
        self._directory = directory
        self._confirmations = confirmations
        self._spent = spent
        self._trial = trial
        self._passes = _ClosingPasses(directory.journal, setup.budget)
        callbacks = sorted(setup.stop_callbacks.items())
        impure = [*self._outside_stoppers(), *(callback_stopper(*each) for each in callbacks)]
        self._stops = Stops(directory.journal, impure=impure)

    def reason(self, need: Spend, standing: Standing, *, replaying: bool) -> StopReason | None:
        """Why to stop now, or why so much more may not be spent."""
        reason = self._look(need + self.reserve, standing, replaying=replaying)
        self.stopped = self.stopped or reason
        return reason

    def _look(self, need: Spend, standing: Standing, *, replaying: bool) -> StopReason | None:
        stops, journal = self._stops, self._directory.journal
        if self.due:
            return FINISHED
        reason = stops.look(self._passes.budget, standing, need, replaying=replaying)
        if (recorded := self._passes.stopped_at(stops.checks)) is not None:
            return recorded
        if not replaying:
            begun = journal.mark("sealed_read")
            if begun is not None and journal.mark("sealed_done") is None:
                # The sealed test was begun but not finished: the search ended for this reason.
                reason = codec(StopReason).decode(json.loads(begun))
        return reason

    @property
    def exceeded(self) -> Callable[[Spend], StopReason | None] | None:
        """What says which limit such spending exceeds, with what the end needs.

        None without a limit on what a case costs: then nothing is worked out for every case.
        """
        budget = self._setup.budget
        limits = (budget.max_calls, budget.max_tokens, budget.max_usd)
        return None if all(limit is None for limit in limits) else self._exceeded

    def _exceeded(self, spent: Spend) -> StopReason | None:
        # Before the baseline is measured nobody knows what the end needs.
        last = self._confirmations.last_cost if self._trial() else NOTHING
        return self._setup.budget.exceeded(spent, last)

    def begin_sealed_test(self) -> None:
        """Record why the search ended, before anything of the sealed test is read."""
        journal = self._directory.journal
        if not journal.sealed_read:
            why = codec(StopReason).encode(self.stopped or FINISHED)
            journal.set_mark("sealed_read", canonical(why).decode())

    @property
    def budget(self) -> Budget:
        """The limits now: the search leaves a share of the trials to a closing pass."""
        return self._passes.budget

    @property
    def reserve(self) -> Spend:
        """What the search may not spend: it is for a closing pass and the last measurements."""
        return self._confirmations.last_cost + self._passes.aside

    def set_aside(self, need: Spend) -> None:
        """Reserve a share of every limit for a closing pass, if that pays for `need`."""
        self._passes.set_aside(need, sealed=self._confirmations.last_cost)

    def give_back(self) -> None:
        """Leave to the search what was reserved for a closing pass: there will be none."""
        self._passes.give_back()

    @property
    def may_have_pass(self) -> bool:
        """Whether there is something to spend on a closing pass, or it was begun before."""
        return self._passes.is_possible

    @property
    def due(self) -> bool:
        """Whether a closing pass was begun here before, after a search that was over.

        A search that may go on now, since a limit of its own was raised, must go on after it.
        """
        return self._passes.is_due(self._stops.checks)

    def by_user(self, reason: StopReason | None) -> bool:
        """Whether the user stops the run, who may continue it and knows that it is not over."""
        codes = {"signal", "stop_file", *self._setup.stop_callbacks}
        return reason is not None and reason.code in codes

    def begin(self) -> bool:
        """Begin a pass of trials after the search, with what was set aside; whether it may.

        It may not if too little was set aside, or if the user stopped the run.
        """
        unpriced = self.stopped is not None and self.stopped.code == "price_unknown"
        if self.by_user(self.stopped) or unpriced or not self._passes.is_possible:
            return False
        self._passes.begin(
            self._stops.checks,
            seconds=self._directory.journal.active_seconds,
            stop=None if self.stopped is FINISHED else self.stopped,
            spent=self._spent(),
            sealed=self._confirmations.last_cost,
        )
        self.stopped = None
        return True

    @property
    def over(self) -> bool:
        """Whether the pass ended here when it was made."""
        return self._passes.is_over(self._trial())

    def end(self) -> bool:
        """End the pass; whether the search may go on, which only a resume may.

        A pass that the user stopped is continued by a resume.
        """
        stop, limits = self._passes.stop, {f"max_{name}" for name in _SPENT}
        if self.stopped is not None and self.stopped.code not in limits:
            self._passes.leave()
            return False
        ended_before = self._passes.end(self._trial())
        self.stopped = None if ended_before else stop
        return ended_before

    def outside_reason(self, *, searching: bool) -> StopReason | None:
        """Why the run should stop, for a thread that watches it; users' callbacks do not count.

        After the search, only a signal does.
        """
        stoppers = self._outside_stoppers()[: None if searching else 1]
        return next((reason for each in stoppers if (reason := each.look()) is not None), None)

    def stop_words(self) -> str:
        """Why the search should stop, for work that breaks off at once; empty if it should not.

        Strategies that finish the current trial ask `Run.stop_reason`. A stop file is deleted.
        """
        reason = self.outside_reason(searching=True)
        if reason is None:
            return ""
        if reason.code == "stop_file":
            (self._directory.folder / STOP_FILE).unlink(missing_ok=True)
        return reason.detail

    def _outside_stoppers(self) -> list[ImpureStopper]:
        def look_for_signal() -> StopReason | None:
            return StopReason(code="signal", detail=self.signal) if self.signal else None

        journal, passes = self._directory.journal, self._passes
        signal = ImpureStopper(label="signal", look=look_for_signal)
        stoppers = [signal, stop_file(self._directory.folder)]
        if passes.minutes is not None:
            stoppers.append(out_of_time(lambda: passes.minutes, lambda: journal.active_seconds))
        return stoppers
