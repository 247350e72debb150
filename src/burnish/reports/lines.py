"""Progress as plain lines: one a trial, for logs and terminals that are not interactive."""

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace

from rich.cells import cell_len

from burnish.core.cases import Split
from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.core.words import counted, number, visible
from burnish.reports.backprop_lines import (
    baseline_score,
    is_round,
    round_line,
)
from burnish.reports.coordinate_headroom import LABEL, dead_words, headroom_lines
from burnish.reports.coordinate_words import ended_words, phase_over, phase_title
from burnish.reports.edit_lines import edit_line, is_edit
from burnish.reports.trial_line import shorten_after, trial_line
from burnish.runs.driving import SealedResult
from burnish.runs.events import Event, Tick
from burnish.runs.record import sealed_words
from burnish.runs.standing import BASELINE
from burnish.strategies.backprop.strategy import Backprop
from burnish.strategies.measure import Measure

BACKPROP = Backprop.name
WIDTH = 100
INDENT = "   "
"""Before what is said in passing."""


class LineView:
    """Prints one line an event that matters."""

    def __init__(
        self, write: Callable[[str], None], *, width: Callable[[], int] = lambda: WIDTH
    ) -> None:
        self._write = write
        self._width = width
        self._measuring = False
        self._in_scores = False
        """Whether losses are walked back: that strategy speaks of scores."""
        self._improved = False
        """Whether the prompt is another than when the last numeric phase began."""

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        self._measuring = self._measuring or begins_measuring(event)
        event = self._told(event)
        told = describe(event, self._width(), measuring=self._measuring, improved=self._improved)
        for line in told:
            self._write(line)
        numeric = event.data.get("phase") == "numeric"
        if event.kind == "phase_started" and numeric:
            self._improved = False
        elif event.data.get("accepted") is True and not numeric:
            self._improved = True

    def _told(self, event: Event) -> Event:
        """Where losses are walked back, the baseline with its score instead of its loss."""
        if event.kind in {"run_started", "run_resumed"}:
            self._in_scores = event.data.get("strategy") == BACKPROP
        if not self._in_scores or event.kind != "trial_recorded" or is_round(event.data):
            return event
        return replace(event, data=baseline_score(event.data))

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""


def begins_measuring(event: Event) -> bool:
    """Whether a run begins that only measures: it has no splits, no loss and no trials."""
    started = event.kind in {"run_started", "run_resumed"}
    return started and event.data.get("strategy") == Measure.name


def describe(
    event: Event, width: int, *, measuring: bool = False, improved: bool = False
) -> list[str]:
    """The lines for an event.

    `measuring` says that the run only measures, `improved` that the prompt has changed since
    numbers were last searched.
    """
    if event.kind == "phase_started" and not measuring:
        return [_rule(phase_title(event.data, improved=improved), width)]
    if measuring:
        return _of_measuring(event, width)
    return _of_axes(event, width) or _of_search(event, width)


def _of_axes(event: Event, width: int) -> list[str]:
    """What is known before trials are paid for."""
    match event.kind:
        case "headroom":
            told = headroom_lines(event.data)
            return [line for each in told for line in _labelled(each, width)]
        case "dead_axis":
            return _wrapped(f"! {visible(dead_words(event.data))}", width)
        case _:
            return []


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
        case "phase_ended":
            return [shorten_after(INDENT, phase_over(data), width)]
        case "search_ended":
            told = f"search over · {ended_words(str(data.get('reason')))}"
            return [shorten_after(INDENT, told, width)]
        case "trial_recorded":
            return _trial(data, width)
        case "sealed_test":
            sealed = codec(SealedResult).decode(dict(data))
            return ["", *_wrapped(f"sealed test, looked at once: {sealed_words(sealed)}", width)]
        case "stopping":
            return _wrapped("stopping when this trial is done; once more stops at once", width)
        case "warning":
            return _wrapped(f"! {visible(str(data.get('message')))}", width)
        case _:
            return []


def _trial(data: Mapping[str, Json], width: int) -> list[str]:
    if is_edit(data):
        return [edit_line(data, width)]
    if is_round(data):
        return [round_line(data, width)]
    return _baseline(data, width) if data.get("phase") == BASELINE else [trial_line(data, width)]


def _baseline(data: Mapping[str, Json], width: int) -> list[str]:
    loss = f"train {number(data.get('train'))} ±{number(data.get('train_std'))}   "
    loss = loss if data.get("train") is not None or data.get("holdout") is None else ""
    unit = "score on " if data.get("in_scores") else ""
    line = f"{'baseline':<18}{loss}{unit}hold {number(data.get('holdout'))}"
    cases = data.get("holdout_cases")
    if not isinstance(cases, int) or not cases:
        return [line]
    least = f"one case of holdout is worth {number(1 / cases)}"
    whole = f"{line}   {least}"
    if cell_len(whole) <= width:
        return [whole]
    return [line, shorten_after(INDENT, least, width)]


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


def _labelled(text: str, width: int) -> list[str]:
    """What is said in passing under a label, which stands before all of its lines."""
    below = " " * (len(INDENT) + LABEL)
    return textwrap.wrap(f"{INDENT}{text}", max(40, width), subsequent_indent=below)


def _rule(title: str, width: int) -> str:
    return f"── {title} ".ljust(width, "─")
