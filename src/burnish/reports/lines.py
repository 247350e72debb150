"""Progress as plain lines: one a trial, for logs and terminals that are not interactive."""

from collections.abc import Callable, Mapping

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.reports.words import (
    duration,
    gain_words,
    money,
    number,
    sealed_words,
    shorten,
)
from burnish.runs.driving import SealedResult
from burnish.runs.events import Event, Tick
from burnish.runs.standing import BASELINE

WIDTH = 100


class LineView:
    """Prints one line an event that matters."""

    def __init__(self, write: Callable[[str], None], *, width: int = WIDTH) -> None:
        self._write = write
        self._width = width
        self._counts: dict[str, int] = {}

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        for line in describe(event, self._counts, self._width):
            self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""


def describe(event: Event, counts: dict[str, int], width: int) -> list[str]:
    """The lines for an event. `counts` numbers the trials of each phase."""
    data = event.data
    match event.kind:
        case "run_started" | "run_resumed":
            return _beginning(event)
        case "phase_started":
            counts.clear()
            return [_rule(f"cycle {data.get('cycle')} · {data.get('phase')}", width)]
        case "trial_recorded" if data.get("phase") == BASELINE:
            return [_baseline(data)]
        case "trial_recorded":
            phase = str(data.get("phase"))
            counts[phase] = counts.get(phase, 0) + 1
            return [trial_line(data, counts[phase], width)]
        case "sealed_test":
            sealed = codec(SealedResult).decode(dict(data))
            return ["", f"sealed test, looked at once: {sealed_words(sealed)}"]
        case "warning":
            return [f"! {data.get('message')}"]
        case _:
            return []


def trial_line(data: Mapping[str, Json], index: int, width: int) -> str:
    """One trial in one line; what matters least is left out where there is no room."""
    phase = str(data.get("phase") or "trial")
    label = f"[c{data.get('cycle')}/{phase[0]} {index:>2}]"
    name = str(data.get("note") or ", ".join(map(str, _list(data.get("touched")))))
    accepted = data.get("accepted") is True
    numbers = data.get("numbers")
    gain = gain_words(numbers if isinstance(numbers, dict) else {})
    usd = data.get("usd")
    cost = money(usd if isinstance(usd, int | float) else None)
    seconds = data.get("seconds")
    outcome = f"{'accept' if accepted else data.get('code')} {'✓' if accepted else '✗'}"
    if data.get("train") is None:
        head = f"{label} {shorten(name, 18):<18} {outcome}  "
        return f"{head}{shorten(str(data.get('reason')), max(16, width - len(head)))}"
    parts = [
        (0, f"{label} {shorten(name, 18):<18}"),
        (0, f"loss {number(data.get('train'))} ±{number(data.get('train_std'))}"),
        (1, f"{f'({gain})' if gain else '':<20}"),
        (2, f"hold {number(data.get('holdout')):<5}"),
        (0, f"{outcome:<8}"),
        (3, f"{cost:>7}"),
        (4, duration(float(seconds)) if isinstance(seconds, int | float) else ""),
    ]
    return _fit(parts, width)


def _fit(parts: list[tuple[int, str]], width: int) -> str:
    for least in (5, 4, 3, 2, 1):
        line = " ".join(text for rank, text in parts if rank < least).rstrip()
        if len(line) <= width:
            return line
    return " ".join(text for rank, text in parts if rank == 0).rstrip()


def _baseline(data: Mapping[str, Json]) -> str:
    loss = f"loss {number(data.get('train'))} ±{number(data.get('train_std'))}"
    return f"{'baseline':<29}{loss}   hold {number(data.get('holdout'))}"


def _beginning(event: Event) -> list[str]:
    data = event.data
    cases = data.get("cases")
    sizes = ", ".join(f"{k} {v}" for k, v in cases.items()) if isinstance(cases, dict) else ""
    lines = [f"{data.get('target')} · {data.get('strategy')} · {sizes}"]
    recorded = data.get("trials_recorded")
    if event.kind == "run_resumed":
        lines.append(f"going on after {recorded} recorded trials; nothing is paid twice")
    return lines


def _rule(title: str, width: int) -> str:
    return f"── {title} ".ljust(width, "─")


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
