"""Chains of killed and resumed processes, and what must hold of them."""

import json
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.core.content import codec
from burnish.core.money import Spend, total
from burnish.journal.journal import JournalReader
from burnish.testing import CallCounter
from tests.crash.nursery import ROOT, nursery
from tests.crash.worlds import WORLDS, World

CHILD = "tests.crash.child"
_IMPORTED = (
    *(CHILD, "optuna", "numpy.random", "pydantic_ai"),
    *("burnish.compat.promptiter.remote", "burnish.delegation.training.plugin"),
)
"""What the runs of the worlds import: each process would take up to three seconds for it."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How one process ended."""

    killed: bool
    told: dict[str, Any]
    errors: str
    code: int


@dataclass
class Chain:
    """One run, driven by one process after the other."""

    folder: Path
    name: str = "toy"
    """Of its world."""
    attempts: int = 0
    cuts: int = 0
    """How many processes did not come to their end."""
    kills: int = 0
    most_at_once: int = 0
    prepared: bool = False

    def prepare(self) -> None:
        """Make what the run starts from, once."""
        if not self.prepared:
            self.world.prepare(self.folder)
            self.prepared = True

    @property
    def world(self) -> World:
        return WORLDS[self.name]

    @property
    def run(self) -> Path:
        """The run's folder."""
        return self.world.run_in(self.folder)

    def attempt(self, *flags: str, concurrency: int = 4) -> Ended:
        """One process. Whatever was journaled before it must not be called by it."""
        self.prepare()
        known, before = self._journaled(), len(self.calls)
        # Two nurseries, each with a hash seed of its own: the order of a set decides nothing.
        done = nursery(self.attempts % 2, *_IMPORTED).run(
            f"from {CHILD} import main; main()",
            str(self.folder),
            f"--world={self.name}",
            f"--concurrency={concurrency}",
            *flags,
            cwd=ROOT,
            outputs=self.folder.parent,
            env={**os.environ, "BURNISH_HOME": str(self.folder.parent / "home")},
        )
        self.attempts += 1
        repeated = known.intersection(self.calls[before:])
        assert not repeated, f"paid again for what was journaled: {sorted(repeated)[:3]}"
        killed = done.code == -signal.SIGKILL
        self.kills += killed
        self.cuts += done.code != 0
        self.most_at_once = max(self.most_at_once, concurrency, self.world.at_once)
        told: dict[str, Any] = json.loads(done.out) if done.code == 0 else {}
        return Ended(killed=killed, told=told, errors=done.err, code=done.code)

    def until_it_ends(self, attempts: Iterable[tuple[str, ...]], *always: str) -> Ended:
        """Attempts with their flags, then one that nobody kills."""
        for flags in attempts:
            ended = self.attempt(*flags, *always)
            if not ended.killed:
                assert ended.code == 0, ended.errors
                return ended
        ended = self.attempt(*always)
        assert ended.code == 0, ended.errors
        return ended

    @property
    def calls(self) -> list[str]:
        """The calls that were started, by all processes, as the double itself counted them."""
        return CallCounter(path=self.folder.with_suffix(".calls")).calls()

    def check(self, ended: Ended, reference: "Chain", expected: Ended) -> None:
        """What must hold when a chain has ended."""
        ours, theirs = (self.world.story(chain.run) for chain in (self, reference))
        assert ours == theirs, "the ledger tells another story than the uninterrupted run's"
        assert ended.told["best"] == expected.told["best"]
        assert ended.told["code"] == expected.told["code"]
        assert ended.told["spent"] == expected.told["spent"]
        self.check_money(ended)

    def check_money(self, ended: Ended) -> None:
        """Spent is what the journal holds; billed bounds what was really called."""
        with JournalReader(self.run) as journal:
            rows = list(journal.effects())
            own = [next(iter(row.spends.values())) for row in journal.costs()]
            billed = journal.billed
        assert not [row for row in rows if row.state == "in flight"]
        assert len({row.key for row in rows}) == len(rows)
        spent = codec(Spend).decode(ended.told["spent"])
        assert spent == total(own)
        assert codec(Spend).decode(ended.told["billed"]) == billed
        called = len(self.calls)
        assert spent.calls <= called <= billed.calls <= called + self.most_at_once * self.cuts

    def _journaled(self) -> set[str]:
        """The calls the journal holds results of, spelled as the double counts them."""
        if not (self.run / "journal.db").exists():
            return set()
        found: set[str] = set()
        with JournalReader(self.run) as journal:
            for row in journal.effects():
                request = row.request
                if isinstance(request, dict) and "within" in request:
                    request = request["request"]  # the winner, measured again
                if row.state != "in flight" and row.kind == "run" and isinstance(request, dict):
                    found.add(f"run {request['candidate']} {request['name']} {row.draw}")
                if row.state != "in flight" and row.kind.startswith("role:"):
                    found.add(f"role {row.kind.removeprefix('role:')} {row.draw}")
        return found
