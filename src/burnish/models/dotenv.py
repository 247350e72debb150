"""`.env` files: what they contain, and what a folder's file may decide.

A `.env` may have been written by somebody else. So it adds variables to the environment, but never
says where a key of the user's own environment goes: an address is taken only together with its key,
and proxies, certificates and what programs load are never taken.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.models.providers import all_providers
from burnish.system import read_text
from burnish.system.variables import expand_variables, variables_in

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
    r"|PG(?!(?:USER|PASSWORD|DATABASE|APPNAME|OPTIONS|TZ|DATESTYLE|CLIENTENCODING)$)[A-Z]+"
    r"|SSH_(?:AUTH_SOCK|ASKPASS\w*)|LANGSMITH_(?:GATEWAY|CONFIG_FILE|PROFILE)|\w+_CERT_PATH"
    r"|DOCKER_(?:HOST|CONFIG|CONTEXT|TLS\w*|CERT_PATH)|CONTAINER_HOST|KUBECONFIG"
    # Which logins of clouds are used: their files say what is read or run, and where it is sent.
    r"|GOOGLE_CLOUD_UNIVERSE_DOMAIN|GOOGLE_APPLICATION_CREDENTIALS|GOOGLE_EXTERNAL_ACCOUNT_\w+"
    r"|GCE_METADATA_\w+|CLOUDSDK_\w+|AZURE_AUTHORITY_HOST|AZURE_CONFIG_DIR|(?:MSI|IDENTITY)_ENDPOINT"
    r"|AWS_(?:CONFIG|SHARED_CREDENTIALS)_FILE|AWS_(?:CONTAINER|EC2_METADATA)_\w+|AWS_DATA_PATH"
    r"|BOTO_CONFIG|BOTOCORE_\w+|GOOGLE_API_CERTIFICATE_CONFIG|GOOGLE_AUTH_WEBAUTHN_PLUGIN"
    r"|ANTHROPIC_(?:CONFIG_DIR|PROFILE)|\w+_TOKEN_FILE"
    # What programs load or run before they do anything.
    r"|PATH|HOME|SHELL|TMPDIR|TE?MP|USERPROFILE|(?:LOCAL)?APPDATA|XDG_\w+"
    r"|BASH_ENV|SHELLOPTS|BASHOPTS|PS4|ZDOTDIR|BROWSER|EDITOR|VISUAL|PAGER|LESS(?:OPEN|CLOSE)"
    r"|LD_\w+|DYLD_\w+|GCONV_PATH|GLIBC_TUNABLES|MAKEFLAGS|MAKEFILES"
    r"|PYTHON\w*|PYTEST_(?:ADDOPTS|PLUGINS)|COVERAGE_\w+|PIP_\w+|UV_\w+|DASK_\w+"
    r"|PERL5\w*|RUBY(?:OPT|LIB)|CLASSPATH|(?:JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|DOTNET_STARTUP_HOOKS|LUA_\w+|PHPRC"
    r"|NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|NPM_CONFIG_\w+"
    r"|GIT_(?:SSH\w*|CONFIG\w*|EXEC_PATH|ASKPASS|PROXY_COMMAND|\w*EDITOR|PAGER|EXTERNAL_DIFF)"
    r"|GIT_(?:TEMPLATE_DIR|DIR|COMMON_DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|TRACE\w*)"
    # What burnish itself does: its settings come from flags, files and the environment.
    r"|BURNISH_(?!\w*TOKEN$)\w+",
    re.IGNORECASE | re.ASCII,
)
_ADDRESS = re.compile(
    r"(?P<stem>\w+?)(?:_(?:TRACES|METRICS|LOGS))?"
    r"_(?:BASE_URL|API_BASE|API_URL|ENDPOINT(?:_URL\w*)?|HOST|URL|URI|SERVER|ADDRESS)",
    re.ASCII,
)
"""A variable in capitals that says where a service is, by its name."""
_WEB_ADDRESS = re.compile(r"\s*(?:https?|wss?|grpcs?)://", re.IGNORECASE)
"""Whatever a variable with such a value is called, a library may send a key there."""
_CREDENTIAL = re.compile(
    r"\w+_(?:\w*KEY(?:_ID)?|\w*TOKEN|\w*SECRET|\w*PASSWORD|\w*HEADERS|\w*AUTH|\w*CREDENTIALS?)",
    re.ASCII,
)
_ONE_SERVICE = (
    ("LANGCHAIN_", "LANGSMITH_"),
    ("GOOGLE_GEMINI_", "GOOGLE_GENAI_", "GOOGLE_API_", "GEMINI_"),
    ("AWS_", "BEDROCK_", "ANTHROPIC_BEDROCK_"),
    ("HF_", "HUGGINGFACE_", "HUGGING_FACE_", "HUGGINGFACEHUB_"),
    ("CO_", "COHERE_"),
    ("GITHUB_", "GH_", "COPILOT_"),
    ("PAIG_", "PYDANTIC_AI_GATEWAY_"),
    ("PHOENIX_",),
    ("ARIZE_",),
)
"""Beginnings of variables that belong together: libraries read addresses and keys with each."""
_WITH_A_LOGIN = re.compile(r"(?:AWS|ANTHROPIC|HF)_\w+|GOOGLE_\w+_(?:BASE_URL|ENDPOINT)", re.ASCII)
"""Addresses whose libraries may find a login in a file of the user."""
_KEYS_OF_LOGINS = {"bedrock": ("AWS_SECRET_ACCESS_KEY",)}
"""By protocol, the keys that only the library of the provider reads."""
_PART_OF_A_HOST = re.compile(
    r"GOOGLE_CLOUD_LOCATION|CLOUD_ML_REGION|AWS_\w*REGION|ANTHROPIC_\w+_(?:LOCATION|RESOURCE)"
    r"|SNOWFLAKE_ACCOUNT",
    re.IGNORECASE | re.ASCII,
)
"""A variable that libraries put into the name of a host."""


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
    values = read_dotenv(path)
    if environ is os.environ:
        _refuse_foreign_addresses(values, path)
    new = additions(values, environ, path)
    environ.update(new)
    if environ is os.environ:
        _loaded.update({name: _Loaded(value, path) for name, value in new.items()})
    return list(new)


def _refuse_foreign_addresses(values: Mapping[str, str], path: Path) -> None:
    """Refuse a `.env` in a process where that of another folder says where its keys go."""
    problems = [
        Problem(
            where=str(path),
            message=f"{each} is for another address than {name} from {origin}",
            remedy="use these two folders in separate processes",
        )
        for name, loaded in _loaded.items()
        if _is_address(name, loaded.value)
        if (origin := origin_of(name)) not in (None, path)
        for each in dict.fromkeys((name, *_keys_beside(name, values, {})))
        if values.get(each) and values[each] != os.environ.get(each)
    ]
    if problems:
        raise ConfigError(problems)


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


def ignored_words(names: Iterable[str]) -> str:
    """Which of these variables a `.env` cannot set, in words; empty if it can set all."""
    listed = ", ".join(filter(_NEVER_TAKEN.fullmatch, names))
    return f"not taken from a {DOTENV}, only from your environment: {listed}" if listed else ""


def ignored_in(folder: Path) -> str:
    """A note about the variables of a folder's `.env` that are not taken; empty without any."""
    path = find_dotenv(folder)
    words = "" if path is None else ignored_words(read_dotenv(path))
    return f"{path}: {words}" if words else ""


def additions(values: Mapping[str, str], environ: Mapping[str, str], path: Path) -> dict[str, str]:
    """What a `.env` adds to an environment; raises ConfigError for an address without its key."""
    usual = {
        name: value
        for name, value in values.items()
        if name not in environ and not _NEVER_TAKEN.fullmatch(name)
    }
    added, problems = dict(usual), [*_other_hosts(usual, path)]
    for name in (each for each, value in usual.items() if _is_address(each, value)):
        own = {key: values.get(key, "").strip() for key in _keys_beside(name, values, environ)}
        if _is_dangerous(name, own, environ):
            problems.append(_without_key(name, [*own], path))
        elif any(own.values()):
            # Also over keys of the environment, which are for another address.
            added |= own
    if problems:
        raise ConfigError(problems)
    return added


def _other_hosts(values: Mapping[str, str], path: Path) -> Iterator[Problem]:
    """What would lead to another host, where a library expects the name of a region."""
    for name, value in values.items():
        if _PART_OF_A_HOST.fullmatch(name) and not re.fullmatch(r"[\w.-]*", value, re.ASCII):
            message = f"{name} is not a name that can be a part of a host"
            yield Problem(where=str(path), message=message, remedy="write a name such as us-east-1")


def _is_address(name: str, value: str) -> bool:
    # On Windows, and for some libraries, the case does not matter.
    name = name.upper()
    is_named_so = name in _providers_addresses() or _ADDRESS.fullmatch(name) is not None
    return is_named_so or _WEB_ADDRESS.match(value) is not None


def _providers_addresses() -> dict[str, tuple[str, ...]]:
    """By variable, the names of the keys that are sent to such an address."""
    rows = {
        name: row.key_variables + _KEYS_OF_LOGINS.get(row.protocol, ())
        for row in all_providers()
        for name in row.address_variables
    }
    return {**rows, AWP_ADDRESS: (AWP_KEY,)}


def _keys_beside(
    name: str, values: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The keys that a program might send to this address, those that burnish sends first."""
    known, match = _providers_addresses().get(name.upper(), ()), _ADDRESS.fullmatch(name.upper())
    stem = match["stem"] if match is not None else name.upper().partition("_")[0]
    starts = _beginnings(f"{stem}_")
    related = (each for each in {**environ, **values} if each.upper().startswith(starts))
    keys = sorted(each for each in related if _CREDENTIAL.fullmatch(each.upper()))
    return tuple(dict.fromkeys((*known, *keys)))


def _beginnings(start: str) -> tuple[str, ...]:
    """How the variables of a service begin, if those of its address begin like this."""
    same = (names for names in _ONE_SERVICE if start.startswith(names))
    return start, *chain.from_iterable(same)


def _is_dangerous(name: str, own: Mapping[str, str], environ: Mapping[str, str]) -> bool:
    """Whether a key of the environment could be sent to this address of a `.env`.

    A provider's library may know other keys and logins than burnish does: without a key beside
    it, its address is refused whatever is in the environment.
    """
    known = _providers_addresses().get(name.upper())
    if known is not None:
        return not any(own[key] for key in known)
    if _WITH_A_LOGIN.fullmatch(name.upper()) and not any(own.values()):
        return True
    return any(environ.get(key) and not value for key, value in own.items())


def _without_key(name: str, keys: list[str], path: Path) -> Problem:
    keys = [*_providers_addresses().get(name.upper(), keys)]
    beside = f"write {' or '.join(keys)} beside it, or " if keys else ""
    message = f"{name} has no key of its own there: the keys of your environment are not for it"
    if not keys:
        message = f"{name} says where a service without a key is, which this file may not decide"
    return Problem(
        where=str(path),
        message=message,
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


def require_own_keys(address: str, texts: Iterable[str] = ()) -> None:
    """Refuse an address from a `.env` that would be sent values of the user's environment.

    The address itself is sent too: its path and its query may hold such a value.
    """
    path = address_origin(address)
    names = dict.fromkeys(name for text in (address, *texts) for name in variables_in(text))
    if path is not None and (foreign := [name for name in names if origin_of(name) != path]):
        message = f"the address {address} is from {path}, but {', '.join(foreign)} is not"
        remedy = f"write both in that {DOTENV}, or set both in your environment"
        raise ConfigError([Problem(message=message, remedy=remedy)])


def require_own_addresses(texts: Iterable[str]) -> None:
    """Refuse what a program is given if an address in it is from a `.env`, and a value is not.

    The program may send everything that it is given to that address.
    """
    given = [*texts]
    for text in given:
        for address in re.split(r"[\s=]", text):
            is_address = _WEB_ADDRESS.match(expand_variables(address, os.environ))
            if is_address and address_origin(address) is not None:
                require_own_keys(address, given)
