"""The folder of a delegation: what it was started with, and its policy texts."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, cast

from burnish.core.content import Json, from_json
from burnish.core.errors import FileTrouble, JournalTrouble, ResumeRefused
from burnish.core.protocols import KEY_SCHEMA
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.record import MANIFEST
from burnish.system import Redactor, read_bytes, remove_stale_temporaries, write_atomic
from burnish.version import VERSION

POLICY = "policy.json"
_RUN_ID = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_[0-9a-f]{8}")


def new_run_id() -> str:
    """A unique run id from the time and random digits."""
    return f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(4)}"


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        data = from_json(read_bytes(folder / MANIFEST))
    except ValueError as error:
        raise _damaged(folder / MANIFEST) from error
    if not isinstance(data, dict) or not isinstance(data.get("run_id"), str):  # pyright: ignore[reportUnknownMemberType]
        raise _damaged(folder / MANIFEST)
    return cast("dict[str, Any]", data)


def is_delegation(folder: Path) -> bool:
    """Whether a delegation was started in this folder."""
    return (folder / MANIFEST).is_file()


def is_of_burnish(folder: Path) -> bool:
    """Whether burnish started it: other systems also write a manifest of that name."""
    return is_delegation(folder) and (folder / POLICY).is_file()


@dataclass(frozen=True, kw_only=True)
class Home:
    """The folder of a delegation, in a run that holds its own lock and journal."""

    folder: Path
    manifest: Mapping[str, Any]
    policy: PolicyTexts

    @classmethod
    def open(
        cls, folder: Path, manifest: Mapping[str, Json], *, policy: PolicyTexts, redactor: Redactor
    ) -> Self:
        """Start a delegation here, or resume the one that was started with the same inputs."""
        folder = folder.resolve()
        if is_delegation(folder):
            require_same(folder, manifest)
        else:
            cls.make(folder, manifest, policy=policy, redactor=redactor, name=folder.name)
        remove_stale_temporaries(folder)
        return cls(folder=folder, manifest=_read_manifest(folder), policy=kept_policy(folder))

    @staticmethod
    def make(
        folder: Path,
        manifest: Mapping[str, Json],
        *,
        policy: PolicyTexts,
        redactor: Redactor,
        name: str,
    ) -> None:
        """Start a delegation here; `name` becomes its run id if it has that form."""
        run_id = name if _RUN_ID.fullmatch(name) else new_run_id()
        started = datetime.now(UTC).isoformat(timespec="seconds")
        whole = redactor.json({"run_id": run_id, "started": started, **manifest})
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileTrouble(f"cannot start a delegation in {folder}: {error.strerror}") from error
        # The manifest last: what has one has begun.
        keep_policy(folder, policy)
        write_atomic(folder / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")

    @property
    def run_id(self) -> str:
        return str(self.manifest["run_id"])


def versions() -> dict[str, str]:
    """The versions that also decide what happens."""
    return {
        "key schema": str(KEY_SCHEMA),
        "burnish version": ".".join(VERSION.split(".")[:2]),
    }


def require_same(folder: Path, manifest: Mapping[str, Json]) -> None:
    """Raise ResumeRefused if a delegation was started with other inputs."""
    previous = _read_manifest(folder)
    old = cast("dict[str, str]", previous.get("inputs", {}))
    new = cast("dict[str, str]", manifest["inputs"])
    changed = [name for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    if changed:
        raise ResumeRefused(
            f"delegation {previous['run_id']} was started with another {', '.join(changed)}",
            remedy="restore it to resume, or start a new run in another folder",
        )


def keep_policy(folder: Path, policy: PolicyTexts) -> None:
    """Store the policy texts that the run reads."""
    write_atomic(folder / POLICY, json.dumps(policy.to_json(), indent=2, ensure_ascii=False))


def kept_policy(folder: Path) -> PolicyTexts:
    """The policy texts that the run was started with."""
    try:
        data = cast("Any", from_json(read_bytes(folder / POLICY)))
        return PolicyTexts(texts=data["texts"], versions=data["versions"])
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(folder / POLICY) from error


def _damaged(path: Path) -> JournalTrouble:
    remedy = "restore it from a backup, or start a new run"
    return JournalTrouble(f"{path} is damaged or does not belong to a delegation", remedy=remedy)
