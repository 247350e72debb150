"""What the searches gave, as markdown."""

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median, stdev

from benchmarks.search_worlds import EARLY, ENOUGH, GEPA, TEST, Searched
from burnish.core.content import stream

SAME = 1e-12
"""Two scores no further apart are one: the arithmetic of the truth is exact but for rounding."""
RESAMPLES = 1_000


def report(found: Sequence[Searched], made: str) -> str:
    """Every table, with what its columns mean."""
    seeds = len({each.seed for each in found})
    parts = [
        f"{made}: {seeds} seeds a row, ± is one standard error.",
        _quality(found),
        _speed(found),
        _honesty(found),
        _cost(found),
        _verdicts(found),
    ]
    return "\n\n".join(part for part in parts if part)


def _quality(found: Sequence[Searched]) -> str:
    limit = max(each.limit for each in found)
    early = f"after {EARLY:,} calls"
    head = ["world", "start", "best", "search", early, f"returned ({limit:,} calls)"]
    rows = [
        [
            world,
            f"{fmean(each.steps[0].truth for each in group):.3f}",
            f"{fmean(each.best for each in group):.3f}",
            system,
            mean_error([each.truth_at(EARLY) for each in group]),
            mean_error([each.truth for each in group]),
        ]
        for world, system, group in _groups(found)
    ]
    told = "True score of the candidate that leads, over all cases that the world has"
    return f"{told}:\n\n{table(head, rows)}"


def _speed(found: Sequence[Searched]) -> str:
    head = ["world", "search", "got there", "calls", "calls used", "reflections"]
    rows = [
        [
            world,
            system,
            f"{fmean(each.calls_to_enough is not None for each in group):.0%}",
            mean_error([float(reached(each)) for each in group], places=0),
            f"{fmean(each.calls for each in group):,.0f}",
            f"{fmean(each.reflections for each in group):,.0f}",
        ]
        for world, system, group in _groups(found)
    ]
    return (
        f"Calls until a candidate leads that is worth {ENOUGH:.0%} of the best. A search that "
        "never gets there counts with the limit, which flatters the slower one:\n\n"
        + table(head, rows)
    )


def _honesty(found: Sequence[Searched]) -> str:
    head = ["world", "search", "into the pool", "no-ops among them", "no-ops among leaders"]
    head += ["claimed − true", "sealed gain − true gain", "truth in its interval"]
    rows = [
        [
            world,
            system,
            f"{fmean(len(each.accepts) for each in group):.1f}",
            _share([abs(a.gain) < SAME for each in group for a in each.accepts]),
            _share([abs(a.gain) < SAME for each in group for a in each.accepts if a.led]),
            mean_error([each.claimed - each.truth for each in group]),
            mean_error([each.sealed.gain - each.sealed.truth for each in group if each.sealed]),
            _share([each.sealed.holds for each in group if each.sealed]),
        ]
        for world, system, group in _groups(found)
    ]
    return (
        "What was accepted and what is claimed. A no-op is worth exactly what its parent is. "
        "*Claimed* is the score on holdout that the search reports for what it returns; the "
        f"sealed test is {TEST} cases, run once for the baseline and once for the best, with a "
        f"95 % interval of the gain:\n\n{table(head, rows)}"
    )


def _cost(found: Sequence[Searched]) -> str:
    systems = dict.fromkeys(each.system for each in found)
    rows = [
        [
            system,
            f"{median(_micros(found, system)):,.0f} µs",
            f"{min(_micros(found, system)):,.0f} µs",
        ]
        for system in systems
    ]
    return (
        "Wall time a metric call with an agent that answers at once (its own few microseconds "
        "included); burnish journals every call, gepa was given no folder to keep anything in:\n\n"
        + table(["search", "median", "least"], rows)
    )


def _micros(found: Sequence[Searched], system: str) -> list[float]:
    return [each.seconds / each.all_calls * 1e6 for each in found if each.system == system]


def _verdicts(found: Sequence[Searched]) -> str:
    """The goals, for each search that is not gepa."""
    others = [name for name in dict.fromkeys(each.system for each in found) if name != GEPA]
    if not any(each.system == GEPA for each in found):
        return ""
    return "\n".join(line for name in others for line in _verdict(found, name))


def _verdict(found: Sequence[Searched], system: str) -> Iterable[str]:
    worlds = list(dict.fromkeys(each.world for each in found))
    yield f"**{system}** against {GEPA}, seed by seed:\n"
    head = [
        "world",
        f"true score after {EARLY:,} calls",
        "true score returned",
        "times fewer calls",
    ]
    rows = [
        [
            world,
            mean_error(_differences(found, world, system, lambda s: s.truth_at(EARLY)), sign="+"),
            mean_error(_differences(found, world, system, lambda s: s.truth), sign="+"),
            f"{math.exp(_log_ratio(_pairs(found, world, system))):.2f}",
        ]
        for world in worlds
    ]
    low, high = _spread(found, worlds, system)
    whole = math.exp(fmean(_log_ratio(_pairs(found, world, system)) for world in worlds))
    told = f"**{whole:.2f}** (95 %: {low:.2f} to {high:.2f})"
    yield table(head, [*rows, ["geometric mean", "", "", told]]) + "\n"


def reached(searched: Searched) -> int:
    """Calls until it got there; all of them if it did not."""
    return min(searched.calls_to_enough or searched.limit, searched.limit)


def _pairs(found: Sequence[Searched], world: str, system: str) -> list[tuple[Searched, Searched]]:
    """gepa's search and the other's, for each seed."""
    here = [each for each in found if each.world == world]
    ours = {each.seed: each for each in here if each.system == system}
    return [(each, ours[each.seed]) for each in here if each.system == GEPA]


def _differences(
    found: Sequence[Searched], world: str, system: str, of: Callable[[Searched], float]
) -> list[float]:
    return [of(ours) - of(theirs) for theirs, ours in _pairs(found, world, system)]


def _log_ratio(pairs: Sequence[tuple[Searched, Searched]]) -> float:
    """How many times fewer calls ours needs on the mean, as a logarithm."""
    theirs, ours = fmean(reached(a) for a, _ in pairs), fmean(reached(b) for _, b in pairs)
    return math.log(theirs / ours)


def _spread(found: Sequence[Searched], worlds: Sequence[str], system: str) -> tuple[float, float]:
    """Where the geometric mean lies when seeds are drawn again."""
    rng = stream(0, "search report", system)
    pairs = [_pairs(found, world, system) for world in worlds]
    means = sorted(
        math.exp(fmean(_log_ratio(rng.choices(each, k=len(each))) for each in pairs))
        for _ in range(RESAMPLES)
    )
    return means[round(0.025 * (RESAMPLES - 1))], means[round(0.975 * (RESAMPLES - 1))]


def _groups(found: Sequence[Searched]) -> Iterable[tuple[str, str, list[Searched]]]:
    keys = dict.fromkeys((each.world, each.system) for each in found)
    for world, system in keys:
        yield world, system, [e for e in found if (e.world, e.system) == (world, system)]


def mean_error(values: Sequence[float], *, places: int = 3, sign: str = "") -> str:
    """The mean and its standard error."""
    if not values:
        return "–"
    error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return f"{fmean(values):{sign},.{places}f} ± {error:,.{places}f}"


def _share(values: Sequence[bool]) -> str:
    return f"{fmean(values):.0%}" if values else "–"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
