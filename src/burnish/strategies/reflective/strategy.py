"""The strategy `reflective`: rewrite a text from what failed, keep what is best at something.

    pool = [baseline, measured on holdout]
    until there is a reason to stop:
        parent = one of the frontier; minibatch = a few train cases
        candidate = the parent with a text rewritten by a reflector who saw the minibatch
        does it beat its parent on the minibatch?  does it beat the incumbent on holdout?

This is GEPA. The classic loop runs every candidate that passes its minibatch over the whole
holdout and keeps it in the pool. By default the search follows a trail instead: what beats its
parent on a minibatch is built on at once, and holdout is asked about the tip now and then, in a
race that ends when the verdict is clear; a winner is run twice before it leads. Most gains are
too small to be seen one by one on a holdout that anyone can pay for; a few of them together are
not, and an edit that does nothing does no harm on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.core.cases import Dataset, Split
from burnish.core.content import short_id
from burnish.core.decisions import MAX_MISSING
from burnish.core.errors import ConfigError, Problem
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import TextSurface
from burnish.core.trials import SplitResult, Trial
from burnish.runs.events import SearchEnded
from burnish.runs.requirements import GIVE_UP_AFTER, require_baseline
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.reflective.memory import Memory
from burnish.strategies.reflective.pool import Pool
from burnish.strategies.reflective.proposing import Proposer
from burnish.strategies.reflective.racing import Holdout, Stopped
from burnish.strategies.reflective.rounds import Rounds
from burnish.strategies.reflective.settings import ReflectiveSettings
from burnish.strategies.reflective.wording import Reflection, ReflectRequest

VERSION = 1
IDLE_ROUNDS = 12
"""Rounds in a row without a candidate to run, after which nothing more is to be had: so many,
or two passes over train where that is more."""


@dataclass(frozen=True, kw_only=True)
class Reflective:
    """Reflective search over the texts of a target."""

    reflector: Role[ReflectRequest, Reflection]
    settings: ReflectiveSettings = field(default_factory=ReflectiveSettings)
    name: str = "reflective"

    @property
    def fingerprint(self) -> str:
        """A hash of the settings."""
        return short_id([VERSION, self.settings.model_dump()])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """The reflector."""
        return [self.reflector]

    def fields(self, target: Target) -> list[str]:
        """The texts to rewrite."""
        texts = [s.id for s in target.surfaces if isinstance(s, TextSurface)]
        return [name for name in texts if name in self.settings.fields or not self.settings.fields]

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """There must be texts, and those that are named; each within its own bounds."""
        known = {s.id: s for s in target.surfaces if isinstance(s, TextSurface)}
        problems = [
            Problem(where=name, message="there is no such text surface")
            for name in self.settings.fields
            if name not in known
        ]
        if not known:
            problems.append(Problem(message="there is no text to rewrite"))
        values = target.baseline.values
        found = (known[name].problems(values[name]) for name in self.fields(target))
        return [*problems, *(problem for each in found for problem in each)]

    async def search(self, run: Run) -> None:
        """Measure the baseline, then make rounds until there is a reason to stop."""
        require_splits(run.dataset)
        memory = Memory(objective=run.objective)
        holdout = Holdout(run, self.settings)
        proposer = Proposer(run, self.settings, self.reflector, memory)
        pool = Pool(run.objective, self.settings.frontier)
        rounds = Rounds(
            run,
            self.settings,
            fields=self.fields(run.target),
            pool=pool,
            proposer=proposer,
            holdout=holdout,
            memory=memory,
        )
        need = run.estimate(Split.HOLDOUT, repeats=self.settings.repeats)
        if run.stop_reason(need) is not None:
            return
        await _baseline(run, pool, holdout)
        ended = ""
        try:
            while not ended and run.stop_reason(rounds.need) is None:
                await rounds.next()
                run.answering.require(self.reflector.name, after=GIVE_UP_AFTER)
                ended = _ended(rounds, proposer)
                if ended and await rounds.finish():
                    ended = ""
        except Stopped:
            return
        if ended:
            over = SearchEnded(cycle=rounds.number, reason=ended)
            run.tell(over, f"round:{rounds.number}:{ended}")


def require_splits(dataset: Dataset) -> None:
    """Reflection needs cases to learn from and others to decide on."""
    wanted = {"train": dataset.train, "holdout": dataset.holdout}
    problems = [
        Problem(where=name, message="reflective search needs cases here")
        for name, cases in wanted.items()
        if not cases
    ]
    if problems:
        raise ConfigError(problems)


def least_metric_calls(dataset: Dataset, settings: ReflectiveSettings) -> int:
    """The runs of cases that it takes to measure the baseline and finish one round."""
    looks = 2 * min(settings.minibatch, len(dataset.train)) * settings.proposals_per_round
    raced = 1 if settings.parent_selection == "trail" else settings.proposals_per_round
    runs = raced * (2 if settings.racing else 1)
    return settings.repeats * (len(dataset.holdout) * (1 + runs) + looks)


def budget_floor(dataset: Dataset, settings: ReflectiveSettings, *, test_repeats: int) -> int:
    """The metric calls that it takes to finish one round, the sealed test set aside."""
    sealed = 2 * len(dataset.test) * test_repeats
    return least_metric_calls(dataset, settings) + sealed


async def _baseline(run: Run, pool: Pool, holdout: Holdout) -> None:
    """Measure where the search starts."""
    start = run.target.baseline
    found = await holdout.all(start)
    result = SplitResult.of(found, run.objective)
    run.record(Trial(candidate=start, phase=BASELINE, holdout=result))
    run.advance(start)
    pool.add(start, found, leads=True)
    require_baseline(found, objective=run.objective, max_missing=MAX_MISSING)


def _ended(rounds: Rounds, proposer: Proposer) -> str:
    """Why the search is over, though no limit is reached; empty when it is not."""
    if proposer.failures >= IDLE_ROUNDS:
        return "reflector_failed"
    if rounds.learned_all:
        return "no_failures"
    return "nothing_new" if rounds.idle >= max(IDLE_ROUNDS, rounds.two_passes) else ""
