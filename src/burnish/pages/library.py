"""The runs that a viewer shows: found in folders, read once, and read again when they change."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from burnish.core.cases import Dataset
from burnish.core.content import short_id
from burnish.core.errors import BurnishError, RunNotFound
from burnish.core.formatting import counted, money, number, shorten
from burnish.journal.sqlite_store import JOURNAL_FILE
from burnish.pages.run_page import Adoption
from burnish.pages.run_result import (
    REFINEMENTS,
    DelegationPart,
    DelegationSource,
    NoDelegations,
    RefinementLine,
)
from burnish.reports.grid import GRID_RESULTS, GridReport, grid_home
from burnish.runs.claims import verdict_cell
from burnish.runs.directory import LOCK, NAME, RunRecord, has_foreign_database
from burnish.runs.plugins import strategy_plugin
from burnish.runs.spec import tags_of
from burnish.system import is_held

_READ = 8
"""Runs whose whole record stays in memory."""
_DEEP = 6
"""Folders below the named one in which runs are looked for."""


class Adopter(Protocol):
    """Adopts a run's best candidate for a viewer, with the checks of the command."""

    def state(self, run: RunRecord) -> Adoption:
        """What is possible now."""
        ...

    def adopt(self, run: RunRecord) -> str:
        """Change the user's files; says why not, if there is nothing to change."""
        ...

    def undo(self, run: RunRecord) -> str:
        """Put the user's files back; says why not, if there is nothing to undo."""
        ...


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """A run in the list."""

    key: str
    name: str
    project: str
    strategy: str
    status: str
    started: str
    trials: int
    accepted: int
    verdict: str
    score: str
    """From baseline to best, as the claim has it."""
    cost: str
    trouble: str = ""
    """Why it cannot be read."""
    refinements: tuple[RefinementLine, ...] = ()
    """Of a delegation."""
    tags: tuple[str, ...] = ()

    def fits(self, *, find: str, status: str, verdict: str, tag: str) -> bool:
        """Whether it is what somebody looks for."""
        below = (each.name for each in self.refinements)
        text = " ".join((self.name, self.project, self.strategy, *self.tags, *below)).lower()
        return (
            all(word in text for word in find.lower().split())
            and status in ("", self.status)
            and verdict in ("", self.verdict)
            and tag in ("", *self.tags)
        )


@dataclass(frozen=True, kw_only=True)
class ListedRuns:
    """Runs, the newest first."""

    runs: tuple[RunSummary, ...]
    older: str = ""
    """What `Library.runs` is asked for the runs after these; empty if there are none."""


def run_key(folder: Path) -> str:
    """The name of a run in addresses: two folders may have the same name."""
    return short_id(str(folder.resolve()))


def runs_below(folder: Path) -> Iterator[Path]:
    """The folders of runs in a folder, without those inside of other runs.

    A run from elsewhere with its journal in a database is left out: it may not be opened.
    """
    waiting = [(folder, 0)]
    while waiting:
        place, depth = waiting.pop()
        if (place / NAME).is_file():
            if not has_foreign_database(place):
                yield place
        elif depth < _DEEP:
            try:
                inside = sorted(each for each in place.iterdir() if each.is_dir())
            except OSError:
                continue
            waiting += [(each, depth + 1) for each in inside if not each.is_symlink()]


_Stamp = tuple[tuple[int, int], ...]


@dataclass
class Library:
    """The runs of a viewer, and what it may do with them."""

    folders: Callable[[], Sequence[Path]]
    cases: Callable[[RunRecord], Dataset | None]
    adopter: Adopter
    delegations: DelegationSource = field(default_factory=NoDelegations)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _records: "OrderedDict[str, tuple[_Stamp, RunRecord]]" = field(
        default_factory=OrderedDict[str, tuple[_Stamp, RunRecord]]
    )
    _summaries: dict[str, tuple[_Stamp, RunSummary]] = field(
        default_factory=dict[str, tuple[_Stamp, RunSummary]]
    )

    def runs(self, after: str = "") -> ListedRuns:
        """The newest runs, or older ones, after those of another list.

        A refinement is shown with the run that it refines, if that is in the list.
        """
        del after  # one list has all of them
        summaries: dict[Path, RunSummary] = {}
        grids: dict[Path, list[RunSummary]] = {}
        for folder in self.folders():
            if (home := grid_home(folder)) is not None:
                grids.setdefault(home, []).append(self._summary(folder))
            else:
                summaries[folder.resolve()] = self._summary(folder)
        for line in [line for each in summaries.values() for line in each.refinements]:
            summaries.pop(line.folder.resolve(), None)
        summaries |= {home: _grid_summary(home, columns) for home, columns in grids.items()}
        newest = sorted(summaries.values(), key=lambda each: each.started, reverse=True)
        return ListedRuns(runs=tuple(newest))

    def folder(self, key: str) -> Path:
        """The folder of a run or of a refinement below it; raises if there is none here."""
        above, _, name = key.partition(f"/{REFINEMENTS}/")
        folder = self._folder_of_run(above)
        if not name:
            return folder
        for line in self.delegations.refinements(folder):
            if line.name == name and line.has_page:
                return line.folder
        raise RunNotFound("there is no such refinement", remedy="go back to the run")

    def grid(self, key: str) -> Path | None:
        """The folder of a grid; None if the key is not that of one."""
        homes = dict.fromkeys(grid_home(folder) for folder in self.folders())
        return next((each for each in homes if each is not None and run_key(each) == key), None)

    def columns(self, grid: Path) -> list[Path]:
        """The runs of a grid."""
        return [folder for folder in self.folders() if grid_home(folder) == grid]

    def _folder_of_run(self, key: str) -> Path:
        folder = next((each for each in self.folders() if run_key(each) == key), None)
        if folder is None:
            raise RunNotFound("there is no such run here", remedy="go back to the list of runs")
        return folder

    def key_above(self, key: str, part: DelegationPart | None) -> str:
        """The key of the run that a refinement refines; empty if there is no page about it."""
        above, _, name = key.partition(f"/{REFINEMENTS}/")
        if name or part is None or not part.seed:
            return above if name else ""
        return self.key_of(part.home)

    def key_of(self, folder: Path) -> str:
        """The key of the run in a folder; empty if there is no page about it."""
        folder = folder.resolve()
        return next((run_key(each) for each in self.folders() if each.resolve() == folder), "")

    def record(self, key: str) -> RunRecord:
        """A run as its folder has it now."""
        return self._read(self.folder(key), key)

    def stamp(self, folder: Path) -> _Stamp:
        """Changes whenever the run does, or the grid."""
        names = (JOURNAL_FILE, f"{JOURNAL_FILE}-wal", LOCK, GRID_RESULTS)
        files = [folder / name for name in names]
        stats = [file.stat() if file.exists() else None for file in files]
        times = [(0, 0) if stat is None else (stat.st_mtime_ns, stat.st_size) for stat in stats]
        return (*times, (int(is_held(folder / LOCK)), 0))

    def _read(self, folder: Path, key: str) -> RunRecord:
        stamp = self.stamp(folder)
        with self._lock:
            stored = self._records.get(key)
            if stored is not None and stored[0] == stamp:
                self._records.move_to_end(key)
                return stored[1]
        record = RunRecord.read(folder, before=None if stored is None else stored[1])
        with self._lock:
            self._records[key] = (stamp, record)
            while len(self._records) > _READ:
                self._records.popitem(last=False)
        return record

    def _summary(self, folder: Path) -> RunSummary:
        key, stamp = run_key(folder), self.stamp(folder)
        stored = self._summaries.get(key)
        if stored is None or stored[0] != stamp:
            try:
                summary = _summary_of(key, self._read(folder, key))
            except BurnishError as error:
                summary = _unreadable(key, folder, str(error))
            stored = self._summaries[key] = (stamp, summary)
        # Neither a refinement nor a tag changes what was read.
        refinements = tuple(self.delegations.refinements(folder))
        tags = () if stored[1].trouble else tags_of(folder)
        return replace(stored[1], refinements=refinements, tags=tags)


def _summary_of(key: str, run: RunRecord) -> RunSummary:
    claim = run.claim
    searched = strategy_plugin(run.header.strategy).proposes
    scores = () if claim is None else (claim.baseline_score, claim.best_score)
    return RunSummary(
        key=key,
        name=run.header.id,
        project=Path(run.header.project.file).name,
        strategy=run.header.strategy,
        status=run.status,
        started=run.header.started_at,
        trials=run.trials,
        accepted=run.accepted,
        verdict=verdict_cell(claim, over=run.ending is not None) if searched else "measured",
        score=" → ".join(map(number, scores if searched else scores[:1])) or "—",
        cost=money(run.spent.usd),
    )


def _grid_summary(home: Path, columns: Sequence[RunSummary]) -> RunSummary:
    """A grid in the list: one row for all of its columns."""
    first = min(columns, key=lambda each: each.started)
    row = replace(
        first,
        key=run_key(home),
        name=home.name,
        strategy="grid",
        status=grid_status(home, [each.status for each in columns]),
        trials=0,
        verdict="measured",
    )
    try:
        report = GridReport.read(home)
    except BurnishError:
        return replace(row, score="—", cost="—")
    scores = sorted(each.score for each in report.standing if each.score is not None)
    span = " to ".join(number(score) for score in dict.fromkeys(scores[:1] + scores[-1:]))
    words = counted(len(report.columns), "column")
    return replace(row, score=f"{words}: {span}" if span else words, cost=money(report.spent.usd))


def grid_status(home: Path, columns: Sequence[str]) -> str:
    """The status of a grid, from those of its columns and from its report."""
    if is_held(home / LOCK):  # also between two columns
        return "running"
    for status in ("running", "interrupted", "killed"):
        if status in columns:
            return status
    try:
        return GridReport.read(home).status
    except BurnishError:
        return "interrupted"


def _unreadable(key: str, folder: Path, trouble: str) -> RunSummary:
    return RunSummary(
        key=key,
        name=folder.name,
        project="",
        strategy="",
        status="damaged",
        started="",
        trials=0,
        accepted=0,
        verdict="—",
        score="—",
        cost="—",
        trouble=shorten(trouble, 200),
    )
