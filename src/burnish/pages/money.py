"""What a run cost: by role, by model, by phase, and trial by trial."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from burnish.core.drawings import Drawing
from burnish.core.money import NOTHING, Spend
from burnish.journal.journal import JournalReader
from burnish.pages.charts import Chart, bar_chart, drawn
from burnish.runs.directory import RunRecord, look_into

MOST_EFFECTS = 50_000
"""Stored results above which served pages tell costs apart by phase only: all are read for more."""
_TRIALS = 200
"""Trials in one chart."""
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
                kinds, models = _by_kind(journal), _by_model(journal)
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
        request = row.request if row.kind == "model" and isinstance(row.request, dict) else {}
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
