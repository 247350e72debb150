"""The side of a run: the executors `processes` and `dask`, each a pool of workers for its cases.

The run stays the only one that writes its journal, and holds the limits of endpoints for all
workers together.
"""

import asyncio
import io
import itertools
import os
import secrets
import zipfile
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, TypeAlias, cast

from pydantic import JsonValue

from burnish.cluster.station import Link, LinkMessage, Order, PaidCall
from burnish.core.cases import Case, Failure, FailureKind, Outcome
from burnish.core.content import Codec, Json, codec
from burnish.core.errors import ConfigError, MissingExtra, WorkerLost, WorkerTrouble, WorkerUnready
from burnish.core.money import Spend
from burnish.core.protocols import Call, Metric, Receipt, Scope, WorkUnit
from burnish.journal.limits import Limits
from burnish.journal.once import NeverBegun
from burnish.journal.outages import tell_of_outage
from burnish.runs.case_work import ONE_RUN, CaseWork, Scores
from burnish.runs.evaluation import WorkerPool
from burnish.runs.plugins import ExecutorPlugin
from burnish.runs.spec import WORKER_FIELDS, ExecutionSpec
from burnish.system.extras import install_command

_ENOUGH_LOSSES = 3
"""A case that so many workers did not survive is not given to another one."""
_LOOK_AGAIN = 2.0
"""Seconds between two looks at which workers are there."""
_PATIENCE = 120.0
"""Seconds without any worker before the run gives up."""
_Name: TypeAlias = tuple[str, str, int]
"""Of a unit of work, by which its losses are counted."""
_JSON: Codec[Json] = codec(cast("type[Json]", JsonValue))


class Transport(Protocol):
    """How messages reach the workers of a cluster."""

    async def start(self) -> None:
        """Connect."""
        ...

    async def addresses(self) -> Collection[str]:
        """The workers that are there now; none while the scheduler does not answer."""
        ...

    async def open(self, address: str, order: Order) -> None:
        """Let a worker take part in the run; raises WorkerTrouble if it cannot."""
        ...

    async def post(self, address: str, messages: list[LinkMessage]) -> None:
        """Deliver messages to a worker; OSError if it is gone."""
        ...

    async def poll(self, address: str) -> list[LinkMessage]:
        """Wait a while for messages of a worker; OSError if it is gone."""
        ...

    async def close(self, addresses: Collection[str]) -> None:
        """End the run on these workers, and disconnect."""
        ...


class RemotePool:
    """The workers of one run. They are looked for when the first case needs one."""

    def __init__(self, transport: Transport, order: Order, *, limits: Limits) -> None:
        self._transport = transport
        self._order = order
        self._limits = limits
        self._members: dict[str, _Member] = {}
        self._ran_by: dict[str, _Member] = {}
        """By content of the case, the worker that ran it last."""
        self._losses: Counter[_Name] = Counter()
        self._trouble: WorkerTrouble | None = None
        self._news = asyncio.Condition()
        self._watch: asyncio.Task[None] | None = None

    def work(self, metrics: Sequence[Metric], *, call_limit: float | None) -> CaseWork:
        """Work with these metrics of the run."""
        return _RemoteWork(self, metrics, call_limit)

    @asynccontextmanager
    async def to_run(self, unit: WorkUnit, name: _Name) -> AsyncGenerator["_Member", None]:
        """The worker that runs the fewest cases now, for one more."""
        member = min(await self._there(), key=lambda each: (each.runs, each.grades))
        self._ran_by[unit.case.content_id] = member
        member.runs += 1
        try:
            with self._counting_losses(name):
                yield member
        finally:
            member.runs -= 1

    @asynccontextmanager
    async def to_grade(self, case: Case, name: _Name) -> AsyncGenerator["_Member", None]:
        """The worker that ran the case last: one that is slow holds up its own cases only."""
        members = await self._there()
        member = self._ran_by.get(case.content_id)
        if member is None or member not in members:
            member = min(members, key=lambda each: (each.grades, each.runs))
        member.grades += 1
        try:
            with self._counting_losses(name):
                yield member
        finally:
            member.grades -= 1

    @contextmanager
    def _counting_losses(self, name: _Name) -> Generator[None, None, None]:
        try:
            yield
        except WorkerLost:
            self._losses[name] += 1
            raise

    def losses(self, name: _Name) -> int:
        """How many workers were lost during this unit of work; too many end it."""
        return self._losses[name]

    async def _there(self) -> "Collection[_Member]":
        """The workers, as soon as there is one."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._look())
        try:
            async with self._news:
                await self._news.wait_for(lambda: bool(self._members or self._trouble))
        except asyncio.CancelledError:
            raise NeverBegun from None
        if self._trouble is not None:
            raise WorkerUnready(self._trouble.message, remedy=self._trouble.remedy)
        return self._members.values()

    async def _look(self) -> None:
        """Take in workers as they come, and notice those that are gone."""
        loop = asyncio.get_running_loop()
        try:
            await self._transport.start()
            last_seen = loop.time()
            while True:
                there = set(await self._transport.addresses())
                for address in self._members.keys() - there:
                    await self._lose(address)
                fresh = there - self._members.keys()
                await asyncio.gather(*(self._take_in(address) for address in sorted(fresh)))
                if self._members:
                    last_seen = loop.time()
                elif loop.time() - last_seen > _PATIENCE:
                    break
                await asyncio.sleep(_LOOK_AGAIN if self._members else 0.1)
            message = f"no worker was there for {_PATIENCE:g} s"
            remedy = "start workers, then resume the run; nothing was lost"
            await self._give_up(WorkerTrouble(message, remedy=remedy))
        except WorkerTrouble as trouble:
            await self._give_up(trouble)
        except Exception as error:  # noqa: BLE001 - otherwise everybody would wait forever
            message = f"the cluster cannot be reached: {error or type(error).__name__}"
            remedy = "check the address of its scheduler, then resume the run"
            await self._give_up(WorkerTrouble(message, remedy=remedy))

    async def _take_in(self, address: str) -> None:
        try:
            await self._transport.open(address, self._order)
        except OSError:
            return  # it left as it came
        member = _Member(address, self._transport, self._limits, lost=self._lose)
        async with self._news:
            self._members[address] = member
            self._news.notify_all()

    async def _lose(self, address: str) -> None:
        member = self._members.pop(address, None)
        if member is not None:
            message = f"the worker {address} ended in the middle of its work"
            await member.close(WorkerLost(message, remedy="resume the run"))

    async def _give_up(self, trouble: WorkerTrouble) -> None:
        async with self._news:
            self._trouble = trouble
            self._news.notify_all()
        for member in list(self._members.values()):
            await member.close(trouble)

    async def close(self) -> None:
        """End the work of all workers and disconnect."""
        if self._watch is None:
            return
        self._watch.cancel()
        await asyncio.gather(self._watch, return_exceptions=True)
        addresses = list(self._members)
        for member in self._members.values():
            await member.close(WorkerTrouble("the run has ended"))
        self._members.clear()
        self._watch = None
        await self._transport.close(addresses)


class _Member:
    """One worker of the pool, and what it asks of the run."""

    def __init__(
        self,
        address: str,
        transport: Transport,
        limits: Limits,
        *,
        lost: Callable[[str], Awaitable[None]],
    ) -> None:
        self.runs = 0
        """Cases that it runs now."""
        self.grades = 0
        """Outcomes that it scores now."""
        self._address = address
        self._transport = transport
        self._limits = limits
        self._lost = lost
        self._scopes: dict[int, Scope] = {}
        self._places: dict[int, AsyncExitStack] = {}
        self._numbers = itertools.count()
        self._outbox: list[LinkMessage] = []
        self._mail = asyncio.Event()
        self._link = Link(
            self._put,
            {
                "once": self._once,
                "take_place": self._take_place,
                "leave_place": self._leave_place,
                "outage": tell_of_outage,
            },
        )
        self._tasks = [asyncio.create_task(self._carry(each)) for each in (self._send, self._fetch)]

    async def do(self, method: str, effects: Scope, *args: Any) -> Receipt[Json]:
        """Let the worker do something, with these effects."""
        with_scope = next(self._numbers)
        self._scopes[with_scope] = effects
        try:
            return await self._link.call(method, with_scope, *args)
        finally:
            del self._scopes[with_scope]

    async def close(self, error: WorkerTrouble) -> None:
        """End what it does; whoever waits for it gets the error."""
        await self._link.break_off(error)
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for place in self._places.values():
            await place.aclose()
        self._places.clear()

    def _put(self, message: LinkMessage) -> None:
        self._outbox.append(message)
        self._mail.set()

    async def _carry(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            while not self._link.broken:
                await work()
        except Exception:  # noqa: BLE001 - whatever went wrong, nothing more will come from it
            await self._lost(self._address)

    async def _send(self) -> None:
        """Send what has gathered; one letter at a time keeps the order."""
        await self._mail.wait()
        self._mail.clear()
        messages, self._outbox = self._outbox, []
        await self._transport.post(self._address, messages)

    async def _fetch(self) -> None:
        for message in await self._transport.poll(self._address):
            self._link.receive(message)

    async def _once(
        self, scope: int, offer: int, paid: PaidCall
    ) -> tuple[Json, Mapping[str, Spend]]:
        """Do a call of the worker once: look it up, or note it and let the worker perform it."""
        effects = self._scopes[scope]

        async def perform(nested: Scope) -> Receipt[Json]:
            inner = next(self._numbers)
            self._scopes[inner] = nested
            try:
                return await self._link.call("perform", offer, inner)
            finally:
                del self._scopes[inner]

        call = Call(
            kind=paid.kind,
            request=paid.request,
            codec=_JSON,
            draw=paid.draw,
            estimate=paid.estimate,
            computed=paid.computed,
            retried_as_a_whole=paid.retried_as_a_whole,
        )
        while True:
            try:
                value = await effects.once(call, perform)
                return value, dict(effects.used)
            except WorkerLost:
                # Another worker had the same call in flight; this one can make it instead.
                if self._link.broken:
                    raise

    async def _take_place(self, number: int, endpoint: str) -> None:
        place = AsyncExitStack()
        await place.enter_async_context(self._limits.place(endpoint))
        self._places[number] = place

    async def _leave_place(self, number: int) -> None:
        place = self._places.pop(number, None)
        if place is not None:
            await place.aclose()


class _RemoteWork:
    """The work on cases, done by the workers of a pool."""

    def __init__(
        self, pool: RemotePool, metrics: Sequence[Metric], call_limit: float | None
    ) -> None:
        self._pool = pool
        self._metrics = [(metric.name, metric.fingerprint) for metric in metrics]
        self._call_limit = call_limit

    async def run(self, unit: WorkUnit, effects: Scope) -> Receipt[Outcome]:
        """Run a case on a worker."""
        name = unit.candidate.id, unit.case.content_id, unit.draw
        if self._pool.losses(name) >= _ENOUGH_LOSSES:
            message = f"{_ENOUGH_LOSSES} workers ended while they ran this case"
            failure = Failure(
                kind=FailureKind.INFRASTRUCTURE,
                message=message,
                error="WorkerLost",
                attempts=_ENOUGH_LOSSES,
            )
            return Receipt(value=Outcome(failure=failure), spend=ONE_RUN, missing=True)
        async with self._pool.to_run(unit, name) as member:
            receipt = await member.do("run", effects, unit, self._call_limit)
        return replace(receipt, value=codec(Outcome).decode(receipt.value))  # pyright: ignore[reportReturnType, reportArgumentType]

    async def grade(self, case: Case, outcome: Outcome, effects: Scope) -> Receipt[Scores]:
        """Score an outcome on a worker."""
        name = "score", case.content_id, 0
        if self._pool.losses(name) >= _ENOUGH_LOSSES:
            raise WorkerTrouble(
                f"{_ENOUGH_LOSSES} workers ended while they scored '{case.id}'",
                remedy="score it in this process: resume with --executor local",
            )
        async with self._pool.to_grade(case, name) as member:
            spelled = codec(Outcome).encode(outcome)
            receipt = await member.do("grade", effects, case, spelled, self._metrics)
        return replace(receipt, value=codec(Scores).decode(receipt.value))  # pyright: ignore[reportReturnType, reportArgumentType]


_MOST_BYTES = 100_000_000
"""Of an uploaded folder: every worker gets it through the scheduler."""
_LEFT_OUT = {"__pycache__", "node_modules", "results", "venv"}


class ClusterExecutor(ExecutorPlugin):
    """Workers of a Dask cluster, running elsewhere or started on this machine."""

    def pool(
        self,
        execution: ExecutionSpec,
        spec: Mapping[str, JsonValue],
        *,
        target: str,
        limits: Limits,
    ) -> WorkerPool:
        """The workers at the address, or started here; nothing is connected yet."""
        if find_spec("distributed") is None:
            message = f"the executor '{execution.executor}' needs Dask, which is not installed"
            raise MissingExtra(message, remedy=install_command("cluster"))
        from burnish.cluster.dask_workers import DaskTransport  # takes a second to load

        order = _order(execution, spec, target)
        transport = DaskTransport(
            order.run,
            address=execution.address or "",
            workers=execution.workers or os.cpu_count() or 1,
        )
        return RemotePool(transport, order, limits=limits)


def _order(execution: ExecutionSpec, spec: Mapping[str, JsonValue], target: str) -> Order:
    own = cast("Mapping[str, JsonValue]", spec.get("execution") or {})
    stripped = {name: value for name, value in own.items() if name not in WORKER_FIELDS}
    absent = [name for name in execution.send_keys if not os.environ.get(name)]
    if absent:
        message = f"not set here: {', '.join(absent)}"
        raise ConfigError.of(
            "execution.send_keys", message, "set it, or let workers have their own"
        )
    source = cast("Mapping[str, str]", spec["source"])
    root = "" if execution.upload is None else Path(source["folder"], execution.upload).resolve()
    return Order(
        run=secrets.token_hex(8),
        spec={**spec, "execution": cast("JsonValue", stripped)},
        target=target,
        root=str(root),
        archive=_archived(root) if isinstance(root, Path) else b"",
        keys={name: os.environ[name] for name in execution.send_keys},
    )


def _archived(folder: Path) -> bytes:
    """The files of a folder as a zip archive, without hidden files and results."""
    if not folder.is_dir():
        raise ConfigError.of("execution.upload", f"{folder} is no folder")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in _files(folder):
            archive.write(path, path.relative_to(folder))
            if packed.tell() > _MOST_BYTES:
                message = f"{folder} has more than {_MOST_BYTES / 1e6:g} MB"
                remedy = "upload a smaller folder, or let workers share a file system"
                raise ConfigError.of("execution.upload", message, remedy)
    return packed.getvalue()


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name in _LEFT_OUT or path.is_symlink():
            continue
        if path.is_dir():
            yield from _files(path)
        elif path.is_file():
            yield path
