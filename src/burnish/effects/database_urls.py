"""Addresses of databases as users write them; a password is used and never shown."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from burnish.core.errors import ConfigError, Problem
from burnish.system import expand_variables

_KINDS = {
    "postgres": "postgresql",
    "postgresql": "postgresql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "sqlite": "sqlite",
    "memory": "memory",
}
HIDDEN = "***"
KNOWN = "sqlite:///file.db, postgresql://user@host/database or mysql://user@host/database"


@dataclass(frozen=True, kw_only=True, repr=False)
class DatabaseUrl:
    """An address, with `${VAR}` expanded. Its text and its repr have no password."""

    kind: str
    """`postgresql`, `mysql` (MariaDB too), `sqlite` or `memory`."""
    written: str
    """As the user wrote it; what is kept in files is `kept`."""
    expanded: str

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str] | None = None) -> "DatabaseUrl":
        """Read an address such as `postgresql://me:${PASSWORD}@host/database`."""
        expanded = expand_variables(text, os.environ if environ is None else environ)
        scheme, found, _ = expanded.partition("://")
        kind = _KINDS.get(scheme.partition("+")[0]) if found else None
        if kind is None:
            raise _unknown(scheme if found else "")
        url = cls(kind=kind, written=text, expanded=expanded)
        url.check()
        return url

    def check(self) -> None:
        """Refuse a port that is none, before a driver does so with the whole address."""
        try:
            _ = urlsplit(self.expanded).port
        except ValueError:
            message = "the port in the address of the database is not a number"
            raise ConfigError([Problem(message=message, remedy=f"write {KNOWN}")]) from None

    @property
    def host(self) -> str:
        """The server; '' is the driver's own choice."""
        return urlsplit(self.expanded).hostname or ""

    @property
    def port(self) -> int | None:
        """The port, if it is named."""
        return urlsplit(self.expanded).port

    @property
    def user(self) -> str:
        """Who connects."""
        return unquote(urlsplit(self.expanded).username or "")

    @property
    def password(self) -> str:
        """The secret part."""
        return unquote(urlsplit(self.expanded).password or "")

    @property
    def database(self) -> str:
        """The database on the server, or the path of the file."""
        return unquote(urlsplit(self.expanded).path[1:])

    @property
    def options(self) -> dict[str, str]:
        """What stands behind the question mark."""
        return dict(parse_qsl(urlsplit(self.expanded).query))

    @property
    def kept(self) -> str:
        """The address for a file: a `${VAR}` stays one, a password in plain is left out."""
        return _with_password(self.written, keep_variable=True)

    def without_secrets(self, text: str) -> str:
        """A message of a driver, without the password."""
        for secret in {*self._secrets, *(quote(each, safe="") for each in self._secrets)}:
            text = text.replace(secret, HIDDEN)
        return text

    @property
    def _secrets(self) -> tuple[str, ...]:
        return tuple(each for each in (self.password, self.options.get("password", "")) if each)

    def __str__(self) -> str:
        return _with_password(self.expanded, keep_variable=False)

    def __repr__(self) -> str:
        return f"DatabaseUrl({str(self)!r})"


def _with_password(text: str, *, keep_variable: bool) -> str:
    """The address with its password hidden, or left out; options may hold one too."""
    parts = urlsplit(text)
    who, at, where = parts.netloc.rpartition("@")
    user, colon, password = who.partition(":")
    if colon and not (keep_variable and password.startswith("${")):
        who = user if keep_variable else f"{user}:{HIDDEN}"
    options = [each for each in parts.query.split("&") if each and not each.startswith("password")]
    netloc = f"{who}{at}{where}"
    return urlunsplit((parts.scheme, netloc, parts.path, "&".join(options), ""))


def _unknown(scheme: str) -> ConfigError:
    told = (
        f"'{scheme}' is no kind of database that burnish knows"
        if scheme
        else ("the address of the database does not begin with its kind")
    )
    return ConfigError([Problem(message=told, remedy=f"write {KNOWN}")])
