"""Coordinate descent as a plug-in: its plan, its lines, its report."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len

from burnish.core.content import Json
from burnish.core.sections import Section, Text
from burnish.core.surfaces import ChoiceSurface, DemosSurface, NumberSurface, Surface, TextSurface
from burnish.core.words import padded, visible
from burnish.runs.events import Event
from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.progress import (
    INDENT,
    ProgressLines,
    note_words,
    shorten_after,
    spent_words,
    trial_label,
    wrapped,
)
from burnish.runs.record import RunRecord
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.coordinate.building import APPLIER, CRITIC, build
from burnish.strategies.coordinate.headroom import HEADROOM, dead_words, headroom_lines
from burnish.strategies.coordinate.plan import plan_lines, search_limits
from burnish.strategies.coordinate.report import ENDS, report
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.strategy import Coordinate

_LABEL = 9
"""Columns of the word that a line about the headroom begins with."""
_TITLES = {
    "numeric": "numeric phase",
    "textual": "textual phase",
}
"""Other phases are called by their name."""
_UNMEASURED = ("crit", "seen")
"""Skipped by the strategy itself; all else that was not measured was turned away by a check."""


class CoordinatePlugin(StrategyPlugin):
    """The words of coordinate descent."""

    name: ClassVar[str] = Coordinate.name
    Settings: ClassVar[type[StrategySettings]] = CoordinateSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (CRITIC, APPLIER)
    ends: ClassVar[Mapping[str, str]] = ENDS
    changes: ClassVar[tuple[type[Surface], ...]] = (
        TextSurface,
        NumberSurface,
        ChoiceSurface,
        DemosSurface,
    )

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The search over a target."""
        return build(building, parts)

    def plan(self, setup: Setup) -> Iterable[str]:
        """What would run, and what it may cost."""
        return plan_lines(setup, _strategy(setup))

    def limits(self, setup: Setup) -> list[str]:
        """What ends a search."""
        return search_limits(setup, _strategy(setup))

    def repeats(self, setup: Setup) -> int:
        """How often a trial runs each case."""
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return CoordinateLines(self.ends)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """Loss and metrics, and what they tell of the headroom where the run has not said it."""
        table = super().baseline(run, quiet=quiet)
        if not table or not quiet:
            return table
        checks = [event.data for event in run.events if event.kind == HEADROOM]
        return (*table, *(Text(tuple(headroom_lines(data))) for data in checks))

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return report(run, self.reason(run))


class CoordinateLines(ProgressLines):
    """Phases with their studies, the headroom check, axes that reach nothing."""

    def __init__(self, ends: Mapping[str, str]) -> None:
        super().__init__(ends)
        self._improved = False
        """Whether the prompt is another than when the last numeric phase began."""

    def lines(self, event: Event, width: int) -> list[str]:
        """What an event means to a person, if anything."""
        data = event.data
        match event.kind:
            case "headroom":
                return [line for each in headroom_lines(data) for line in _labelled(each, width)]
            case "dead_axis":
                return wrapped(f"! {visible(dead_words(data))}", width)
            case _:
                lines = super().lines(event, width)
        numeric = data.get("phase") == "numeric"
        if event.kind == "phase_started" and numeric:
            self._improved = False
        elif data.get("accepted") is True and not numeric:
            self._improved = True
        return lines

    def phase_title(self, data: Mapping[str, Json]) -> str:
        """`cycle 2 · numeric phase (fresh TPE study #2, vs improved prompt)`."""
        cycle, phase = data.get("cycle"), str(data.get("phase"))
        title = f"cycle {cycle} · {_TITLES.get(phase, phase)}"
        if phase != "numeric":
            return title
        again = ", vs improved prompt" if self._improved and cycle != 1 else ""
        return f"{title} (fresh TPE study #{cycle}{again})"

    def trial(self, data: Mapping[str, Json], width: int) -> str:
        """One trial in one line."""
        unmeasured = data.get("train") is None and data.get("holdout") is None
        if unmeasured and data.get("code") in _UNMEASURED:
            return _skipped(data, width)
        return super().trial(data, width)


def _strategy(setup: Setup) -> Coordinate:
    assert isinstance(setup.strategy, Coordinate)
    return setup.strategy


def _skipped(data: Mapping[str, Json], width: int) -> str:
    """A trial that was over before it was measured: why stands where its numbers would."""
    name = f"{trial_label(data)} {note_words(data, width)}"
    code, reason = str(data.get("code")), f"({data.get('reason') or ''})"
    spent = spent_words(data)
    for room, tail in ((50, spent), (50, spent[:1]), (50, ()), (39, ())):
        line = " ".join((name, padded(reason, room), f"{f'{code} ✗':<8}", *tail)).rstrip()
        if cell_len(line) <= width:
            return line
    return shorten_after(f"{name} {code} ✗  ", reason, width)


def _labelled(text: str, width: int) -> list[str]:
    """What is said in passing under a label, which stands before all of its lines."""
    below = " " * (len(INDENT) + _LABEL)
    return textwrap.wrap(f"{INDENT}{text}", max(40, width), subsequent_indent=below)
