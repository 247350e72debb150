"""The trials of a run: a line for each, and everything about one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnish.core.content import Json
from burnish.core.formatting import visible
from burnish.core.surfaces import Candidate
from burnish.core.trials import Proposal, TrialRow
from burnish.pages.cases import shown
from burnish.pages.changes import ShownChange, shown_changes
from burnish.runs.directory import RunRecord, loss_of, result_of
from burnish.runs.events import BASELINE
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import SPLITS, why


@dataclass(frozen=True, kw_only=True)
class TrialLine:
    """One trial in the table. A long run has thousands of them, and a page shows a few."""

    row: TrialRow
    parents: tuple[int, ...]

    @property
    def number(self) -> int:
        return self.row.number

    @property
    def what(self) -> str:
        trial = self.row.trial
        return visible(trial.candidate.origin.note or ", ".join(trial.touched) or "—")

    @property
    def outcome(self) -> str:
        """`accepted`, `kept`, `rejected`, `cannot tell`, `turned away` or `baseline`."""
        trial = self.row.trial
        if trial.phase == BASELINE:
            return "baseline"
        if trial.problems:
            return "turned away"
        verdict = trial.decision.verdict.value if trial.decision else "rejected"
        return _OUTCOMES.get(verdict, verdict)

    @property
    def train(self) -> float | None:
        return self._score("train")

    @property
    def holdout(self) -> float | None:
        return self._score("holdout")

    @property
    def reason(self) -> str:
        return visible(why(self.row.trial))

    def _score(self, split: str) -> float | None:
        loss = loss_of(self.row, split)
        return None if loss is None else 1 - loss


@dataclass(frozen=True, kw_only=True)
class ProposerExchange:
    """What a proposer saw and said."""

    role: str
    request: str
    answer: str
    error: str


@dataclass(frozen=True, kw_only=True)
class TrialDetail:
    """Everything about one trial."""

    line: TrialLine
    exchanges: tuple[ProposerExchange, ...]
    changes: tuple[ShownChange, ...]
    numbers: tuple[tuple[str, float], ...]
    """What the decision is based on."""
    gate: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...]
    """What the strategy says about it."""
    splits: tuple[tuple[str, int, float | None, float], ...]
    """Name, cases, score and noise of each split that was measured."""


_OUTCOMES = {"accept": "accepted", "keep": "kept", "reject": "rejected"}


def trial_lines(run: RunRecord) -> tuple[TrialLine, ...]:
    """A line for each trial, in order."""
    numbers: dict[str, int] = {}
    lines: list[TrialLine] = []
    for row in run.rows:
        candidate = row.trial.candidate
        parents = tuple(numbers[parent] for parent in candidate.parents if parent in numbers)
        lines.append(TrialLine(row=row, parents=parents))
        numbers.setdefault(candidate.id, row.number)
    return tuple(lines)


def trial_detail(run: RunRecord, line: TrialLine) -> TrialDetail:
    """Everything about one trial."""
    trial = line.row.trial
    parent = _parent(run, line.parents)
    decision = trial.decision
    return TrialDetail(
        line=line,
        exchanges=tuple(map(_exchange, trial.proposals)),
        changes=() if parent is None else shown_changes(parent, trial.candidate),
        numbers=() if decision is None else tuple(decision.numbers.items()),
        gate="" if decision is None else decision.gate,
        problems=tuple(visible(str(problem)) for problem in trial.problems),
        remarks=tuple(map(visible, strategy_plugin(run.header.strategy).trial_lines(line.row))),
        splits=tuple(_split_rows(line.row)),
    )


def _split_rows(row: TrialRow) -> Iterator[tuple[str, int, float | None, float]]:
    for split in SPLITS:
        if (result := result_of(row, split)) is not None:
            measured = result.measurement
            yield split, measured.cases, measured.score, measured.std


def _parent(run: RunRecord, parents: Sequence[int]) -> Candidate | None:
    rows = (row for row in run.rows if row.number in parents)
    return next((row.trial.candidate for row in rows), None)


def _exchange(proposal: Proposal) -> ProposerExchange:
    return ProposerExchange(
        role=proposal.role,
        request=_text(proposal.request),
        answer=_text(proposal.answer),
        error=visible(proposal.error),
    )


def _text(value: Json) -> str:
    return "" if value is None else shown(value)


def most_telling(lines: Sequence[TrialLine], most: int) -> tuple[TrialLine, ...]:
    """The trials to show where not all fit: what was accepted or kept first, then the last ones."""
    if len(lines) <= most:
        return tuple(lines)
    marked = [line for line in lines if line.outcome in ("baseline", "accepted", "kept")][-most:]
    room = most - len(marked)
    chosen = {line.number for line in marked}
    others = [line.number for line in lines if line.number not in chosen]
    chosen.update(others[len(others) - room :])
    return tuple(line for line in lines if line.number in chosen)
