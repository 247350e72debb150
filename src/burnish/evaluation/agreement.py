"""How far a judge agrees with labels that people gave: a judge nobody checked is not a metric."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from burnish.evaluation.judge_bias import (
    Labelled,
    LengthBias,
    PositionBias,
    length_bias,
    position_bias,
)
from burnish.evaluation.shares import Share
from burnish.evaluation.turn_metric import EPSILON

PASSES_AT = 0.5


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
    length: LengthBias
    position: PositionBias | None
    """None where the judge does not compare pairs."""

    def sentences(self) -> tuple[str, ...]:
        """What follows, in plain words."""
        if self.accuracy is None:
            return (f"the judge gave no verdict on any of {self.items} items: nothing to compare",)
        gone = f"the judge gave no verdict on {self.missing} of {self.items} items, left out here"
        told = [
            self._agrees(self.accuracy),
            self._against_guessing(),
            self._finds(),
            str(self.length),
        ]
        return (
            *([gone] if self.missing else []),
            *told,
            *([str(self.position)] if self.position else []),
        )

    def _agrees(self, accuracy: Share) -> str:
        told = f"agrees with {accuracy.count} of {accuracy.of} labels (accuracy {accuracy})"
        if self.kappa is None:
            return f"{told}; kappa cannot be had, since all labels are of one kind"
        return f"{told}, kappa {self.kappa:.2f}"

    def _against_guessing(self) -> str:
        found = self.confusion
        usual, times = ("good", found.good) if found.good >= found.bad else ("bad", found.bad)
        told = f"calling every reply {usual} would agree with {times}"
        verdict = "the judge does better" if found.agreed > times else "the judge does no better"
        return f"{told}: {verdict}"

    def _finds(self) -> str:
        found, recall, precision = self.confusion, self.fail_recall, self.fail_precision
        if recall is None:
            good = f"it turned down {found.turned_down} of {found.good} good replies"
            return f"no label says bad, so what it would miss is not known; {good}"
        told = f"of {recall.of} bad replies it turned down {recall.count} (recall {recall})"
        if precision is None:
            return f"{told}, and no good one either"
        of = f"of the {precision.of} it turned down, {precision.count} were bad"
        return f"{told}; {of} (precision {precision})"


def agreement(
    items: Sequence[Labelled], rng: random.Random, *, bar: float = PASSES_AT
) -> Agreement:
    """Compare a judge with labels. A number is a pass from `bar` on; `rng` deals out lengths."""
    judged = [item for item in items if item.value is not None]
    found = _confusion(judged, bar)
    return Agreement(
        items=len(items),
        missing=len(items) - len(judged),
        confusion=found,
        accuracy=Share.of_counts(found.agreed, found.total),
        kappa=cohens_kappa(found),
        fail_precision=Share.of_counts(found.both_fail, found.turned_down),
        fail_recall=Share.of_counts(found.both_fail, found.bad),
        length=length_bias(judged, rng),
        position=position_bias(judged),
    )


def cohens_kappa(found: Confusion) -> float | None:
    """Agreement beyond what chance would give.

    None where all labels are of one kind: whatever the judge said, it would be 0 or undefined.
    """
    if not found.good or not found.bad:
        return None
    n, passed = found.total, found.total - found.turned_down
    chance = (found.good * passed + found.bad * found.turned_down) / (n * n)
    return (found.agreed / n - chance) / (1 - chance)


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
