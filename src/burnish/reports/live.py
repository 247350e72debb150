"""The live view: what is running, best so far, budget used and left, time to the end."""

import time
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from burnish.core.money import NOTHING, Spend
from burnish.effects.budget import Budget
from burnish.reports.lines import LineView
from burnish.reports.words import duration, number, spending
from burnish.runs.events import Event, Tick

REFRESH_SECONDS = 0.1


class LiveView:
    """Trial lines above, a panel below that moves. Use it as a context manager."""

    def __init__(self, console: Console, budget: Budget) -> None:
        self._console = console
        self._budget = budget
        self._lines = LineView(self._print, width=console.width)
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._doing = "starting"
        self._tick: Tick | None = None
        self._best: object = None
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
        if event.kind == "phase_started":
            self._doing = f"cycle {event.data.get('cycle')} · {event.data.get('phase')}"
        if event.kind == "trial_recorded":
            self._best = event.data.get("best_score")
            trial = event.data.get("trial")
            self._trials = trial if isinstance(trial, int) else self._trials
            self._tick = None
        self._lines.event(event)
        self._draw(now=True)

    def tick(self, tick: Tick) -> None:
        """Move the bar."""
        self._tick, self._spent = tick, tick.spent
        self._seconds = tick.active_seconds
        self._draw(now=tick.done == tick.total)

    def panel(self) -> Group:
        """What is shown below the lines."""
        best = number(self._best if isinstance(self._best, float) else None)
        shown = Text.assemble(
            ("best score ", "dim"),
            best,
            ("  spent ", "dim"),
            spending(self._spent),
            ("  time ", "dim"),
            duration(self._seconds),
            ("  left ", "dim"),
            self._time_left(),
        )
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return Group(self._evaluation(), self._limits(), shown)

    def _evaluation(self) -> Table:
        row = Table.grid(padding=(0, 1))
        tick = self._tick
        if tick is None:
            row.add_row(Text(f"{self._doing} · thinking", style="cyan"))
            return row
        troubles = f" {tick.failed} failed" if tick.failed else ""
        troubles += f" {tick.missing} missing" if tick.missing else ""
        row.add_row(
            Text(f"{self._doing} · {tick.split.value}", style="cyan"),
            ProgressBar(total=tick.total, completed=tick.done, width=30),
            f"{tick.done}/{tick.total}{troubles}",
        )
        return row

    def _limits(self) -> Table:
        row = Table.grid(padding=(0, 1))
        cells: list[Text | ProgressBar] = []
        for name, left in self._left().items():
            cells += [
                Text(name.removeprefix("max_").replace("_", " "), style="dim"),
                ProgressBar(total=1.0, completed=1.0 - left, width=12),
                Text(f"{1 - left:.0%}"),
            ]
        row.add_row(*(cells or [Text("no limit is set", style="dim")]))
        return row

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
        """Until the tightest limit, at the pace so far. The run may well end sooner."""
        used = max((1 - left for left in self._left().values()), default=0.0)
        if used <= 0:
            return "—"
        return f"at most {duration(self._seconds * (1 - used) / used)}"

    def _print(self, line: str) -> None:
        style = "green" if "accept ✓" in line else ("dim" if "✗" in line else "")
        self._console.print(Text(line, style=style), soft_wrap=True)

    def _draw(self, *, now: bool) -> None:
        # Drawing for every case would cost more than the cases of a fast target.
        if now or time.monotonic() - self._drawn > REFRESH_SECONDS:
            self._drawn = time.monotonic()
            self._live.update(self.panel(), refresh=True)
