"""Searches side by side: gepa 0.1.4, burnish's classic loop, and burnish with all it has.

Same scripted worlds, same agent, same reflection, same number of metric calls; the truth is
known, so nothing has to be believed. `make bench PART=search` prints markdown: `ARGS="--seeds 50"`.
"""

import argparse
import sys
from dataclasses import dataclass
from importlib.util import find_spec

from benchmarks import search_burnish, search_gepa
from benchmarks.page import add_option, made_with, show
from benchmarks.pools import searched
from benchmarks.search_report import report
from benchmarks.search_worlds import CALLS, GEPA, WORLDS, Searched

SYSTEMS = (GEPA, *search_burnish.SYSTEMS)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One search to be made."""

    system: str
    world: str
    seed: int
    calls: int

    def made(self) -> Searched:
        """Make it."""
        if self.system == GEPA:
            return search_gepa.search(self.world, self.seed, calls=self.calls)
        return search_burnish.search(self.system, self.world, self.seed, calls=self.calls)


def main() -> None:
    """Make the searches, then print what came of them."""
    asked = _asked()
    if GEPA in asked.system and find_spec("gepa") is None:
        sys.exit("gepa is not installed here; `make bench PART=search` installs gepa==0.1.4")
    wanted = [
        Wanted(system=system, world=world, seed=seed, calls=asked.calls)
        for world in asked.world
        for seed in range(asked.first_seed, asked.first_seed + asked.seeds)
        for system in asked.system
    ]
    found = list(searched(Wanted.made, wanted, asked.processes))
    show("search", report(found, made_with("search")), asked)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__)
    parser.add_argument("--seeds", type=int, default=30, help="searches of each kind")
    parser.add_argument("--first-seed", type=int, default=1, help="others than were tuned on")
    parser.add_argument("--calls", type=int, default=CALLS, help="metric calls of a search")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="all unless named")
    parser.add_argument("--system", action="append", choices=SYSTEMS, help="all unless named")
    add_option(parser)
    asked = parser.parse_args()
    asked.world, asked.system = asked.world or list(WORLDS), asked.system or list(SYSTEMS)
    return asked


if __name__ == "__main__":
    main()
