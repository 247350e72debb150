"""A trial, or two runs side by side, for people."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from burnish.core.evaluations import mean
from burnish.core.formatting import duration, number, shorten, spending, visible
from burnish.core.surfaces import Candidate, diff
from burnish.core.trials import SplitResult, TrialRow
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.plugins import strategy_plugin


@dataclass(frozen=True, kw_only=True)
class CaseDelta:
    """How one case differs between the best candidates of two runs."""

    case: str
    left: float
    right: float

    @property
    def word(self) -> str:
        """`up`, `down` or `same`."""
        if abs(self.right - self.left) < 1e-9:
            return "same"
        return "up" if self.right > self.left else "down"


def compare_cases(left: RunRecord, right: RunRecord, split: str) -> list[CaseDelta]:
    """The cases that both best candidates were scored on, by the metrics that both have there.

    A metric that applies to one side only says nothing of the difference.
    """
    ours, theirs = (_case_means(run, split) for run in (left, right))
    return [
        CaseDelta(
            case=case,
            left=mean([ours[case][metric] for metric in shared]),
            right=mean([theirs[case][metric] for metric in shared]),
        )
        for case in sorted(set(ours) & set(theirs))
        if (shared := sorted(set(ours[case]) & set(theirs[case])))
    ]


def _case_means(run: RunRecord, split: str) -> dict[str, dict[str, float]]:
    """By case and metric, the mean over the repeats."""
    result = result_of(run.best, split)
    if result is None:
        return {}
    return {
        case: {
            metric: mean(numbers)
            for metric, values in metrics.items()
            if (numbers := [value for value in values if value is not None])
        }
        for case, metrics in result.scores.items()
    }


# -- One trial for people -------------------------------------------------------------------------


def trial_page(run: RunRecord, row: TrialRow, *, width: int) -> Iterator[str]:
    """The lines of a page about one trial."""
    trial = row.trial
    note = shorten(trial.candidate.origin.note or "—", width)
    strategy = strategy_plugin(run.header.strategy)
    yield f"trial {row.number} · {strategy.turn(trial)} {trial.cycle} · {trial.phase} · {note}"
    yield f"spent {spending(row.spend)} in {duration(row.seconds)}"
    for proposal in trial.proposals:
        answer = proposal.error or json.dumps(proposal.answer, ensure_ascii=False)
        yield shorten(f"{proposal.role} {'failed' if proposal.error else 'said'}: {answer}", width)
    yield from (shorten(line, width) for line in strategy.trial_lines(row))
    yield from _changes(run, trial.candidate)
    for problem in trial.problems:
        yield f"turned away: {visible(str(problem))}"
    for split in ("train", "holdout"):
        result = result_of(row, split)
        if result is not None:
            yield from _scores(split, result, width)
    if trial.decision is not None:
        yield f"\n{trial.decision.verdict.value}: {trial.decision.reason}"


def _changes(run: RunRecord, candidate: Candidate) -> Iterator[str]:
    candidates = {row.trial.candidate.id: row.trial.candidate for row in run.rows}
    parent = next((candidates[name] for name in candidate.parents if name in candidates), None)
    if parent is None:
        return
    for change in diff(parent, candidate):
        yield from (visible(line) for line in change.lines())


def _scores(split: str, result: SplitResult, width: int) -> Iterator[str]:
    measured = result.measurement
    yield f"\n{split}: loss {number(measured.loss)} ±{number(measured.std)}"
    for case, metrics in result.scores.items():
        scores = "  ".join(f"{metric} {_repeats(values)}" for metric, values in metrics.items())
        error = result.errors.get(case)
        line = shorten(f"{case}  {scores}{f' ! {error}' if error else ''}", width - 2)
        yield f"  {line}"


def _repeats(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    shown = number(mean(numbers)) if numbers else "—"
    lost = len(values) - len(numbers)
    return f"{shown} ({lost} of {len(values)} missing)" if lost else shown
