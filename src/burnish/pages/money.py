"""What a run cost: by role, by model, by phase, and trial by trial."""

from collections.abc import Mapping
from dataclasses import dataclass

from burnish.core.money import NOTHING, Spend
from burnish.journal.journal import JournalReader
from burnish.pages.charts import Chart, bar_chart
from burnish.runs.directory import RunRecord, look_into

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
            after_search=run.unrecorded,
            rough=rough,
        )

    @property
    def chart(self) -> Chart | None:
        """Money by role; where no price is known, calls."""
        priced = any(line.spend.nano_usd for line in self.by_role)
        bars = [
            (line.name, line.spend.nano_usd / 1e9 if priced else float(line.calls))
            for line in self.by_role
        ]
        title = "Cost by role" if priced else "Calls by role"
        unit = "US dollars" if priced else "calls"
        return bar_chart("roles", title, bars, unit=unit, head=("role", unit))


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
    paid = [line for line in lines if line.spend != NOTHING]
    return tuple(sorted(paid, key=lambda line: (-line.spend.nano_usd, -line.calls)))
