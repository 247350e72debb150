"""What a run does now and what it has cost: the panel above it in the service, and its spending.

The panel is read from the journal, whichever process drives the run. How far the current evaluation
has come is known from the run itself if this process drives it, otherwise from what its driver
reports.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from burnish.core.cases import FailureKind
from burnish.core.content import Json
from burnish.core.formatting import Drawing, shorten
from burnish.core.money import NOTHING, Spend
from burnish.journal.journal import JournalReader
from burnish.pages.charts import Chart, bar_chart, drawn
from burnish.reports.progress import LiveState
from burnish.runs.directory import AFTER_SEARCH, RunRecord, events, look_into
from burnish.runs.events import Tick

MOST_EFFECTS = 50_000
"""Stored results above which served pages tell costs apart by phase only: all are read for more."""
_TRIALS = 200
"""Trials in one chart."""
_MODEL = "model"
"""The kind of effects that are requests to a model; without one, no request need be read."""
_NAMES = {
    "run": "agent",
    "score": "judges and metrics",
    "check": "checks",
    "probe": "probes",
}


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """One line of a table of costs."""

    name: str
    spend: Spend

    @property
    def calls(self) -> int:
        return self.spend.calls or self.spend.metric_calls


@dataclass(frozen=True, kw_only=True)
class RunCosts:
    """The cost of a run from every side."""

    by_role: tuple[CostLine, ...]
    by_model: tuple[CostLine, ...]
    by_phase: tuple[CostLine, ...]
    by_trial: tuple[CostLine, ...] = ()
    """In the order of the trials."""
    after_search: Spend = NOTHING
    """What measuring the winner at the end cost."""
    rough: bool = False
    """Whether there are too many effects to tell roles and models apart."""

    @classmethod
    def read(cls, run: RunRecord, *, most: int) -> "RunCosts":
        """From the trials of a run, and from its journal unless it has more effects than `most`."""
        phases: dict[str, Spend] = {}
        for row in run.rows:
            phase = row.trial.phase or "search"
            phases[phase] = phases.get(phase, NOTHING) + row.spend
        rough, kinds, models = run.effects > most, {}, {}
        if not rough:
            with look_into(run.folder) as journal:
                kinds = _by_kind(journal)
                models = _by_model(journal) if _MODEL in kinds else {}
        return cls(
            by_role=_role_lines(kinds),
            by_model=_lines(models),
            by_phase=_lines({**phases, "final measurements": run.unrecorded}),
            by_trial=tuple(CostLine(name=str(row.number), spend=row.spend) for row in run.rows),
            after_search=run.unrecorded,
            rough=rough,
        )

    @property
    def chart(self) -> Chart | None:
        """Money by role; where no price is known, calls."""
        title, unit, amounts = _amounts(self.by_role)
        bars = [(line.name, amount) for line, amount in zip(self.by_role, amounts, strict=True)]
        return bar_chart("roles", f"{title} by role", bars, unit=unit, head=("role", unit))

    @property
    def trial_chart(self) -> Chart | None:
        """The same by trial; of many trials, those that cost most."""
        dearest = {line.name for line in _dearest(self.by_trial)[:_TRIALS]}
        lines = [line for line in self.by_trial if line.name in dearest]
        title, unit, amounts = _amounts(lines)
        if len(lines) < 2 or not any(amounts):
            return None
        left_out = len(self.by_trial) - len(lines)
        drawing = Drawing(
            title=f"{title} by trial",
            labels=tuple(line.name for line in lines),
            series={unit: amounts},
            unit=unit,
            kind="bars",
            label="trial",
            note=f"The {len(lines)} trials that cost most, of {len(self.by_trial)}."
            if left_out
            else "A result that another trial had paid for costs nothing again.",
        )
        return drawn(drawing, "trial-costs")


def _amounts(lines: Sequence[CostLine]) -> tuple[str, str, tuple[float, ...]]:
    """What is counted, in which unit, and how much of it: money, or calls without any price."""
    if any(line.spend.nano_usd for line in lines):
        return "Cost", "US dollars", tuple(line.spend.nano_usd / 1e9 for line in lines)
    return "Calls", "calls", tuple(float(line.calls) for line in lines)


def role_lines(journal: JournalReader) -> tuple[CostLine, ...]:
    """The calls of a run by role."""
    return _role_lines(_by_kind(journal))


def _role_lines(spends: Mapping[str, Spend]) -> tuple[CostLine, ...]:
    return _lines({_role(kind): spend for kind, spend in spends.items()})


def _by_kind(journal: JournalReader) -> dict[str, Spend]:
    """By kind of effect. What is nested belongs to the effect around it."""
    counted: set[str] = set()
    spends: dict[str, Spend] = {}
    # Effects that hold others come first, so that a call counts for whoever made it.
    for row in sorted(journal.costs(), key=lambda each: -len(each.spends)):
        new = [spend for key, spend in row.spends.items() if key not in counted]
        counted.update(row.spends)
        spends[row.kind] = sum(new, spends.get(row.kind, NOTHING))
    return spends


def _by_model(journal: JournalReader) -> dict[str, Spend]:
    models: dict[str, Spend] = {}
    for row in journal.effects():
        request = row.request if row.kind == _MODEL and isinstance(row.request, dict) else {}
        if name := request.get("named"):
            models[str(name)] = models.get(str(name), NOTHING) + row.spend
    return models


def _role(kind: str) -> str:
    return _NAMES.get(kind, kind.removeprefix("role:"))


def _lines(spends: Mapping[str, Spend]) -> tuple[CostLine, ...]:
    """The lines that cost anything, the dearest first."""
    lines = (CostLine(name=name, spend=spend) for name, spend in spends.items())
    return tuple(_dearest(line for line in lines if line.spend != NOTHING))


def _dearest(lines: Iterable[CostLine]) -> list[CostLine]:
    return sorted(lines, key=lambda line: (-line.spend.nano_usd, -line.calls))


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
