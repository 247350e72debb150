"""Searches side by side where every call is paid for: 60, 150 and 300 calls, at equal total cost.

Calls of the agent and reflections share one budget: a reflection costs as much as three calls,
unless `--price` says otherwise; with `--price 0` the searches are compared at equal calls. With
`--tokens 45` the tokens of both are what is paid for, and 45 of them cost as much as a call. `make
bench PART=small` prints markdown, and `make bench PART=small-mipro` has MIPROv2 among the searches,
in the environment of DSPy. `ARGS="--tuning"` runs the worlds that the search was tuned on, `--draw
PHRASE` draws the seeds from a phrase, and `--save FILE` keeps every result: a run that was broken
off goes on, and only seeds that are complete are reported.
"""

import argparse
import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.page import add_option, made_with, show
from benchmarks.pools import searched
from benchmarks.search_report import mean_error, table
from benchmarks.small_searches import (
    BURNISH,
    GEPA,
    GEPA_MERGE,
    MINIBATCH,
    MIPRO,
    SYSTEMS,
    Result,
    Task,
)
from benchmarks.small_worlds import REPORT, TUNING
from burnish.core.content import stream
from burnish.strategies.reflective.attempts import ReflectiveSettings

BUDGETS = (60, 150, 300)
PRICE = 3.0
"""What a reflection costs, in calls of the agent: it reads several answers and writes a text."""
_RESAMPLES = 2_000
_TIED = 1e-9
_PASSED = ("seed", "trainset", "valset", "adapter", "stop_callbacks", "callbacks")
_OUTPUT = ("logger", "wandb", "mlflow", "run_dir", "track", "display", "pickle", "raise_on")


def main() -> None:
    """Make the searches, then print what came of them."""
    options = _options()
    paid = {"price": options.price, "tokens": options.tokens}
    tasks = [
        Task(system=system, world=world, seed=seed, budget=budget, **paid)
        for seed in options.seeds
        for budget in options.budget
        for world in options.world
        for system in options.system
    ]
    done = _saved(options.save) if options.save else {}
    left = [task for task in tasks if task not in done]
    for result in () if options.report_only else searched(Task.search, left, options.processes):
        done[result.task] = result
        if options.save:
            with options.save.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(asdict(result))}\n")
    whole = [seed for seed in options.seeds if all(t in done for t in tasks if t.seed == seed)]
    results = [done[task] for task in tasks if task.seed in whole]
    target = "small-mipro" if MIPRO in options.system else "small"
    show(target, report(results, made_with(target)), options)


def _saved(path: Path) -> dict[Task, Result]:
    """The results of a file, so that a run that was broken off goes on."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    results = [Result(task=Task(**row.pop("task")), **row) for row in rows]
    return {each.task: each for each in results}


def drawn(phrase: str, count: int) -> list[int]:
    """Seeds that nobody can have chosen: each is the start of a hash of the phrase."""
    hashes = (hashlib.sha256(f"{phrase} {n}".encode()).digest() for n in range(count))
    return [int.from_bytes(each[:4], "big") for each in hashes]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.small", description=__doc__)
    parser.add_argument("--seeds", type=int, default=30, help="searches of each kind")
    parser.add_argument("--draw", metavar="PHRASE", help="draw the seeds; otherwise 1, 2, 3 …")
    parser.add_argument("--price", type=float, default=PRICE, help="calls that a reflection costs")
    parser.add_argument("--tokens", type=int, default=0, help="pay tokens, so many for a call")
    parser.add_argument("--budget", type=int, action="append", help="60, 150 and 300 unless named")
    parser.add_argument("--tuning", action="store_true", help="the worlds to tune on")
    parser.add_argument("--world", action="append", choices=[*REPORT, *TUNING])
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="all that are here")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep each result, and go on")
    parser.add_argument("--report-only", action="store_true", help="of the seeds that are saved")
    add_option(parser)
    options = parser.parse_args()
    count = options.seeds
    options.seeds = drawn(options.draw, count) if options.draw else list(range(1, count + 1))
    options.budget = options.budget or list(BUDGETS)
    options.world = options.world or list(TUNING if options.tuning else REPORT)
    missing = [] if find_spec("dspy") else [MIPRO]
    options.system = options.system or [each for each in SYSTEMS if each not in missing]
    if MIPRO in options.system and missing and not options.report_only:
        parser.error(f"{MIPRO} needs DSPy: run `make bench PART=small-mipro`, with the same ARGS")
    return options


# -- The report -----------------------------------------------------------------------------------


def report(results: Sequence[Result], made: str) -> str:
    """Every table, with what its columns mean."""
    seeds = len({each.task.seed for each in results})
    budgets = dict.fromkeys(each.task.budget for each in results)
    systems = list(dict.fromkeys(each.task.system for each in results))
    others = [name for name in systems if name != BURNISH]
    prices = _prices(results[0].task)
    parts = [
        f"{made}: {seeds} seeds a row, {prices}, ± is one standard error.",
        *([_against(results, others)] if others and BURNISH in systems else []),
        *(_scores([e for e in results if e.task.budget == each], systems) for each in budgets),
        _spending(results, systems),
        _settings(systems),
    ]
    return "\n\n".join(parts)


def _prices(task: Task) -> str:
    if task.tokens:
        return f"{task.tokens} tokens of agent or reflector cost a call"
    return f"a reflection costs {task.price:g} calls" if task.price else "reflections cost nothing"


def _scores(results: Sequence[Result], systems: Sequence[str]) -> str:
    budget = results[0].task.budget
    rows = [
        [
            world,
            f"{fmean(each.start for each in group):.3f}",
            f"{fmean(each.best for each in group):.3f}",
            *(mean_error([e.truth for e in group if e.task.system == name]) for name in systems),
        ]
        for world, group in _by_world(results)
    ]
    lead = f"True score of what led when a budget of {budget} was used"
    return f"{lead}:\n\n{table(['world', 'start', 'best', *systems], rows)}"


def _against(results: Sequence[Result], others: Sequence[str]) -> str:
    """The differences from the other searches in all worlds, seed by seed."""
    head = ["budget", "less", "difference in all worlds", "won", "tied", "lost", "worlds lost"]
    rows: list[list[str]] = []
    for budget in dict.fromkeys(each.task.budget for each in results):
        here = [each for each in results if each.task.budget == budget]
        rows += [[str(budget), other, *_compared(here, other)] for other in others]
    lead = (
        f"**{BURNISH}** less each other search, seed by seed; the interval comes from drawing the "
        "seeds of each world again, and the last column has the difference from what the other "
        "one returned, which may have gone over the budget"
    )
    return f"{lead}:\n\n{table([*head, 'from what it returned'], rows)}"


def _compared(results: Sequence[Result], other: str) -> list[str]:
    pairs = {world: _pairs(group, other) for world, group in _by_world(results)}
    gaps = {
        world: [ours.truth - theirs.truth for ours, theirs in each] for world, each in pairs.items()
    }
    low, high = _interval(list(gaps.values()))
    every = [gap for each in gaps.values() for gap in each]
    won, lost = sum(gap > _TIED for gap in every), sum(gap < -_TIED for gap in every)
    behind = [world for world, each in gaps.items() if fmean(each) < -_TIED]
    over = [ours.returned - theirs.returned for each in pairs.values() for ours, theirs in each]
    return [
        f"**{fmean(every):+.3f}** (95 %: {low:+.3f} to {high:+.3f})",
        *(str(count) for count in (won, len(every) - won - lost, lost)),
        ", ".join(behind) or "–",
        mean_error(over, sign="+"),
    ]


def _interval(gaps: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Where the mean over all worlds lies when the seeds of each are drawn again."""
    rng = stream(0, "small report")
    means = sorted(
        fmean(fmean(rng.choices(each, k=len(each))) for each in gaps) for _ in range(_RESAMPLES)
    )
    return means[round(0.025 * (_RESAMPLES - 1))], means[round(0.975 * (_RESAMPLES - 1))]


def _pairs(results: Sequence[Result], other: str) -> list[tuple[Result, Result]]:
    """The search of burnish and the other one, for each seed."""
    theirs = {each.task.seed: each for each in results if each.task.system == other}
    return [(each, theirs[each.task.seed]) for each in results if each.task.system == BURNISH]


def _spending(results: Sequence[Result], systems: Sequence[str]) -> str:
    head = ["budget", "search", "calls", "reflections", "cost", "most", "tokens"]
    rows: list[list[str]] = []
    for budget in dict.fromkeys(each.task.budget for each in results):
        for name in systems:
            here = [e for e in results if (e.task.budget, e.task.system) == (budget, name)]
            means = [fmean(e.calls for e in here), fmean(e.reflections for e in here)]
            means += [fmean(e.cost for e in here), max(e.cost for e in here)]
            tokens = f"{fmean(e.tokens for e in here):,.0f}"
            rows.append([str(budget), name, *(f"{each:.1f}" for each in means), tokens])
    lead = (
        "What was used, as means over all worlds and seeds, and the most that any search cost; "
        "tokens are those that the agent and the reflector read and write, at four characters each"
    )
    return f"{lead}:\n\n{table(head, rows)}"


def _settings(systems: Sequence[str]) -> str:
    """Every setting of the searches; all are their defaults, apart from what is named."""
    lines: list[str] = []
    if BURNISH in systems:
        values = ReflectiveSettings().model_dump()
        lines.append(f"{BURNISH}: {_listed(values.items())}")
    if find_spec("gepa") and (GEPA in systems or GEPA_MERGE in systems):
        parameters = inspect.signature(import_module("gepa").optimize).parameters.values()
        skipped = (*_PASSED, *_OUTPUT)
        values = {
            each.name: each.default
            for each in parameters
            if not any(word in each.name for word in skipped) and each.default is not None
        }
        values |= {"reflection_minibatch_size": MINIBATCH, "use_merge": "false, or true"}
        lines.append(f"gepa 0.1.4: {_listed(values.items())}")
    if find_spec("dspy") and MIPRO in systems:
        mipro = import_module("benchmarks.small_mipro")
        values = {**mipro.SETTINGS, **mipro.COMPILE, "num_candidates": "by the budget"}
        lines.append(f"{MIPRO}: {_listed(values.items())}, the rest are its defaults")
    return "\n\n".join(["Settings:", *lines])


def _listed(values: Iterable[tuple[str, object]]) -> str:
    return ", ".join(f"`{name}` {json.dumps(value, default=str)}" for name, value in values)


def _by_world(results: Sequence[Result]) -> Iterator[tuple[str, list[Result]]]:
    for world in dict.fromkeys(each.task.world for each in results):
        yield world, [each for each in results if each.task.world == world]


if __name__ == "__main__":
    main()
