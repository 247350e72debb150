"""report.md of coordinate descent: eight parts, the claim first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from burnish.core.errors import in_shell
from burnish.core.formatting import (
    Drawing,
    Facts,
    Heading,
    Listing,
    Section,
    Series,
    Table,
    Text,
    cell,
    counted,
    number,
    sparkline,
)
from burnish.core.trials import TrialRow
from burnish.runs import report_sections as sections
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, PhaseEnded, PhaseStarted, read_all
from burnish.runs.ledger import axis_target
from burnish.runs.progress import ended_words
from burnish.strategies.coordinate.phases import dead_axes, headroom_points
from burnish.strategies.coordinate.search import changed_files, fall, rationales

_PER_LINE = 64
"""Trials and boundaries in one line of the trajectory; a longer run goes on below."""
ENDS = {
    "max_trials": "the limit on trials is reached",
    "patience": "too many trials without an accept",
    "converged": "nothing promising is left to try",
    "space_exhausted": "every point was tried",
    "no_examples": "train has no example to show",
    "dead_axes": "no axis of this phase reaches a request",
    "pinned": "everything of this phase is pinned",
    "no_failures": "no failing case is left to diagnose",
    "failures_not_to_show": "the remaining failures may not be shown to a critic",
    "nothing_to_gain": "the loss on train is 0",
    "stopped": "the run was stopped",
    "dry_cycle": "a whole cycle brought no gain",
    "max_cycles": "the limit on cycles is reached",
    "baseline_missing": "the baseline could not be measured",
}


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from sections.headline(run)
    if _skipped(run):
        why = "was skipped" if run.header.cases.get("holdout") else "is missing"
        yield Text.of(
            f"**⚠ Holdout {why}: train both chose this result and measures it. Expect the gain to "
            "shrink, or to vanish, on cases the search has not seen.**"
        )
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _trajectory(run)
    yield from _attribution(run)
    yield from _metrics(run)
    yield from changed_files(run)
    yield from rationales(run)
    yield from sections.adoption(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from sections.status_rows(run, reason)
    yield from ((f"{split} loss", _change_words(run, split)) for split in sections.SPLITS)
    yield "trials", f"{run.trials}, {run.accepted} accepted"
    yield "repeats", ", ".join(map(str, _repeats(run))) or "—"
    yield from sections.alarm_rows(run)
    yield from sections.cost_rows(run)


def _change_words(run: RunRecord, split: str) -> str:
    """`0.969 → 0.125 (−87.1 %)`."""
    before, after = (loss_of(row, split) for row in (run.baseline, run.best))
    both = f"{number(before)} → {number(after)}"
    if before is None or after is None or before <= 0:
        return both
    return f"{both} ({100 * (after - before) / before:+.1f} %)".replace("-", "−")


def _metrics(run: RunRecord) -> Iterator[Section]:
    sides = {
        split: [sections.passing_means(result_of(row, split)) for row in (run.baseline, run.best)]
        for split in sections.SPLITS
    }
    names = sorted({name for pair in sides.values() for side in pair for name in side})
    rows = (
        (
            cell(name, 60),
            *(c for s in sections.SPLITS for c in _moved(*(e.get(name) for e in sides[s]))),
        )
        for name in names
    )
    yield Heading("Metrics")
    yield Table(("metric", "train", "change", "holdout", "change"), tuple(rows))


def _moved(before: float | None, after: float | None) -> tuple[str, str]:
    """`0.031 → 1.000` and `+0.969`."""
    change = "—" if before is None or after is None else f"{after - before:+z.3f}"
    return f"{number(before)} → {number(after)}", change.replace("-", "−")


def _trajectory(run: RunRecord) -> Iterator[Section]:
    yield Heading("Trajectory")
    if not run.rows:
        yield Text.of("Nothing was measured yet.")
        return
    values = {split: tuple(loss_of(row, split) for row in run.rows) for split in sections.SPLITS}
    yield Series(values, tuple(_drawing(run.rows)))
    yield Text.of(
        "Loss by trial, lower is better; one column per trial. A gap was not measured, ✓ was "
        "accepted, │ is where a phase ends "
        f"(b baseline, d demonstrations, n numeric, t textual). "
        f"`burnish runs show {in_shell(run.header.id)}` shows every trial."
    )


def _drawing(rows: Sequence[TrialRow]) -> Iterator[str]:
    scale = [loss_of(row, split) for row in rows for split in sections.SPLITS]
    losses = [loss for loss in scale if loss is not None]
    for line in _lines(rows):
        drawn = {
            split: [
                sparkline([loss_of(row, split) for row in rows], scale) or " " * len(rows)
                for rows in line
            ]
            for split in sections.SPLITS
        }
        drawn["accepted"] = ["".join("✓" if r.trial.accepted else " " for r in e) for e in line]
        drawn["phase"] = [_phase_name(each) for each in line]
        yield from (f"{label:<9}{'│'.join(parts)}".rstrip() for label, parts in drawn.items())
        yield ""
    if losses:
        yield f"{'scale':<9}▁ {number(min(losses))}   █ {number(max(losses))}"


def _lines(rows: Sequence[TrialRow]) -> Iterator[list[Sequence[TrialRow]]]:
    """The rows of each line, by phase; a phase that does not fit goes on in the next line."""
    line: list[Sequence[TrialRow]] = []
    used = 0
    for _, group in groupby(rows, lambda r: (r.trial.cycle, r.trial.phase)):
        left = tuple(group)
        while left:
            if used >= _PER_LINE:
                yield line
                line, used = [], 0
            here, left = left[: _PER_LINE - used], left[_PER_LINE - used :]
            line.append(here)
            used += len(here) + 1
    yield line


def _phase_name(rows: Sequence[TrialRow]) -> str:
    """As much of the phase's name as there is room for."""
    room, trial = len(rows), rows[0].trial
    if trial.phase == BASELINE:
        return "b".ljust(room)
    letter = trial.phase[:1] or "?"
    names = (f"c{trial.cycle} {trial.phase}", f"c{trial.cycle}/{letter}", letter)
    return next(name for name in names if len(name) <= room).ljust(room)


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """One phase of one cycle."""

    cycle: int
    phase: str
    trials: int
    accepted: int
    gain: float | None
    """Loss removed on train; None if an accept was not measured."""
    ended: str
    """Why it ended, as a code; empty while it is under way."""


def _phases(run: RunRecord) -> list[_Phase]:
    started = read_all(run.events, PhaseStarted)
    rows: dict[tuple[int, str], list[TrialRow]] = {(e.cycle, e.phase): [] for e in started}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            rows.setdefault((row.trial.cycle, row.trial.phase), []).append(row)
    ends = {(e.cycle, e.phase): e.reason for e in read_all(run.events, PhaseEnded)}
    removed = sections.gains(run)
    return [
        _Phase(
            cycle=cycle,
            phase=phase,
            trials=len(trials),
            accepted=sum(row.trial.accepted for row in trials),
            gain=_sum([removed[row.number] for row in trials if row.trial.accepted]),
            ended=ends.get((cycle, phase), ""),
        )
        for (cycle, phase), trials in rows.items()
    ]


def gains_by_phase(run: RunRecord) -> Iterator[Drawing]:
    """How far the loss on train fell in each phase."""
    phases = _phases(run)
    if not any(each.gain for each in phases):
        return
    yield Drawing(
        title="What each phase brought",
        labels=tuple(f"c{each.cycle} {each.phase}" for each in phases),
        series={"fall of the loss": tuple(each.gain for each in phases)},
        unit="fall of the loss on train",
        kind="bars",
        label="phase",
        note="The sum over its accepted trials. They are what chose the result, so a sealed test "
        "shows less.",
    )


def _attribution(run: RunRecord) -> Iterator[Section]:
    """Where the gain came from: by phase, with why it ended, and by axis."""
    phases = _phases(run)
    rows = (
        (
            str(each.cycle),
            cell(each.phase, 40),
            str(each.trials),
            str(each.accepted),
            fall(each.gain),
            cell(ended_words(each.ended, ENDS) if each.ended else "under way", 80),
        )
        for each in phases
    )
    head = ("cycle", "phase", "trials", "accepted", "Δloss on train", "ended by")
    yield Heading("Where the gain came from")
    yield Table(head, tuple(rows))
    yield from _by_axis(run)
    yield from _later_numbers(phases)


def _by_axis(run: RunRecord) -> Iterator[Section]:
    groups: dict[str, list[TrialRow]] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            groups.setdefault(axis_target(row.trial) or "—", []).append(row)
    if not groups:
        return
    won = sections.gains(run)
    rows: list[tuple[str, ...]] = []
    for axis, trials in groups.items():
        accepted = [row for row in trials if row.trial.accepted]
        gain = fall(_sum([won[row.number] for row in accepted]))
        rows.append((cell(axis, 100), str(len(trials)), str(len(accepted)), gain))
    yield Table(("axis", "trials", "accepted", "Δloss on train"), tuple(rows))
    if any(", " in axis for axis in groups):
        yield Text.of(
            "Axes in one row were changed together: the gain of each cannot be told apart."
        )


def _later_numbers(phases: Sequence[_Phase]) -> Iterator[Section]:
    """What descent by turns is for: numbers that gained more once the prompt was better."""
    for at, later in enumerate(phases):
        before = phases[:at]
        searched = any(each.phase == "numeric" for each in before)
        better = [each for each in before if each.phase != "numeric" and each.accepted]
        if later.phase == "numeric" and searched and better and later.gain:
            last = better[-1]
            yield Text.of(
                f"The numeric phase of cycle {later.cycle} gained {number(later.gain)} more after "
                f"the {last.phase} phase of cycle {last.cycle} had changed the prompt."
            )
            return


def _sum(gains: Sequence[float | None]) -> float | None:
    numbers = [gain for gain in gains if gain is not None]
    return sum(numbers, 0.0) if len(numbers) == len(gains) else None


def _method(run: RunRecord) -> Iterator[str]:
    decided = "and decided alone: a training score" if _skipped(run) else "holdout decided"
    yield sections.started_with(run)
    yield f"cases: {sections.case_numbers(run)}; train fed the proposals, {decided}"
    yield from _noise(run)
    yield from _holdout(run)
    yield from headroom_points(run.events)
    yield from dead_axes(run.events)
    yield from sections.provenance(run)
    yield (
        "cases from one source protect against memorizing single cases, not against fitting "
        "that source: holdout and test should resemble what the agent meets in production, and "
        "burnish cannot see whether they do"
    )
    yield (
        "the configuration is reproducible, not every digit: the same inputs and seed propose "
        "in the same way, and the decisions of this run can be replayed from its journal; a "
        "model's answers vary, and with them the losses of a new run"
    )


def _noise(run: RunRecord) -> Iterator[str]:
    repeats = _repeats(run)
    if not repeats:
        return
    decisions = [row.trial.decision for row in run.rows if row.trial.decision is not None]
    bars = {each.numbers.get("accept_sigma") for each in decisions}
    used = sorted(value for value in bars if value is not None)
    sigmas = ", ".join(f"{value:g}" for value in used) or "not used yet"
    yield (
        f"repeats {', '.join(map(str, repeats))}, accept_sigma {sigmas}: a gain on train counts "
        "when it reaches accept_sigma × the spread of both sides over their repeats, and holdout "
        "may not get worse by more than its own spread"
    )
    if repeats[0] < 2:
        yield (
            "**one repeat measures no spread: the bar is 0, and any gain on train counts.** Two "
            "or more tell noise from gain, unless the agent always answers the same"
        )


def _repeats(run: RunRecord) -> list[int]:
    """How often a trial ran each case; more than one number if that changed."""
    results = (result_of(row, "train") for row in run.rows)
    return sorted({len(r.measurement.runs) for r in results if r and r.measurement.runs})


def _holdout(run: RunRecord) -> Iterator[str]:
    if _skipped(run):
        yield "holdout policy: `skip`; see the warning at the top"
    held = result_of(run.baseline, "holdout")
    if held is None:
        return
    tried = [row for row in run.rows if row.trial.phase != BASELINE and row.trial.train is not None]
    looks = sum(row.trial.holdout is not None for row in tried)
    yield (
        f"holdout policy: {_policy(tried)}; {looks} of {counted(len(tried), 'measured trial')} "
        "were compared on it. Each use makes it a little less independent, so its loss flatters too"
    )
    if cases := held.measurement.cases:
        yield (
            f"one of the {counted(cases, 'case')} of this holdout is worth {number(1 / cases)}: "
            "it cannot show smaller differences if answers are either right or wrong"
        )


def _policy(tried: list[TrialRow]) -> str:
    """The policy as the trials show it; if train always gained, two look the same."""
    if any(row.trial.holdout is None for row in tried):
        return "`on_train_improve`"
    refused = {"worse", "noise", "tie"}
    if any(row.trial.decision and row.trial.decision.code in refused for row in tried):
        return "`every_trial`"
    return "`on_train_improve` or `every_trial`, which had the same effect"


def _skipped(run: RunRecord) -> bool:
    return run.baseline is not None and run.baseline.trial.holdout is None
