"""Who may ask: tokens with a scope, kept as hashes, compared without telling how much was right."""

import hashlib
import hmac
import json
import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from burnish.core.errors import ConfigError, FileTrouble, Problem
from burnish.system import read_bytes, write_atomic

FILE = "tokens.json"
_SHORTEST = 16


class Scope(StrEnum):
    """What a token is good for; whoever may run may read."""

    READ = "read"
    RUN = "run"


class KeptToken(BaseModel):
    """A token as it is kept: nobody can make the token from it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    scope: Scope
    created_at: str = ""
    name: str = ""


_KEPT = TypeAdapter(list[KeptToken])


@dataclass
class TokenBook:
    """The tokens of a service; those in the file may be added while it runs."""

    given: tuple[str, ...] = ()
    """Tokens from flags and the environment; they may do everything."""
    path: Path | None = None
    _hashes: list[KeptToken] = field(default_factory=list[KeptToken], init=False)
    _seen: tuple[int, int] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Keep hashes only."""
        for token in self.given:
            if len(token) < _SHORTEST:
                message = f"a token needs {_SHORTEST} characters or more"
                remedy = "make one with `burnish serve token new`"
                raise ConfigError([Problem(where="--token", message=message, remedy=remedy)])
        self._own = [KeptToken(sha256=hashed(each), scope=Scope.RUN) for each in self.given]
        self.given = ()
        self._refresh()

    @property
    def empty(self) -> bool:
        """Whether nobody could get in."""
        self._refresh()
        return not (self._own or self._hashes)

    def scope_of(self, token: str) -> Scope | None:
        """What a token is good for; None where nobody knows it."""
        self._refresh()
        asked, found = hashed(token), None
        # All of them, always: the time taken tells nothing.
        for each in (*self._own, *self._hashes):
            if hmac.compare_digest(each.sha256, asked):
                found = Scope.RUN if Scope.RUN in (found, each.scope) else each.scope
        return found

    def _refresh(self) -> None:
        if self.path is None:
            return
        try:
            state = self.path.stat()
        except FileNotFoundError:
            self._hashes, self._seen = [], None
            return
        if self._seen != (state.st_mtime_ns, state.st_size):
            self._hashes = read_tokens(self.path)
            self._seen = (state.st_mtime_ns, state.st_size)


def hashed(token: str) -> str:
    """What is kept of a token. It is long and random, so a plain hash hides it."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def read_tokens(path: Path) -> list[KeptToken]:
    """The tokens of a file."""
    try:
        return _KEPT.validate_json(read_bytes(path))
    except ValidationError as error:
        raise FileTrouble(f"{path} is damaged", remedy="remove it, and make tokens anew") from error


def new_token(path: Path, scope: Scope, *, name: str = "") -> str:
    """Make a token, keep its hash in a file that only its owner reads, and give it back."""
    token = f"bt_{secrets.token_urlsafe(32)}"
    at = datetime.now(UTC).isoformat(timespec="seconds")
    kept = read_tokens(path) if path.exists() else []
    kept.append(KeptToken(sha256=hashed(token), scope=scope, created_at=at, name=name))
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([each.model_dump(mode="json") for each in kept], indent=2)
    before = os.umask(0o077)
    try:
        write_atomic(path, text + "\n")
        path.chmod(0o600)
    finally:
        os.umask(before)
    return token
