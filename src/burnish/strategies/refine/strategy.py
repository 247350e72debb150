"""The strategy `refine`: a session of refinement as a run, one trial an iteration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from burnish.core.candidates import Candidate, Origin
from burnish.core.cases import Split
from burnish.core.content import short_id
from burnish.core.decisions import Decision, Verdict
from burnish.core.errors import BurnishError, Problem
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Role, Target
from burnish.core.trials import SplitResult, Trial
from burnish.runs.events import SearchEnded
from burnish.runs.run import Run
from burnish.runs.standing import BASELINE
from burnish.strategies.refine.best import SeedLock
from burnish.strategies.refine.loop import Attempt, Job, Refinement
from burnish.strategies.refine.sessions import Session
from burnish.targets.delegation.delegating import Delegation, Site, delegate
from burnish.targets.delegation.loss import WEIGHTS
from burnish.targets.delegation.result import DelegationResult

STEER = "steer"
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
        delegation: Callable[[Job], Delegation],
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

    async def delegate(self, run: Run, job: Job) -> DelegationResult:
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

    async def delegate(self, job: Job) -> DelegationResult:
        return await self.strategy.delegate(self.run, job)

    async def record(self, attempt: Attempt) -> None:
        run, start, k = self.run, self.run.target.baseline, attempt.k
        origin = Origin(kind=Refine.name, note=f"iteration {k}")
        candidate = start.child({STEER: attempt.steer}, origin=origin) if k else start
        (case,) = run.dataset.train
        recorded = replace(case, recorded=_outcome(attempt))
        # Two iterations may be told the same: the draw is what tells them apart.
        evaluation = await run.evaluate(candidate, split=Split.TRAIN, cases=(recorded,), draw=k)
        run.record(_trial(attempt, candidate, SplitResult.of(evaluation, run.objective)))
        if attempt.better:
            run.advance(candidate)


def _trial(attempt: Attempt, candidate: Candidate, train: SplitResult) -> Trial:
    if not attempt.k:
        return Trial(candidate=candidate, phase=BASELINE, train=train)
    return Trial(
        candidate=candidate,
        phase=Refine.name,
        cycle=attempt.k,
        touched=(STEER,),
        train=train,
        decision=_decision(attempt),
    )


def _decision(attempt: Attempt) -> Decision:
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


def _outcome(attempt: Attempt) -> Outcome:
    """The parts of the loss, each from 0 to 1, as delegations in a suite have them."""
    loss = attempt.signals.loss
    return Outcome(
        data={"status": attempt.status, "reason": attempt.cannot_win},
        measures={name: getattr(loss, name) / weight for name, weight in WEIGHTS.items()},
    )
