"""One trial: check, measure on train, on holdout if the policy says so, decide, record."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Split
from burnish.core.comparisons import Pair
from burnish.core.content import Json
from burnish.core.decisions import Decision
from burnish.core.errors import Problem
from burnish.core.evaluations import Evaluation
from burnish.core.gates import sigma
from burnish.core.money import Spend
from burnish.core.surfaces import Value
from burnish.core.trials import SplitResult, Trial
from burnish.runs.run import Run
from burnish.strategies.coordinate.settings import CoordinateSettings


@dataclass(frozen=True, kw_only=True)
class Incumbent:
    """The candidate that is ahead, with everything that was measured of it."""

    candidate: Candidate
    train: Evaluation
    holdout: Evaluation | None
    trial: int = 0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What is tried: other values for some surfaces, and where they come from."""

    values: Mapping[str, Value]
    note: str
    """A few words, for the line of the trial."""
    details: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What came of an attempt."""

    incumbent: Incumbent
    """The new one where it was accepted, else the old one."""
    accepted: bool = False
    loss: float | None = None
    """On train; None when it was turned away or could not be measured."""


class Trying:
    """Makes trials of one phase."""

    def __init__(self, run: Run, settings: CoordinateSettings, *, cycle: int, phase: str) -> None:
        self._run = run
        self._settings = settings
        self._cycle = cycle
        self._phase = phase

    @property
    def need(self) -> Spend:
        """What one trial may cost: train and holdout, as often as they are repeated."""
        repeats = self._settings.repeats
        train = self._run.estimate(Split.TRAIN, repeats=repeats)
        if self._settings.holdout_policy == "skip":
            return train
        return train + self._run.estimate(Split.HOLDOUT, repeats=repeats)

    async def baseline(self) -> Incumbent:
        """Measure what is there, on both sets."""
        run = self._run
        start = run.target.baseline
        train = await self._measure(start, Split.TRAIN)
        skip = self._settings.holdout_policy == "skip" or not run.dataset.holdout
        holdout = None if skip else await self._measure(start, Split.HOLDOUT)
        run.record(
            Trial(
                candidate=start,
                phase="baseline",
                train=SplitResult.of(train, run.objective),
                holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
            )
        )
        run.advance(start)
        return Incumbent(candidate=start, train=train, holdout=holdout)

    async def attempt(self, attempt: Attempt, before: Incumbent) -> Tried:
        """One trial, recorded whatever comes of it."""
        origin = Origin(by="coordinate", kind=self._phase, note=attempt.note)
        candidate = before.candidate.child(attempt.values, origin=origin)
        trial = Trial(
            candidate=candidate,
            cycle=self._cycle,
            phase=self._phase,
            touched=tuple(attempt.values),
            details=attempt.details,
        )
        problems = await self._run.check(candidate, parent=before.candidate)
        if problems:
            self._run.record(replace(trial, problems=tuple(problems)))
            return Tried(incumbent=before)
        return await self._measured(trial, before)

    def turned_away(self, attempt: Attempt, before: Incumbent, why: str) -> Tried:
        """A trial that is over before anything was measured."""
        candidate = replace(before.candidate, origin=Origin(by="coordinate", note=attempt.note))
        self._run.record(
            Trial(
                candidate=candidate,
                cycle=self._cycle,
                phase=self._phase,
                touched=tuple(attempt.values),
                problems=(Problem(message=why),),
                details=attempt.details,
            )
        )
        return Tried(incumbent=before)

    async def _measured(self, trial: Trial, before: Incumbent) -> Tried:
        run, settings, candidate = self._run, self._settings, trial.candidate
        train = await self._measure(candidate, Split.TRAIN)
        decision = self._decide(train, None, before)
        holdout = None
        if before.holdout is not None and (
            decision.accepted or settings.holdout_policy == "every_trial"
        ):
            holdout = await self._measure(candidate, Split.HOLDOUT)
            decision = self._decide(train, holdout, before)
        row = run.record(
            replace(
                trial,
                train=SplitResult.of(train, run.objective),
                holdout=None if holdout is None else SplitResult.of(holdout, run.objective),
                decision=decision,
            )
        )
        loss = run.objective.measure(train).loss
        if not decision.accepted:
            return Tried(incumbent=before, loss=loss)
        run.advance(candidate)
        ahead = Incumbent(candidate=candidate, train=train, holdout=holdout, trial=row.number)
        return Tried(incumbent=ahead, accepted=True, loss=loss)

    def _decide(self, train: Evaluation, holdout: Evaluation | None, before: Incumbent) -> Decision:
        held = None
        if holdout is not None and before.holdout is not None:
            held = Pair(candidate=holdout, incumbent=before.holdout)
        return sigma(
            objective=self._run.objective,
            train=Pair(candidate=train, incumbent=before.train),
            holdout=held,
            accept_sigma=self._settings.accept_sigma,
            max_missing=self._settings.max_errored_fraction,
        )

    async def _measure(self, candidate: Candidate, split: Split) -> Evaluation:
        return await self._run.evaluate(candidate, split=split, repeats=self._settings.repeats)
