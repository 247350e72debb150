"""How far judges and people agree on labels, and what a judge leans towards."""

import json
import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise
from pathlib import Path
from typing import Literal

from burnish.core.content import Json, codec
from burnish.core.errors import BurnishError
from burnish.core.evaluations import Score, mean
from burnish.metrics.turns import EPSILON
from burnish.system import read_text

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
        """The share; None if there is nothing to count."""
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


_FEWEST = 8
"""With fewer items, a bias cannot be told from chance."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """One reply with its human label and the judge's score."""

    label: bool | float
    """Whether the reply is good, or how good it is from 0 to 1."""
    value: float | None
    passed: bool | None = None
    """The judge's own pass or fail; if None, the value decides."""
    length: int | None = None
    """In characters."""
    first_margins: tuple[float, float] | None = None
    """For a pairwise judge: the lead of the first answer, in each order."""

    def good(self, bar: float = 0.5) -> bool:
        """Whether the label is a pass."""
        return self.label if isinstance(self.label, bool) else self.label >= bar - EPSILON

    def reaches(self, bar: float) -> bool:
        """Whether the judge's value is at least this."""
        return self.value is not None and self.value >= bar - EPSILON

    def accepted(self, bar: float = 0.5) -> bool:
        """Whether the judge passes it."""
        return self.reaches(bar) if self.passed is None else self.passed

    @classmethod
    def of(cls, score: Score, *, label: bool | float, length: int | None = None) -> "Labelled":
        """A judge's score next to a label."""
        return cls(
            label=label,
            value=score.value,
            passed=score.passed,
            length=length,
            first_margins=_margins(score.details),
        )


@dataclass(frozen=True, kw_only=True)
class _LengthBias:
    """How the error of a judge (score − label) correlates with reply length (Pearson)."""

    items: int
    correlation: float | None = None
    """None if there are few items, or if lengths or errors do not vary."""
    chance_low: float = 0.0
    chance_high: float = 0.0
    """95 % of the correlations with shuffled lengths are in this range."""

    @property
    def lean(self) -> Literal["long", "short", ""]:
        if self.correlation is None or self.chance_low <= self.correlation <= self.chance_high:
            return ""
        return "long" if self.correlation > 0 else "short"

    def __str__(self) -> str:
        unclear = "cannot tell whether length matters to it"
        if self.items < _FEWEST:
            replies = f"{_FEWEST} judged replies with their lengths"
            return f"{unclear}: this takes {replies}, found {self.items}"
        if self.correlation is None:
            return f"{unclear}: its errors or the lengths do not vary"
        numbers = (
            f"its error and the length of the reply correlate at {self.correlation:.2f}, "
            f"chance alone gives {self.chance_low:.2f} to {self.chance_high:.2f}"
        )
        words = {
            "long": "it favours long replies",
            "short": "it favours short replies",
            "": "no sign that length matters to it",
        }
        return f"{words[self.lean]}: {numbers}"


@dataclass(frozen=True, kw_only=True)
class _PositionBias:
    """How a pairwise judge rates the same two answers in both orders."""

    flips: Share
    """Pairs whose outcome depends on the order."""
    first_wins: Share | None
    """How often the first answer wins; ties do not count."""

    @property
    def lean(self) -> Literal["first", "second", ""]:
        if self.first_wins is None or self.first_wins.low <= 0.5 <= self.first_wins.high:
            return ""
        return "first" if self.first_wins.value > 0.5 else "second"

    def __str__(self) -> str:
        flips, wins = self.flips, self.first_wins
        summary = f"the order changes the outcome of {flips.count} of {flips.of} pairs ({flips})"
        if wins is None:
            return f"{summary}; all are ties"
        words = (
            f"it favours the {self.lean} position"
            if self.lean
            else "no sign that it favours a position"
        )
        return f"{summary}; {words}: the first wins {wins.count} of {wins.of} ({wins})"


def length_bias(items: Sequence[Labelled], rng: random.Random) -> _LengthBias:
    """Whether errors depend on length, compared with shuffled lengths."""
    pairs = [
        (float(item.length), item.value - item.label)
        for item in items
        if item.value is not None and item.length is not None
    ]
    lengths = _standard([length for length, _ in pairs])
    errors = _standard([error for _, error in pairs])
    if len(pairs) < _FEWEST or not lengths or not errors:
        return _LengthBias(items=len(pairs))
    dealt, shuffles = list(lengths), 2000
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
    """Whether the order of two answers matters; None if there are no pairs."""
    pairs = [item.first_margins for item in items if item.first_margins is not None]
    # The same answer is first in one order and second in the other, hence the turned sign.
    flips = sum(_sign(one) != -_sign(two) for one, two in pairs)
    share = Share.of_counts(flips, len(pairs))
    if share is None:
        return None
    wins = [_sign(margin) for pair in pairs for margin in pair if _sign(margin)]
    return _PositionBias(flips=share, first_wins=Share.of_counts(wins.count(1), len(wins)))


def _standard(values: Sequence[float]) -> list[float]:
    """The values with mean 0 and norm 1; empty if they do not vary."""
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


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Counts of passes and fails by label and by judge."""

    both_pass: int = 0
    both_fail: int = 0
    only_judge_passes: int = 0
    """Bad replies that the judge accepts."""
    only_judge_fails: int = 0
    """Good replies that the judge rejects."""

    @property
    def agreed(self) -> int:
        return self.both_pass + self.both_fail

    @property
    def good(self) -> int:
        return self.both_pass + self.only_judge_fails

    @property
    def bad(self) -> int:
        return self.both_fail + self.only_judge_passes

    @property
    def turned_down(self) -> int:
        return self.both_fail + self.only_judge_fails

    @property
    def total(self) -> int:
        return self.good + self.bad


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How well a judge agrees with labels; its job is to find the bad replies."""

    items: int
    missing: int
    """Items without a verdict; they do not count."""
    confusion: Confusion
    accuracy: Share | None
    kappa: float | None
    """Cohen's kappa; None if all labels are the same."""
    fail_precision: Share | None
    """Of the replies that the judge rejects, the share that is bad."""
    fail_recall: Share | None
    """Of the bad replies, the share that the judge rejects."""
    length: _LengthBias
    position: _PositionBias | None
    """None if the judge does not compare pairs."""

    def sentences(self) -> tuple[str, ...]:
        """The results in plain words."""
        if self.accuracy is None:
            return (f"the judge gave no verdict on any of {self.items} items: nothing to compare",)
        gone = f"the judge gave no verdict on {self.missing} of {self.items} items, left out here"
        share, confusion = self.accuracy, self.confusion
        kappa = (
            "; kappa is undefined, since all labels are the same"
            if self.kappa is None
            else f", kappa {self.kappa:.2f}"
        )
        usual = "good" if confusion.good >= confusion.bad else "bad"
        times = max(confusion.good, confusion.bad)
        better = "better" if confusion.agreed > times else "no better"
        lines = [
            gone if self.missing else "",
            f"agrees with {share.count} of {share.of} labels (accuracy {share}){kappa}",
            f"calling every reply {usual} would agree with {times}: the judge does {better}",
            self._finds(),
            str(self.length),
            str(self.position) if self.position else "",
        ]
        return tuple(filter(None, lines))

    def _finds(self) -> str:
        confusion, recall, precision = self.confusion, self.fail_recall, self.fail_precision
        if recall is None:
            good = f"it rejected {confusion.turned_down} of {confusion.good} good replies"
            return f"no reply is labelled bad, so it is not known what it would miss; {good}"
        caught = f"of {recall.of} bad replies it rejected {recall.count} (recall {recall})"
        if precision is None:
            return f"{caught}, and no good one either"
        of = f"of the {precision.of} it rejected, {precision.count} were bad"
        return f"{caught}; {of} (precision {precision})"


AGREEMENT = "agreement.json"
"""Where a check of judges stores what it found, for pages."""


@dataclass(frozen=True, kw_only=True)
class CheckedJudge:
    """What a check found out about one metric."""

    metric: str
    fingerprint: str
    labels: str
    """The name of the file with the labels."""
    sentences: tuple[str, ...]


def stored_judges(folder: Path) -> tuple[CheckedJudge, ...]:
    """What the check in a folder found; nothing if none is there, or another version wrote it."""
    with suppress(BurnishError, ValueError, TypeError, KeyError):
        stored = json.loads(read_text(folder / AGREEMENT))
        return codec(tuple[CheckedJudge, ...]).decode(stored)
    return ()


def agreement(items: Sequence[Labelled], rng: random.Random, *, bar: float = 0.5) -> Agreement:
    """Compare a judge with labels; a number passes at `bar`."""
    judged = [item for item in items if item.value is not None]
    pairs = [(item.good(bar), item.accepted(bar)) for item in judged]
    confusion = Confusion(
        both_pass=pairs.count((True, True)),
        both_fail=pairs.count((False, False)),
        only_judge_passes=pairs.count((False, True)),
        only_judge_fails=pairs.count((True, False)),
    )
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
    """Agreement beyond chance; None if all labels are the same."""
    if not confusion.good or not confusion.bad:
        return None
    n, passed = confusion.total, confusion.total - confusion.turned_down
    chance = (confusion.good * passed + confusion.bad * confusion.turned_down) / (n * n)
    return (confusion.agreed / n - chance) / (1 - chance)


_TRUSTED = 0.6
"""Kappa from which raters count as interchangeable for pass and fail ("substantial" agreement)."""
_FOLDS = 5
_BAR = 0.5
"""From here a score counts as a pass."""


@dataclass(frozen=True, kw_only=True)
class Kappa:
    """Cohen's kappa, agreement beyond chance, with its interval (95 %).

    The interval is Wilson's for the raw agreement, at the agreement by chance that the answers
    have. Unlike the usual standard error it keeps its width where all answers agree.
    """

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, pairs: Sequence[tuple[object, object]]) -> "Kappa | None":
        """Kappa of pairs of answers; None if there is nothing to tell apart."""
        raw = Share.of_counts(sum(one == other for one, other in pairs), len(pairs))
        if raw is None:
            return None
        ones, others = (Counter(answers) for answers in zip(*pairs, strict=True))
        chance = sum(ones[each] * others[each] for each in ones) / len(pairs) ** 2
        if chance >= 1:
            return None
        value, low, high = ((p - chance) / (1 - chance) for p in (raw.value, raw.low, raw.high))
        return cls(value=value, low=max(-1.0, low), high=high)

    def __str__(self) -> str:
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


@dataclass(frozen=True, kw_only=True)
class RaterPair:
    """Two people's answers to the same cases."""

    one: str
    other: str
    cases: int
    """Those that both have labelled."""
    agreement: Share | None
    kappa: Kappa | None
    differing: tuple[str, ...]


def rater_pairs(answers: Mapping[str, Mapping[str, str | float]]) -> tuple[RaterPair, ...]:
    """Compare everyone with everyone; `answers` are by person and case. Scores pass at 0.5."""
    pairs: list[RaterPair] = []
    for one, other in combinations(answers, 2):
        both = [case for case in answers[one] if case in answers[other]]
        sides = [(_side(answers[one][case]), _side(answers[other][case])) for case in both]
        differing = [case for case, (a, b) in zip(both, sides, strict=True) if a != b]
        pairs.append(
            RaterPair(
                one=one,
                other=other,
                cases=len(both),
                agreement=Share.of_counts(len(both) - len(differing), len(both)),
                kappa=Kappa.of(sides),
                differing=tuple(differing),
            )
        )
    return tuple(pairs)


def _side(answer: str | float) -> str:
    if isinstance(answer, str):
        return answer
    return "pass" if answer >= _BAR - EPSILON else "fail"


class Trust(StrEnum):
    """What labels allow to say of a judge."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "cannot tell"


def trust_in(kappa: Kappa | None) -> Trust:
    """Whether the whole interval of kappa is on one side of the bar."""
    if kappa is None or kappa.low < _TRUSTED - EPSILON <= kappa.high:
        return Trust.UNCLEAR
    return Trust.YES if kappa.low >= _TRUSTED - EPSILON else Trust.NO


@dataclass(frozen=True, kw_only=True)
class FittedThreshold:
    """The threshold of a judge that agrees best with labels, and what it is worth.

    Each part of the labels is predicted with the threshold that fits the other parts.
    """

    threshold: float
    """Fitted on all labels."""
    parts: int
    accuracy: Share
    kappa: Kappa | None


@dataclass(frozen=True, kw_only=True)
class JudgeVerdict:
    """Whether a judge can be trusted on this data, as it is and with a fitted threshold."""

    trust: Trust
    """By the fitted threshold, if there is one that is better."""
    kappa: Kappa | None
    """At the judge's own threshold."""
    fitted: FittedThreshold | None
    labels: int

    @property
    def refits(self) -> bool:
        """Whether the fitted threshold agrees better with labels that it has not seen."""
        if self.fitted is None or self.fitted.kappa is None:
            return False
        return self.kappa is None or self.fitted.kappa.value > self.kappa.value + EPSILON

    def sentences(self) -> tuple[str, ...]:
        """The verdict in plain words."""
        lines: list[str] = []
        if self.fitted is None:
            lines.append("no threshold to fit: its values or the labels do not vary enough")
        else:
            share, better = self.fitted.accuracy, "better" if self.refits else "no better"
            lines.append(
                f"fitted threshold {self.fitted.threshold:.3g}: agrees with {share.count} of "
                f"{share.of} labels that it was not fitted on ({share}), kappa "
                f"{self.fitted.kappa or 'undefined'}: {better}"
            )
        return (*lines, f"trust it here: {self.trust.value}, {self._reason()}")

    def _reason(self) -> str:
        used = self.fitted.kappa if self.refits and self.fitted else self.kappa
        at = " with the fitted threshold" if self.refits else ""
        if used is None:
            return "since all labels are the same"
        if self.trust is Trust.YES:
            return f"kappa is at least {used.low:.2f}{at}, and {_TRUSTED:.2f} is asked for"
        if self.trust is Trust.NO:
            return f"kappa is at most {used.high:.2f}{at}, and {_TRUSTED:.2f} is asked for"
        return f"kappa is anywhere from {used.low:.2f} to {used.high:.2f}{at}: {self._more(used)}"

    def _more(self, used: Kappa) -> str:
        """How many labels would settle it: intervals shrink with the root of their number."""
        apart = abs(used.value - _TRUSTED)
        reach = used.value - used.low if used.value > _TRUSTED else used.high - used.value
        needed = math.ceil(self.labels * (reach / apart) ** 2) if apart > 0.05 else 0
        return f"about {needed:,} labels would tell" if needed else "label more cases"


def judge_verdict(items: Sequence[Labelled], groups: Sequence[int]) -> JudgeVerdict:
    """Compare a judge with labels; items of one group are never fitted and predicted apart."""
    places = [place for place, item in enumerate(items) if item.value is not None]
    judged = [items[place] for place in places]
    varied = len({item.good() for item in judged}) > 1
    kappa = Kappa.of([(item.good(), item.accepted()) for item in judged]) if varied else None
    verdict = JudgeVerdict(
        trust=trust_in(kappa),
        kappa=kappa,
        fitted=_fitted(judged, [groups[place] for place in places]),
        labels=len(judged),
    )
    if verdict.fitted is None or not verdict.refits:
        return verdict
    return replace(verdict, trust=trust_in(verdict.fitted.kappa))


def _fitted(items: Sequence[Labelled], groups: Sequence[int]) -> FittedThreshold | None:
    threshold = best_threshold(items)
    parts = _parts(items, groups)
    # Of two values one is a pass and one a fail, whatever the threshold between them.
    if threshold is None or len(parts) < 2 or len({item.value for item in items}) < 3:
        return None
    pairs: list[tuple[bool, bool]] = []
    for part in parts:
        others = [items[place] for place in range(len(items)) if place not in part]
        bar = best_threshold(others)
        for place in sorted(part):
            item = items[place]
            passed = item.accepted() if bar is None else item.reaches(bar)
            pairs.append((item.good(), passed))
    accuracy = Share.of_counts(sum(one == other for one, other in pairs), len(pairs))
    assert accuracy is not None
    return FittedThreshold(
        threshold=threshold, parts=len(parts), accuracy=accuracy, kappa=Kappa.of(pairs)
    )


def best_threshold(items: Sequence[Labelled]) -> float | None:
    """The threshold with the highest kappa, then accuracy; None if nothing can be told apart."""
    values = sorted({item.value for item in items if item.value is not None})
    middles = [(low + high) / 2 for low, high in pairwise(values)]
    best: tuple[float, float, float] | None = None
    for middle in middles:
        pairs = [(item.good(), item.reaches(middle)) for item in items]
        kappa = Kappa.of(pairs)
        if kappa is None or len({good for good, _ in pairs}) < 2:
            continue
        # Of equals the one nearest to the usual bar.
        rank = (kappa.value, -abs(middle - _BAR), middle)
        best = rank if best is None else max(best, rank)
    return None if best is None or best[0] <= 0 else best[2]


def _parts(items: Sequence[Labelled], groups: Sequence[int]) -> list[set[int]]:
    """The places of the items in up to five parts, groups whole, good and bad ones spread."""
    members: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        members.setdefault(group, []).append(place)
    by_label = sorted(
        members.values(),
        key=lambda places: (sum(items[place].good() for place in places) / len(places), places),
    )
    parts: list[set[int]] = [set() for _ in range(min(_FOLDS, len(members)))]
    for number, places in enumerate(by_label):
        parts[number % len(parts)].update(places)
    return parts
