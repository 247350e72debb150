"""What `burnish doctor` checks: what is there, what is missing, and what to do about it."""

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
from pathlib import Path
from socket import gaierror
from tempfile import TemporaryDirectory
from typing import Any, Literal, cast
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
from burnish.models.capabilities import remembered
from burnish.models.dotenv import (
    WHERE,
    additions,
    find_dotenv,
    ignored_words,
    read_dotenv,
)
from burnish.models.embedded.files import KNOWN, find_model, require_model
from burnish.models.endpoints import missing_extra
from burnish.models.errors import ModelRefused
from burnish.models.providers import BUILT_IN, HealthRequest, Provider, all_providers
from burnish.models.references import usual_address
from burnish.system import Redactor, file_system_of, is_network_file_system
from burnish.system.extras import (
    all_extras,
    extra_named,
    install_command,
    installed_version,
    own_packages,
)
from burnish.system.sandbox import probe_bubblewrap, probe_landlock
from burnish.version import VERSION


@dataclass(frozen=True, kw_only=True)
class HealthFinding:
    """One finding: its state, and what to do about it."""

    area: str
    name: str
    state: Literal["ok", "absent", "wrong"] = "ok"
    """`absent` is fine if nothing needs it."""
    told: str
    remedy: str = ""
    needed: bool = False
    """Whether burnish does not work without it."""


@dataclass(frozen=True, kw_only=True)
class HealthSite:
    """Where burnish is used: a folder, the user's state folder, and the environment."""

    folder: Path
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    """The variables of the environment and of `.env`."""
    dotenv: Path | None = None
    dotenv_names: frozenset[str] = frozenset()
    """The variables whose values come from `.env`."""
    dotenv_ignored: str = ""
    """Which variables there a `.env` cannot set, in words."""
    dotenv_trouble: str = ""

    @classmethod
    def of(cls, folder: Path, home: Path, environ: Mapping[str, str]) -> "HealthSite":
        """With the variables of `.env`; the environment has precedence."""
        path = find_dotenv(folder)
        values, merged = dict[str, str](), dict(environ)
        trouble = ""
        try:
            if path is not None:
                values = read_dotenv(path)
                merged |= additions(values, environ, path)
        except BurnishError as error:
            trouble = str(error)
        return cls(
            folder=folder,
            home=home,
            environ=merged,
            dotenv=path,
            dotenv_names=frozenset(n for n, value in values.items() if merged.get(n) == value),
            dotenv_ignored=ignored_words(values),
            dotenv_trouble=trouble,
        )

    def address(self, row: Provider) -> str:
        return usual_address(row, self.environ)


@dataclass(frozen=True, kw_only=True)
class _HealthProbe:
    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    seconds: float = 3.0
    proxied: bool = True
    """Whether to use the environment's proxy; not for this machine."""


@dataclass(frozen=True, kw_only=True)
class _ProbeAnswer:
    """A status with its body, or why there is none."""

    status: int = 0
    body: bytes = b""
    trouble: str = ""


def _ask_all(probes: Sequence[_HealthProbe], *, seconds: float) -> dict[str, _ProbeAnswer]:
    """The answers within these seconds, whatever hangs: even a name server may."""
    answers: dict[str, _ProbeAnswer] = {}

    def ask(probe: _HealthProbe) -> None:
        answers[probe.name] = _ask(probe)

    threads = [threading.Thread(target=ask, args=(probe,), daemon=True) for probe in probes]
    until = time.monotonic() + seconds
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = _ProbeAnswer(trouble=f"no answer within {seconds:g} s")
    in_time = dict(answers)
    return {probe.name: in_time.get(probe.name, late) for probe in probes}


def _ask(probe: _HealthProbe) -> _ProbeAnswer:
    """One answer. Errors are in our own words: the originals may contain a header."""
    try:
        request = Request(probe.url, headers=dict(probe.headers))  # noqa: S310
        with _opener(probe).open(request, timeout=probe.seconds) as response:
            return _ProbeAnswer(status=response.status, body=response.read(1_000_000))
    except HTTPError as error:
        with error:
            return _ProbeAnswer(status=error.code)
    except (OSError, HTTPException) as error:
        return _ProbeAnswer(trouble=_trouble(error, probe.seconds))
    except ValueError:
        return _ProbeAnswer(trouble="the address or the key has characters that cannot be sent")


def _opener(probe: _HealthProbe) -> OpenerDirector:
    """An opener that follows no redirects: the key would be sent along."""
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
        return "its name cannot be resolved; is there a network?"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "its certificate is not trusted here"
    if isinstance(cause, ConnectionRefusedError):
        return "nothing is listening there"
    return "it cannot be reached"


_LOCAL_SECONDS = 1.0
_EMBEDDED = next(row for row in BUILT_IN if row.protocol == "embedded")


def embedded_model(site: HealthSite) -> HealthFinding:
    """The model that runs inside burnish: its file, and the library that it needs."""
    name = "smollm2"
    finding = HealthFinding(area="models", name=f"local:{name}", told=KNOWN[name].description)
    try:
        require_model(name, site.environ)
    except ModelRefused as error:
        state = "absent" if find_model(name, site.environ) is None else "wrong"
        extra = missing_extra(_EMBEDDED)
        remedy = f"{install_command(extra)}, then {error.remedy}" if extra else error.remedy
        return replace(finding, state=state, told=error.message, remedy=remedy)
    if extra := missing_extra(_EMBEDDED):
        message = "its file is here, but not the library that runs it"
        return replace(finding, state="absent", told=message, remedy=install_command(extra))
    return finding


def served_models(site: HealthSite) -> dict[str, tuple[str, ...]]:
    """The models that local services such as Ollama offer now, by provider."""
    rows = [row for row in all_providers() if row.is_local and row.probe is not None]
    probes = [probe for row in rows if row.probe and (probe := _probe(site, row, row.probe))]
    answers = _ask_all(probes, seconds=_LOCAL_SECONDS)
    return {
        row.name: _listed(answers[row.name], row.probe.listing)
        for row in rows
        if row.probe is not None and answers[row.name].status == HTTPStatus.OK
    }


def _listed(answer: _ProbeAnswer, listing: str) -> tuple[str, ...]:
    """The names in a service's list of models."""
    try:
        data = json.loads(answer.body)
    except ValueError:
        return ()
    rows = cast("dict[str, Any]", data).get(listing) if isinstance(data, dict) else None
    members = cast("list[object]", rows) if isinstance(rows, list) else []
    dicts = (cast("dict[str, Any]", row) for row in members if isinstance(row, dict))
    names = (str(row.get("name") or row.get("id") or "") for row in dicts)
    return tuple(filter(None, names))


def _services(site: HealthSite, *, online: bool) -> Iterator[HealthFinding]:
    """Whether the local services answer; online also every provider whose key is set.

    All are asked at the same time.
    """
    services = [row for row in all_providers() if row.is_local and row.probe is not None]
    rows = all_providers() if online else services
    probes = (_probe(site, row, row.probe) for row in rows if row.probe is not None)
    seconds = 3.5 if online else _LOCAL_SECONDS
    answers = _ask_all([probe for probe in probes if probe is not None], seconds=seconds)
    for row in services:
        assert row.probe is not None
        where = site.address(row).removesuffix(row.probe.drop)
        yield _service(row, where, answers[row.name], row.probe.listing)
    for row in rows:
        if row in services or row.protocol == "embedded":
            continue
        if row.name in answers:
            yield _remote(row, answers[row.name])
        else:
            reason = row.unprobed if row.probe is None else "not checked: there is no key"
            yield HealthFinding(area="models", name=f"{row.name}:…", state="absent", told=reason)


def _checked_models(site: HealthSite) -> Iterator[HealthFinding]:
    """What `burnish models check` found out earlier."""
    for each in remembered(site.home):
        where = f"{each.address}: " if each.address else ""
        state = "ok" if each.form is not None and each.counts_tokens else "wrong"
        remedy = "" if state == "ok" else f"check it again: `burnish models check {each.model}`"
        told = f"{where}{each.summary}"
        yield HealthFinding(area="models", name=each.model, state=state, told=told, remedy=remedy)


def _probe(site: HealthSite, row: Provider, request: HealthRequest) -> _HealthProbe | None:
    """The request, with a key if one is needed; None if there is no key."""
    url = f"{site.address(row).removesuffix(request.drop)}{request.path}"
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


def _service(row: Provider, where: str, answer: _ProbeAnswer, listing: str) -> HealthFinding:
    finding = HealthFinding(area="models", name=f"{row.name}:…", told="")
    if answer.status != HTTPStatus.OK:
        trouble = answer.trouble or f"something else is running there (HTTP {answer.status})"
        return replace(finding, state="absent", told=f"{where}: {trouble}", remedy=row.start_hint)
    finding = replace(finding, told=f"answers at {where}; models: {len(_listed(answer, listing))}")
    return _with_library(finding, row)


def _with_library(finding: HealthFinding, row: Provider) -> HealthFinding:
    """The finding, unless a library is missing without which the model cannot be called."""
    extra = missing_extra(row)
    if not extra:
        return finding
    message = f"{finding.told}, but its library is not installed"
    return replace(finding, state="absent", told=message, remedy=install_command(extra))


def _remote(row: Provider, answer: _ProbeAnswer) -> HealthFinding:
    state, status = "wrong", answer.status
    if status == HTTPStatus.OK:
        state, message, remedy = "ok", "answers and accepts the key", ""
    elif status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        remedy = f"check the key in {' or '.join(row.key_variables)}"
        message = f"refuses the key (HTTP {status})"
    elif status:
        message, remedy = f"answers HTTP {status}", "try again later"
    else:
        message, remedy = answer.trouble, "check the network, and HTTPS_PROXY if there is a proxy"
    finding = HealthFinding(
        area="models", name=f"{row.name}:…", state=state, told=message, remedy=remedy
    )
    return _with_library(finding, row) if state == "ok" else finding


_DEMO = ("local", "numeric")
"""The extras that the offline demo needs."""


def examine(site: HealthSite, *, ask_providers: bool = False) -> list[HealthFinding]:
    """Check everything, in a few seconds at most. No finding reveals a key or its length."""
    redactor = Redactor.from_environment(site.environ)
    findings = [
        *_machine(),
        _journal(site.folder),
        _space(site.folder),
        _home(site.home),
        *_isolation(),
        *_libraries(),
        *_extras(),
        *_keys(site),
        embedded_model(site),
        *_services(site, online=ask_providers),
        *_checked_models(site),
    ]
    return [
        replace(each, told=redactor.text(each.told), remedy=redactor.text(each.remedy))
        for each in findings
    ]


def is_healthy(findings: Sequence[HealthFinding]) -> bool:
    """Whether everything that burnish itself needs is there."""
    return all(finding.state == "ok" for finding in findings if finding.needed)


def _machine() -> Iterator[HealthFinding]:
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield HealthFinding(area="machine", name="burnish", told=VERSION, needed=True)
    yield HealthFinding(area="machine", name="Python", told=system, needed=True)


def _journal(folder: Path) -> HealthFinding:
    """Creates a journal in this folder for a moment, the only way to know that it works."""
    finding = HealthFinding(area="storage", name="journal", told="", needed=True)
    kind = file_system_of(folder) or "unknown file system"
    network = is_network_file_system(folder)
    try:
        with TemporaryDirectory(prefix=".burnish-doctor-", dir=folder) as spare:
            path = Path(spare) / "journal.db"
            with closing(connect(path, wal=not network)) as db:
                prepare(db, path)
                mode = db.execute("PRAGMA journal_mode").fetchone()[0]
    except (BurnishError, OSError, sqlite3.Error):
        message = f"this folder cannot store one ({kind})"
        remedy = "work in a folder on a local disk that you can write to"
        return replace(finding, state="wrong", told=message, remedy=remedy)
    message = f"SQLite {sqlite3.sqlite_version}, {mode} mode in this folder ({kind})"
    remedy = "a local disk is faster and safer" if network else ""
    return replace(finding, told=message, remedy=remedy)


def _space(folder: Path) -> HealthFinding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        free = 0
    message = f"{free / 2**30:.1f} GB free here"
    finding = HealthFinding(area="storage", name="disk", told=message)
    if free >= 200 * 2**20:
        return finding
    return replace(finding, state="wrong", remedy="free some space before a long run")


def _home(home: Path) -> HealthFinding:
    finding = HealthFinding(area="storage", name="home", told=_short(home), needed=True)
    there = next(path for path in (home, *home.parents) if os.access(path, os.F_OK))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return finding
    remedy = "set BURNISH_HOME to a folder that you can write to"
    return replace(finding, state="wrong", told=f"cannot write to {_short(home)}", remedy=remedy)


def _isolation() -> Iterator[HealthFinding]:
    """What keeps commands under test apart from this machine."""
    walls, rules = probe_bubblewrap(), probe_landlock()
    better = "works: commands are isolated with it"
    yield HealthFinding(
        area="isolation",
        name="bubblewrap",
        state="ok" if walls.works else "absent",
        told=f"{walls.version}, {better}" if walls.works else walls.reason,
        remedy=walls.remedy,
    )
    use = "second choice" if walls.works else "used, and leaves more open: see docs/isolation.md"
    yield HealthFinding(
        area="isolation",
        name="Landlock",
        state="ok" if rules.works else "absent",
        told=f"version {rules.abi}, {use}" if rules.works else rules.reason,
    )


def _libraries() -> Iterator[HealthFinding]:
    for name in own_packages():
        finding = HealthFinding(area="libraries", name=name, told="not installed", needed=True)
        if (installed := installed_version(name)) is not None:
            yield replace(finding, told=installed)
        else:
            remedy = f"install burnish again: {install_command()}"
            yield replace(finding, state="wrong", remedy=remedy)


def _extras() -> Iterator[HealthFinding]:
    for extra in all_extras():
        told = f"installed, for {extra.purpose}"
        finding = HealthFinding(area="extras", name=extra.name, told=told)
        if extra.missing:
            message = f"for {extra.purpose}; not installed: {', '.join(extra.missing)}"
            finding = replace(finding, state="absent", told=message, remedy=extra.command)
        yield finding


def missing_for_demo(findings: Sequence[HealthFinding]) -> str:
    """What to do before the offline demo can run; empty if it can."""
    extras = [name for name in _DEMO if extra_named(name).missing]
    installs = [install_command(*extras)] if extras else []
    model = next((each.remedy for each in findings if each.name == "local:smollm2"), "")
    # The finding about the model names the library that it misses too.
    return ", then ".join(filter(None, [*installs, model.rpartition(", then ")[2]]))


def _keys(site: HealthSite) -> Iterator[HealthFinding]:
    if site.dotenv is not None:
        message = site.dotenv_trouble or _short(site.dotenv)
        state = "wrong" if site.dotenv_trouble else "ok"
        yield HealthFinding(
            area="keys", name=".env", state=state, told=message, remedy=site.dotenv_ignored
        )
    for row in all_providers():
        names = row.key_variables
        held = [name for name in names if site.environ.get(name, "").strip()]
        for name in held:
            source = ".env" if name in site.dotenv_names else "environment"
            finding = HealthFinding(area="keys", name=name, told=f"set, from {source}")
            yield _with_library(finding, row)
        if names and not held:
            also = f" (or {', '.join(names[1:])})" if names[1:] else ""
            remedy = f"for {row.name}:… models, set it{also} {WHERE}"
            yield HealthFinding(
                area="keys", name=names[0], state="absent", told="not set", remedy=remedy
            )


def _short(path: Path) -> str:
    """The path with `~` for the user's folder."""
    own = Path.home()
    return f"~/{path.relative_to(own)}" if path.is_relative_to(own) else str(path)
