"""`${VAR}` in texts: what it stands for, and which of these values are secrets of a run."""

import os
import re
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pydantic import JsonValue

from burnish.core.errors import ConfigError, Problem

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
LEAST_SECRET = 8
"""The minimum length of a value that may be a key; `1` and `true` are not."""
_OF_THE_MACHINE = frozenset(
    ("HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER", "VIRTUAL_ENV")
)
"""Variables that every program has: their values are parts of paths, and no keys."""


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """The text with each `${NAME}` replaced by that variable's value."""
    missing = [
        Problem(
            message=f"the environment variable {name} is not set",
            remedy=f"set it before you start: export {name}=…",
        )
        for name in dict.fromkeys(variables_in(text))
        if name not in environ
    ]
    if missing:
        raise ConfigError(missing)
    return _VARIABLE.sub(lambda match: environ[match[1]], text)


def variables_in(text: str) -> list[str]:
    """The names that `expand_variables` would replace in a text."""
    return _VARIABLE.findall(text)


# -- Secrets ---------------------------------------------------------------------------------------


def expanded_secrets(sent: JsonValue, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """The secrets that variables bring into what is sent: headers, bodies, addresses, arguments.

    Every value of eight characters or more is one, whatever its variable is called. Addresses are
    none, nor are hosts; what they hold of a login or a query is.
    """
    env = os.environ if environ is None else environ
    if isinstance(sent, str):
        yield from _expanded_in(sent, env)
    elif isinstance(sent, list):
        for item in sent:
            yield from expanded_secrets(item, env)
    elif isinstance(sent, dict):
        for item in sent.values():
            yield from expanded_secrets(item, env)


def _expanded_in(text: str, env: Mapping[str, str]) -> Iterator[str]:
    def plain(part: str) -> str:
        return _VARIABLE.sub(lambda match: env.get(match[1], ""), part)

    for match in _VARIABLE.finditer(text):
        if match[1] in _OF_THE_MACHINE:
            continue
        value = env.get(match[1], "").strip()
        is_host = _names_host(plain(text[: match.start()]), plain(text[match.end() :]))
        yield from secrets_in(f"https://{value}" if is_host and "://" not in value else value)


def secrets_in(value: str) -> Iterator[str]:
    """What must not be stored of a value that is sent: all of it, unless it is an address."""
    parts = _split(value)
    if parts is None:
        # Whoever is sent `Bearer abc…` may repeat the key alone.
        yield from _long_ones(value, value.rpartition(" ")[2])
        return
    login = parts.netloc.rpartition("@")[0]
    pieces = (login, *login.split(":", 1), *(value for _, value in parse_qsl(parts.query)))
    yield from _long_ones(*pieces, *map(unquote, pieces))


def has_login(address: str) -> bool:
    """Whether a web address has `user:password@`, which would be shown wherever it is."""
    parts = _split(address)
    return parts is not None and "@" in parts.netloc


def refuse_login(address: str, where: str, instead: str) -> None:
    """Refuse an address with a login; `instead` is where the login belongs."""
    if has_login(address):
        message = "the address has a user and password in it, which would be shown with it"
        raise ConfigError.of(where, message, f"leave them out, and {instead}")


def _split(address: str) -> SplitResult | None:
    """The parts of an address; None if it is none."""
    try:
        parts = urlsplit(address.strip())
    except ValueError:
        return None
    is_address = parts.scheme and parts.netloc and not re.search(r"\s", address.strip())
    return parts if is_address else None


def _names_host(before: str, after: str) -> bool:
    """Whether what stands between these is the host of an address, or a part of it."""
    _, is_address, rest = before.rpartition("://")
    in_front = bool(is_address) and re.fullmatch(r"[\w.:@-]*", rest) is not None
    return in_front and "@" not in re.split(r"[/?#\s]", after)[0]


def _long_ones(*values: str) -> Iterator[str]:
    yield from (value for value in dict.fromkeys(values) if len(value) >= LEAST_SECRET)
