"""The headroom check after the baseline, and the expected cost of the search."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from burnish.core.cases import Dataset, Split
from burnish.core.content import Json
from burnish.core.false_accepts import FalseAccepts, NullRuns, false_accepts
from burnish.core.formatting import cell, counted, number, spending
from burnish.core.money import NOTHING, Spend, total
from burnish.core.protocols import Role
from burnish.core.surfaces import EPSILON
from burnish.datasets.checks import smallest_difference
from burnish.runs.events import Event, EventData, read_all
from burnish.runs.progress import asking, shown_by
from burnish.runs.run import Run
from burnish.strategies.coordinate.trials import CoordinateSettings, Incumbent


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The expected cost of one trial and of the whole run, including the baseline."""

    train: Spend
    """One candidate over train, as often as it is repeated."""
    holdout: Spend
    roles: Spend
    """A critic and an applier, once each."""
    sealed: Spend
    """Baseline and best after the search: in the sealed test, or measured again."""
    least_trials: int
    """When nothing helps: every phase of the first cycle runs out of patience."""
    most_trials: int
    least: Spend
    most: Spend


def expected(
    settings: CoordinateSettings,
    *,
    baseline: Spend,
    train: Spend,
    holdout: Spend,
    roles: Spend,
    sealed: Spend,
) -> Expected:
    """The whole search, by what its parts cost."""
    few = _trials_if_nothing_helps(settings)
    many = {name: settings.max_cycles * e.max_trials for name, e in settings.phases.items()}
    least, most = sum(few.values()), sum(many.values())
    always = holdout if settings.holdout_policy == "every_trial" else NOTHING
    start = baseline + sealed
    return Expected(
        train=train,
        holdout=holdout,
        roles=roles,
        sealed=sealed,
        least_trials=least,
        most_trials=most,
        least=start + (train + always).times(least) + roles.times(few.get("textual", 0)),
        most=start + (train + holdout).times(most) + roles.times(many.get("textual", 0)),
    )


def _trials_if_nothing_helps(settings: CoordinateSettings) -> dict[str, int]:
    """By phase, the trials of a run in which nothing is accepted."""
    return {name: min(e.patience, e.max_trials) for name, e in settings.phases.items()}


def accepted_by_luck(settings: CoordinateSettings, data: Dataset) -> FalseAccepts:
    """How often this run would accept edits that change nothing."""
    runs = NullRuns(
        train=len(data.train),
        holdout=len(data.holdout) if settings.uses_holdout else 0,
        repeats=settings.repeats,
        trials=sum(_trials_if_nothing_helps(settings).values()),
    )
    return false_accepts(runs, settings.accept_sigma)


_OUTLOOKS = {
    "nothing_to_gain": "nothing to gain: the loss on train is 0, so nothing is tried",
    "within_noise": "no gain can be told from noise: even a loss of 0 on train would be within it; "
    "use more cases or repeats to reduce it",
}


@dataclass(frozen=True, kw_only=True)
class Headroom(EventData):
    """How much there is to gain, how much of it can be seen, and what looking for it costs."""

    kinds: ClassVar[tuple[str, ...]] = ("headroom",)
    optional: ClassVar[frozenset[str]] = frozenset({"by_luck"})

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
    by_luck: FalseAccepts | None = None
    """How often edits that change nothing would be accepted; None in runs of an earlier burnish."""

    @property
    def bar(self) -> float | None:
        """The gain on train that counts, if the next candidate wavers as much as the baseline."""
        std = self.train_std
        return None if std is None else self.accept_sigma * math.sqrt(2) * std

    @property
    def outlook(self) -> str:
        """`nothing_to_gain`, `within_noise` where even a loss of 0 would not count, or empty."""
        if self.loss <= EPSILON:
            return "nothing_to_gain"
        clear = self.accept_sigma * (self.train_std or 0.0)
        return "within_noise" if self.loss < clear - EPSILON else ""

    def to_json(self) -> dict[str, Json]:
        """With what follows from it, for those who read the events."""
        return {**super().to_json(), "outlook": self.outlook, "bar": self.bar}


@dataclass(frozen=True, kw_only=True)
class DeadAxis(EventData):
    """An axis that is left out of a phase: its changes reach no request."""

    kinds: ClassVar[tuple[str, ...]] = ("dead_axis",)

    axis: str = ""
    cycle: int = 0
    phase: str = ""
    runs: int = 0
    """The measured runs that were checked."""

    @property
    def words(self) -> str:
        """The axis, and why it is left out."""
        return (
            f"{self.axis} is not tuned in this phase: its changes reach no request; "
            f"{counted(self.runs, 'measured run')} would be the same"
        )


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
        by_luck=accepted_by_luck(settings, run.dataset),
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
    last = run.deciding_split if run.confirmations.wanted else Split.TEST
    measured = 2 * run.setup.test_repeats * len(run.dataset.cases(last))
    return expected(
        settings,
        baseline=baseline,
        train=train,
        holdout=paid.get(Split.HOLDOUT, NOTHING),
        roles=asking(roles),
        sealed=Spend.of(round(amount * measured / ran) for amount in train.amounts),
    )


def headroom_lines(headroom: Headroom) -> Iterator[str]:
    """What the baseline shows: the noise, what holdout can show, and what the search will cost."""
    labels = {
        "noise": "noise",
        "luck": "by luck",
        "holdout": "holdout",
        "outlook": "outlook",
        "costs": "the run",
    }
    yield from (f"{labels[name]:<9}{words}" for name, words in _facts(headroom))


def _facts(headroom: Headroom) -> Iterator[tuple[str, str]]:
    yield "noise", _noise_words(headroom)
    if headroom.by_luck is not None and headroom.outlook != "nothing_to_gain":
        yield "luck", headroom.by_luck.words
    if cases := headroom.holdout_cases:
        rate = headroom.holdout_pass_rate
        yield "holdout", shown_by(cases, 0.5 if rate is None else rate)
    if headroom.outlook:
        yield "outlook", _OUTLOOKS[headroom.outlook]
    if headroom.outlook != "nothing_to_gain":
        yield "costs", _cost_words(headroom)


def _noise_words(headroom: Headroom) -> str:
    """`±0.021 on train, ±0.034 on holdout over 3 repeats: a gain on train counts from …`."""
    if headroom.train_std is None or headroom.bar is None:
        return "not measured: repeats is 1"
    held = "" if headroom.holdout_std is None else f", ±{number(headroom.holdout_std)} on holdout"
    over = counted(headroom.repeats, "repeat")
    counts = f"from about {headroom.bar:.3f} on" if headroom.bar else "however small it is"
    return (
        f"±{number(headroom.train_std)} on train{held} over {over}: a gain on train counts {counts}"
    )


def _cost_words(headroom: Headroom) -> str:
    costs = headroom.costs
    least, most = (
        spending(spend, tokens=False) if headroom.measured else f"{counted(spend.calls, 'call')}"
        for spend in (costs.least, costs.most)
    )
    few, many = (counted(n, "trial") for n in (costs.least_trials, costs.most_trials))
    return f"about {least} if nothing helps ({few}), at most about {most} ({many})"


def headroom_points(events: Sequence[Event]) -> Iterator[str]:
    """The points of the report about the headroom check."""
    labels = {
        "noise": "noise of the baseline",
        "luck": "accepts by luck",
        "holdout": "what holdout can show",
        "outlook": "outlook at the start",
        "costs": "expected at the start",
    }
    for headroom in islice(read_all(events, Headroom), 1):
        yield from (f"{labels[name]}: {words}" for name, words in _facts(headroom))


def dead_axes(events: Sequence[Event]) -> Iterator[str]:
    """The points of the report on axes that reached nothing, by when they were left out."""
    by_axis: dict[str, list[str]] = {}
    for dead in read_all(events, DeadAxis):
        by_axis.setdefault(dead.axis, []).append(str(dead.cycle))
    for axis, cycles in by_axis.items():
        yield (
            f"**dead axis `{cell(axis, 100)}`** (cycle {', '.join(cycles)}): its changes reached "
            "no request in the measured runs that were checked, so it was not tuned there"
        )
