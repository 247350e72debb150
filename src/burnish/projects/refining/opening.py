"""Opening a refinement: seed, lock, workflow and session, new or going on."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.errors import BurnishError, SeedRefused
from burnish.projects.delegation.loading import load_workflow
from burnish.projects.delegation.runs import task_setup
from burnish.projects.experiments.places import ExperimentTask, find_task
from burnish.projects.experiments.task_best import TaskBest
from burnish.projects.launching import launched
from burnish.projects.refining.settings import RefineSettings
from burnish.projects.refining.workflows import (
    Loading,
    RefineWorkflow,
    comparable,
    find_workflow,
)
from burnish.projects.suites.registries import texts_for_refining
from burnish.runs.events import Listener as RunListener
from burnish.runs.header import NAME as HEADER
from burnish.runs.header import Header, Project
from burnish.runs.opening import resume, start
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.strategies.refine.best import BestPlace, SeedBest, recover
from burnish.strategies.refine.loop import Job, Refinement
from burnish.strategies.refine.report import PAGE, refine_page
from burnish.strategies.refine.seeds import WHOLE_BUDGET, Seed, read_seed
from burnish.strategies.refine.session_files import SESSIONS, SessionFiles
from burnish.strategies.refine.sessions import Session
from burnish.strategies.refine.strategy import Refine, SessionFailed
from burnish.system import FileLock, Redactor, write_atomic
from burnish.targets.delegation.chronicle import Listener
from burnish.targets.delegation.delegating import Delegation
from burnish.targets.delegation.home import POLICY, keep_policy, kept_policy
from burnish.targets.delegation.policy import NAMES, PolicyTexts
from burnish.targets.delegation.target import DelegationTarget

KIND = "refinement"
"""The kind of project that run.json names."""
_TASK_SESSIONS = "session_"


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where a refinement is at home: beside its seed, or in a task."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    home: Path
    """The folder that BEST lies in."""
    task: str | None = None
    """EXP:TASK where it is in a task."""

    @property
    def experiment(self) -> str | None:
        """The one that the task belongs to."""
        return None if self.task is None else self.task.partition(":")[0]

    @classmethod
    def of_run(cls, folder: Path) -> Self:
        """Of a session, by the folder of its run."""
        task = Header.read(folder).project.config.get("task")
        if isinstance(task, str):
            return cls.in_task(find_task(task))
        return cls.beside(folder.parent.parent)

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
            task=task.target,
        )


class Held:
    """What a session holds while it goes on: the lock on its seed, and its models."""

    def __init__(self, lock: FileLock, workflow: RefineWorkflow | None) -> None:
        self._lock = lock
        self._workflow = workflow
        self._closed = False

    def secrets(self) -> Sequence[str]:
        """Keys of models and programs."""
        return () if self._workflow is None else self._workflow.loaded.workflow.secrets

    async def close(self) -> None:
        """Let go of it. Doing so twice is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._workflow is not None:
                await self._workflow.loaded.models.close()
        finally:
            self._lock.release()


@dataclass(frozen=True, kw_only=True)
class OpenRefinement:
    """A refinement that holds its lock."""

    seat: Seat
    strategy: Refine
    policy: PolicyTexts
    held: Held
    others: tuple[Session, ...] = ()
    """Sessions of the same seed that were never finished."""

    @property
    def session(self) -> Session:
        """The session, as far as it has come."""
        return self.strategy.session

    @property
    def folder(self) -> Path:
        """The folder of its run."""
        return self.seat.files.place(self.session)

    @property
    def page(self) -> Path:
        """The report."""
        return self.folder / PAGE

    def setup(self) -> Setup:
        """The session as a run of one case, the seed's task."""
        target = DelegationTarget(self.policy, (), frozen=NAMES)
        task = self.seat.seed.task
        config: dict[str, Json] = {"task": self.seat.task}
        return task_setup(
            self.strategy,
            target,
            # The same name as in the run of the seed, so that the two can be compared.
            Case.single(task, name=short_id(task)),
            project=Project(kind=KIND, file=str(self.seat.home), config=config),
            resources=(self.held,),
        )

    async def run(self, listeners: Sequence[RunListener] = ()) -> Session:
        """To its end; then the lock is free."""
        try:
            with contextlib.suppress(SessionFailed):
                await launched(self._opened, listeners)
        finally:
            await self.held.close()
        return self.session

    def _opened(self) -> Run:
        setup = self.setup()
        if (self.folder / HEADER).exists():
            return resume(setup, self.folder)
        return start(
            setup, folder=self.folder, furnish=lambda spare: keep_policy(spare, self.policy)
        )


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
    ended: bool = False,
    wishes: Wishes | None = None,
) -> OpenRefinement:
    """Take the lock and begin a session, or take up an unfinished one by its id, or `last`.

    With `ended`, one that had ended is taken up too: what is journaled is gone over, and where it
    had failed it goes on. Raises SeedRefused where that cannot be; then nothing is held.
    """
    wished = wishes or Wishes()
    lock = seat.files.lock(seat.seed.run_id)
    try:
        recover(seat.home)
        others = tuple(each for each in seat.files.sessions() if each.unfinished)
        old = None if resume is None else seat.files.find(resume, ended=ended)
        if old is not None:
            settings, others = RefineSettings.model_validate(dict(old.settings)), ()
            seat = _as_it_was(seat, old)
        session = old or seat.files.new(seat.seed.run_id, settings.to_json())
        folder = seat.files.place(session)
        if old is None and seat.seed.gradient.empty:
            opened = _nothing(seat, session, settings, wished, lock)
        else:
            policy = kept_policy(folder) if (folder / POLICY).is_file() else wished.policy
            opened = _prepared(seat, session, settings, replace(wished, policy=policy), lock)
        if old is None:
            seat.files.write(session)
    except BaseException as error:
        lock.release()
        if isinstance(error, BurnishError) and not isinstance(error, SeedRefused):
            raise SeedRefused(error.message, remedy=error.remedy) from error
        raise
    return replace(opened, others=others)


def reload_refinement(folder: Path) -> Setup:
    """Set a session up again from the folder of its run."""
    seat = Seat.of_run(folder)
    return open_refinement(seat, RefineSettings(), resume=folder.name, ended=True).setup()


def _as_it_was(seat: Seat, session: Session) -> Seat:
    """A task's best may be another run by now than when the session began."""
    if seat.seed.run_id == session.seed_run_id or not isinstance(seat.place, TaskBest):
        return seat
    for run in seat.place.runs():
        seed = read_seed(run)
        if seed.run_id == session.seed_run_id:
            return replace(seat, seed=seed)
    raise SeedRefused(f"the run {session.seed_run_id} that this session refines is gone")


def _nothing(
    seat: Seat, session: Session, settings: RefineSettings, wished: Wishes, lock: FileLock
) -> OpenRefinement:
    """What ends at once, and may do so without models or a workflow."""

    def never(job: Job) -> Delegation:
        raise AssertionError(f"there is nothing to refine: {job.folder}")

    refinement = _refinement(seat, seat.seed, settings, wished)
    return OpenRefinement(
        seat=seat,
        strategy=Refine(refinement, session, delegation=never),
        policy=PolicyTexts.shipped(),
        held=Held(lock, None),
    )


def _prepared(
    seat: Seat, session: Session, settings: RefineSettings, wished: Wishes, lock: FileLock
) -> OpenRefinement:
    workflow = find_workflow(seat.seed, settings, seat.files.folder, wished.load)
    seed = comparable(seat.seed, workflow)
    policy = wished.policy or texts_for_refining(seat.seed.folder, seat.experiment)

    def delegation(job: Job) -> Delegation:
        return Delegation(
            workflow=workflow.made(job.models).within(job.envelope),
            task=job.task,
            policy=policy,
            steer=job.steer,
            seed_deliverable=job.deliverable,
            inputs=job.inputs,
            parent_run_id=job.parent_run_id,
            tags=job.tags,
            kept={
                **workflow.kept,
                "inputs": [str(path) for path in job.inputs],
                WHOLE_BUDGET: seed.budget.envelope.to_json(),
            },
        )

    made = _refinement(seat, seed, settings, wished)
    redactor = Redactor.from_environment(extra=workflow.loaded.workflow.secrets)
    tiers = settings.tiers(workflow.usual_tiers)
    refinement = replace(made, tiers=tiers, redactor=redactor)
    notes = (*settings.warnings, *_notes(refinement, workflow, seat.seed))
    refinement = replace(refinement, notes=tuple(dict.fromkeys(notes)))
    strategy = Refine(
        refinement, session, delegation=delegation, listen=wished.events, stop=wished.stop
    )
    return OpenRefinement(seat=seat, strategy=strategy, policy=policy, held=Held(lock, workflow))


def _refinement(
    seat: Seat,
    seed: Seed,
    settings: RefineSettings,
    wished: Wishes,
) -> Refinement:
    def listen(session: Session) -> None:
        place = seat.files.place(session)
        write_atomic(place / PAGE, refine_page(seed, session, place), durable=False)
        wished.listen(session)

    return Refinement(
        seed=seed,
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
