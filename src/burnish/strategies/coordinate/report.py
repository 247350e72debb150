"""report.md of coordinate descent: eight parts, the sealed test first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from burnish.core.formatting import (
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
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE, PhaseEnded, PhaseStarted
from burnish.runs.ledger import axis_target
from burnish.runs.progress import ended_words
from burnish.runs.report_sections import (
    SPLITS,
    adoption,
    case_numbers,
    cost_rows,
    forked_from,
    gains,
    headline,
    passing_means,
    silence_rows,
    started_with,
    status_rows,
)
from burnish.strategies.coordinate.headroom import dead_axes, headroom_points
from burnish.strategies.coordinate.plan import changed_files, fall, rationales

_PER_LINE = 64
"""Trials and boundaries in one line of the trajectory; a longer run goes on below."""
_EDGE = "│"
_MARGIN = 9
ENDS = {
    "max_trials": "it had all its trials",
    "patience": "too long without an accept",
    "converged": "nothing promising is left to try",
    "space_exhausted": "every point was tried",
    "no_examples": "train has no example to show",
    "dead_axes": "no axis of it reaches a request",
    "no_failures": "no failing case is left to diagnose",
    "failures_not_to_show": "what still fails may not be shown to a critic",
    "nothing_to_gain": "the loss on train is 0",
    "stopped": "the run was stopped",
    "dry_cycle": "a whole cycle brought nothing",
    "max_cycles": "it had all its cycles",
    "baseline_missing": "the baseline could not be measured",
}
"""Why a phase or the search ended."""


def report(run: RunRecord, reason: str) -> Iterator[Section]:
    """The sections of the report."""
    yield from headline(run)
    yield from _holdout_warning(run)
    yield Heading("Result")
    yield Facts(tuple(_summary(run, reason)))
    yield from _trajectory(run)
    yield from _attribution(run)
    yield from _metrics(run)
    yield from changed_files(run)
    yield from rationales(run)
    yield from adoption(run)
    yield Heading("Method")
    yield Listing(tuple(_method(run)))


def _holdout_warning(run: RunRecord) -> Iterator[Section]:
    """Above everything else, where train alone decided."""
    if not _skipped(run):
        return
    why = "was skipped" if run.header.cases.get("holdout") else "is missing"
    yield Text.of(
        f"**⚠ Holdout {why}: train both chose this result and measures it. Expect the gain to "
        "shrink, or to vanish, on cases the search has not seen.**"
    )


def _summary(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield from status_rows(run, reason)
    yield from ((f"{split} loss", _change_words(run, split)) for split in SPLITS)
    yield "trials", f"{run.trials}, {run.accepted} accepted"
    yield "repeats", ", ".join(map(str, _repeats(run))) or "—"
    yield from silence_rows(run)
    yield from cost_rows(run)


def _change_words(run: RunRecord, split: str) -> str:
    """`0.969 → 0.125 (−87.1 %)`."""
    before, after = (loss_of(row, split) for row in (run.baseline, run.best))
    both = f"{number(before)} → {number(after)}"
    if before is None or after is None or before <= 0:
        return both
    return f"{both} ({100 * (after - before) / before:+.1f} %)".replace("-", "−")


def _metrics(run: RunRecord) -> Iterator[Section]:
    """Per metric, baseline to best, on both splits."""
    sides = {
        split: [passing_means(result_of(row, split)) for row in (run.baseline, run.best)]
        for split in SPLITS
    }
    names = sorted({name for pair in sides.values() for side in pair for name in side})
    rows = (
        (cell(name, 60), *(c for s in SPLITS for c in _moved(*(e.get(name) for e in sides[s]))))
        for name in names
    )
    yield Heading("Metrics")
    yield Table(("metric", "train", "change", "holdout", "change"), tuple(rows))


def _moved(before: float | None, after: float | None) -> tuple[str, str]:
    """`0.031 → 1.000` and `+0.969`."""
    change = "—" if before is None or after is None else f"{after - before:+z.3f}"
    return f"{number(before)} → {number(after)}", change.replace("-", "−")


@dataclass(frozen=True, kw_only=True)
class _Stretch:
    """Trials of one phase that stand together in one line."""

    cycle: int
    phase: str
    rows: tuple[TrialRow, ...]


def _trajectory(run: RunRecord) -> Iterator[Section]:
    yield Heading("Trajectory")
    if not run.rows:
        yield Text.of("Nothing was measured yet.")
        return
    values = {split: tuple(loss_of(row, split) for row in run.rows) for split in SPLITS}
    yield Series(values, tuple(_drawing(run.rows)))
    yield Text.of(
        "Loss by trial, low is good; one column a trial. A gap was not measured, ✓ was accepted, "
        "│ is where a phase ends (b baseline, d demonstrations, n numeric, t textual). "
        f"`burnish runs show {run.header.id}` tells every trial."
    )


def _drawing(rows: Sequence[TrialRow]) -> Iterator[str]:
    scale = [loss_of(row, split) for row in rows for split in SPLITS]
    losses = [loss for loss in scale if loss is not None]
    for line in _lines(rows):
        for split in SPLITS:
            yield _labelled(split, [_drawn(each, split, scale) for each in line])
        yield _labelled("accepted", [_ticks(each) for each in line])
        yield _labelled("phase", [_name(each) for each in line])
        yield ""
    if losses:
        yield f"{'scale':<{_MARGIN}}▁ {number(min(losses))}   █ {number(max(losses))}"


def _lines(rows: Sequence[TrialRow]) -> Iterator[list[_Stretch]]:
    """The stretches of each line; a phase that does not fit goes on in the next."""
    line: list[_Stretch] = []
    used = 0
    for (cycle, phase), group in groupby(rows, lambda r: (r.trial.cycle, r.trial.phase)):
        left = tuple(group)
        while left:
            if used >= _PER_LINE:
                yield line
                line, used = [], 0
            here, left = left[: _PER_LINE - used], left[_PER_LINE - used :]
            line.append(_Stretch(cycle=cycle, phase=phase, rows=here))
            used += len(here) + len(_EDGE)
    yield line


def _drawn(stretch: _Stretch, split: str, scale: Sequence[float | None]) -> str:
    losses = [loss_of(row, split) for row in stretch.rows]
    return sparkline(losses, scale) or " " * len(losses)


def _ticks(stretch: _Stretch) -> str:
    return "".join("✓" if row.trial.accepted else " " for row in stretch.rows)


def _labelled(label: str, parts: Sequence[str]) -> str:
    return f"{label:<{_MARGIN}}{_EDGE.join(parts)}".rstrip()


def _name(stretch: _Stretch) -> str:
    """As much of the phase's name as its stretch has room for."""
    room = len(stretch.rows)
    if stretch.phase == BASELINE:
        return "b".ljust(room)
    letter = stretch.phase[:1] or "?"
    names = (f"c{stretch.cycle} {stretch.phase}", f"c{stretch.cycle}/{letter}", letter)
    return next(name for name in names if len(name) <= room).ljust(room)


@dataclass(frozen=True, kw_only=True)
class _Phase:
    """One phase of one cycle."""

    cycle: int
    phase: str
    rows: tuple[TrialRow, ...]
    gain: float | None
    """Loss removed on train; None where an accept was not measured."""
    ended: str
    """Why it ended, as a code; empty while it is under way."""

    @property
    def accepted(self) -> int:
        """How many of its trials were accepted."""
        return sum(row.trial.accepted for row in self.rows)


def _phases(run: RunRecord) -> list[_Phase]:
    """The phases in order, those without a trial included."""
    names: dict[tuple[int, str], None] = {}
    ends: dict[tuple[int, str], str] = {}
    for event in run.events:
        if started := event.read(PhaseStarted):
            names[started.cycle, started.phase] = None
        if over := event.read(PhaseEnded):
            ends[over.cycle, over.phase] = over.reason
    tried = [row for row in run.rows if row.trial.phase != BASELINE]
    names |= dict.fromkeys((row.trial.cycle, row.trial.phase) for row in tried)
    won = gains(run)
    stories: list[_Phase] = []
    for cycle, phase in names:
        rows = tuple(r for r in tried if (r.trial.cycle, r.trial.phase) == (cycle, phase))
        ended = ends.get((cycle, phase), "")
        gain = _sum([won[row.number] for row in rows if row.trial.accepted])
        stories.append(_Phase(cycle=cycle, phase=phase, rows=rows, gain=gain, ended=ended))
    return stories


def _attribution(run: RunRecord) -> Iterator[Section]:
    """Where the gain came from: by phase with why it ended, and by axis."""
    stories = _phases(run)
    rows = (
        (
            str(each.cycle),
            cell(each.phase, 40),
            str(len(each.rows)),
            str(each.accepted),
            fall(each.gain),
            cell(ended_words(each.ended, ENDS) if each.ended else "under way", 80),
        )
        for each in stories
    )
    head = ("cycle", "phase", "trials", "accepted", "Δloss on train", "ended by")
    yield Heading("Where the gain came from")
    yield Table(head, tuple(rows))
    yield from _by_axis(run)
    yield from _later_numbers(stories)


def _by_axis(run: RunRecord) -> Iterator[Section]:
    groups: dict[str, list[TrialRow]] = {}
    for row in run.rows:
        if row.trial.phase != BASELINE:
            groups.setdefault(axis_target(row.trial) or "—", []).append(row)
    if not groups:
        return
    won = gains(run)
    rows: list[tuple[str, ...]] = []
    for axis, trials in groups.items():
        accepted = [row for row in trials if row.trial.accepted]
        gain = fall(_sum([won[row.number] for row in accepted]))
        rows.append((cell(axis, 100), str(len(trials)), str(len(accepted)), gain))
    yield Table(("axis", "trials", "accepted", "Δloss on train"), tuple(rows))
    if any(", " in axis for axis in groups):
        yield Text.of(
            "Axes in one row were moved together: what each of them won cannot be told apart."
        )


def _later_numbers(stories: Sequence[_Phase]) -> Iterator[Section]:
    """What descent by turns is for: numbers that found more once the prompt was better."""
    for at, later in enumerate(stories):
        before = stories[:at]
        searched = any(each.phase == "numeric" for each in before)
        better = [each for each in before if each.phase != "numeric" and each.accepted]
        if later.phase == "numeric" and searched and better and later.gain:
            last = better[-1]
            yield Text.of(
                f"The numbers of cycle {later.cycle} found {number(later.gain)} more after the "
                f"{last.phase} phase of cycle {last.cycle} had improved the prompt."
            )
            return


def _sum(gains: Sequence[float | None]) -> float | None:
    numbers = [gain for gain in gains if gain is not None]
    return sum(numbers, 0.0) if len(numbers) == len(gains) else None


def _method(run: RunRecord) -> Iterator[str]:
    decided = "and decided alone: a training score" if _skipped(run) else "holdout decided"
    yield started_with(run)
    yield f"cases: {case_numbers(run)}; train fed the proposals, {decided}"
    yield from _noise(run)
    yield from _holdout(run)
    yield from headroom_points(run.events)
    yield from dead_axes(run.events)
    yield from _provenance(run)
    yield (
        "cases of one source guard against learning single cases by heart, not against fitting "
        "that source: holdout and test should resemble what the agent meets in production, and "
        "burnish cannot see whether they do"
    )
    yield (
        "reproducible is the configuration, not every digit: the same inputs and seed propose "
        "in the same way, and the decisions of this run can be replayed from its journal; a "
        "model's answers vary, and with them the losses of a new run"
    )


def _provenance(run: RunRecord) -> Iterator[str]:
    yield from forked_from(run)
    if run.header.sealed_test == "spent":
        yield (
            "**the sealed test was read before by the run this one was forked from: its score "
            "may flatter this result**"
        )
    if run.sealed is not None and run.sealed.gain is not None:
        yield (
            f"gain [low, high]: the mean over {run.sealed.gain.cases} test cases and its 95 % "
            "bootstrap interval, baseline and best on the same cases"
        )


def _noise(run: RunRecord) -> Iterator[str]:
    """How a gain was told from noise."""
    repeats = _repeats(run)
    if not repeats:
        return
    sigmas = ", ".join(f"{value:g}" for value in _sigmas(run)) or "not used yet"
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
    """How often a trial ran each case; more than one number where that changed."""
    results = (result_of(row, "train") for row in run.rows)
    return sorted({len(r.measurement.runs) for r in results if r and r.measurement.runs})


def _sigmas(run: RunRecord) -> list[float]:
    made = (row.trial.decision for row in run.rows if row.trial.decision is not None)
    sigmas = (decision.numbers.get("accept_sigma") for decision in made)
    return sorted({value for value in sigmas if value is not None})


def _holdout(run: RunRecord) -> Iterator[str]:
    """When holdout was looked at, and what it can show."""
    if _skipped(run):
        yield "holdout policy: `skip`; see the warning at the top"
    held = result_of(run.baseline, "holdout")
    if held is None:
        return
    tried = [row for row in run.rows if row.trial.phase != BASELINE and row.trial.train is not None]
    looks = sum(row.trial.holdout is not None for row in tried)
    yield (
        f"holdout policy: {_policy(tried)}; {looks} of {counted(len(tried), 'measured trial')} "
        "were held against it. Each look wears it a little, so its loss flatters too"
    )
    if cases := held.measurement.cases:
        yield (
            f"one of the {counted(cases, 'case')} of this holdout is worth {number(1 / cases)}: "
            "it cannot show less than that, where an answer is right or wrong"
        )


def _policy(tried: list[TrialRow]) -> str:
    """The policy as the trials show it; where train always gained, two look the same."""
    if any(row.trial.holdout is None for row in tried):
        return "`on_train_improve`"
    refused = {"worse", "noise", "tie"}
    if any(row.trial.decision and row.trial.decision.code in refused for row in tried):
        return "`every_trial`"
    return "`on_train_improve` or `every_trial`, which came to the same"


def _skipped(run: RunRecord) -> bool:
    """Whether there was a holdout to decide, as far as the baseline tells."""
    return run.baseline is not None and run.baseline.trial.holdout is None
