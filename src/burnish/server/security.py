"""The edge of the service: names as clients write them, hosts, origins, and who a client is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError
from burnish.server.attempts import Attempts
from burnish.server.tokens import Client, ClientLimits, TokenBook

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
    def problems(self) -> list[Json]:
        return [{"where": self.limit, "message": self.message, "remedy": ""}] if self.limit else []


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
