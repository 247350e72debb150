"""What `burnish doctor` finds out: what is there, what is not, and what to do about it."""

import json
import os
import platform
import shutil
import sqlite3
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from http.client import HTTPException
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from socket import gaierror
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias, cast
from urllib.error import HTTPError, URLError
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from burnish.core.errors import BurnishError
from burnish.journal.sqlite_store import connect, prepare
from burnish.models.embedded.files import KNOWN, find_model, require_model
from burnish.models.errors import ModelRefused
from burnish.models.keys import WHERE, find_dotenv, read_dotenv
from burnish.models.providers import HealthRequest, Provider, ProviderProtocol, all_providers
from burnish.system import Redactor, file_system_of, is_network_file_system
from burnish.version import VERSION

_State: TypeAlias = Literal["ok", "absent", "wrong"]
"""`absent` is fine where nobody needs it."""


@dataclass(frozen=True, kw_only=True)
class HealthFinding:
    """One thing: how it stands, and what to do about it."""

    area: str
    name: str
    state: _State = "ok"
    told: str
    remedy: str = ""
    needed: bool = False
    """Without it not even the demo runs."""


@dataclass(frozen=True, kw_only=True)
class HealthSite:
    """Where burnish is used: a folder, the user's own state, and the variables in force."""

    folder: Path
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    """Those of the environment and of `.env`."""
    dotenv: Path | None = None
    dotenv_names: frozenset[str] = frozenset()
    """The variables whose values `.env` gives."""
    dotenv_trouble: str = ""
    addresses: Mapping[str, str] = field(
        default_factory=lambda: {row.name: row.address for row in all_providers()}
    )
    """Where each provider is."""

    @classmethod
    def of(cls, folder: Path, home: Path, environ: Mapping[str, str]) -> "HealthSite":
        """With what `.env` adds; the environment goes before it."""
        path = find_dotenv(folder)
        values: dict[str, str] = {}
        trouble = ""
        try:
            values = {} if path is None else read_dotenv(path)
        except BurnishError as error:
            trouble = str(error)
        merged = {**values, **environ}
        return cls(
            folder=folder,
            home=home,
            environ=merged,
            dotenv=path,
            dotenv_names=frozenset(name for name in values if merged[name] == values[name]),
            dotenv_trouble=trouble,
        )

    def source(self, name: str) -> str:
        """Where the value of a variable comes from."""
        return ".env" if name in self.dotenv_names else "environment"


_MOST_BYTES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class _HealthProbe:
    """One question to one address."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    seconds: float = 3.0
    proxied: bool = True
    """Through the proxy of the environment; not for this machine."""


@dataclass(frozen=True, kw_only=True)
class _ProbeAnswer:
    """What came back: a status with its body, or why nothing did."""

    status: int = 0
    body: bytes = b""
    trouble: str = ""

    def count(self, name: str) -> int:
        """How many things the body lists under this name."""
        try:
            data = json.loads(self.body)
        except ValueError:
            return 0
        listed = cast("dict[str, Any]", data).get(name) if isinstance(data, dict) else None
        return len(cast("list[Any]", listed)) if isinstance(listed, list) else 0


def _ask_all(probes: Sequence[_HealthProbe], *, seconds: float) -> dict[str, _ProbeAnswer]:
    """What each one answers within these seconds, whatever hangs: a name server may, too."""
    heard: dict[str, _ProbeAnswer] = {}
    asking = [threading.Thread(target=_note, args=(p, heard), daemon=True) for p in probes]
    until = time.monotonic() + seconds
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(max(0.0, until - time.monotonic()))
    late = _ProbeAnswer(trouble=f"no answer within {seconds:g} s")
    in_time = dict(heard)
    return {probe.name: in_time.get(probe.name, late) for probe in probes}


def _ask(probe: _HealthProbe) -> _ProbeAnswer:
    """One answer. What goes wrong is told in our words: theirs may show a header."""
    try:
        request = Request(probe.url, headers=dict(probe.headers))  # noqa: S310
        with _opener(probe).open(request, timeout=probe.seconds) as response:
            return _ProbeAnswer(status=response.status, body=response.read(_MOST_BYTES))
    except HTTPError as error:
        with error:
            return _ProbeAnswer(status=error.code)
    except (OSError, HTTPException) as error:
        return _ProbeAnswer(trouble=_trouble(error, probe.seconds))
    except ValueError:
        return _ProbeAnswer(trouble="the address or the key has characters that cannot be sent")


def _note(probe: _HealthProbe, heard: dict[str, _ProbeAnswer]) -> None:
    heard[probe.name] = _ask(probe)


def _opener(probe: _HealthProbe) -> OpenerDirector:
    """One that follows no redirect: the key would go along."""
    opener = OpenerDirector()
    for handler in (
        ProxyHandler(None if probe.proxied else {}),
        HTTPHandler(),
        HTTPSHandler(),
        HTTPErrorProcessor(),
        HTTPDefaultErrorHandler(),
        UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _trouble(error: OSError | HTTPException, seconds: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(cause, gaierror):
        return "its name is not known here; is there a network?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted here"
    if isinstance(cause, ConnectionRefusedError):
        return "nobody listens there"
    return "it cannot be reached"


_EMBEDDED = "smollm2"
_LOCAL_SECONDS = 1.0
_SECONDS = 3.5
_REFUSALS = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}


def _embedded(site: HealthSite) -> HealthFinding:
    """Whether the file of the embedded model is here, and whole."""
    finding = HealthFinding(
        area="models", name=f"local:{_EMBEDDED}", told=KNOWN[_EMBEDDED].description
    )
    try:
        require_model(_EMBEDDED, site.environ)
    except ModelRefused as error:
        state = "absent" if find_model(_EMBEDDED, site.environ) is None else "wrong"
        return replace(finding, state=state, told=error.message, remedy=error.remedy)
    return finding


def _local_services(site: HealthSite) -> Iterator[HealthFinding]:
    """Whether the services of this machine answer."""
    rows = [row for row in all_providers() if _is_service(row)]
    yield from _local(site, rows, _ask_all(_probes(site, rows), seconds=_LOCAL_SECONDS))


def _online(site: HealthSite) -> Iterator[HealthFinding]:
    """Whether the services of this machine and every provider whose key is there answer.

    All are asked at once.
    """
    rows = all_providers()
    services = [row for row in rows if _is_service(row)]
    heard = _ask_all(_probes(site, rows), seconds=_SECONDS)
    yield from _local(site, services, heard)
    for row in rows:
        if row in services or row.protocol == "embedded":
            continue
        yield _remote(row, heard[row.name]) if row.name in heard else _not_asked(row)


def _is_service(row: Provider) -> bool:
    return row.is_local and row.probe is not None


def _probes(site: HealthSite, rows: Sequence[Provider]) -> list[_HealthProbe]:
    probes = (_probe(site, row, row.probe) for row in rows if row.probe is not None)
    return [probe for probe in probes if probe is not None]


def _probe(site: HealthSite, row: Provider, request: HealthRequest) -> _HealthProbe | None:
    """What is sent, with the key where one is needed; None where there is no key."""
    url = f"{site.addresses[row.name].removesuffix(request.drop)}{request.path}"
    if row.is_local:
        return _HealthProbe(name=row.name, url=url, seconds=_LOCAL_SECONDS, proxied=False)
    values = (site.environ.get(name, "").strip() for name in row.key_variables)
    key = next(filter(None, values), None)
    if key is None and row.key_optional != "always":
        return None
    headers = dict(request.headers)
    if key is not None and request.key_header:
        headers[request.key_header] = f"{request.key_prefix}{key}"
    return _HealthProbe(name=row.name, url=url, headers=headers)


def _local(
    site: HealthSite, rows: Sequence[Provider], heard: Mapping[str, _ProbeAnswer]
) -> Iterator[HealthFinding]:
    for row in rows:
        assert row.probe is not None
        where = site.addresses[row.name].removesuffix(row.probe.drop)
        yield _service(row, where, heard[row.name], row.probe.listing)


def _service(row: Provider, where: str, heard: _ProbeAnswer, listing: str) -> HealthFinding:
    finding = HealthFinding(area="models", name=f"{row.name}:…", told="")
    if heard.status == HTTPStatus.OK:
        return replace(finding, told=f"answers at {where}; models: {heard.count(listing)}")
    trouble = heard.trouble or f"something else is there (HTTP {heard.status})"
    return replace(finding, state="absent", told=f"{where}: {trouble}", remedy=row.start_hint)


def _remote(row: Provider, heard: _ProbeAnswer) -> HealthFinding:
    finding = HealthFinding(area="models", name=f"{row.name}:…", told="answers, and takes the key")
    if heard.status == HTTPStatus.OK:
        return finding
    wrong = replace(finding, state="wrong")
    if heard.status in _REFUSALS:
        remedy = f"check the key in {' or '.join(row.key_variables)}"
        return replace(wrong, told=f"refuses the key (HTTP {heard.status})", remedy=remedy)
    if heard.status:
        return replace(wrong, told=f"answers HTTP {heard.status}", remedy="try again later")
    remedy = "check the network, and HTTPS_PROXY if there is a proxy"
    return replace(wrong, told=heard.trouble, remedy=remedy)


def _not_asked(row: Provider) -> HealthFinding:
    reason = row.unprobed if row.probe is None else "not asked: there is no key"
    return HealthFinding(area="models", name=f"{row.name}:…", state="absent", told=reason)


_LIBRARIES = ("genai-prices", "pydantic", "pydantic-ai-slim", "rich", "ruamel.yaml", "typer")
_EXTRAS: Mapping[str, tuple[str, tuple[ProviderProtocol, ...]]] = {
    "openai": ("openai", ("openai", "azure")),
    "anthropic": ("anthropic", ("anthropic",)),
    "google": ("google-genai", ("google",)),
    "local": ("xllamacpp", ("embedded",)),
}
"""By extra: the library it brings, and the protocols that need it."""
_LEAST_FREE = 200 * 2**20


def examine(site: HealthSite, *, ask_providers: bool = False) -> list[HealthFinding]:
    """Everything, in a few seconds at most. No finding holds a key, or says how long one is."""
    redactor = Redactor.from_environment(site.environ)
    findings = [
        *_machine(),
        *_storage(site),
        *_libraries(),
        *_keys(site),
        _embedded(site),
        *(_online(site) if ask_providers else _local_services(site)),
    ]
    return [_redacted(finding, redactor) for finding in findings]


def is_healthy(findings: Sequence[HealthFinding]) -> bool:
    """Whether what the offline demo needs is there."""
    return all(finding.state == "ok" for finding in findings if finding.needed)


def _machine() -> Iterator[HealthFinding]:
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield HealthFinding(area="machine", name="burnish", told=VERSION, needed=True)
    yield HealthFinding(area="machine", name="Python", told=system, needed=True)


def _storage(site: HealthSite) -> Iterator[HealthFinding]:
    yield _journal(site.folder)
    yield _space(site.folder)
    yield _home(site.home)


def _journal(folder: Path) -> HealthFinding:
    """A journal is made in this folder for a moment: only that shows whether it can be."""
    finding = HealthFinding(area="storage", name="journal", told="", needed=True)
    kind = file_system_of(folder) or "unknown file system"
    network = is_network_file_system(folder)
    try:
        mode = _journal_mode(folder, wal=not network)
    except (BurnishError, OSError, sqlite3.Error):
        message = f"this folder cannot hold one ({kind})"
        remedy = "work in a folder on a local disk that you can write to"
        return replace(finding, state="wrong", told=message, remedy=remedy)
    message = f"SQLite {sqlite3.sqlite_version}, {mode} mode in this folder ({kind})"
    remedy = "a local disk is faster and safer" if network else ""
    return replace(finding, told=message, remedy=remedy)


def _journal_mode(folder: Path, *, wal: bool) -> str:
    with TemporaryDirectory(prefix=".burnish-doctor-", dir=folder) as spare:
        path = Path(spare) / "journal.db"
        with closing(connect(path, wal=wal)) as db:
            prepare(db, path)
            return str(db.execute("PRAGMA journal_mode").fetchone()[0])


def _space(folder: Path) -> HealthFinding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        free = 0
    finding = HealthFinding(area="storage", name="disk", told=f"{free / 2**30:.1f} GB free here")
    if free >= _LEAST_FREE:
        return finding
    return replace(finding, state="wrong", remedy="free some space before a long run")


def _home(home: Path) -> HealthFinding:
    finding = HealthFinding(area="storage", name="home", told=_short(home), needed=True)
    there = next(path for path in (home, *home.parents) if os.access(path, os.F_OK))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return finding
    remedy = "set BURNISH_HOME to a folder that you can write to"
    return replace(finding, state="wrong", told=f"cannot write to {_short(home)}", remedy=remedy)


def _libraries() -> Iterator[HealthFinding]:
    for name in _LIBRARIES:
        if (installed := _version(name)) is None:
            remedy = "install burnish again: pip install --force-reinstall burnish"
            missing = HealthFinding(
                area="libraries", name=name, told="not installed", remedy=remedy
            )
            yield replace(missing, state="wrong", needed=True)
        else:
            yield HealthFinding(area="libraries", name=name, told=installed, needed=True)
    for extra, (name, protocols) in _EXTRAS.items():
        yield _extra(extra, name, _purpose(protocols))


def _extra(extra: str, name: str, purpose: str) -> HealthFinding:
    finding = HealthFinding(area="libraries", name=name, told=f"{_version(name)}, for {purpose}")
    if _version(name) is not None:
        return finding
    remedy = f"for {purpose}: pip install 'burnish[{extra}]'"
    return replace(finding, state="absent", told="not installed", remedy=remedy)


def _purpose(protocols: tuple[ProviderProtocol, ...]) -> str:
    """What a library is for, by the providers that need it."""
    if "embedded" in protocols:
        return "the embedded model"
    names = ", ".join(row.name for row in all_providers() if row.protocol in protocols)
    return f"{names} and compatible endpoints" if "openai" in protocols else names


def _keys(site: HealthSite) -> Iterator[HealthFinding]:
    if site.dotenv is not None:
        yield _dotenv(site, site.dotenv)
    for row in all_providers():
        names = row.key_variables
        held = [name for name in names if site.environ.get(name, "").strip()]
        for name in held:
            yield HealthFinding(area="keys", name=name, told=f"set, from {site.source(name)}")
        if names and not held:
            also = f" (or {', '.join(names[1:])})" if names[1:] else ""
            remedy = f"for {row.name}:… models, set it{also} {WHERE}"
            absent = HealthFinding(area="keys", name=names[0], told="not set", remedy=remedy)
            yield replace(absent, state="absent")


def _dotenv(site: HealthSite, path: Path) -> HealthFinding:
    if site.dotenv_trouble:
        return HealthFinding(area="keys", name=".env", state="wrong", told=site.dotenv_trouble)
    return HealthFinding(area="keys", name=".env", told=_short(path))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _short(path: Path) -> str:
    """With `~` for the user's folder."""
    own = Path.home()
    return f"~/{path.relative_to(own)}" if path.is_relative_to(own) else str(path)


def _redacted(finding: HealthFinding, redactor: Redactor) -> HealthFinding:
    message, remedy = redactor.text(finding.told), redactor.text(finding.remedy)
    return replace(finding, told=message, remedy=remedy)
