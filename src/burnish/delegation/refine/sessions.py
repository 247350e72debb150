"""Sessions of refinement, and BEST: the best deliverable so far."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, cast

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError, FileTrouble, RunLocked, SeedRefused
from burnish.delegation.refine.gradients import RunSignals, mapping, number, read_json
from burnish.delegation.result import DelegationResult, ending_words
from burnish.metrics.text_matching import without_middle
from burnish.system import FileLock, write_atomic
from burnish.system.files import file_trouble
from burnish.system.workspaces import copy_workspace, remove_tree, shown

RUNNING, INTERRUPTED = "running", "interrupted"
"""The stop reasons of a session that is under way or was killed, and of one that was stopped."""


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """One run of the task again."""

    k: int
    run_id: str = ""
    loss: float | None = None
    status: str = ""
    tier: str | None = None
    model_manager: str | None = None
    model_worker: str | None = None
    run_dir: str = ""
    """From the folder of the sessions."""
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    """None where a price is not known."""
    note: str = ""
    """Why it is not the best, where its loss does not say it."""


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
    best_loss: float | None = None
    best_written: bool = False
    """Whether BEST holds what this session found."""
    error: str = ""
    """What went wrong, where it ended by that."""
    notes: tuple[str, ...] = ()
    """What a reader of the losses should know."""
    settings: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What it was started with, so that it can go on."""

    @property
    def unfinished(self) -> bool:
        """Whether it can go on."""
        return self.stop_reason in (RUNNING, INTERRUPTED)

    def to_json(self) -> dict[str, Json]:
        """As its file keeps it."""
        data = codec(Session).encode(self)
        assert isinstance(data, dict)
        return data

    @property
    def text(self) -> str:
        """The file."""
        return json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> "Session":
        """A session as a file keeps it; keys of other versions are left aside."""
        rows = data.get("iterations")
        steps = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
        fields = {
            **_own_fields(cls, data),
            "iterations": [_own_fields(Iteration, row) for row in steps],
        }
        return codec(cls).decode(cast("Json", fields))


def now() -> str:
    """The time, UTC."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _own_fields(kind: type[Session] | type[Iteration], data: Mapping[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in data.items() if key in kind.__dataclass_fields__}


SESSIONS = "refinement_sessions"
_LATEST = "session.json"
"""Where a pointer is wanted: the session that was written last."""
_LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class SessionFiles:
    """Sessions in one folder: `<id>.json` each, its iterations in `<id>/`."""

    folder: Path
    prefix: str = "refine_"
    pointer: bool = False
    """Whether session.json is kept as a copy of the session that was written last."""

    def lock(self, run_id: str) -> FileLock:
        """Only one session goes on at a time; raises SeedRefused where that cannot be had."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            return FileLock.acquire(self.folder / _LOCK, holding=f"the refinement of {run_id}")
        except OSError as error:
            raise self._refused(file_trouble("make", self.folder, error)) from error
        except RunLocked as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error
        except FileTrouble as error:
            raise self._refused(error) from error

    def _refused(self, error: FileTrouble) -> SeedRefused:
        remedy = "sessions are kept there: copy the run to a place that can be written to"
        return SeedRefused(error.message, remedy=remedy)

    def new(self, seed_run_id: str, settings: Mapping[str, Json]) -> Session:
        """A new session, which is not on disk yet; call it under the lock."""
        return Session(
            session_id=self._new_id(),
            seed_run_id=seed_run_id,
            started_at=now(),
            settings=settings,
        )

    def _new_id(self) -> str:
        """By the clock, and unlike every other in this folder."""
        base = f"{self.prefix}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        name, again = base, 1
        while any((self.folder / each).exists() for each in (name, f"{name}.json")):
            again += 1
            name = f"{base}_{again}"
        return name

    def write(self, session: Session) -> None:
        """Write it, whole or not at all."""
        write_atomic(self.folder / f"{session.session_id}.json", session.text)
        if self.pointer:
            write_atomic(self.folder / _LATEST, session.text)

    def place(self, session: Session) -> Path:
        """The folder of a session's run: its iterations, its journal and its page."""
        return self.folder / session.session_id

    def rows(self) -> list[dict[str, Json]]:
        """Every session that can be read, by name, as its file has it."""
        documents: list[dict[str, Json]] = []
        for path in sorted(self.folder.glob("*.json")):
            if path.name == _LATEST:
                continue
            with contextlib.suppress(BurnishError):
                data = read_json(path)
                documents += [data] if isinstance(data, dict) else []
        return documents

    def sessions(self) -> list[Session]:
        """The same as sessions."""
        readable: list[Session] = []
        for row in self.rows():
            with contextlib.suppress(BurnishError, ValueError, TypeError, KeyError):
                readable.append(Session.from_json(row))
        return readable

    def find(self, name: str = "last", *, ended: bool = False) -> Session:
        """An unfinished session by its id, or the last; raises SeedRefused where there is none.

        With `ended`, one that had ended is found too.
        """
        open_ones = [each for each in self.sessions() if ended or each.unfinished]
        chosen = [each for each in open_ones if name in ("last", each.session_id)]
        if not chosen:
            names = ", ".join(each.session_id for each in open_ones) or "none"
            raise SeedRefused(
                f"there is no unfinished session '{name}' in {self.folder}",
                remedy=f"unfinished: {names}",
            )
        return chosen[-1]


# -- BEST -----------------------------------------------------------------------------------------


def digests(folder: Path) -> dict[str, str]:
    """A digest of every file, by its path."""
    by_path: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            by_path[str(path.relative_to(folder))] = digest
    return by_path


_BEST = "BEST"
_MANIFEST = "manifest.json"
_ASIDE = "manifest.burnish.json"
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
            "winning_run_dir": path_within(best.run, self.home),
        }


def is_lower(loss: float, than: float) -> bool:
    """Strictly, and by more than floating point could add."""
    return loss < than - _SLACK


def path_within(run: Path, home: Path) -> str:
    """A path from a folder where it lies in it, so that the folder may be moved."""
    return str(run.relative_to(home) if run.is_relative_to(home) else run)


def best_so_far(home: Path) -> Mapping[str, Json] | None:
    """The manifest of BEST in a folder, or None where there is none."""
    for folder in (_BEST, _OLD):
        for name in (_ASIDE, _MANIFEST):
            manifest = mapping(read_json(home / folder / name))
            if "best_loss" in manifest or "loss" in manifest:
                return manifest
    return None


def loss_of(manifest: Mapping[str, Json]) -> float | None:
    """The loss that a manifest speaks of."""
    return number(manifest.get("best_loss", manifest.get("loss")))


def put_best(home: Path, deliverable: Path, manifest: Mapping[str, Json]) -> Path:
    """Exchange BEST for copies of these files; a kill leaves the old one or the new one."""
    recover(home)
    new, best = home / _NEW, home / _BEST
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
    """Put BEST back where a kill came between the two renames; remove what was left half made."""
    old, best = home / _OLD, home / _BEST
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
    clash = [_ASIDE] if os.path.lexists(new / _ASIDE) else []
    if lost or clash:
        remove_tree(new)
        reason = (
            f"cannot be read: {', '.join(lost)}" if lost else f"burnish needs the name {_ASIDE}"
        )
        raise FileTrouble(f"{deliverable} cannot be copied to {_BEST}: {reason}")
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
        reason = "it delivered the very files it started from"
        return Contender(signals=signals, counts_as=best.loss, cannot_win=reason)
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
    missing = [message for message, here, there in pairs if here is None and there is not None]
    unscored = result.evaluation.missing if result.evaluation is not None else ()
    missing += [f"the metric {name} has no score" for name in unscored]
    return f"cannot tell: {', '.join(missing)}" if missing else ""


def _lost(new: Iterable[str], old: Iterable[str]) -> str:
    """By name, since other systems deliver without folders."""
    there = {Path(path).name for path in new}
    gone = [shown(path) for path in old if Path(path).name not in there]
    return f"it no longer has {', '.join(gone)}" if gone else ""
