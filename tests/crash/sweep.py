"""A sweep over all strategies: runs that are cut at many points, each checked against a whole one.

    python -m tests.crash.sweep [--points N] [--world NAME …] [--seed S]

A point is one life of a process: it is killed at a call or at an operation on a file, stopped and
continued, or finds its disk full. Then the next one goes on. `make check PART=crash` runs it.
"""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from burnish.runs.directory import RunRecord
from tests.crash.chains import Chain, Ended
from tests.crash.worlds import STRATEGIES

POINTS = 1000
_FULL = ("FileTrouble", "disk I/O error", "disk is full")
"""What is said of a full disk; databases have words of their own for it."""
_LIVES = 12
"""How many points one run goes through at most, before it may come to its end."""


@dataclass
class Sweep:
    """The points of one world."""

    home: Path
    name: str
    seed: int = 0
    points: Counter[str] = field(default_factory=Counter[str])

    def run(self, points: int) -> None:
        """Cut runs until there were so many points; each must end as the whole one did."""
        reference = self._chain("whole")
        expected = reference.until_it_ends([])
        reference.check_money(expected)
        assert RunRecord.read(reference.run).accepted, "nothing is accepted in this world"
        calls = len(reference.calls)
        luck = random.Random(f"{self.seed} {self.name}")
        number = 0
        while self.points.total() < points:
            number += 1
            chain = self._chain(f"run-{number}")
            ended = self._cut(chain, luck, calls, points)
            chain.check(ended, reference, expected)

    def _chain(self, name: str) -> Chain:
        folder = self.home / self.name / name
        folder.mkdir(parents=True)
        return Chain(folder / "run", self.name)

    def _cut(self, chain: Chain, luck: random.Random, calls: int, points: int) -> Ended:
        """One run through several lives, then to its end."""
        for _ in range(min(_LIVES, points - self.points.total())):
            kind = luck.choice(("call", "call", "file", "file", "stop", "disk"))
            ended = chain.attempt(f"--{kind}={_place(kind, luck, calls)}")
            broken = kind == "disk" and ended.code == 1
            assert ended.code == 0 or ended.killed or broken, ended.errors
            if broken:
                assert any(each in ended.errors for each in _FULL), ended.errors
            if ended.code == 0 and kind != "stop":
                return ended  # it came to its end before the point
            self.points[kind] += 1
            if ended.code == 0:
                return ended
        ended = chain.attempt()
        assert ended.code == 0, ended.errors
        return ended


def _place(kind: str, luck: random.Random, calls: int) -> int:
    """Small numbers are more likely, so that a run has several lives."""
    share = luck.random() ** 2
    if kind == "file":
        return 1 + int(80 * share)
    if kind == "disk":
        return 4 + int(120 * share)
    return 1 + int(calls / 3 * share)


def main() -> None:
    """Sweep, and print what was cut."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=POINTS, help="for all worlds together")
    parser.add_argument("--world", nargs="*", choices=STRATEGIES, default=STRATEGIES)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    each = -(-options.points // len(options.world))
    sys.stdout.write(f"seed {options.seed}, {each} points for each world\n")
    for name in options.world:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="burnish-sweep-") as home:
            sweep = Sweep(Path(home), name, options.seed)
            sweep.run(each)
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(sweep.points.items()))
        sys.stdout.write(f"{name:<11} {kinds}: all ended alike, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
