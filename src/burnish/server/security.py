"""Which requests are let in: by host, origin and token."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from burnish.server.tokens import Scope, TokenBook

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a request is not let in."""

    status: int
    code: str
    message: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Security:
    """Who may ask. Without anything said: programs on this machine, and no web page."""

    tokens: TokenBook | None = None
    hosts: frozenset[str] | None = LOOPBACK
    """The names under which the service is known; None takes any."""
    origins: frozenset[str] = frozenset()
    """Pages of other origins that may ask (CORS)."""

    def refusal(
        self, method: str, headers: Mapping[str, str], *, open_to_all: bool
    ) -> Refusal | None:
        """Why not, if not."""
        return self._foreign(headers) or (None if open_to_all else self._unknown(method, headers))

    def allows(self, origin: str) -> bool:
        """Whether pages of an origin may read answers."""
        return bool(origin) and origin in self.origins

    def _foreign(self, headers: Mapping[str, str]) -> Refusal | None:
        """A page on another site reaches a loopback service by its browser: not in here."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if self.hosts is not None and name_of(host) not in self.hosts:
            return Refusal(status=403, code="foreign_host", message="this host is not served here")
        own = origin.partition("://")[2] == host
        if origin and not own and not self.allows(origin):
            return Refusal(
                status=403, code="foreign_origin", message="pages of this origin may not ask"
            )
        return None

    def _unknown(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        if self.tokens is None or method == "OPTIONS":
            return None
        kind, _, token = headers.get("authorization", "").partition(" ")
        scope = self.tokens.scope_of(token.strip()) if kind.lower() == "bearer" else None
        if scope is None:
            return Refusal(
                status=401,
                code="unauthorized",
                message="a token is needed: Authorization: Bearer …",
                headers=(("www-authenticate", "Bearer"),),
            )
        if scope is Scope.READ and method not in _READING:
            return Refusal(status=403, code="read_only", message="this token may only read")
        return None


def name_of(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if host.count(":") == 1 else host.lower()


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
