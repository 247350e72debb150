"""The runs of a service as its pages see them: those of its store, and news of one that goes on."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from burnish.core.content import codec
from burnish.core.errors import BurnishError, RunNotFound
from burnish.core.formatting import number, shorten
from burnish.delegation.runs import StoredDelegations
from burnish.pages.delegations import REFINEMENTS, is_refinement
from burnish.pages.document import Place, render
from burnish.pages.library import Library, ListedRuns, RunSummary
from burnish.pages.run_page import Adoption
from burnish.pages.run_status import LivePanel, rest_after
from burnish.projects.evaluation_setup import stored_cases
from burnish.runs.directory import LOCK, RunRecord
from burnish.runs.events import Tick
from burnish.server.manager import RunManager
from burnish.server.runs import FileMissing
from burnish.server.security import is_plain, public
from burnish.server.stores.records import RunStatus, StoredRun
from burnish.system import is_held

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


_LOOK_SECONDS = 1.0
"""How often a page is told how far the current evaluation has come."""
_ELSEWHERE_SECONDS = 2.0
"""The same for a run that another process drives, which reports itself to the store."""
_THREADS = 4
"""Pages that are made at the same time."""
_NOTHING = b": nothing yet\n\n"
_ENDED = b"event: ended\ndata: 1\n\n"


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A panel, and what it was made of."""

    panel: LivePanel
    version: int
    """Grows with what the run has told."""
    until: float
    """No newer one is made before this time."""


@dataclass
class LiveRuns:
    """The runs that go on, for all who look at them."""

    manager: RunManager
    library: ServiceLibrary
    page_seconds: dict[str, float] = field(default_factory=dict[str, float])
    """The time of a processor that it took to make the page of a run, by its key."""
    _threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_THREADS, "burnish-pages"), init=False
    )
    _snapshots: dict[str, _Snapshot] = field(default_factory=dict[str, _Snapshot], init=False)

    async def in_thread(self, make: Callable[[], T]) -> T:
        """Make a page in a thread of its own pool: it waits for the store, and runs must not."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, make)

    def panel(self, key: str, stored: StoredRun) -> LivePanel | None:
        """What a run does now; None if it has not begun or is over. Called in a worker thread."""
        snapshot = self._snapshot(key, stored)
        return None if snapshot is None else snapshot.panel

    def _snapshot(self, key: str, stored: StoredRun) -> _Snapshot | None:
        """The panel, made once for everybody: the longer that takes, the less often."""
        if stored.status.finished or not self.library.begun(stored):
            self._snapshots.pop(key, None)
            return None
        before = self._snapshots.get(key)
        if before is not None and time.monotonic() < before.until:
            return before
        run, began = (stored.app_name, stored.run_id), time.thread_time()
        version, state = self._version(run), self.manager.launcher.live(run)
        reported = None if state is not None else self.library.reported(stored)
        panel = LivePanel.read(
            self.library.folder(key), state, status=stored.status.value, reported=reported
        )
        until = time.monotonic() + rest_after(time.thread_time() - began)
        self._snapshots[key] = _Snapshot(panel=panel, version=version, until=until)
        return self._snapshots[key]

    def _version(self, run: tuple[str, str]) -> int:
        state = self.manager.launcher.live(run)
        # What another process reports is read at times.
        return int(time.monotonic() // _ELSEWHERE_SECONDS) if state is None else state.changes

    async def news(
        self, record: StoredRun, begin: int, place: Place
    ) -> AsyncGenerator[bytes, None]:
        """Server-sent events for the page of a run, after the event with a number.

        `panel` has the panel as HTML, `changed` asks the page to load itself again, and after
        `ended` nothing comes.
        """
        key, run = f"{record.app_name}/{record.run_id}", (record.app_name, record.run_id)
        frames = self.manager.tails.listen(*run, after=begin, newest=record.events)
        async with aclosing(_Follower(frames)) as follower:
            version, shown, due = -1, b"", self._next_page(key)
            while not follower.over:
                heard = await follower.next(_LOOK_SECONDS)
                now = time.monotonic()
                if heard or self._version(run) != version:
                    version, fresh = await self._panel_event(key, place)
                    if fresh != shown:
                        yield fresh
                    shown = fresh
                if follower.changed and (now >= due or follower.over):
                    due = self._next_page(key)
                    yield follower.change()
                for frame in heard:
                    yield frame

    async def refinement_news(self, key: str, place: Place) -> AsyncGenerator[bytes, None]:
        """The same events for the page of a refinement, which writes its own files only."""
        before = await self.in_thread(lambda: self._refinement_stamp(key))
        due = self._next_page(key)
        while before is not None:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await self.in_thread(lambda: self._refinement_stamp(key))
            if now is None or now == before or time.monotonic() < due:
                yield _NOTHING
            else:
                due = self._next_page(key)
                panel = await self.in_thread(lambda: self.refinement_panel(key))
                yield _panel_frame(panel, place)
                yield b"event: changed\ndata: 1\n\n"
                before = now
            before = None if now is None else before
        yield _ENDED

    def _next_page(self, key: str) -> float:
        """When a page that was just made may be made again."""
        return time.monotonic() + rest_after(self.page_seconds.get(key, 0.0))

    def refinement_panel(self, key: str) -> LivePanel:
        """What a refinement does now. Called in a worker thread."""
        return LivePanel.read(self.library.folder(key), None, status=RunStatus.RUNNING.value)

    def _refinement_stamp(self, key: str) -> object | None:
        """Changes with the files of a refinement; None once nobody drives it."""
        folder = self.library.folder(key)
        return self.library.stamp(folder) if is_held(folder / LOCK) else None

    async def _panel_event(self, key: str, place: Place) -> tuple[int, bytes]:
        """The panel as an event, and of which version it is."""

        def make() -> tuple[int, bytes]:
            snapshot = self._snapshot(key, self.library.stored(key))
            if snapshot is None:
                return -1, _NOTHING
            return snapshot.version, _panel_frame(snapshot.panel, place)

        with suppress(BurnishError):  # it is deleted, or a store in trouble is asked again
            return await self.in_thread(make)
        return -1, _NOTHING


def _panel_frame(panel: LivePanel, place: Place) -> bytes:
    html = render("panel.html.j2", {"panel": panel}, place=place)
    lines = "".join(f"data: {line}\n" for line in html.splitlines())
    return f"event: panel\n{lines}\n".encode()


class _Follower:
    """Turns the events of a run into those that a page needs, several at a time."""

    def __init__(self, frames: AsyncGenerator[bytes, None]) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._task = asyncio.create_task(self._pump(frames))
        self.over = False
        self.changed = b""
        """The number of the last event that the page has not been told of."""

    async def next(self, seconds: float) -> list[bytes]:
        """What is to be told by now; waits so many seconds at most, if there is nothing."""
        heard: list[bytes] = []
        with suppress(TimeoutError):
            heard.append(await asyncio.wait_for(self._queue.get(), seconds))
        while not self._queue.empty():
            heard.append(self._queue.get_nowait())
        events = [each for each in heard if each.startswith(b"id: ")]
        if events:
            self.changed = events[-1].partition(b"\n")[0]
        self.over = b"" in heard
        if any(each.startswith(b"event: end") for each in heard):
            return [_ENDED]
        return [b": still here\n\n"] if heard else []

    def change(self) -> bytes:
        """The event that tells a page to load itself again; told once."""
        number, self.changed = self.changed, b""
        return number + b"\nevent: changed\ndata: 1\n\n"

    async def _pump(self, frames: AsyncGenerator[bytes, None]) -> None:
        try:
            async with aclosing(frames):
                async for frame in frames:
                    self._queue.put_nowait(frame)
        finally:
            self._queue.put_nowait(b"")

    async def aclose(self) -> None:
        """Hear no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
