"""Tokens of the service: who a client is, what it may do, and how much it may spend.

Only hashes are stored, in `tokens.json` in the data folder, which a running service reads again
when it changes. Tokens with the same name share one account: while a token is rotated, the old one
and the new one are valid, and both spend from it.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from burnish.core.content import AboveZero, AtLeastOne
from burnish.core.errors import ConfigError, FileTrouble
from burnish.system import read_bytes, write_atomic
from burnish.system.files import FileLock
from burnish.system.removed import way_out
from burnish.system.settings import Settings


class ServiceRole(StrEnum):
    """What a process of the service does."""

    BOTH = "both"
    API = "api"
    """It answers requests and shows pages; others drive the runs."""
    WORKER = "worker"
    """It drives runs, and answers nothing but questions about itself."""

    @property
    def drives(self) -> bool:
        return self is not ServiceRole.API

    @property
    def answers(self) -> bool:
        return self is not ServiceRole.WORKER


# -- Tokens ----------------------------------------------------------------------------------------


FILE = "tokens.json"
RULES, WORKER_RULES = "service.json", "worker.json"
"""Of the process that answers requests, and of one that only drives runs."""
LOCAL, OPERATOR = "local", "operator"
"""The accounts of programs on this machine without a token, and of `--token`."""
NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"
_SHORTEST = 16
_UNKNOWN = "extra_forbidden"
"""What pydantic calls a field that it does not know."""
_DURATION = re.compile(r"(\d{1,6})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class TokenScope(StrEnum):
    """What a token permits; each scope includes those before it."""

    READ = "read"
    """See apps, runs, datasets and results."""
    RUN = "run"
    """Start runs, upload datasets, and change one's own."""
    ADMIN = "admin"
    """Change those of every token."""

    @property
    def may_change(self) -> bool:
        return self is not TokenScope.READ


class ClientLimits(Settings):
    """What the runs and files of one token may take. None means no limit."""

    max_usd: AboveZero | None = None
    """US dollars."""
    max_calls: AtLeastOne | None = None
    """Paid calls."""
    max_tokens: AtLeastOne | None = None
    """Tokens of models, input and output."""
    max_minutes: AboveZero | None = None
    """Minutes of active runs."""
    max_runs: AtLeastOne | None = None
    """Runs that are waiting or running at the same time."""
    max_upload: AtLeastOne | None = None
    """Megabytes of one request."""

    def over(self, usual: "ClientLimits") -> "ClientLimits":
        """These limits, and the usual ones where they have none."""
        return usual.model_copy(update=self.model_dump(exclude_none=True))

    def __str__(self) -> str:
        limits = self.model_dump(exclude_none=True)
        return ", ".join(f"{name} {value:g}" for name, value in limits.items()) or "none"


@dataclass(frozen=True, kw_only=True)
class Client:
    """Who sends a request."""

    account: str = LOCAL
    scope: TokenScope = TokenScope.ADMIN
    limits: ClientLimits = field(default_factory=ClientLimits)

    def owns(self, account: str | None) -> bool:
        """Whether it may change what belongs to an account; None belongs to nobody."""
        return self.scope is TokenScope.ADMIN or account in (None, self.account)


class StoredToken(BaseModel):
    """A token as it is stored: the token cannot be derived from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    scope: TokenScope
    created_at: str = ""
    name: str = ""
    expires_at: datetime | None = None
    limits: ClientLimits = Field(default_factory=ClientLimits)

    @property
    def account(self) -> str:
        """The account it spends from."""
        return self.name or f"token-{self.sha256[:8]}"

    def is_valid(self, now: datetime) -> bool:
        return self.expires_at is None or now < self.expires_at


class ServiceRules(BaseModel):
    """What the clients of a service may do, as it says when it starts and as `doctor` shows."""

    model_config = ConfigDict(frozen=True)

    address: str
    tokens: str
    """Whether a token is required."""
    allow: list[str]
    limits: ClientLimits
    """The limits of each token that has none of its own."""
    role: ServiceRole = ServiceRole.BOTH
    places: int = 0
    """How many runs it drives at once."""
    open_metrics: bool = False
    """Whether the metrics need no token."""

    def lines(self) -> list[str]:
        role = f"role: {self.role}"
        if self.role.drives:
            role += f", {self.places} {'run' if self.places == 1 else 'runs'} at once"
        if not self.role.answers:
            return [role]
        return [
            f"a token is {self.tokens}",
            f"requests may name: {', '.join(self.allow) or 'nothing'}",
            f"limits of each token: {self.limits}",
            *(["metrics: need no token"] if self.open_metrics else []),
            role,
        ]

    def write(self, data: Path) -> None:
        """Store the rules in the data folder of the service."""
        name = RULES if self.role.answers else WORKER_RULES
        write_atomic(data / name, self.model_dump_json(indent=2) + "\n")

    @classmethod
    def read(cls, data: Path, name: str = RULES) -> "ServiceRules | None":
        """The rules of the service that last used a data folder; None if there are none."""
        try:
            return cls.model_validate_json(read_bytes(data / name))
        except (ValidationError, FileTrouble):
            return None


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class TokenBook:
    """The tokens of a service; those in the file may be changed while it runs."""

    tokens: tuple[str, ...] = ()
    """Tokens from flags and the environment, with full access."""
    path: Path | None = None
    limits: ClientLimits = field(default_factory=ClientLimits)
    """The limits of each token that has none of its own."""
    clock: Callable[[], datetime] = _now
    _stored: list[StoredToken] = field(default_factory=list[StoredToken], init=False)
    _seen: tuple[int, int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        for token in self.tokens:
            if len(token) < _SHORTEST:
                message = f"a token needs {_SHORTEST} characters or more"
                raise ConfigError.of("--token", message, "create one with `burnish tokens add`")
        self._own = [
            StoredToken(sha256=token_digest(each), scope=TokenScope.ADMIN, name=OPERATOR)
            for each in self.tokens
        ]
        self.tokens = ()
        self._refresh()

    @property
    def empty(self) -> bool:
        """Whether there never was a token: after the last one is revoked, nobody gets in."""
        self._refresh()
        return not self._own and self._seen is None

    @property
    def usable(self) -> bool:
        """Whether anybody could get in."""
        self._refresh()
        now = self.clock()
        return any(each.is_valid(now) for each in (*self._own, *self._stored))

    def client_of(self, token: str) -> Client | None:
        """Who has a token; None if it is unknown or has expired."""
        return self.client_with(token_digest(token))

    def client_with(self, digest: str) -> Client | None:
        """Who has the token with this digest: a session stores it in place of the token."""
        self._refresh()
        now = self.clock()
        matching: StoredToken | None = None
        # All of them, always: the time taken tells nothing.
        for each in (*self._own, *self._stored):
            if hmac.compare_digest(each.sha256, digest) and each.is_valid(now):
                matching = matching or each
        if matching is None:
            return None
        limits = matching.limits.over(self.limits)
        return Client(account=matching.account, scope=matching.scope, limits=limits)

    def _refresh(self) -> None:
        if self.path is None:
            return
        try:
            state = self.path.stat()
        except FileNotFoundError:
            self._stored, self._seen = [], None
            return
        seen = (state.st_mtime_ns, state.st_size, state.st_ino)
        if self._seen != seen:
            self._stored, self._seen = read_tokens(self.path), seen


def token_digest(token: str) -> str:
    """The stored form of a token. It is long and random, so a plain hash is enough."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> list[StoredToken]:
    """The stored tokens, oldest first; none if there is no file."""
    if not path.exists():
        return []
    try:
        return TypeAdapter(list[StoredToken]).validate_json(read_bytes(path))
    except ValidationError as error:
        faults = error.errors()
        unknown = [str(each["loc"][-1]) for each in faults if each["type"] == _UNKNOWN]
        gone = {name: way_out(f"limit {name}") for name in unknown}
        if len(unknown) == len(faults) and all(gone.values()):
            message = f"{path} has limits that no longer exist: {', '.join(gone)}"
            raise FileTrouble(message, remedy="; ".join(gone.values())) from error
        raise FileTrouble(f"{path} is damaged", remedy="delete it and create new tokens") from error


def duration(text: str, flag: str) -> timedelta:
    """How long `90d`, `12h` or `30m` is."""
    if (match := _DURATION.fullmatch(text)) is None:
        raise ConfigError.of(flag, f"'{text}' is not a duration", "write 30m, 12h or 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


@dataclass(frozen=True, kw_only=True)
class TokenFile:
    """Changes the stored tokens; only the file's owner can read them."""

    path: Path
    clock: Callable[[], datetime] = _now

    def add(
        self,
        name: str,
        scope: TokenScope = TokenScope.RUN,
        *,
        expires: timedelta | None = None,
        limits: ClientLimits | None = None,
    ) -> str:
        """Create a token under a new name and return it; it is not stored."""
        if not re.match(NAME, name) or name.endswith("\n") or name in (LOCAL, OPERATOR):
            remedy = "use up to 64 letters, digits, '.', '-' and '_'"
            raise ConfigError.of("NAME", f"'{name}' cannot name a token", remedy)
        with self._changing() as tokens:
            if any(each.account == name for each in tokens):
                remedy = f"`burnish tokens rotate {name}` replaces it; or choose another name"
                raise ConfigError.of("NAME", f"there is a token '{name}' already", remedy)
            return self._new(tokens, name, scope, self._after(expires), limits or ClientLimits())

    def rotate(self, name: str, *, overlap: timedelta, expires: timedelta | None = None) -> str:
        """Create a successor of a token and return it; the old one stays valid for a while."""
        with self._changing() as tokens:
            (*_, last) = self._named(tokens, name)
            until = self.clock() + overlap
            for number, each in enumerate(tokens):
                if each.account == name and (each.expires_at is None or each.expires_at > until):
                    tokens[number] = each.model_copy(update={"expires_at": until})
            return self._new(tokens, name, last.scope, self._after(expires), last.limits)

    def revoke(self, name: str) -> int:
        """Remove every token of a name, and return how many there were."""
        with self._changing() as tokens:
            gone = self._named(tokens, name)
            tokens[:] = [each for each in tokens if each.account != name]
            return len(gone)

    def limit(self, name: str, limits: ClientLimits) -> ClientLimits:
        """Change some limits of a name, and return all that it has."""
        with self._changing() as tokens:
            (*_, last) = self._named(tokens, name)
            changed = limits.over(last.limits)
            tokens[:] = [
                each.model_copy(update={"limits": changed}) if each.account == name else each
                for each in tokens
            ]
            return changed

    def _named(self, tokens: Iterable[StoredToken], name: str) -> list[StoredToken]:
        named = [each for each in tokens if each.account == name]
        if not named:
            raise ConfigError.of("NAME", f"there is no token '{name}'", "see `burnish tokens list`")
        return named

    def _after(self, span: timedelta | None) -> datetime | None:
        return None if span is None else self.clock() + span

    def _new(
        self,
        tokens: list[StoredToken],
        name: str,
        scope: TokenScope,
        expires_at: datetime | None,
        limits: ClientLimits,
    ) -> str:
        token = f"bt_{secrets.token_urlsafe(32)}"
        stored = StoredToken(
            sha256=token_digest(token),
            scope=scope,
            created_at=self.clock().isoformat(timespec="seconds"),
            name=name,
            expires_at=expires_at,
            limits=limits,
        )
        tokens.append(stored)
        return token

    @contextmanager
    def _changing(self) -> Generator[list[StoredToken], None, None]:
        """The stored tokens as a list, written back when the block succeeds."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock.acquire(self.path.with_suffix(".lock"), holding=self.path.name):
            tokens = read_tokens(self.path)
            yield tokens
            rows = [each.model_dump(mode="json", exclude_none=True) for each in tokens]
            before = os.umask(0o077)
            try:
                write_atomic(self.path, json.dumps(rows, indent=2) + "\n")
                self.path.chmod(0o600)
            finally:
                os.umask(before)
