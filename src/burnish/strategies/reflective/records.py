"""Records: one run of a case as the reflector reads it, turn by turn, with every verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from burnish.core.cases import Case, LeakWatch, Split
from burnish.core.content import Json, canonical
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.outcomes import ToolCall
from burnish.metrics.text_matching import without_middle

_MOST_CHARS = 1500
"""Of one text in a record."""
MOST_IN_ALL = 24_000
"""Of all records of a request."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What was once said to a case, and what it scored."""

    score: float
    text: str


@dataclass(frozen=True, kw_only=True)
class _Records:
    """What the reflector is shown of a minibatch."""

    text: str
    left_out: int = 0
    """Cases that failed and are not shown: no room, or not for a proposer to see."""


@dataclass(frozen=True, kw_only=True)
class RecordWriter:
    """Writes records."""

    cases: Mapping[str, Case]
    objective: Objective
    thresholds: Mapping[str, float]
    """What each metric wants, where it says."""
    secrets: LeakWatch

    def of(self, results: Sequence[CaseResult], history: Mapping[str, Sequence[Reply]]) -> _Records:
        """The records of some runs, as many as there is room for."""
        records: list[str] = []
        left_out = 0
        for result in results:
            record = self.record(result, history.get(result.case, ()))
            # An agent may say on a train case what a holdout case expects: not to be shown.
            fits = sum(map(len, records)) + len(record) <= MOST_IN_ALL or not records
            if fits and self.secrets.leaked(record) is None:
                records.append(record)
            else:
                left_out += 1
        return _Records(text="\n\n".join(records), left_out=left_out)

    def record(self, result: CaseResult, history: Sequence[Reply] = ()) -> str:
        """One run: asked, expected, said, used, and what each metric says of it."""
        score = score_of(result, self.objective)
        lines = [f"### case {result.case} (score {'unknown' if score is None else f'{score:.4f}'})"]
        lines += self._turns(result)
        if result.outcome.failure is not None:
            lines.append(f"The agent failed: {_cut(result.outcome.failure.message)}")
        lines += self._verdicts([s for s in result.scores if s.turn is None])
        lines += [f"Said before, score {reply.score:.4f}: {_cut(reply.text)}" for reply in history]
        return "\n".join(lines)

    def _turns(self, result: CaseResult) -> list[str]:
        case, outcome = self.cases[result.case], result.outcome
        inputs = outcome.asked or [turn.input for turn in case.turns]
        expected = [turn.expected for turn in case.turns]
        lines: list[str] = []
        turns = zip_longest(inputs, expected, outcome.replies)
        for number, (message, answer, reply) in enumerate(turns):
            lines.append(f"#### Turn {number + 1}")
            lines.append(f"**User**: {_cut(message or '')}")
            if answer is not None:
                lines.append(f"**Expected**: {_cut(answer)}")
            lines.append(f"**Agent Response**: {_cut(reply) if reply else '(nothing)'}")
            lines += _tools(result, number)
            lines += self._verdicts([s for s in result.scores if s.turn == number])
        return lines

    def _verdicts(self, scores: Sequence[Score]) -> list[str]:
        return [line for score in scores for line in self._verdict(score)]

    def _verdict(self, score: Score) -> list[str]:
        if score.value is None:
            return [f"[UNKNOWN] {score.metric}: {_cut(score.reason)}"]
        bar = self.thresholds.get(score.metric)
        threshold = "" if bar is None else f", threshold={bar:.4f}"
        lines = [f"[{_word(score)}] {score.metric}: score={score.value:.4f}{threshold}"]
        if score.reason:
            lines.append(f"  reason: {_cut(score.reason)}")
        return [*lines, *_rubrics(score.details)]


def worst_runs(
    evaluation: Evaluation, objective: Objective, *, below: float | None
) -> list[CaseResult]:
    """The worst run of each case, those at or above `below` left out."""
    worst: list[CaseResult] = []
    for case in evaluation.cases:
        runs = evaluation.of_case(case)
        scored = [(score_of(run, objective), run) for run in runs]
        numbered = [(score, run) for score, run in scored if score is not None]
        if not numbered:
            continue
        score, run = min(numbered, key=lambda each: each[0])
        if below is None or score < below:
            worst.append(run)
    return worst


def score_of(result: CaseResult, objective: Objective) -> float | None:
    """The score of one run."""
    alone = Evaluation(candidate="", split=Split.TRAIN, results=(result,))
    return objective.case_score(alone, result.case)


def _tools(result: CaseResult, turn: int) -> list[str]:
    used = [tool for s in result.outcome.trace.steps if s.turn == turn for tool in s.tools]
    return ["**Tool Trace**:", *map(_tool, used)] if used else []


def _tool(tool: ToolCall) -> str:
    arguments = _cut(canonical(dict(tool.arguments)).decode())
    back = f"failed: {tool.error}" if tool.error else canonical(tool.result).decode()
    return f"- {tool.name}({arguments}) → {_cut(back)}"


def _word(score: Score) -> str:
    if score.passed is None:
        return "SCORE"
    return "PASS" if score.passed else "FAIL"


def _rubrics(details: Mapping[str, Json]) -> list[str]:
    items = details.get("rubrics")
    rows = [row for row in items if isinstance(row, dict)] if isinstance(items, list) else []
    return list(map(_rubric, rows))


def _rubric(row: Mapping[str, Json]) -> str:
    word = "PASS" if row.get("verdict") == "yes" else "FAIL"
    why = row.get("reason")
    return f"  · rubric[{row.get('id')}]: {word}{f' ({why})' if why else ''}"


def _cut(text: str) -> str:
    return without_middle(text, _MOST_CHARS)
