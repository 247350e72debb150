"""Whether what runs claim is true: null worlds, worlds with a known gain, and cheats.

`make bench PART=truth` prints markdown and ends with code 1 if a goal is missed. `ARGS` names
parts, or a smaller number of runs: `ARGS="null --strategy coordinate --runs 20"`.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from benchmarks.page import add_option, made_with, show
from benchmarks.truth.changing import RUNS as CHANGING_RUNS
from benchmarks.truth.changing import changing_plays, changing_table
from benchmarks.truth.cheats import Attempt, Cheat, all_cheats
from benchmarks.truth.plays import Play, Played, own_home, results
from benchmarks.truth.searches import SEARCHES
from benchmarks.truth.tables import (
    Table,
    cheat_table,
    gain_table,
    null_table,
    power_table,
    shift_table,
)
from benchmarks.truth.worlds import Effect

RUNS = 200
WORLDS: Mapping[str, tuple[Effect, Callable[[Sequence[Played]], Table]]] = {
    "null": ("null", null_table),
    "shift": ("shift", shift_table),
    "gain": ("gain", gain_table),
    "power": ("power", power_table),
}
PARTS = (*WORLDS, "cheats", "drift")
BASES = {"sealed": True, "fresh": False}
_DRIFT = "drift"
"""The part with a place of its own on the page: it can be renewed alone."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play everything, print the tables, and return 1 if a goal is missed."""
    arguments = _parsed(argv)
    tables = {part: _played(part, arguments) for part in arguments.parts}
    for block, alone in (("truth", False), ("truth drift", True)):
        own = [str(table) for part, table in tables.items() if (part == _DRIFT) is alone]
        if not own:
            continue
        show(block, "\n\n".join([f"{made_with('truth', argv)}:", *own]), arguments)
    return 0 if all(table.met for table in tables.values()) else 1


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.truth", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}: all")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each world")
    parser.add_argument("--strategy", action="append", choices=list(SEARCHES), help="all")
    parser.add_argument("--basis", action="append", choices=list(BASES), help="both")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    add_option(parser)
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    arguments.parts = arguments.parts or list(PARTS)
    arguments.strategy = arguments.strategy or list(SEARCHES)
    arguments.basis = arguments.basis or list(BASES)
    return arguments


def _played(part: str, arguments: argparse.Namespace) -> Table:
    if part == "cheats":
        return cheat_table(_attempts())
    if part == _DRIFT:
        runs, bases = min(arguments.runs, CHANGING_RUNS), [BASES[each] for each in arguments.basis]
        plays = changing_plays(runs=runs, bases=bases)
        return changing_table(list(results(plays, processes=arguments.processes)))
    effect, table = WORLDS[part]
    plays = [
        Play(strategy=strategy, effect=effect, sealed=BASES[basis], number=number)
        for strategy in arguments.strategy
        if effect in SEARCHES[strategy].world.EFFECTS
        for basis in arguments.basis
        for number in range(arguments.runs)
    ]
    return table(list(results(plays, processes=arguments.processes)))


def _attempts() -> list[tuple[Cheat, Attempt]]:
    """What became of each cheat, each played in a folder of its own."""
    attempts: list[tuple[Cheat, Attempt]] = []
    for cheat in all_cheats():
        with own_home() as folder:
            attempts.append((cheat, cheat.play(folder)))
    return attempts


if __name__ == "__main__":
    sys.exit(main())
