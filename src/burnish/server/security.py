"""Which requests are let in: hosts, origins, tokens, names."""

import hashlib
import hmac
import ipaddress
import json
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.system import read_bytes, write_atomic

NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$"
_NAME = re.compile(NAME)


def is_plain(name: str) -> bool:
    """Whether a name can be part of a path and means nothing more there."""
    return bool(_NAME.match(name)) and not name.endswith("\n")


def check_app_name(name: str) -> str:
    """The name, trimmed; refused where it could be mistaken for a path."""
    trimmed = name.strip()
    if not is_plain(trimmed):
        raise ConfigError(
            [
                Problem(
                    where="app",
                    message=f"'{trimmed}' cannot name an app",
                    remedy="use letters, digits, '.', '-' and '_', and begin with none of "
                    "'.' and '-'",
                )
            ]
        )
    return trimmed


# -- Who may ask ----------------------------------------------------------------------------------


FILE = "tokens.json"
_SHORTEST = 16


class TokenScope(StrEnum):
    """What a token is good for; whoever may run may read."""

    READ = "read"
    RUN = "run"


class StoredToken(BaseModel):
    """A token as it is kept: nobody can make the token from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    scope: TokenScope
    created_at: str = ""
    name: str = ""


_TOKEN_LIST = TypeAdapter(list[StoredToken])


@dataclass
class TokenBook:
    """The tokens of a service; those in the file may be added while it runs."""

    tokens: tuple[str, ...] = ()
    """Tokens from flags and the environment; they may do everything."""
    path: Path | None = None
    _hashes: list[StoredToken] = field(default_factory=list[StoredToken], init=False)
    _seen: tuple[int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Keep hashes only."""
        for token in self.tokens:
            if len(token) < _SHORTEST:
                message = f"a token needs {_SHORTEST} characters or more"
                remedy = "make one with `burnish serve token new`"
                raise ConfigError([Problem(where="--token", message=message, remedy=remedy)])
        self._own = [
            StoredToken(sha256=_hashed(each), scope=TokenScope.RUN) for each in self.tokens
        ]
        self.tokens = ()
        self._refresh()

    @property
    def empty(self) -> bool:
        """Whether nobody could get in."""
        self._refresh()
        return not (self._own or self._hashes)

    def scope_of(self, token: str) -> TokenScope | None:
        """What a token is good for; None where nobody knows it."""
        self._refresh()
        digest, scope = _hashed(token), None
        # All of them, always: the time taken tells nothing.
        for each in (*self._own, *self._hashes):
            if hmac.compare_digest(each.sha256, digest):
                scope = TokenScope.RUN if TokenScope.RUN in (scope, each.scope) else each.scope
        return scope

    def _refresh(self) -> None:
        if self.path is None:
            return
        try:
            state = self.path.stat()
        except FileNotFoundError:
            self._hashes, self._seen = [], None
            return
        if self._seen != (state.st_mtime_ns, state.st_size):
            self._hashes = _read_tokens(self.path)
            self._seen = (state.st_mtime_ns, state.st_size)


def _hashed(token: str) -> str:
    """What is kept of a token. It is long and random, so a plain hash hides it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _read_tokens(path: Path) -> list[StoredToken]:
    """The tokens of a file."""
    try:
        return _TOKEN_LIST.validate_json(read_bytes(path))
    except ValidationError as error:
        raise FileTrouble(f"{path} is damaged", remedy="remove it, and make tokens anew") from error


def new_token(path: Path, scope: TokenScope, *, name: str = "") -> str:
    """Make a token, keep its hash in a file that only its owner reads, and give it back."""
    token = f"bt_{secrets.token_urlsafe(32)}"
    at = datetime.now(UTC).isoformat(timespec="seconds")
    tokens = _read_tokens(path) if path.exists() else []
    tokens.append(StoredToken(sha256=_hashed(token), scope=scope, created_at=at, name=name))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([each.model_dump(mode="json") for each in tokens], indent=2)
    before = os.umask(0o077)
    try:
        write_atomic(path, text + "\n")
        path.chmod(0o600)
    finally:
        os.umask(before)
    return token


# -- Which requests are let in --------------------------------------------------------------------


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
        if scope is TokenScope.READ and method not in _READING:
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
