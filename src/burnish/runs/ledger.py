"""The ledger: trials and events as files, with HoloDeck's fields for each trial.

Pages and reports read its rows from the journal; the scores that few of them look at are read late.
"""

import csv
import difflib
import io
import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_core import from_json as parsed_json

from burnish.core.content import Json, canonical, codec, from_json
from burnish.core.gates import clears, holds
from burnish.core.trials import SplitResult, Trial, TrialDetails, TrialRow
from burnish.journal.journal import JournalReader
from burnish.journal.sqlite_store import reading
from burnish.runs.events import BASELINE, Advanced, Event, Leader, files_by_trial, leads
from burnish.system import append_line, place_inside, update_inside

# -- The files -------------------------------------------------------------------------------------


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
"""The numbers of HoloDeck's gate; other gates have only some of them."""


def audited(row: TrialRow, before: Leader, after: Leader) -> dict[str, Json]:
    """HoloDeck's fields of a row, with the incumbents before and after it."""
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
    """The axis that the trial aimed at, or the axes that it changed together."""
    axis = TrialDetails.of(trial).axis_target
    return ", ".join(trial.touched) if axis is None else axis


def proposal_source(trial: Trial) -> Mapping[str, Json]:
    """Where the proposal came from, according to the strategy."""
    return TrialDetails.of(trial).proposal_source or {}


def _explained(source: Mapping[str, Json], trial: Trial, before: Leader) -> Json:
    """The source with the models and the number of changed lines."""
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
    rate, cost = measurement.pass_rate, measurement.values.get("cost_usd")
    sweeps = len(measurement.runs)
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
        # The agent's runs in all repeats; failed runs are charged but have no price.
        "trial_usd": None if cost is None or result.errors or not sweeps else cost * sweeps,
    }


def _decision(trial: Trial) -> Json:
    if trial.phase == BASELINE:
        return None
    decision = trial.decision
    numbers: Mapping[str, float] = decision.numbers if decision else {}
    figures: dict[str, Json] = {name: numbers.get(name) for name in _NUMBERS}
    reason = decision.reason if decision else None
    if trial.problems:
        reason = f"turned away: {'; '.join(map(str, trial.problems))}"

    def both(one: str, other: str, rule: Callable[[float, float], Json]) -> Json:
        left, right = numbers.get(one), numbers.get(other)
        return None if left is None or right is None else rule(left, right)

    return {
        **figures,
        "pooled_train_std": both("train_std", "best_train_std", math.hypot),
        "improvement_clears_noise": both("train_improvement", "noise_bar", clears),
        "holdout_within_noise": both(
            "holdout_regression", "holdout_noise_bar", lambda fall, bar: holds(-fall, bar)
        ),
        "accepted": trial.accepted,
        "reason": reason,
    }


TRIALS, EVENTS, TRAJECTORY = "trials.jsonl", "events.jsonl", "trajectory.csv"

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
    """The last complete rows of the files."""

    trial: int = -1
    event: str = ""
    """Its id."""


def last_shown(folder: Path) -> _LastShown:
    """The last trial and event in the files; broken and foreign lines do not count."""
    trial, event = (last_row(folder / name) for name in (TRIALS, EVENTS))
    number, name = trial.get("number"), event.get("id")
    return _LastShown(
        trial=number if isinstance(number, int) else -1,
        event=name if isinstance(name, str) else "",
    )


def last_row(path: Path) -> dict[str, Json]:
    """The last complete row of a file of the ledger; empty if there is none."""
    try:
        row: Json = from_json(_last_whole_line(path))
    except (OSError, ValueError):
        return {}
    return row if isinstance(row, dict) else {}


def _last_whole_line(path: Path) -> bytes:
    """The last complete line, read from the end since the file may be long."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        place, tail = file.seek(0, os.SEEK_END), b""
        while place and tail.count(b"\n") < 2:
            size = min(place, max(64 * 1024, len(tail)))
            place = file.seek(place - size)
            tail = file.read(size) + tail
    return tail.split(b"\n")[-2] if b"\n" in tail else b""


@dataclass
class Ledger:
    """Appends to the files of one run."""

    folder: Path
    _leader: Leader = field(default_factory=Leader)
    _last: TrialRow | None = None

    def rebuild(self, trials: Iterable[TrialRow], events: Iterable[Event]) -> None:
        """Rewrite the files from the journal, which repairs broken and lost lines."""
        history = tuple(events)
        followed = list(_followed(trials, history))
        self._rewrite(TRIALS, [_trial_line(*each) for each in followed])
        self._rewrite(EVENTS, [event_line(event) for event in history])
        flat = (_csv_line(_flat(row, after)) for row, _, after in followed)
        self._rewrite(TRAJECTORY, [_csv_line(_COLUMNS), *flat])
        self._leader, self._last = Leader(), None
        if followed:
            self._last, _, after = followed[-1]
            self._leader = _once_written(after, self._last, files_by_trial(history))

    def add_trial(self, row: TrialRow) -> None:
        """Append a trial."""
        before, after = self._leader, self._leader.after(row)
        self._append(TRIALS, _trial_line(row, before, after))
        self._append(TRAJECTORY, _csv_line(_flat(row, after)))
        self._leader, self._last = after, row

    def add_event(self, event: Event) -> None:
        """Append an event."""
        self._append(EVENTS, event_line(event))
        if self._last is not None and (advanced := event.read(Advanced)) is not None:
            files = {advanced.trial: advanced.files}
            self._leader = _once_written(self._leader, self._last, files)

    def _rewrite(self, name: str, lines: list[str]) -> None:
        update_inside(self.folder, name, "".join(f"{line}\n" for line in lines).encode())

    def _append(self, name: str, line: str) -> None:
        append_line(place_inside(self.folder, name), line)


def _followed(
    rows: Iterable[TrialRow], events: Iterable[Event]
) -> Iterator[tuple[TrialRow, Leader, Leader]]:
    """Each trial with the incumbents before and after it."""
    files = files_by_trial(events)
    before = Leader()
    for row in rows:
        after = before.after(row)
        yield row, before, after
        before = _once_written(after, row, files)


def _once_written(leader: Leader, last: TrialRow, files: Mapping[int, tuple[str, ...]]) -> Leader:
    """The incumbent once the files of the last trial are written, if it has any."""
    return leader.advanced(last, files[last.number]) if last.number in files else leader


def _trial_line(row: TrialRow, before: Leader, after: Leader) -> str:
    """A trial as a line: all of its fields, and HoloDeck's."""
    for result in (row.trial.train, row.trial.holdout):
        _ = None if result is None else len(result.scores)  # read now: damage is an error here
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
        _number(row.spend.usd),
        f"{row.seconds:.3f}",
    ]


def _csv_line(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(list(values))
    return out.getvalue()


def _loss(result: SplitResult | None) -> str:
    return "" if result is None else _number(result.measurement.loss)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"


# -- Rows for pages and reports --------------------------------------------------------------------


_SCORES = b'"scores":{"'
_CUT = b'"scores":0'
_Scores: TypeAlias = dict[str, dict[str, list[float | None]]]
_SPLITS = ("holdout", "train")
"""In the order in which a stored trial has them."""


class _StoredScores(Mapping[str, Mapping[str, list[float | None]]]):
    """The scores of the cases of a trial, as they were written, read when they are looked at."""

    def __init__(self, text: bytes, journal: Path | str) -> None:
        self._text = text
        self._journal = journal
        """Its name, for an error."""

    def __getitem__(self, case: str) -> Mapping[str, list[float | None]]:
        return self._scores[case]

    def __iter__(self) -> Iterator[str]:
        return iter(self._scores)

    def __len__(self) -> int:
        return len(self._scores)

    def __repr__(self) -> str:
        return repr(self._scores)

    @cached_property
    def _scores(self) -> _Scores:
        with reading(self._journal):
            return codec(_Scores).decode(parsed_json(self._text))


def rows_to_show(reader: JournalReader, *, since: int = 0) -> Iterator[TrialRow]:
    """The recorded trials from a number on.

    The scores of cases are most of a long run, and a page looks at those of a few trials.
    """
    with reading(reader.path):
        for body in reader.trials(since=since):
            data, texts = _without_scores(body)
            row = codec(TrialRow).decode(data)
            trial = row.trial
            parts = {
                split: replace(result, scores=_StoredScores(texts[split], reader.path))
                for split, result in (("holdout", trial.holdout), ("train", trial.train))
                if result is not None and split in texts
            }
            yield replace(row, trial=replace(trial, **parts)) if parts else row


def _without_scores(body: bytes) -> tuple[Any, dict[str, bytes]]:
    """A stored trial without the scores of its cases, and these, by split.

    The first `}}` after `"scores":{` ends them, unless it is inside a name. Cutting there would
    leave half a string and so no JSON. Whatever is not as expected is read as a whole.
    """
    head, *rest = body.split(_SCORES)
    pieces = [each.partition(b"}}") for each in rest]
    try:
        data = parsed_json(head + b"".join(_CUT + after for _, _, after in pieces))
        results = {split: data["trial"][split] for split in _SPLITS}
        cut = [split for split, each in results.items() if each and each["scores"] == 0]
    except (ValueError, KeyError, TypeError):
        return json.loads(body), {}
    if len(cut) != len(pieces):  # a proposer was shown scores, too
        return json.loads(body), {}
    for split in cut:
        results[split]["scores"] = {}
    texts = (b'{"' + before + end for before, end, _ in pieces)
    return data, dict(zip(cut, texts, strict=True))
