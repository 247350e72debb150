"""Progress: plain lines, NDJSON, the live view."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import fields, replace
from html import escape
from types import TracebackType
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from burnish.core.cases import Split
from burnish.core.content import canonical, codec
from burnish.core.formatting import duration, number, spending
from burnish.core.money import NOTHING, Spend
from burnish.journal.limits import Budget
from burnish.runs.events import (
    Event,
    PhaseStarted,
    RunEnded,
    RunResumed,
    SessionBegun,
    Tick,
    TrialRecorded,
)
from burnish.runs.ledger import event_line
from burnish.runs.plugins import StrategyPlugin, strategy_plugin
from burnish.runs.progress import INDENT, wrapped

WIDTH = 100
TICK = "tick"
"""The kind of a line about the progress of an evaluation."""
_BAR = 12
_STARTING = "starting"
_RECENT = 8
_NOTEBOOK_SECONDS = 0.5
"""Between two updates of a cell: each is a message that the notebook stores."""
_LIMITS = frozenset(each.name for each in fields(Budget))


class LineView:
    """Prints one line an event that matters, in the words of the run's strategy."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        width: Callable[[], int] = lambda: WIDTH,
        opening: str = "",
    ) -> None:
        self._write = write
        self._width = width
        self._opening = opening
        """What the run may cost and how to stop it, shown below its first line."""
        self._strategy: str = ""
        self.plugin = StrategyPlugin()
        """The plug-in of the run's strategy, which the first event names."""
        self.progress = self.plugin.progress()

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        # A resumed run keeps what its lines remember.
        if (begun := event.read(SessionBegun)) and begun.strategy != self._strategy:
            self._strategy = begun.strategy
            self.plugin = strategy_plugin(begun.strategy)
            self.progress = self.plugin.progress()
        for line in self.progress.lines(event, self._width()):
            self._write(line)
        if begun is not None and self._opening:
            for line in wrapped(self._opening, self._width() - len(INDENT)):
                self._write(f"{INDENT}{line}")

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""


class LiveState:
    """What a run does now and what its limits leave, learned from its events and ticks."""

    def __init__(self, lines: LineView | None = None, budget: Budget | None = None) -> None:
        self.recent: deque[str] = deque(maxlen=_RECENT)
        """The last lines, unless they go elsewhere."""
        self.lines = LineView(self.recent.append) if lines is None else lines
        self.tick_now: Tick | None = None
        """The evaluation that is going on; None while the strategy thinks."""
        self.best: float | None = None
        self.trials = 0
        self.spent: Spend = NOTHING
        self.seconds = 0.0
        self.changes = 0
        """Grows with each event and tick."""
        self._budget = budget
        self._limits = Budget() if budget is None else budget
        self._doing = _STARTING
        self._phases = False
        """Whether the strategy tells of its phases."""

    def event(self, event: Event) -> None:
        """Learn from an event."""
        if (begun := event.read(SessionBegun)) and self._budget is None:
            # A later burnish may have stored a limit that this one does not know.
            limits = {name: v for name, v in begun.budget.items() if name in _LIMITS}
            self._limits = Budget(**limits)  # pyright: ignore[reportArgumentType]
        if resumed := event.read(RunResumed):
            self.trials = max(0, resumed.trials_recorded - 1)
        if phase := event.read(PhaseStarted):
            self._phases = True
            # The panel has little room: the line above names the study.
            self._doing = self.lines.progress.title(phase).partition(" (")[0]
        if trial := event.read(TrialRecorded):
            self.best, self.trials, self.tick_now = trial.best_score, trial.trial, None
            if not self._phases:
                self._doing = f"trial {self.trials + 1}"
            self.spent = trial.spent or self.spent
        if (ended := event.read(RunEnded)) and ended.spent is not None:
            self.spent = ended.spent
        self.lines.event(event)
        self.changes += 1

    def tick(self, tick: Tick) -> None:
        """Learn from the progress of an evaluation."""
        # A measurement is one block, and only counts as spent once it is used: at its end.
        self.tick_now, self.spent = tick, tick.billed if self.is_measuring else tick.spent
        self.seconds = tick.active_seconds
        self._doing = "baseline" if self._doing == _STARTING else self._doing
        self.changes += 1

    @property
    def is_measuring(self) -> bool:
        return not self.lines.plugin.proposes

    @property
    def what(self) -> str:
        """What runs now."""
        if self.is_measuring:
            return "measuring"
        if self.tick_now is None:
            return f"{self._doing} · thinking"
        split = self.tick_now.split
        if self.tick_now.purpose:
            return f"{self.tick_now.purpose} · {split.value}"
        return "sealed test" if split is Split.TEST else f"{self._doing} · {split.value}"

    @property
    def used(self) -> dict[str, float]:
        """By the name of each limit, the share of it that is used."""
        return {
            name.removeprefix("max_").replace("_", " "): 1 - left
            for name, left in self._left().items()
        }

    @property
    def time_left(self) -> str:
        """Until the tightest limit, at the pace so far. The run may well end sooner.

        A measurement ends with its last case, and its pace is that of its cases.
        """
        if self.is_measuring and self.tick_now is not None and self.tick_now.done:
            tick = self.tick_now
            return f"~{duration(self.seconds * (tick.total - tick.done) / tick.done)}"
        used = max(self.used.values(), default=0.0)
        if used <= 0:
            return "—"
        return f"up to ~{duration(self.seconds * (1 - used) / used)}"

    def _left(self) -> dict[str, float]:
        budget = self._limits
        counted = (
            ("max_trials", budget.max_trials, float(self.trials)),
            ("max_minutes", budget.max_minutes, self.seconds / 60),
        )
        return budget.left(self.spent) | {
            name: max(0.0, 1 - used / limit) for name, limit, used in counted if limit is not None
        }


class LiveView:
    """Trial lines above, a panel below that moves. Use it as a context manager."""

    def __init__(self, console: Console, budget: Budget, *, opening: str = "") -> None:
        self._console = console
        lines = LineView(self._print, width=lambda: console.width, opening=opening)
        self._state = LiveState(lines, budget)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._drawn = 0.0

    def __enter__(self) -> "LiveView":
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self._live.stop()

    def event(self, event: Event) -> None:
        self._state.event(event)
        self._draw(now=True)

    def tick(self, tick: Tick) -> None:
        self._state.tick(tick)
        self._draw(now=tick.done == tick.total)

    def panel(self) -> Group:
        """What is shown below the lines."""
        state = self._state
        best = () if state.is_measuring else (("best score ", "dim"), f"{number(state.best)}  ")
        shown = Text.assemble(
            *best,
            ("spent ", "dim"),
            spending(state.spent, tokens=False),
            ("  time ", "dim"),
            duration(state.seconds),
            ("  left ", "dim"),
            state.time_left,
        )
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return Group(self._evaluation(), self._limits(), shown)

    def _evaluation(self) -> Table:
        tick, doing = self._state.tick_now, Text(self._state.what, style="cyan")
        if tick is None:
            return _row(doing)
        troubles = f" {tick.failed} failed" if tick.failed else ""
        troubles += f" {tick.missing} missing" if tick.missing else ""
        bar = ProgressBar(total=tick.total, completed=tick.done, width=2 * _BAR)
        return _row(doing, bar, Text(f"{tick.done}/{tick.total}{troubles}"))

    def _limits(self) -> Table | Text:
        used = self._state.used
        if not used:
            return Text("no limit is set", style="dim")
        words = " · ".join(f"{name} {share:.0%}" for name, share in used.items())
        if len(words) + len(used) * _BAR > self._console.width:
            return Text(f"used: {words}", no_wrap=True, overflow="ellipsis")
        cells: list[Text | ProgressBar] = []
        for name, share in used.items():
            bar = ProgressBar(total=1.0, completed=share, width=_BAR)
            cells += [Text(name, style="dim"), bar, Text(f"{share:.0%}")]
        return _row(*cells)

    def _print(self, line: str) -> None:
        quiet = "✗" in line or line.startswith(INDENT)
        style = "green" if "accept ✓" in line else ("dim" if quiet else "")
        self._console.print(Text(line, style=style), soft_wrap=True)

    def _draw(self, *, now: bool) -> None:
        # Drawing for every case would cost more than the cases of a fast target.
        if now or time.monotonic() - self._drawn > 0.1:
            self._drawn = time.monotonic()
            self._live.update(self.panel(), refresh=True)


class NotebookView:
    """The same in the output of a notebook's cell, which `display` of IPython makes."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._state = LiveState()
        self._display = display
        self._shown: Any = None
        self._drawn = 0.0

    def event(self, event: Event) -> None:
        self._state.event(event)
        self._draw(now=True)

    def tick(self, tick: Tick) -> None:
        self._state.tick(tick)
        self._draw(now=tick.done == tick.total)

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        state, tick = self._state, self._state.tick_now
        bar = (
            "" if tick is None else f'<progress value="{tick.done}" max="{tick.total}"></progress>'
        )
        count = "" if tick is None else f" {tick.done}/{tick.total}"
        facts = f"{count} best score {number(state.best)} · spent {spending(state.spent)}"
        lines = escape("\n".join(state.recent))
        return f"<pre>{lines}</pre><p>{escape(state.what)} {bar}{escape(facts)}</p>"

    def _draw(self, *, now: bool) -> None:
        if not now and time.monotonic() - self._drawn < _NOTEBOOK_SECONDS:
            return
        self._drawn = time.monotonic()
        if self._shown is None:
            self._shown = self._display(self, display_id=True)
        else:
            self._shown.update(self)


def _row(*cells: Text | ProgressBar) -> Table:
    row = Table.grid(padding=(0, 1))
    for _ in cells:
        row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(*cells)
    return row


class NdjsonView:
    """Writes events, and ticks now and then, as lines of JSON."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._last = 0.0

    def event(self, event: Event) -> None:
        """Write an event as it is kept in events.jsonl."""
        self._write(event_line(event))

    def tick(self, tick: Tick) -> None:
        """Write how far the evaluation is, but not for every case."""
        now = time.monotonic()
        if tick.done < tick.total and now - self._last < 0.25:
            return
        self._last = now
        data = codec(Tick).encode(replace(tick, active_seconds=round(tick.active_seconds, 3)))
        self._write(canonical({"schema": 1, "kind": TICK, "data": data}).decode())
