"""The headroom check and dead axes in words, for the live view and the report."""

import math
from collections.abc import Iterator, Mapping, Sequence

from burnish.core.codec import codec
from burnish.core.content import Json
from burnish.evaluation.datasets.power import smallest_difference
from burnish.reports.words import cell, counted, number, spending
from burnish.runs.events import Event
from burnish.strategies.coordinate.headroom import HEADROOM, Headroom

LABEL = 9
"""Columns of the word that a line begins with."""
_OUTLOOKS = {
    "nothing_to_gain": "nothing to gain: the loss on train is 0, so nothing is tried",
    "within_noise": "no gain can be told from noise: even a loss of 0 on train would not clear it; "
    "more cases or repeats would make it smaller",
}


def headroom_lines(data: Mapping[str, Json]) -> Iterator[str]:
    """What the baseline tells: the noise, what holdout can show, and what the search will cost."""
    found = headroom_in(data)
    yield f"noise    {noise_words(found)}"
    if found.holdout_cases:
        yield f"holdout  {shown_by(found.holdout_cases, _rate(found))}"
    if found.outlook:
        yield f"outlook  {_OUTLOOKS[found.outlook]}"
    if found.outlook != "nothing_to_gain":
        yield f"the run  {cost_words(found)}"


def headroom_in(data: Mapping[str, Json]) -> Headroom:
    """The check as its event tells it."""
    return codec(Headroom).decode({k: v for k, v in data.items() if k not in ("outlook", "bar")})


def noise_words(found: Headroom) -> str:
    """`±0.021 on train, ±0.034 on holdout over 3 repeats: a gain on train counts from …`."""
    if found.train_std is None or found.bar is None:
        return "not measured: repeats is 1"
    held = "" if found.holdout_std is None else f", ±{number(found.holdout_std)} on holdout"
    over = counted(found.repeats, "repeat")
    counts = f"from about {found.bar:.3f} on" if found.bar else "however small it is"
    return f"±{number(found.train_std)} on train{held} over {over}: a gain on train counts {counts}"


def shown_by(cases: int, pass_rate: float = 0.5) -> str:
    """The smallest change that so many cases can show."""
    least = smallest_difference(cases, pass_rate=pass_rate)
    if math.isinf(least):
        return f"no change of the pass rate can be told from chance with {counted(cases, 'case')}"
    one = f"one case of the holdout is {1 / cases:.3f} of the pass rate"
    return f"{one}; a change under {least:.2f} may go unnoticed"


def cost_words(found: Headroom) -> str:
    """What the whole search comes to, the baseline included, at what the baseline cost."""
    costs = found.costs
    least, most = (
        spending(spend, tokens=False) if found.measured else f"{counted(spend.calls, 'call')}"
        for spend in (costs.least, costs.most)
    )
    few, many = (counted(n, "trial") for n in (costs.least_trials, costs.most_trials))
    return f"about {least} if nothing helps ({few}), at most about {most} ({many})"


def dead_words(data: Mapping[str, Json]) -> str:
    """An axis that is left out of a phase, and why."""
    runs = data.get("runs")
    over = counted(runs, "measured run") if isinstance(runs, int) else "the measured runs"
    return (
        f"{data.get('axis')} is not tuned in this phase: its changes reach no request; "
        f"{over} would go on alike"
    )


def known_at_the_start(events: Sequence[Event]) -> Iterator[str]:
    """The bullets of the report: what the baseline told before the first trial."""
    told = next((event for event in events if event.kind == HEADROOM), None)
    if told is None:
        return
    found = headroom_in(told.data)
    yield f"- noise of the baseline: {noise_words(found)}"
    if found.holdout_cases:
        yield f"- what holdout can show: {shown_by(found.holdout_cases, _rate(found))}"
    if found.outlook:
        yield f"- outlook at the start: {_OUTLOOKS[found.outlook]}"
    if found.outlook != "nothing_to_gain":
        yield f"- expected at the start: {cost_words(found)}"


def dead_axes(events: Sequence[Event]) -> Iterator[str]:
    """The bullets of the report on axes that reached nothing, by when they were left out."""
    found: dict[str, list[str]] = {}
    for event in events:
        if event.kind == "dead_axis":
            found.setdefault(str(event.data.get("axis")), []).append(str(event.data.get("cycle")))
    for axis, cycles in found.items():
        yield (
            f"- **dead axis `{cell(axis, 100)}`** (cycle {', '.join(cycles)}): its changes reached "
            "no request in the measured runs that were gone over again, so it was not tuned there"
        )


def _rate(found: Headroom) -> float:
    return 0.5 if found.holdout_pass_rate is None else found.holdout_pass_rate
