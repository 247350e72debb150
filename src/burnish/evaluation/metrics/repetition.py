"""How little a text repeats itself: keywords and phrases stuffed into it show here."""

import re
from collections import Counter
from dataclasses import dataclass

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.turn_metric import ComputedMetric, Verdict

_WORD = re.compile(r"\w+")
_SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class DistinctPhrases(ComputedMetric):
    """The share of runs of `size` words that did not stand in the text before.

    Ordinary prose stays above 0.9 at three words. A text that is shorter than that repeats
    nothing.
    """

    name: str = "distinct_phrases"
    size: int = 3

    def __post_init__(self) -> None:
        if self.size < 1:
            message = f"{self.name}: runs of {self.size} words cannot be counted"
            raise ConfigError([Problem(message=message, remedy="give a size of 1 or more")])

    def compute(self, exchange: Exchange) -> Verdict | None:
        """Count the runs of words in the reply."""
        counts = repeated_runs(exchange.reply, self.size)
        whole = counts.total()
        again = whole - len(counts)
        value = 1.0 if whole == 0 else 1 - again / whole
        return Verdict(
            value=value,
            reason=_told(counts, again, whole) if again else "",
            details={"runs": whole, "repeated": again},
        )


def repeated_runs(text: str, size: int) -> Counter[tuple[str, ...]]:
    """How often each run of so many words stands in a text; case does not count."""
    words = _WORD.findall(text.casefold())
    return Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def _told(counts: Counter[tuple[str, ...]], again: int, whole: int) -> str:
    most = [(" ".join(run), n) for run, n in counts.most_common(_SHOWN) if n > 1]
    named = ", ".join(f"'{run}' {n} times" for run, n in most)
    return f"{again} of {whole} runs of words were there before: {named}; say each thing once"
