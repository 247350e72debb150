"""The end of a search: why it stops, and what is reserved for measuring at last."""

import json
from collections.abc import Callable, Collection, Mapping
from functools import cached_property

from burnish.core.cases import Case, Split
from burnish.core.content import canonical, codec, short_id
from burnish.core.money import NOTHING, Spend, total
from burnish.core.trials import FINISHED, Standing, StopReason
from burnish.journal.limits import Meter
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

_FIRST_FRESH_DRAW, _FRESH_DRAWS = 1_000_000, 1_000
"""Draws that no search comes to: each winner has its own, small enough to be added to a seed."""


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
    """When and why the search of a run stops."""

    def __init__(
        self,
        setup: Conditions,
        directory: RunDirectory,
        confirmations: Confirmations,
        *,
        trial: Callable[[], int],
    ) -> None:
        self.stopped: StopReason | None = None
        """The first reason to stop that the strategy got."""
        self.signal = ""
        """Why the user wants the run to stop."""
        self._setup = setup
        self._directory = directory
        self._confirmations = confirmations
        self._trial = trial
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
        reason = stops.look(self._setup.budget, standing, need, replaying=replaying)
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
    def reserve(self) -> Spend:
        """What the search may not spend: it is for the last measurements."""
        return self._confirmations.last_cost

    def by_user(self, reason: StopReason | None) -> bool:
        """Whether the user stops the run, who may continue it and knows that it is not over."""
        codes = {"signal", "stop_file", *self._setup.stop_callbacks}
        return reason is not None and reason.code in codes

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

        journal, minutes = self._directory.journal, self._setup.budget.max_minutes
        signal = ImpureStopper(label="signal", look=look_for_signal)
        stoppers = [signal, stop_file(self._directory.folder)]
        if minutes is not None:
            stoppers.append(out_of_time(minutes, lambda: journal.active_seconds))
        return stoppers
