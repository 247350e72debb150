"""Serving: from what an operator says to a service that listens."""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal

import uvicorn

from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.journal.database_store import DatabaseJournals
from burnish.server.application import BASE_PATH, create_app
from burnish.server.apps import FileApp
from burnish.server.manager import RunManager, ServiceLimits
from burnish.server.runs import Datasets, RunPlaces
from burnish.server.security import FILE as TOKENS
from burnish.server.security import LOOPBACK, Security, TokenBook, is_loopback
from burnish.server.stores import journals_in, open_store
from burnish.system.databases import PREFIX, DatabaseUrl

Journals = Literal["auto", "files", "database"]


@dataclass(frozen=True, kw_only=True)
class Serving:
    """What an operator says."""

    apps: Mapping[str, Path]
    data: Path
    host: str = "127.0.0.1"
    port: int = 8080
    db: str = ""
    """Where runs are kept; a SQLite file in the data folder unless said."""
    journals: Journals = "auto"
    """`auto`: in the database where that is PostgreSQL or MariaDB, else in files."""
    base_path: str = BASE_PATH
    tokens: tuple[str, ...] = ()
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """More names under which the service is known."""
    allowed: frozenset[str] = frozenset()
    """Models and functions that requests may name."""
    limits: ServiceLimits = field(default_factory=ServiceLimits)
    table_prefix: str = PREFIX
    create_schema: bool = True

    @property
    def address(self) -> str:
        """Of the store."""
        return self.db or f"sqlite:///{(self.data / 'runs.db').absolute()}"

    def security(self) -> Security:
        """Who may ask; an address that others reach demands a token."""
        book = TokenBook(self.tokens, self.data / TOKENS)
        local = is_loopback(self.host)
        if not local and book.empty:
            raise ConfigError(
                [
                    Problem(
                        where="--host",
                        message=f"{self.host} can be reached from other machines, "
                        "and nobody would be asked for a token",
                        remedy="give one with --token or $BURNISH_TOKEN, or make one: "
                        "`burnish serve token new`",
                    )
                ]
            )
        names = LOOPBACK | self.hosts | frozenset([self.host.lower()])
        hosts = names if local or self.hosts else None
        return Security(
            tokens=None if local and book.empty else book, hosts=hosts, origins=self.origins
        )

    def database_journals(self) -> DatabaseJournals | None:
        """Journals in the database, or None for files."""
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
        """The apps; everything that is wrong with them is said before anything starts."""
        datasets = Datasets(folder=RunPlaces(data=self.data).datasets)
        return [
            FileApp(name=name, path=path.absolute(), datasets=datasets, allowed=self.allowed)
            for name, path in self.apps.items()
        ]


def serve(serving: Serving, *, announce: Callable[[str], None]) -> None:
    """Serve until a signal comes; `announce` gets the address as soon as it listens."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    asyncio.run(_served(serving, announce))


async def _served(serving: Serving, announce: Callable[[str], None]) -> None:
    security, apps = serving.security(), serving.file_apps()
    serving.data.mkdir(parents=True, exist_ok=True)
    journals = serving.database_journals()
    if journals is not None:
        await asyncio.to_thread(journals.prepare)
    with closing(listening_on(serving.host, serving.port)) as sock:
        store = await open_store(
            serving.address,
            table_prefix=serving.table_prefix,
            create_schema=serving.create_schema,
        )
        manager = RunManager(
            apps, data=serving.data, store=store, journals=journals, limits=serving.limits
        )
        app = create_app(manager, base_path=serving.base_path, security=security)
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=int(serving.limits.grace_seconds) + 1,
        )
        announce(_url(sock))
        await _Server(config, manager).serve(sockets=[sock])


class _Server(uvicorn.Server):
    """Stops runs as soon as a signal comes, not only when the last connection has gone."""

    def __init__(self, config: uvicorn.Config, manager: RunManager) -> None:
        super().__init__(config)
        self._manager = manager
        self._home = asyncio.get_running_loop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A first signal asks, a second one insists."""
        del sig, frame
        self.force_exit = self.should_exit
        self.should_exit = True
        self._home.call_soon_threadsafe(self._manager.ask_to_stop)


def listening_on(host: str, port: int) -> socket.socket:
    """A socket that takes connections."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=2048)
        # Inherited by connections. asyncio does not set it on sockets made like this, and
        # answers would wait 40 ms for an acknowledgement.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise BurnishError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            remedy="choose another --port (0 takes any that is free) or --host",
        ) from error
    return sock


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
