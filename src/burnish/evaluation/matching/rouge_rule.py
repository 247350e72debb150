"""How much of the expected words a text must have."""

from dataclasses import dataclass
from typing import Literal

from burnish.evaluation.matching.match import HELD, Match
from burnish.evaluation.turn_metric import EPSILON

Measure = Literal["f1", "precision", "recall"]
_ADVICE: dict[Measure, str] = {
    "precision": "too many words that the expected text does not have",
    "recall": "words of the expected text are missing",
    "f1": "too few words in common with the expected text",
}


@dataclass(frozen=True, kw_only=True)
class RougeRule:
    """How large the ROUGE of a text must be, against the expected one."""

    kind: str = "rouge1"
    measure: Measure = "f1"
    """The number to report; the bounds below decide."""
    min_precision: float = 0.0
    min_recall: float = 0.0
    min_f1: float = 0.0
    stem: bool = False
    split_summaries: bool = False
    ignore: bool = False
    """Holds whatever is there."""

    @property
    def needs_reference(self) -> bool:
        """Whether there must be an expected text."""
        return not self.ignore


@dataclass(frozen=True, kw_only=True)
class RougeMatch:
    """Whether a text has enough of the expected words, and the number to report."""

    match: Match
    value: float


def compare_rouge(expected: str, found: str, rule: RougeRule) -> RougeMatch:
    """Whether a text has enough of the expected words; else which bound it misses."""
    from burnish.evaluation.metrics.rouge import rouge_score

    score = rouge_score(
        expected, found, kind=rule.kind, stem=rule.stem, split_summaries=rule.split_summaries
    )
    had: dict[Measure, tuple[float, float]] = {
        "precision": (score.precision, rule.min_precision),
        "recall": (score.recall, rule.min_recall),
        "f1": (score.f1, rule.min_f1),
    }
    short = [
        f"{rule.kind} {name} {value:.3f}, at least {bound:g} expected ({_ADVICE[name]})"
        for name, (value, bound) in had.items()
        if value < bound - EPSILON
    ]
    match = Match.missed("; ".join(short)) if short and not rule.ignore else HELD
    return RougeMatch(match=match, value=had[rule.measure][0])
