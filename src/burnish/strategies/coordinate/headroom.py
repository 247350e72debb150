"""The headroom check: what the measured baseline tells before anything more is spent."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnish.core.cases import Split
from burnish.core.codec import codec
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import EPSILON
from burnish.evaluation.datasets.power import smallest_difference
from burnish.runs.run import Run
from burnish.strategies.coordinate.costs import Expected, asking, expected
from burnish.strategies.coordinate.settings import CoordinateSettings
from burnish.strategies.coordinate.trying import Incumbent

HEADROOM = "headroom"
"""The kind of the event."""


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """How much there is to gain, how much of it can be seen, and what looking for it costs."""

    repeats: int
    accept_sigma: float
    loss: float
    """Of the baseline, on train: no gain is larger."""
    train_std: float | None
    """The spread over repeats: the noise floor. None where one repeat shows none."""
    holdout_std: float | None
    holdout_cases: int
    holdout_pass_rate: float | None
    least_shown: float | None
    """The smallest change of the holdout's pass rate that it would find; None where it has none."""
    costs: Expected
    measured: bool
    """Whether costs are what the baseline really cost; else they only count calls."""

    @property
    def bar(self) -> float | None:
        """The gain on train that counts, if the next candidate wavers as much as the baseline."""
        known = self.train_std
        return None if known is None else self.accept_sigma * math.sqrt(2) * known

    @property
    def outlook(self) -> str:
        """`nothing_to_gain`, `within_noise` where even a loss of 0 would not count, or empty."""
        if self.loss <= EPSILON:
            return "nothing_to_gain"
        clear = self.accept_sigma * (self.train_std or 0.0)
        return "within_noise" if self.loss < clear - EPSILON else ""


def headroom_of(
    run: Run, settings: CoordinateSettings, incumbent: Incumbent, costs: Expected
) -> Headroom:
    """What the measured baseline tells."""
    train = run.objective.measure(incumbent.train)
    held = None if incumbent.holdout is None else run.objective.measure(incumbent.holdout)
    cases, rate = (held.cases, held.pass_rate) if held else (0, None)
    least = smallest_difference(cases, pass_rate=0.5 if rate is None else rate)
    many = settings.repeats > 1
    return Headroom(
        repeats=settings.repeats,
        accept_sigma=settings.accept_sigma,
        loss=train.loss or 0.0,
        train_std=train.std if many else None,
        holdout_std=held.std if held and many else None,
        holdout_cases=cases,
        holdout_pass_rate=rate,
        least_shown=None if math.isinf(least) else least,
        costs=costs,
        measured=not run.forked,
    )


def costs_ahead(
    run: Run,
    settings: CoordinateSettings,
    roles: Sequence[Role[Any, Any]],
    paid: Mapping[Split, Spend],
) -> Expected:
    """What a trial really cost, as often as there may be trials; `paid` was for the baseline.

    What a run forked from another has not paid for tells nothing: there calls are estimated.
    """
    baseline = total(paid.values())
    if run.forked:
        paid = {split: run.estimate(split, repeats=settings.repeats) for split in paid}
    train = paid[Split.TRAIN]
    ran = settings.repeats * len(run.dataset.train)
    tested = 2 * run.setup.test_repeats * len(run.dataset.test)
    return expected(
        settings,
        baseline=baseline,
        train=train,
        holdout=paid.get(Split.HOLDOUT, NOTHING),
        roles=asking(roles),
        sealed=Spend.of(round(amount * tested / ran) for amount in train.amounts),
    )


def announce(run: Run, found: Headroom) -> None:
    """Say it, once."""
    told = codec(Headroom).encode(found)
    assert isinstance(told, dict)
    run.announce(HEADROOM, HEADROOM, {**told, "outlook": found.outlook, "bar": found.bar})
