"""The trail: build on whatever did better than its parent, and ask holdout now and then."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from burnish.core.candidates import Candidate
from burnish.core.cases import Split
from burnish.core.comparisons import Pair, compare
from burnish.core.decisions import Verdict
from burnish.core.money import Spend
from burnish.core.objectives import Objective
from burnish.core.stopping import Standing
from burnish.effects.budget import Budget
from burnish.runs.run import Run
from burnish.strategies.reflective.attempts import MERGE, OUTDONE, Attempt
from burnish.strategies.reflective.pool import Pool
from burnish.strategies.reflective.settings import ReflectiveSettings


@dataclass(frozen=True, kw_only=True)
class LastChance:
    """Whether the limits leave no room for another round, as the journal keeps it."""

    now: bool


class Trail:
    """Where the search stands; without a trail, wherever the selection says."""

    def __init__(self, run: Run, settings: ReflectiveSettings, pool: Pool) -> None:
        self._run = run
        self._settings = settings
        self._pool = pool
        self._tip: Candidate | None = None
        """None where the tip is the incumbent."""
        self._asked = 0
        """Metric calls that were spent when holdout was last asked."""
        self._undecided: Attempt | None = None
        """The attempt that made the tip, while holdout was not asked about it."""

    @property
    def waiting(self) -> bool:
        """Whether holdout was never asked about the tip."""
        return self._undecided is not None

    @property
    def followed_here(self) -> bool:
        """Whether there is a trail."""
        return self._settings.parent_selection == "trail"

    def parent(self, rng: random.Random) -> Candidate:
        """Whom to build on."""
        if self.followed_here and self._tip is not None:
            return self._tip
        return self._pool.parent(self._settings.parent_selection, rng).candidate

    async def followed(
        self, attempts: Sequence[Attempt], room: Spend, *, asks: int
    ) -> list[Attempt]:
        """The attempts, of which the best is the next tip; holdout is asked if that is due.

        Asking costs as much as was spent since it was asked before: so at most half of the
        budget goes into deciding. Where it may be the last chance, it is asked at once.
        """
        passed = [each for each in attempts if not each.over]
        if not self.followed_here or not passed:
            return list(attempts)
        best = max(passed, key=lambda each: _gain(each, self._run.objective))
        whole = self._run.estimate(Split.HOLDOUT, repeats=self._settings.repeats).metric_calls
        due = self._spent - self._asked >= whole
        due = due or await self.last_chance(room, asks=asks, screened=True)
        return [
            each if each.over else (_next(each, due=due) if each is best else _outdone(each))
            for each in attempts
        ]

    def attempt(self, number: int) -> Attempt:
        """The tip as an attempt of its own, to be decided on holdout."""
        made = self._undecided
        assert made is not None
        return Attempt(
            kind=made.kind,
            round=number,
            parents=made.parents,
            fields=made.fields,
            candidate=made.candidate,
        )

    def settled(self, attempt: Attempt) -> None:
        """Go on from here."""
        candidate, heat = attempt.candidate, attempt.heat
        if not self.followed_here or candidate is None or attempt.problems:
            return
        leads = attempt.decision is not None and attempt.decision.accepted
        if heat is not None and (leads or attempt.kind != MERGE):
            self._asked, self._undecided = self._spent, None
            # A tip that is far behind was luck on the minibatches; one that is not may get there.
            self._tip = None if leads or heat.behind else candidate
        elif heat is None and attempt.kept:
            self._tip, self._undecided = candidate, attempt

    async def last_chance(self, room: Spend, *, asks: int, screened: bool = False) -> bool:
        """Whether the limits leave no room for another round and for holdout after it.

        `room` is what these cost, `asks` how often the reflector is asked in a round; `screened`
        says that the round under way is paid for. The answer is kept in the journal: a resume
        with other limits does not rewrite what was done. A fork has limits of its own, and does
        not take it from the run before.
        """
        run = self._run
        count = self._settings.proposals_per_round
        found = await run.remember(
            "last chance",
            {
                "trial": run.trial,
                "screened": screened,
                "forked_from": run.directory.header.forked_from,
            },
            LastChance,
            lambda: LastChance(
                now=nearly_over(
                    run.budget, run.standing, room + run.reserve, trials=count, proposals=asks
                )
            ),
        )
        return found.now

    @property
    def _spent(self) -> int:
        return self._run.spent.metric_calls


def nearly_over(
    budget: Budget, standing: Standing, need: Spend, *, trials: int = 1, proposals: int = 1
) -> bool:
    """Whether a limit that can be foreseen would be reached by one more round.

    Of a round's candidates one is built on at most.
    """
    counts = (
        (budget.max_trials, standing.trials + trials),
        (budget.patience, standing.since_accept + trials),
        (budget.max_proposals, standing.proposals + proposals),
        (budget.max_tracked_candidates, standing.tracked_candidates + 1),
    )
    near = any(limit is not None and count >= limit for limit, count in counts)
    return near or budget.spend_limit(standing.spent, need) is not None


def _next(attempt: Attempt, *, due: bool) -> Attempt:
    assert attempt.decision is not None
    if due:
        return attempt
    kept = replace(attempt.decision, verdict=Verdict.KEEP, code="kept")
    return replace(attempt, decision=kept)


def _outdone(attempt: Attempt) -> Attempt:
    assert attempt.decision is not None
    told = f"{attempt.decision.reason}, but another proposal of the round did better"
    outdone = replace(attempt.decision, verdict=Verdict.REJECT, code=OUTDONE, reason=told)
    return replace(attempt, decision=outdone)


def _gain(attempt: Attempt, objective: Objective) -> float:
    """How much better than its parent an attempt did on its minibatch."""
    assert attempt.after is not None
    assert attempt.before is not None
    pair = Pair(candidate=attempt.after, incumbent=attempt.before)
    return compare(pair, objective, max_missing=1.0).gain
