"""Sessions of refinement, and BEST: the best deliverable so far."""

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Protocol, cast

from pydantic import Field

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, FileTrouble, RunLocked, SeedRefused
from burnish.delegation.refine.gradients import RunSignals, mapping, number, read_json, rows, text
from burnish.delegation.result import DelegationResult, ending_words
from burnish.delegation.workspace import make_writable
from burnish.metrics.text_matching import without_middle
from burnish.system import FileLock, is_held, write_atomic, write_inside
from burnish.system.files import file_trouble
from burnish.system.workspaces import copy_workspace, remove_tree, shown

RUNNING, INTERRUPTED = "running", "interrupted"
"""The stop reasons of a session that is running or was killed, and of one that was stopped."""
ALL_RUN = "max_iterations"
"""Of a session that had as many iterations as it may have."""
_MACHINE = ("error:FileTrouble", "error:JournalTrouble")
"""Those of a session whose disk was full, or not to be written for another reason."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One repeated run of the task."""

    k: int
    run_id: str = ""
    loss: float | None = None
    status: str = ""
    tier: str | None = None
    model_manager: str | None = None
    model_worker: str | None = None
    run_dir: str = ""
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    """None if a price is unknown."""
    note: str = ""
    parts: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The parts of its loss, graded as the seed is."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A refinement of one run."""

    session_id: str
    seed_run_id: str
    started_at: str
    completed_at: str | None = None
    stop_reason: str = RUNNING
    best_iter: int = 0
    """0 while the seed is the best."""
    iterations: tuple[Iteration, ...] = ()
    tier_plan_used: bool | None = None
    seed_loss: float | None = None
    seed_parts: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The parts of the seed's loss."""
    best_loss: float | None = None
    best_written: bool = False
    """Whether BEST holds the result of this session."""
    ruler: str = ""
    """What graded it, if the seed was graded again; losses under another ruler are not compared."""
    error: str = ""
    notes: tuple[str, ...] = ()
    """Notes for readers of the losses."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it was started with, to resume it."""
    resumed_with: Annotated[Mapping[str, Json], Field(exclude_if=lambda changed: not changed)] = (
        field(default_factory=dict[str, Json])
    )
    """What was changed when it was resumed."""

    @property
    def most_iterations(self) -> int:
        """How many iterations it may have now."""
        most = {**self.settings, **self.resumed_with}.get("iterations")
        return most if isinstance(most, int) else 0

    def can_go_on(self, iterations: int) -> bool:
        """Whether it can be continued with so many iterations at most."""
        if self.stop_reason == ALL_RUN:
            return iterations > self.most_iterations
        return self.resumable

    @property
    def unfinished(self) -> bool:
        return self.stop_reason in (RUNNING, INTERRUPTED)

    @property
    def resumable(self) -> bool:
        """Whether it can be continued: nothing is wrong with it that cannot be mended."""
        return self.unfinished or self.stop_reason in _MACHINE

    def to_json(self) -> dict[str, Json]:
        data = codec(Session).encode(self)
        assert isinstance(data, dict)
        return data

    @property
    def text(self) -> str:
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Session":
        """Read a session from a file; keys of other versions are ignored."""
        steps = [_own_fields(Iteration, row) for row in rows(data.get("iterations"))]
        fields = {**_own_fields(cls, data), "iterations": steps}
        return codec(cls).decode(cast("Json", fields))


def now() -> str:
    """The time, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _own_fields(kind: type[Session] | type[Iteration], data: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in data.items() if key in kind.__dataclass_fields__}


SESSIONS = "refinement_sessions"
_LOCK = ".lock"
_LATEST = "session.json"
"""A copy of the session that was written last, if `pointer` is set."""


@dataclass(frozen=True, kw_only=True)
class SessionFiles:
    """Sessions in one folder: `<id>.json` each, its iterations in `<id>/`."""

    folder: Path
    prefix: str = "refine_"
    pointer: bool = False
    """Whether session.json is kept as a copy of the session that was written last."""

    @property
    def locked(self) -> bool:
        """Whether somebody refines now."""
        return is_held(self.folder / _LOCK)

    def lock(self, run_id: str) -> FileLock:
        """Lock the sessions, since only one runs at a time; raises SeedRefused."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return FileLock.acquire(self.folder / _LOCK, holding=f"the refinement of {run_id}")
        except RunLocked as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error
        except (OSError, FileTrouble) as error:
            known = isinstance(error, FileTrouble)
            trouble = error if known else file_trouble("make", self.folder, error)
            remedy = "sessions are stored there: copy the run to a writable folder"
            raise SeedRefused(trouble.message, remedy=remedy) from error

    def new(self, seed_run_id: str, settings: Mapping[str, Json]) -> Session:
        """A new session that is not written yet; call this under the lock."""
        base = f"{self.prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        name, again = base, 1
        while any((self.folder / each).exists() for each in (name, f"{name}.json")):
            again += 1
            name = f"{base}_{again}"
        return Session(
            session_id=name, seed_run_id=seed_run_id, started_at=now(), settings=settings
        )

    def write(self, session: Session) -> None:
        """Write a session atomically."""
        write_inside(self.folder, f"{session.session_id}.json", session.text)
        if self.pointer:
            write_inside(self.folder, _LATEST, session.text)

    def place(self, session: Session) -> Path:
        """The folder of a session's run: its iterations, its journal and its page."""
        return self.folder / session.session_id

    def rows(self) -> list[dict[str, Json]]:
        """Every readable session as JSON, by name."""
        documents: list[dict[str, Json]] = []
        for path in sorted(self.folder.glob("*.json")):
            if path.name == _LATEST:
                continue
            with contextlib.suppress(BurnishError):
                data = read_json(path)
                documents += [data] if isinstance(data, dict) else []
        return documents

    def sessions(self) -> list[Session]:
        """Every readable session."""
        readable: list[Session] = []
        for row in self.rows():
            with contextlib.suppress(BurnishError, ValueError, TypeError, KeyError):
                readable.append(Session.from_json(row))
        return readable

    def find(self, name: str = "last", *, ended: bool = False, iterations: int = 0) -> Session:
        """An unfinished session (with `ended`, any) by its id, or the last; raises SeedRefused.

        With more iterations than it had, one that ran all of them can be continued, too.
        """
        open_ones = [each for each in self.sessions() if ended or each.can_go_on(iterations)]
        chosen = [each for each in open_ones if name in ("last", each.session_id)]
        if not chosen:
            names = ", ".join(each.session_id for each in open_ones) or "none"
            raise SeedRefused(
                f"there is no unfinished session '{name}' in {self.folder}",
                remedy=f"unfinished sessions: {names}",
            )
        return chosen[-1]


def digests(folder: Path) -> dict[str, str]:
    """A digest of every file, by its path."""
    by_path: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            by_path[str(path.relative_to(folder))] = digest
    return by_path


BEST = "BEST"
_MANIFEST = "manifest.json"
_ASIDE = "manifest.burnish.json"
"""The manifest's name if the deliverable has its own manifest.json."""
MANIFESTS = (_ASIDE, _MANIFEST)
_NEW, _OLD = ".BEST.new", ".BEST.old"


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best run so far."""

    run: Path
    run_id: str
    signals: RunSignals
    deliverable: Path

    @property
    def loss(self) -> float:
        return self.signals.loss.total


class BestPlace(Protocol):
    """The place that holds the best deliverable."""

    def promote(self, best: Best, session: Session) -> str:
        """Make it BEST; returns why not."""
        ...


@dataclass(frozen=True)
class SeedBest:
    """BEST beside the seed: only a strictly lower loss replaces it."""

    home: Path

    def promote(self, best: Best, session: Session) -> str:
        """Replace BEST if this is better; a resumed session may find its own there."""
        current = best_so_far(self.home)
        if current is not None:
            loss = loss_of(current)
            if current.get("best_run_id") == best.run_id:
                return ""
            if apart := graded_apart(current, session):
                return apart
            if loss is not None and not is_lower(best.loss, loss):
                own = current.get("session_id") == session.session_id
                return "" if own else f"BEST already has a loss of {round(loss, 6):.4f}"
        manifest: dict[str, Json] = {
            "best_run_id": best.run_id,
            "best_loss": best.loss,
            "seed_loss": session.seed_loss,
            "session_id": session.session_id,
            "winning_run_dir": path_within(best.run, self.home),
            **({"ruler": session.ruler} if session.ruler else {}),
        }
        put_best(self.home, best.deliverable, manifest)
        return ""


def graded_apart(manifest: Mapping[str, Json], session: Session) -> str:
    """Why the losses of BEST and of a session cannot be compared; empty if they can."""
    if text(manifest.get("ruler")) == session.ruler:
        return ""
    return (
        "BEST was graded by another critic or other metrics, so the two are not compared; "
        "move BEST away to replace it"
    )


def is_lower(loss: float, than: float) -> bool:
    """Whether a loss is strictly lower, beyond floating point errors."""
    return loss < than - 1e-9


def path_within(run: Path, home: Path) -> str:
    """A path relative to a folder that contains it, so that the folder can be moved."""
    return str(run.relative_to(home) if run.is_relative_to(home) else run)


def best_so_far(home: Path) -> Mapping[str, Json] | None:
    """The manifest of BEST in a folder, or None."""
    for folder in (BEST, _OLD):
        for name in MANIFESTS:
            manifest = mapping(read_json(home / folder / name))
            if "best_loss" in manifest or "loss" in manifest:
                return manifest
    return None


def loss_of(manifest: Mapping[str, Json]) -> float | None:
    """The loss in a manifest."""
    return number(manifest.get("best_loss", manifest.get("loss")))


def put_best(home: Path, deliverable: Path, manifest: Mapping[str, Json]) -> Path:
    """Replace BEST by copies of these files; a kill leaves the old or the new one."""
    recover(home)
    new, best = home / _NEW, home / BEST
    _copy(deliverable, new)
    name = _ASIDE if os.path.lexists(new / _MANIFEST) else _MANIFEST
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
    """Restore BEST after a kill between the two renames, and remove leftovers."""
    old, best = home / _OLD, home / BEST
    if old.exists() and not best.exists():
        old.rename(best)
    for left in (old, home / _NEW):
        if left.exists():
            remove_tree(left)


class SeedLock:
    """The lock on a seed: one session at a time holds it and may change BEST."""

    def __init__(self, *, files: SessionFiles, run_id: str, home: Path) -> None:
        self._files, self._run_id, self._home = files, run_id, home
        self._lock: FileLock | None = None

    def take(self) -> None:
        """Acquire it unless it is held already; raises SeedRefused if someone else has it."""
        if self._lock is None:
            self._lock = self._files.lock(self._run_id)
            recover(self._home)

    def release(self) -> None:
        """Release it; calling this twice is fine."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _copy(deliverable: Path, new: Path) -> None:
    """Copy without links, so that the copy is independent."""
    copy_workspace(deliverable, new, exclude=())
    lost = sorted(map(shown, _files(deliverable) - _files(new)))
    clash = [_ASIDE] if os.path.lexists(new / _ASIDE) else []
    if lost or clash:
        remove_tree(new)
        reason = f"cannot be read: {', '.join(lost)}" if lost else ""
        reason = reason or f"burnish needs the name {_ASIDE}"
        raise FileTrouble(f"{deliverable} cannot be copied to {BEST}: {reason}")
    make_writable(new)
    # What may not be written is copied with its rights; BEST must be replaceable.
    for path in (new, *new.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(path.stat().st_mode | 0o700)


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


DELIVERED = ("complete", "partial")


@dataclass(frozen=True, kw_only=True)
class Contender:
    """An iteration that may become the best."""

    signals: RunSignals
    counts_as: float | None
    """Its loss for the stop rules; None if it has no result."""
    cannot_win: str = ""
    """Why it cannot be the best, regardless of its loss."""
    note: str = ""

    @property
    def loss(self) -> float:
        return self.signals.loss.total


def contender(
    result: DelegationResult,
    signals: RunSignals,
    best: Best,
    *,
    unscored: Sequence[str] = (),
    seed: Path,
    allow_missing_files: bool = False,
) -> Contender:
    """Compare an iteration with the best that it started from; `seed` is what the seed delivers."""
    if result.status not in DELIVERED:
        reason = without_middle(" ".join(ending_words(result.reason).split()), 300)
        cannot_win = f"it {result.status}: {reason}"
        return Contender(signals=signals, counts_as=None, cannot_win=cannot_win)
    if not result.deliverables:
        return Contender(signals=signals, counts_as=None, cannot_win="it delivered nothing")
    new, old = digests(result.final), digests(best.deliverable)
    if new == old:
        # The same files are as good as they were, whatever their grader says this time.
        reason = "it delivered exactly the files it started from"
        return Contender(signals=signals, counts_as=best.loss, cannot_win=reason)
    unknown = _unknown(unscored, signals, best.signals)
    gone = ", ".join(map(shown, missing_files(seed, result.final)))
    lost = f"it no longer has {gone}" if gone else ""
    return Contender(
        signals=signals,
        counts_as=None if unknown else signals.loss.total,
        cannot_win=unknown or ("" if allow_missing_files else lost),
        note=lost,
    )


def missing_files(seed: Path, delivered: Path) -> list[str]:
    """The files of the seed that a deliverable lacks; an empty file is as good as none.

    A file may move to another folder, since other systems deliver without folders.
    """
    old, new = _filled(seed), _filled(delivered)
    moved = Counter(Path(path).name for path in new - old)
    gone: list[str] = []
    for path in sorted(old - new):
        name = Path(path).name
        if moved[name]:
            moved[name] -= 1
        else:
            gone.append(path)
    return gone


def _filled(folder: Path) -> set[str]:
    return {path for path in _files(folder) if (folder / path).stat().st_size}


def _unknown(unscored: Sequence[str], signals: RunSignals, best: RunSignals) -> str:
    """A missing signal, which counts as neutral, may not beat a measured one."""
    pairs = (
        ("no metric scored it", signals.eval_score, best.eval_score),
        ("the critic did not score it", signals.critique_score, best.critique_score),
    )
    missing = [message for message, here, there in pairs if here is None and there is not None]
    missing += [f"the metric {name} has no score" for name in unscored]
    return f"cannot tell: {', '.join(missing)}" if missing else ""
