"""The words of a reflective search: its plan, its lines, and report.md."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from burnish.core.cases import Split
from burnish.core.formatting import (
    Facts,
    Heading,
    Listing,
    Section,
    Table,
    Text,
    cell,
    counted,
    number,
    spending,
)
from burnish.core.protocols import HoldsPrompts
from burnish.core.surfaces import TextSurface
from burnish.core.trials import Trial, TrialRow
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, TrialRecorded
from burnish.runs.progress import (
    NOTHING_PAID,
    ProgressLines,
    agent_line,
    asking,
    budget_limits,
    case_lines,
    fitted,
    note_words,
    notes,
    outcome,
    reserved,
    role_label,
    spent_words,
    surface_words,
    sweeps,
    time_limits,
    turned_away_line,
)
from burnish.runs.report_sections import (
    CAVEATS,
    adoption,
    case_numbers,
    changes_made,
    cost_rows,
    headline,
    passing_means,
    provenance,
    started_with,
    status_rows,
    why,
)
from burnish.runs.setup import Setup
from burnish.strategies.reflective.attempts import MERGE, ReflectiveDetails
from burnish.strategies.reflective.search import Reflective, budget_floor

ENDS = {
    "no_failures": "no failing case is left to diagnose",
    "nothing_new": "too many rounds without a candidate worth running",
    "reflector_failed": "the reflector gives no usable answer any more",
    "baseline_missing": "the baseline could not be measured",
}
"""Why a search ended."""


def plan_lines(setup: Setup, strategy: Reflective) -> Iterator[str]:
    """The lines of `--dry-run`."""
    if isinstance(setup.target, HoldsPrompts):
        yield f"agent     {setup.target.prompts_summary}"
    yield from agent_line(setup)
    label = role_label(strategy.reflector)
    racing = "racing" if strategy.settings.racing else "classic"
    reflector = f", reflector {label}" if label else ""
    yield f"strategy  {strategy.name} ({racing}), seed {setup.seed}{reflector}"
    yield f"score     the mean of {', '.join(setup.objective.weights)}"
    yield from _texts(setup, strategy)
    yield from case_lines(setup, strategy.settings.repeats)
    yield from _search(strategy)
    limits = [*budget_limits(setup.budget, _limit_words), *time_limits(setup)]
    yield f"limits    {', '.join(limits) or 'none'}"
    yield from _costs(setup, strategy)
    yield from notes(setup)
    yield NOTHING_PAID


def _texts(setup: Setup, strategy: Reflective) -> Iterator[str]:
    names, values = strategy.fields(setup.target), setup.target.baseline.values
    yield f"prompts   {len(names)}"
    for surface in setup.target.surfaces:
        if isinstance(surface, TextSurface) and surface.id in names:
            yield f"  {surface.id}: {surface_words(surface, values[surface.id])}"


def _search(strategy: Reflective) -> Iterator[str]:
    settings = strategy.settings
    together = settings.proposals_per_round
    many = f", {together} proposals at once" if together > 1 else ""
    merge = f", at most {counted(settings.max_merges, 'merge')}" if settings.merge else ""
    yield f"reflects  on {counted(settings.minibatch, 'case')} a round{many}{merge}"


def _limit_words(value: Any) -> str:
    if isinstance(value, Mapping):
        bars = cast("Mapping[str, float]", value)
        return ", ".join(f"{name} {bar:g}" for name, bar in bars.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _costs(setup: Setup, strategy: Reflective) -> Iterator[str]:
    settings = strategy.settings
    baseline = sweeps(setup, Split.HOLDOUT, settings.repeats)
    looks = sweeps(setup, Split.TRAIN, settings.repeats, most=settings.minibatch)
    again = 2 if settings.racing else 1
    yield f"baseline  about {spending(baseline)}"
    per = " for each proposal:" if settings.proposals_per_round > 1 else ""
    yield f"a round  {per} about {spending(looks.times(2))} on train"
    yield f"          + {spending(asking(strategy.roles))} for a text that the reflector rewrites"
    yield f"          + up to {spending(baseline.times(again))} on holdout"
    yield from reserved(setup)
    yield "          by the length of prompts and references, where the agent's model is known"
    floor = budget_floor(setup.dataset, settings, test_repeats=setup.test_repeats)
    yield f"at least  {counted(floor, 'metric call')} to finish one round"


class ReflectiveLines(ProgressLines):
    """Trials by the round, each against its parent on a minibatch."""

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One trial in one line."""
        index = trial.trial if trial.index is None else trial.index
        label = f"[{(trial.phase or 'trial')[0]}{trial.cycle!s:>3}.{index}]"
        name = f"{label} {note_words(trial, width)}"
        if not trial.measured:
            return turned_away_line(name, trial, width)
        usd, seconds = spent_words(trial)
        parts = [
            (0, name),
            (0, _on_minibatch(trial)),
            (2, f"{_on_holdout(trial):<22}"),
            (0, f"{outcome(trial):<8}"),
            (3, usd),
            (4, seconds),
        ]
        return fitted(parts, width)


def _on_minibatch(trial: TrialRecorded) -> str:
    # On a few cases there is no spread to speak of, but a parent to compare with.
    if trial.parent_train is None:
        return f"{'——':<19}"
    return f"batch {number(trial.parent_train)} → {number(trial.train)}"


def _on_holdout(trial: TrialRecorded) -> str:
    held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
    # A race that was lost early says nothing of the cases it did not come to.
    return f"{held} of {trial.holdout_cases} cases" if trial.part_of_holdout else held


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _metrics(run)
    yield from _ancestry(run)
    yield from changes_made(run)
    yield from _trials(run)
    yield from adoption(run)
    yield Heading("Method")
    yield Listing((*_method(run), *provenance(run), *CAVEATS))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from status_rows(run, reason)
    losses = (number(loss_of(row, "holdout")) for row in (run.baseline, run.best))
    yield "holdout loss", " → ".join(losses)
    yield "rounds", str(max((row.trial.cycle for row in run.rows), default=0))
    yield "trials", f"{run.trials}, {run.accepted} accepted{_of_these(run)}"
    yield from cost_rows(run)


def _of_these(run: RunRecord) -> str:
    """What became of the others."""
    trials = [row.trial for row in run.rows if row.trial.phase != BASELINE]
    counts = {
        "kept to build on": sum(trial.kept for trial in trials),
        "lucky once and not twice": sum(_code(trial) == "luck" for trial in trials),
        "lost a race early": sum(_code(trial) in ("hopeless", "futile") for trial in trials),
        "merges": sum(trial.phase == MERGE for trial in trials),
        "without a proposal": sum(_nothing_proposed(trial) for trial in trials),
    }
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _metrics(run: RunRecord) -> Iterator[Section]:
    sides = [passing_means(result_of(row, "holdout")) for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    rows = ((cell(name, 60), *(number(side.get(name)) for side in sides)) for name in names)
    yield Heading("Metrics on holdout")
    yield Table(("metric", "baseline", "best"), tuple(rows))


def _ancestry(run: RunRecord) -> Iterator[Section]:
    """The rewrites that the best candidate descends from, each with what it was made for."""
    yield Heading("How it came about")
    steps = list(_steps(run))
    if not steps:
        yield Text.of("No rewrite was better than the baseline.")
        return
    yield Listing(tuple(_step_words(row) for row in steps))


def _step_words(row: TrialRow) -> str:
    reason = _diagnosis(row.trial) or row.trial.candidate.origin.note or "—"
    return f"trial {row.number}, {', '.join(row.trial.touched) or '—'}: {cell(reason, 300)}"


def _steps(run: RunRecord) -> Iterator[TrialRow]:
    """The trials that made the best candidate and its ancestors, the first one first."""
    made: dict[str, TrialRow] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE and not _nothing_proposed(row.trial):
            made.setdefault(row.trial.candidate.id, row)
    waiting = [run.best_candidate.id] if run.best_candidate is not None else []
    rows: dict[int, TrialRow] = {}
    while waiting:
        row = made.get(waiting.pop())
        if row is not None and row.number not in rows:
            rows[row.number] = row
            waiting += row.trial.candidate.parents
    yield from (rows[number] for number in sorted(rows))


def _trials(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        decision = f"{mark}{cell(why(trial), 160)}"
        numbers = (str(row.number), str(trial.cycle))
        rows.append((*numbers, cell(what, 40), _batch(row), _held(row), decision))
    yield Heading("Every trial")
    yield Table(("#", "round", "what", "minibatch", "holdout", "decision"), tuple(rows))
    yield Text.of(
        "Losses, low is good: on its minibatch the parent's and the candidate's; on holdout over "
        "as many cases as are named, or all. ✓ leads from here on, ↗ was built on."
    )


def _batch(row: TrialRow) -> str:
    before = ReflectiveDetails.of(row.trial).parent_score
    if before is None:
        return "—"
    return f"{number(1 - before)} → {number(loss_of(row, 'train'))}"


def _held(row: TrialRow) -> str:
    held = row.trial.holdout
    if held is None:
        return "—"
    whole = ReflectiveDetails.of(row.trial).holdout_is_whole
    part = "" if whole else f" ({counted(held.measurement.cases, 'case')})"
    return f"{number(held.measurement.loss)}{part}"


def _method(run: RunRecord) -> Iterator[str]:
    yield started_with(run)
    yield f"cases: {case_numbers(run)}; train fed the reflections, holdout decided"
    yield "a rewrite must beat its parent on a few train cases, then the leader on holdout"


def _diagnosis(trial: Trial) -> str:
    return "; ".join(ReflectiveDetails.of(trial).diagnosis.values())


def _code(trial: Trial) -> str:
    return "" if trial.decision is None else trial.decision.code


def _nothing_proposed(trial: Trial) -> bool:
    failed = bool(trial.proposals) and all(each.answer is None for each in trial.proposals)
    return failed or bool(ReflectiveDetails.of(trial).skipped)
