"""The lines that a run prints as it goes on: one an event that matters, one a trial.

A strategy with words of its own derives from `ProgressLines`.
"""

import textwrap
from collections.abc import Mapping

from rich.cells import cell_len

from burnish.core.cases import Split
from burnish.core.words import (
    counted,
    duration,
    gain_words,
    money,
    number,
    padded,
    shorten,
    visible,
)
from burnish.runs.events import (
    Event,
    PhaseEnded,
    PhaseStarted,
    RunResumed,
    SealedResult,
    SearchEnded,
    SessionBegun,
    Stopping,
    TrialRecorded,
    Warned,
)
from burnish.runs.record import sealed_words
from burnish.runs.standing import BASELINE

INDENT = "   "
"""Before what is said in passing."""
_NOTE, _WIDEST_NOTE = 17, 28
_REST = 83
"""What a whole line takes beside its note."""
_SHORT = {"holdout": "hold"}
"""Words that would not fit into their column."""


class ProgressLines:
    """The lines of one run, event by event."""

    def __init__(self, ends: Mapping[str, str]) -> None:
        self._ends = ends

    def lines(self, event: Event, width: int) -> list[str]:
        """What an event means to a person, if anything."""
        if begun := event.read(SessionBegun):
            resumed = [self.going_on(begun)] if event.read(RunResumed) else []
            return [self.beginning(begun), *resumed]
        if trial := event.read(TrialRecorded):
            is_baseline = trial.phase == BASELINE
            return self.baseline(trial, width) if is_baseline else [self.trial(trial, width)]
        if warning := event.read(Warned):
            return wrapped(f"! {visible(warning.message)}", width)
        if event.read(Stopping):
            return wrapped(self.stopping, width)
        if sealed := event.read(SealedResult):
            words = sealed_words(sealed)
            return ["", *wrapped(f"sealed test, looked at once: {words}", width)]
        return self._of_phases(event, width)

    stopping = "stopping when this trial is done; once more stops at once"
    """Said when a run is asked to stop."""

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        cases = begun.cases
        sizes = [f"{split.value} {cases[split.value]}" for split in Split if split.value in cases]
        return f"{begun.target} · {begun.strategy} · {', '.join(sizes)} cases"

    def going_on(self, begun: SessionBegun) -> str:
        """Where a resumed run is."""
        trials = begun.trials_recorded - 1
        after = counted(trials, "recorded trial") if trials > 0 else "the baseline"
        where = f"after {after}" if trials >= 0 else "from the start"
        return f"going on {where}; nothing is paid twice"

    def phase_title(self, phase: PhaseStarted) -> str:
        """`cycle 2 · words`."""
        return f"cycle {phase.cycle} · {phase.phase}"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """The start, measured; and what one case of holdout is worth."""
        loss = f"train {number(trial.train)} ±{number(trial.train_std)}   "
        loss = loss if trial.train is not None or trial.holdout is None else ""
        line = f"{'baseline':<18}{loss}{self.held(trial)}"
        if not trial.holdout_cases:
            return [line]
        least = f"one case of holdout is worth {number(1 / trial.holdout_cases)}"
        whole = f"{line}   {least}"
        return [whole] if cell_len(whole) <= width else [line, shorten_after(INDENT, least, width)]

    def held(self, trial: TrialRecorded) -> str:
        """What the start has on holdout."""
        return f"hold {number(trial.holdout)}"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One trial in one line."""
        return trial_line(trial, width)

    def _of_phases(self, event: Event, width: int) -> list[str]:
        if phase := event.read(PhaseStarted):
            return [f"── {self.phase_title(phase)} ".ljust(width, "─")]
        if over := event.read(PhaseEnded):
            ended = ended_words(over.reason, self._ends)
            words = f"over after {counted(over.trials, 'trial')}, {over.accepts} accepted · {ended}"
            return [shorten_after(INDENT, words, width)]
        if search := event.read(SearchEnded):
            ended = ended_words(search.reason, self._ends)
            return [shorten_after(INDENT, f"search over · {ended}", width)]
        return []


def ended_words(code: str, ends: Mapping[str, str]) -> str:
    """`patience: too long without an accept`; a code nobody has words for stands alone."""
    return f"{code}: {ends[code]}" if code in ends else code


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns."""
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ")


def trial_line(trial: TrialRecorded, width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    name = f"{trial_label(trial)} {note_words(trial, width)}"
    if not trial.measured:
        return turned_away_line(name, trial, width)
    gain = gain_words(trial.numbers)
    train = f"train {number(trial.train)} ±{number(trial.train_std)}"
    # What was merged of two is run on holdout alone.
    train = f"{'——':<18}" if trial.train is None else train
    held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
    usd, seconds = spent_words(trial)
    parts = [
        (0, name),
        (0, train),
        (1, f"{f'({gain})' if gain else '':<20}"),
        (2, f"{held:<10}"),
        (0, f"{outcome(trial):<8}"),
        (3, usd),
        (4, seconds),
    ]
    return fitted(parts, width)


def trial_label(trial: TrialRecorded) -> str:
    """`[c1/n  2]`: the second of the phase that begins with n."""
    # Runs of an earlier burnish say only which of all it is.
    index = trial.trial if trial.index is None else trial.index
    return f"[c{trial.cycle}/{(trial.phase or 'trial')[0]} {index!s:>2}]"


def note_words(trial: TrialRecorded, width: int) -> str:
    """What was tried, in the room that a line of this width has for it."""
    note = trial.note or ", ".join(trial.touched)
    return padded(note, min(_WIDEST_NOTE, max(_NOTE, width - _REST)))


def spent_words(trial: TrialRecorded) -> tuple[str, str]:
    """What a trial cost, and how long it took."""
    return f"{money(trial.usd):>7}", duration(trial.seconds)


def turned_away_line(name: str, trial: TrialRecorded, width: int) -> str:
    """A trial that was not measured, and why."""
    # The files of a task have numbers in their own units, and no loss.
    return shorten_after(f"{name} {outcome(trial)}  ", trial.reason, width)


def outcome(trial: TrialRecorded) -> str:
    """What became of a trial, in a word and a sign."""
    if trial.accepted:
        return "accept ✓"
    if trial.kept:
        return "kept ↗"
    return "skipped ·" if trial.code == "skipped" else f"{_SHORT.get(trial.code, trial.code)} ✗"


def shorten_after(head: str, tail: str, width: int) -> str:
    """The head and as much of the tail as there is room for."""
    room = width - cell_len(head)
    return f"{head}{shorten(tail, room)}" if room > 3 else shorten(head, width)


def fitted(parts: list[tuple[int, str]], width: int) -> str:
    """The columns that there is room for; each comes with how soon it is left out."""
    for least in (5, 4, 3, 2, 1):
        line = " ".join(text for rank, text in parts if rank < least).rstrip()
        if cell_len(line) <= width:
            return line
    name, *others = (text for rank, text in parts if rank == 0)
    rest = " ".join(others).rstrip()
    return f"{shorten(name, max(9, width - len(rest) - 1))} {rest}"
