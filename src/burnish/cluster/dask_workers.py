"""Dask as the transport: what runs inside a Dask worker, and how a run reaches it.

Messages go through the scheduler, which passes them on unread; a worker keeps its side of a run as
a plug-in of Dask, in a thread of its own, so that an agent that computes does not keep Dask from
answering.
"""

import asyncio
import importlib.metadata
import logging
import platform
import shutil
import signal
import threading
import time
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import dask.config
from distributed import Client, LocalCluster, WorkerPlugin

from burnish.cluster.station import LinkMessage, Opener, Order, Sealed, Station, portable, seal
from burnish.core.errors import BurnishError, WorkerTrouble
from burnish.journal.executors import CallCutter, CutShort
from burnish.version import VERSION

_POLL_SECONDS = 15.0
"""How long a worker holds a question for messages open."""
_LEASE_SECONDS = 60.0
"""A worker that nobody asked for so long ends the work: the run is gone."""
_CLOSE_SECONDS = 30.0
"""How long the work on a worker may take to end."""
_LOCAL = {
    "distributed.comm.timeouts.connect": "300s",
    "distributed.scheduler.reuse-broadcast-comm": True,
}
"""Of a cluster on this machine: a busy one takes long to start processes, and a connection that is
used again makes a message three times as fast."""


# -- In the worker ---------------------------------------------------------------------------------


class _RunPlugin(WorkerPlugin):
    """One run on a Dask worker: its station, in a thread with a loop of its own."""

    def __init__(self, order: Order, folder: Path) -> None:
        self.name = _plugin_name(order.run)
        self._folder = folder
        self._closed = False
        self._outbox: list[LinkMessage] = []
        self._mail = asyncio.Event()
        self._home = asyncio.get_running_loop()
        self._inner = asyncio.new_event_loop()
        self._cutter = CallCutter(self._inner)
        self._station = Station(order, self._put, folder=folder)
        self._thread = threading.Thread(target=self._serve, name="burnish station", daemon=True)
        self._thread.start()
        self._polled = time.monotonic()
        self._lease: asyncio.Task[None] | None = None

    def _serve(self) -> None:
        asyncio.set_event_loop(self._inner)
        self._cutter.start()
        while not self._closed:
            with suppress(CutShort):  # it came when the call had just ended
                self._inner.run_forever()
        self._cutter.close()
        self._inner.close()

    def _inside(self, work: Coroutine[Any, Any, None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(work, self._inner)

    async def open(self, release: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Build the target; `release` ends the plug-in when the run is gone."""

        async def build() -> None:
            self._station.build()

        await asyncio.wrap_future(self._inside(build()))
        self._lease = asyncio.create_task(self._expire(release))

    async def _expire(self, release: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        while (left := self._polled + _LEASE_SECONDS - time.monotonic()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        await release()

    def _put(self, message: LinkMessage) -> None:
        """Called in the thread of the station."""
        self._home.call_soon_threadsafe(self._keep, message)

    def _keep(self, message: LinkMessage) -> None:
        self._outbox.append(message)
        self._mail.set()

    def receive(self, messages: list[LinkMessage]) -> None:
        def hand_over() -> None:
            for message in messages:
                self._station.link.receive(message)

        self._inner.call_soon_threadsafe(hand_over)

    async def messages(self) -> list[LinkMessage]:
        """What the station has sent; waits a while for something."""
        self._polled = time.monotonic()
        if not self._outbox:
            self._mail.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._mail.wait(), _POLL_SECONDS)
        self._polled = time.monotonic()
        messages, self._outbox = self._outbox, []
        return messages

    async def teardown(self, worker: Any) -> None:
        """End the run on this worker; called by Dask, also when the worker closes."""
        del worker
        if self._lease is not None and self._lease is not asyncio.current_task():
            self._lease.cancel()
        self._mail.set()  # whoever still asks for messages gets none
        self._cutter.ending = True
        closing = asyncio.wrap_future(self._inside(self._station.close()))
        try:
            # A call that blocks the loop in C cannot be cut; its thread is left behind.
            await asyncio.wait_for(asyncio.shield(closing), _CLOSE_SECONDS)
        except TimeoutError:
            closing.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        finally:
            self._closed = True
            self._inner.call_soon_threadsafe(self._inner.stop)
            shutil.rmtree(self._folder, ignore_errors=True)


def _plugin_name(run: str) -> str:
    return f"burnish-{run}"


class _Keyring(WorkerPlugin):
    """Holds the private key of a run between two calls."""

    def __init__(self, run: str) -> None:
        self.name = f"{_plugin_name(run)}-keyring"
        self.opener = Opener()


async def _public_key(run: str, dask_worker: Any) -> bytes:
    keyring = _Keyring(run)
    await dask_worker.plugin_add(plugin=keyring, name=keyring.name)
    return keyring.opener.public_key


async def _unsealed(order: Order, sealed: Sealed, dask_worker: Any) -> Order:
    name = f"{_plugin_name(order.run)}-keyring"
    opener = dask_worker.plugins[name].opener
    await dask_worker.plugin_remove(name=name)
    return replace(order, keys=opener.open(sealed))


async def _open(
    order: Order,
    sealed: Sealed | None,
    started_here: bool,  # noqa: FBT001
    dask_worker: Any,
) -> Exception | None:
    """Runs in a Dask worker. Errors are returned: Dask would log the arguments of a call."""
    if started_here and threading.current_thread() is threading.main_thread():
        # Ctrl-C reaches every process of a terminal, but only the run decides what it means.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    name = _plugin_name(order.run)
    await _close(order.run, dask_worker)  # it may have lost sight of the run for a while
    if sealed is not None:
        order = await _unsealed(order, sealed, dask_worker)
    folder = Path(dask_worker.local_directory) / name
    plugin = _RunPlugin(order, folder)

    async def release() -> None:
        await dask_worker.plugin_remove(name=name)

    try:
        folder.mkdir(parents=True)
        await plugin.open(release)
    except Exception as error:  # noqa: BLE001 - raised again in the run
        await plugin.teardown(dask_worker)
        return portable(error)
    await dask_worker.plugin_add(plugin=plugin, name=name)
    return None


async def _post(run: str, messages: list[LinkMessage], dask_worker: Any) -> None:
    plugin = dask_worker.plugins.get(_plugin_name(run))
    if plugin is not None:
        plugin.receive(messages)


async def _poll(run: str, dask_worker: Any) -> list[LinkMessage] | None:
    plugin = dask_worker.plugins.get(_plugin_name(run))
    return None if plugin is None else await plugin.messages()


async def _close(run: str, dask_worker: Any) -> None:
    if _plugin_name(run) in dask_worker.plugins:
        await dask_worker.plugin_remove(name=_plugin_name(run))


# -- In the run ------------------------------------------------------------------------------------


class DaskTransport:
    """Reaches the workers of a Dask cluster; without an address, of one on this machine."""

    def __init__(self, run: str, *, address: str = "", workers: int = 1) -> None:
        self._run = run
        self._address = address
        self._workers = workers
        self._open_things = AsyncExitStack()
        self._connected: Any = None

    async def start(self) -> None:
        cluster: Any = self._address
        if not cluster:
            self._open_things.enter_context(dask.config.set(_LOCAL))
            cluster = _local(self._workers)
            # First, so that processes end that were started when this is cancelled.
            self._open_things.push_async_callback(cluster.close)
            await cluster
        await self._connect(cluster)

    async def _connect(self, cluster: Any) -> None:
        client = cast("Any", Client)(cluster, asynchronous=True, set_as_default=False)
        self._connected = await self._open_things.enter_async_context(client)

    async def addresses(self) -> Collection[str]:
        try:
            if self._connected.status == "closed":  # the scheduler was away for too long
                await self._connect(self._address)
            return list(await self._connected.nthreads())
        except OSError:
            return ()  # it may be restarting; its workers are out of reach

    async def open(self, address: str, order: Order) -> None:
        await self._compare_versions(address)
        sealed = None
        if order.keys:
            # Dask may log whole messages, so a key never travels in plain text.
            sealed = seal(order.keys, await self._on(address, _public_key, order.run))
        bare = replace(order, keys={})
        error = await self._on(address, _open, bare, sealed, not self._address)
        if isinstance(error, BurnishError):
            about = f"the worker {address} cannot take part: {error.message}"
            raise WorkerTrouble(about, remedy=error.remedy)
        if error is not None:
            raise WorkerTrouble(f"the worker {address} cannot take part: {error}")

    async def _compare_versions(self, address: str) -> None:
        """Compare with functions of Python itself: the worker may not have burnish at all."""
        python = await self._on(address, platform.python_version)
        try:
            burnish = await self._on(address, importlib.metadata.version, "burnish")
        except importlib.metadata.PackageNotFoundError:
            burnish = "none"
        own = platform.python_version()
        if python.split(".")[:2] != own.split(".")[:2]:
            raise _other_version(address, "Python", python, own)
        if burnish != VERSION:
            raise _other_version(address, "burnish", burnish, VERSION)

    async def post(self, address: str, messages: list[LinkMessage]) -> None:
        await self._on(address, _post, self._run, messages)

    async def poll(self, address: str) -> list[LinkMessage]:
        messages = await self._on(address, _poll, self._run)
        if messages is None:
            raise OSError("the worker has forgotten the run")
        return messages

    async def _on(self, address: str, function: Callable[..., Any], *args: Any) -> Any:
        results = await self._connected.run(function, *args, workers=[address])
        return results[address]

    async def close(self, addresses: Collection[str]) -> None:
        async with self._open_things:
            closing = (self._on(address, _close, self._run) for address in addresses)
            await asyncio.gather(*closing, return_exceptions=True)


def _local(workers: int) -> Any:
    return cast("Any", LocalCluster)(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        worker_dashboard_address=None,
        asynchronous=True,
        silence_logs=logging.CRITICAL,  # what matters about a lost worker is said by the run
    )


def _other_version(address: str, what: str, theirs: str, ours: str) -> WorkerTrouble:
    message = f"the worker {address} has {what} {theirs}, but this run has {ours}"
    remedy = f"install {what} {ours} on the workers: results must not depend on where a case runs"
    return WorkerTrouble(message, remedy=remedy)
