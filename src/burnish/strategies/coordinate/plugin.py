"""Coordinate descent as a plug-in: its plan, its lines, its report."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len

from burnish.core.formatting import Section, Text, padded, visible
from burnish.core.surfaces import AGENT_SURFACES, Surface
from burnish.runs.directory import RunRecord
from burnish.runs.events import Event, PhaseStarted, TrialRecorded, read_all
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, StrategyPlugin, TargetParts
from burnish.runs.progress import (
    INDENT,
    ProgressLines,
    note_words,
    shorten_after,
    spent_words,
    trial_label,
    wrapped,
)
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.coordinate.headroom import DeadAxis, Headroom, headroom_lines
from burnish.strategies.coordinate.plan import plan_lines, search_limits
from burnish.strategies.coordinate.report import ENDS, report
from burnish.strategies.coordinate.search import APPLIER, CRITIC, Coordinate, build
from burnish.strategies.coordinate.settings import CoordinateSettings

_LABEL = 9
"""Columns of the word that a line about the headroom begins with."""
_NUMERIC = "numeric"
_TITLES = {
    _NUMERIC: "numeric phase",
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
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {
        "critic": ("failing_pattern", "root_cause_hypothesis", "suggested_change_direction"),
        "applier": ("rationale", "diff_summary"),
    }
    needs: ClassVar[tuple[type[Surface], ...]] = AGENT_SURFACES

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
        checks = read_all(run.events, Headroom)
        return (*table, *(Text(tuple(headroom_lines(check))) for check in checks))

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
        if headroom := event.read(Headroom):
            words = headroom_lines(headroom)
            return [line for each in words for line in _labelled(each, width)]
        if axis := event.read(DeadAxis):
            return wrapped(f"! {visible(axis.words)}", width)
        lines = super().lines(event, width)
        if (phase := event.read(PhaseStarted)) and phase.phase == _NUMERIC:
            self._improved = False
        if (trial := event.read(TrialRecorded)) and trial.accepted and trial.phase != _NUMERIC:
            self._improved = True
        return lines

    def phase_title(self, phase: PhaseStarted) -> str:
        """`cycle 2 · numeric phase (fresh TPE study #2, vs improved prompt)`."""
        title = f"cycle {phase.cycle} · {_TITLES.get(phase.phase, phase.phase)}"
        if phase.phase != _NUMERIC:
            return title
        again = ", vs improved prompt" if self._improved and phase.cycle != 1 else ""
        return f"{title} (fresh TPE study #{phase.cycle}{again})"

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One trial in one line."""
        skipped = not trial.measured and trial.code in _UNMEASURED
        return _skipped(trial, width) if skipped else super().trial(trial, width)


def _strategy(setup: Setup) -> Coordinate:
    assert isinstance(setup.strategy, Coordinate)
    return setup.strategy


def _skipped(trial: TrialRecorded, width: int) -> str:
    """A trial that was over before it was measured: why stands where its numbers would."""
    name = f"{trial_label(trial)} {note_words(trial, width)}"
    code, reason = trial.code, f"({trial.reason})"
    spent = spent_words(trial)
    for room, tail in ((50, spent), (50, spent[:1]), (50, ()), (39, ())):
        line = " ".join((name, padded(reason, room), f"{f'{code} ✗':<8}", *tail)).rstrip()
        if cell_len(line) <= width:
            return line
    return shorten_after(f"{name} {code} ✗  ", reason, width)


def _labelled(text: str, width: int) -> list[str]:
    """What is said in passing under a label, which stands before all of its lines."""
    below = " " * (len(INDENT) + _LABEL)
    return textwrap.wrap(f"{INDENT}{text}", max(40, width), subsequent_indent=below)
