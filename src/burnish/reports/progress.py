"""Progress: plain lines, NDJSON, the live view."""

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from burnish.core.cases import Split
from burnish.core.content import Json, canonical, codec
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
from burnish.runs.progress import INDENT

WIDTH = 100


class LineView:
    """Prints one line an event that matters, in the words of the run's strategy."""

    def __init__(
        self, write: Callable[[str], None], *, width: Callable[[], int] = lambda: WIDTH
    ) -> None:
        self._write = write
        self._width = width
        self._strategy: str = ""
        self.plugin = StrategyPlugin()
        """What is known of the run's strategy; it is told with the first event."""
        self.progress = self.plugin.progress()

    def event(self, event: Event) -> None:
        """Print what an event means to a person, if anything."""
        if begun := event.read(SessionBegun):
            self._begin(begun.strategy)
        for line in self.progress.lines(event, self._width()):
            self._write(line)

    def tick(self, tick: Tick) -> None:
        """Cases are too many for lines."""

    def _begin(self, strategy: str) -> None:
        # A run that goes on keeps what its lines remember.
        if strategy != self._strategy:
            self._strategy = strategy
            self.plugin = strategy_plugin(strategy)
            self.progress = self.plugin.progress()


# -- The live view --------------------------------------------------------------------------------


_REFRESH_SECONDS = 0.1
_BAR = 12


class LiveView:
    """Trial lines above, a panel below that moves. Use it as a context manager."""

    def __init__(self, console: Console, budget: Budget) -> None:
        self._console = console
        self._budget = budget
        self._lines = LineView(self._print, width=lambda: console.width)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._doing = "starting"
        self._phases = False
        """Whether the strategy tells of its phases."""
        self._tick: Tick | None = None
        self._best: float | None = None
        self._trials = 0
        self._spent: Spend = NOTHING
        self._seconds = 0.0
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
        """Print the event's line and remember what the panel shows."""
        if resumed := event.read(RunResumed):
            self._trials = max(0, resumed.trials_recorded - 1)
        if phase := event.read(PhaseStarted):
            self._phases = True
            # The panel has little room: which study it is stands in the line above.
            self._doing = self._lines.progress.phase_title(phase).partition(" (")[0]
        if trial := event.read(TrialRecorded):
            self._best, self._trials, self._tick = trial.best_score, trial.trial, None
            if not self._phases:
                self._doing = f"trial {self._trials + 1}"
            self._spent = trial.spent or self._spent
        if (ended := event.read(RunEnded)) and ended.spent is not None:
            self._spent = ended.spent
        self._lines.event(event)
        self._draw(now=True)

    @property
    def _is_measuring(self) -> bool:
        return not self._lines.plugin.proposes

    def tick(self, tick: Tick) -> None:
        """Move the bar."""
        # A measurement is one block, and only counts as spent once it is used: at its end.
        self._tick, self._spent = tick, tick.billed if self._is_measuring else tick.spent
        self._seconds = tick.active_seconds
        self._draw(now=tick.done == tick.total)

    def panel(self) -> Group:
        """What is shown below the lines."""
        best = () if self._is_measuring else (("best score ", "dim"), f"{number(self._best)}  ")
        shown = Text.assemble(
            *best,
            ("spent ", "dim"),
            spending(self._spent, tokens=False),
            ("  time ", "dim"),
            duration(self._seconds),
            ("  left ", "dim"),
            self._time_left(),
        )
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return Group(self._evaluation(), self._limits(), shown)

    def _evaluation(self) -> Table:
        tick, doing = self._tick, Text(self._what(), style="cyan")
        if tick is None:
            return _row(doing)
        troubles = f" {tick.failed} failed" if tick.failed else ""
        troubles += f" {tick.missing} missing" if tick.missing else ""
        bar = ProgressBar(total=tick.total, completed=tick.done, width=2 * _BAR)
        return _row(doing, bar, Text(f"{tick.done}/{tick.total}{troubles}"))

    def _what(self) -> str:
        if self._is_measuring:
            return "measuring"
        if self._tick is None:
            return f"{self._doing} · thinking"
        sealed = self._tick.split is Split.TEST
        return "sealed test" if sealed else f"{self._doing} · {self._tick.split.value}"

    def _limits(self) -> Table | Text:
        used = {
            name.removeprefix("max_").replace("_", " "): 1 - left
            for name, left in self._left().items()
        }
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

    def _left(self) -> dict[str, float]:
        """The share left of each limit."""
        shares = self._budget.left(self._spent)
        counted = (
            ("max_trials", self._budget.max_trials, float(self._trials)),
            ("max_minutes", self._budget.max_minutes, self._seconds / 60),
        )
        return shares | {
            name: max(0.0, 1 - used / limit) for name, limit, used in counted if limit is not None
        }

    def _time_left(self) -> str:
        """Until the tightest limit, at the pace so far. The run may well end sooner.

        A measurement ends with its last case, and its pace is that of its cases.
        """
        if self._is_measuring and self._tick is not None and self._tick.done:
            tick = self._tick
            return f"~{duration(self._seconds * (tick.total - tick.done) / tick.done)}"
        used = max((1 - left for left in self._left().values()), default=0.0)
        if used <= 0:
            return "—"
        return f"up to ~{duration(self._seconds * (1 - used) / used)}"

    def _print(self, line: str) -> None:
        quiet = "✗" in line or line.startswith(INDENT)
        style = "green" if "accept ✓" in line else ("dim" if quiet else "")
        self._console.print(Text(line, style=style), soft_wrap=True)

    def _draw(self, *, now: bool) -> None:
        # Drawing for every case would cost more than the cases of a fast target.
        if now or time.monotonic() - self._drawn > _REFRESH_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self.panel(), refresh=True)


def _row(*cells: Text | ProgressBar) -> Table:
    row = Table.grid(padding=(0, 1))
    for _ in cells:
        row.add_column(no_wrap=True, overflow="ellipsis")
    row.add_row(*cells)
    return row


# -- Progress as NDJSON ---------------------------------------------------------------------------


_SECONDS_BETWEEN_TICKS = 0.25


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
        if tick.done < tick.total and now - self._last < _SECONDS_BETWEEN_TICKS:
            return
        self._last = now
        data: dict[str, Json] = {
            "candidate": tick.candidate,
            "split": tick.split.value,
            "done": tick.done,
            "total": tick.total,
            "failed": tick.failed,
            "missing": tick.missing,
            "spent": codec(Spend).encode(tick.spent),
            "billed": codec(Spend).encode(tick.billed),
            "active_seconds": round(tick.active_seconds, 3),
        }
        self._write(canonical({"schema": 1, "kind": "tick", "data": data}).decode())
