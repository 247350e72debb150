"""The line of a trial: what was tried, what it scored against the noise, and what became of it."""

from collections.abc import Mapping

from rich.cells import cell_len

from burnish.core.content import Json
from burnish.reports.words import duration, gain_words, money, number, padded, shorten

_NOTE, _WIDEST_NOTE = 17, 28
_REST = 83
"""What a whole line takes beside its note."""
_SHORT = {"holdout": "hold"}
"""Words that would not fit into their column."""
_ROUNDS = ("reflective", "merge")
"""Phases whose trials are counted by the round."""
_UNMEASURED = ("crit", "seen")
"""Skipped by the strategy itself; all else that was not measured was turned away by a check."""


def trial_line(data: Mapping[str, Json], width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    phase = str(data.get("phase") or "trial")
    label = _label(data, phase)
    note = data.get("note") or ", ".join(map(str, _list(data.get("touched"))))
    room = min(_WIDEST_NOTE, max(_NOTE, width - _REST))
    name = f"{label} {padded(str(note), room)}"
    code, reason = str(data.get("code")), str(data.get("reason") or "")
    unmeasured = data.get("train") is None and data.get("holdout") is None
    if unmeasured and code not in _UNMEASURED:
        # The files of a task have numbers in their own units, and no loss.
        return shorten_after(f"{name} {outcome(data)}  ", reason, width)
    usd, seconds = data.get("usd"), data.get("seconds")
    spent = [
        f"{money(usd if isinstance(usd, int | float) else None):>7}",
        duration(float(seconds)) if isinstance(seconds, int | float) else "",
    ]
    if unmeasured:
        return _skipped(name, code, reason, spent, width)
    return fitted(_measured_parts(data, name, spent), width)


def _label(data: Mapping[str, Json], phase: str) -> str:
    # Which of its phase it is; runs of an earlier burnish say only which of all.
    index, cycle = data.get("index", data.get("trial")), data.get("cycle")
    if phase in _ROUNDS:
        return f"[{phase[0]}{cycle!s:>3}.{index}]"
    return f"[c{cycle}/{phase[0]} {index!s:>2}]"


def _measured_parts(data: Mapping[str, Json], name: str, spent: list[str]) -> list[tuple[int, str]]:
    """The columns of a trial that was measured, each with how soon it is left out."""
    return [
        (0, name),
        *_on_train(data),
        (2, _on_holdout(data)),
        (0, f"{outcome(data):<8}"),
        (3, spent[0]),
        (4, spent[1]),
    ]


def _on_train(data: Mapping[str, Json]) -> list[tuple[int, str]]:
    if data.get("parent_train") is not None:
        # On a few cases there is no spread to speak of, but a parent to compare with.
        return [(0, f"batch {number(data['parent_train'])} → {number(data.get('train'))}")]
    if data.get("phase") in _ROUNDS:
        return [(0, f"{'——':<19}")]
    numbers = data.get("numbers")
    gain = gain_words(numbers if isinstance(numbers, dict) else {})
    train = f"train {number(data.get('train'))} ±{number(data.get('train_std'))}"
    # What was merged of two is run on holdout alone.
    train = f"{'——':<18}" if data.get("train") is None else train
    return [(0, train), (1, f"{f'({gain})' if gain else '':<20}")]


def _on_holdout(data: Mapping[str, Json]) -> str:
    held = f"hold {number(data.get('holdout'))}" if data.get("holdout") is not None else "——"
    if data.get("phase") not in _ROUNDS:
        return f"{held:<10}"
    # A race that was lost early says nothing of the cases it did not come to.
    part = f" of {data.get('holdout_cases')} cases" if data.get("part_of_holdout") else ""
    return f"{f'{held}{part}':<22}"


def outcome(data: Mapping[str, Json]) -> str:
    """What became of a trial, in a word and a sign."""
    code = str(data.get("code"))
    if data.get("accepted") is True:
        return "accept ✓"
    if data.get("kept") is True:
        return "kept ↗"
    return "skipped ·" if code == "skipped" else f"{_SHORT.get(code, code)} ✗"


def _skipped(name: str, code: str, reason: str, spent: list[str], width: int) -> str:
    """A trial that was over before it was measured: why stands where its numbers would."""
    for room, tail in ((50, spent), (50, spent[:1]), (50, []), (39, [])):
        parts = [name, padded(f"({reason})", room), f"{f'{code} ✗':<8}", *tail]
        line = " ".join(parts).rstrip()
        if cell_len(line) <= width:
            return line
    return shorten_after(f"{name} {code} ✗  ", f"({reason})", width)


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


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
