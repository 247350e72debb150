"""Progress of a run as plain lines, a live view or JSON, in burnish's form or HoloDeck's."""

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from pydantic import TypeAdapter
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from burnish.core.cases import Split
from burnish.core.content import Json, canonical, codec, from_json
from burnish.core.formatting import duration, number, spending, visible, visible_json
from burnish.core.money import NOTHING, Spend
from burnish.journal.limits import Budget
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import (
    BASELINE,
    Event,
    EventData,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunFinished,
    RunResumed,
    SearchEnded,
    SessionBegun,
    Tick,
    TrialRecorded,
)
from burnish.runs.ledger import TRIALS, event_line, last_row
from burnish.runs.plugins import StrategyPlugin, strategy_names, strategy_plugin
from burnish.runs.progress import INDENT, WIDTH, wrapped

_SCHEMA = "holodeck.optimize.progress/v1"
_PHASES = ("numeric", "textual")
"""HoloDeck knows no other phases, so trials of other ones are left out."""
_Object = Mapping[str, Json]


class HolodeckView:
    """Writes the events of a run in HoloDeck's words, each as a line of JSON."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._run = ""
        self._folder = Path()
        self._cycles = 0
        self._cycle: int | None = None
        self._accepted: dict[int, int] = {}
        """By cycle."""
        self._first: float | None = None
        self._best: float | None = None

    def event(self, event: Event) -> None:
        """Write what an event means there, if anything."""
        if begun := event.read(SessionBegun):
            self._begin(begun, event.at)
        elif phase := event.read(PhaseStarted):
            if phase.phase in _PHASES:
                self._enter(phase.cycle - 1)
                self._emit("phase_started", cycle=phase.cycle - 1, phase=phase.phase)
        elif over := event.read(PhaseEnded):
            if over.phase in _PHASES:
                counts = {"trials": over.trials, "accepted": over.accepts}
                self._emit("phase_completed", cycle=over.cycle - 1, phase=over.phase, **counts)
        elif trial := event.read(TrialRecorded):
            self._trial(trial)
        elif event.read(SearchEnded):
            self._leave()
        elif ended := event.read(RunEnded):
            self._leave()
            self._end(ended, finished=event.kind == RunFinished.kinds[0])

    def tick(self, tick: Tick) -> None:
        """HoloDeck tells nothing of single cases."""

    def _begin(self, begun: SessionBegun, at: str) -> None:
        self._run, self._folder = begun.run, Path(begun.folder)
        header = cast("_Object", from_json((self._folder / HEADER).read_bytes()))
        config = _object(header.get("optimizer_config"))
        axes = _object(config.get("axes"))
        limits = _object(_object(config.get("budget")).get("global"))
        self._cycles = cast("int", limits.get("max_cycles", 0))
        self._emit(
            "run_started",
            run_id=begun.run,
            agent=(begun.title or "").partition(", ")[0] or begun.target,
            max_cycles=self._cycles,
            axes={
                "numeric": [_numeric(each) for each in _objects(axes.get("numeric"))],
                "textual": [_textual(each) for each in _objects(axes.get("textual"))],
            },
            loss_weights=config.get("loss_weights", {}),
            started_at=at,
        )

    def _enter(self, cycle: int) -> None:
        if cycle != self._cycle:
            self._leave()
            self._cycle = cycle
            self._emit("cycle_started", cycle=cycle, of=self._cycles)

    def _leave(self) -> None:
        if self._cycle is None:
            return
        accepted = self._accepted.get(self._cycle, 0)
        self._emit(
            "cycle_completed",
            cycle=self._cycle,
            accepted=accepted,
            best_loss=self._best,
            stop_reason=None if accepted else "no_accepts",
        )
        self._cycle = None

    def _trial(self, trial: TrialRecorded) -> None:
        before = self._best
        if trial.phase == BASELINE or trial.accepted:
            self._best = trial.train
        if trial.phase == BASELINE:
            self._first = trial.train
            self._emit("baseline", loss=trial.train)
            return
        cycle = trial.cycle - 1
        self._accepted[cycle] = self._accepted.get(cycle, 0) + trial.accepted
        if trial.phase not in _PHASES:
            return
        source = self._source(trial.trial)
        textual = trial.phase == "textual"
        self._emit(
            "trial",
            trial_id=trial.trial,
            cycle=cycle,
            phase=trial.phase,
            loss=before if trial.train is None else trial.train,
            baseline_loss=before,
            best_loss=self._best,
            accepted=trial.accepted,
            params=None if textual else source.get("params"),
            textual_axis=trial.axis_target if textual else None,
            edit_summary=_object(source.get("applier")).get("diff_summary"),
            excluded_metrics=[],
            error=None if trial.measured else trial.reason,
        )

    def _source(self, number: int) -> _Object:
        """Where the proposal of the trial that was just recorded came from."""
        row = last_row(self._folder / TRIALS)
        return _object(row.get("proposal_source")) if row.get("trial_id") == number else {}

    def _end(self, ended: RunEnded, *, finished: bool) -> None:
        if not finished:
            self._emit("error", message=ended.reason, fatal=True)
            return
        places = {"best_yaml": "best.yaml", "trials_jsonl": TRIALS, "report_md": REPORT}
        self._emit(
            "run_completed",
            run_id=self._run,
            baseline_loss=self._first,
            best_loss=self._best,
            accepted=sum(self._accepted.values()),
            cycles=len(self._accepted),
            artifacts={name: str(self._folder / path) for name, path in places.items()},
        )

    def _emit(self, kind: str, **fields: Json) -> None:
        line = {"schema": _SCHEMA, "event": kind, **fields}
        self._write(visible_json(json.dumps(line, ensure_ascii=False, allow_nan=False)))


def _object(value: Json) -> _Object:
    return value if isinstance(value, dict) else {}


def _objects(value: Json) -> list[_Object]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _numeric(surface: _Object) -> Json:
    if surface.get("kind") == "choice":
        return {"path": surface["id"], "type": "categorical", "range": surface["choices"]}
    kind = "int" if surface.get("integer") else "float"
    return {"path": surface["id"], "type": kind, "range": [surface["low"], surface["high"]]}


def _textual(surface: _Object) -> Json:
    return {"path": surface["id"], "max_chars": surface.get("max_chars") or 0}


_TICK = "tick"
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
            self._write(visible(line))
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
            self._doing = self.lines.progress.phase_title(phase).partition(" (")[0]
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
    """One line in the output of a notebook's cell, which `display` of IPython makes and renews."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._state = LiveState()
        self._ending = ""
        """How the run ended, in a word; empty while it goes on."""
        self._display = display
        self._shown: Any = None
        self._drawn = 0.0

    def event(self, event: Event) -> None:
        self._state.event(event)
        if event.read(RunEnded):
            self._ending = event.kind.removeprefix("run_")
        self._draw(now=True)

    def tick(self, tick: Tick) -> None:
        self._state.tick(tick)
        self._draw(now=tick.done == tick.total)

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        tick = None if self._ending else self._state.tick_now
        done, total = (0, 0) if tick is None else (tick.done, tick.total)
        bar = f'<progress value="{done}" max="{total}"></progress> ' if tick else ""
        return f"<p>{bar}{escape(str(self))}</p>"

    def __repr__(self) -> str:
        state, tick = self._state, self._state.tick_now
        count = f" {tick.done}/{tick.total}" if tick and not self._ending else ""
        facts = f"best score {number(state.best)} · spent {spending(state.spent)}"
        return f"{self._ending or state.what}{count} · {facts}"

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
        self._write(visible_json(event_line(event)))

    def tick(self, tick: Tick) -> None:
        """Write how far the evaluation is, but not for every case."""
        now = time.monotonic()
        if tick.done < tick.total and now - self._last < 0.25:
            return
        self._last = now
        data = codec(Tick).encode(replace(tick, active_seconds=round(tick.active_seconds, 3)))
        self._write(canonical({"schema": 1, "kind": _TICK, "data": data}).decode())


_Schema = dict[str, Any]


def progress_schema() -> _Schema:
    """One line: its kind, and by kind its data. Events of installed strategies are included."""
    definitions: _Schema = {}
    ways = {
        kind: [_reference(each, definitions) for each in classes]
        for kind, classes in sorted(_by_kind().items())
    }
    ways[_TICK] = [_reference(Tick, definitions)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "burnish: a line of --progress json",
        "type": "object",
        "properties": {
            "schema": {"const": 1},
            "id": {"type": "string", "description": "The same again if it is delivered twice."},
            "kind": {"type": "string", "description": "Further kinds may be added."},
            "at": {"type": "string", "description": "UTC, ISO 8601."},
            "data": {"type": "object"},
        },
        "required": ["schema", "kind", "data"],
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}},
                "then": {"properties": {"data": each[0] if len(each) == 1 else {"anyOf": each}}},
            }
            for kind, each in ways.items()
        ],
        "$defs": dict(sorted(definitions.items())),
    }


def _by_kind() -> dict[str, list[type[EventData]]]:
    """The classes of data that are stored under each kind, including those of strategies."""
    for name in strategy_names():
        strategy_plugin(name)
    found: dict[str, list[type[EventData]]] = {}
    # By name: the order in which modules were imported is an accident.
    for each in sorted(_below(EventData), key=lambda each: each.__name__):
        for kind in each.kinds[:1]:
            found.setdefault(kind, []).append(each)
    return found


def _below(kind: type[EventData]) -> Iterator[type[EventData]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _reference(kind: type[Any], definitions: _Schema) -> _Schema:
    adapter = TypeAdapter(kind)
    schema = adapter.json_schema(mode="serialization", ref_template="#/$defs/{model}")
    definitions |= schema.pop("$defs", {})
    # A field may be left out if it is None.
    optional: frozenset[str] = getattr(kind, "optional", frozenset())
    schema["required"] = [name for name in schema.get("required", ()) if name not in optional]
    schema["additionalProperties"] = True
    definitions[kind.__name__] = schema
    return {"$ref": f"#/$defs/{kind.__name__}"}
