"""Progress as plain lines: one a trial, for logs and terminals that are not interactive."""

import textwrap
from collections.abc import Callable, Mapping

from rich.cells import cell_len

from burnish.core.cases import Split
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.reports.words import (
    counted,
    duration,
    gain_words,
    money,
    number,
    padded,
    sealed_words,
    shorten,
    visible,
)
from burnish.runs.driving import SealedResult
from burnish.runs.events import Event, Tick
from burnish.runs.standing import BASELINE
from burnish.strategies.measure import Measure

WIDTH = 100


class LineView:
    """Prints one line an event that matters."""

    def __init__(
        self, write: Callable[[str], None], *, width: Callable[[], int] = lambda: WIDTH
    ) -> None:
        self._write = write
        self._width = width
        self._measuring = False

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        self._measuring = self._measuring or begins_measuring(event)
        for line in describe(event, self._width(), measuring=self._measuring):
            self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""


def begins_measuring(event: Event) -> bool:
    """Whether a run begins that only measures: it has no splits, no loss and no trials."""
    started = event.kind in {"run_started", "run_resumed"}
    return started and event.data.get("strategy") == Measure.name


def describe(event: Event, width: int, *, measuring: bool = False) -> list[str]:
    """The lines for an event; `measuring` says that the run only measures."""
    return _of_measuring(event, width) if measuring else _of_search(event, width)


def _of_measuring(event: Event, width: int) -> list[str]:
    data = event.data
    match event.kind:
        case "run_started":
            return [_measured(data)]
        case "run_resumed":
            return [_measured(data), "going on; nothing is paid twice"]
        case "stopping":
            return ["stopping; once more stops at once"]
        case "warning":
            return _of_search(event, width)
        case _:
            return []


def _of_search(event: Event, width: int) -> list[str]:
    data = event.data
    match event.kind:
        case "run_started":
            return [_beginning(data)]
        case "run_resumed":
            return [_beginning(data), _going_on(data.get("trials_recorded"))]
        case "phase_started":
            return [_rule(f"cycle {data.get('cycle')} · {data.get('phase')}", width)]
        case "trial_recorded" if data.get("phase") == BASELINE:
            return [_baseline(data)]
        case "trial_recorded":
            return [trial_line(data, width)]
        case "sealed_test":
            sealed = codec(SealedResult).decode(dict(data))
            return ["", *_wrapped(f"sealed test, looked at once: {sealed_words(sealed)}", width)]
        case "stopping":
            return _wrapped("stopping when this trial is done; once more stops at once", width)
        case "warning":
            return _wrapped(f"! {visible(str(data.get('message')))}", width)
        case _:
            return []


def trial_line(data: Mapping[str, Json], width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    phase = str(data.get("phase") or "trial")
    # Which of its phase it is; runs of an earlier burnish say only which of all.
    index = data.get("index", data.get("trial"))
    label = f"[c{data.get('cycle')}/{phase[0]} {index!s:>2}]"
    note = data.get("note") or ", ".join(map(str, _list(data.get("touched"))))
    name = f"{label} {padded(str(note), 17)}"
    accepted = data.get("accepted") is True
    outcome = "accept ✓" if accepted else f"{data.get('code')} ✗"
    if data.get("train") is None:
        head = f"{name} {outcome}  "
        return _with_tail(head, str(data.get("reason") or ""), width)
    numbers = data.get("numbers")
    gain = gain_words(numbers if isinstance(numbers, dict) else {})
    usd, seconds = data.get("usd"), data.get("seconds")
    parts = [
        (0, name),
        (0, f"loss {number(data.get('train'))} ±{number(data.get('train_std'))}"),
        (1, f"{f'({gain})' if gain else '':<20}"),
        (2, f"hold {number(data.get('holdout')):<5}"),
        (0, f"{outcome:<9}"),
        (3, f"{money(usd if isinstance(usd, int | float) else None):>7}"),
        (4, duration(float(seconds)) if isinstance(seconds, int | float) else ""),
    ]
    return _fit(parts, width)


def _with_tail(head: str, tail: str, width: int) -> str:
    """The head and as much of the tail as there is room for."""
    room = width - cell_len(head)
    return f"{head}{shorten(tail, room)}" if room > 3 else shorten(head, width)


def _fit(parts: list[tuple[int, str]], width: int) -> str:
    for least in (5, 4, 3, 2, 1):
        line = " ".join(text for rank, text in parts if rank < least).rstrip()
        if cell_len(line) <= width:
            return line
    name, *others = (text for rank, text in parts if rank == 0)
    rest = " ".join(others).rstrip()
    return f"{shorten(name, max(9, width - len(rest) - 1))} {rest}"


def _baseline(data: Mapping[str, Json]) -> str:
    loss = f"loss {number(data.get('train'))} ±{number(data.get('train_std'))}"
    return f"{'baseline':<28}{loss}   hold {number(data.get('holdout'))}"


def _measured(data: Mapping[str, Json]) -> str:
    cases = _sizes(data).get(Split.TRAIN.value)
    return f"{data.get('target')} · {counted(cases if isinstance(cases, int) else 0, 'case')}"


def _sizes(data: Mapping[str, Json]) -> Mapping[str, Json]:
    cases = data.get("cases")
    return cases if isinstance(cases, dict) else {}


def _beginning(data: Mapping[str, Json]) -> str:
    known = _sizes(data)
    sizes = [f"{split.value} {known[split.value]}" for split in Split if split.value in known]
    return f"{data.get('target')} · {data.get('strategy')} · {', '.join(sizes)} cases"


def _going_on(recorded: Json) -> str:
    trials = recorded - 1 if isinstance(recorded, int) else 0
    after = counted(trials, "recorded trial") if trials > 0 else "the baseline"
    return (
        f"going on {f'after {after}' if trials >= 0 else 'from the start'}; nothing is paid twice"
    )


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), subsequent_indent="  ")


def _rule(title: str, width: int) -> str:
    return f"── {title} ".ljust(width, "─")


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
