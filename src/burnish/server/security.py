"""The edge of the service: names, hosts, origins, who a client is, and what it must not see.

Wrong tokens are limited by address, and by the beginning of a token. Behind a proxy, many people
share an address. So a token that begins like one that was right before counts by itself: whoever
fills the limit of an address keeps out only tokens that are new there.

An error is written for clients first: the log has all of it, and a client gets what it can act on,
the name of a file and not its place.
"""

import hashlib
import ipaddress
import math
import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.server.tokens import Client, ClientLimits, TokenBook

_ADDRESS = re.compile(
    r"\b(?:sqlite|postgres(?:ql)?|mysql|mariadb|memory)(?:\+\w+)?://[^\s'\"]*", re.IGNORECASE
)
_PATH = re.compile(r"(?<![\w/.:])(?:file://)?(/[^\s'\"`,;:()<>|]+)")


# -- Messages -------------------------------------------------------------------------------------
def public(text: str) -> str:
    """A message for clients: of a path on this machine only the last part is left."""
    if not text:
        return ""  # as in most runs of a list
    text = _ADDRESS.sub("the database", text)
    for folder in _folders():
        # First, because folders may have spaces in their names.
        text = text.replace(f"{folder}{os.sep}", "")
    return _PATH.sub(_shortened, text)


def _shortened(match: re.Match[str]) -> str:
    path = match[1]
    top, _, rest = path[1:].partition("/")
    if top not in _root_entries():
        return match[0]  # an address of the service, such as /api/v1/apps
    return rest.rstrip("/.").rpartition("/")[2] or "…"


@cache
def _folders() -> tuple[str, ...]:
    """The folders that messages most often name, the longest first."""
    folders = {os.path.realpath(each) for each in (os.getcwd(), os.path.expanduser("~"))}  # noqa: PTH109, PTH111
    return tuple(sorted((each for each in folders if each.count("/") > 1), key=len, reverse=True))


@cache
def _root_entries() -> frozenset[str]:
    """What is in the root folder: only a path that begins with it can be one of this machine."""
    return frozenset(os.listdir("/"))  # noqa: PTH208


T = TypeVar("T")

_MINUTES = 5.0
"""How long a wrong token counts."""
OF_ADDRESS = 100
"""Wrong tokens of one address in that time."""
OF_TOKEN = 10
"""Wrong tokens of one address with the same beginning in that time."""
_BEGINNING = 8
"""Characters; the shortest token has twice as many."""
_MOST = 10_000
"""Addresses and beginnings that are remembered; the oldest ones are forgotten."""


class TooManyAttempts(BurnishError):
    """This address has sent too many wrong tokens."""

    def __init__(self, seconds: float) -> None:
        self.seconds = math.ceil(seconds)
        remedy = f"try again in {self.seconds} seconds"
        super().__init__("too many wrong tokens came from your address", remedy=remedy)


@dataclass
class Attempts:
    """The wrong tokens of the last minutes, in the memory of one process."""

    clock: Callable[[], float] = time.monotonic
    _wrong: "OrderedDict[str, deque[float]]" = field(
        default_factory=OrderedDict[str, "deque[float]"], init=False
    )
    _right: "OrderedDict[str, None]" = field(default_factory=OrderedDict[str, None], init=False)

    def client(self, book: TokenBook, address: str, token: str) -> Client | None:
        """Who has a token; None if it is wrong. TooManyAttempts if it is not even looked at."""
        place = _network(address)
        beginning = _mark(token[:_BEGINNING])
        by_token = f"{place} {beginning}"
        if beginning not in self._right:
            self._require_room(place, OF_ADDRESS)
        self._require_room(by_token, OF_TOKEN)
        client = book.client_of(token)
        if client is None:
            self._count(place, OF_ADDRESS)
            self._count(by_token, OF_TOKEN)
        else:
            _remember(self._right, beginning, None)
        return client

    def _require_room(self, key: str, most: int) -> None:
        times = self._wrong.get(key)
        if times is None or len(times) < most:
            return
        if (left := times[0] + _MINUTES * 60 - self.clock()) > 0:
            raise TooManyAttempts(left)

    def _count(self, key: str, most: int) -> None:
        times = self._wrong.get(key) or deque[float](maxlen=most)
        times.append(self.clock())
        _remember(self._wrong, key, times)


def _remember(known: "OrderedDict[str, T]", key: str, value: T) -> None:
    known[key] = value
    known.move_to_end(key)
    while len(known) > _MOST:
        known.popitem(last=False)


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _network(address: str) -> str:
    """The address; of version 6 the first half, since the other one is anybody's to choose."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return address


NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"
_NAME = re.compile(NAME[1:-1])
_REMEDY = "use up to 128 letters, digits, '.', '-' and '_', and do not begin with '.' or '-'"


class NameRefused(BurnishError):
    """A client wrote something that cannot name anything."""


def is_plain(name: str) -> bool:
    """Whether a name is safe as a part of a path."""
    return _NAME.fullmatch(name) is not None


def check_app_name(name: str) -> str:
    """The trimmed name; rejected if it could be mistaken for a path."""
    trimmed = name.strip()
    if not is_plain(trimmed):
        raise ConfigError.of("app", f"'{trimmed}' cannot name an app", _REMEDY)
    return trimmed


def _plain(value: Any) -> Any:
    # Not repeated: it may be long, or have characters that an answer cannot have.
    if isinstance(value, str) and not is_plain(value):
        raise NameRefused("the request has a name that cannot name anything", remedy=_REMEDY)
    return value


def _plain_or_empty(value: Any) -> Any:
    return value if value == "" else _plain(value)


Name = Annotated[str, BeforeValidator(_plain), Field(pattern=NAME)]
"""The name of an app, a run or a strategy in a path or a body."""
NameFilter = Annotated[str, BeforeValidator(_plain_or_empty), Field(pattern=f"^$|{NAME}")]
"""A name in a query; empty for any."""

# -- Access ----------------------------------------------------------------------------------------
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a request is refused."""

    status: int
    code: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()
    limit: str = ""
    """The limit that the client would exceed, if that is why."""

    @property
    def problems(self) -> list[Problem]:
        return [Problem(where=self.limit, message=self.message)] if self.limit else []


UNKNOWN = Refusal(
    status=401,
    code="unauthorized",
    message="a token is required: Authorization: Bearer …",
    headers=(("www-authenticate", "Bearer"),),
)
READ_ONLY = Refusal(status=403, code="read_only", message="this token may only read")


@dataclass(frozen=True, kw_only=True)
class Security:
    """Who may use the service; by default programs on this machine, but no web pages."""

    tokens: TokenBook | None = None
    hosts: frozenset[str] | None = LOOPBACK
    """The names under which the service is reachable; None accepts any."""
    origins: frozenset[str] = frozenset()
    """Other origins whose pages may use the service (CORS)."""
    limits: ClientLimits = field(default_factory=ClientLimits)
    """The limits of clients without a token, where none is required."""
    attempts: Attempts = field(default_factory=Attempts)

    def admitted(
        self, method: str, headers: Mapping[str, str], *, open_to_all: bool, address: str = ""
    ) -> Client | Refusal | None:
        """Who sends a request, or why it is refused; None for a stranger, where all may ask."""
        if (refusal := self.foreign(headers)) is not None:
            return refusal
        client = self._client(headers, address)
        if client is None:
            return None if open_to_all or method == "OPTIONS" else UNKNOWN
        if method not in ("GET", "HEAD", "OPTIONS") and not client.scope.may_change:
            return READ_ONLY
        return client

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may read answers."""
        return bool(origin) and origin in self.origins

    def foreign(self, headers: Mapping[str, str]) -> Refusal | None:
        """Keeps out pages of other sites, which reach a loopback service through the browser."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if self.hosts is not None and name_of(host) not in self.hosts:
            return Refusal(status=403, code="foreign_host", message="this host is not served here")
        own = origin.partition("://")[2] == host
        if origin and not own and not self.allows(origin):
            return Refusal(
                status=403, code="foreign_origin", message="pages of this origin are not allowed"
            )
        # What a page loads without saying where it is from, such as an image; links may lead here.
        elsewhere = headers.get("sec-fetch-site", "") in ("cross-site", "same-site")
        if elsewhere and not origin and headers.get("sec-fetch-mode", "") != "navigate":
            return Refusal(
                status=403, code="foreign_site", message="pages of other sites are not allowed"
            )
        return None

    def _client(self, headers: Mapping[str, str], address: str) -> Client | None:
        if self.tokens is None:
            return Client(limits=self.limits)
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return None
        return self.attempts.client(self.tokens, address, token.strip())


def address_of(scope: Mapping[str, Any]) -> str:
    """The address that a request comes from; empty if the server does not know it."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()
