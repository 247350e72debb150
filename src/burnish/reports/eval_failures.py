"""What is wrong with a case, in words: which metric, in which turn, expected and actual, why."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from burnish.reports.eval_rows import CaseRow, CaseVerdict, ScoreRow, Try


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
    found: dict[tuple[object, ...], Complaint] = {}
    for one in row.tries:
        for complaint in _of_try(row, one):
            key = (complaint.trouble, complaint.metric, complaint.turn, complaint.reason)
            again = found.get(key)
            found[key] = replace(again, tries=again.tries + 1) if again else complaint
    return tuple(found.values())


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


def _complaint(row: CaseRow, one: Try, score: ScoreRow, trouble: Trouble) -> Complaint:
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
