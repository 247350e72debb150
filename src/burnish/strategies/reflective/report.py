"""The words of a reflective search: its plan, its lines, and report.md."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import HoldsPrompts
from burnish.core.trials import Trial, TrialRow
from burnish.runs import progress
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, TrialRecorded
from burnish.runs.progress import ProgressLines
from burnish.runs.setup import Setup
from burnish.strategies import pruning_report
from burnish.strategies.reflective.attempts import (
    DECISIONS_AHEAD,
    MERGE,
    ROUNDS_AHEAD,
    ReflectiveDetails,
    budget_floor,
    deciding_cases,
)
from burnish.strategies.reflective.search import Reflective

ENDS = {
    "no_failures": "no failing case is left to diagnose",
    "nothing_new": "too many rounds without a candidate worth running",
    "reflector_failed": "the reflector no longer gives usable answers",
    "baseline_missing": "the baseline could not be measured",
}


def plan_lines(setup: Setup, strategy: Reflective) -> Iterator[str]:
    """The lines of `--dry-run`."""
    if isinstance(setup.target, HoldsPrompts):
        yield f"agent     {setup.target.prompts_summary}"
    yield from progress.agent_line(setup)
    label = progress.role_label(strategy.reflector)
    racing = "racing" if strategy.settings.racing else "classic"
    reflector = f", reflector {label}" if label else ""
    yield f"strategy  {strategy.name} ({racing}), seed {setup.seed}{reflector}"
    yield f"score     the mean of {', '.join(setup.objective.weights)}"
    names, values = strategy.fields(setup.target), setup.target.baseline.values
    yield f"prompts   {len(names)}"
    for surface in setup.target.surfaces:
        if surface.id in names:
            yield f"  {surface.id}: {progress.surface_words(surface, values[surface.id])}"
    yield from progress.case_lines(setup, strategy.settings.repeats)
    settings = strategy.settings
    together = settings.proposals_per_round
    many = f", {together} proposals at once" if together > 1 else ""
    merge = f", at most {counted(settings.max_merges, 'merge')}" if settings.merge else ""
    yield f"reflects  on {counted(settings.minibatch, 'case')} a round{many}{merge}"
    limits = [*progress.budget_limits(setup.budget, _limit_words), *progress.time_limits(setup)]
    yield f"limits    {', '.join(limits) or 'none'}"
    yield from _costs(setup, strategy)
    yield from progress.notes(setup)
    yield progress.NOTHING_PAID


def _limit_words(value: Any) -> str:
    if isinstance(value, Mapping):
        bars = cast("Mapping[str, float]", value)
        return ", ".join(f"{name} {bar:g}" for name, bar in bars.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def search_cost(setup: Setup, strategy: Reflective) -> str:
    """What a round costs at most; how many there will be depends on what is found."""
    settings, (baseline, looks, again) = strategy.settings, _measured(setup, strategy)
    proposal = looks.times(2) + progress.asking(strategy.roles) + baseline.times(again)
    most = proposal.times(settings.proposals_per_round)
    return f"a round of the search up to {spending(most, tokens=False)}"


def _measured(setup: Setup, strategy: Reflective) -> tuple[Spend, Spend, int]:
    """The cost of holdout, of a minibatch, and how often a candidate is run on holdout."""
    settings, held = strategy.settings, _deciding(setup, strategy)
    baseline = progress.sweeps(setup, Split.HOLDOUT, settings.repeats, most=held)
    looks = progress.sweeps(setup, Split.TRAIN, settings.repeats, most=settings.minibatch)
    return baseline, looks, 2 if settings.racing else 1


def _deciding(setup: Setup, strategy: Reflective) -> int:
    """How many cases of holdout decide, as far as that is known before the start."""
    settings, whole = strategy.settings, len(setup.dataset.holdout)
    if not settings.may_use_part_of_holdout:
        return whole

    def runs(split: Split, count: int) -> Spend:
        cost = progress.sweeps(setup, split, settings.repeats, most=count)
        cases = min(count, len(setup.dataset.cases(split)))
        return replace(cost, metric_calls=settings.repeats * cases)

    texts = len(strategy.fields(setup.target)) if settings.field_selection == "all" else 1
    proposal = runs(Split.TRAIN, settings.minibatch).times(2)
    proposal += progress.asking(strategy.roles).times(texts)
    rounds = proposal.times(settings.proposals_per_round * ROUNDS_AHEAD)
    last = progress.last_sweeps(setup)
    test = setup.dataset.test or (setup.dataset.holdout if setup.confirm else ())
    last = replace(last, metric_calls=2 * setup.test_repeats * len(test))

    def fits(count: int) -> bool:
        need = rounds + runs(Split.HOLDOUT, count).times(DECISIONS_AHEAD) + last
        return setup.budget.spend_limit(NOTHING, need) is None

    return deciding_cases(whole, fits)


def _part_of_holdout(setup: Setup, strategy: Reflective) -> Iterator[str]:
    held, whole = _deciding(setup, strategy), len(setup.dataset.holdout)
    if held < whole:
        yield (
            f"decides   on {held} of {whole} holdout cases: beside all of them the limits leave "
            f"no room for {ROUNDS_AHEAD} rounds"
        )


def _costs(setup: Setup, strategy: Reflective) -> Iterator[str]:
    settings, (baseline, looks, again) = strategy.settings, _measured(setup, strategy)
    yield from _part_of_holdout(setup, strategy)
    yield f"baseline  about {spending(baseline)}"
    per = " for each proposal:" if settings.proposals_per_round > 1 else ""
    yield f"a round  {per} about {spending(looks.times(2))} on train"
    asking = progress.asking(strategy.roles)
    yield f"          + {spending(asking)} for a text that the reflector rewrites"
    yield f"          + up to {spending(baseline.times(again))} on holdout"
    yield from progress.reserved(setup)
    yield from pruning_report.plan_lines(setup, settings)
    yield "          estimated from the length of prompts and references, if the model is known"
    floor = budget_floor(
        setup.dataset, settings, test_repeats=setup.test_repeats, confirm=setup.confirm
    )
    yield f"at least  {counted(floor, 'metric call')} to finish one round"


_ROOMY = 92
"""From this width on, lines about part of holdout do not shift the others."""


class ReflectiveLines(ProgressLines):
    """Trials by the round, each against its parent on a minibatch."""

    def trial(self, trial: TrialRecorded, width: int) -> str:
        index = trial.trial if trial.index is None else trial.index
        label = f"[{(trial.phase or 'trial')[0]}{trial.cycle!s:>3}.{index}]"
        name = f"{label} {progress.note_words(trial, width)}"
        if not trial.measured:
            return progress.turned_away_line(name, trial, width)
        usd, seconds = progress.spent_words(trial)
        # On a few cases there is no spread to speak of, but a parent to compare with.
        batch = f"{'——':<19}"
        if trial.parent_train is not None:
            batch = f"batch {number(trial.parent_train)} → {number(trial.train)}"
        held = "——" if trial.holdout is None else f"hold {number(trial.holdout)}"
        if trial.part_of_holdout:
            held = f"{held} of {trial.holdout_cases} cases"
        parts = [
            (0, name),
            (4, batch),
            (1, f"{held:<{22 if width >= _ROOMY else 10}}"),
            (0, f"{progress.outcome(trial):<8}"),
            (2, usd),
            (3, seconds),
        ]
        return progress.fitted(parts, width)


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from sections.headline(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    sides = [sections.passing_means(result_of(row, "holdout")) for row in (run.baseline, run.best)]
    names = sorted({name for side in sides for name in side})
    rows = ((cell(name, 60), *(number(side.get(name)) for side in sides)) for name in names)
    yield Heading("Metrics on holdout")
    yield Table(("metric", "baseline", "best"), tuple(rows))
    yield from _ancestry(run)
    yield from sections.changes_made(run)
    yield from pruning_report.pruning(run)
    yield from _trials(run)
    yield from sections.adoption(run)
    yield Heading("Method")
    method = (
        sections.started_with(run),
        f"cases: {sections.case_numbers(run)}; train fed the reflections, holdout decided",
        "a rewrite must beat its parent on a few train cases, then the leader on holdout",
    )
    yield Listing((*method, *_part_that_decided(run), *sections.provenance(run), *sections.CAVEATS))


def _part_that_decided(run: RunRecord) -> Iterator[str]:
    """The point about a search whose limits were too small for all of holdout."""
    baseline, whole = result_of(run.baseline, "holdout"), run.header.cases.get("holdout", 0)
    held = 0 if baseline is None else len({*baseline.scores, *baseline.errors})
    if 0 < held < whole:
        yield (
            f"{held} of {whole} holdout cases decided: the limits left too few rounds beside all "
            "of them, so a small difference may be luck"
        )


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from sections.result_rows(run, reason)
    yield "rounds", str(max((row.trial.cycle for row in run.rows), default=0))
    yield "trials", f"{run.trials}, {run.accepted} accepted{_of_these(run)}"
    yield from sections.cost_rows(run)


def _of_these(run: RunRecord) -> str:
    """What became of the others."""
    trials = [row.trial for row in run.rows if row.trial.phase != BASELINE]
    codes = Counter(trial.decision.code for trial in trials if trial.decision is not None)
    counts = {
        "kept to build on": sum(trial.kept for trial in trials),
        "not confirmed by a second run": codes["luck"],
        "lost a race early": codes["hopeless"] + codes["futile"],
        "merges": sum(trial.phase == MERGE for trial in trials),
        "without a proposal": sum(_nothing_proposed(trial) for trial in trials),
    }
    return "".join(f", {count} {what}" for what, count in counts.items() if count)


def _ancestry(run: RunRecord) -> Iterator[Section]:
    """The rewrites that the best candidate descends from, each with what it was made for."""
    yield Heading("How it came about")
    items: list[str] = []
    for row in _steps(run):
        diagnosis = "; ".join(ReflectiveDetails.of(row.trial).diagnosis.values())
        reason = cell(diagnosis or row.trial.candidate.origin.note or "—", 300)
        items.append(f"trial {row.number}, {', '.join(row.trial.touched) or '—'}: {reason}")
    yield Listing(tuple(items)) if items else Text.of("No rewrite was better than the baseline.")


def _steps(run: RunRecord) -> list[TrialRow]:
    """The trials that made the best candidate and its ancestors, in order."""
    made: dict[str, TrialRow] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE and not _nothing_proposed(row.trial):
            made.setdefault(row.trial.candidate.id, row)
    queue = [run.best_candidate.id] if run.best_candidate is not None else []
    rows: dict[int, TrialRow] = {}
    while queue:
        row = made.get(queue.pop())
        if row is not None and row.number not in rows:
            rows[row.number] = row
            queue += row.trial.candidate.parents
    return [rows[number] for number in sorted(rows)]


def _trials(run: RunRecord) -> Iterator[Section]:
    rows: list[tuple[str, ...]] = []
    for row in run.rows:
        trial = row.trial
        what = trial.candidate.origin.note or ", ".join(trial.touched) or "—"
        mark = "✓ " if trial.accepted else "↗ " if trial.kept else ""
        decision = f"{mark}{cell(sections.why(trial), 160)}"
        details, batch, held = ReflectiveDetails.of(trial), "—", "—"
        if (before := details.parent_score) is not None:
            batch = f"{number(1 - before)} → {number(loss_of(row, 'train'))}"
        if trial.holdout is not None:
            measured = trial.holdout.measurement
            part = "" if details.holdout_is_whole else f" ({counted(measured.cases, 'case')})"
            held = f"{number(measured.loss)}{part}"
        rows.append((str(row.number), str(trial.cycle), cell(what, 40), batch, held, decision))
    yield Heading("Every trial")
    yield Table(("#", "round", "what", "minibatch", "holdout", "decision"), tuple(rows))
    yield Text.of(
        "Losses, lower is better: on the minibatch, of the parent and the candidate; on holdout, "
        "over the number of cases given, or all. ✓ leads from here on, ↗ was built on."
    )


def _nothing_proposed(trial: Trial) -> bool:
    failed = bool(trial.proposals) and all(each.answer is None for each in trial.proposals)
    return failed or bool(ReflectiveDetails.of(trial).skipped)
