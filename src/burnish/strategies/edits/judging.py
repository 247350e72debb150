"""What metrics said of a run beside their numbers: faults they found, and judges who differ."""

from burnish.core.evaluations import Evaluation
from burnish.core.scores import Score
from burnish.evaluation.matching.excerpts import without_middle

_MOST = 3000
"""Characters of one remark."""


def remarks_on(evaluation: Evaluation) -> list[str]:
    """What the metrics found fault with in the last run, and where judges did not agree."""
    return [
        f"{score.metric}: {without_middle(told, _MOST)}"
        for score in _scores(evaluation)
        for told in (score.reason, disagreement(score))
        if told
    ]


def disagreements(evaluation: Evaluation) -> tuple[str, ...] | None:
    """Where judges did not agree, for the ledger; None where they did."""
    scores = _scores(evaluation)
    apart = tuple(f"{s.metric}: {words}" for s in scores if (words := disagreement(s)))
    return apart or None


def disagreement(score: Score) -> str:
    """How far apart the judges of a score are, in words; '' where they agree or one judged."""
    judges = score.details.get("judges")
    rows = [each for each in judges if isinstance(each, dict)] if isinstance(judges, list) else []
    known = [
        (row.get("judge"), v) for row in rows if isinstance(v := row.get("value"), int | float)
    ]
    if len({value for _, value in known}) < 2:
        return ""
    return f"the judges do not agree: {', '.join(f'{name} {value:.3g}' for name, value in known)}"


def _scores(evaluation: Evaluation) -> tuple[Score, ...]:
    ran = evaluation.results and not evaluation.failed_cases()
    return evaluation.results[-1].scores if ran else ()
