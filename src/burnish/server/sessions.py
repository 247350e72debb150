"""Sessions of browsers: a token is sent once, in a form, and a cookie stands for it from then on.

A session lives in the memory of one process and stores the digest of its token, not the token. It
ends when the token is revoked or expires, when somebody logs out, after some hours, and when the
service restarts. Its cookie opens pages only: the API does not look at it, so a page of another
site that makes a browser send it can start nothing.
"""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from burnish.server.security import READ_ONLY, UNKNOWN, Refusal, Security
from burnish.server.tokens import Client, token_digest

VISITOR = "burnish.visitor"
"""Where the scope of a request for a page has its visitor; None for a stranger."""
HOURS = 12.0
"""How long a session lasts."""
_MOST = 1_000
"""Sessions of one process; the oldest one ends when there are more."""
_OF_TOKEN = 20
"""The same for one token, so that nobody ends the sessions of others by logging in."""


@dataclass(frozen=True, kw_only=True)
class BrowserSession:
    """A browser that has logged in."""

    digest: str
    """Of the token it logged in with; empty where no token is required."""
    form_token: str
    """Proves that a form was filled in on a page of this session."""
    until: float

    def has_sent(self, form_token: str) -> bool:
        """Whether a form is from a page of this session."""
        return hmac.compare_digest(form_token.encode(), self.form_token.encode())


@dataclass(frozen=True, kw_only=True)
class Visitor:
    """Who looks at a page."""

    client: Client
    session: BrowserSession
    key: str = ""
    """The value of the session's cookie; empty where no token is required."""


@dataclass
class Sessions:
    """The sessions of a service, by the value of their cookie."""

    security: Security
    clock: Callable[[], float] = time.monotonic
    _sessions: "OrderedDict[str, BrowserSession]" = field(
        default_factory=OrderedDict[str, BrowserSession], init=False
    )
    _everybody: BrowserSession = field(init=False)

    def __post_init__(self) -> None:
        self._everybody = self._new("")

    @property
    def required(self) -> bool:
        """Whether visitors have to log in."""
        return self.security.tokens is not None

    def log_in(self, token: str, address: str = "") -> str | None:
        """A new session for a valid token, as the value of its cookie; None for any other.

        TooManyAttempts if too many wrong tokens came from the address.
        """
        tokens, token = self.security.tokens, token.strip()
        if tokens is None or self.security.attempts.client(tokens, address, token) is None:
            return None
        key, digest = secrets.token_urlsafe(32), token_digest(token)
        own = [name for name, each in self._sessions.items() if each.digest == digest]
        for name in own[: len(own) + 1 - _OF_TOKEN]:
            del self._sessions[name]
        self._sessions[token_digest(key)] = self._new(digest)
        while len(self._sessions) > _MOST:
            self._sessions.popitem(last=False)
        return key

    def log_out(self, key: str) -> None:
        """End a session."""
        self._sessions.pop(token_digest(key), None)

    def visitor(self, scope: Mapping[str, object], cookies: str) -> Visitor | None:
        """Who sends a request; None if it has to log in first."""
        tokens = self.security.tokens
        if tokens is None:
            return Visitor(client=Client(limits=self.security.limits), session=self._everybody)
        key = _cookie(cookies, cookie_name(scope))
        session = self._sessions.get(token_digest(key)) if key else None
        client = None if session is None else tokens.client_with(session.digest)
        if session is None or client is None or self.clock() >= session.until:
            self.log_out(key)
            return None
        return Visitor(client=client, session=session, key=key)

    def _new(self, digest: str) -> BrowserSession:
        until = self.clock() + HOURS * 3600
        return BrowserSession(digest=digest, form_token=secrets.token_urlsafe(32), until=until)


_OPEN = "/login"
_ANYBODY = ("/login", "/logout")
"""What a token that may only read may send."""


@dataclass(frozen=True, kw_only=True)
class PageAccess:
    """Who may see pages; asked before any page is made."""

    sessions: Sessions
    first_parts: frozenset[str]
    """The first parts of the addresses of pages."""

    def covers(self, path: str, headers: Mapping[str, str]) -> bool:
        """Whether a request is for a page. One with a token of the API is not."""
        return path[1:].partition("/")[0] in self.first_parts and "authorization" not in headers

    def is_own_file(self, path: str) -> bool:
        """Whether it is a style or a script of ours, which tells nothing about this service."""
        return path.startswith("/static/")

    def admitted(
        self, scope: MutableMapping[str, Any], path: str, headers: Mapping[str, str]
    ) -> Client | Refusal | None:
        """Who asks for a page, or why it is refused; None for a stranger who may log in."""
        changes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        if (refusal := self.sessions.security.foreign(headers)) is not None:
            return refusal
        if changes and headers.get("sec-fetch-site", "") in ("cross-site", "same-site"):
            return _FOREIGN
        visitor = self.sessions.visitor(scope, headers.get("cookie", ""))
        scope[VISITOR] = visitor
        if visitor is None:
            return (
                None if path == _OPEN or self.is_own_file(path) else _log_in(scope, path, headers)
            )
        if changes and path not in _ANYBODY and not visitor.client.scope.may_change:
            return READ_ONLY
        return visitor.client


_FOREIGN = Refusal(
    status=403, code="foreign_site", message="pages of other sites may not send forms"
)


def _log_in(scope: Mapping[str, Any], path: str, headers: Mapping[str, str]) -> Refusal:
    """Send a browser to the form for its token, and say so to everybody else."""
    if "text/html" not in headers.get("accept", ""):
        return UNKNOWN
    to = f"?{urlencode({'to': path.strip('/')})}" if path.strip("/") else ""
    address = f"{str(scope.get('root_path', '')).rstrip('/')}{_OPEN}{to}"
    headers_of = (("location", address), ("cache-control", "no-store"))
    return Refusal(status=303, code="log_in", message="log in first", headers=headers_of)


def cookie_name(scope: Mapping[str, object]) -> str:
    """The name of the cookie: two services on one machine do not overwrite each other's."""
    server = scope.get("server")
    port = server[1] if isinstance(server, tuple | list) and len(server) == 2 else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return f"burnish_{port or 'session'}"


def session_cookie(scope: Mapping[str, object], key: str, *, root: str) -> str:
    """The header that stores a session in the browser; without a key, the one that removes it."""
    hours = HOURS if key else 0
    secure = "; Secure" if scope.get("scheme") == "https" else ""
    return (
        f"{cookie_name(scope)}={key}; Path={root}; Max-Age={int(hours * 3600)}; HttpOnly; "
        f"SameSite=Strict{secure}"
    )


def _cookie(header: str, name: str) -> str:
    # Not http.cookies: a cookie of another program on this host that it cannot read hides ours.
    pairs = (each.strip().partition("=") for each in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")
