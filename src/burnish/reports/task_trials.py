"""The trials of a task with their files: what was edited, and what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from burnish.core.candidates import Candidate
from burnish.core.trials import TrialRow
from burnish.runs.leading import leads
from burnish.runs.standing import BASELINE
from burnish.system.workspaces import DiffSummary, summarize_diff

FilesOf: TypeAlias = Callable[[Candidate], Mapping[str, str]]
_WHOLE = 2**31
"""A patch that leaves something out could not be applied."""


@dataclass(frozen=True, kw_only=True)
class TaskTrial:
    """One trial, and the files before and after its edit."""

    row: TrialRow
    parent: Candidate | None
    """What was edited; None for the trial that measures the start."""
    before: Mapping[str, bytes]
    after: Mapping[str, bytes] | None
    """None where no candidate came of it: an answer that could not be used."""

    @property
    def diff(self) -> DiffSummary:
        """What the edit changed."""
        after = self.before if self.after is None or self.parent is None else self.after
        return summarize_diff(self.before, after, max_chars=_WHOLE)


def task_trials(rows: Sequence[TrialRow], files_of: FilesOf) -> list[TaskTrial]:
    """Every trial of a run."""
    return [_trial(row, rows, files_of) for row in rows]


def _trial(row: TrialRow, rows: Sequence[TrialRow], files_of: FilesOf) -> TaskTrial:
    leaders = [each.trial.candidate for each in rows if each.number < row.number and leads(each)]
    candidate, parent = row.trial.candidate, None
    if row.trial.phase != BASELINE:
        named = [each for each in leaders if each.id in candidate.parents[:1]]
        parent = [*leaders, *named][-1] if leaders else None
    made = all(each.id != candidate.id for each in leaders)
    return TaskTrial(
        row=row,
        parent=parent,
        before={} if parent is None else _encoded(files_of(parent)),
        after=_encoded(files_of(candidate)) if made else None,
    )


def _encoded(texts: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in texts.items()}
