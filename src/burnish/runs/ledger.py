"""trials.jsonl, events.jsonl and trajectory.csv: what the journal holds, for other tools.

They are projections: appended as things happen, rebuilt from the journal when a run is opened.
"""

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.content import canonical
from burnish.core.money import Spend
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.events import Event
from burnish.runs.standing import BASELINE
from burnish.system import append_line, write_atomic

TRIALS, EVENTS, TRAJECTORY = "trials.jsonl", "events.jsonl", "trajectory.csv"

COLUMNS = (
    "trial_id",
    "timestamp",
    "cycle",
    "phase",
    "axis_target",
    "train_mean",
    "train_std",
    "holdout_mean",
    "best_train",
    "best_holdout",
    "noise_bar",
    "accepted",
    "trial_usd",
    "duration_sec",
)


def trial_line(row: TrialRow) -> str:
    """A trial as a line of trials.jsonl."""
    return canonical(codec(TrialRow).encode(row)).decode()


def event_line(event: Event) -> str:
    """An event as a line of events.jsonl."""
    return canonical(codec(Event).encode(event)).decode()


@dataclass
class Ledger:
    """Appends to the projections of one run."""

    folder: Path
    _best: tuple[SplitResult | None, SplitResult | None] = (None, None)

    def rebuild(self, trials: Iterable[TrialRow], events: Iterable[Event]) -> None:
        """Make the files say what the journal says; torn tails and lost lines are mended."""
        rows = list(trials)
        self._best = (None, None)
        _replace(self.folder / TRIALS, [trial_line(row) for row in rows])
        _replace(self.folder / EVENTS, [event_line(event) for event in events])
        flat = [_csv_line(COLUMNS), *(_csv_line(self._flat(row)) for row in rows)]
        _replace(self.folder / TRAJECTORY, flat)

    def add_trial(self, row: TrialRow) -> None:
        """Append a trial."""
        append_line(self.folder / TRIALS, trial_line(row))
        append_line(self.folder / TRAJECTORY, _csv_line(self._flat(row)))

    def add_event(self, event: Event) -> None:
        """Append an event."""
        append_line(self.folder / EVENTS, event_line(event))

    def _flat(self, row: TrialRow) -> list[object]:
        trial = row.trial
        if trial.accepted or trial.phase == BASELINE:
            self._best = (trial.train, trial.holdout or self._best[1])
        numbers: Mapping[str, float] = trial.decision.numbers if trial.decision else {}
        return [
            row.number,
            row.at,
            trial.cycle,
            trial.phase,
            ", ".join(trial.touched) or "—",
            _loss(trial.train),
            "" if trial.train is None else _number(trial.train.measurement.std),
            _loss(trial.holdout),
            _loss(self._best[0]),
            _loss(self._best[1]),
            _number(numbers.get("noise_bar")),
            str(trial.accepted or trial.phase == BASELINE).lower(),
            _usd(row.spend),
            f"{row.seconds:.3f}",
        ]


def _replace(path: Path, lines: list[str]) -> None:
    """Write the lines unless they are there already, so that an untouched file stays untouched."""
    content = "".join(f"{line}\n" for line in lines).encode()
    if not path.exists() or path.read_bytes() != content:
        write_atomic(path, content)


def _csv_line(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(list(values))
    return out.getvalue()


def _loss(result: SplitResult | None) -> str:
    return "" if result is None else _number(result.measurement.loss)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


def _usd(spend: Spend) -> str:
    return "" if spend.usd is None else f"{spend.usd:.6f}"
