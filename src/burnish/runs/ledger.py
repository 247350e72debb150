"""trials.jsonl, events.jsonl and trajectory.csv: what the journal holds, for other tools.

They are projections: appended as things happen, rebuilt from the journal when a run is opened.
"""

import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.content import Json, canonical
from burnish.core.money import Spend
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.audit import audited, axis_target
from burnish.runs.events import Advanced, Event
from burnish.runs.leading import Leader, files_by_trial, leads
from burnish.system import append_line, write_atomic

TRIALS, EVENTS, TRAJECTORY = "trials.jsonl", "events.jsonl", "trajectory.csv"

_CHUNK = 64 * 1024

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


def trial_lines(rows: Iterable[TrialRow], events: Iterable[Event]) -> Iterator[str]:
    """Trials as the lines of trials.jsonl."""
    for row, before, after in _followed(rows, events):
        yield _trial_line(row, before, after)


def event_line(event: Event) -> str:
    """An event as a line of events.jsonl."""
    return canonical(codec(Event).encode(event)).decode()


@dataclass(frozen=True, kw_only=True)
class LastShown:
    """The last whole rows of the files."""

    trial: int = -1
    event: str = ""
    """Its id."""


def last_shown(folder: Path) -> LastShown:
    """What the files show last; lines that are torn or not ours show nothing."""
    trial, event = (_last_row(folder / name) for name in (TRIALS, EVENTS))
    number, name = trial.get("number"), event.get("id")
    return LastShown(
        trial=number if isinstance(number, int) else -1,
        event=name if isinstance(name, str) else "",
    )


def _last_row(path: Path) -> dict[str, Json]:
    try:
        found: Json = json.loads(_last_whole_line(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _last_whole_line(path: Path) -> bytes:
    """Read from the end: the file of a long run is long."""
    with path.open("rb") as file:
        place, tail = file.seek(0, os.SEEK_END), b""
        while place and tail.count(b"\n") < 2:
            size = min(place, max(_CHUNK, len(tail)))
            place = file.seek(place - size)
            tail = file.read(size) + tail
    return tail.split(b"\n")[-2] if b"\n" in tail else b""


@dataclass
class Ledger:
    """Appends to the projections of one run."""

    folder: Path
    _leader: Leader = field(default_factory=Leader)
    _last: TrialRow | None = None

    def rebuild(self, trials: Iterable[TrialRow], events: Iterable[Event]) -> None:
        """Make the files say what the journal says; torn tails and lost lines are mended."""
        told = tuple(events)
        followed = list(_followed(trials, told))
        _replace(self.folder / TRIALS, [_trial_line(*each) for each in followed])
        _replace(self.folder / EVENTS, [event_line(event) for event in told])
        flat = (_csv_line(_flat(row, after)) for row, _, after in followed)
        _replace(self.folder / TRAJECTORY, [_csv_line(COLUMNS), *flat])
        self._leader, self._last = Leader(), None
        if followed:
            self._last, _, after = followed[-1]
            self._leader = _once_written(after, self._last, files_by_trial(told))

    def add_trial(self, row: TrialRow) -> None:
        """Append a trial."""
        before, after = self._leader, self._leader.after(row)
        append_line(self.folder / TRIALS, _trial_line(row, before, after))
        append_line(self.folder / TRAJECTORY, _csv_line(_flat(row, after)))
        self._leader, self._last = after, row

    def add_event(self, event: Event) -> None:
        """Append an event."""
        append_line(self.folder / EVENTS, event_line(event))
        if self._last is not None and (advanced := event.read(Advanced)) is not None:
            files = {advanced.trial: advanced.files}
            self._leader = _once_written(self._leader, self._last, files)


def _followed(
    rows: Iterable[TrialRow], events: Iterable[Event]
) -> Iterator[tuple[TrialRow, Leader, Leader]]:
    """Each trial with who was ahead before and after it."""
    files = files_by_trial(events)
    before = Leader()
    for row in rows:
        after = before.after(row)
        yield row, before, after
        before = _once_written(after, row, files)


def _once_written(leader: Leader, last: TrialRow, files: Mapping[int, tuple[str, ...]]) -> Leader:
    """Who is ahead once the files of the last trial are written, if it has any."""
    return leader.advanced(last, files[last.number]) if last.number in files else leader


def _trial_line(row: TrialRow, before: Leader, after: Leader) -> str:
    """A trial as a line: all that is kept of it, and HoloDeck's own fields beside that."""
    kept = codec(TrialRow).encode(row)
    assert isinstance(kept, dict)
    return canonical({**kept, **audited(row, before, after)}).decode()


def _flat(row: TrialRow, after: Leader) -> list[object]:
    trial = row.trial
    numbers: Mapping[str, float] = trial.decision.numbers if trial.decision else {}
    return [
        row.number,
        row.at,
        trial.cycle,
        trial.phase,
        axis_target(trial) or "—",
        _loss(trial.train),
        "" if trial.train is None else _number(trial.train.measurement.std),
        _loss(trial.holdout),
        _loss(after.train),
        _loss(after.holdout),
        _number(numbers.get("noise_bar")),
        str(leads(row)).lower(),
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
