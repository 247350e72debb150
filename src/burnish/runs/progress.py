"""The lines that a run prints as it goes on: one an event that matters, one a trial.

A strategy with words of its own derives from `ProgressLines`.
"""

import textwrap
from collections.abc import Mapping

from rich.cells import cell_len

from burnish.core.cases import Split
from burnish.core.codec import codec
from burnish.core.content import Json
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
from burnish.runs.driving import SealedResult
from burnish.runs.events import Event
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
        data = event.data
        match event.kind:
            case "run_started":
                return [self.beginning(data)]
            case "run_resumed":
                return [self.beginning(data), self.going_on(data)]
            case "phase_started":
                return [f"── {self.phase_title(data)} ".ljust(width, "─")]
            case "phase_ended":
                return [shorten_after(INDENT, self._phase_over(data), width)]
            case "search_ended":
                ended = ended_words(str(data.get("reason")), self._ends)
                return [shorten_after(INDENT, f"search over · {ended}", width)]
            case "trial_recorded":
                is_baseline = data.get("phase") == BASELINE
                return self.baseline(data, width) if is_baseline else [self.trial(data, width)]
            case "sealed_test":
                sealed = sealed_words(codec(SealedResult).decode(dict(data)))
                return ["", *wrapped(f"sealed test, looked at once: {sealed}", width)]
            case "stopping":
                return wrapped(self.stopping, width)
            case "warning":
                return wrapped(f"! {visible(str(data.get('message')))}", width)
            case _:
                return []

    stopping = "stopping when this trial is done; once more stops at once"
    """Said when a run is asked to stop."""

    def beginning(self, data: Mapping[str, Json]) -> str:
        """The first line of a run."""
        known = case_counts(data)
        sizes = [f"{split.value} {known[split.value]}" for split in Split if split.value in known]
        return f"{data.get('target')} · {data.get('strategy')} · {', '.join(sizes)} cases"

    def going_on(self, data: Mapping[str, Json]) -> str:
        """Where a resumed run is."""
        recorded = data.get("trials_recorded")
        trials = recorded - 1 if isinstance(recorded, int) else 0
        after = counted(trials, "recorded trial") if trials > 0 else "the baseline"
        where = f"after {after}" if trials >= 0 else "from the start"
        return f"going on {where}; nothing is paid twice"

    def phase_title(self, data: Mapping[str, Json]) -> str:
        """`cycle 2 · words`."""
        return f"cycle {data.get('cycle')} · {data.get('phase')}"

    def baseline(self, data: Mapping[str, Json], width: int) -> list[str]:
        """The start, measured; and what one case of holdout is worth."""
        loss = f"train {number(data.get('train'))} ±{number(data.get('train_std'))}   "
        loss = loss if data.get("train") is not None or data.get("holdout") is None else ""
        line = f"{'baseline':<18}{loss}{self.held(data)}"
        cases = data.get("holdout_cases")
        if not isinstance(cases, int) or not cases:
            return [line]
        least = f"one case of holdout is worth {number(1 / cases)}"
        whole = f"{line}   {least}"
        return [whole] if cell_len(whole) <= width else [line, shorten_after(INDENT, least, width)]

    def held(self, data: Mapping[str, Json]) -> str:
        """What the start has on holdout."""
        return f"hold {number(data.get('holdout'))}"

    def trial(self, data: Mapping[str, Json], width: int) -> str:
        """One trial in one line."""
        return trial_line(data, width)

    def _phase_over(self, data: Mapping[str, Json]) -> str:
        trials, accepts = data.get("trials"), data.get("accepts")
        count = counted(trials, "trial") if isinstance(trials, int) else "—"
        ended = ended_words(str(data.get("reason")), self._ends)
        return f"over after {count}, {accepts} accepted · {ended}"


def ended_words(code: str, ends: Mapping[str, str]) -> str:
    """`patience: too long without an accept`; a code nobody has words for stands alone."""
    return f"{code}: {ends[code]}" if code in ends else code


def case_counts(data: Mapping[str, Json]) -> Mapping[str, Json]:
    """How many cases each split has, as the first event of a run tells."""
    cases = data.get("cases")
    return cases if isinstance(cases, dict) else {}


def wrapped(text: str, width: int) -> list[str]:
    """A text in lines of at most so many columns."""
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ")


def trial_line(data: Mapping[str, Json], width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    name = f"{trial_label(data)} {note_words(data, width)}"
    if data.get("train") is None and data.get("holdout") is None:
        return turned_away_line(name, data, width)
    numbers = data.get("numbers")
    gain = gain_words(numbers if isinstance(numbers, dict) else {})
    train = f"train {number(data.get('train'))} ±{number(data.get('train_std'))}"
    # What was merged of two is run on holdout alone.
    train = f"{'——':<18}" if data.get("train") is None else train
    held = f"hold {number(data.get('holdout'))}" if data.get("holdout") is not None else "——"
    usd, seconds = spent_words(data)
    parts = [
        (0, name),
        (0, train),
        (1, f"{f'({gain})' if gain else '':<20}"),
        (2, f"{held:<10}"),
        (0, f"{outcome(data):<8}"),
        (3, usd),
        (4, seconds),
    ]
    return fitted(parts, width)


def trial_label(data: Mapping[str, Json]) -> str:
    """`[c1/n  2]`: the second of the phase that begins with n."""
    # Runs of an earlier burnish say only which of all it is.
    index, phase = data.get("index", data.get("trial")), str(data.get("phase") or "trial")
    return f"[c{data.get('cycle')}/{phase[0]} {index!s:>2}]"


def note_words(data: Mapping[str, Json], width: int) -> str:
    """What was tried, in the room that a line of this width has for it."""
    touched = data.get("touched")
    names = touched if isinstance(touched, list) else []
    note = data.get("note") or ", ".join(map(str, names))
    return padded(str(note), min(_WIDEST_NOTE, max(_NOTE, width - _REST)))


def spent_words(data: Mapping[str, Json]) -> tuple[str, str]:
    """What a trial cost, and how long it took."""
    usd, seconds = data.get("usd"), data.get("seconds")
    return (
        f"{money(usd if isinstance(usd, int | float) else None):>7}",
        duration(float(seconds)) if isinstance(seconds, int | float) else "",
    )


def turned_away_line(name: str, data: Mapping[str, Json], width: int) -> str:
    """A trial that was not measured, and why."""
    # The files of a task have numbers in their own units, and no loss.
    return shorten_after(f"{name} {outcome(data)}  ", str(data.get("reason") or ""), width)


def outcome(data: Mapping[str, Json]) -> str:
    """What became of a trial, in a word and a sign."""
    code = str(data.get("code"))
    if data.get("accepted") is True:
        return "accept ✓"
    if data.get("kept") is True:
        return "kept ↗"
    return "skipped ·" if code == "skipped" else f"{_SHORT.get(code, code)} ✗"


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
