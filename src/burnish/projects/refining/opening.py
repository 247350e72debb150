"""Opening a refinement: seed, lock, workflow and session, new or going on."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from burnish.core.errors import BurnishError, SeedRefused
from burnish.projects.delegation.loading import load_workflow
from burnish.projects.experiments.places import ExperimentTask
from burnish.projects.experiments.task_best import TaskBest
from burnish.projects.refining.settings import RefineSettings
from burnish.projects.refining.workflows import (
    Loading,
    RefineWorkflow,
    comparable,
    find_workflow,
)
from burnish.projects.suites.registries import texts_for_refining
from burnish.strategies.refine.best import BestPlace, SeedBest, recover
from burnish.strategies.refine.loop import Job, Refinement
from burnish.strategies.refine.report import PAGE, refine_page
from burnish.strategies.refine.seeds import WHOLE_BUDGET, Seed, read_seed
from burnish.strategies.refine.session_files import SESSIONS, SessionFiles
from burnish.strategies.refine.sessions import Session
from burnish.system import FileLock, Redactor, write_atomic
from burnish.targets.delegation.chronicle import Listener
from burnish.targets.delegation.delegating import delegate
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.result import DelegationResult

_TASK_SESSIONS = "session_"


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where a refinement is at home: beside its seed, or in a task."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    home: Path
    """The folder that BEST lies in."""
    experiment: str | None = None
    """The one that the task belongs to."""

    @classmethod
    def beside(cls, folder: Path) -> Self:
        """Of a run; raises SeedRefused where it cannot be refined."""
        seed = read_seed(folder)
        files = SessionFiles(folder=seed.folder / SESSIONS)
        return cls(seed=seed, files=files, place=SeedBest(seed.folder), home=seed.folder)

    @classmethod
    def in_task(cls, task: ExperimentTask) -> Self:
        """Of the best run of a task; sessions and BEST lie in the task's folder."""
        best = TaskBest(task)
        files = SessionFiles(folder=task.refinements, prefix=_TASK_SESSIONS, pointer=True)
        return cls(
            seed=read_seed(best.winner()),
            files=files,
            place=best,
            home=task.folder,
            experiment=task.target.partition(":")[0],
        )


@dataclass(frozen=True, kw_only=True)
class OpenRefinement:
    """A refinement that holds its lock."""

    refinement: Refinement
    session: Session
    workflow: RefineWorkflow | None
    """None where there is nothing to refine, so that nobody needs one."""
    lock: FileLock
    others: tuple[Session, ...] = ()
    """Sessions of the same seed that were never finished."""

    async def run(self) -> Session:
        """To its end; then the lock is free."""
        try:
            return await self.refinement.run(self.session)
        finally:
            try:
                if self.workflow is not None:
                    await self.workflow.loaded.models.close()
            finally:
                self.lock.release()

    @property
    def page(self) -> Path:
        """The report."""
        return self.refinement.files.place(self.session) / PAGE


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What whoever opens a refinement wants of it."""

    load: Loading = load_workflow
    policy: PolicyTexts | None = None
    listen: Callable[[Session], None] = lambda _: None
    events: Listener | None = None
    """Is told what happens in the delegations."""
    stop: Callable[[], str] = lambda: ""


def open_refinement(
    seat: Seat,
    settings: RefineSettings,
    *,
    resume: str | None = None,
    wishes: Wishes | None = None,
) -> OpenRefinement:
    """Take the lock and begin a session, or take up an unfinished one by its id, or `last`.

    Raises SeedRefused where that cannot be; then nothing is held.
    """
    wished = wishes or Wishes()
    lock = seat.files.lock(seat.seed.run_id)
    try:
        recover(seat.home)
        others = tuple(each for each in seat.files.sessions() if each.unfinished)
        old = None if resume is None else seat.files.unfinished(resume)
        if old is not None:
            settings, others = RefineSettings.model_validate(dict(old.settings)), ()
            seat = _as_it_was(seat, old)
        nothing = old is None and seat.seed.gradient.empty
        prepared = _nothing(seat, settings, wished) if nothing else None
        refinement, workflow = prepared or _prepared(seat, settings, wished)
        session = old or seat.files.begin(seat.seed.run_id, settings.to_json())
    except BaseException as error:
        lock.release()
        if isinstance(error, BurnishError) and not isinstance(error, SeedRefused):
            raise SeedRefused(error.message, remedy=error.remedy) from error
        raise
    return OpenRefinement(
        refinement=refinement, session=session, workflow=workflow, lock=lock, others=others
    )


def _as_it_was(seat: Seat, session: Session) -> Seat:
    """A task's best may be another run by now than when the session began."""
    if seat.seed.run_id == session.seed_run_id or not isinstance(seat.place, TaskBest):
        return seat
    for run in seat.place.runs():
        seed = read_seed(run)
        if seed.run_id == session.seed_run_id:
            return replace(seat, seed=seed)
    raise SeedRefused(f"the run {session.seed_run_id} that this session refines is gone")


def _nothing(seat: Seat, settings: RefineSettings, wished: Wishes) -> tuple[Refinement, None]:
    """What ends at once, and may do so without models or a workflow."""

    async def never(job: Job) -> DelegationResult:
        raise AssertionError(f"there is nothing to refine: {job.folder}")

    return _refinement(seat, seat.seed, settings, wished, never), None


def _prepared(
    seat: Seat, settings: RefineSettings, wished: Wishes
) -> tuple[Refinement, RefineWorkflow]:
    workflow = find_workflow(seat.seed, settings, seat.files.folder, wished.load)
    seed = comparable(seat.seed, workflow)
    policy = wished.policy or texts_for_refining(seat.seed.folder, seat.experiment)

    async def run(job: Job) -> DelegationResult:
        return await delegate(
            workflow.made(job.models),
            job.task,
            folder=job.folder,
            policy=policy,
            steer=job.steer,
            seed_deliverable=job.deliverable,
            inputs=job.inputs,
            envelope=job.envelope,
            parent_run_id=job.parent_run_id,
            tags=job.tags,
            kept={
                **workflow.kept,
                "inputs": [str(path) for path in job.inputs],
                WHOLE_BUDGET: seed.budget.envelope.to_json(),
            },
            listen=wished.events,
            stop=wished.stop,
        )

    made = _refinement(seat, seed, settings, wished, run)
    redactor = Redactor.from_environment(extra=workflow.loaded.workflow.secrets)
    tiers = settings.tiers(workflow.usual_tiers)
    refinement = replace(made, tiers=tiers, redactor=redactor)
    notes = (*settings.warnings, *_notes(refinement, workflow, seat.seed))
    return replace(refinement, notes=tuple(dict.fromkeys(notes))), workflow


def _refinement(
    seat: Seat,
    seed: Seed,
    settings: RefineSettings,
    wished: Wishes,
    run: Callable[[Job], Awaitable[DelegationResult]],
) -> Refinement:
    def listen(session: Session) -> None:
        place = seat.files.place(session)
        write_atomic(place / PAGE, refine_page(seed, session, place), durable=False)
        wished.listen(session)

    return Refinement(
        seed=seed,
        delegate=run,
        files=seat.files,
        place=seat.place,
        iterations=settings.iterations,
        models=settings.models,
        listen=listen,
    )


def _notes(refinement: Refinement, workflow: RefineWorkflow, original: Seed) -> Iterator[str]:
    """What a reader of the losses should know; every model that is named is looked up here."""
    yield from workflow.notes
    for k in range(1, refinement.iterations + 1):
        yield from workflow.made(refinement.models_of(k)).notes()
    used, there = refinement.seed.signals, original.signals
    pairs = (
        ("evaluated", used.eval_score, there.eval_score),
        ("criticised", used.critique_score, there.critique_score),
    )
    for word, now, before in pairs:
        if before is None:
            yield f"the seed was not {word}: its loss counts that as neutral"
        elif now is None:
            yield f"the seed was {word}, but nobody does it here: it is neutral for both sides"
