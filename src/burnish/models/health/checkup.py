"""What `burnish doctor` finds out: what is there, what is not, and what to do about it."""

import os
import platform
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory

from burnish.core.errors import BurnishError
from burnish.effects.sqlite_store import connect, prepare
from burnish.models.health.findings import Finding, Site
from burnish.models.health.services import embedded, local_services, online
from burnish.models.keys import WHERE
from burnish.models.providers import Protocol, all_providers
from burnish.system import Redactor, file_system_of, is_network_file_system
from burnish.version import VERSION

_LIBRARIES = ("genai-prices", "pydantic", "pydantic-ai-slim", "rich", "ruamel.yaml", "typer")
_EXTRAS: Mapping[str, tuple[str, tuple[Protocol, ...]]] = {
    "openai": ("openai", ("openai", "azure")),
    "anthropic": ("anthropic", ("anthropic",)),
    "google": ("google-genai", ("google",)),
    "local": ("xllamacpp", ("embedded",)),
}
"""By extra: the library it brings, and the protocols that need it."""
_LEAST_FREE = 200 * 2**20


def examine(site: Site, *, ask_providers: bool = False) -> list[Finding]:
    """Everything, in a few seconds at most. No finding holds a key, or says how long one is."""
    redactor = Redactor.from_environment(site.environ)
    found = [
        *_machine(),
        *_storage(site),
        *_libraries(),
        *_keys(site),
        embedded(site),
        *(online(site) if ask_providers else local_services(site)),
    ]
    return [_redacted(finding, redactor) for finding in found]


def is_healthy(found: Sequence[Finding]) -> bool:
    """Whether what the offline demo needs is there."""
    return all(finding.state == "ok" for finding in found if finding.needed)


def _machine() -> Iterator[Finding]:
    system = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding(area="machine", name="burnish", told=VERSION, needed=True)
    yield Finding(area="machine", name="Python", told=system, needed=True)


def _storage(site: Site) -> Iterator[Finding]:
    yield _journal(site.folder)
    yield _space(site.folder)
    yield _home(site.home)


def _journal(folder: Path) -> Finding:
    """A journal is made in this folder for a moment: only that shows whether it can be."""
    finding = Finding(area="storage", name="journal", told="", needed=True)
    kind = file_system_of(folder) or "unknown file system"
    network = is_network_file_system(folder)
    try:
        mode = _journal_mode(folder, wal=not network)
    except (BurnishError, OSError, sqlite3.Error):
        told = f"this folder cannot hold one ({kind})"
        remedy = "work in a folder on a local disk that you can write to"
        return replace(finding, state="wrong", told=told, remedy=remedy)
    told = f"SQLite {sqlite3.sqlite_version}, {mode} mode in this folder ({kind})"
    remedy = "a local disk is faster and safer" if network else ""
    return replace(finding, told=told, remedy=remedy)


def _journal_mode(folder: Path, *, wal: bool) -> str:
    with TemporaryDirectory(prefix=".burnish-doctor-", dir=folder) as spare:
        path = Path(spare) / "journal.db"
        with closing(connect(path, wal=wal)) as db:
            prepare(db, path)
            return str(db.execute("PRAGMA journal_mode").fetchone()[0])


def _space(folder: Path) -> Finding:
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        free = 0
    finding = Finding(area="storage", name="disk", told=f"{free / 2**30:.1f} GB free here")
    if free >= _LEAST_FREE:
        return finding
    return replace(finding, state="wrong", remedy="free some space before a long run")


def _home(home: Path) -> Finding:
    finding = Finding(area="storage", name="home", told=_short(home), needed=True)
    there = next(path for path in (home, *home.parents) if os.access(path, os.F_OK))
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return finding
    remedy = "set BURNISH_HOME to a folder that you can write to"
    return replace(finding, state="wrong", told=f"cannot write to {_short(home)}", remedy=remedy)


def _libraries() -> Iterator[Finding]:
    for name in _LIBRARIES:
        if (found := _version(name)) is None:
            remedy = "install burnish again: pip install --force-reinstall burnish"
            missing = Finding(area="libraries", name=name, told="not installed", remedy=remedy)
            yield replace(missing, state="wrong", needed=True)
        else:
            yield Finding(area="libraries", name=name, told=found, needed=True)
    for extra, (name, protocols) in _EXTRAS.items():
        yield _extra(extra, name, _purpose(protocols))


def _extra(extra: str, name: str, purpose: str) -> Finding:
    finding = Finding(area="libraries", name=name, told=f"{_version(name)}, for {purpose}")
    if _version(name) is not None:
        return finding
    remedy = f"for {purpose}: pip install 'burnish[{extra}]'"
    return replace(finding, state="absent", told="not installed", remedy=remedy)


def _purpose(protocols: tuple[Protocol, ...]) -> str:
    """What a library is for, by the providers that need it."""
    if "embedded" in protocols:
        return "the embedded model"
    names = ", ".join(row.name for row in all_providers() if row.protocol in protocols)
    return f"{names} and compatible endpoints" if "openai" in protocols else names


def _keys(site: Site) -> Iterator[Finding]:
    if site.dotenv is not None:
        yield _dotenv(site, site.dotenv)
    for row in all_providers():
        names = row.key_variables
        held = [name for name in names if site.environ.get(name, "").strip()]
        for name in held:
            yield Finding(area="keys", name=name, told=f"set, from {site.source(name)}")
        if names and not held:
            also = f" (or {', '.join(names[1:])})" if names[1:] else ""
            remedy = f"for {row.name}:… models, set it{also} {WHERE}"
            absent = Finding(area="keys", name=names[0], told="not set", remedy=remedy)
            yield replace(absent, state="absent")


def _dotenv(site: Site, path: Path) -> Finding:
    if site.dotenv_trouble:
        return Finding(area="keys", name=".env", state="wrong", told=site.dotenv_trouble)
    return Finding(area="keys", name=".env", told=_short(path))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _short(path: Path) -> str:
    """With `~` for the user's folder."""
    own = Path.home()
    return f"~/{path.relative_to(own)}" if path.is_relative_to(own) else str(path)


def _redacted(finding: Finding, redactor: Redactor) -> Finding:
    told, remedy = redactor.text(finding.told), redactor.text(finding.remedy)
    return replace(finding, told=told, remedy=remedy)
