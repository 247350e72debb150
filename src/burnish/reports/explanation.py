"""Why a run ended as it did, from its record alone: `burnish why`."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from statistics import median

from burnish.core.errors import in_shell
from burnish.core.formatting import (
    Heading,
    Listing,
    Section,
    Text,
    counted,
    number,
    shorten,
)
from burnish.core.surfaces import EPSILON
from burnish.core.trials import TrialDetails, TrialRow
from burnish.journal.limits import Budget
from burnish.reports.cases import GROUPS, CaseLine, case_lines, group_counts
from burnish.runs.claims import LOOKED_AT_BEFORE, NO_SPREAD, claim_words, forgeable_words
from burnish.runs.directory import RunRecord, result_of, whole_loss
from burnish.runs.events import BASELINE
from burnish.runs.report_sections import SPLITS, steered_points, why

_MOST = 8
"""Cases that are named; the rest is counted."""
_OFTEN = 0.3
"""The share of refusals that makes a reason worth acting on."""


@dataclass(frozen=True, kw_only=True)
class WinningStep:
    """A trial on the way from the baseline to the winner."""

    trial: int
    phase: str
    what: str
    figures: Mapping[str, tuple[float, float]]
    """By name, such as `train loss`: of the candidate it was made from, and its own."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Refusals:
    """Trials that were refused for the same reason."""

    code: str
    trials: tuple[int, ...]
    surfaces: tuple[str, ...]
    example: str
    """The reason of the last one."""


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """What to do next, and the numbers that speak for it."""

    what: str
    because: str
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """The answers of `burnish why`."""

    run: str
    verdict: str
    steps: tuple[WinningStep, ...]
    cases: tuple[CaseLine, ...]
    """Those of train and holdout that baseline and best were both run on."""
    unsolved: tuple[str, ...]
    """Cases that no candidate of the run passed."""
    trials: int
    refused: tuple[Refusals, ...]
    next: tuple[NextStep, ...]
    steered: tuple[str, ...] = ()
    """What people sent to the run, in the order in which it was taken in."""


def explain(run: RunRecord, *, resume: str = "") -> Explanation:
    """What the record says about a run; `resume` is the command that continues it."""
    lines, refused = case_lines(run), _refused(run)
    unsolved = _unsolved(run)
    return Explanation(
        run=run.header.id,
        verdict="nothing was measured" if run.claim is None else claim_words(run.claim),
        steps=tuple(_steps(run)),
        cases=lines,
        unsolved=unsolved,
        trials=sum(1 for _ in _searched(run)),
        refused=refused,
        next=tuple(_next_steps(run, refused, unsolved, resume)),
        steered=steered_points(run),
    )


# -- The way to the winner -------------------------------------------------------------------------


def _steps(run: RunRecord) -> Iterator[WinningStep]:
    if run.best is None:
        return
    first = {row.trial.candidate.id: row for row in reversed(run.rows)}
    line: dict[int, TrialRow] = {}
    waiting = [run.best]
    while waiting:
        row = waiting.pop()
        if row.number in line or row.trial.phase == BASELINE:
            continue
        line[row.number] = row
        waiting += [first[each] for each in row.trial.candidate.parents if each in first]
    for _, row in sorted(line.items()):
        parents = [first[each] for each in row.trial.candidate.parents if each in first]
        yield WinningStep(
            trial=row.number,
            phase=row.trial.phase,
            what=_what(row),
            figures=_figures(run, parents[0] if parents else run.baseline, row),
            reason=why(row.trial),
        )


def _what(row: TrialRow) -> str:
    return row.trial.candidate.origin.note or ", ".join(row.trial.touched) or "—"


def _figures(
    run: RunRecord, before: TrialRow | None, after: TrialRow
) -> dict[str, tuple[float, float]]:
    """What both were measured by on all cases of a split."""
    sides = [_measured(run, row) for row in (before, after)]
    return {name: (sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]}


def _measured(run: RunRecord, row: TrialRow | None) -> dict[str, float]:
    """The loss on each split, or a task's primary number."""
    if row is None:
        return {}
    primary = TrialDetails.of(row.trial).primary
    if not isinstance(primary, dict):
        losses = {f"{split} loss": whole_loss(run, row, split) for split in SPLITS}
        return {name: loss for name, loss in losses.items() if loss is not None}
    values = {f"{primary.get('name')} on {split}": primary.get(split) for split in SPLITS}
    return {name: value for name, value in values.items() if isinstance(value, int | float)}


# -- What was refused ------------------------------------------------------------------------------


def _refused(run: RunRecord) -> tuple[Refusals, ...]:
    """Refused trials by reason, the most frequent first."""
    groups: dict[str, list[TrialRow]] = {}
    for row in _searched(run):
        if not (row.trial.accepted or row.trial.kept):
            groups.setdefault(_code(row), []).append(row)
    return tuple(
        Refusals(
            code=code,
            trials=tuple(row.number for row in rows),
            surfaces=tuple(sorted({name for row in rows for name in row.trial.touched})),
            example=why(rows[-1].trial),
        )
        for code, rows in sorted(groups.items(), key=lambda item: -len(item[1]))
    )


def _searched(run: RunRecord) -> Iterator[TrialRow]:
    return (row for row in run.rows if row.trial.phase != BASELINE)


def _code(row: TrialRow) -> str:
    if row.trial.problems:
        return "not run"
    if TrialDetails.of(row.trial).skipped:
        return "nothing proposed"
    return row.trial.decision.code if row.trial.decision else "not decided"


def _unsolved(run: RunRecord) -> tuple[str, ...]:
    """The cases that the winner fails, as every other trial that ran them did."""
    failing = set(_passed(run.best, passed=False))
    for row in run.rows:
        failing.difference_update(_passed(row, passed=True))
    return tuple(sorted(failing))


def _passed(row: TrialRow | None, *, passed: bool) -> Iterator[str]:
    """The cases that a trial passed, or failed; neither where nothing says what passing is."""
    for result in (result_of(row, split) for split in SPLITS):
        if result is None or result.measurement.pass_rate is None:
            continue
        lost = {*result.measurement.missing_cases}
        for case in result.scores:
            if case not in lost and passed != (case in result.failed_cases):
                yield case


# -- What to do next -------------------------------------------------------------------------------


def _next_steps(
    run: RunRecord, refused: Sequence[Refusals], unsolved: Sequence[str], resume: str
) -> Iterator[NextStep]:
    """The next experiments, the one that is worth most first."""
    yield from _about_the_claim(run)
    yield from _about_the_end(run, resume)
    yield from _about_refusals(run, refused)
    yield from _about_cases(run, unsolved)


def _about_the_claim(run: RunRecord) -> Iterator[NextStep]:
    claim = run.claim
    if claim is None or run.best is run.baseline:
        return
    if claim.verdict == "improved":
        yield NextStep(
            what="adopt it",
            because=f"the whole interval of the gain is above 0 ({claim.basis})",
            command=f"burnish adopt {in_shell(run.header.id)}",
        )
        return
    if claim.verdict == "looked at before":
        yield NextStep(what="seal other cases, and start a new run", because=LOOKED_AT_BEFORE)
        return
    if claim.forgeable and claim.verdict == "not shown":
        yield NextStep(
            what="read the code, and measure it yourself",
            because=forgeable_words(claim.forgeable),
        )
        return
    if claim.basis == "selected on holdout":
        if sum(run.header.cases.values()) < 2:
            yield NextStep(
                what="look at the result yourself",
                because="there is only one case, and it chose the result: no score can confirm it",
            )
            return
        yield NextStep(
            what="keep some cases back as a sealed test",
            because="the scores that chose this result are the only ones there are, and they "
            "are too good",
        )
        return
    gain = claim.gain
    if gain is None and claim.reason == NO_SPREAD:
        yield NextStep(
            what=f"run the cases of {claim.split} more than once, or add some", because=NO_SPREAD
        )
    if gain is None or gain.mean <= EPSILON or gain.distinguishable:
        return
    needed = math.ceil(gain.cases * ((gain.mean - gain.low) / gain.mean) ** 2)
    yield NextStep(
        what=f"measure it on about {needed:,} cases",
        because=f"a gain of {number(gain.mean)} cannot be told from noise with "
        f"{counted(gain.cases, 'case')}: its interval is [{number(gain.low)}, {number(gain.high)}]",
    )


def _about_the_end(run: RunRecord, resume: str) -> Iterator[NextStep]:
    ending = run.ending
    if run.status in ("killed", "interrupted"):
        yield NextStep(what="go on with the run", because=f"it was {run.status}", command=resume)
    elif ending is not None and (ending.code or "").startswith("max_") and run.accepted:
        searched = [*_searched(run)]
        last = max((row.number for row in searched if row.trial.accepted), default=0)
        since = sum(row.number > last for row in searched)
        if since > len(searched) / 2:
            return
        because = f"its limit ended it ({ending.reason}) {counted(since, 'trial')} after the last"
        if run.sealed is not None:
            yield NextStep(
                what=f"search on in a new run, with `--fork {in_shell(run.header.id)}` and a "
                "higher limit",
                because=f"{because} accepted one, and its sealed test is read: in a new run it "
                "shows no gain any more",
            )
            return
        limits = {each.name for each in fields(Budget)}
        flag = f" --{ending.code.replace('_', '-')} N" if ending.code in limits else ""
        yield NextStep(
            what="give it more budget",
            because=f"{because} accepted one",
            command=f"{resume}{flag}" if resume else "",
        )


def _about_refusals(run: RunRecord, refused: Sequence[Refusals]) -> Iterator[NextStep]:
    counts = Counter({each.code: len(each.trials) for each in refused})
    whole = counts.total()
    often = {code for code, count in counts.items() if count >= max(2, _OFTEN * whole)}

    def share(code: str) -> str:
        return f"{counts[code]} of {counted(whole, 'refused trial')}"

    yield from _about_repeats(run)
    if "noise" in often:
        yield _less_noise(run, share("noise"))
    if "holdout" in often:
        yield NextStep(
            what="add training cases",
            because=f"{share('holdout')} gained on train and did not hold on holdout: the "
            "proposals fit the few cases they saw",
        )
    for code, words in (
        ("not run", "could not be run: they were unchanged, repeated or out of bounds"),
        ("nothing proposed", "had nothing to try: the proposer's answer could not be used"),
    ):
        if code in often:
            yield NextStep(what="use a stronger proposer", because=f"{share(code)} {words}")


def _about_repeats(run: RunRecord) -> Iterator[NextStep]:
    """Without repeats nobody knows the noise, and every gain passes for one."""
    if run.claim is None or run.claim.verdict == "improved":
        return
    gains = [
        numbers["train_improvement"]
        for row in _searched(run)
        if row.trial.accepted and row.trial.decision is not None and row.trial.train is not None
        for numbers in [row.trial.decision.numbers]
        if len(row.trial.train.measurement.runs) == 1 and "noise_bar" in numbers
    ]
    if gains:
        yield NextStep(
            what="run every case several times: `--repeats 3`",
            because=f"each case ran once, so the noise is unknown and "
            f"{counted(len(gains), 'accepted gain')}, the smallest {number(min(gains))}, may be "
            "chance",
        )


def _less_noise(run: RunRecord, share: str) -> NextStep:
    """More cases, as many as the refused gains would have needed: their noise falls with the root
    of their number."""
    needed = [
        (bar / gain) ** 2
        for row in run.rows
        if row.trial.decision is not None and row.trial.decision.code == "noise"
        for numbers in [row.trial.decision.numbers]
        if (bar := numbers.get("noise_bar", 0.0)) > 0
        and (gain := numbers.get("train_improvement", 0.0)) > EPSILON
    ]
    because = f"{share} gained less than the noise"
    if not needed:
        return NextStep(what="add training cases", because=because)
    cases = math.ceil(run.header.cases.get("train", 0) * median(needed))
    return NextStep(
        what=f"use about {cases:,} training cases",
        because=f"{because}; half of these gains would show with so many",
    )


def _about_cases(run: RunRecord, unsolved: Sequence[str]) -> Iterator[NextStep]:
    start = result_of(run.baseline, "train")
    if (
        start is not None
        and start.measurement.loss is not None
        and start.measurement.loss <= EPSILON
    ):
        yield NextStep(
            what="add harder cases",
            because="the baseline has no loss on train, so there is nothing to learn from",
        )
    touched = {name for row in run.rows for name in row.trial.touched}
    offered = {*run.baseline.trial.candidate.values} if run.baseline else set[str]()
    if unsolved and run.trials:
        because = f"no candidate ever passed {counted(len(unsolved), 'case')}: {_named(unsolved)}"
        untouched = sorted(offered - touched)
        if untouched:
            yield NextStep(what=f"change {_named(untouched)} too", because=because)
        else:
            yield NextStep(
                what="check their labels, or offer another surface (tools, retrieval, the model)",
                because=because,
            )


def _named(names: Sequence[str], most: int = _MOST) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{shorten(name, 40)}`" for name in names[:most]) + more


# -- In words --------------------------------------------------------------------------------------


def explanation_sections(found: Explanation) -> Iterator[Section]:
    """The explanation as a page."""
    yield Heading(f"Why {found.run} ended as it did", level=1)
    yield Text.of(f"{found.verdict[:1].upper()}{found.verdict[1:]}.")
    yield from _winner_section(found)
    yield from [Listing(found.steered, lead="People steered it:")] if found.steered else []
    yield from _case_section(found)
    yield from _refusal_section(found)
    yield Heading("What to do next")
    if not found.next:
        yield Text.of("Nothing in the record speaks for one experiment over another.")
    for place, each in enumerate(found.next, 1):
        command = f": `{each.command}`" if each.command else ""
        yield Text.of(f"{place}. {each.what[:1].upper()}{each.what[1:]}{command}. {_because(each)}")


def _because(step: NextStep) -> str:
    return f"{step.because[:1].upper()}{step.because[1:]}."


def _winner_section(found: Explanation) -> Iterator[Section]:
    yield Heading("Why this candidate")
    if not found.steps:
        yield Text.of("Nothing better than the start was found, so the start stays.")
        return
    yield Listing(
        tuple(
            f"trial {step.trial}, {shorten(step.what, 80)}: "
            f"{'; '.join(filter(None, (_changes(step.figures), shorten(step.reason, 300))))}"
            for step in found.steps
        )
    )


def _changes(figures: Mapping[str, tuple[float, float]]) -> str:
    """`train loss 0.500 → 0.250, holdout loss 0.400 → 0.300`."""
    return ", ".join(f"{name} {' → '.join(map(number, pair))}" for name, pair in figures.items())


def _case_section(found: Explanation) -> Iterator[Section]:
    yield Heading("Which cases it fixed and broke")
    for split in SPLITS:
        lines = [line for line in found.cases if line.split == split]
        counts = group_counts(lines)
        if counts:
            words = ", ".join(f"{count} {GROUPS[group]}" for group, count in counts.items())
            yield Listing(tuple(_listed(lines)), lead=f"**{split}**: {words}")
    if not found.cases:
        yield Text.of("No case has a score of its own under both the start and the winner.")
    if found.unsolved:
        yield Text.of(f"No candidate of this run ever passed {_named(found.unsolved)}.")


def _listed(lines: Iterable[CaseLine]) -> Iterator[str]:
    groups: dict[str, list[CaseLine]] = {}
    for line in lines:
        groups.setdefault(line.group, []).append(line)
    for group in ("broken", "fixed", "worse", "better"):
        there = groups.get(group, [])
        shown = ", ".join(
            f"`{shorten(line.case, 40)}` {number(line.before)} → {number(line.after)}"
            for line in there[:_MOST]
        )
        more = f" and {len(there) - _MOST} more" if len(there) > _MOST else ""
        if there:
            yield f"{GROUPS[group]}: {shown}{more}"


def _refusal_section(found: Explanation) -> Iterator[Section]:
    yield Heading("What was tried and refused")
    refused = sum(len(each.trials) for each in found.refused)
    yield Text.of(f"{refused} of {counted(found.trials, 'trial')}.")
    if found.refused:
        yield Listing(
            tuple(
                f"{len(each.trials)} × {each.code}{_on(each.surfaces)}; trial {each.trials[-1]}, "
                f"for example: {shorten(each.example, 200)}"
                for each in found.refused
            )
        )


def _on(surfaces: Sequence[str]) -> str:
    return f" ({shorten(', '.join(surfaces), 80)})" if surfaces else ""
