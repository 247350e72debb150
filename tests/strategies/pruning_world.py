"""A world with known effects: a search that accepts what it is told to, then prunes.

A case passes with a chance that depends on the rules in the prompt alone, so what each rule is
worth is known. Whether it really passes is luck, or not even that.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import short_id
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation, Objective
from burnish.core.gates import OfferRule
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Origin, TextSurface
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.journal.limits import Budget
from burnish.runs.directory import RunRecord
from burnish.runs.driver import Ending, drive
from burnish.runs.events import BASELINE, PRUNE
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.strategies.pruning import Pruner, Winner
from burnish.testing import CallCounter, ExpectedText, ScriptedTarget
from burnish.testing.doubles import luck

START = "You answer questions."
TOLD = Decision(gate="told", verdict=Verdict.ACCEPT, code="better", reason="as told")
SPLITS = (Split.TRAIN, Split.HOLDOUT)


@dataclass(frozen=True, kw_only=True)
class Effects:
    """What each rule adds to the chance that a case passes."""

    rules: Mapping[str, float]
    base: float = 0.2
    noisy: bool = True
    seed: int = 1

    def chance(self, candidate: Candidate) -> float:
        text = str(candidate.values["prompt"])
        return self.base + sum(worth for rule, worth in self.rules.items() if rule in text)

    def respond(self, candidate: Candidate, case: Case, draw: int) -> str:
        names = (candidate.id, draw) if self.noisy else ()
        return "right" if luck(self.seed, case.id, *names) < self.chance(candidate) else "wrong"


@dataclass(frozen=True, kw_only=True)
class Told:
    """A search that accepts one rule a trial, whatever it measures, and prunes in the end."""

    rules: Sequence[str]
    rule: OfferRule = field(default_factory=lambda: OfferRule(splits=SPLITS))
    repeats: int = 3
    prune: bool = True
    name: str = "told"

    @property
    def fingerprint(self) -> str:
        return short_id([*self.rules, self.repeats])

    @property
    def offer_rule(self) -> OfferRule:
        return self.rule

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        del target
        return ()

    async def search(self, run: Run) -> None:
        pruner = Pruner(run, by=self.name, rule=self.rule, repeats=self.repeats, active=self.prune)
        leader = await self._accepted(run, run.target.baseline, 0)
        number, search_on = 0, True
        while search_on:
            while number < len(self.rules) and run.stop_reason(self._need(run)) is None:
                number += 1
                text = f"{leader.candidate.values['prompt']}\n{self.rules[number - 1]}"
                made = leader.candidate.child({"prompt": text}, origin=Origin(by=self.name))
                leader = await self._accepted(run, made, number)
            pruned = await pruner.prune(leader, cycle=number)
            leader, search_on = pruned.leader, pruned.search_on

    def _need(self, run: Run) -> Any:
        train, holdout = (run.estimate(split, repeats=self.repeats) for split in SPLITS)
        return train + holdout

    async def _accepted(self, run: Run, candidate: Candidate, cycle: int) -> Winner:
        sides: list[Evaluation] = [
            await run.evaluate(candidate, split=split, repeats=self.repeats) for split in SPLITS
        ]
        train, holdout = (SplitResult.of(side, run.objective) for side in sides)
        phase, decision = ("told", TOLD) if cycle else (BASELINE, None)
        trial = Trial(
            candidate=candidate,
            phase=phase,
            cycle=cycle,
            train=train,
            holdout=holdout,
            decision=decision,
        )
        run.record(trial)
        run.advance(candidate)
        return Winner.of(candidate, *sides)


def setup(
    effects: Effects,
    strategy: Told | None = None,
    *,
    cases: int = 20,
    test: int = 0,
    budget: Budget | None = None,
    counter: CallCounter | None = None,
) -> Setup:
    """A run in this world."""
    every = tuple(
        Case.single(f"question {n}", "right", name=f"q{n:03d}") for n in range(2 * cases + test)
    )
    return Setup(
        wait_minutes=0,  # who is away stays away
        target=ScriptedTarget(
            respond=effects.respond,
            surfaces=(TextSurface(id="prompt"),),
            values={"prompt": START},
            counter=counter,
        ),
        metrics=(ExpectedText(),),
        objective=Objective(weights={"expected_text": 1.0}),
        dataset=Dataset(
            train=every[:cases], holdout=every[cases : 2 * cases], test=every[2 * cases :]
        ),
        strategy=strategy or Told(rules=tuple(effects.rules)),
        budget=budget or Budget(),
    )


async def _driven(made: Setup, folder: Path, *, again: bool) -> Ending:
    run = resume(made, folder) if again else start(made, folder=folder)
    try:
        return await drive(run)
    finally:
        await run.close()


def made(setup: Setup, folder: Path, *, again: bool = False) -> tuple[Ending, RunRecord]:
    """The run, or its resume, to the end."""
    return asyncio.run(_driven(setup, folder, again=again)), RunRecord.read(folder)


def rules_of(ending: Ending) -> list[str]:
    """The rules that are left."""
    return str(ending.best.values["prompt"]).split("\n")[1:]


def pruned(record: RunRecord) -> list[tuple[str, bool]]:
    """What was tried to be taken out, and whether it left."""
    rows = [row.trial for row in record.rows if row.trial.phase == PRUNE]
    return [(str(trial.details["part"]).strip("“”"), trial.accepted) for trial in rows]
