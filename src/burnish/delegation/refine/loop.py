"""The strategy `refine`: run the task again from the best so far."""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from burnish.core.cases import Outcome, Split
from burnish.core.content import short_id
from burnish.core.errors import (
    BurnishError,
    Interrupted,
    Problem,
    ReplayDiverged,
    ResumeRefused,
    RunLocked,
)
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Origin
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
from burnish.delegation.refine.seeds import (
    Grade,
    ModelPair,
    Ruler,
    Seed,
    TierPlan,
    halved,
    share_left,
    tier_of,
)
from burnish.delegation.refine.sessions import (
    ALL_RUN,
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
from burnish.delegation.workspace import STATES
from burnish.runs.events import BASELINE, SearchEnded
from burnish.runs.run import Run
from burnish.system import Redactor, write_inside

_PLATEAU = 0.01
"""A smaller difference of losses is no progress."""
_SLACK = 1e-9
"""Tolerance for floating point errors."""

EMPTY, EMPTY_LATER = "empty_gradient", "empty_gradient_midloop"
REASONS = {
    ALL_RUN: "all iterations were run",
    "regression": "the loss rose twice in a row",
    "plateau": "the loss barely changed twice in a row",
    "wall_time_exhausted": "the iterations took twice as long as the seed",
    EMPTY: "nothing is wrong with the seed",
    EMPTY_LATER: "nothing is wrong with the best any more",
    "no_prior_deliverable": "the deliverable that the next iteration starts from is gone",
    "interrupted": "stopped by the user; it can be resumed",
    "running": "running or killed; it can be resumed",
}
"""The meaning of the stop reasons, whose names come from awp-agents."""


def stop_after(
    losses: Sequence[float | None], *, iterations: int, seconds: float, seed_seconds: float
) -> str:
    """Why to stop after these iterations; empty if there is no reason.

    Worse twice in a row is a regression, nearly equal twice in a row a plateau. An iteration
    without a result has no loss and counts as worse.
    """
    steps = list(_steps(losses))[-2:]
    if len(steps) == 2 and all(step is None or step > _SLACK for step in steps):
        return "regression"
    if len(steps) == 2 and all(
        step is not None and abs(step) < _PLATEAU - _SLACK for step in steps
    ):
        return "plateau"
    if len(losses) >= iterations:
        return ALL_RUN
    # One iteration alone may take 60 seconds, however quick the seed was.
    spent = seed_seconds > 0 and seconds >= max(60.0, 2 * seed_seconds)
    return "wall_time_exhausted" if spent else ""


def _steps(losses: Sequence[float | None]) -> Iterator[float | None]:
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
    """The input of one iteration."""

    folder: Path
    task: str
    steer: str
    deliverable: Path
    """What it starts from; copied, never linked."""
    inputs: tuple[Path, ...]
    models: ModelPair
    envelope: Envelope
    parent_run_id: str
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class IterationOutcome:
    """The outcome of an iteration, to be recorded. The seed is number 0."""

    k: int
    steer: str = ""
    signals: RunSignals
    status: str
    better: bool = False
    best_loss: float
    """The loss that it had to beat."""
    cannot_win: str = ""


class _Iterating(Protocol):
    async def delegate(self, job: IterationJob) -> DelegationResult: ...

    async def grade(self, ruler: Ruler, name: str, run: Path, deliverable: Path) -> Grade: ...

    async def record(self, attempt: IterationOutcome) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """How one run is refined."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    iterations: int = 3
    models: ModelPair = field(default_factory=ModelPair)
    """Override the seed's; unused if there are tiers."""
    tiers: TierPlan = field(default_factory=TierPlan)
    ruler: Ruler | None = None
    """Grades both sides; None if the seed was graded just as its iterations are."""
    allow_missing_files: bool = False
    """Whether an iteration may win without a file that the seed delivers."""
    notes: tuple[str, ...] = ()
    redactor: Redactor = field(default_factory=Redactor.from_environment)
    """Removes secrets from what is written."""
    listen: Callable[[Session], None] = lambda _: None

    async def run(self, session: Session, by: _Iterating) -> Session:
        """Refine until there is a reason to stop; the session contains errors too.

        What only interrupts it (Interrupted, RunLocked, ResumeRefused, ReplayDiverged) is raised
        and leaves a session that can be resumed.
        """
        session = replace(
            session,
            best_iter=0,
            best_written=False,
            iterations=(),
            stop_reason=RUNNING,
            completed_at=None,
            error="",
            tier_plan_used=None if self.tiers.trivial else True,
            notes=self.notes,
            ruler="" if self.ruler is None else self.ruler.id,
        )
        rounds = _Rounds(self, session, by)
        message = ""
        try:
            await rounds.begin()
            reason = await rounds.until_stopped()
        except (Interrupted, RunLocked, ResumeRefused, ReplayDiverged, asyncio.CancelledError):
            self.keep(replace(rounds.session, stop_reason=INTERRUPTED))
            raise
        except Exception as error:  # noqa: BLE001 - the session says what happened, whatever it was
            message = self.redactor.text(str(error) or type(error).__name__)
            reason = f"error:{type(error).__name__}"
        session = replace(rounds.session, error=message or rounds.session.error)
        return self.keep(replace(session, stop_reason=reason, completed_at=now()))

    def keep(self, session: Session) -> Session:
        """Write the session and pass it to the listener."""
        self.files.write(session)
        self.listen(session)
        return session

    def models_of(self, k: int) -> ModelPair:
        """The models of an iteration: its tier's, else the named ones, else the seed's."""
        if self.tiers.trivial:
            return self.models.or_else(self.seed.models)
        return self.tiers.models(k, self.iterations, self.seed.models)


class _Rounds:
    def __init__(self, refinement: Refinement, session: Session, by: _Iterating) -> None:
        self.session = session
        self._by = by
        self._all = refinement
        self._losses: list[float | None] = []
        self._seconds = 0.0
        self._seed_grade: Grade | None = None
        seed = refinement.seed
        self._best = Best(
            run=seed.folder,
            run_id=seed.run_id,
            signals=seed.signals,
            deliverable=seed.deliverable,
        )

    async def begin(self) -> None:
        """Grade the seed if need be, and record it as what is to be beaten."""
        seed, signals = self._all.seed, self._all.seed.signals
        if self._all.ruler is not None and not seed.gradient.empty:
            grade = await self._by.grade(self._all.ruler, "seed", seed.folder, seed.deliverable)
            self._seed_grade, signals = grade, self._all.ruler.signals(signals, grade, grade)
            self._best = replace(self._best, signals=signals)
        loss = round(signals.loss.total, 6)
        self.session = self._all.keep(
            replace(self.session, seed_loss=loss, best_loss=loss, seed_parts=signals.loss.to_json())
        )
        start = IterationOutcome(k=0, signals=signals, status=signals.status, best_loss=loss)
        await self._by.record(start)

    async def until_stopped(self) -> str:
        seed = self._all.seed
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
                seed_seconds=seed.budget.seconds,
            )
            if reason:
                return reason
        return ALL_RUN

    async def _iterated(self, k: int, gradient: RunGradient, steer: str) -> DelegationResult:
        home = self._all.files.place(self.session)
        home.mkdir(parents=True, exist_ok=True)
        folder = home / f"iter_{k}"
        document = self._all.redactor.json(gradient.to_json())
        encoded = json.dumps(document, indent=2, ensure_ascii=False)
        write_inside(home, f"iter_{k}/gradient_input.json", encoded + "\n")
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

    async def _take(self, k: int, steer: str, result: DelegationResult) -> None:
        challenger = contender(
            result,
            await self._signals(k, result),
            self._best,
            unscored=self._unscored(result),
            seed=self._all.seed.deliverable,
            allow_missing_files=self._all.allow_missing_files,
        )
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

    async def _signals(self, k: int, result: DelegationResult) -> RunSignals:
        """The signals of an iteration by the rule that the seed's are made by."""
        seed, ruler, run = self._all.seed, self._all.ruler, result.run_dir
        known = seed.signals.budget_remaining is not None
        own = replace(
            run_signals(run),
            max_rejections=seed.signals.max_rejections,
            budget_remaining=share_left(run, seed.budget.envelope) if known else None,
        )
        if ruler is None or self._seed_grade is None:
            return own
        grade = Grade(scores={}, critique=None)
        if result.deliverables:
            grade = await self._by.grade(ruler, f"iter_{k}", run, result.final)
        return ruler.signals(own, grade, self._seed_grade)

    def _unscored(self, result: DelegationResult) -> tuple[str, ...]:
        """Metrics that did not score the iteration, unless the ruler decides what counts."""
        if self._seed_grade is not None or result.evaluation is None:
            return ()
        return result.evaluation.missing

    def _lead(self, k: int, result: DelegationResult, challenger: Contender) -> None:
        self._best = Best(
            run=result.run_dir,
            run_id=result.run_id,
            signals=challenger.signals,
            deliverable=result.final,
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
            note=challenger.cannot_win or challenger.note,
            parts=challenger.signals.loss.to_json(),
        )


_STEER = "steer"
"""The value that distinguishes candidates: what an iteration is told beside its task."""


class SessionFailed(BurnishError):
    """A session that ended with an error, which its file contains."""


class Refine:
    """Runs a session. The seed is the baseline; an iteration that becomes the best is accepted."""

    name = "refine"
    searches = False

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
        self.watch: Callable[[Session], None] = lambda _: None
        self.stop: Callable[[], str] = lambda: ""
        """Called before an iteration; a reason ends the session there."""
        self.delegation = delegation
        self.lock = lock
        """Held while the session runs, so that nobody else refines the same run."""

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, 1, dict(self.session.settings)])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        del target
        return ()

    async def search(self, run: Run) -> None:
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


@dataclass(frozen=True)
class _Iterations:
    strategy: Refine
    run: Run

    async def delegate(self, job: IterationJob) -> DelegationResult:
        directory = self.run.directory
        return await self.run.perform(
            lambda scope: delegate(
                self.strategy.delegation(job),
                Site(
                    folder=job.folder,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    hidden=(directory.folder,),
                    states=directory.folder / STATES,
                    stop=lambda: self.strategy.stop() or self.run.closing.stop_words(),
                ),
            )
        )

    async def grade(self, ruler: Ruler, name: str, run: Path, deliverable: Path) -> Grade:
        directory = self.run.directory
        return await self.run.perform(
            lambda scope: ruler.grade(
                name,
                run,
                deliverable,
                Site(
                    folder=directory.folder / "graded" / name,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    hidden=(directory.folder,),
                    states=directory.folder / STATES,
                ),
            )
        )

    async def record(self, attempt: IterationOutcome) -> None:
        run, start, k = self.run, self.run.target.baseline, attempt.k
        origin = Origin(kind=Refine.name, note=f"iteration {k}")
        candidate = start.child({_STEER: attempt.steer}, origin=origin) if k else start
        (case,) = run.dataset.train
        loss = attempt.signals.loss
        outcome = Outcome(
            data={"status": attempt.status, "reason": attempt.cannot_win},
            measures={name: getattr(loss, name) / weight for name, weight in WEIGHTS.items()},
        )
        recorded = replace(case, recorded=outcome)
        # Two iterations may be told the same: the draw is what tells them apart.
        evaluation = await run.evaluate(candidate, split=Split.TRAIN, cases=(recorded,), draw=k)
        trial = Trial(
            candidate=candidate,
            phase=BASELINE,
            train=SplitResult.of(evaluation, run.objective),
        )
        if k:
            decision = _decision(attempt)
            trial = replace(trial, phase=Refine.name, cycle=k, touched=(_STEER,), decision=decision)
        run.record(trial)
        if attempt.better:
            run.advance(candidate)


def _decision(attempt: IterationOutcome) -> Decision:
    loss, best = attempt.signals.loss.total, attempt.best_loss
    verdict, code = Verdict.REJECT, "worse"
    reason = f"its loss of {loss:.4f} is not below {best:.4f}"
    if attempt.cannot_win:
        code, reason = "cannot win", attempt.cannot_win
    elif attempt.better:
        verdict, code = Verdict.ACCEPT, "better"
        reason = f"its loss of {loss:.4f} is below {best:.4f}"
    numbers = {"loss": loss, "best_loss": best}
    return Decision(gate=Refine.name, verdict=verdict, code=code, reason=reason, numbers=numbers)
