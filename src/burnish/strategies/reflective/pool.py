"""The pool: candidates that were measured on the whole holdout, and whom to build on next."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from burnish.core.candidates import Candidate
from burnish.core.evaluations import Evaluation
from burnish.core.objectives import Objective
from burnish.core.pairing import paired
from burnish.strategies.reflective.frontier import (
    Fronts,
    Standards,
    fronts_of,
    presence,
    standards,
    without_dominated,
)
from burnish.strategies.reflective.settings import FrontierType, ParentSelection

EPSILON_GREEDY = 0.1
"""How often `epsilon_greedy` takes anyone instead of the best."""
TOP_K = 5
"""Of how many of the frontier `top_k_pareto` takes one."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A candidate in the pool."""

    candidate: Candidate
    holdout: Evaluation
    score: float
    """On holdout; the lowest there is where nobody can tell."""
    compared: Evaluation
    """Holdout as others are held against it: where a metric applied to who led and does not apply
    any more, at its worst."""
    does: Standards


class Pool:
    """Candidates in the order in which they came; the first is the baseline."""

    def __init__(self, objective: Objective, frontier: FrontierType) -> None:
        self._objective = objective
        self._frontier: FrontierType = frontier
        self.members: list[Member] = []
        self.leader = 0
        """The number of the incumbent."""
        self._parents: dict[str, tuple[str, ...]] = {}
        """Of every candidate that was met, in the pool or not."""

    def add(self, candidate: Candidate, holdout: Evaluation, *, leads: bool) -> Member:
        """Take a candidate in."""
        compared = holdout
        if self.members:
            before = self.incumbent.holdout
            compared = paired(holdout, before, self._objective.weights).own_at(0.0)
        score = self._objective.measure(compared).score
        member = Member(
            candidate=candidate,
            holdout=holdout,
            score=0.0 if score is None else score,
            compared=compared,
            does=standards(compared, self._objective, self._frontier),
        )
        self.members.append(member)
        self.met(candidate)
        if leads:
            self.leader = len(self.members) - 1
        return member

    @property
    def incumbent(self) -> Member:
        """Who leads."""
        return self.members[self.leader]

    def parent(self, selection: ParentSelection, rng: random.Random) -> Member:
        """Whom to build on."""
        if selection in ("current_best", "trail"):
            return self.incumbent
        if selection == "epsilon_greedy":
            anyone = rng.random() < EPSILON_GREEDY
            return rng.choice(self.members) if anyone else self.incumbent
        counts = presence(self.frontier())
        numbers = sorted(counts)
        if selection == "top_k_pareto":
            numbers = sorted(numbers, key=lambda each: (-self.members[each].score, each))[:TOP_K]
        if not numbers:
            return self.incumbent
        chosen = rng.choices(numbers, weights=[counts[each] for each in numbers])[0]
        return self.members[chosen]

    def frontier(self) -> Fronts:
        """Who is best at what, the dominated left out."""
        fronts = fronts_of([member.does for member in self.members])
        return without_dominated(fronts, [member.score for member in self.members])

    def best_at_metrics(self) -> dict[str, list[int]]:
        """For each metric, the numbers of the candidates with the best mean."""
        objective = [
            standards(member.compared, self._objective, "objective") for member in self.members
        ]
        fronts = fronts_of(objective)
        return {
            metric: sorted(fronts.get(("metric", metric), frozenset()))
            for metric in self._objective.weights
        }

    def met(self, candidate: Candidate) -> None:
        """Remember where a candidate comes from: others may descend from it."""
        self._parents.setdefault(candidate.id, candidate.parents)

    def holds(self, candidate: Candidate) -> bool:
        """Whether a candidate is in the pool."""
        return any(each.candidate.id == candidate.id for each in self.members)

    def ancestors(self, member: Member) -> set[str]:
        """The ids of the members that a member descends from, whatever lies between."""
        found: set[str] = set()
        waiting = list(member.candidate.parents)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._parents.get(name, ())
        return found & {each.candidate.id for each in self.members}

    def named(self, name: str) -> Member:
        """The member with this candidate."""
        return next(each for each in self.members if each.candidate.id == name)


@dataclass(frozen=True)
class Lineage:
    """Two members and what they have in common."""

    ancestor: Member
    pair: Sequence[Member]

    @cached_property
    def better(self) -> Member:
        """The one with the higher score; the earlier at a tie."""
        return max(self.pair, key=lambda each: each.score)
