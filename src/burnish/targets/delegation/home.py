"""The folder of a delegation while one process drives it: manifest, lock, journal, children."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from burnish.core.content import Json
from burnish.core.effects import KEY_SCHEMA
from burnish.core.errors import FileTrouble, JournalTrouble, ResumeRefused
from burnish.effects.journal import Journal
from burnish.effects.once import JournaledEffects, JournalScope
from burnish.effects.position import require_whole
from burnish.system import (
    ChildProcesses,
    FileLock,
    Redactor,
    end_leftovers,
    make_folder,
    read_bytes,
    remove_stale_temporaries,
    write_atomic,
)
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.record import MANIFEST
from burnish.version import VERSION

POLICY = "policy.json"
_LOCK, _PROCESSES = "run.lock", "processes"
_RUN_ID = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_[0-9a-f]{8}")


def new_run_id() -> str:
    """A name that no other run has: the time, and chance."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(4)}"


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a run was started with."""
    try:
        data = json.loads(read_bytes(folder / MANIFEST))
    except ValueError as error:
        raise _damaged(folder / MANIFEST) from error
    if not isinstance(data, dict) or not isinstance(data.get("run_id"), str):  # pyright: ignore[reportUnknownMemberType]
        raise _damaged(folder / MANIFEST)
    return cast("dict[str, Any]", data)


def is_delegation(folder: Path) -> bool:
    """Whether a delegation was started in this folder."""
    return (folder / MANIFEST).is_file()


def is_of_burnish(folder: Path) -> bool:
    """Whether it is one of burnish's own: other systems have a manifest of that name too."""
    return is_delegation(folder) and (folder / POLICY).is_file()


@dataclass(frozen=True, kw_only=True)
class Home:
    """A run's folder, held by this process."""

    folder: Path
    manifest: Mapping[str, Any]
    policy: PolicyTexts
    redactor: Redactor
    lock: FileLock
    journal: Journal
    effects: JournaledEffects
    scope: JournalScope

    @classmethod
    def open(
        cls,
        folder: Path,
        manifest: Mapping[str, Json],
        *,
        policy: PolicyTexts,
        redactor: Redactor,
    ) -> Self:
        """Start a run here, or take over the one that is here if it was started with the same."""
        folder = folder.resolve()
        if is_delegation(folder):
            _require_same(folder, manifest)
        else:
            _make(folder, manifest, policy, redactor)
        found = read_manifest(folder)
        lock = FileLock.acquire(folder / _LOCK, holding=f"delegation {found['run_id']}")
        try:
            kept = kept_policy(folder)
            end_leftovers(folder / _PROCESSES)
            remove_stale_temporaries(folder)
            require_whole(folder)
            journal = Journal(folder)
        except BaseException:
            lock.release()
            raise
        effects = JournaledEffects(journal, redactor=redactor)
        return cls(
            folder=folder,
            manifest=found,
            policy=kept,
            redactor=redactor,
            lock=lock,
            journal=journal,
            effects=effects,
            scope=effects.scope(trial=0),
        )

    @property
    def run_id(self) -> str:
        """The run's name."""
        return str(self.manifest["run_id"])

    @property
    def children(self) -> ChildProcesses:
        """Where running commands are on record."""
        return ChildProcesses(folder=self.folder / _PROCESSES)

    async def close(self) -> None:
        """Leave nothing running, and let go of the journal and the lock."""
        await self.effects.cancel_all()
        self.journal.close()
        self.lock.release()


def versions() -> dict[str, str]:
    """What else decides what happens."""
    return {
        "key schema": str(KEY_SCHEMA),
        "burnish version": ".".join(VERSION.split(".")[:2]),
    }


def _make(
    folder: Path, manifest: Mapping[str, Json], policy: PolicyTexts, redactor: Redactor
) -> None:
    run_id = folder.name if _RUN_ID.fullmatch(folder.name) else new_run_id()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    whole = redactor.json({"run_id": run_id, "started": started, **manifest})

    def fill(spare: Path) -> None:
        write_atomic(spare / POLICY, json.dumps(policy.to_json(), indent=2, ensure_ascii=False))
        write_atomic(spare / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileTrouble(f"no run can be made under {folder.parent}: {error.strerror}") from error
    if not make_folder(folder, fill):
        remedy = "name another folder, or resume the run that is there"
        raise FileTrouble(f"{folder} exists already and is no delegation", remedy=remedy)


def _require_same(folder: Path, manifest: Mapping[str, Json]) -> None:
    found = read_manifest(folder)
    old = cast("dict[str, str]", found.get("inputs", {}))
    new = cast("dict[str, str]", manifest["inputs"])
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if changed:
        raise ResumeRefused(
            f"delegation {found['run_id']} was started with another {', '.join(changed)}",
            remedy="put it back as it was to resume, or start a new run in another folder",
        )


def kept_policy(folder: Path) -> PolicyTexts:
    """The texts that the run was started with, whatever is in force by now."""
    try:
        data = json.loads(read_bytes(folder / POLICY))
        return PolicyTexts(texts=data["texts"], versions=data["versions"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder / POLICY) from error


def _damaged(path: Path) -> JournalTrouble:
    remedy = "restore it from a backup, or start a new run"
    return JournalTrouble(f"{path} is damaged, or not of a delegation", remedy=remedy)
