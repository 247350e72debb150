"""How far people agree on labels, and whether a judge, as one more of them, can be trusted."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations, pairwise

from burnish.metrics.agreement import Labelled, Share
from burnish.metrics.turns import EPSILON

TRUSTED = 0.6
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
    if kappa is None or kappa.low < TRUSTED - EPSILON <= kappa.high:
        return Trust.UNCLEAR
    return Trust.YES if kappa.low >= TRUSTED - EPSILON else Trust.NO


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
            return f"kappa is at least {used.low:.2f}{at}, and {TRUSTED:.2f} is asked for"
        if self.trust is Trust.NO:
            return f"kappa is at most {used.high:.2f}{at}, and {TRUSTED:.2f} is asked for"
        return f"kappa is anywhere from {used.low:.2f} to {used.high:.2f}{at}: {self._more(used)}"

    def _more(self, used: Kappa) -> str:
        """How many labels would settle it: intervals shrink with the root of their number."""
        apart = abs(used.value - TRUSTED)
        reach = used.value - used.low if used.value > TRUSTED else used.high - used.value
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
