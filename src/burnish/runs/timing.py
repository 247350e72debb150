"""How long the evaluations of a trial took, split by split."""

from collections.abc import Generator
from contextlib import contextmanager

from burnish.effects.journal import Journal


class SplitTimes:
    """The active time that each split took in the trial under way.

    Where a run of the agent came from a journal there is none: nobody timed it here.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[str, float] = {}
        self._unknown: set[str] = set()

    @contextmanager
    def measuring(self, split: str, runs: int) -> Generator[None, None, None]:
        """An evaluation of so many runs; one that is not finished has no time."""
        journal, whole = self._journal, False
        started, billed = journal.active_seconds, journal.billed.metric_calls
        try:
            yield
            whole = journal.billed.metric_calls - billed >= runs
        finally:
            if whole:
                taken = journal.active_seconds - started
                self._known[split] = self._known.get(split, 0.0) + taken
            else:
                self._unknown.add(split)

    def taken(self) -> dict[str, float]:
        """The seconds of each split whose time is known; the next trial starts afresh."""
        found = {name: told for name, told in self._known.items() if name not in self._unknown}
        self._known, self._unknown = {}, set()
        return found
