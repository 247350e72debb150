"""A run's directory: its header, its index, its record, opened for driving or read."""

import json
import os
import platform
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from burnish.core.content import Json, canonical, codec, short_id
from burnish.core.errors import (
    FileTrouble,
    JournalIncomplete,
    JournalTrouble,
    ResumeRefused,
    RunNotFound,
)
from burnish.core.formatting import counted, number
from burnish.core.money import NOTHING, Spend, total
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, TrialRow
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.sqlite_store import (
    JOURNAL_FILE as JOURNAL,
)
from burnish.journal.sqlite_store import (
    POINTER,
    how_to_mend,
    reached,
    reading,
)
from burnish.runs.events import (
    BASELINE,
    CANDIDATES,
    Event,
    Exported,
    RunEnded,
    SealedResult,
    SearchEnded,
    SessionBegun,
    files_by_trial,
    read_all,
)
from burnish.runs.ledger import EVENTS, TRIALS, Ledger, event_line, last_shown
from burnish.system import (
    ChildProcesses,
    FileLock,
    Redactor,
    end_leftovers,
    is_held,
    link_atomic,
    read_bytes,
    remove_stale_temporaries,
    write_atomic,
)

NAME = "run.json"
_SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Project:
    """Where a run came from, so that it can be set up again."""

    kind: str = "python"
    """The name of a project kind, or `python` for a run started from a program."""
    file: str = ""
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What was found at the start and is needed afterwards: originals, and their hashes."""
    spec: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The description of the run; secrets out, `${VAR}` kept. A run that goes on is built from
    it. Empty where a program started the run."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a run was started with."""

    schema: int = _SCHEMA
    id: str
    strategy: str
    seed: int
    started_at: str
    burnish: str
    """The version that started it."""
    python: str = field(default_factory=platform.python_version)
    project: Project = field(default_factory=Project)
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    """Hashes of everything that decides what happens. A resume must find them unchanged."""
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many cases each split has."""
    forked_from: str = ""
    call_limit: float | None = None
    """Seconds for one call of a Python function where no time limit is set; None in runs that were
    started before there was such a limit."""
    sealed_test: str = "unread"
    """`spent` when the run this one was forked from had read it."""

    def write(self, folder: Path) -> None:
        """Write run.json."""
        data = codec(Header).encode(self)
        write_atomic(folder / NAME, json.dumps(data, indent=2, ensure_ascii=False) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Header":
        """Read run.json; files of earlier schemas are read too."""
        try:
            header = codec(Header).decode(json.loads(read_bytes(folder / NAME)))
            if header.schema > _SCHEMA:
                raise JournalTrouble(
                    f"{folder / NAME} was written by a newer burnish", remedy="upgrade burnish"
                )
        except ValueError as error:
            raise JournalTrouble(
                f"{folder / NAME} is damaged, or not the header of a run",
                remedy="restore it from a backup, or start a new run",
            ) from error
        return header

    def redacted(self, redactor: Redactor) -> "Header":
        """The header as it may be kept."""
        return codec(Header).decode(redactor.json(codec(Header).encode(self)))

    def require_same(self, inputs: Mapping[str, str]) -> None:
        """Refuse a resume when anything that decides what happens has changed."""
        names = sorted(set(self.inputs) | set(inputs))
        changed = [name for name in names if self.inputs.get(name) != inputs.get(name)]
        if changed:
            raise ResumeRefused(
                f"run {self.id} was started with another {', '.join(changed)}",
                remedy="put it back as it was to resume, or start from what is known with "
                f"--fork {self.id}: a new run that does not pay again for what is unchanged",
            )


LOCK, PROCESSES = "run.lock", "processes"


# -- A run's directory, opened for driving --------------------------------------------------------


class RunDirectory:
    """The folder of one run while one process drives it."""

    def __init__(self, folder: Path, *, redactor: Redactor) -> None:
        self.folder = folder
        self.header = Header.read(folder)
        self.redactor = redactor
        self.children = ChildProcesses(folder=folder / PROCESSES)
        self._ledger = Ledger(folder)
        self._lock = FileLock.acquire(folder / LOCK, holding=f"run {self.header.id}")
        try:
            self.journal = self._opened_journal()
        except BaseException:
            self._lock.release()
            raise

    def _opened_journal(self) -> Journal:
        # Before anything is opened for writing, which would spoil what is left of a journal.
        look_into(self.folder, whole=True).close()
        self._take_over()
        journal = Journal(self.folder)
        try:
            with look_into(self.folder) as reader:
                self._ledger.rebuild(trial_rows(reader), events(reader))
        except BaseException:
            journal.close()
            raise
        return journal

    def _take_over(self) -> None:
        """Clean up after whoever drove this run and was killed."""
        end_leftovers(self.folder / PROCESSES)
        for place in (self.folder, self.folder / CANDIDATES, self.folder / "blobs"):
            if place.is_dir():
                remove_stale_temporaries(place)

    def trial(self, number: int) -> TrialRow | None:
        """A recorded trial."""
        body = self.journal.trial(number)
        with reading(self.journal.path):
            return None if body is None else codec(TrialRow).decode(json.loads(body))

    def add_trial(self, row: TrialRow) -> TrialRow:
        """Record a trial, on disk when this returns; the row as it is kept."""
        stored = self.redacted(row)
        self.journal.add_trial(row.number, canonical(codec(TrialRow).encode(stored)))
        self._ledger.add_trial(stored)
        return stored

    def redacted(self, row: TrialRow) -> TrialRow:
        """The row as it may be kept."""
        data = self.redactor.json(codec(TrialRow).encode(row))
        return codec(TrialRow).decode(json.loads(canonical(data)))

    def add_event(self, event: Event) -> Event | None:
        """Keep an event; what is to be delivered, or None when it was delivered before."""
        stored = codec(Event).decode(self.redactor.json(codec(Event).encode(event)))
        new, delivered = self.journal.add_event(event.id, event_line(stored).encode())
        if new:
            self._ledger.add_event(stored)
        return None if delivered else stored

    def delivered(self, event: Event) -> None:
        """Everyone has heard this event: it will not be told again."""
        self.journal.event_delivered(event.id)

    def export(self, exported: Exported) -> None:
        """Write a candidate's files and the links to it; the same again changes nothing."""
        for relative, file in sorted(exported.files.items()):
            path, content = self.folder / relative, self._without_secrets(file)
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, content)
        for relative, leads_to in exported.links.items():
            link = self.folder / relative
            if not link.is_symlink() or str(link.readlink()) != leads_to:
                link.parent.mkdir(parents=True, exist_ok=True)
                link_atomic(link, leads_to)

    def _without_secrets(self, content: bytes) -> bytes:
        """The file without known secrets. What only looks like one may be a user's example."""
        try:
            return self.redactor.without_known(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def close(self) -> None:
        """Let go of the journal and the lock."""
        self.journal.close()
        self._lock.release()


def look_into(folder: Path, *, whole: bool = False) -> JournalReader:
    """A run's journal, looked at from outside; `whole` refuses one that has lost something."""
    _require_journal(folder)
    reader = JournalReader(folder)
    try:
        lost = what_is_lost(folder, reader) if whole else None
    except BaseException:
        reader.close()
        raise
    if lost is not None:
        reader.close()
        raise lost
    return reader


def _require_journal(folder: Path) -> None:
    """Refuse a run that has trials and has lost its journal: going on would pay for them again."""
    journal, trials = folder / JOURNAL, folder / TRIALS
    lost = not journal.exists() or journal.stat().st_size == 0
    lost = lost and not (folder / POINTER).exists()
    if lost and trials.exists() and trials.stat().st_size:
        raise JournalTrouble(
            f"the journal of this run is gone: {journal}",
            remedy="restore it from a backup, or start a new run; trials.jsonl still tells "
            "what was tried",
        )


def what_is_lost(folder: Path, reader: JournalReader) -> JournalIncomplete | None:
    """What the journal should have and has not, as an error; None where it is whole.

    The files are written after the journal. They are read first, for a driver may be at work.
    """
    shown, results = last_shown(folder), reached(folder)
    trials, recorded = reader.trials_recorded, reader.results
    last = f"its last trial is {trials - 1}" if trials else "it has no trial"
    loss = ""
    if shown.trial >= trials:
        loss = f"{last}, and {TRIALS} shows trial {shown.trial}"
    elif recorded < results:
        loss = f"it has {recorded} results, and {results} were on disk; {last}"
    elif shown.event and not reader.has_event(shown.event):
        loss = f"{EVENTS} shows the event '{shown.event}', which it has not; {last}"
    if not loss:
        return None
    name = Header.read(folder).id
    begin = f"from trial {trials - 1}" if trials else "from the start"
    return JournalIncomplete(
        f"the journal of run {name} has lost something: {loss}",
        remedy=f"{how_to_mend(reader.path)}, and try again; or go on {begin} with --fork {name}: a "
        "new run that pays again for what is lost, and for nothing else",
    )


def trial_rows(reader: JournalReader) -> Iterator[TrialRow]:
    """The recorded trials of a journal."""
    with reading(reader.path):
        for body in reader.trials():
            yield codec(TrialRow).decode(json.loads(body))


def events(reader: JournalReader) -> Iterator[Event]:
    """The events of a journal."""
    with reading(reader.path):
        for body in reader.events():
            yield codec(Event).decode(json.loads(body))


# -- The index ------------------------------------------------------------------------------------


def index_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where the index lies: $BURNISH_HOME, or the user's state folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home) / "runs"
    state = env.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "burnish" / "runs"


def remember_run(folder: Path) -> None:
    """Enter a run into the index. A run works without it, so trouble here is not fatal."""
    with suppress(FileTrouble, OSError):
        index_folder().mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"id": folder.name, "folder": str(folder.resolve())})
        write_atomic(_entry(folder), entry, durable=False)


def forget_run(folder: Path) -> None:
    """Take a run out of the index."""
    with suppress(OSError):
        _entry(folder).unlink()


def _entry(folder: Path) -> Path:
    """Two runs may have one name in two places, so the place is part of the entry's name."""
    return index_folder() / f"{folder.name}.{short_id(str(folder.resolve()))}.json"


def known_runs() -> Iterator[Path]:
    """The folders of all runs that still exist, newest first."""
    for entry in sorted(index_folder().glob("*.json"), reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = Path(json.loads(entry.read_text(encoding="utf-8"))["folder"])
            if (folder / NAME).is_file():
                yield folder


def find_run(name: str) -> Path:
    """The folder of a run: by path, by id, or by the beginning of an id."""
    if (Path(name) / NAME).is_file():
        return Path(name).resolve()
    folders = [folder for folder in known_runs() if folder.name.startswith(name)] if name else []
    exact = [folder for folder in folders if folder.name == name]
    if len(exact or folders) == 1:
        return (exact or folders)[0]
    if folders:
        many = ", ".join(folder.name for folder in folders[:5])
        raise RunNotFound(f"'{name}' could be any of: {many}", remedy="give more of the id")
    raise RunNotFound(
        f"there is no run '{name}'",
        remedy="`burnish runs list` shows the runs of this machine; a path to a run's folder "
        "works too",
    )


# -- A run as it lies on disk, read without disturbing whoever drives it --------------------------


_ENDS = {
    "run_finished": "finished",
    "run_interrupted": "interrupted",
    "run_failed": "failed",
}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that is known of a run."""

    folder: Path
    header: Header
    rows: tuple[TrialRow, ...]
    events: tuple[Event, ...]
    unrecorded: Spend = NOTHING
    """What was completed in the trial under way when it was last driven."""
    billed: Spend
    active_seconds: float
    driven: bool
    """Whether a process drives it now."""

    @classmethod
    def read(cls, folder: Path) -> "RunRecord":
        """Read a run's folder."""
        header = Header.read(folder)
        with look_into(folder, whole=True) as journal:
            rows = tuple(trial_rows(journal))
            return cls(
                folder=folder,
                header=header,
                rows=rows,
                unrecorded=_completed_since(journal, len(rows)),
                events=tuple(events(journal)),
                billed=journal.billed,
                active_seconds=journal.active_seconds,
                driven=is_held(folder / LOCK),
            )

    @property
    def status(self) -> str:
        """`running`, `finished`, `interrupted`, `failed`, or `killed`: the last can be resumed."""
        if self.driven:
            return "running"
        last = self._last_of_session()
        return _ENDS[last.kind] if last is not None else "killed"

    @property
    def ending(self) -> RunEnded | None:
        """How it ended, if it did."""
        last = None if self.driven else self._last_of_session()
        return None if last is None else last.read(RunEnded)

    @property
    def ended_at(self) -> str:
        """When it ended, if it did."""
        last = None if self.driven else self._last_of_session()
        return "" if last is None else last.at

    @property
    def search_end(self) -> str:
        """Why the strategy had nothing left to try, where it tells."""
        ends = [*read_all(self.events, SearchEnded)]
        return ends[-1].reason if ends else ""

    @property
    def trials(self) -> int:
        """How many trials were recorded, the baseline not counted."""
        return sum(row.trial.phase != BASELINE for row in self.rows)

    @property
    def accepted(self) -> int:
        """How many trials were accepted."""
        return sum(row.trial.accepted for row in self.rows)

    @property
    def baseline(self) -> TrialRow | None:
        """The trial that measured where the run started."""
        return next((row for row in self.rows if row.trial.phase == BASELINE), None)

    @property
    def best(self) -> TrialRow | None:
        """The last accepted trial, or the baseline."""
        accepted = [row for row in self.rows if row.trial.accepted]
        return accepted[-1] if accepted else self.baseline

    @property
    def best_candidate(self) -> Candidate | None:
        """The candidate to adopt."""
        return None if self.best is None else self.best.trial.candidate

    @property
    def spent(self) -> Spend:
        """What the results that were used cost; of a run that ended without saying what it spent,
        with what was completed since its last trial, which a resume will use."""
        spent = None if self.ending is None else self.ending.spent
        return total(row.spend for row in self.rows) + self.unrecorded if spent is None else spent

    @property
    def sealed(self) -> SealedResult | None:
        """What the sealed test said, if it was read."""
        return next(read_all(self.events, SealedResult), None)

    @property
    def files(self) -> Mapping[int, tuple[str, ...]]:
        """The files of each candidate that became the incumbent, by trial, from the folder."""
        return files_by_trial(self.events)

    def _last_of_session(self) -> Event | None:
        for event in reversed(self.events):
            if event.kind in _ENDS:
                return event
            if event.kind in SessionBegun.kinds:
                return None
        return None


def _completed_since(journal: JournalReader, trial: int) -> Spend:
    # Each effect by itself: what is nested in it has a row of its own.
    return total(next(iter(row.spends.values())) for row in journal.costs(since=trial))


def result_of(row: TrialRow | None, split: str) -> SplitResult | None:
    """A trial's result on `train` or `holdout`."""
    if row is None:
        return None
    return row.trial.train if split == "train" else row.trial.holdout


def loss_of(row: TrialRow | None, split: str) -> float | None:
    """A trial's loss on `train` or `holdout`, where it was measured."""
    result = result_of(row, split)
    return None if result is None else result.measurement.loss


def sealed_words(sealed: SealedResult) -> str:
    """The headline: what the sealed test said, and whether it says anything."""
    before, after = number(sealed.baseline_score), number(sealed.best_score)
    lost = f", {counted(sealed.missing, 'case')} missing" if sealed.missing else ""
    gain = sealed.gain
    if gain is None:
        same = sealed.baseline_score == sealed.best_score
        words = f"score {before}, baseline and best alike" if same else f"score {before} → {after}"
        return f"{words}{lost}"
    bounds = f"[{number(gain.low)}, {number(gain.high)}]"
    words = f"score {before} → {after}   gain {number(gain.mean)} {bounds}{lost}"
    if not gain.distinguishable:
        return f"{words}, not distinguishable from noise"
    return words if gain.mean > 0 else f"{words}, worse than the baseline"
