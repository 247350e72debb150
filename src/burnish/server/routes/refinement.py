"""Refinement of finished delegations over HTTP."""

import asyncio
import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from fastapi import APIRouter, HTTPException, Request
from fastapi import Path as PathParameter
from pydantic import BaseModel, ConfigDict, JsonValue, model_validator

from burnish.core.content import Json
from burnish.core.errors import BurnishError, Interrupted, SeedRefused
from burnish.delegation.plugin import WorkflowPlugin
from burnish.delegation.refine.gradients import COMPLETION, mapping, read_json, text
from burnish.delegation.refine.loop import Refine
from burnish.delegation.refine.plugin import OpenRefinement, RefineOptions, Seat, open_refinement
from burnish.delegation.refine.sessions import SESSIONS, SessionFiles, best_so_far
from burnish.delegation.refine.setup import MIXED, RefineSettings
from burnish.delegation.target import DELEGATIONS
from burnish.journal.limits import Budget
from burnish.projects.clients import (
    NOTHING_ALLOWED,
    AllowedNames,
    ClientSettings,
    NotAllowed,
    admit,
    client_model,
)
from burnish.projects.description import Doors
from burnish.runs.directory import known_runs
from burnish.server.accounting import refinement_key, stop_at
from burnish.server.guards import CLIENT, status_of
from burnish.server.manager import RunManager
from burnish.server.runs import RunPlace
from burnish.server.security import NAME, is_plain
from burnish.server.stores.accounts import Amounts
from burnish.server.stores.records import REFINEMENTS, RunStatus
from burnish.server.tokens import Client
from burnish.server.work import EventForwarder, LoopThread, RunContext, RunOutcome

_DEEPEST = 12
_PARTS = ("", "iter_*/run/", f"{DELEGATIONS}/*/")
"""Where a run has delegations: its own folder, the iterations of a refinement, a suite."""
_log = logging.getLogger(__name__)


def _delegation(data: Path, folders: Sequence[Path], run_id: str) -> Path:
    """The finished delegation with this id, which is only compared and never part of a path.

    All of `data` is searched; of `folders`, only runs in the index of this machine.
    """
    if is_plain(run_id):
        for folder in chain(_finished_runs(data), _indexed([data, *folders])):
            if folder.name == run_id or _id_of(folder) == run_id:
                return folder
    raise HTTPException(404, "there is no finished run with this id")


def _finished_runs(data: Path) -> Iterator[Path]:
    """Every folder with a run_completion.json; inside a run only its refinements are searched."""
    depth = len(data.parts)
    for inside, folders, files in os.walk(data):
        place = Path(inside)
        folders.sort()
        if COMPLETION in files:
            folders[:] = [name for name in folders if name == SESSIONS]
            yield place
        if len(place.parts) - depth >= _DEEPEST:
            folders.clear()


def _indexed(folders: Sequence[Path]) -> Iterator[Path]:
    """Finished delegations of indexed runs: a run itself, or a part of one."""
    # Resolved, so that no link leads out of the folders.
    roots = [folder.resolve() for folder in folders]
    for run, pattern in product(known_runs(), _PARTS):
        for path in sorted(run.glob(f"{pattern}{COMPLETION}")):
            if any(path.parent.resolve().is_relative_to(root) for root in roots):
                yield path.parent


def _id_of(folder: Path) -> str:
    try:
        return text(mapping(read_json(folder / COMPLETION)).get("run_id"))
    except BurnishError:
        return ""


class _RefineRequest(ClientSettings):
    """The settings of a refinement."""

    model_config = ConfigDict(extra="ignore")  # as awp-agents does

    @model_validator(mode="before")
    @classmethod
    def _closed(cls, value: Any) -> Any:
        """Unknown keys are ignored, but not those that only the operator may set."""
        if isinstance(value, Mapping):
            closed = set(RefineSettings.model_fields) - set(cls.model_fields)
            for name in sorted(closed & {str(key) for key in cast("Mapping[str, Any]", value)}):
                raise NotAllowed(f"{name}: only the operator may set it", remedy="leave it out")
        return cast("Any", value)

    def settings(self, allowance: AllowedNames) -> RefineSettings:
        """The same as command-line settings; with any tier, the other models are ignored."""
        values = self.values
        if any(name.startswith("tier_") for name in values):
            if values.pop("model", None) or values.pop("worker_model", None):
                _log.warning(MIXED)
            values.pop("worker_model", None)
        for name, value in values.items():
            admit(self.fields[name], value, operator={}, allowance=allowance, where=name)
        return RefineSettings.model_validate(values)


if TYPE_CHECKING:
    RefineBody = _RefineRequest
else:
    RefineBody = client_model(
        "RefineBody",
        [Doors.of(WorkflowPlugin.kind, Refine.name)],
        _RefineRequest.__doc__,
        _RefineRequest,
    )


class RefinementSessions(BaseModel):
    """The sessions of a run."""

    sessions: list[dict[str, JsonValue]]
    """As in their files."""
    best: dict[str, JsonValue] | None
    """What is in the run's BEST."""


_RunId = Annotated[str, PathParameter(json_schema_extra={"pattern": NAME})]
"""Checked below: in this dialect a name that cannot be is 404, like one that is not there."""


class RefineStarted(BaseModel):
    """A session that is running."""

    session_id: str
    status: str = "running"


@dataclass(frozen=True, kw_only=True)
class Refinements:
    """Starts refinements for clients, who name only models of the `allowance`."""

    allowance: AllowedNames = NOTHING_ALLOWED
    manager: RunManager | None = None
    """With it, refinements are runs of the service, and the limits of the client apply."""
    options: RefineOptions | None = None
    run: Callable[[OpenRefinement], None] = field(default_factory=lambda: _run_in_thread)
    """Runs an opened refinement where there is no manager."""

    async def start(
        self,
        find: Callable[[], Path],
        body: RefineBody | None,
        client: Client | None,
        *,
        resume: str | None = None,
    ) -> str:
        """Start a session for the run in a folder, or resume one by its id; returns its id."""

        def opened_session() -> OpenRefinement:
            seat = _seat(find())
            settings = (body or RefineBody()).settings(self.allowance)
            return open_refinement(seat, settings, resume=resume, options=self.options)

        if self.manager is None:
            opened = await asyncio.to_thread(opened_session)
            self.run(opened)
        elif client is None:
            opened = await asyncio.to_thread(opened_session)
            await _stored(self.manager, opened)
        else:
            opened = await _limited(opened_session, self.manager, client, resume=resume)
        return opened.session.session_id


def refinement_router(
    data: Path, folders: Sequence[Path] = (), *, refinements: Refinements | None = None
) -> APIRouter:
    """The routes for delegations below `data` and for this machine's runs in `folders`.

    Clients cannot reach any other folder.
    """
    router = APIRouter(prefix="/api/experiments", tags=["refinement"])
    starter = refinements or Refinements()

    @router.post("/{run_id}/refine", status_code=202)
    async def refine(
        request: Request, run_id: _RunId, body: RefineBody | None = None
    ) -> RefineStarted:
        """Start a session; its id is that of its file."""
        client = request.scope.get(CLIENT)
        try:
            session = await starter.start(
                lambda: _delegation(data, folders, run_id),
                body,
                client if isinstance(client, Client) else None,
            )
        except BurnishError as error:
            if status_of(error)[0] == 503:
                raise
            raise HTTPException(_status(error), str(error)) from error
        return RefineStarted(session_id=session)

    @router.get("/{run_id}/refinement_sessions")
    def refinement_sessions(run_id: _RunId) -> RefinementSessions:
        """Every session of a run, and what is in its BEST."""
        folder = _delegation(data, folders, run_id)
        best = best_so_far(folder)
        sessions = list(SessionFiles(folder=folder / SESSIONS).rows())
        return RefinementSessions.model_validate(
            {"sessions": sessions, "best": None if best is None else dict(best)}
        )

    return router


def _status(error: BurnishError) -> int:
    """The status of a refusal; whatever else is wrong is a matter of the run's state."""
    status, _ = status_of(error)
    return status if status in (403, 413, 429) else 409


async def _limited(
    open_session: Callable[[], OpenRefinement],
    manager: RunManager,
    client: Client,
    *,
    resume: str | None,
) -> OpenRefinement:
    """A stored session that stops at what is left of the client's limits."""
    accounting = manager.accounting
    key = refinement_key() if resume is None else (REFINEMENTS, resume)
    granted = await accounting.reserve(client, key, Budget(), again=resume is not None)
    try:
        opened = await asyncio.to_thread(open_session)
        if resume is None:
            own = (REFINEMENTS, opened.session.session_id)
            await accounting.rename(key, own)
            key = own
        await _stored(manager, opened, account=client.account, granted=granted)
    except BaseException:  # cancelled or failed, the reservation is given back
        if resume is None:
            await accounting.drop(key)
        else:
            await accounting.settle_finished(client.account)
        raise
    return opened


async def _stored(
    manager: RunManager,
    opened: OpenRefinement,
    *,
    account: str = "",
    granted: Amounts | None = None,
) -> None:
    """Store a session as a run of the service, and drive it."""
    session = opened.session
    work, place = _RefinementWork(opened), RunPlace(folder=opened.folder)
    if granted is not None:
        work.limit(granted)
    request: Json = {
        "seed_run_id": session.seed_run_id,
        "settings": {**session.settings, **session.resumed_with},
    }
    try:
        await manager.drive_refinement(
            session.session_id, work, place, request=request, account=account
        )
    except BaseException:
        await work.drop()
        raise


@dataclass
class _RefinementWork:
    """An opened session, ready to be driven."""

    opened: OpenRefinement
    spec: Mapping[str, Json] = field(default_factory=dict[str, Json], init=False)
    request: Json = field(default=None, init=False)
    budget: Budget = field(default_factory=Budget, init=False)
    thread: LoopThread | None = field(default=None, init=False)

    @property
    def strategy(self) -> str:
        return self.opened.strategy.name

    def check_new(self) -> None:
        """A refinement makes no rounds."""

    def limit(self, granted: Amounts) -> None:
        self._stop_also(stop_at(self.opened.folder, granted))

    def _stop_also(self, stop: Callable[[], str]) -> None:
        before = self.opened.strategy.stop
        self.opened.strategy.stop = lambda: before() or stop()

    async def drive(self, context: RunContext) -> RunOutcome:
        asked: list[str] = []
        self._stop_also(lambda: "".join(asked[:1]))
        context.stop.when_asked(asked.append)
        listener = EventForwarder(context.tell)
        try:
            session = await self.opened.run([listener, context.live])
            error = session.error
        except Interrupted as interrupted:
            # Only who opened it drives it, so it is over for the service.
            session = self.opened.session
            error = f"{interrupted.message}; `burnish refine --resume` continues it"
        return RunOutcome(
            status=RunStatus.FAILED if error else RunStatus.SUCCEEDED,
            result=session.to_json(),
            error=error,
            best_score=listener.best_score,
        )

    def so_far(self) -> Json:
        return self.opened.session.to_json()

    async def drop(self) -> None:
        self.opened.strategy.lock.release()


def _run_in_thread(opened: OpenRefinement) -> None:
    def run() -> None:
        with contextlib.suppress(BurnishError):  # its session says what went wrong
            asyncio.run(opened.run())

    threading.Thread(target=run, name=opened.session.session_id, daemon=True).start()


def _seat(folder: Path) -> Seat:
    seat = Seat.beside(folder)
    status = text(mapping(read_json(folder / COMPLETION)).get("status"))
    if status not in ("complete", "partial", "completed"):
        message = f"run '{seat.seed.run_id}' is {status or 'not finished'}: nothing to refine"
        raise SeedRefused(message, remedy="refine a run that has delivered something")
    return seat
