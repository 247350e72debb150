"""The cases of a measurement: what each gave in each repeat, whether it passes, and why not."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from burnish.core.cases import Case
from burnish.core.evaluations import CaseResult, Evaluation, mean
from burnish.core.formatting import shorten
from burnish.core.money import to_usd

_CONTENT_ID = re.compile(r"[0-9a-f]{16}")
"""The id of a case without a name."""


class CaseVerdict(StrEnum):
    """The verdict on a case, or on one try at it."""

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    MISSING = "missing"
    """A run or a score could not be had: it counts neither way."""
    UNJUDGED = "unjudged"
    """No metric says pass or fail."""


@dataclass(frozen=True, kw_only=True)
class _ScoreRow:
    """What one metric said of one turn."""

    metric: str
    value: float | None
    passed: bool | None = None
    reason: str = ""
    turn: int | None = None
    """From 0; None in a case of one turn."""


@dataclass(frozen=True, kw_only=True)
class Try:
    """One run of a case."""

    draw: int
    verdict: CaseVerdict
    replies: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """What was said to the agent, where a model made it up."""
    scores: tuple[_ScoreRow, ...] = ()
    error: str = ""
    error_kind: str = ""
    """`agent` or `infrastructure`."""
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    """The agent's own cost; None when the price is unknown."""

    @property
    def answered(self) -> bool:
        return not self.error_kind


@dataclass(frozen=True, kw_only=True)
class CaseRow:
    """One case with all its tries."""

    case: str
    asked: tuple[str, ...]
    expected: tuple[str | None, ...]
    """One a turn, like what is asked."""
    verdict: CaseVerdict
    values: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    """The mean of each metric that applies; None when it is missing in any try."""
    tries: tuple[Try, ...] = ()

    @property
    def title(self) -> str:
        """The name of the case for people; a case without one is known by what it asks."""
        if not _CONTENT_ID.fullmatch(self.case) or not self.asked:
            return self.case
        return f"{shorten(self.asked[0], 60)} ({self.case[:6]})"

    @property
    def passes(self) -> int:
        return sum(one.verdict is CaseVerdict.PASS for one in self.tries)

    @property
    def why_missing(self) -> str:
        """The first reason why a try or one of its scores is missing."""
        for one in self.tries:
            lost = [score.reason for score in one.scores if score.value is None]
            reason = one.error if one.error_kind == "infrastructure" else next(iter(lost), "")
            if reason:
                return reason
        return ""

    @property
    def crashed(self) -> bool:
        return any(one.error_kind == "agent" for one in self.tries)

    @property
    def why_crashed(self) -> str:
        """How the agent itself failed, the first time."""
        return next((one.error for one in self.tries if one.error_kind == "agent"), "")

    def passed(self, metric: str) -> bool | None:
        """Whether a metric passes in every try; None when it is missing or gives no verdict."""
        scores = [score for one in self.tries for score in one.scores if score.metric == metric]
        if any(score.value is None for score in scores):
            return None
        verdicts = [score.passed for score in scores if score.passed is not None]
        return all(verdicts) if verdicts else None


def rows_of(cases: Iterable[Case], evaluation: Evaluation) -> tuple[CaseRow, ...]:
    """A row for each case that was run, in the order of the cases."""
    return tuple(_row(case, evaluation) for case in cases if evaluation.of_case(case.id))


def _row(case: Case, evaluation: Evaluation) -> CaseRow:
    results = evaluation.of_case(case.id)
    tries = tuple(_try(result, evaluation.metrics) for result in results)
    verdicts = {one.verdict for one in tries}
    # A case passes when it passes every time; with a missing try it is missing.
    order = (CaseVerdict.MISSING, CaseVerdict.FAIL, CaseVerdict.PASS, CaseVerdict.UNJUDGED)
    return CaseRow(
        case=case.id,
        asked=tuple(turn.input for turn in case.turns),
        expected=tuple(turn.expected for turn in case.turns),
        verdict=next(each for each in order if each in verdicts),
        values=dict(_values(results, evaluation.metrics)),
        tries=tries,
    )


def _try(result: CaseResult, metrics: Collection[str]) -> Try:
    outcome, failure = result.outcome, result.outcome.failure
    missing = outcome.missing or any(score.missing for score in result.scores)
    without = CaseVerdict.MISSING if missing else CaseVerdict.UNJUDGED
    verdicts = {True: CaseVerdict.PASS, False: CaseVerdict.FAIL, None: without}
    return Try(
        draw=result.draw,
        verdict=CaseVerdict.FAIL if outcome.failed else verdicts[result.passed(metrics)],
        replies=outcome.replies,
        asked=outcome.asked,
        scores=tuple(
            _ScoreRow(metric=s.metric, value=s.value, passed=s.passed, reason=s.reason, turn=s.turn)
            for s in result.scores
        ),
        error=failure.message if failure else "",
        error_kind=failure.kind.value if failure else "",
        seconds=outcome.seconds,
        tokens_in=outcome.usage.input_tokens,
        tokens_out=outcome.usage.output_tokens,
        usd=None if outcome.nano_usd is None else to_usd(outcome.nano_usd),
    )


def _values(
    results: Sequence[CaseResult], metrics: Iterable[str]
) -> Iterator[tuple[str, float | None]]:
    for metric in metrics:
        values = [result.value(metric) for result in results if result.applies(metric)]
        numbers = [value for value in values if value is not None]
        if values:
            yield metric, mean(numbers) if len(numbers) == len(values) else None


class Trouble(StrEnum):
    """What sort of thing went wrong."""

    FAILED = "failed"
    CRASHED = "crashed"
    MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Complaint:
    """One thing that keeps a case from passing."""

    trouble: Trouble
    metric: str = ""
    """Empty where it is about the whole run."""
    turn: int | None = None
    """From 0, in a case of several."""
    value: float | None = None
    reason: str = ""
    expected: str | None = None
    actual: str = ""
    tries: int = 1

    @property
    def named(self) -> str:
        """Who complains: a metric, or what happened to the whole run."""
        return self.metric or ("agent" if self.trouble is Trouble.CRASHED else "run")

    @property
    def where(self) -> str:
        """The metric and the turn, for people."""
        return self.named if self.turn is None else f"{self.named} turn {self.turn + 1}"


def complaints_of(row: CaseRow) -> tuple[Complaint, ...]:
    """Everything that keeps a case from passing; what is the same in several tries, once."""
    complaints: dict[tuple[object, ...], Complaint] = {}
    for one in row.tries:
        for complaint in _of_try(row, one):
            key = (complaint.trouble, complaint.metric, complaint.turn, complaint.reason)
            again = complaints.get(key)
            complaints[key] = replace(again, tries=again.tries + 1) if again else complaint
    return tuple(complaints.values())


def unwell(rows: tuple[CaseRow, ...]) -> list[CaseRow]:
    """The cases that fail or are missing, those that fail first."""
    verdicts = (CaseVerdict.FAIL, CaseVerdict.MISSING)
    return [row for verdict in verdicts for row in rows if row.verdict is verdict]


def _of_try(row: CaseRow, one: Try) -> Iterator[Complaint]:
    if not one.answered:
        crashed = one.error_kind == "agent"
        trouble = Trouble.CRASHED if crashed else Trouble.MISSING
        expected = _at(row.expected, -1) if crashed else None
        yield Complaint(trouble=trouble, reason=one.error, expected=expected)
        return
    for score in one.scores:
        if score.value is None or score.passed is False:
            turn = -1 if score.turn is None else score.turn
            yield Complaint(
                trouble=Trouble.MISSING if score.value is None else Trouble.FAILED,
                metric=score.metric,
                turn=score.turn,
                value=score.value,
                reason=score.reason,
                expected=_at(row.expected, turn),
                actual=_at(one.replies, turn) or "",
            )


def _at(texts: tuple[str | None, ...] | tuple[str, ...], turn: int) -> str | None:
    """The text of a turn; a played user may talk on beyond the turns of the case."""
    return texts[turn] if -len(texts) <= turn < len(texts) else None
