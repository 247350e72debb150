"""A strategy of its own: change one surface at a time, keep what holds on holdout."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from burnish import (
    Candidate,
    ChoiceSurface,
    Evaluation,
    NumberSurface,
    Origin,
    Pair,
    Problem,
    Role,
    Run,
    Spend,
    Split,
    SplitResult,
    Target,
    Trial,
    improves_on_minibatch,
    min_gain,
)
from burnish.core.content import short_id
from burnish.core.surfaces import Surface, Value


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A candidate with its evaluations."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation


@dataclass(frozen=True, kw_only=True)
class OneByOne:
    """Goes over the surfaces in order and tries other values of each."""

    draws: int = 3
    """How many values of a number are tried."""
    name: str = "one by one"

    @property
    def fingerprint(self) -> str:
        """Settings and version; a resume is refused when they changed."""
        return short_id([self.name, "version 1", self.draws])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """It asks nobody."""
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It needs something to count or to choose."""
        if any(isinstance(s, NumberSurface | ChoiceSurface) for s in target.surfaces):
            return ()
        return (Problem(message="it has neither a number nor a choice"),)

    async def search(self, run: Run) -> None:
        """Propose, check, evaluate, decide, record."""
        best = await self._baseline(run)
        if best is None:
            return
        for surface in run.target.surfaces:
            for value in self._values(run, surface):
                if run.stop_reason(need(run)) is not None:
                    return
                best = await self._trial(run, best, surface, value)

    async def _baseline(self, run: Run) -> Measured | None:
        if run.stop_reason(need(run)) is not None:
            return None
        start = run.target.baseline
        found = Measured(
            candidate=start,
            train=await run.evaluate(start, split=Split.TRAIN),
            holdout=await run.evaluate(start, split=Split.HOLDOUT),
        )
        run.record(
            Trial(
                candidate=start,
                phase="baseline",
                train=SplitResult.of(found.train, run.objective),
                holdout=SplitResult.of(found.holdout, run.objective),
            )
        )
        run.advance(start)
        return found

    async def _trial(self, run: Run, best: Measured, surface: Surface, value: Value) -> Measured:
        origin = Origin(by=self.name, note=f"{surface.id} {value}")
        candidate = best.candidate.child({surface.id: value}, origin=origin)
        trial = Trial(candidate=candidate, cycle=1, phase=surface.kind, touched=(surface.id,))
        if problems := await run.check(candidate, parent=best.candidate):
            run.record(replace(trial, problems=tuple(problems)))
            return best
        train = await run.evaluate(candidate, split=Split.TRAIN)
        trial = replace(trial, train=SplitResult.of(train, run.objective))
        on_train = Pair(candidate=train, incumbent=best.train)
        decision = improves_on_minibatch(objective=run.objective, minibatch=on_train)
        if not decision.accepted:
            run.record(replace(trial, decision=decision))
            return best
        holdout = await run.evaluate(candidate, split=Split.HOLDOUT)
        on_holdout = Pair(candidate=holdout, incumbent=best.holdout)
        decision = min_gain(objective=run.objective, validation=on_holdout)
        result = SplitResult.of(holdout, run.objective)
        run.record(replace(trial, holdout=result, decision=decision))
        if not decision.accepted:
            return best
        run.advance(candidate)
        return Measured(candidate=candidate, train=train, holdout=holdout)

    def _values(self, run: Run, surface: Surface) -> Sequence[Value]:
        if isinstance(surface, ChoiceSurface):
            return surface.choices
        if not isinstance(surface, NumberSurface):
            return ()
        rng = run.rng("values", surface.id)
        step = surface.step or (surface.high - surface.low) / 8
        places = range(round((surface.high - surface.low) / step) + 1)
        chosen = rng.sample(places, k=min(self.draws, len(places)))
        return [surface.low + place * step for place in chosen]


def need(run: Run) -> Spend:
    """What one trial may cost: asked for before it is begun."""
    return run.estimate(Split.TRAIN) + run.estimate(Split.HOLDOUT)
