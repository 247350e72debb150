"""BEST: the best deliverable beside the seed, exchanged whole, and what may become it."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from burnish.core.content import Json
from burnish.core.errors import FileTrouble
from burnish.evaluation.matching.excerpts import without_middle
from burnish.strategies.refine.run_files import RunSignals, mapping, number, read_json
from burnish.strategies.refine.sessions import Session, SessionFiles
from burnish.system import FileLock, write_atomic
from burnish.system.files import file_trouble
from burnish.system.workspaces import copy_workspace, remove_tree, shown
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.result import DelegationResult


def digests(folder: Path) -> dict[str, str]:
    """A digest of every file, by its path."""
    found: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found[str(path.relative_to(folder))] = digest
    return found


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


DELIVERED = ("complete", "partial")
_MOST_WORDS = 300


@dataclass(frozen=True, kw_only=True)
class Contender:
    """An iteration that wants to be the best."""

    signals: RunSignals
    counts_as: float | None
    """Its loss for the rules that stop; None where it came to nothing."""
    cannot_win: str = ""
    """Why it cannot be the best, whatever its loss."""
    lost: str = ""
    """Files of the best that it no longer has."""

    @property
    def loss(self) -> float:
        """By the same five signals as the seed's."""
        return self.signals.loss.total


def contender(result: DelegationResult, signals: RunSignals, best: Best) -> Contender:
    """What an iteration came to, beside the best that it started from."""
    if result.status not in DELIVERED:
        return Contender(signals=signals, counts_as=None, cannot_win=_why_failed(result))
    if not result.deliverables:
        return Contender(signals=signals, counts_as=None, cannot_win="it delivered nothing")
    new, old = digests(result.final), digests(best.deliverable)
    if new == old:
        # The same files are as good as they were, whatever their grader says this time.
        told = "it delivered the very files it started from"
        return Contender(signals=signals, counts_as=best.loss, cannot_win=told)
    unknown = _unknown(result, signals, best.signals)
    return Contender(
        signals=signals,
        counts_as=None if unknown else signals.loss.total,
        cannot_win=unknown,
        lost=_lost(new, old),
    )


def _why_failed(result: DelegationResult) -> str:
    reason = " ".join(ending_words(result.reason).split())
    return f"it {result.status}: {without_middle(reason, _MOST_WORDS)}"


def _unknown(result: DelegationResult, signals: RunSignals, best: RunSignals) -> str:
    """A signal that counts as neutral because it is missing may not beat one that was measured."""
    pairs = (
        ("no metric scored it", signals.eval_score, best.eval_score),
        ("the critic did not score it", signals.critique_score, best.critique_score),
    )
    missing = [told for told, here, there in pairs if here is None and there is not None]
    unscored = result.evaluation.missing if result.evaluation is not None else ()
    missing += [f"the metric {name} has no score" for name in unscored]
    return f"cannot tell: {', '.join(missing)}" if missing else ""


def _lost(new: Iterable[str], old: Iterable[str]) -> str:
    """By name, since other systems deliver without folders."""
    there = {Path(path).name for path in new}
    gone = [shown(path) for path in old if Path(path).name not in there]
    return f"it no longer has {', '.join(gone)}" if gone else ""
