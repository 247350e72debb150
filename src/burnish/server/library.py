"""The runs of a service as pages see them: those of its store, under app and name."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from burnish.core.content import codec
from burnish.core.errors import BurnishError, RunNotFound
from burnish.core.formatting import number, shorten
from burnish.delegation.pages import StoredDelegations
from burnish.pages.delegations import REFINEMENTS, is_refinement
from burnish.pages.library import Library, ListedRuns, RunSummary
from burnish.pages.run_page import Adoption
from burnish.projects.stored_cases import stored_cases
from burnish.runs.directory import RunRecord
from burnish.runs.events import Tick
from burnish.server.host_paths import public
from burnish.server.manager import RunManager
from burnish.server.runs import FileMissing
from burnish.server.security import is_plain
from burnish.server.stores.records import StoredRun

T = TypeVar("T")
_LISTED = 500
"""Runs in one list."""
_AT_ONCE = 200
"""Runs that the store is asked for at once."""


class _NoAdopter:
    """Nothing can be adopted here: the files are the operator's."""

    def state(self, run: RunRecord) -> Adoption:
        del run
        return Adoption()

    def adopt(self, run: RunRecord) -> str:
        raise FileMissing(f"the result of {run.header.id} cannot be adopted here")

    undo = adopt


class ServiceLibrary(Library):
    """Reads runs from the store of a service. Its methods are called in worker threads."""

    def __init__(
        self, manager: RunManager, loop: asyncio.AbstractEventLoop, *, listed: int = _LISTED
    ) -> None:
        super().__init__(
            folders=tuple,
            cases=stored_cases,
            adopter=_NoAdopter(),
            delegations=StoredDelegations(),
        )
        self._manager = manager
        self.loop = loop
        self._listed = listed
        self._versions: dict[Path, tuple[int, int]] = {}

    def runs(self, after: str = "") -> ListedRuns:
        stored, older = self._ask(self._stored_after(after))
        listed = [each for each in stored if not self._is_shown_below(each)]
        return ListedRuns(runs=tuple(map(self._of_stored, listed)), older=older)

    def _is_shown_below(self, stored: StoredRun) -> bool:
        """Whether it is a refinement that the list shows with the run that it refines."""
        if stored.app_name != REFINEMENTS or not stored.where.folder:
            return False
        seed = Path(stored.where.folder).parent.parent
        app, run_id = seed.parent.name, seed.name
        if not (is_plain(app) and is_plain(run_id)):
            return False
        if self._manager.places.of_new(app, run_id).folder != seed:
            return False
        lines = self.delegations.refinements(seed)
        if not any(line.name == stored.run_id and line.has_page for line in lines):
            return False
        with suppress(RunNotFound):
            self.stored(f"{app}/{run_id}")
            return True
        return False

    def _folder_of_run(self, key: str) -> Path:
        return self._folder_of(self.stored(key))

    def record(self, key: str) -> RunRecord:
        if is_refinement(key):
            return super().record(key)
        stored = self.stored(key)
        record = self._read(self._folder_of(stored), key)
        # Whoever drives it, on this machine or on another one.
        return replace(record, driven=not stored.status.finished)

    def stamp(self, folder: Path) -> tuple[tuple[int, int], ...]:
        # A journal in a database has no file that changes.
        return (*super().stamp(folder), self._versions.get(folder, (0, 0)))

    def stored(self, key: str, *, result: bool = False) -> StoredRun:
        """What the store has of a run."""
        app, _, run_id = key.partition(f"/{REFINEMENTS}/")[0].partition("/")
        if not (is_plain(app) and is_plain(run_id)):
            raise RunNotFound("there is no such run here", remedy="go back to the list of runs")
        return self._ask(self._manager.get(app, run_id, result=result))

    def owner(self, stored: StoredRun) -> str | None:
        """The account that a run belongs to; None if it belongs to nobody."""
        key = (stored.app_name, stored.run_id)
        charge = self._ask(self._manager.store.accounts.charge(key))
        return None if charge is None else charge.account

    def reported(self, stored: StoredRun) -> Tick | None:
        """How far the current evaluation of a run is, as the process that drives it last said."""
        progress = self._ask(self._manager.store.progress(stored.app_name, stored.run_id))
        tick = progress.get("tick") if isinstance(progress, dict) else None
        with suppress(BurnishError, ValueError, TypeError, KeyError):  # another version wrote it
            return None if tick is None else codec(Tick).decode(tick)
        return None

    def begun(self, stored: StoredRun) -> bool:
        """Whether there is anything to read of a run; NotHere if it is on another machine."""
        return self._manager.places.of(stored).fetch()

    def _folder_of(self, stored: StoredRun) -> Path:
        place = self._manager.places.of(stored)
        if not place.fetch():
            raise FileMissing("this run has not begun", remedy="look again when it is running")
        changed = int(stored.updated_at.timestamp() * 1_000_000)
        self._versions[place.folder] = (stored.events, changed)
        return place.folder

    def _of_stored(self, stored: StoredRun) -> RunSummary:
        key = f"{stored.app_name}/{stored.run_id}"
        try:
            summary = self._summary(self._folder_of(stored))
        except FileMissing:
            summary = _bare(stored)
        except BurnishError as error:
            summary = replace(_bare(stored), trouble=shorten(public(error.message), 200))
        return replace(
            summary,
            key=key,
            name=stored.run_id,
            project=stored.app_name,
            status=stored.status.value,
            started=stored.created_at.isoformat(),
        )

    async def _stored_after(self, cursor: str) -> tuple[list[StoredRun], str]:
        """Runs after a cursor of the store, and the cursor of what follows them."""
        runs: list[StoredRun] = []
        while len(runs) < self._listed:
            many = min(_AT_ONCE, self._listed - len(runs))
            page = await self._manager.list_runs(limit=many, cursor=cursor)
            runs += page.runs
            cursor = page.cursor
            if not cursor:
                break
        return runs, cursor

    def _ask(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()


def _bare(stored: StoredRun) -> RunSummary:
    """A run of which only the store is known."""
    return RunSummary(
        key="",
        name=stored.run_id,
        project=stored.app_name,
        strategy=stored.strategy,
        status=stored.status.value,
        started="",
        trials=stored.current_round,
        accepted=0,
        verdict="—",
        score=number(stored.best_score),
        cost="—",
    )
