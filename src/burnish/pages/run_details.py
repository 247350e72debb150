"""The trials and cases of a run: a line for each, and everything about one."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from burnish.core.cases import Case, Dataset, Outcome, Split, Step
from burnish.core.content import Json, codec
from burnish.core.evaluations import Score
from burnish.core.formatting import visible
from burnish.core.surfaces import Candidate
from burnish.core.trials import Proposal, TrialRow
from burnish.pages.run_result import ShownChange, shown_changes
from burnish.reports.cases import CaseLine
from burnish.runs.directory import RunRecord, look_into, loss_of, result_of
from burnish.runs.events import BASELINE
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import SPLITS, why

_LONG_TEXT = 20_000
"""Characters of one text; a page that is cut can be read, and one of a megabyte cannot."""


@dataclass(frozen=True, kw_only=True)
class CaseAnswer:
    """One run of a case by one candidate: what was answered, how it was scored, and its steps."""

    draw: int
    outcome: Outcome
    scores: tuple[Score, ...] = ()

    @property
    def replies(self) -> tuple[str, ...]:
        return tuple(map(_cut, self.outcome.replies))

    @property
    def data(self) -> str:
        return "" if self.outcome.data is None else shown(self.outcome.data)

    @property
    def failure(self) -> str:
        return visible(self.outcome.failure.message) if self.outcome.failure else ""

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.outcome.trace.steps


@dataclass(frozen=True, kw_only=True)
class CaseDetail:
    """One case with the answers of baseline and best."""

    line: CaseLine
    case: Case | None
    """Its text, if it could be read and is still what was run."""
    before: tuple[CaseAnswer, ...]
    after: tuple[CaseAnswer, ...]

    @property
    def turns(self) -> tuple[tuple[str, str | None], ...]:
        """What is asked and what is expected, turn by turn."""
        turns = () if self.case is None else self.case.turns
        return tuple(
            (_cut(turn.input), None if turn.expected is None else _cut(turn.expected))
            for turn in turns
        )


@dataclass(frozen=True, kw_only=True)
class _Answered:
    content: str
    """The hash of the case that was run."""
    answer: CaseAnswer


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The answers of baseline and best, as the journal has them."""

    baseline: str
    best: str
    by_case: Mapping[tuple[str, str], Sequence[_Answered]] = field(
        default_factory=dict[tuple[str, str], Sequence[_Answered]]
    )
    """By candidate and name of the case."""

    @classmethod
    def read(cls, run: RunRecord) -> "Answers":
        """Read them from the trials in which the two were measured."""
        rows = [row for row in (run.baseline, run.best) if row is not None]
        if not rows:
            return cls(baseline="", best="")
        baseline, best = rows[0].trial.candidate.id, rows[-1].trial.candidate.id
        by_case: dict[tuple[str, str], list[_Answered]] = {}
        for name, candidate, each in _answered(run, rows):
            by_case.setdefault((candidate, name), []).append(each)
        return cls(baseline=baseline, best=best, by_case=by_case)

    def detail(self, line: CaseLine, cases: Dataset | None) -> CaseDetail:
        """What is known about one case."""
        sides = [self._of(candidate, line.case) for candidate in (self.baseline, self.best)]
        hashes = {each.content for side in sides for each in side}
        return CaseDetail(
            line=line,
            case=_unchanged(cases, line, hashes),
            before=tuple(each.answer for each in sides[0]),
            after=tuple(each.answer for each in sides[1]),
        )

    def _of(self, candidate: str, case: str) -> list[_Answered]:
        answered = self.by_case.get((candidate, case), ())
        return sorted(answered, key=lambda each: each.answer.draw)


def _unchanged(cases: Dataset | None, line: CaseLine, hashes: Collection[str]) -> Case | None:
    """The case, unless the file has another one under its name by now."""
    if cases is None:
        return None
    named = (case for case in cases.cases(Split(line.split)) if case.id == line.case)
    case = next(named, None)
    return case if case is not None and {case.content_id} >= {*hashes} else None


def _answered(run: RunRecord, rows: Sequence[TrialRow]) -> Iterator[tuple[str, str, _Answered]]:
    """Each run of a case in these trials, with its name and candidate."""
    candidates = {row.trial.candidate.id for row in rows}
    runs: dict[str, tuple[str, str, str, int, Outcome]] = {}
    scores: dict[str, tuple[Score, ...]] = {}
    with look_into(run.folder) as journal:
        for result in journal.values({row.number for row in rows}, kinds=("run", "score")):
            request = result.request if isinstance(result.request, dict) else {}
            if result.kind == "score":
                scores[str(request.get("run"))] = _scores(result.value)
            elif (candidate := str(request.get("candidate"))) in candidates:
                outcome = _outcome(result.value)
                name, content = str(request.get("name")), str(request.get("case"))
                if outcome is not None:
                    runs[result.key] = (name, candidate, content, result.draw, outcome)
    for key, (name, candidate, content, draw, outcome) in runs.items():
        answer = CaseAnswer(draw=draw, outcome=outcome, scores=scores.get(key, ()))
        yield name, candidate, _Answered(content=content, answer=answer)


def _outcome(value: Json) -> Outcome | None:
    try:
        return codec(Outcome).decode(value)
    except ValueError:  # a damaged journal still has a page
        return None


def _scores(value: Json) -> tuple[Score, ...]:
    try:
        return codec(_StoredScores).decode(value).scores
    except ValueError:
        return ()


@dataclass(frozen=True, kw_only=True)
class _StoredScores:
    scores: tuple[Score, ...] = ()


def _cut(text: str) -> str:
    shown_text = visible(text)
    return shown_text if len(shown_text) <= _LONG_TEXT else f"{shown_text[:_LONG_TEXT]} […]"


def shown(value: Json) -> str:
    """Any value as text: texts as they are, the rest as indented JSON."""
    if isinstance(value, str):
        return _cut(value)
    return _cut(json.dumps(value, ensure_ascii=False, indent=2))


@dataclass(frozen=True, kw_only=True)
class ComparedCases:
    """The cases that a page shows, and what they can be filtered by."""

    lines: tuple[CaseLine, ...]
    total: int

    @cached_property
    def splits(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line.split for line in self.lines))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        return tuple(sorted({metric for line in self.lines for metric in line.metrics}))

    @cached_property
    def tags(self) -> tuple[str, ...]:
        return tuple(sorted({tag for line in self.lines for tag in line.tags}))


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
