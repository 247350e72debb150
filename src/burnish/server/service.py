"""Serving: slow connections cut, and from the operator's options to a listening service."""

import asyncio
import json
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Literal, cast, get_args

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from burnish.compat.promptiter import Slimming
from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.journal.database_store import DatabaseJournals
from burnish.models.references import is_loopback
from burnish.projects.clients import NOTHING_ALLOWED, AllowedNames
from burnish.server.application import BASE_PATH, create_app
from burnish.server.apps import FileApp
from burnish.server.launcher import ConnectionLimits, ServiceLimits
from burnish.server.manager import RunManager
from burnish.server.routes.promptiter import SubPaths
from burnish.server.runs import Datasets, RunPlaces
from burnish.server.security import LOOPBACK, Security
from burnish.server.stores import journals_in, open_store, print_schema
from burnish.server.stores.accounts import MEGABYTE
from burnish.server.tokens import FILE as TOKENS
from burnish.server.tokens import ClientLimits, ServiceRole, ServiceRules, TokenBook
from burnish.system import read_text
from burnish.system.databases import PREFIX, DatabaseUrl

_FILES = 65_536
_SPARE = 256
"""Files that this process needs for other things than connections."""


def server_config(app: Any, limits: ConnectionLimits, **more: Any) -> uvicorn.Config:
    """The settings of uvicorn for an application at the edge."""
    return uvicorn.Config(
        app,
        http=partial(EdgeProtocol, limits=limits),  # pyright: ignore[reportArgumentType]
        ws="none",
        lifespan="on",
        # Below errors are lines that any client can cause.
        log_level="error",
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=limits.head_bytes,
        timeout_keep_alive=limits.idle_seconds,  # pyright: ignore[reportArgumentType]
        **more,
    )


def _room_for(connections: int) -> int:
    """Raise the limit of open files, and return how many connections fit under it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(16, min(connections, soft - _SPARE))


_LENGTHS = {b"content-length", b"transfer-encoding"}
"""Headers of which a request has one; of both the second counts (RFC 9112, section 6.1)."""
_CLOSE = (b"connection", b"close")


class EdgeProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **more: Any) -> None:
        super().__init__(*args, **more)
        self._limits = limits
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections:
            self._refuse(503, "too_many_connections", "too many connections are open")
            return
        self._start("head", self._limits.head_seconds, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch_head()

    def handle_events(self) -> None:
        super().handle_events()
        if self.cycle is None:  # pyright: ignore[reportUnnecessaryComparison]
            return
        if _LENGTHS.issubset(name for name, _ in self.cycle.scope["headers"]):
            # A proxy in front may have read the other length: what follows could be anybody's.
            self.cycle.default_headers = [*self.server_state.default_headers, _CLOSE]

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY:
            self._start("linger", self._limits.linger_seconds, self.transport.abort)
        self._watch_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("write", self._limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop("write")
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; 431 if its head is too large."""
        del msg
        error = sys.exception()
        too_large = isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431
        if too_large:
            self._refuse(431, "head_too_large", "the headers of the request are too large")
        else:
            self._refuse(400, "bad_request", "this is not an HTTP request")

    def _watch_head(self) -> None:
        """The clock of a head runs from its first byte until it is complete."""
        if self.conn.their_state is not h11.IDLE:
            self._stop("head")
            return
        self._stop("linger")
        if self.conn.trailing_data[0]:
            self._start("head", self._limits.head_seconds, self._late)

    def _late(self) -> None:
        self._refuse(408, "request_timeout", "the request did not arrive in time")

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answer without the application, and close; in the middle of an answer only close."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        if self.scope is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self.cycle.disconnected = True  # the application sends nothing more
            self.cycle.message_event.set()
        error: dict[str, Json] = {"code": code, "message": message, "remedy": "", "problems": []}
        body = json.dumps({"error": error}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start(self, name: str, seconds: float, action: Any) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self._fire, name, action)

    def _fire(self, name: str, action: Any) -> None:
        self._timers.pop(name, None)
        if not self.transport.is_closing():
            action()

    def _stop(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()


# -- The service -----------------------------------------------------------------------------------


_PORT = 8080
Journals = Literal["auto", "files", "database"]


@dataclass(frozen=True, kw_only=True)
class Serving:
    """The operator's settings."""

    apps: Mapping[str, Path]
    data: Path
    host: str = "127.0.0.1"
    port: int | None = None
    """By default 8080; a worker without one does not listen."""
    role: ServiceRole = ServiceRole.BOTH
    open_metrics: bool = False
    """Whether the metrics need no token."""
    db: str = ""
    """The database of runs; by default a SQLite file in the data folder."""
    journals: Journals = "auto"
    """`auto`: in the database if that is PostgreSQL or MariaDB, otherwise in files."""
    base_path: str = BASE_PATH
    sub_paths: SubPaths = field(default_factory=SubPaths)
    slimming: Slimming | None = None
    """What PromptIter's routes leave out of results."""
    tokens: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """More names under which the service is reachable."""
    allowance: AllowedNames = NOTHING_ALLOWED
    """The models and functions that requests may name."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    client_limits: ClientLimits = field(default_factory=ClientLimits)
    """The limits of each token that has none of its own."""
    table_prefix: str = PREFIX
    create_schema: bool = True

    @property
    def listens(self) -> bool:
        return self.role.answers or self.port is not None

    @property
    def listening_port(self) -> int:
        return _PORT if self.port is None else self.port

    @property
    def address(self) -> str:
        return self.db or f"sqlite:///{(self.data / 'runs.db').absolute()}"

    def rules(self) -> ServiceRules:
        """What clients may do here."""
        local = is_loopback(self.host)
        book = TokenBook(self.tokens, self.data / TOKENS, self.client_limits)
        return ServiceRules(
            address=f"{self.host}:{self.listening_port}" if self.listens else "",
            tokens="not required" if local and book.empty else "required",
            allow=sorted(self.allowance.names),
            limits=self.client_limits,
            role=self.role,
            places=self.limits.running if self.role.drives else 0,
            open_metrics=self.open_metrics,
        )

    def security(self) -> Security:
        """Who may use the service; an address that others can reach requires a token."""
        book = TokenBook(self.tokens, self.data / TOKENS, self.client_limits)
        local = is_loopback(self.host)
        if not local and not book.usable and self.role.answers:
            raise ConfigError.of(
                "--host",
                f"{self.host} can be reached from other machines, but no token would be required",
                "set one with --token or $BURNISH_TOKEN, or create one: `burnish tokens add NAME`",
            )
        names = LOOPBACK | self.hosts | frozenset([self.host.lower()])
        hosts = names if local or self.hosts else None
        return Security(
            tokens=None if local and book.empty else book,
            hosts=hosts,
            origins=self.origins,
            limits=self.client_limits,
        )

    def database_journals(self) -> DatabaseJournals | None:
        shared = DatabaseUrl.parse(self.address).is_server
        if self.journals == "files" or (self.journals == "auto" and not shared):
            return None
        return journals_in(
            self.address,
            table_prefix=self.table_prefix,
            create_schema=self.create_schema,
            lease_seconds=self.limits.lease_seconds,
        )

    def file_apps(self) -> list[FileApp]:
        """The apps; all their problems are reported before anything starts."""
        datasets = Datasets(folder=RunPlaces(data=self.data).datasets)
        return [
            FileApp(name=name, path=path.absolute(), datasets=datasets, allowance=self.allowance)
            for name, path in self.apps.items()
        ]


def serve(serving: Serving, *, announce: Callable[[str], None]) -> None:
    """Serve until a signal arrives; `announce` gets the address, '' if it does not listen."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_served(serving, announce))


async def _served(serving: Serving, announce: Callable[[str], None]) -> None:
    security, apps = serving.security(), serving.file_apps()
    serving.data.mkdir(parents=True, exist_ok=True)
    serving.rules().write(serving.data)
    journals = serving.database_journals()
    if journals is not None:
        await asyncio.to_thread(journals.prepare)

    async def manager() -> RunManager:
        store = await open_store(
            serving.address,
            table_prefix=serving.table_prefix,
            create_schema=serving.create_schema,
        )
        limits, role = serving.limits, serving.role
        return RunManager(
            apps, data=serving.data, store=store, journals=journals, limits=limits, role=role
        )

    if not serving.listens:
        await _drive_only(await manager(), announce)
        return
    with closing(listening_on(serving.host, serving.listening_port)) as sock:
        await _answer_on(sock, serving, await manager(), security, announce)


async def _drive_only(manager: RunManager, announce: Callable[[str], None]) -> None:
    """Drive runs until a signal arrives; a second one ends the process at once."""
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        for each in signals:
            loop.remove_signal_handler(each)
        manager.ask_to_stop()
        stopped.set()

    for each in signals:
        loop.add_signal_handler(each, stop)
    async with manager:
        announce("")
        await stopped.wait()


async def _answer_on(
    sock: socket.socket,
    serving: Serving,
    manager: RunManager,
    security: Security,
    announce: Callable[[str], None],
) -> None:
    app = create_app(
        manager,
        base_path=serving.base_path,
        security=security,
        sub_paths=serving.sub_paths,
        slimming=serving.slimming,
        open_metrics=serving.open_metrics,
    )
    most = _room_for(serving.limits.connection.connections)
    config = server_config(
        app,
        replace(serving.limits.connection, connections=most),
        timeout_graceful_shutdown=int(serving.limits.grace_seconds) + 1,
    )
    host, port = sock.getsockname()[:2]
    announce(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    await _Server(config, manager).serve(sockets=[sock])


class _Server(uvicorn.Server):
    """Stops runs as soon as a signal arrives, not only when the last connection is closed."""

    def __init__(self, config: uvicorn.Config, manager: RunManager) -> None:
        super().__init__(config)
        self._manager = manager
        self._home = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        self.force_exit = self.should_exit  # at the second signal
        self.should_exit = True
        self._home.call_soon_threadsafe(self._manager.ask_to_stop)


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that accepts connections."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=2048)
        # Inherited by connections. asyncio does not set it on sockets made like this, and
        # answers would wait 40 ms for an acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise BurnishError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            remedy="choose another --port (0 picks a free one) or --host",
        ) from error
    return sock


# -- The options of `burnish serve` ----------------------------------------------------------------


_TOKEN = "BURNISH_TOKEN"  # noqa: S105 - the variable's name


def apps_of(flags: Sequence[str]) -> dict[str, Path]:
    """Files by app: NAME=FILE, each name once."""
    apps: dict[str, Path] = {}
    for each in flags:
        name, _, file = each.partition("=")
        if not (name and file) or name in apps:
            message = f"'{each}' is not NAME=FILE, or names an app twice"
            raise ConfigError([Problem(where="--app", message=message)])
        apps[name] = Path(file)
    return apps


def role_of(name: str) -> ServiceRole:
    """What the process does."""
    return ServiceRole(_one_of("--role", name, [*ServiceRole]))


def access_of(flags: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings of `Serving` about who may ask."""
    return {
        "host": flags["host"],
        "port": flags["port"],
        "tokens": _tokens_of(flags["token"], environ),
        "origins": frozenset(flags["cors"] or ()),
        "hosts": frozenset(each.lower() for each in flags["allow_host"] or ()),
        "open_metrics": flags["open_metrics"],
    }


def storage_of(flags: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `Serving` about where things lie."""
    return {
        "data": flags["data"],
        "db": flags["db"],
        "journals": cast("Journals", _one_of("--journals", flags["journals"], get_args(Journals))),
        "table_prefix": flags["table_prefix"],
        "create_schema": not flags["no_create_schema"],
    }


def bounds_of(
    *,
    max_running: int,
    max_waiting: int,
    max_body: int,
    max_listeners: int,
    max_listeners_per_token: int,
    body_timeout: float,
    lease: float,
    grace: float,
    sync_timeout: float | None,
) -> ServiceLimits:
    """The limits that apply to all clients."""
    return ServiceLimits(
        running=max_running,
        waiting=max_waiting,
        body_bytes=max_body * MEGABYTE,
        listeners=max_listeners,
        listeners_per_token=max_listeners_per_token,
        connection=ConnectionLimits(body_seconds=body_timeout),
        lease_seconds=lease,
        grace_seconds=grace,
        sync_seconds=sync_timeout,
    )


def _one_of(flag: str, name: str, names: Sequence[str]) -> str:
    if name not in names:
        message = f"'{name}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where=flag, message=message)])
    return name


def slimming_of(parts: Sequence[str]) -> Slimming | None:
    """What is left out of results; None if nothing is."""
    names = {
        each.name.removeprefix("omit_").replace("_", "-"): each.name for each in fields(Slimming)
    }
    if unknown := [part for part in parts if part not in names]:
        message = f"'{unknown[0]}' is not one of: {', '.join(names)}"
        raise ConfigError([Problem(where="--omit", message=message)])
    return Slimming(**{names[part]: True for part in parts}) if parts else None


def _tokens_of(flag: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The token from the flag, from a file that it names, or from the environment."""
    if flag is not None and flag.startswith("@"):
        flag = read_text(Path(flag[1:])).strip()
    token = flag or environ.get(_TOKEN)
    return (token,) if token else ()


def schema_sql(db: str, table_prefix: str) -> str:
    """The SQL that creates the tables in a kind of database."""
    kind = DatabaseUrl.parse(db).kind if db else "sqlite"
    return print_schema(kind, table_prefix=table_prefix)
