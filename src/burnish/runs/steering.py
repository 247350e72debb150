"""Steering: what people send to a run while it goes on, and how the run takes it in.

A note is a file in the run's folder. The run looks for notes at numbered points between trials, and
the journal keeps what each point took in. So a resume takes the same notes at the same points, and
the folder is only looked at where nobody has looked before.
"""

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from burnish.core.cases import Dataset
from burnish.core.content import Json, canonical, codec
from burnish.core.errors import BurnishError, Problem, SteeringRefused, in_shell
from burnish.core.formatting import counted
from burnish.core.leaks import LeakWatch
from burnish.core.money import NOTHING
from burnish.core.protocols import Call, Effects, Receipt, Target
from burnish.core.surfaces import (
    Candidate,
    ChoiceSurface,
    DemosSurface,
    NumberSurface,
    Origin,
    Surface,
    TextSurface,
    Value,
    diff,
)
from burnish.core.trials import FINISHED, TrialDetails
from burnish.journal.once import JournaledEffects
from burnish.runs.directory import RunDirectory, RunRecord
from burnish.runs.events import PERSON, Event, EventData, Steered, Warned, read_all
from burnish.runs.recorder import now
from burnish.system import Redactor, place_inside, read_bytes, write_inside
from burnish.system.config import near

Action: TypeAlias = Literal["try", "tell", "pin", "unpin"]
FOLDER = "steering"
MOST_CHARS = 200_000
"""Characters of a value that is tried."""
_MOST_HINT = 2_000
"""Characters of a hint."""
_MOST_HINTS = 20
"""Hints that a proposer is told."""
_MOST_NAME = 60
_LABEL = "steering"


@dataclass(frozen=True, kw_only=True)
class Note:
    """What a person sends to a run."""

    action: Action
    by: str = ""
    at: str = field(default_factory=now)
    id: str = field(default_factory=lambda: f"{time.time_ns():020d}-{secrets.token_hex(4)}")
    """Notes are taken in by their ids: in the order in which they were sent."""
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of `try`: by surface, what to try, as text."""
    text: str = ""
    """Of `tell`."""
    surfaces: tuple[str, ...] = ()
    """Of `pin` and `unpin`."""

    @property
    def names(self) -> tuple[str, ...]:
        """The surfaces that it names."""
        return (*self.values, *self.surfaces)


@dataclass(frozen=True, kw_only=True)
class _Taken:
    """The notes that a point took in, as the journal keeps them."""

    notes: tuple[Note, ...]


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A person's own candidate: values to try on top of whatever leads."""

    values: Mapping[str, Value]
    by: str
    at: str

    def on(self, parent: Candidate) -> Candidate:
        """The candidate."""
        return parent.child(self.changes(parent), origin=self.origin)

    def changes(self, parent: Candidate) -> dict[str, Value]:
        """The values that it changes."""
        return {name: _ended(value, parent.values[name]) for name, value in self.values.items()}

    @property
    def origin(self) -> Origin:
        return Origin(kind=PERSON, by=self.by, note=f"{self.by}'s own {', '.join(self.values)}")

    @property
    def details(self) -> TrialDetails:
        """What the ledger says of where it comes from."""
        source: dict[str, Json] = {"kind": PERSON, "by": self.by, "sent_at": self.at}
        return TrialDetails(proposal_source=source)


def _ended(value: Value, before: Value) -> Value:
    """A text without the last line break that editors add, unless the one before it has it too."""
    if isinstance(value, str) and isinstance(before, str) and not before.endswith("\n"):
        return value.removesuffix("\n").removesuffix("\r")
    return value


# -- The door: checks and sends a note -------------------------------------------------------------


def send(run: RunRecord, note: Note, *, cases: Dataset | None = None) -> None:
    """Leave a note for a run, which takes it in between two trials; now, or once it is resumed.

    Raises SteeringRefused if the run cannot take it. `cases` have the held-out text, if they can be
    read here; the run checks it again.
    """
    name, takes = run.header.id, run.header.steering
    if _is_over(run):
        raise SteeringRefused(
            f"run {name} is finished, and a resume would not search on",
            remedy=f"start another run from it with --fork {in_shell(name)}, and steer that one",
        )
    if not takes:
        raise SteeringRefused(
            f"run {name} takes no notes: the strategy '{run.header.strategy}' cannot be steered, "
            "or an earlier burnish started it",
            remedy=f"a new run with --fork {in_shell(name)} does, if its strategy can",
        )
    pinned = pinned_in(run.events, waiting(run.folder))
    watch = None if cases is None else LeakWatch(cases)
    if problem := _why_refused(note, takes=takes, pinned=pinned, watch=watch):
        raise SteeringRefused(problem.message, remedy=problem.remedy)
    redactor = Redactor.from_environment()
    content = canonical(codec(Note).encode(note)).decode()
    name = f"{FOLDER}/{note.id}.json"
    write_inside(run.folder, name, f"{redactor.without_known(content)}\n")


def _is_over(run: RunRecord) -> bool:
    """Whether nothing can be tried any more, not even after a resume with a higher limit."""
    nothing_left = run.ending is not None and run.ending.code == FINISHED.code
    return not run.driven and (run.sealed is not None or nothing_left)


def waiting(folder: Path) -> list[Note]:
    """The notes that a run has not taken in, in the order in which they were sent."""
    return [note for _, note in _read(folder) if note is not None]


def _read(folder: Path) -> Iterator[tuple[Path, Note | None]]:
    """The files of notes; None for one that is not a note."""
    for path in sorted((folder / FOLDER).glob("*.json")):
        note = None
        with suppress(BurnishError, ValueError):
            note = codec(Note).decode(json.loads(read_bytes(path)))
        # Its file is removed by its id.
        yield path, note if note is not None and note.id == path.stem else None


def pinned_in(events: Iterable[Event], notes: Iterable[Note] = ()) -> frozenset[str]:
    """The surfaces that are pinned once these notes are taken in, too."""
    taken = [(e.action, e.surfaces) for e in read_all(events, Steered) if not e.refused]
    pinned: set[str] = set()
    for action, names in (*taken, *((note.action, note.surfaces) for note in notes)):
        if action == "pin":
            pinned |= {*names}
        elif action == "unpin":
            pinned -= {*names}
    return frozenset(pinned)


def _why_refused(
    note: Note,
    *,
    takes: Mapping[str, Sequence[str]],
    pinned: Collection[str],
    watch: LeakWatch | None,
) -> Problem | None:
    """Why a run cannot take a note in; None if it can."""
    allowed = takes.get("pin" if note.action == "unpin" else note.action)
    if allowed is None:
        able = ", ".join(f"`{name}`" for name in takes)
        return Problem(message=f"this search cannot take `{note.action}`; it takes {able}")
    for name in note.names:
        if name not in allowed:
            message = f"there is no surface '{name}' to {note.action}"
            return Problem(message=message, remedy=near(name, allowed))
    leaks = (watch.leaked(text) for text in (note.text, *note.values.values()) if watch is not None)
    if case := next(filter(None, leaks), None):
        return Problem(
            message=f"it contains text of '{case}', which is held out: no proposer may see it",
            remedy="say the rule in words of your own",
        )
    checks = {"try": _bad_values, "tell": _bad_hint, "pin": _bad_pins, "unpin": _bad_pins}
    return checks[note.action](note, allowed, pinned)


def _bad_values(note: Note, allowed: Sequence[str], pinned: Collection[str]) -> Problem | None:
    del allowed
    if not note.values:
        return Problem(message="there is nothing to try", remedy="name a file with the new text")
    for name, text in note.values.items():
        if name in pinned:
            message = f"'{name}' is pinned"
            return Problem(
                message=message,
                remedy=f"unpin it first: `burnish runs unpin RUN {in_shell(name)}`",
            )
        if not text.strip():
            return Problem(message=f"the text for '{name}' is empty")
        if len(text) > MOST_CHARS:
            message = f"the text for '{name}' has {len(text):,} characters"
            return Problem(message=message, remedy=f"{MOST_CHARS:,} are the most that can be tried")
    return None


def _bad_hint(note: Note, allowed: Sequence[str], pinned: Collection[str]) -> Problem | None:
    del allowed, pinned
    if not note.text.strip():
        return Problem(message="the hint is empty")
    if len(note.text) > _MOST_HINT:
        return Problem(
            message=f"the hint has {len(note.text):,} characters",
            remedy=f"{_MOST_HINT:,} are the most; `burnish runs try` takes a whole text",
        )
    return None


def _bad_pins(note: Note, allowed: Sequence[str], pinned: Collection[str]) -> Problem | None:
    if not note.surfaces:
        return Problem(message="no surface is named", remedy=f"there are: {', '.join(allowed)}")
    if note.action == "unpin":
        free = [name for name in note.surfaces if name not in pinned]
        remedy = f"pinned are: {', '.join(sorted(pinned)) or 'none'}"
        return Problem(message=f"'{free[0]}' is not pinned", remedy=remedy) if free else None
    if {*allowed} <= {*pinned, *note.surfaces}:
        remedy = "leave one of them free, or stop the run"
        return Problem(message="nothing would be left to change", remedy=remedy)
    return None


def person_name(name: str) -> str:
    """The name of a person in one line, as events and reports show it."""
    return " ".join(re.sub(r"[^\w .@+-]", " ", name).split())[:_MOST_NAME] or "somebody"


# -- The run: takes notes in -----------------------------------------------------------------------


class Steering:
    """What people have told a run so far. A strategy asks for the `next` between two trials."""

    def __init__(
        self,
        directory: RunDirectory,
        effects: JournaledEffects,
        target: Target,
        *,
        watch: Callable[[], LeakWatch],
        tell: Callable[[EventData, str], None],
        trial: Callable[[], int],
    ) -> None:
        self._directory = directory
        self._effects = effects
        self._takes = directory.header.steering
        self._surfaces: dict[str, Surface] = {each.id: each for each in target.surfaces}
        self._watch = watch
        self._tell = tell
        self._trial = trial
        self._points = 0
        self._taken: set[str] = set()
        self._hints: list[str] = []
        self.pinned: frozenset[str] = frozenset()
        """Surfaces that no candidate may change."""

    @property
    def hints(self) -> str:
        """What proposers are told, a line each; empty if nobody told anything."""
        return "\n".join(f"- {' '.join(hint.split())}" for hint in self._hints)

    def free(self, names: Iterable[str]) -> list[str]:
        """The names of surfaces that are not pinned."""
        return [name for name in names if name not in self.pinned]

    def problems(self, candidate: Candidate, parent: Candidate) -> list[Problem]:
        """The pinned surfaces that a candidate changes."""
        changed = (change.surface for change in diff(parent, candidate))
        message = "it is pinned, so it must stay as it is"
        return [Problem(where=name, message=message) for name in changed if name in self.pinned]

    async def next(self) -> Suggestion | None:
        """Take in what was sent; a candidate that is to be the next trial, if there is one.

        To be called where a trial could begin, at the same places on a replay.
        """
        if not self._takes:
            return None
        self._points += 1
        notes: list[Note] = []
        journal, trial = self._directory.journal, self._trial()
        call = Call(
            kind=_LABEL,
            request={"point": self._points},
            codec=codec(_Taken),
            estimate=NOTHING,
            computed=True,
        )
        if not self._effects.knows(call.key):
            if self._effects.replays(trial) or journal.continued(_LABEL, self._points):
                return None
            notes = self._due()
            if not notes:
                journal.add_continue(_LABEL, self._points)
                return None

        async def perform(effects: Effects) -> Receipt[_Taken]:
            del effects
            return Receipt(value=_Taken(notes=tuple(notes)))

        taken = await self._effects.scope(trial=trial).once(call, perform)
        suggestions = [self._take(note, trial) for note in taken.notes]
        return next(filter(None, suggestions), None)

    def _due(self) -> list[Note]:
        """The notes to take in now: up to the first candidate, which is a trial of its own."""
        due: list[Note] = []
        for path, note in _read(self._directory.folder):
            if note is None:
                message = f"{path} is not a note for this run, and is ignored"
                self._tell(Warned(message=message), f"{_LABEL}:{path.name}")
            elif note.id in self._taken:
                self._remove(note)  # the process ended before it could
            else:
                due.append(note)
                if note.action == "try":
                    break
        return due

    def _take(self, note: Note, trial: int) -> Suggestion | None:
        """Apply a note and tell everybody; its candidate, if it has one."""
        self._taken.add(note.id)
        values: dict[str, Value] = {}
        problem = _why_refused(
            note, takes=self._takes, pinned=self.pinned, watch=self._watch()
        ) or self._unfit(note, values)
        event = Steered(
            action=note.action,
            by=note.by,
            sent_at=note.at,
            trial=trial,
            surfaces=note.names,
            text=note.text,
            refused="" if problem is None else str(problem),
        )
        self._tell(event, f"{_LABEL}:{note.id}")
        self._remove(note)
        if problem is not None:
            return None
        if note.action == "pin":
            self.pinned |= {*note.surfaces}
        elif note.action == "unpin":
            self.pinned -= {*note.surfaces}
        elif note.action == "tell":
            self._hints.append(note.text)
        else:
            return Suggestion(values=values, by=note.by, at=note.at)
        return None

    def _unfit(self, note: Note, values: dict[str, Value]) -> Problem | None:
        """What only the run can know is wrong; fills in the values of a candidate."""
        if note.action == "tell" and len(self._hints) >= _MOST_HINTS:
            return Problem(message=f"{counted(_MOST_HINTS, 'hint')} are the most that are told")
        for name, text in note.values.items():
            value = _value(self._surfaces[name], text) if name in self._surfaces else None
            if value is None:
                return Problem(where=name, message="this text is not a value of it")
            values[name] = value
        return None

    def _remove(self, note: Note) -> None:
        place = place_inside(self._directory.folder, f"{FOLDER}/{note.id}.json")
        place.unlink(missing_ok=True)

    def left_over(self) -> int:
        """How many notes nobody has taken in."""
        return sum(note.id not in self._taken for note in waiting(self._directory.folder))


def _value(surface: Surface, text: str) -> Value | None:
    """A text as a value of a surface; None if it is none. Bounds are checked as of any value."""
    bare = text.strip()
    if isinstance(surface, NumberSurface):
        with suppress(ValueError):
            number = float(bare)
            whole = surface.integer and number.is_integer()
            return (int(number) if whole else number) if math.isfinite(number) else None
        return None
    if isinstance(surface, ChoiceSurface):
        return next((choice for choice in surface.choices if str(choice) == bare), None)
    if isinstance(surface, DemosSurface):
        return None
    return text if isinstance(surface, TextSurface) else text.replace("\r\n", "\n")
