"""BEST: copies of the best deliverable beside the seed, exchanged whole, with what they beat."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.strategies.refine.run_files import mapping, number, read_json
from burnish.strategies.refine.run_losses import RunSignals
from burnish.strategies.refine.session_files import SessionFiles
from burnish.strategies.refine.sessions import Session
from burnish.system import FileLock, write_atomic
from burnish.system.file_trouble import file_trouble
from burnish.system.workspaces import copy_workspace, remove_tree, shown

BEST = "BEST"
MANIFEST = "manifest.json"
ASIDE = "manifest.burnish.json"
"""The manifest's name where the deliverable has a manifest.json of its own."""
_NEW, _OLD = ".BEST.new", ".BEST.old"
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Best:
    """What is ahead."""

    run: Path
    run_id: str
    signals: RunSignals
    deliverable: Path
    iteration: int = 0
    """0 is the seed."""

    @property
    def loss(self) -> float:
        """What the next must be below."""
        return self.signals.loss.total


class BestPlace(Protocol):
    """Where the best is put."""

    def promote(self, best: Best, session: Session) -> str:
        """Make it BEST; why not, where it is not."""
        ...


@dataclass(frozen=True)
class SeedBest:
    """BEST beside the seed: only a strictly lower loss takes it."""

    home: Path

    def promote(self, best: Best, session: Session) -> str:
        """Exchange BEST where this is better; a session that goes on finds its own there."""
        there = best_so_far(self.home)
        if there is not None:
            loss = loss_of(there)
            if there.get("best_run_id") == best.run_id:
                return ""
            if loss is not None and not is_lower(best.loss, loss):
                own = there.get("session_id") == session.session_id
                return "" if own else f"BEST has a loss of {round(loss, 6):.4f} already"
        put_best(self.home, best.deliverable, self._manifest(best, session))
        return ""

    def _manifest(self, best: Best, session: Session) -> Mapping[str, Json]:
        return {
            "best_run_id": best.run_id,
            "best_loss": best.loss,
            "seed_loss": session.seed_loss,
            "session_id": session.session_id,
            "winning_run_dir": told_from(best.run, self.home),
        }


def is_lower(loss: float, than: float) -> bool:
    """Strictly, and by more than floating point could add."""
    return loss < than - _SLACK


def told_from(run: Path, home: Path) -> str:
    """A path from a folder where it lies in it, so that the folder may be moved."""
    return str(run.relative_to(home) if run.is_relative_to(home) else run)


def best_so_far(home: Path) -> Mapping[str, Json] | None:
    """The manifest of BEST in a folder, or None where there is none."""
    for folder in (BEST, _OLD):
        for name in (ASIDE, MANIFEST):
            found = mapping(read_json(home / folder / name))
            if "best_loss" in found or "loss" in found:
                return found
    return None


def loss_of(manifest: Mapping[str, Json]) -> float | None:
    """The loss that a manifest speaks of."""
    return number(manifest.get("best_loss", manifest.get("loss")))


def put_best(home: Path, deliverable: Path, manifest: Mapping[str, Json]) -> Path:
    """Exchange BEST for copies of these files; a kill leaves the old one or the new one."""
    recover(home)
    new, best = home / _NEW, home / BEST
    _copy(deliverable, new)
    name = ASIDE if os.path.lexists(new / MANIFEST) else MANIFEST
    text = json.dumps(dict(manifest), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomic(new / name, text + "\n")
    try:
        if best.exists():
            best.rename(home / _OLD)
        new.rename(best)
    except OSError as error:
        raise file_trouble("put in place", best, error) from error
    remove_tree(home / _OLD)
    return best


def recover(home: Path) -> None:
    """Put BEST back where a kill came between the two renames; remove what was left half made."""
    old, best = home / _OLD, home / BEST
    if old.exists() and not best.exists():
        old.rename(best)
    for left in (old, home / _NEW):
        if left.exists():
            remove_tree(left)


class SeedLock:
    """The lock on what is refined: one session at a time holds it, and looks after BEST."""

    def __init__(self, *, files: SessionFiles, run_id: str, home: Path) -> None:
        self._files, self._run_id, self._home = files, run_id, home
        self._lock: FileLock | None = None

    def take(self) -> None:
        """Hold it, unless it is held already; raises SeedRefused where somebody else has it."""
        if self._lock is None:
            self._lock = self._files.lock(self._run_id)
            recover(self._home)

    def release(self) -> None:
        """Let go of it. Doing so twice is fine."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _copy(deliverable: Path, new: Path) -> None:
    """Copies, never links: what is written to one may not change the other."""
    copy_workspace(deliverable, new, exclude=())
    lost = sorted(map(shown, _files(deliverable) - _files(new)))
    clash = [ASIDE] if os.path.lexists(new / ASIDE) else []
    if lost or clash:
        remove_tree(new)
        told = f"cannot be read: {', '.join(lost)}" if lost else f"burnish needs the name {ASIDE}"
        raise FileTrouble(f"{deliverable} cannot be copied to {BEST}: {told}")
    # What may not be written is copied with its rights; BEST must be replaceable.
    for path in (new, *new.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o700)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
