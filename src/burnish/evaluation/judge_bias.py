"""What a judge leans towards: long replies or short ones, the first place or the second."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.content import Json
from burnish.core.evaluations import mean
from burnish.core.scores import Score
from burnish.evaluation.shares import Share
from burnish.evaluation.turn_metric import EPSILON

FEWEST = 8
"""With fewer items, a lean cannot be told from chance."""
SHUFFLES = 2000


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One reply: the label somebody gave it, and what the judge made of it."""

    label: bool | float
    """Whether it is good, or how good from 0 to 1."""
    value: float | None
    """The judge's score; None where there is none."""
    passed: bool | None = None
    """The judge's own pass or fail; without one, the value decides."""
    length: int | None = None
    """How long the reply is, in characters."""
    first_margins: tuple[float, float] | None = None
    """Of a pairwise judge, in each order: how far the answer in the first place was ahead."""

    @classmethod
    def of(cls, score: Score, *, label: bool | float, length: int | None = None) -> "Labelled":
        """A score beside a label, with the two orders of a pairwise judge where it has them."""
        margins = _margins(score.details)
        value, passed = score.value, score.passed
        return cls(label=label, value=value, passed=passed, length=length, first_margins=margins)


@dataclass(frozen=True, kw_only=True)
class LengthBias:
    """How the judge's error, judged − label, goes with the length of replies (Pearson)."""

    items: int
    correlation: float | None = None
    """None for few items, and where lengths or errors do not vary."""
    chance_low: float = 0.0
    chance_high: float = 0.0
    """Where 95 % of correlations lie when lengths are dealt out at random."""

    @property
    def lean(self) -> Literal["long", "short", ""]:
        """Which replies the judge favours; nothing where chance would do as well."""
        if self.correlation is None or self.chance_low <= self.correlation <= self.chance_high:
            return ""
        return "long" if self.correlation > 0 else "short"

    def __str__(self) -> str:
        if self.items < FEWEST:
            told = (
                f"it takes {FEWEST} judged replies with their lengths, and there are {self.items}"
            )
            return f"cannot tell whether length matters to it: {told}"
        if self.correlation is None:
            return (
                "cannot tell whether length matters to it: its errors, or the lengths, are all one"
            )
        numbers = (
            f"its error and the length of the reply correlate at {self.correlation:.2f}, "
            f"chance alone gives {self.chance_low:.2f} to {self.chance_high:.2f}"
        )
        words = {
            "long": "it is too kind to long replies",
            "short": "it is too kind to short replies",
            "": "no sign that length matters to it",
        }
        return f"{words[self.lean]}: {numbers}"


@dataclass(frozen=True, kw_only=True)
class PositionBias:
    """What a pairwise judge makes of the same two answers in both orders."""

    flips: Share
    """Pairs whose outcome changes with the order."""
    first_wins: Share | None
    """How often the first place wins, of all that are not ties; None where all are ties."""

    @property
    def lean(self) -> Literal["first", "second", ""]:
        """Which place the judge favours; nothing where a half is within reach."""
        if self.first_wins is None or self.first_wins.low <= 0.5 <= self.first_wins.high:
            return ""
        return "first" if self.first_wins.value > 0.5 else "second"

    def __str__(self) -> str:
        flips, wins = self.flips, self.first_wins
        told = f"the order changes the outcome of {flips.count} of {flips.of} pairs ({flips})"
        if wins is None:
            return f"{told}; all are ties"
        words = f"it leans to the {self.lean} place" if self.lean else "no sign of a favoured place"
        return f"{told}; {words}: the first wins {wins.count} of {wins.of} ({wins})"


def length_bias(
    items: Sequence[Labelled], rng: random.Random, *, shuffles: int = SHUFFLES
) -> LengthBias:
    """Whether errors go with length, against what shuffled lengths would give."""
    known = [
        (float(item.length), item.value - item.label)
        for item in items
        if item.value is not None and item.length is not None
    ]
    lengths = _standard([length for length, _ in known])
    errors = _standard([error for _, error in known])
    if len(known) < FEWEST or not lengths or not errors:
        return LengthBias(items=len(known))
    dealt = list(lengths)
    chances: list[float] = []
    for _ in range(shuffles):
        rng.shuffle(dealt)
        chances.append(_product(dealt, errors))
    chances.sort()
    return LengthBias(
        items=len(known),
        correlation=_product(lengths, errors),
        chance_low=chances[math.floor(0.025 * (shuffles - 1))],
        chance_high=chances[math.ceil(0.975 * (shuffles - 1))],
    )


def position_bias(items: Sequence[Labelled]) -> PositionBias | None:
    """Whether the order decides; None where there are no pairs."""
    pairs = [item.first_margins for item in items if item.first_margins is not None]
    # The same answer is first in one order and second in the other, hence the turned sign.
    flips = sum(_sign(one) != -_sign(two) for one, two in pairs)
    share = Share.of_counts(flips, len(pairs))
    if share is None:
        return None
    wins = [_sign(margin) for pair in pairs for margin in pair if _sign(margin)]
    return PositionBias(flips=share, first_wins=Share.of_counts(wins.count(1), len(wins)))


def _standard(values: Sequence[float]) -> list[float]:
    """The values about 0 with length 1; nothing where they do not vary."""
    if not values:
        return []
    centre = mean(values)
    apart = [value - centre for value in values]
    size = math.sqrt(math.fsum(each * each for each in apart))
    return [each / size for each in apart] if size > EPSILON else []


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))


def _sign(margin: float) -> int:
    return (margin > EPSILON) - (margin < -EPSILON)


def _margins(details: Mapping[str, Json]) -> tuple[float, float] | None:
    orders = details.get("orders")
    if not isinstance(orders, list):
        return None
    told = [order.get("first_margin") for order in orders if isinstance(order, dict)]
    margins = [float(each) for each in told if isinstance(each, int | float)]
    return (margins[0], margins[1]) if len(margins) == 2 else None
