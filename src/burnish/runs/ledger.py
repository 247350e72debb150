"""The ledger: trials and events as files, and a trial's row in HoloDeck's words."""

import csv
import difflib
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.content import Json, canonical, codec
from burnish.core.money import Spend
from burnish.core.surfaces import EPSILON
from burnish.core.trials import Decision, SplitResult, Trial, TrialDetails, TrialRow
from burnish.runs.events import BASELINE, Advanced, Event, Leader, files_by_trial, leads
from burnish.system import append_line, write_atomic

_NUMBERS = (
    "best_train_mean_before",
    "train_mean",
    "train_std",
    "train_improvement",
    "accept_sigma",
    "noise_bar",
    "holdout_mean",
    "best_holdout_mean_before",
    "holdout_regression",
    "holdout_noise_bar",
)
"""What the gate of HoloDeck decided on; another gate leaves out what it has no word for."""


def audited(row: TrialRow, before: Leader, after: Leader) -> dict[str, Json]:
    """HoloDeck's fields of a row, given who was ahead before and after it."""
    trial = row.trial
    source = proposal_source(trial)
    return {
        "trial_id": row.number,
        "timestamp": row.at,
        "cycle": trial.cycle,
        "phase": trial.phase,
        "axis_target": axis_target(trial) or None,
        "baseline_before_path": before.path,
        "proposal_source": _explained(source, trial, before),
        "candidate_path": before.path_at(row.number) if trial.accepted else None,
        "repeats": _repeats(trial),
        "train": _split(trial.train, row.split_seconds.get("train")),
        "holdout": _split(trial.holdout, row.split_seconds.get("holdout")),
        "decision": _decision(trial),
        "study_state": {
            "cycle": trial.cycle,
            "phase": trial.phase,
            "numeric_study_id": source.get("numeric_study_id"),
            "tpe_n_observations_this_study": source.get("tpe_n_observations_this_study"),
            "best_trial_id": after.number,
        },
    }


def axis_target(trial: Trial) -> str:
    """What the trial aimed at: one axis, or the axes that were moved together."""
    axis = TrialDetails.of(trial).axis_target
    return ", ".join(trial.touched) if axis is None else axis


def proposal_source(trial: Trial) -> Mapping[str, Json]:
    """Where the proposal came from, as the strategy tells it."""
    return TrialDetails.of(trial).proposal_source or {}


def _explained(source: Mapping[str, Json], trial: Trial, before: Leader) -> Json:
    """The source with what the row knows beside it."""
    explained: dict[str, Json] = {**source}
    critic, applier = source.get("critic"), source.get("applier")
    if isinstance(critic, dict):
        explained["critic"] = {"model": None, **critic}
    if isinstance(applier, dict):
        added, removed = _lines_changed(trial, before)
        counts: dict[str, Json] = {"diff_lines_added": added, "diff_lines_removed": removed}
        explained["applier"] = {"model": None, **applier, **counts}
    return explained or None


def _lines_changed(trial: Trial, before: Leader) -> tuple[int | None, int | None]:
    axis = axis_target(trial)
    new = trial.candidate.values.get(axis)
    old = None if before.candidate is None else before.candidate.values.get(axis)
    if not isinstance(new, str) or not isinstance(old, str):
        return None, None
    marks = [line[:2] for line in difflib.ndiff(old.splitlines(), new.splitlines())]
    return marks.count("+ "), marks.count("- ")


def _repeats(trial: Trial) -> int | None:
    measured = trial.train or trial.holdout
    if measured is None:
        return None
    counts = (len(values) for metrics in measured.scores.values() for values in metrics.values())
    return max(counts, default=len(measured.measurement.runs)) or None


def _split(result: SplitResult | None, seconds: float | None) -> Json:
    if result is None:
        return None
    measurement = result.measurement
    rate = measurement.pass_rate
    return {
        "report_summary": {
            "pass_rate": None if rate is None else round(100 * rate, 9),
            "pass_rate_unit": "percent",
            "average_scores": {**measurement.components},
        },
        "loss_components": {**measurement.components},
        "penalty_components": {**measurement.penalties},
        "loss": measurement.loss,
        "loss_std": None if measurement.loss is None else measurement.std,
        "loss_runs": [*measurement.runs],
        "errored_runs_excluded": sum(measurement.missing.values()),
        "duration_sec": seconds,
        "trial_usd": _agent_usd(result),
    }


def _agent_usd(result: SplitResult) -> float | None:
    """What the agent's own runs cost, all repeats; a run that failed is charged, not priced."""
    cost, sweeps = result.measurement.values.get("cost_usd"), len(result.measurement.runs)
    return None if cost is None or result.errors or not sweeps else cost * sweeps


def _decision(trial: Trial) -> Json:
    if trial.phase == BASELINE:
        return None
    made = trial.decision
    numbers: Mapping[str, float] = made.numbers if made else {}
    figures: dict[str, Json] = {name: numbers.get(name) for name in _NUMBERS}
    return {
        **figures,
        "pooled_train_std": _pooled(numbers),
        "improvement_clears_noise": _clears(numbers),
        "holdout_within_noise": _holds(numbers),
        "accepted": trial.accepted,
        "reason": _reason(trial, made),
    }


def _reason(trial: Trial, made: Decision | None) -> str | None:
    if trial.problems:
        return f"turned away: {'; '.join(map(str, trial.problems))}"
    return None if made is None else made.reason


def _pooled(numbers: Mapping[str, float]) -> float | None:
    ours, theirs = numbers.get("train_std"), numbers.get("best_train_std")
    return None if ours is None or theirs is None else math.hypot(ours, theirs)


def _clears(numbers: Mapping[str, float]) -> bool | None:
    gain, bar = numbers.get("train_improvement"), numbers.get("noise_bar")
    return None if gain is None or bar is None else gain > EPSILON and gain >= bar - EPSILON


def _holds(numbers: Mapping[str, float]) -> bool | None:
    fall, bar = numbers.get("holdout_regression"), numbers.get("holdout_noise_bar")
    return None if fall is None or bar is None else fall <= bar + EPSILON


TRIALS, EVENTS, TRAJECTORY = "trials.jsonl", "events.jsonl", "trajectory.csv"

# -- Trials.jsonl, events.jsonl and trajectory.csv ------------------------------------------------


_CHUNK = 64 * 1024

_COLUMNS = (
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
class _LastShown:
    """The last whole rows of the files."""

    trial: int = -1
    event: str = ""
    """Its id."""


def last_shown(folder: Path) -> _LastShown:
    """What the files show last; lines that are torn or not ours show nothing."""
    trial, event = (_last_row(folder / name) for name in (TRIALS, EVENTS))
    number, name = trial.get("number"), event.get("id")
    return _LastShown(
        trial=number if isinstance(number, int) else -1,
        event=name if isinstance(name, str) else "",
    )


def _last_row(path: Path) -> dict[str, Json]:
    try:
        row: Json = json.loads(_last_whole_line(path))
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


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
        history = tuple(events)
        followed = list(_followed(trials, history))
        _replace(self.folder / TRIALS, [_trial_line(*each) for each in followed])
        _replace(self.folder / EVENTS, [event_line(event) for event in history])
        flat = (_csv_line(_flat(row, after)) for row, _, after in followed)
        _replace(self.folder / TRAJECTORY, [_csv_line(_COLUMNS), *flat])
        self._leader, self._last = Leader(), None
        if followed:
            self._last, _, after = followed[-1]
            self._leader = _once_written(after, self._last, files_by_trial(history))

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
    fields = codec(TrialRow).encode(row)
    assert isinstance(fields, dict)
    return canonical({**fields, **audited(row, before, after)}).decode()


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
