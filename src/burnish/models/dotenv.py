"""`.env` files: what they contain, and what a folder's file may decide.

A `.env` may have been written by somebody else. So it adds variables to the environment, but never
says where a key of the user's own environment goes: an address is taken only together with its key,
and proxies, certificates and what programs load are never taken.
"""

import os
import re
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.models.providers import all_providers
from burnish.system import read_text
from burnish.system.variables import variables_in

DOTENV = ".env"
WHERE = f"in the environment or in {DOTENV}"
AWP_ADDRESS, AWP_KEY = "LLM_BASE_URL", "LLM_API_KEY"
"""The variables by which awp-agents reaches its models, whatever they are called."""

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", re.ASCII)
_SINGLE = re.compile(r"'([^']*)'\s*(?:#.*)?")
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*)"\s*(?:#.*)?')
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}

_NEVER_TAKEN = re.compile(
    # Through what requests go, and whom they trust.
    r"\w*_PROXY|NETRC|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|\w*_CUSTOM_HEADERS"
    r"|SSL_\w+|SSLKEYLOGFILE|OPENSSL_\w+|\w*(?:CA_BUNDLE|CA_CERTS?|CERT_FILE|CERT_DIR|CAINFO|CAPATH)"
    r"|\w*_CERTIFICATE|\w*_SSL_VERIFY|\w*_INSECURE(?:_TLS)?|GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
    r"|GOOGLE_CLOUD_UNIVERSE_DOMAIN|AZURE_AUTHORITY_HOST|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE"
    # What programs load or run before they do anything.
    r"|PATH|HOME|SHELL|TMPDIR|BASH_ENV|LD_\w+|DYLD_\w+|PYTHON\w*|PERL5\w*|RUBY(?:OPT|LIB)"
    r"|JAVA_TOOL_OPTIONS|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)"
    r"|GIT_(?:SSH\w*|CONFIG\w*|EXEC_PATH|ASKPASS)|XDG_(?:CONFIG|DATA)_\w+"
    # What burnish itself does: its settings come from flags, files and the environment.
    r"|BURNISH_(?!\w*TOKEN$)\w+",
    re.IGNORECASE | re.ASCII,
)
_ADDRESS = re.compile(
    r"(?P<stem>\w+?)(?:_(?:TRACES|METRICS|LOGS))?"
    r"_(?:BASE_URL|API_BASE|API_URL|ENDPOINT(?:_URL\w*)?|HOST|URL|URI|SERVER|ADDRESS)",
    re.ASCII,
)
"""A variable that says where a service is, by its name."""
_CREDENTIAL = re.compile(
    r"\w+_(?:\w*KEY|\w*TOKEN|\w*SECRET|\w*PASSWORD|HEADERS|\w*AUTH|\w*CREDENTIALS?)", re.ASCII
)


@dataclass(frozen=True)
class _Loaded:
    value: str
    path: Path


_loaded: dict[str, _Loaded] = {}
"""By name, the variables of this process that came from a `.env`. As global as `os.environ`."""


def load_dotenv(folder: Path, environ: MutableMapping[str, str]) -> list[str]:
    """Add the variables of `.env` that are not set in `environ`; return their names.

    An address comes with its key from the same file, whatever `environ` has, so that no key of
    the environment meets an address of the file. Raises ConfigError if the key is missing.
    """
    path = find_dotenv(folder)
    if path is None:
        return []
    new = additions(read_dotenv(path), environ, path)
    environ.update(new)
    if environ is os.environ:
        _loaded.update({name: _Loaded(value, path) for name, value in new.items()})
    return list(new)


def find_dotenv(folder: Path) -> Path | None:
    """The nearest `.env`, from `folder` up to the root of its repository."""
    folder = folder.resolve()
    for place in (folder, *folder.parents):
        if (place / DOTENV).is_file():
            return place / DOTENV
        if (place / ".git").exists():
            break
    return None


def read_dotenv(path: Path) -> dict[str, str]:
    """The variables of a `.env` file. Values are literal: a `$` is a `$`."""
    values: dict[str, str] = {}
    bad: list[Problem] = []
    lines = read_text(path).removeprefix("\ufeff").split("\n")
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        value = None if match is None or "\0" in line else _value(match[2])
        if match is None or value is None:
            # Without what the line says: it may well be a key.
            remedy = "write NAME=value, and close every quote on its line"
            where = f"{path}:{number}"
            bad.append(Problem(where=where, message="not a variable", remedy=remedy))
        else:
            values[match[1]] = value
    if bad:
        raise ConfigError(bad)
    return values


def _value(written: str) -> str | None:
    """The value with or without quotes; None if a quote is not closed."""
    text = written.strip()
    if text.startswith("'"):
        single = _SINGLE.fullmatch(text)
        return single[1] if single else None
    if text.startswith('"'):
        double = _DOUBLE.fullmatch(text)
        return double and re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), double[1])
    return re.sub(r"\s#.*", "", written, count=1).strip()


def never_taken(values: Iterable[str]) -> list[str]:
    """The names among these that a `.env` cannot set."""
    return [name for name in values if _NEVER_TAKEN.fullmatch(name)]


def ignored_words(names: Iterable[str]) -> str:
    """What to do about variables that a `.env` cannot set; empty without any."""
    listed = ", ".join(names)
    return f"not taken from a {DOTENV}, only from your environment: {listed}" if listed else ""


def ignored_in(folder: Path) -> str:
    """A note about the variables of a folder's `.env` that are not taken; empty without any."""
    path = find_dotenv(folder)
    words = "" if path is None else ignored_words(never_taken(read_dotenv(path)))
    return f"{path}: {words}" if words else ""


def additions(values: Mapping[str, str], environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """What a `.env` adds to an environment; raises ConfigError for an address without its key."""
    refused = set(never_taken(values))
    usual = {k: v for k, v in values.items() if k not in refused and k not in environ}
    added, problems = dict(usual), list[Problem]()
    for name in filter(_is_address, usual):
        own = {key: values.get(key, "") for key in _keys_beside(name, values, environ)}
        if _is_dangerous(name, own, environ):
            problems.append(_without_key(name, [*own], path))
        elif any(own.values()):
            # Also over keys of the environment, which are for another address.
            added |= own
    if problems:
        raise ConfigError(problems)
    return added


def _is_address(name: str) -> bool:
    return name in _providers_addresses() or bool(_ADDRESS.fullmatch(name))


def _providers_addresses() -> dict[str, tuple[str, ...]]:
    """By variable, the names of the keys that are sent to such an address."""
    rows = {name: row.key_variables for row in all_providers() for name in row.address_variables}
    return {**rows, AWP_ADDRESS: (AWP_KEY,)}


def _keys_beside(
    name: str, values: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The keys that a program would send to this address."""
    if (known := _providers_addresses().get(name)) is not None:
        return known
    match = _ADDRESS.fullmatch(name)
    assert match is not None
    start = f"{match['stem']}_"
    related = (each for each in {**environ, **values} if each.startswith(start))
    return tuple(sorted(each for each in related if _CREDENTIAL.fullmatch(each)))


def _is_dangerous(name: str, own: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether a key of the environment could be sent to this address of a `.env`.

    A provider's library may know other keys and logins than burnish does: without a key beside
    it, its address is refused whatever is in the environment.
    """
    if name in _providers_addresses():
        return not any(own.values())
    return any(environ.get(key) and not value for key, value in own.items())


def _without_key(name: str, keys: list[str], path: Path) -> Problem:
    beside = f"write {' or '.join(keys)} beside it, or " if keys else ""
    return Problem(
        where=str(path),
        message=f"{name} has no key of its own there: the keys of your environment are not for it",
        remedy=f"{beside}set {name} in your environment, or remove it from this file",
    )


# -- Where variables came from ---------------------------------------------------------------------


def origin_of(name: str) -> Path | None:
    """The `.env` that a variable of this process came from; None for the user's own."""
    loaded = _loaded.get(name)
    return loaded.path if loaded is not None and os.environ.get(name) == loaded.value else None


_HOST_PART = re.compile(r"(?:[^/?#]*://)?[^/?#]*")


def address_origin(text: str) -> Path | None:
    """The `.env` that decides which host a written address leads to, if one does."""
    host = _HOST_PART.match(text)
    return next(filter(None, map(origin_of, variables_in(host[0]))), None) if host else None


def require_own_keys(address: str, texts: Iterable[str]) -> None:
    """Refuse an address from a `.env` that would be sent values of the user's environment."""
    path = address_origin(address)
    names = dict.fromkeys(name for text in texts for name in variables_in(text))
    if path is not None and (foreign := [name for name in names if origin_of(name) != path]):
        message = f"the address {address} is from {path}, but {', '.join(foreign)} is not"
        remedy = f"write both in that {DOTENV}, or set both in your environment"
        raise ConfigError([Problem(message=message, remedy=remedy)])
