"""Progress as HoloDeck's `--progress json` has it: `holodeck.optimize.progress/v1`."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from burnish.core.content import Json, from_json
from burnish.reports.rendering import NAME as REPORT
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import (
    BASELINE,
    Event,
    PhaseEnded,
    PhaseStarted,
    RunEnded,
    RunFinished,
    SearchEnded,
    SessionBegun,
    Tick,
    TrialRecorded,
)
from burnish.runs.ledger import TRIALS, last_row

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
        self._write(json.dumps(line, ensure_ascii=False, allow_nan=False))


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
