"""The folder of a watch: what it was started with, its checks, what they found."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from burnish.core.cases import Case
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import ConfigError, JournalTrouble, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.statistics import ChartDesign
from burnish.datasets.formats import read_cases, write_cases
from burnish.runs.directory import NAME as RUN
from burnish.system.files import read_text, write_atomic

T = TypeVar("T")
_NAME = "watch.json"
PROPOSALS = "proposals.jsonl"
LOCK = "watch.lock"
_CHECK = "check.json"
_BEGUN = "begun.json"
_CASES = "cases.jsonl"
_SEEN = "seen.txt"
_SEARCHES = "optimizations"
_STILL_OPEN = frozenset({"charted", "design"})
"""Terms that may change until a check is finished: before that, no score is on a chart."""


@dataclass(frozen=True, kw_only=True)
class WatchTerms:
    """What makes the scores of two checks comparable: it stays the same for the life of a watch."""

    log: str
    project: str
    metrics: Mapping[str, str] = field(default_factory=dict[str, str])
    """The fingerprint of each metric by its name: another judge has another one."""
    charted: str = ""
    """The metric on the chart; empty means whether all metrics pass."""
    sample: int = 50
    design: ChartDesign = field(default_factory=ChartDesign)


@dataclass(frozen=True, kw_only=True)
class JudgedTrace:
    """A trace with its verdict."""

    case: str
    value: float | None
    """What the chart shows; None if it could not be judged."""
    failed: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict[str, str])
    """By metric, why it fails."""
    time: str = ""


@dataclass(frozen=True, kw_only=True)
class BegunCheck:
    """A look at the log whose sample is chosen; it may not be judged yet."""

    number: int
    fresh: int
    """Traces that were not there at the last check."""
    broken: int = 0
    new_baseline: bool = False
    """Whether the chart begins anew with this check."""


@dataclass(frozen=True, kw_only=True)
class WatchCheck(BegunCheck):
    """One look at the log, with what it found."""

    at: str
    judged: tuple[JudgedTrace, ...] = ()
    spent: Spend = NOTHING
    alarm: str = ""
    """The alarm in words, if this check raised one."""

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(each.value for each in self.judged if each.value is not None)

    @property
    def missing(self) -> int:
        return len(self.judged) - len(self.values)


@dataclass(frozen=True)
class WatchFolder:
    """The files of a watch. Everything is read from them, so a watch resumes wherever it ended."""

    path: Path

    def terms(self) -> WatchTerms | None:
        """What the watch was started with; None if that is still open."""
        file = self.path / _NAME
        return _decoded(WatchTerms, file) if file.exists() else None

    def agree(self, terms: WatchTerms) -> None:
        """Keep the terms, or refuse others than those that are there."""
        self.refuse_others(terms)
        data = json.dumps(codec(WatchTerms).encode(terms), indent=2) + "\n"
        write_atomic(self.path / _NAME, data)

    def refuse_others(self, terms: WatchTerms) -> None:
        """Refuse terms that do not fit those that are there; no metrics means not known yet."""
        if (stored := self.terms()) is None:
            return
        before, now = _fields(stored), _fields(terms)
        free = _STILL_OPEN if not self.checks() else frozenset[str]()
        free = free if terms.metrics else free | {"metrics"}
        changed = [name for name, value in now.items() if before.get(name) != value]
        if changed := [name for name in changed if name not in free]:
            message = f"this watch was started with another {', '.join(changed)}"
            remedy = "name another folder with -o, or put it back as it was"
            raise ConfigError([Problem(where=str(self.path), message=message, remedy=remedy)])

    def folder(self, number: int) -> Path:
        """The folder of a check."""
        return self.path / "checks" / f"{number:04}"

    def run(self, number: int) -> Path:
        """The run in which a check judges its traces."""
        return self.folder(number) / "run"

    def numbers(self) -> list[int]:
        """All checks that were begun."""
        folders = (self.path / "checks").glob("[0-9]*")
        return sorted(int(each.name) for each in folders if (each / _BEGUN).exists())

    def checks(self) -> tuple[WatchCheck, ...]:
        """All checks that were finished, oldest first."""
        files = [self.folder(number) / _CHECK for number in self.numbers()]
        return tuple(_decoded(WatchCheck, file) for file in files if file.exists())

    def unfinished(self) -> BegunCheck | None:
        """A check that was begun and not finished."""
        folders = (self.folder(number) for number in self.numbers())
        begun = (each / _BEGUN for each in folders if not (each / _CHECK).exists())
        return next((_decoded(BegunCheck, file) for file in begun), None)

    def seen(self) -> set[str]:
        """Hashes of the ids of all traces that a check has looked at, judged or not."""
        return {key for n in self.numbers() for key in read_text(self.folder(n) / _SEEN).split()}

    def begin(self, check: BegunCheck, cases: tuple[Case, ...], ids: list[str]) -> None:
        """Write down which traces a check judges, before anything is paid."""
        home = self.folder(check.number)
        home.mkdir(parents=True, exist_ok=True)
        write_cases(home / _CASES, list(cases))
        write_atomic(home / _SEEN, "".join(f"{seen_key(each)}\n" for each in ids))
        # Last: a check without it was not begun.
        write_atomic(home / _BEGUN, json.dumps(codec(BegunCheck).encode(check)) + "\n")

    def cases(self, number: int) -> tuple[Case, ...]:
        """The traces that a check judges."""
        return read_cases(self.cases_file(number)).cases

    def cases_file(self, number: int) -> Path:
        """Their file."""
        return self.folder(number) / _CASES

    def finish(self, check: WatchCheck) -> None:
        """Write the result of a check."""
        data = codec(WatchCheck).encode(check)
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        write_atomic(self.folder(check.number) / _CHECK, text)

    def search(self, number: int) -> Path:
        """The run that the alarm of a check starts."""
        return self.path / _SEARCHES / f"{number:04}"

    def searches(self) -> list[Path]:
        """The runs that alarms have started, oldest first."""
        folders = (self.path / _SEARCHES).glob("[0-9]*")
        return sorted(each for each in folders if (each / RUN).is_file())

    def propose(self, cases: tuple[Case, ...], proposed: set[str]) -> int:
        """Add cases to the proposals, unless they ask what was proposed before; how many."""
        file = self.path / PROPOSALS
        held = read_cases(file).cases if file.exists() and file.stat().st_size else ()
        known = proposed | {case.question_id for case in held}
        new = {c.question_id: c for c in cases if c.question_id not in known}
        if new:
            write_cases(file, [*held, *new.values()])
        return len(new)


def seen_key(trace: str) -> str:
    """A short hash of the id of a trace."""
    return short_id(trace)


def _fields(terms: WatchTerms) -> dict[str, Json]:
    data = codec(WatchTerms).encode(terms)
    assert isinstance(data, dict)
    return data


def _decoded(kind: type[T], file: Path) -> T:
    try:
        return codec(kind).decode(json.loads(read_text(file)))
    except ValueError as error:
        remedy = "move the folder away to begin again"
        raise JournalTrouble(f"{file} cannot be read: {error}", remedy=remedy) from None
