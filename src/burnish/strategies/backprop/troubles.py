"""What went wrong with runs of cases, in a few words for whoever watches."""

from burnish.core.evaluations import Evaluation
from burnish.evaluation.matching.excerpts import without_middle

_SHOWN = 300


def why_missing(evaluation: Evaluation) -> str:
    """` (the first: connection refused)`: why something is missing; empty where nobody said."""
    first = next(iter(evaluation.missing_reasons().values()), "")
    return f" (the first: {_line(first)})" if first else ""


def crashed(evaluation: Evaluation) -> dict[str, str]:
    """By case, what its agent raised; the first repeat that failed speaks for the case."""
    found: dict[str, str] = {}
    for result in evaluation.results:
        failure = result.outcome.failure
        if result.outcome.failed and failure is not None:
            found.setdefault(result.case, _line(failure.message))
    return found


def crash_words(evaluation: Evaluation) -> str:
    """In how many cases the agent itself failed, and how; empty where it did in none."""
    failed = crashed(evaluation)
    if not failed:
        return ""
    count = f"{len(failed)} of {len(evaluation.cases)} cases of {evaluation.split.value}"
    return f"the agent itself failed in {count}, first with: {next(iter(failed.values()))}"


def _line(text: str) -> str:
    return without_middle(" ".join(text.split()), _SHOWN)
