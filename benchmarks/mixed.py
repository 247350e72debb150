"""`auto` beside single strategies, where texts, numbers and demonstrations can all be changed.

An agent writes notes (tests/strategies/tuning_world.py): instructions state rules, demonstrations
teach the form, and two numbers decide how much gets lost. Worlds differ in what is missing at the
start. Calls of the agent and requests to roles share one budget, and a request costs as much as
three calls. The true score is the mean over 300 cases that no search sees. `make bench-mixed`
prints markdown.
"""

import argparse
import asyncio
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from tests.strategies import tuning_world
from tests.strategies.tuning_world import AXES, DEMOS, RULES, TEMPERATURE, TEXT, TOP_K, TuningWorld

from benchmarks.page import add_option, made_with, show
from benchmarks.pools import searched
from benchmarks.search_report import mean_error, table
from burnish.core.cases import Case, Outcome
from burnish.core.money import Spend, to_nano
from burnish.core.surfaces import Candidate, Demonstration, Value
from burnish.journal.limits import Budget
from burnish.journal.once import DirectEffects
from burnish.runs.driver import drive
from burnish.runs.plugins import TargetParts
from burnish.runs.setup import ProposerOffer, Setup, start
from burnish.strategies.auto.search import Auto
from burnish.strategies.coordinate.plugin import point_proposers
from burnish.strategies.coordinate.search import Coordinate
from burnish.strategies.coordinate.trials import CritiqueRequest, Edit, EditRequest, Gradient
from burnish.strategies.reflective.attempts import ReflectiveSettings
from burnish.strategies.reflective.reflection import (
    ROLE,
    Reflection,
    ReflectionProposer,
    ReflectRequest,
)
from burnish.strategies.reflective.search import Reflective
from burnish.testing.doubles import ScriptedRole, ScriptedTarget, luck

AUTO, REFLECTIVE, COORDINATE = "auto", "reflective", "coordinate"
BUDGETS = (150, 400)
PRICE = 3
"""What a request to a role costs, in calls of the agent."""
_CALL = to_nano(0.001)
_NEW_CASES, _NEW_DRAW = 300, 1_000_000
_BEST_NUMBERS = (0.35, 14)


@dataclass(frozen=True, kw_only=True)
class MixedWorld:
    """What an agent has at the start, and how rough its world is."""

    rules: int = 1
    """Rules that its instructions state, of four."""
    numbers: tuple[float, int] = (0.9, 3)
    demos: int = 0
    """Demonstrations; two show the forms of both topics."""
    noise: float = 0.05
    """How often something is lost by luck."""
    idle: float = 0.35
    """How often a rewrite only changes the wording."""


WORLDS: Mapping[str, MixedWorld] = {
    "everything": MixedWorld(),
    "rules": MixedWorld(numbers=_BEST_NUMBERS, demos=2),
    "numbers": MixedWorld(rules=4, demos=2),
    "demonstrations": MixedWorld(rules=4, numbers=_BEST_NUMBERS),
    "rules and numbers": MixedWorld(demos=2),
    "rules and demonstrations": MixedWorld(numbers=_BEST_NUMBERS),
    "everything, much noise": MixedWorld(noise=0.2),
    "everything, 70 % idle rewrites": MixedWorld(idle=0.7),
}
"""By what is missing at the start."""


@dataclass(frozen=True, kw_only=True)
class MixedSearch:
    """One search to be made."""

    system: str
    world: str
    seed: int
    budget: int

    def make(self) -> "MixedResult":
        """Make it."""
        place = Place.of(WORLDS[self.world], self.seed)
        best, spent = _searched(SYSTEMS[self.system](place, self.budget))
        return MixedResult(
            search=self,
            start=place.worth(place.target.baseline),
            best=place.worth(place.best),
            truth=place.worth(best),
            cost=spent.nano_usd / _CALL,
        )


@dataclass(frozen=True, kw_only=True)
class MixedResult:
    """What a search returned, and what it used."""

    search: MixedSearch
    start: float
    best: float
    """What the best values of the world are worth."""
    truth: float
    cost: float


@dataclass(frozen=True, kw_only=True)
class Place:
    """A world with its luck, its cases and its agent."""

    world: MixedWorld
    size: TuningWorld
    plain: Setup
    target: ScriptedTarget
    best: Candidate
    seed: int
    new: tuple[Case, ...]
    """Cases that no search sees."""

    @classmethod
    def of(cls, world: MixedWorld, seed: int) -> "Place":
        """The world as this seed draws it."""
        size = TuningWorld(train=12, holdout=12, test=_NEW_CASES, noise=world.noise, seed=seed)
        plain = tuning_world.setup(size)
        data = plain.dataset
        plain = replace(plain, dataset=replace(data, test=()), seed=seed)
        agent = replace(
            tuning_world.target(size),
            price=Spend(calls=1, nano_usd=_CALL),
            values=_values(data.train, rules=world.rules, numbers=world.numbers, demos=world.demos),
        )
        whole = _values(data.train, rules=len(RULES), numbers=_BEST_NUMBERS, demos=2)
        best = replace(agent.baseline, values=whole)
        return cls(
            world=world,
            size=size,
            plain=plain,
            target=agent,
            best=best,
            seed=seed,
            new=data.test,
        )

    def worth(self, candidate: Candidate) -> float:
        """The mean score over new cases."""
        return asyncio.run(self._worth(candidate))

    async def _worth(self, candidate: Candidate) -> float:
        (metric,) = self.plain.metrics
        scores: list[float] = []
        for case in self.new:
            answer: Outcome = self.target.respond(candidate, case, _NEW_DRAW)
            (score,) = await metric.score(case, answer, effects=DirectEffects())
            assert score.value is not None
            scores.append(score.value)
        return fmean(scores)

    def setup(self, strategy: Any, budget: int) -> Setup:
        """A run of a strategy."""
        limit = Budget(max_usd=budget * _CALL / 1e9)
        return replace(self.plain, target=self.target, strategy=strategy, budget=limit)

    def role(
        self, name: str, respond: Callable[[Any, int], Any], request: type[Any], answer: type[Any]
    ) -> ScriptedRole[Any, Any]:
        """A role whose requests cost what they cost here."""
        price = Spend(calls=1, nano_usd=PRICE * _CALL)
        return ScriptedRole(
            name=name, respond=respond, request_type=request, answer_type=answer, price=price
        )

    def is_idle(self, name: str, draw: int) -> bool:
        """Whether a rewrite only changes the wording."""
        return luck("idle", name, draw, self.seed) < self.world.idle


def _values(
    train: Sequence[Case], *, rules: int, numbers: tuple[float, int], demos: int
) -> dict[str, Value]:
    text = " ".join(("You write notes for {shop}.", *list(RULES.values())[:rules]))
    shown = [
        Demonstration(case=case.id, input=case.turns[0].input, output=case.expected or "")
        for case in train[:demos]
    ]
    return {TEXT: text, TEMPERATURE: numbers[0], TOP_K: numbers[1], DEMOS: tuple(shown)}


# -- The strategies -------------------------------------------------------------------------------


def _reflector(place: Place) -> ScriptedRole[ReflectRequest, Reflection]:
    def reflect(request: ReflectRequest, draw: int) -> Reflection:
        lacking = re.findall(r"the note lacks \[(\w+)\]", request.records)
        rules = [RULES[each] for each in lacking if each in RULES]
        new = [each for each in rules if each not in request.current_text]
        is_idle = not new or place.is_idle(f"reflector {request.records}", draw)
        line = f"Be kind ({draw})." if is_idle else new[0]
        return Reflection(diagnosis=line, new_text=f"{request.current_text} {line}")

    return place.role(ROLE, reflect, ReflectRequest, Reflection)


def _auto(place: Place, budget: int) -> Setup:
    role = _reflector(place)
    begin = partial(ReflectionProposer, reflector=role, fields=(TEXT,))
    texts = ProposerOffer(name="reflection", surfaces=(TEXT,), begin=begin, roles=(role,))
    metrics, data = tuple(place.plain.metrics), place.plain.dataset
    points = point_proposers(TargetParts(target=place.target, dataset=data, metrics=metrics))
    return place.setup(Auto(offers=(texts, *points)), budget)


def _reflective(place: Place, budget: int) -> Setup:
    strategy = Reflective(settings=ReflectiveSettings(), reflector=_reflector(place))
    return place.setup(strategy, budget)


def _coordinate(place: Place, budget: int) -> Setup:
    diagnose = tuning_world.critic(place.size).respond
    edit = tuning_world.applier(place.size).respond

    def apply(request: EditRequest, draw: int) -> Edit:
        if place.is_idle(f"applier {request.gradient}", draw):
            request = request.model_copy(update={"gradient": "no idea"})
            text = f"{request.current_text} Be kind ({draw})."
            return edit(request, draw).model_copy(update={"new_text": text})
        return edit(request, draw)

    critic = place.role("critic", diagnose, CritiqueRequest, Gradient)
    applier = place.role("applier", apply, EditRequest, Edit)
    return place.setup(Coordinate(settings=AXES, critic=critic, applier=applier), budget)


_Strategy: TypeAlias = Callable[[Place, int], Setup]
SYSTEMS: Mapping[str, _Strategy] = {
    AUTO: _auto,
    REFLECTIVE: _reflective,
    COORDINATE: _coordinate,
}


def _searched(setup: Setup) -> tuple[Candidate, Spend]:
    memory = Path("/dev/shm")  # where the machine has it: nobody needs these runs afterwards
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as home:
        os.environ["BURNISH_HOME"] = home
        return asyncio.run(_driven(setup, Path(home) / "run"))


async def _driven(setup: Setup, folder: Path) -> tuple[Candidate, Spend]:
    run = start(setup, folder=folder)
    try:
        ending = await drive(run)
    finally:
        await run.close()
    return ending.best, ending.spent


# -- The report -----------------------------------------------------------------------------------


def report(results: Sequence[MixedResult], made: str) -> str:
    """A table for each budget."""
    seeds = len({each.search.seed for each in results})
    lead = f"{made}: {seeds} seeds a row, a request to a role costs {PRICE} calls, "
    budgets = dict.fromkeys(each.search.budget for each in results)
    tables = [_scores([e for e in results if e.search.budget == each]) for each in budgets]
    return "\n\n".join((f"{lead}± is one standard error.", *tables))


def _scores(results: Sequence[MixedResult]) -> str:
    systems = list(dict.fromkeys(each.search.system for each in results))
    head = ["missing at the start", "start", "best", *systems, "auto / best single"]
    rows: list[list[str]] = []
    for world in dict.fromkeys(each.search.world for each in results):
        here = [each for each in results if each.search.world == world]
        rows.append([world, *_row(here, systems)])
    rows.append(["**all**", *_row(results, systems)])
    budget = results[0].search.budget
    return f"True score of what was returned, budget {budget}:\n\n{table(head, rows)}"


def _row(results: Sequence[MixedResult], systems: Iterable[str]) -> list[str]:
    truths = {name: [e.truth for e in results if e.search.system == name] for name in systems}
    single = max(fmean(values) for name, values in truths.items() if name != AUTO)
    return [
        f"{fmean(each.start for each in results):.3f}",
        f"{fmean(each.best for each in results):.3f}",
        *(mean_error(values) for values in truths.values()),
        f"{fmean(truths[AUTO]) / single:.2f}",
    ]


def main() -> None:
    """Make the searches, then print what came of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--budget", type=int, action="append", help="150 and 400 unless named")
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="all unless named")
    parser.add_argument("--processes", type=int, default=2)
    add_option(parser)
    options = parser.parse_args()
    searches = [
        MixedSearch(system=system, world=world, seed=seed, budget=budget)
        for budget in options.budget or BUDGETS
        for world in options.world or WORLDS
        for seed in range(options.first_seed, options.first_seed + options.seeds)
        for system in SYSTEMS
    ]
    results = list(searched(MixedSearch.make, searches, options.processes))
    show("bench-mixed", report(results, made_with("bench-mixed")), options)


if __name__ == "__main__":
    main()
