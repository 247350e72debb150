"""What the pages of a service are made from: its runs, requests for pages, and answers.

The runs are those of its store, and news of one that goes on.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, ConfigError, RunNotFound
from burnish.core.formatting import number, shorten
from burnish.delegation.runs import StoredDelegations
from burnish.pages.document import Place, render
from burnish.pages.library import Library, ListedRuns, RunSummary
from burnish.pages.run_page import Adoption
from burnish.pages.run_result import REFINEMENTS, is_refinement
from burnish.pages.run_status import LivePanel, rest_after
from burnish.pages.served import Query, first
from burnish.projects.clients import NotAllowed
from burnish.projects.evaluation_setup import stored_cases
from burnish.runs.directory import LOCK, RunRecord
from burnish.runs.events import Tick
from burnish.server.guards import VISITOR, Visitor, error_body
from burnish.server.manager import RunManager
from burnish.server.runs import FileMissing
from burnish.server.security import NameRefused, is_plain, public
from burnish.server.shapes import JobRequest
from burnish.server.stores.records import RunStatus, StoredRun
from burnish.system import is_held

# -- Runs ------------------------------------------------------------------------------------------


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


# -- Requests and answers --------------------------------------------------------------------------


LIMITS = {
    "max_trials": "trials at most",
    "max_usd": "US dollars at most",
    "max_minutes": "minutes at most",
    "max_calls": "calls at most",
}
"""The limits that forms may set, with what they count."""
_WHOLE = ("max_trials", "max_calls")
_NAMES = "use letters, digits, '.', '-' and '_'"


def visitor_of(request: Request) -> Visitor | None:
    """Who asks; None for a stranger."""
    visitor = request.scope.get(VISITOR)
    return visitor if isinstance(visitor, Visitor) else None


def known_visitor(request: Request) -> Visitor:
    """Who has logged in: the guard sends everybody else away."""
    visitor = visitor_of(request)
    assert visitor is not None
    return visitor


def root_of(request: Request) -> str:
    """The address of the list of runs, wherever the service is mounted."""
    return f"{str(request.scope.get('root_path', '')).rstrip('/')}/"


def place_of(request: Request) -> Place:
    """Where a page is shown, and to whom."""
    visitor = visitor_of(request)
    if visitor is None:
        return Place(alone=False, root=root_of(request))
    client = visitor.client
    return Place(
        alone=False,
        root=root_of(request),
        token=visitor.session.form_token,
        account=f"{client.account} ({client.scope.value})" if visitor.key else "",
        may_change=client.scope.may_change,
    )


def parts_of(request: Request) -> list[str]:
    """The parts of an address; an app and the name of its run are one."""
    # As it was sent: the name of a case may have a slash in it.
    sent = bytes(request.scope["raw_path"]).decode("latin-1").partition("?")[0]
    parts = [unquote(part) for part in sent.removeprefix(root_of(request)).split("/")]
    if parts[0] == "runs" and len(parts) > 2:
        parts = ["runs", f"{parts[1]}/{parts[2]}", *parts[3:]]
    return parts


def named_run(request: Request) -> tuple[str, str]:
    """The app and the name of the run in an address."""
    app, run_id = request.path_params["app"], request.path_params["run_id"]
    return checked_name(app), checked_name(run_id)


def checked_name(name: str) -> str:
    """A name that is safe as a part of a path; NameRefused for any other."""
    if not is_plain(name):
        raise NameRefused("this cannot name a run", remedy=_NAMES)
    return name


# -- Forms -----------------------------------------------------------------------------------------


def query_of(request: Request) -> Query:
    """What an address has after its question mark."""
    return _fields(request.scope.get("query_string", b""))


async def form_of(request: Request) -> Query:
    """What a form has."""
    return _fields(await request.body())


async def own_form(request: Request) -> Query:
    """The same, if it was filled in on a page of the visitor's session; NotAllowed if not."""
    form = await form_of(request)
    if not known_visitor(request).session.has_sent(first(form, "token")):
        remedy = "go back, load the page again, and try once more"
        raise NotAllowed("this form is not from a page of your session", remedy=remedy)
    return form


def _fields(content: bytes) -> Query:
    try:
        return parse_qs(content.decode(errors="replace"), max_num_fields=40)
    except ValueError:
        return {}


def limits_in(form: Query) -> dict[str, float]:
    """The limits that a form sets."""
    limits: dict[str, float] = {}
    for name, words in LIMITS.items():
        read = whole_number if name in _WHOLE else _any_number
        if (number := read(first(form, name), words)) is not None:
            limits[name] = number
    return limits


def whole_number(text: str, words: str) -> int | None:
    """A whole number in a form; None if the field is empty. `words` name the field."""
    try:
        return int(text) if text.strip() else None
    except ValueError:
        raise _no_number(text, words, "write a whole number") from None


def _any_number(text: str, words: str) -> float | None:
    try:
        return float(text) if text.strip() else None
    except ValueError:
        raise _no_number(text, words, "write a number") from None


def _no_number(text: str, words: str, remedy: str) -> ConfigError:
    return ConfigError.of(words, f"'{text.strip()[:40]}' is no number", remedy)


def job_of(kind: str, limits: Mapping[str, float]) -> Json:
    """The request that a form makes."""
    evaluates = kind == "evaluate"
    request: dict[str, Any] = {"kind": "evaluate" if evaluates else "optimize"}
    settings = "evaluation" if evaluates else "settings"
    return JobRequest.read({**request, settings: dict(limits)}).to_json()


# -- Answers ---------------------------------------------------------------------------------------


def led_to(request: Request, path: str, **query: str) -> Response:
    """Lead on to another page of ours, and never elsewhere."""
    ours = all(is_plain(part) for part in path.split("/"))
    more = f"?{urlencode(query)}" if query else ""
    address = root_of(request) + (path if ours else "") + more
    return RedirectResponse(address, HTTPStatus.SEE_OTHER)


def rendered(
    request: Request, template: str, context: Mapping[str, object], status: int = HTTPStatus.OK
) -> Response:
    """A page made of a template."""
    return HTMLResponse(render(template, context, place=place_of(request)), status)


def trouble_page(request: Request, status: int, words: str) -> Response:
    """A page about an error."""
    context = {"title": HTTPStatus(status).phrase, "words": words}
    return rendered(request, "trouble.html.j2", context, status)


def words_of(error: BurnishError) -> str:
    """What a visitor may read about an error."""
    body: Any = error_body(error)["error"]
    problems = [
        f"{each['where']}: {each['message']}. {each['remedy']}" for each in body["problems"]
    ]
    if problems:  # each begins with the name of a file, a field or a flag
        return f"{' '.join(problems).strip().rstrip('.')}."
    text = f"{body['message']}. {body['remedy']}".strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."
