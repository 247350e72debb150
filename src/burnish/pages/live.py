"""The panel above a run in the service: what runs now, what is left, what went wrong, who called.

It is read from the journal, whichever process drives the run. How far the current evaluation has
come is known from the run itself if this process drives it, otherwise from what its driver reports.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from burnish.core.content import Json
from burnish.core.formatting import shorten
from burnish.core.money import Spend
from burnish.core.outcomes import FailureKind
from burnish.journal.journal import JournalReader
from burnish.pages.money import MOST_EFFECTS, CostLine, role_lines
from burnish.reports.progress import LiveState
from burnish.runs.directory import AFTER_SEARCH, events, look_into
from burnish.runs.events import Tick

_REASONS = 5
"""Different reasons that are shown."""
_WORDS = 160
"""Characters of one reason."""
_SHARE = 100
"""A page is made again after so many times as long as it took."""
_LONGEST = 600.0


def rest_after(seconds: float) -> float:
    """How long a page rests that took so long to make: following a run must not slow it down."""
    return min(_LONGEST, seconds * _SHARE)


@dataclass(frozen=True, kw_only=True)
class TroubleReason:
    """Why runs of cases gave no answer, and how often that happened."""

    kind: str
    """`failed` or `missing`."""
    words: str
    count: int


@dataclass(frozen=True, kw_only=True)
class LivePanel:
    """What is known about a run that is going on."""

    status: str
    """As the service has it."""
    what: str
    done: int = 0
    total: int = 0
    failed: int = 0
    missing: int = 0
    used: tuple[tuple[str, float], ...] = ()
    """Each limit with the share of it that is used."""
    time_left: str
    trials: int
    best: float | None
    spent: Spend
    billed: Spend
    seconds: float
    reasons: tuple[TroubleReason, ...] = ()
    """Of the last trial and the current one."""
    roles: tuple[CostLine, ...] = ()
    recent: tuple[str, ...] = ()
    """What happened last, in the words of the strategy."""

    @property
    def calls_per_minute(self) -> float | None:
        """The rate over all the time that the run was active."""
        return self.billed.calls * 60 / self.seconds if self.seconds > 0 else None

    @classmethod
    def read(
        cls, folder: Path, state: LiveState | None, *, status: str, reported: Tick | None = None
    ) -> "LivePanel":
        """From a run's folder; `state` is what this process knows if it drives the run.

        Otherwise `reported` is how far the current evaluation is, as its driver last said.
        """
        with look_into(folder) as journal:
            seconds = journal.active_seconds
            if state is None:
                state = _replayed(journal, seconds, reported)
            tick = state.tick_now
            return cls(
                status=status,
                what=state.what,
                done=0 if tick is None else tick.done,
                total=0 if tick is None else tick.total,
                failed=0 if tick is None else tick.failed,
                missing=0 if tick is None else tick.missing,
                used=tuple(state.used.items()),
                time_left=state.time_left,
                trials=state.trials,
                best=state.best,
                spent=state.spent,
                billed=journal.billed,
                seconds=max(seconds, state.seconds),
                reasons=tuple(_reasons(journal)),
                roles=role_lines(journal) if journal.effects_noted <= MOST_EFFECTS else (),
                recent=tuple(line for line in state.recent.copy() if line),
            )


def _replayed(journal: JournalReader, seconds: float, reported: Tick | None) -> LiveState:
    """What the events tell about a run that another process drives."""
    state = LiveState()
    for event in events(journal):
        state.event(event)
    if reported is not None:
        state.tick(reported)
    state.seconds = max(seconds, state.seconds)
    return state


_KINDS = {FailureKind.AGENT.value: "failed", FailureKind.INFRASTRUCTURE.value: "missing"}


def _reasons(journal: JournalReader) -> Iterator[TroubleReason]:
    now = journal.trials_recorded
    counts: Counter[tuple[str, str]] = Counter()
    for row in journal.values({max(0, now - 1), now, AFTER_SEARCH}, kinds=("run",)):
        if (failure := _failure(row.value)) is not None:
            counts[failure] += 1
    for (kind, words), count in counts.most_common(_REASONS):
        yield TroubleReason(kind=kind, words=words, count=count)


def _failure(outcome: Json) -> tuple[str, str] | None:
    failure = outcome.get("failure") if isinstance(outcome, dict) else None
    if not isinstance(failure, dict):
        return None
    kind = _KINDS.get(str(failure.get("kind")), "failed")
    return kind, shorten(str(failure.get("message") or failure.get("error") or kind), _WORDS)


@dataclass(frozen=True, kw_only=True)
class RunControls:
    """What the service shows above a run: its state, and what the visitor may do with it."""

    key: str
    status: str
    live: bool
    """Whether it waits or goes on. The service knows: nobody drives a run that was just resumed."""
    error: str = ""
    events: int = 0
    """How many there were when the page was made: the page hears of all later ones."""
    panel: LivePanel | None = None
    action: Literal["", "stop", "resume"] = ""
    why_not: str = ""
    """Why there is nothing that the visitor may do."""
    limits: tuple[tuple[str, str], ...] = field(default=())
    """The limits that a form may set, with what they count."""
    limit_words: str = "A limit above that of the project file is cut to it."
    may_refine: bool = False
    """Whether it is a delegation that the visitor may refine now."""
