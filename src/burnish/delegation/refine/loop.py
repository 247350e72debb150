"""The strategy `refine`: run the task again from the best so far."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.errors import (
    BurnishError,
    Interrupted,
    Problem,
    ReplayDiverged,
    ResumeRefused,
    RunLocked,
)
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Origin
from burnish.core.trials import Decision, SplitResult, Trial, Verdict
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.envelope import Envelope
from burnish.delegation.refine.gradients import (
    RunGradient,
    RunSignals,
    gradient_of,
    mapping,
    number,
    refinement_prefix,
    run_signals,
)
from burnish.delegation.refine.seeds import ModelPair, Seed, TierPlan, halved, tier_of
from burnish.delegation.refine.sessions import (
    INTERRUPTED,
    RUNNING,
    Best,
    BestPlace,
    Contender,
    Iteration,
    SeedLock,
    Session,
    SessionFiles,
    contender,
    is_lower,
    now,
)
from burnish.delegation.result import WEIGHTS, DelegationResult
from burnish.runs.events import BASELINE, SearchEnded
from burnish.runs.run import Run
from burnish.system import Redactor, write_atomic

_PLATEAU = 0.01
"""Two losses this close are no progress."""
_SLACK = 1e-9
"""What floating point may add to a difference."""
_TWICE_THE_SEED = 2.0

EMPTY, EMPTY_LATER = "empty_gradient", "empty_gradient_midloop"
REASONS = {
    "max_iterations": "all iterations were made",
    "regression": "the loss rose twice in a row",
    "plateau": "the loss did not move twice in a row",
    "wall_time_exhausted": "the iterations took twice as long as the seed",
    EMPTY: "nothing is wrong with the seed",
    EMPTY_LATER: "nothing is wrong with the best any more",
    "no_prior_deliverable": "what the next iteration should start from is gone",
    "interrupted": "stopped from outside; it can go on",
    "running": "under way, or killed; it can go on",
}
"""What the reasons mean; the names are those of the seed's system."""


def stop_after(
    losses: Sequence[float | None], *, iterations: int, seconds: float, seed_seconds: float
) -> str:
    """Why to stop after these iterations; empty when there is no reason.

    Worse twice in a row is a regression, as good as before twice in a row a plateau; equal
    losses are a plateau. An iteration that came to nothing has no loss, and is worse.
    """
    steps = list(_steps(losses))[-2:]
    if len(steps) == 2 and all(step is None or step > _SLACK for step in steps):
        return "regression"
    if len(steps) == 2 and all(
        step is not None and abs(step) < _PLATEAU - _SLACK for step in steps
    ):
        return "plateau"
    if len(losses) >= iterations:
        return "max_iterations"
    spent = seed_seconds > 0 and seconds >= _TWICE_THE_SEED * seed_seconds
    return "wall_time_exhausted" if spent else ""


def _steps(losses: Sequence[float | None]) -> Iterator[float | None]:
    """From each iteration to the next; None where it came to nothing."""
    before = losses[0] if losses else None
    for loss in losses[1:]:
        if loss is None:
            yield None
        elif before is None:
            yield -math.inf
        else:
            yield loss - before
        before = before if loss is None else loss


MOST_ITERATIONS = 10


@dataclass(frozen=True, kw_only=True)
class IterationJob:
    """One iteration that is to be run."""

    folder: Path
    task: str
    steer: str
    deliverable: Path
    """What it starts from; copied, never shared."""
    inputs: tuple[Path, ...]
    """What the seed was given."""
    models: ModelPair
    envelope: Envelope
    parent_run_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IterationOutcome:
    """What an iteration came to, for whoever records it. The seed is number 0."""

    k: int
    steer: str = ""
    signals: RunSignals
    status: str
    better: bool = False
    best_loss: float
    """What it had to be below."""
    cannot_win: str = ""


class _Iterating(Protocol):
    """Who runs iterations, and keeps what came of them."""

    async def delegate(self, job: IterationJob) -> DelegationResult:
        """Run one."""
        ...

    async def record(self, attempt: IterationOutcome) -> None:
        """Keep an attempt, before anything is done with it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """How one run is refined."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    iterations: int = 3
    models: ModelPair = field(default_factory=ModelPair)
    """Stronger than the seed's; without meaning where there are tiers."""
    tiers: TierPlan = field(default_factory=TierPlan)
    notes: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor.from_environment)
    """Takes secrets out of what is written down."""
    listen: Callable[[Session], None] = lambda _: None
    """Shown the session after every step."""

    async def run(self, session: Session, by: _Iterating) -> Session:
        """Refine until there is a reason to stop; the session says how it ended, errors too.

        What only interrupts it (Interrupted, RunLocked, ResumeRefused, ReplayDiverged) is raised,
        and leaves a session that can go on.
        """
        session = replace(
            session,
            seed_loss=round(self.seed.loss, 6),
            best_loss=round(self.seed.loss, 6),
            best_iter=0,
            best_written=False,
            iterations=(),
            stop_reason=RUNNING,
            completed_at=None,
            tier_plan_used=None if self.tiers.trivial else True,
            notes=self.notes,
        )
        rounds = _Rounds(self, self.keep(session), by)
        try:
            reason = await rounds.until_stopped()
        except (
            Interrupted,
            RunLocked,
            ResumeRefused,
            ReplayDiverged,
            asyncio.CancelledError,
        ):
            self.keep(replace(rounds.session, stop_reason=INTERRUPTED))
            raise
        except Exception as error:  # noqa: BLE001 - the session says what happened, whatever it was
            message = self.redactor.text(str(error) or type(error).__name__)
            session = replace(rounds.session, error=message)
            reason = f"error:{type(error).__name__}"
            return self.keep(replace(session, stop_reason=reason, completed_at=now()))
        return self.keep(replace(rounds.session, stop_reason=reason, completed_at=now()))

    def keep(self, session: Session) -> Session:
        """Write the session down and show it."""
        self.files.write(session)
        self.listen(session)
        return session

    def models_of(self, k: int) -> ModelPair:
        """The models of an iteration: its tier's, else those that were named, else the seed's."""
        if self.tiers.trivial:
            return self.models.or_else(self.seed.models)
        return self.tiers.models(k, self.iterations, self.seed.models)


class _Rounds:
    """Where a session stands."""

    def __init__(self, refinement: Refinement, session: Session, by: _Iterating) -> None:
        self.session = session
        self._by = by
        self._all = refinement
        self._losses: list[float | None] = []
        self._seconds = 0.0
        seed = refinement.seed
        self._best = Best(
            run=seed.folder,
            run_id=seed.run_id,
            signals=seed.signals,
            deliverable=seed.deliverable,
        )

    async def until_stopped(self) -> str:
        """Make iterations; why there are no more."""
        await self._record_seed()
        for k in range(1, self._all.iterations + 1):
            gradient = gradient_of(self._best.run, loss=self._best.loss)
            if gradient.empty:
                return EMPTY if k == 1 else EMPTY_LATER
            if not self._best.deliverable.is_dir():
                return "no_prior_deliverable"
            steer = refinement_prefix(gradient)
            await self._take(k, steer, await self._iterated(k, gradient, steer))
            reason = stop_after(
                self._losses,
                iterations=self._all.iterations,
                seconds=self._seconds,
                seed_seconds=self._all.seed.budget.seconds,
            )
            if reason:
                return reason
        return "max_iterations"

    async def _iterated(self, k: int, gradient: RunGradient, steer: str) -> DelegationResult:
        folder = self._all.files.place(self.session) / f"iter_{k}"
        folder.mkdir(parents=True, exist_ok=True)
        document = self._all.redactor.json(gradient.to_json())
        encoded = json.dumps(document, indent=2, ensure_ascii=False)
        write_atomic(folder / "gradient_input.json", encoded + "\n")
        seed = self._all.seed
        job = IterationJob(
            folder=folder / "run",
            task=seed.task,
            steer=steer,
            deliverable=self._best.deliverable,
            inputs=seed.inputs,
            models=self._all.models_of(k),
            envelope=halved(seed.budget),
            parent_run_id=self._best.run_id,
            tags=tuple(dict.fromkeys((*seed.tags, "refinement", f"refine-iter-{k}"))),
        )
        return await self._by.delegate(job)

    async def _record_seed(self) -> None:
        signals = self._all.seed.signals
        attempt = IterationOutcome(
            k=0, signals=signals, status=signals.status, best_loss=self._best.loss
        )
        await self._by.record(attempt)

    async def _take(self, k: int, steer: str, result: DelegationResult) -> None:
        """Count an iteration; make it the best where it is."""
        challenger = contender(result, run_signals(result.run_dir), self._best)
        self._losses.append(challenger.counts_as)
        spent = mapping(result.budget.get("wall_time")).get("elapsed_s")
        self._seconds += number(spent) or 0.0
        better = not challenger.cannot_win and is_lower(challenger.loss, self._best.loss)
        await self._by.record(
            IterationOutcome(
                k=k,
                steer=steer,
                signals=challenger.signals,
                status=result.status,
                better=better,
                best_loss=self._best.loss,
                cannot_win=challenger.cannot_win,
            )
        )
        self.session = replace(
            self.session, iterations=(*self.session.iterations, self._row(k, result, challenger))
        )
        if better:
            self._lead(k, result, challenger)
        self._all.keep(self.session)

    def _lead(self, k: int, result: DelegationResult, challenger: Contender) -> None:
        self._best = Best(
            run=result.run_dir,
            run_id=result.run_id,
            signals=challenger.signals,
            deliverable=result.final,
            iteration=k,
        )
        self.session = replace(self.session, best_iter=k, best_loss=round(challenger.loss, 6))
        why_not = self._all.place.promote(self._best, self.session)
        self.session = replace(self.session, best_written=not why_not)
        if why_not:
            *before, row = self.session.iterations
            note = f"better than the seed, but {why_not}"
            self.session = replace(self.session, iterations=(*before, replace(row, note=note)))

    def _row(self, k: int, result: DelegationResult, challenger: Contender) -> Iteration:
        models, trivial = self._all.models_of(k), self._all.tiers.trivial
        return Iteration(
            k=k,
            run_id=result.run_id,
            loss=round(challenger.loss, 6),
            status=result.status,
            tier=None if trivial else tier_of(k, self._all.iterations).value,
            model_manager=models.manager or None,
            model_worker=models.worker or None,
            run_dir=str(result.run_dir.relative_to(self._all.files.folder)),
            calls=result.spent.calls,
            tokens=result.spent.tokens,
            usd=result.spent.usd,
            note=challenger.cannot_win or challenger.lost,
        )


# -- The strategy `refine` ------------------------------------------------------------------------


_STEER = "steer"
"""What an iteration is told beside its task: the one value that distinguishes candidates."""


class SessionFailed(BurnishError):
    """A session ended by an error, which stands in its file."""


class Refine:
    """Runs a session. The seed is the baseline; an iteration that becomes the best is accepted."""

    name = "refine"

    def __init__(
        self,
        refinement: Refinement,
        session: Session,
        *,
        delegation: Callable[[IterationJob], Delegation],
        lock: SeedLock,
    ) -> None:
        self.refinement = refinement
        self.session = session
        """As far as it has come."""
        self.watch: Callable[[Session], None] = lambda _: None
        """Is shown the session after every step."""
        self.stop: Callable[[], str] = lambda: ""
        """What it says before an iteration ends the session there."""
        self._delegation = delegation
        self.lock = lock
        """Held while it goes on: nobody else refines the same run."""

    @property
    def fingerprint(self) -> str:
        """A hash of the session's settings."""
        return short_id([self.name, 1, dict(self.session.settings)])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """It asks nobody: what is wrong is read from the files of runs."""
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It brings its own target."""
        del target
        return ()

    async def search(self, run: Run) -> None:
        """Refine until there is a reason to stop."""
        refinement = replace(self.refinement, listen=self._keep)
        self.lock.take()
        try:
            self.session = await refinement.run(self.session, _Iterations(self, run))
        finally:
            self.lock.release()
        if self.session.error:
            raise SessionFailed(f"{self.session.stop_reason}: {self.session.error}")
        reason = self.session.stop_reason
        run.tell(SearchEnded(reason=reason), f"refinement:{reason}")

    def _keep(self, session: Session) -> None:
        self.session = session
        self.refinement.listen(session)
        self.watch(session)

    async def delegate(self, run: Run, job: IterationJob) -> DelegationResult:
        """One iteration, which pays through the run's journal."""
        directory = run.directory
        return await run.perform(
            lambda scope: delegate(
                self._delegation(job),
                Site(
                    folder=job.folder,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    hidden=(directory.folder,),
                    stop=lambda: self.stop() or run.stop_words(),
                ),
            )
        )


@dataclass(frozen=True)
class _Iterations:
    """The iterations of a session in its run."""

    strategy: Refine
    run: Run

    async def delegate(self, job: IterationJob) -> DelegationResult:
        return await self.strategy.delegate(self.run, job)

    async def record(self, attempt: IterationOutcome) -> None:
        run, start, k = self.run, self.run.target.baseline, attempt.k
        origin = Origin(kind=Refine.name, note=f"iteration {k}")
        candidate = start.child({_STEER: attempt.steer}, origin=origin) if k else start
        (case,) = run.dataset.train
        recorded = replace(case, recorded=_outcome(attempt))
        # Two iterations may be told the same: the draw is what tells them apart.
        evaluation = await run.evaluate(candidate, split=Split.TRAIN, cases=(recorded,), draw=k)
        run.record(_trial(attempt, candidate, SplitResult.of(evaluation, run.objective)))
        if attempt.better:
            run.advance(candidate)


def _trial(attempt: IterationOutcome, candidate: Candidate, train: SplitResult) -> Trial:
    if not attempt.k:
        return Trial(candidate=candidate, phase=BASELINE, train=train)
    return Trial(
        candidate=candidate,
        phase=Refine.name,
        cycle=attempt.k,
        touched=(_STEER,),
        train=train,
        decision=_decision(attempt),
    )


def _decision(attempt: IterationOutcome) -> Decision:
    loss, best = attempt.signals.loss.total, attempt.best_loss
    verdict, code = Verdict.REJECT, "worse"
    reason = f"its loss of {loss:.4f} is not below {best:.4f}"
    if attempt.cannot_win:
        code, reason = "cannot win", attempt.cannot_win
    elif attempt.better:
        verdict, code = Verdict.ACCEPT, "better"
        reason = f"its loss of {loss:.4f} is below {best:.4f}"
    return Decision(
        gate=Refine.name,
        verdict=verdict,
        code=code,
        reason=reason,
        numbers={"loss": loss, "best_loss": best},
    )


def _outcome(attempt: IterationOutcome) -> Outcome:
    """The parts of the loss, each from 0 to 1, as delegations in a suite have them."""
    loss = attempt.signals.loss
    return Outcome(
        data={"status": attempt.status, "reason": attempt.cannot_win},
        measures={name: getattr(loss, name) / weight for name, weight in WEIGHTS.items()},
    )
