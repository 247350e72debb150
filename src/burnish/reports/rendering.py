"""Sections of a report as Markdown; pages of a trial and of two runs."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.evaluations import mean
from burnish.core.formatting import (
    Code,
    Diff,
    Facts,
    Heading,
    Listing,
    Page,
    Section,
    Series,
    Space,
    Table,
    Text,
    counted,
    duration,
    number,
    shorten,
    spending,
    visible,
)
from burnish.core.surfaces import diff
from burnish.core.trials import ASKED_AGAIN, Proposal, SplitResult, TrialRow
from burnish.runs.directory import RunRecord, result_of
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import steered_by
from burnish.system import write_inside

NAME = "report.md"


def to_markdown(sections: Iterable[Section]) -> str:
    """The whole page, with a blank line between sections."""
    lines: list[str] = []
    for section in sections:
        shown = [*_lines(section)]
        lines += ["", *shown] if lines and shown else shown
        if isinstance(section, Space):
            lines.append("")
    # A run's text may be from anybody, and a report is read on a terminal.
    return visible("\n".join(lines)) + "\n"


def _lines(section: Section) -> Iterator[str]:
    match section:
        case Heading():
            yield f"{'#' * section.level} {section.text}"
        case Text() | Page():
            yield from section.lines
        case Listing():
            yield from [section.lead] if section.lead else []
            yield from (f"- {item.replace(chr(10), f'{chr(10)}  ')}" for item in section.items)
        case Facts():
            yield from _table(("", ""), section.rows)
        case Table():
            yield from _table(section.head, section.rows)
        case Diff():
            yield from _fenced(section.lines, "diff")
        case Code():
            yield from _fenced(section.lines, section.language)
        case Series():
            yield from _fenced(section.drawing)
        case Space():
            pass


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"|{'|'.join(f' {name} ' if name else ' ' for name in head)}|"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _fenced(lines: Sequence[str], language: str = "") -> Iterator[str]:
    """Lines in a fence that no line can close."""
    longest = max((len(ticks) for line in lines for ticks in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield f"{fence}{language}"
    yield from lines
    yield fence


def write_report(folder: Path) -> Path:
    """Write report.md from what the journal holds."""
    return write_inside(folder, NAME, render(RunRecord.read(folder)))


def render(run: RunRecord) -> str:
    """The report as Markdown."""
    return to_markdown([*strategy_plugin(run.header.strategy).report(run), *steered_by(run)])


# -- Pages -----------------------------------------------------------------------------------------


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
        yield from (shorten(f"{proposal.role} {note}", width) for note in _notes(proposal))
    yield from (shorten(line, width) for line in strategy.trial_lines(row))
    candidates = {each.trial.candidate.id: each.trial.candidate for each in run.rows}
    parents = (candidates[name] for name in trial.candidate.parents if name in candidates)
    if (parent := next(parents, None)) is not None:
        for change in diff(parent, trial.candidate):
            yield from change.lines()
    for problem in trial.problems:
        yield f"rejected: {problem}"
    for split in ("train", "holdout"):
        result = result_of(row, split)
        if result is not None:
            few = result.measurement.cases < run.header.cases.get(split, 0)
            name = f"{counted(result.measurement.cases, 'case')} of {split}" if few else split
            yield from _scores(name, result, width)
    if trial.decision is not None:
        yield f"\n{trial.decision.verdict.value}: {trial.decision.reason}"


def _notes(proposal: Proposal) -> Iterator[str]:
    """What was done for an answer before it could be used."""
    for note in proposal.mended:
        yield note if note.startswith(ASKED_AGAIN) else f"repaired: {note}"


def _scores(split: str, result: SplitResult, width: int) -> Iterator[str]:
    measured = result.measurement
    yield f"\n{split}: loss {number(measured.loss)} ±{number(measured.std)}"
    for case, metrics in result.scores.items():
        scores = "  ".join(f"{metric} {_mean_words(values)}" for metric, values in metrics.items())
        error = result.errors.get(case)
        line = shorten(f"{case}  {scores}{f' ! {error}' if error else ''}", width - 2)
        yield f"  {line}"


def _mean_words(values: list[float | None]) -> str:
    numbers = [value for value in values if value is not None]
    shown = number(mean(numbers)) if numbers else "—"
    lost = len(values) - len(numbers)
    return f"{shown} ({lost} of {len(values)} missing)" if lost else shown
