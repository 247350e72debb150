"""How far a judge agrees with labels, and what it leans towards."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from burnish.core.content import Json
from burnish.core.evaluations import Score, mean
from burnish.metrics.turns import EPSILON

_Z = 1.959963984540054
"""Of a two-sided 95 %."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A share of a count with its Wilson interval (95 %)."""

    count: int
    of: int
    value: float
    low: float
    high: float

    @classmethod
    def of_counts(cls, count: int, of: int) -> "Share | None":
        """The share; None where there is nothing to have a share of."""
        if not of:
            return None
        p, z2 = count / of, _Z * _Z
        middle = (p + z2 / (2 * of)) / (1 + z2 / of)
        reach = _Z / (1 + z2 / of) * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of))
        # At the ends the interval touches 0 or 1, which rounding must not blur.
        low = 0.0 if count == 0 else middle - reach
        high = 1.0 if count == of else middle + reach
        return cls(count=count, of=of, value=p, low=low, high=high)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


# -- What a judge leans towards -------------------------------------------------------------------


_FEWEST = 8
"""With fewer items, a lean cannot be told from chance."""
_SHUFFLES = 2000


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
class _LengthBias:
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
        if self.items < _FEWEST:
            reason = (
                f"it takes {_FEWEST} judged replies with their lengths, and there are {self.items}"
            )
            return f"cannot tell whether length matters to it: {reason}"
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
class _PositionBias:
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
        summary = f"the order changes the outcome of {flips.count} of {flips.of} pairs ({flips})"
        if wins is None:
            return f"{summary}; all are ties"
        words = f"it leans to the {self.lean} place" if self.lean else "no sign of a favoured place"
        return f"{summary}; {words}: the first wins {wins.count} of {wins.of} ({wins})"


def length_bias(
    items: Sequence[Labelled], rng: random.Random, *, shuffles: int = _SHUFFLES
) -> _LengthBias:
    """Whether errors go with length, against what shuffled lengths would give."""
    pairs = [
        (float(item.length), item.value - item.label)
        for item in items
        if item.value is not None and item.length is not None
    ]
    lengths = _standard([length for length, _ in pairs])
    errors = _standard([error for _, error in pairs])
    if len(pairs) < _FEWEST or not lengths or not errors:
        return _LengthBias(items=len(pairs))
    dealt = list(lengths)
    chances: list[float] = []
    for _ in range(shuffles):
        rng.shuffle(dealt)
        chances.append(_product(dealt, errors))
    chances.sort()
    return _LengthBias(
        items=len(pairs),
        correlation=_product(lengths, errors),
        chance_low=chances[math.floor(0.025 * (shuffles - 1))],
        chance_high=chances[math.ceil(0.975 * (shuffles - 1))],
    )


def position_bias(items: Sequence[Labelled]) -> _PositionBias | None:
    """Whether the order decides; None where there are no pairs."""
    pairs = [item.first_margins for item in items if item.first_margins is not None]
    # The same answer is first in one order and second in the other, hence the turned sign.
    flips = sum(_sign(one) != -_sign(two) for one, two in pairs)
    share = Share.of_counts(flips, len(pairs))
    if share is None:
        return None
    wins = [_sign(margin) for pair in pairs for margin in pair if _sign(margin)]
    return _PositionBias(flips=share, first_wins=Share.of_counts(wins.count(1), len(wins)))


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
    values = [order.get("first_margin") for order in orders if isinstance(order, dict)]
    margins = [float(each) for each in values if isinstance(each, int | float)]
    return (margins[0], margins[1]) if len(margins) == 2 else None


# -- How far a judge agrees with labels that people gave ------------------------------------------


_PASSES_AT = 0.5


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """How often label and judge said what."""

    both_pass: int = 0
    both_fail: int = 0
    only_judge_passes: int = 0
    """Bad replies that the judge let through."""
    only_judge_fails: int = 0
    """Good replies that the judge turned down."""

    @property
    def agreed(self) -> int:
        """How often both said the same."""
        return self.both_pass + self.both_fail

    @property
    def good(self) -> int:
        """Replies that the labels call good."""
        return self.both_pass + self.only_judge_fails

    @property
    def bad(self) -> int:
        """Replies that the labels call bad."""
        return self.both_fail + self.only_judge_passes

    @property
    def turned_down(self) -> int:
        """Replies that the judge turned down."""
        return self.both_fail + self.only_judge_fails

    @property
    def total(self) -> int:
        """All of them."""
        return self.good + self.bad


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How a judge compares with labels. Finding the bad replies is what it is there for."""

    items: int
    missing: int
    """Items on which the judge said nothing; they count neither way."""
    confusion: Confusion
    accuracy: Share | None
    kappa: float | None
    """Cohen's kappa: agreement beyond chance; None where the labels are all of one kind."""
    fail_precision: Share | None
    """Of the replies the judge turned down, those that deserved it."""
    fail_recall: Share | None
    """Of the bad replies, those that the judge turned down."""
    length: _LengthBias
    position: _PositionBias | None
    """None where the judge does not compare pairs."""

    def sentences(self) -> tuple[str, ...]:
        """What follows, in plain words."""
        if self.accuracy is None:
            return (f"the judge gave no verdict on any of {self.items} items: nothing to compare",)
        gone = f"the judge gave no verdict on {self.missing} of {self.items} items, left out here"
        lines = [
            self._agrees(self.accuracy),
            self._against_guessing(),
            self._finds(),
            str(self.length),
        ]
        return (
            *([gone] if self.missing else []),
            *lines,
            *([str(self.position)] if self.position else []),
        )

    def _agrees(self, accuracy: Share) -> str:
        sentence = f"agrees with {accuracy.count} of {accuracy.of} labels (accuracy {accuracy})"
        if self.kappa is None:
            return f"{sentence}; kappa cannot be had, since all labels are of one kind"
        return f"{sentence}, kappa {self.kappa:.2f}"

    def _against_guessing(self) -> str:
        confusion = self.confusion
        usual, times = (
            ("good", confusion.good) if confusion.good >= confusion.bad else ("bad", confusion.bad)
        )
        guess = f"calling every reply {usual} would agree with {times}"
        verdict = (
            "the judge does better" if confusion.agreed > times else "the judge does no better"
        )
        return f"{guess}: {verdict}"

    def _finds(self) -> str:
        confusion, recall, precision = self.confusion, self.fail_recall, self.fail_precision
        if recall is None:
            good = f"it turned down {confusion.turned_down} of {confusion.good} good replies"
            return f"no label says bad, so what it would miss is not known; {good}"
        caught = f"of {recall.of} bad replies it turned down {recall.count} (recall {recall})"
        if precision is None:
            return f"{caught}, and no good one either"
        of = f"of the {precision.of} it turned down, {precision.count} were bad"
        return f"{caught}; {of} (precision {precision})"


def agreement(
    items: Sequence[Labelled], rng: random.Random, *, bar: float = _PASSES_AT
) -> Agreement:
    """Compare a judge with labels. A number is a pass from `bar` on; `rng` deals out lengths."""
    judged = [item for item in items if item.value is not None]
    confusion = _confusion(judged, bar)
    return Agreement(
        items=len(items),
        missing=len(items) - len(judged),
        confusion=confusion,
        accuracy=Share.of_counts(confusion.agreed, confusion.total),
        kappa=cohens_kappa(confusion),
        fail_precision=Share.of_counts(confusion.both_fail, confusion.turned_down),
        fail_recall=Share.of_counts(confusion.both_fail, confusion.bad),
        length=length_bias(judged, rng),
        position=position_bias(judged),
    )


def cohens_kappa(confusion: Confusion) -> float | None:
    """Agreement beyond what chance would give.

    None where all labels are of one kind: whatever the judge said, it would be 0 or undefined.
    """
    if not confusion.good or not confusion.bad:
        return None
    n, passed = confusion.total, confusion.total - confusion.turned_down
    chance = (confusion.good * passed + confusion.bad * confusion.turned_down) / (n * n)
    return (confusion.agreed / n - chance) / (1 - chance)


def _confusion(judged: Sequence[Labelled], bar: float) -> Confusion:
    pairs = [(_good(item, bar), _passed(item, bar)) for item in judged]
    return Confusion(
        both_pass=pairs.count((True, True)),
        both_fail=pairs.count((False, False)),
        only_judge_passes=pairs.count((False, True)),
        only_judge_fails=pairs.count((True, False)),
    )


def _good(item: Labelled, bar: float) -> bool:
    return item.label if isinstance(item.label, bool) else item.label >= bar - EPSILON


def _passed(item: Labelled, bar: float) -> bool:
    if item.passed is not None:
        return item.passed
    return item.value is not None and item.value >= bar - EPSILON
