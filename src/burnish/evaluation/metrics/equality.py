"""The same text, as strictly as you like."""

import string
import unicodedata
from dataclasses import dataclass

from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.matching.texts import difference, levelled
from burnish.evaluation.metrics.answers import answer_text
from burnish.evaluation.turn_metric import ComputedMetric, Verdict


@dataclass(frozen=True, kw_only=True)
class Equality(ComputedMetric):
    """1 where the answer is the expected text. Strict: space around it counts until told not to."""

    name: str = "equality"
    case_insensitive: bool = False
    strip_whitespace: bool = False
    """Space around the text does not count, and any space within it is one space."""
    strip_punctuation: bool = False
    """Marks of punctuation do not count, in any script."""
    response_path: str = ""
    """Where in a JSON answer to look; empty for the whole reply."""

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Compare; only where something is expected."""
        if exchange.expected is None:
            return None
        answer = answer_text(exchange, self.response_path)
        if answer.problem:
            return Verdict.of(held=False, reason=answer.problem)
        wanted, given = self._plain(exchange.expected), self._plain(answer.text)
        held = wanted == given
        return Verdict.of(held=held, reason="" if held else difference(wanted, given))

    def _plain(self, text: str) -> str:
        plain = levelled(text, fold=self.case_insensitive)
        if self.strip_punctuation:
            plain = "".join(sign for sign in plain if not _punctuates(sign))
        return " ".join(plain.split()) if self.strip_whitespace else plain


def _punctuates(sign: str) -> bool:
    return sign in string.punctuation or unicodedata.category(sign).startswith("P")
