"""A run's folder, with its header and record, and the index of all runs."""

import gc
import json
import os
import platform
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, cast

from burnish.core.content import Json, canonical, codec, from_json, short_id
from burnish.core.errors import (
    FileTrouble,
    JournalIncomplete,
    JournalTrouble,
    ResumeRefused,
    RunNotFound,
    in_shell,
)
from burnish.core.money import NOTHING, Spend, total
from burnish.core.surfaces import Candidate
from burnish.core.trials import SplitResult, TrialRow
from burnish.journal.journal import Journal, JournalReader
from burnish.journal.sqlite_store import BLOBS, POINTER, how_to_mend, reached, reading
from burnish.journal.sqlite_store import JOURNAL_FILE as JOURNAL
from burnish.runs.claims import claim_of_rows
from burnish.runs.events import (
    BASELINE,
    CANDIDATES,
    Claim,
    Event,
    Exported,
    RunEnded,
    SealedResult,
    SearchEnded,
    SecondOpinion,
    SessionBegun,
    Withheld,
    files_by_trial,
    read_all,
)
from burnish.runs.ledger import EVENTS, TRIALS, Ledger, event_line, last_shown, rows_to_show
from burnish.system import (
    ChildProcesses,
    FileLock,
    Redactor,
    end_leftovers,
    is_held,
    link_atomic,
    place_inside,
    read_bytes,
    remove_stale_temporaries,
    update_inside,
    write_atomic,
    write_inside,
)
from burnish.system.redaction import Shapes

NAME = "run.json"
AFTER_SEARCH = 2**31 - 1
"""In place of a trial, for effects of a winner that is measured again."""
_SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class Project:
    """Where a run comes from, so that it can be set up again."""

    kind: str = "python"
    """The project kind, or `python` for a run started from a program."""
    file: str = ""
    config: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """State at the start that is needed afterwards: original files and their hashes."""
    spec: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The description of the run without secrets and with `${VAR}` as written, from which a
    resume builds it. Empty if a program started the run."""


COLUMNS = "columns"
"""What `Project.config` has the columns of the cases under, if they have names of their own."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a run was started with, as run.json stores it."""

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
    """Hashes of everything that decisions depend on. A resume must find them unchanged."""
    cases: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of cases in each split."""
    forked_from: str = ""
    call_limit: float | None = None
    """Seconds for one call of a Python function if no time limit is set."""
    confirm: bool = False
    """Whether the winner is measured again at the end."""
    sealed_test: str = "unread"
    """`spent` if the run that this one was forked from had read it."""
    redact: Shapes = "known-keys"
    """What is removed from the files of the run."""
    audit: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Fields that are written for readers, at the top of run.json; they are not read again."""

    def write(self, folder: Path) -> None:
        """Write run.json."""
        data = codec(Header).encode(replace(self, audit={}))
        assert isinstance(data, dict)
        del data["audit"]
        data |= {"run_id": self.id, **self.audit} if self.audit else {}
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        write_inside(folder, NAME, text)

    @classmethod
    def read(cls, folder: Path) -> "Header":
        """Read run.json."""
        try:
            data = from_json(read_bytes(folder / NAME))
            schema = data.get("schema") if isinstance(data, dict) else _SCHEMA
            if isinstance(schema, int) and schema != _SCHEMA:
                raise JournalTrouble(
                    f"{folder / NAME} was written by another version of burnish",
                    remedy="read it with that version, or start a new run",
                )
            header = codec(Header).decode(data)
        except ValueError as error:
            raise JournalTrouble(
                f"{folder / NAME} is damaged, or not the header of a run",
                remedy="restore it from a backup, or start a new run",
            ) from error
        return header

    def redacted(self, redactor: Redactor) -> "Header":
        """The header without secrets.

        A resume builds the run from its description, which has `${VAR}` as written. So a word
        that is also the value of a variable stays there.
        """
        data = codec(Header).encode(self)
        assert isinstance(data, dict)
        clean = redactor.json({**data, "project": None})
        assert isinstance(clean, dict)
        project = Redactor.from_environment().json(data["project"])
        return codec(Header).decode({**clean, "project": project})

    def require_same(self, inputs: Mapping[str, str]) -> None:
        """Refuse a resume when anything that decisions depend on has changed."""
        names = sorted(set(self.inputs) | set(inputs))
        changed = [name for name in names if self.inputs.get(name) != inputs.get(name)]
        if changed:
            raise ResumeRefused(
                f"run {self.id} was started with another {', '.join(changed)}",
                remedy="restore it to resume, or start from the existing results with "
                f"--fork {in_shell(self.id)}: a new run that does not pay again for what "
                "is unchanged",
            )


LOCK, PROCESSES = "run.lock", "processes"


class RunDirectory:
    """The folder of one run while one process drives it."""

    def __init__(self, folder: Path, *, redactor: Redactor) -> None:
        self.folder = folder
        self.header = Header.read(folder)
        self.redactor = replace(redactor, shapes=self.header.redact)
        self.children = ChildProcesses(folder=folder / PROCESSES)
        self._ledger = Ledger(folder)
        self._lock = FileLock.acquire(folder / LOCK, holding=f"run {self.header.id}")
        try:
            self.journal = self._open_journal()
        except BaseException:  # whatever it was, the lock is released
            self._lock.release()
            raise

    def _open_journal(self) -> Journal:
        # Before anything is opened for writing, which would damage what is left of a journal.
        look_into(self.folder, whole=True).close()
        # Clean up after a process that drove this run and was killed.
        end_leftovers(place_inside(self.folder, PROCESSES))
        for name in ("", CANDIDATES, BLOBS):
            remove_stale_temporaries(place_inside(self.folder, name))
        journal = Journal(self.folder)
        try:
            with look_into(self.folder) as reader:
                self._ledger.rebuild(trial_rows(reader), events(reader))
        except BaseException:  # whatever it was, the journal is closed
            journal.close()
            raise
        return journal

    def trial(self, number: int) -> TrialRow | None:
        """A recorded trial."""
        body = self.journal.trial(number)
        with reading(self.journal.path):
            return None if body is None else codec(TrialRow).decode(json.loads(body))

    def add_trial(self, row: TrialRow) -> TrialRow:
        """Record a trial, on disk when this returns; returns the row without secrets."""
        body = self._spelled(row)
        self.journal.add_trial(row.number, body)
        stored = codec(TrialRow).decode(json.loads(body))
        self._ledger.add_trial(stored)
        return stored

    def redacted(self, row: TrialRow) -> TrialRow:
        """The row without secrets."""
        return codec(TrialRow).decode(json.loads(self._spelled(row)))

    def _spelled(self, row: TrialRow) -> bytes:
        data = codec(TrialRow).encode(row)
        spelled = canonical(data)
        is_clean = self.redactor.is_clean(spelled.decode())
        return spelled if is_clean else canonical(self.redactor.json(data))

    def add_event(self, event: Event) -> Event | None:
        """Store an event; returns it without secrets, or None if it was delivered before."""
        data = codec(Event).encode(event)
        is_clean = self.redactor.is_clean(canonical(data).decode())
        stored = codec(Event).decode(data if is_clean else self.redactor.json(data))
        new, delivered = self.journal.add_event(event.id, event_line(stored).encode())
        if new:
            self._ledger.add_event(stored)
        return None if delivered else stored

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        with look_into(self.folder) as reader:
            return tuple(events(reader))

    def delivered(self, event: Event) -> None:
        """Mark an event as delivered to every listener."""
        self.journal.event_delivered(event.id)

    def export(self, exported: Exported) -> None:
        """Write a candidate's files and the links to it, where they have changed."""
        for relative, file in sorted(exported.files.items()):
            update_inside(self.folder, relative, self._without_secrets(file))
        for relative, leads_to in exported.links.items():
            link = place_inside(self.folder, PurePath(relative).parent) / PurePath(relative).name
            if not link.is_symlink() or str(link.readlink()) != leads_to:
                link_atomic(link, leads_to)

    def _without_secrets(self, content: bytes) -> bytes:
        """The file without known secrets; what only looks like one may be an example."""
        try:
            return self.redactor.without_known(content.decode()).encode()
        except UnicodeDecodeError:
            return content

    def close(self) -> None:
        """Close the journal and release the lock."""
        self.journal.close()
        self._lock.release()


def look_into(folder: Path, *, whole: bool = False) -> JournalReader:
    """Open a run's journal for reading; `whole` refuses one that has lost something."""
    journal, trials = folder / JOURNAL, folder / TRIALS
    gone = not journal.exists() or journal.stat().st_size == 0
    gone = gone and not (folder / POINTER).exists()
    if gone and trials.exists() and trials.stat().st_size:
        raise JournalTrouble(
            f"the journal of this run is gone: {journal}",
            remedy="restore it from a backup, or start a new run; trials.jsonl still shows "
            "what was tried",
        )
    reader = JournalReader(folder)
    try:
        lost = what_is_lost(folder, reader) if whole else None
    except BaseException:  # whatever it was, the reader is closed
        reader.close()
        raise
    if lost is not None:
        reader.close()
        raise lost
    return reader


def what_is_lost(folder: Path, reader: JournalReader) -> JournalIncomplete | None:
    """What the journal has lost, as an error; None if it is whole.

    The files are written after the journal and read before it, since the run may be active.
    """
    shown, results = last_shown(folder), reached(folder)
    trials, recorded = reader.totals.trials, reader.totals.results
    last = f"its last trial is {trials - 1}" if trials else "it has no trial"
    loss = ""
    if shown.trial >= trials:
        loss = f"{last}, and {TRIALS} shows trial {shown.trial}"
    elif recorded < results:
        loss = f"it has {recorded} results, and {results} were on disk; {last}"
    elif shown.event and not reader.has_event(shown.event):
        loss = f"{EVENTS} shows the event '{shown.event}', which it does not have; {last}"
    if not loss:
        return None
    name = Header.read(folder).id
    begin = f"from trial {trials - 1}" if trials else "from the start"
    return JournalIncomplete(
        f"the journal of run {name} has lost something: {loss}",
        remedy=f"{how_to_mend(reader.path)}, and try again; or continue {begin} with "
        f"--fork {in_shell(name)}: a new run that pays again for what is lost, and for "
        "nothing else",
    )


def trial_rows(reader: JournalReader) -> Iterator[TrialRow]:
    """The recorded trials of a journal."""
    with reading(reader.path):
        for body in reader.trials():
            yield codec(TrialRow).decode(json.loads(body))


@contextmanager
def _without_collection() -> Generator[None, None, None]:
    """Look for no garbage meanwhile: a long run makes millions of objects, and all of them stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def events(reader: JournalReader, *, before: Sequence[Event] = ()) -> Iterator[Event]:
    """The events of a journal; those that were read before are not decoded again."""
    with reading(reader.path):
        for place, body in enumerate(reader.events()):
            is_known = place < len(before)
            yield before[place] if is_known else codec(Event).decode(json.loads(body))


def index_folder(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the index: in $BURNISH_HOME, or the user's state folder."""
    env = os.environ if environ is None else environ
    if home := env.get("BURNISH_HOME"):
        return Path(home) / "runs"
    state = env.get("XDG_STATE_HOME") or str(Path("~/.local/state").expanduser())
    return Path(state) / "burnish" / "runs"


def remember_run(folder: Path) -> None:
    """Add a run to the index. A run works without it, so errors are ignored."""
    with suppress(FileTrouble, OSError):
        index_folder().mkdir(parents=True, exist_ok=True)
        entry = json.dumps({"id": folder.name, "folder": str(folder.resolve())})
        write_atomic(_entry(folder), entry, durable=False)


def forget_run(folder: Path) -> None:
    """Remove a run from the index."""
    with suppress(OSError):
        _entry(folder).unlink()


def _entry(folder: Path) -> Path:
    """The index file of a run; two runs in different places may have the same name."""
    return index_folder() / f"{folder.name}.{short_id(str(folder.resolve()))}.json"


def known_runs() -> Iterator[Path]:
    """The folders of all runs that still exist, newest first."""
    for entry in sorted(index_folder().glob("*.json"), reverse=True):
        with suppress(OSError, ValueError, KeyError, TypeError):
            folder = Path(cast("Any", from_json(entry.read_text(encoding="utf-8")))["folder"])
            if (folder / NAME).is_file():
                yield folder


def _id_in(folder: Path) -> str:
    try:
        return Header.read(folder).id
    except (FileTrouble, JournalTrouble):
        return ""


def has_foreign_database(folder: Path) -> bool:
    """Whether a run from elsewhere names a database as its journal, which must not be opened.

    The address may have any variable of this machine in it, and drivers send passwords of theirs.
    """
    return os.path.lexists(folder / POINTER) and not _entry(folder).is_file()


def _require_own_database(folder: Path) -> None:
    if has_foreign_database(folder):
        raise JournalTrouble(
            f"run {folder.name} is not from this machine, and its {POINTER} names a database, "
            "which could be sent passwords and variables from here",
            remedy="look at it on the machine or the service that started it",
        )


def find_run(name: str) -> Path:
    """The folder of a run, by path, id, or the beginning of an id."""
    if (Path(name) / NAME).is_file():
        folder = Path(name).resolve()
        _require_own_database(folder)
        return folder
    names = {folder: folder.name for folder in known_runs()} if name else {}
    if not any(each.startswith(name) for each in names.values()):
        names = {folder: _id_in(folder) for folder in names}  # its folder was renamed
    folders = [folder for folder, each in names.items() if each.startswith(name)]
    exact = [folder for folder in folders if names[folder] == name]
    if len(exact or folders) == 1:
        return (exact or folders)[0]
    if exact:
        many = ", ".join(str(folder) for folder in exact[:5])
        raise RunNotFound(f"'{name}' is the id of several runs: {many}", remedy="name its folder")
    if folders:
        many = ", ".join(folder.name for folder in folders[:5])
        raise RunNotFound(f"'{name}' could be any of: {many}", remedy="type more of the id")
    raise RunNotFound(
        f"there is no run '{name}'",
        remedy="`burnish runs list` shows the runs of this machine; a path to a run's folder "
        "works too",
    )


_ENDS = {f"run_{status}": status for status in ("finished", "interrupted", "failed")}


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """Everything that is known about a run."""

    folder: Path
    header: Header
    rows: tuple[TrialRow, ...]
    events: tuple[Event, ...]
    unrecorded: Spend = NOTHING
    """What was completed since the last recorded trial."""
    effects: int = 0
    """The number of completed effects."""
    billed: Spend
    active_seconds: float
    driven: bool
    """Whether a process is driving it now."""

    @classmethod
    def read(cls, folder: Path, *, before: "RunRecord | None" = None) -> "RunRecord":
        """Read a run's folder; `before` is what it had earlier: trials and events never change."""
        header = Header.read(folder)
        with look_into(folder, whole=True) as journal, _without_collection():
            totals = journal.totals
            same = before if before is not None and before.header == header else None
            rows = () if same is None else same.rows[: totals.trials]
            return cls(
                folder=folder,
                header=header,
                # Without a trial that was recorded since: its costs are in the totals.
                rows=(*rows, *rows_to_show(journal, since=len(rows)))[: totals.trials],
                unrecorded=totals.unrecorded,
                events=tuple(events(journal, before=() if same is None else same.events)),
                effects=totals.results,
                billed=totals.billed,
                active_seconds=journal.active_seconds,
                driven=is_held(folder / LOCK),
            )

    @property
    def status(self) -> str:
        """`running`, `finished`, `interrupted`, `failed`, or `killed`: the last can be resumed."""
        if self.driven:
            return "running"
        return "killed" if self._last_event is None else _ENDS[self._last_event.kind]

    @property
    def ending(self) -> RunEnded | None:
        return None if self._last_event is None else self._last_event.read(RunEnded)

    @property
    def ended_at(self) -> str:
        return "" if self._last_event is None else self._last_event.at

    @property
    def search_end(self) -> str:
        """Why the strategy had nothing left to try, if it says so."""
        ends = [*read_all(self.events, SearchEnded)]
        return ends[-1].reason if ends else ""

    @property
    def trials(self) -> int:
        """The number of recorded trials without the baseline."""
        return sum(row.trial.phase != BASELINE for row in self.rows)

    @cached_property
    def accepted(self) -> int:
        return sum(row.trial.accepted for row in self.rows)

    @cached_property
    def baseline(self) -> TrialRow | None:
        """The trial that measured the start."""
        return next((row for row in self.rows if row.trial.phase == BASELINE), None)

    @cached_property
    def best(self) -> TrialRow | None:
        """The last accepted trial, or what is offered in its place; else the baseline."""
        accepted = [row for row in self.rows if row.trial.accepted]
        last = accepted[-1] if accepted else self.baseline
        for withheld in read_all(self.events, Withheld):
            if last is not None and withheld.trial == last.number:
                return next(row for row in self.rows if row.number == withheld.offered)
        return last

    @property
    def best_candidate(self) -> Candidate | None:
        return None if self.best is None else self.best.trial.candidate

    @cached_property
    def spent(self) -> Spend:
        """What the used results cost; for a run that did not end properly, including what was
        completed since its last trial, which a resume will use."""
        spent = None if self.ending is None else self.ending.spent
        return total(row.spend for row in self.rows) + self.unrecorded if spent is None else spent

    @property
    def sealed(self) -> SealedResult | None:
        return next(read_all(self.events, SealedResult), None)

    @cached_property
    def claim(self) -> Claim | None:
        """What may be said of the best; None if nothing was measured."""
        reason = "" if self.best is self.baseline else "it was not measured again"
        if self.header.cases.get("test"):
            reason = "the sealed test was not read"
        return claim_of_rows(
            self.baseline,
            self.best,
            claims=[*read_all(self.events, Claim)],
            sealed=self.sealed,
            reason=reason,
        )

    @property
    def second_opinion(self) -> SecondOpinion | None:
        """Of the last winner."""
        *_, last = (None, *read_all(self.events, SecondOpinion))
        return last

    @property
    def files(self) -> Mapping[int, tuple[str, ...]]:
        """By trial, the files of each candidate that became the incumbent."""
        return files_by_trial(self.events)

    @cached_property
    def _last_event(self) -> Event | None:
        """The event that ended the last session, if it ended."""
        kinds = (*_ENDS, *SessionBegun.kinds)
        last = next((event for event in reversed(self.events) if event.kind in kinds), None)
        return None if self.driven or last is None or last.kind not in _ENDS else last


def result_of(row: TrialRow | None, split: str) -> SplitResult | None:
    """A trial's result on `train` or `holdout`."""
    if row is None:
        return None
    return row.trial.train if split == "train" else row.trial.holdout


def loss_of(row: TrialRow | None, split: str) -> float | None:
    """A trial's loss on `train` or `holdout`, if it was measured."""
    result = result_of(row, split)
    return None if result is None else result.measurement.loss


def whole_loss(run: RunRecord, row: TrialRow | None, split: str) -> float | None:
    """A trial's loss on all cases of a split; None if it was measured on a few of them only."""
    result = result_of(row, split)
    if result is None or result.measurement.cases < run.header.cases.get(split, 0):
        return None
    return result.measurement.loss
