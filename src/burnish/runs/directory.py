"""A run's directory, opened for driving: locked, journal open, projections mended."""

import json
from collections.abc import Iterator
from pathlib import Path

from burnish.core.codec import codec
from burnish.core.content import canonical
from burnish.core.errors import JournalIncomplete, JournalTrouble
from burnish.core.trials import TrialRow
from burnish.effects.journal import Journal
from burnish.effects.journal_reader import JournalReader
from burnish.effects.places import POINTER
from burnish.effects.position import how_to_mend, reached
from burnish.effects.sqlite_store import NAME as JOURNAL
from burnish.effects.sqlite_store import reading
from burnish.runs.events import Event
from burnish.runs.exporting import CANDIDATES, Exported
from burnish.runs.header import Header
from burnish.runs.ledger import EVENTS, TRIALS, Ledger, event_line, last_shown
from burnish.system import (
    ChildProcesses,
    FileLock,
    Redactor,
    end_leftovers,
    link_atomic,
    remove_stale_temporaries,
    write_atomic,
)

LOCK, PROCESSES = "run.lock", "processes"


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
        kept = self.redacted(row)
        self.journal.add_trial(row.number, canonical(codec(TrialRow).encode(kept)))
        self._ledger.add_trial(kept)
        return kept

    def redacted(self, row: TrialRow) -> TrialRow:
        """The row as it may be kept."""
        data = self.redactor.json(codec(TrialRow).encode(row))
        return codec(TrialRow).decode(json.loads(canonical(data)))

    def add_event(self, event: Event) -> Event | None:
        """Keep an event; what is to be delivered, or None when it was delivered before."""
        kept = codec(Event).decode(self.redactor.json(codec(Event).encode(event)))
        new, delivered = self.journal.add_event(event.id, event_line(kept).encode())
        if new:
            self._ledger.add_event(kept)
        return None if delivered else kept

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
    trials, found = reader.trials_recorded, reader.results
    last = f"its last trial is {trials - 1}" if trials else "it has no trial"
    told = ""
    if shown.trial >= trials:
        told = f"{last}, and {TRIALS} shows trial {shown.trial}"
    elif found < results:
        told = f"it has {found} results, and {results} were on disk; {last}"
    elif shown.event and not reader.has_event(shown.event):
        told = f"{EVENTS} shows the event '{shown.event}', which it has not; {last}"
    if not told:
        return None
    name = Header.read(folder).id
    begin = f"from trial {trials - 1}" if trials else "from the start"
    return JournalIncomplete(
        f"the journal of run {name} has lost something: {told}",
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
