"""The cases of a measurement: what each gave in each repeat, whether it passes, and why not."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from burnish.core.cases import Case
from burnish.core.evaluations import CaseResult, Evaluation, mean
from burnish.core.money import to_usd

# -- rows -------------------------------------------------------------------------------------


class CaseVerdict(StrEnum):
    """What a case, or one try at it, comes to."""

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
    """Why there is no reply."""
    error_kind: str = ""
    """`agent` or `infrastructure`."""
    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float | None = 0.0
    """The agent's own cost; None when the price is unknown."""

    @property
    def answered(self) -> bool:
        """Whether the agent gave anything."""
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
    def passes(self) -> int:
        """How many tries pass."""
        return sum(one.verdict is CaseVerdict.PASS for one in self.tries)

    @property
    def why_missing(self) -> str:
        """Why a try or one of its scores is missing; the first that says so speaks."""
        for one in self.tries:
            lost = [score.reason for score in one.scores if score.value is None]
            reason = one.error if one.error_kind == "infrastructure" else next(iter(lost), "")
            if reason:
                return reason
        return ""

    @property
    def crashed(self) -> bool:
        """Whether the agent itself failed in any try."""
        return any(one.error_kind == "agent" for one in self.tries)

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
    return CaseRow(
        case=case.id,
        asked=tuple(turn.input for turn in case.turns),
        expected=tuple(turn.expected for turn in case.turns),
        verdict=_verdict_of([one.verdict for one in tries]),
        values=dict(_values(results, evaluation.metrics)),
        tries=tries,
    )


def _verdict_of(verdicts: Sequence[CaseVerdict]) -> CaseVerdict:
    """What tries add up to: a case passes when it passes every time.

    A case with a missing try is missing, as it is in every comparison.
    """
    for decisive in (CaseVerdict.MISSING, CaseVerdict.FAIL, CaseVerdict.PASS):
        if decisive in verdicts:
            return decisive
    return CaseVerdict.UNJUDGED


def _try(result: CaseResult, metrics: Collection[str]) -> Try:
    outcome, failure = result.outcome, result.outcome.failure
    return Try(
        draw=result.draw,
        verdict=_verdict(result, metrics),
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


def _verdict(result: CaseResult, metrics: Collection[str]) -> CaseVerdict:
    passed = result.passed(metrics)
    if passed is not None:
        return CaseVerdict.PASS if passed else CaseVerdict.FAIL
    lacking = result.outcome.missing or any(score.missing for score in result.scores)
    return CaseVerdict.MISSING if lacking else CaseVerdict.UNJUDGED


def _values(
    results: Sequence[CaseResult], metrics: Iterable[str]
) -> Iterator[tuple[str, float | None]]:
    for metric in metrics:
        values = [result.value(metric) for result in results if result.applies(metric)]
        numbers = [value for value in values if value is not None]
        if values:
            yield metric, mean(numbers) if len(numbers) == len(values) else None


# -- what is wrong with a case, in words ------------------------------------------------------


class Trouble(StrEnum):
    """What sort of thing went wrong."""

    FAILED = "failed"
    """A metric does not pass."""
    CRASHED = "crashed"
    """The agent itself failed."""
    MISSING = "missing"
    """A run or a score could not be had."""


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
    """In how many tries it happened."""

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
    by_verdict = {
        verdict: [row for row in rows if row.verdict is verdict]
        for verdict in (CaseVerdict.FAIL, CaseVerdict.MISSING)
    }
    return [*by_verdict[CaseVerdict.FAIL], *by_verdict[CaseVerdict.MISSING]]


def _of_try(row: CaseRow, one: Try) -> Iterator[Complaint]:
    if not one.answered:
        crashed = one.error_kind == "agent"
        trouble = Trouble.CRASHED if crashed else Trouble.MISSING
        expected = _at(row.expected, -1) if crashed else None
        yield Complaint(trouble=trouble, reason=one.error, expected=expected)
        return
    for score in one.scores:
        if score.value is None:
            yield _complaint(row, one, score, Trouble.MISSING)
        elif score.passed is False:
            yield _complaint(row, one, score, Trouble.FAILED)


def _complaint(row: CaseRow, one: Try, score: _ScoreRow, trouble: Trouble) -> Complaint:
    turn = -1 if score.turn is None else score.turn
    return Complaint(
        trouble=trouble,
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
