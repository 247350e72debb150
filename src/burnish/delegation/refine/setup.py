"""Opening a refinement: seed, workflow, lock and session, new or going on."""

import contextlib
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, SeedRefused
from burnish.delegation.delegation import Delegation
from burnish.delegation.experiments import ExperimentTask, TaskBest, find_task
from burnish.delegation.home import keep_policy
from burnish.delegation.plugin import WorkflowTarget
from burnish.delegation.refine.gradients import refinement_prefix
from burnish.delegation.refine.loop import IterationJob, Refine, Refinement, SessionFailed
from burnish.delegation.refine.report import PAGE, refine_page
from burnish.delegation.refine.seeds import WHOLE_BUDGET, Seed, halved, read_seed
from burnish.delegation.refine.sessions import (
    SESSIONS,
    BestPlace,
    SeedBest,
    SeedLock,
    Session,
    SessionFiles,
)
from burnish.delegation.refine.settings import RefineSettings
from burnish.delegation.refine.workflows import RefineWorkflow, find_workflow
from burnish.delegation.runs import describe_task
from burnish.delegation.team import Team
from burnish.models.factory import Models
from burnish.projects.description import STRATEGY
from burnish.projects.dialects import Document
from burnish.projects.launch import launched, reload_project
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Listener as RunListener
from burnish.runs.plugins import Building, StrategyParts, TargetParts
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.system import Redactor, write_atomic

_TASK_SESSIONS = "session_"
_NOTHING: dict[str, Json] = {"workflow": {"name": "refinement"}}
"""What stands for the workflow where there is nothing to refine."""


# -- what is refined, and where --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Seat:
    """Where a refinement is at home: beside its seed, or in a task."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    home: Path
    """The folder that BEST lies in."""
    task: str = ""
    """EXP:TASK where it is in a task."""

    @property
    def experiment(self) -> str | None:
        """The one that the task belongs to."""
        return self.task.partition(":")[0] or None

    @classmethod
    def of(cls, settings: RefineSettings) -> Self:
        """As a description names it."""
        if settings.task:
            return cls.in_task(find_task(settings.task))
        return cls.beside(Path(settings.run))

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

    def lock(self) -> SeedLock:
        """Whoever refines holds it."""
        return SeedLock(files=self.files, run_id=self.seed.run_id, home=self.home)

    def as_it_was(self, session: Session) -> "Seat":
        """A task's best may be another run by now than when the session began."""
        if self.seed.run_id == session.seed_run_id or not isinstance(self.place, TaskBest):
            return self
        for run in self.place.runs():
            seed = read_seed(run)
            if seed.run_id == session.seed_run_id:
                return replace(self, seed=seed)
        raise SeedRefused(f"the run {session.seed_run_id} that this session refines is gone")

    def described(self, settings: RefineSettings, folder: Path) -> RunDescription:
        """A refinement; where its workflow is not known, a plain one is written to `folder`."""
        if self.seed.gradient.empty:
            document = Document.of_flags(folder, _NOTHING)
        else:
            document, settings = find_workflow(self.seed, settings, folder)
        values = {name: getattr(settings, name) for name in settings.model_fields_set}
        place = {"task": self.task} if self.task else {"run": str(self.seed.folder)}
        graded = {"graded_by": str(self.seed.folder)}
        return describe_task(
            document,
            {STRATEGY: Refine.name, "task": self.seed.task},
            target={**graded, "experiment": self.experiment} if self.task else graded,
            settings={**values, **place},
        )


# -- building it from a description ----------------------------------------------------------


def refinement_parts(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The session that a description is about: a new one, or that of a run that goes on."""
    target, settings = parts.target, building.spec.strategy.settings
    assert isinstance(target, WorkflowTarget)
    assert isinstance(settings, RefineSettings)
    if not (settings.run or settings.task):
        message = "it is not said which run is to be refined"
        building.problems.add("strategy.name", message, "use `burnish refine RUN_DIR`")
        return None
    seat, folder = Seat.of(settings), building.run_folder
    if folder is None:
        session = seat.files.new(seat.seed.run_id, settings.to_json())
    else:
        session = seat.files.find(folder.name, ended=True)
        seat = seat.as_it_was(session)
    if seat.seed.gradient.empty:
        refinement = _refinement(seat, seat.seed, settings)
        return StrategyParts(
            strategy=Refine(refinement, session, delegation=_never, lock=seat.lock())
        )
    workflow = building.problems.as_raised(lambda: RefineWorkflow.of(target.team, settings), None)
    if workflow is None:
        return None
    refinement = building.problems.as_raised(lambda: _prepared(seat, workflow), None)
    if refinement is None:
        return None
    origin: dict[str, Json] = {
        "file": building.spec.source.file,
        "overrides": workflow.overrides.to_json(),
        "inputs": [],
        WHOLE_BUDGET: refinement.seed.budget.envelope.to_json(),
    }

    def delegation(job: IterationJob) -> Delegation:
        return Delegation(
            workflow=workflow.made(job.models).within(job.envelope),
            task=job.task,
            policy=target.policy,
            steer=job.steer,
            seed_deliverable=job.deliverable,
            inputs=job.inputs,
            parent_run_id=job.parent_run_id,
            tags=job.tags,
            kept={**origin, "inputs": [str(path) for path in job.inputs]},
        )

    strategy = Refine(refinement, session, delegation=delegation, lock=seat.lock())
    return StrategyParts(strategy=strategy)


def _never(job: IterationJob) -> Delegation:
    raise AssertionError(f"there is nothing to refine: {job.folder}")


def _prepared(seat: Seat, workflow: RefineWorkflow) -> Refinement:
    """With a workflow; every model that is named is looked up here."""
    settings, seed = workflow.settings, workflow.comparable(seat.seed)
    refinement = replace(
        _refinement(seat, seed, settings),
        tiers=settings.tiers(workflow.usual_tiers),
        redactor=Redactor.from_environment(extra=workflow.base.secrets),
    )
    notes = (*settings.warnings, *_notes(refinement, workflow, seat.seed))
    return replace(refinement, notes=tuple(dict.fromkeys(notes)))


def _refinement(seat: Seat, seed: Seed, settings: RefineSettings) -> Refinement:
    def listen(session: Session) -> None:
        place = seat.files.place(session)
        write_atomic(place / PAGE, refine_page(seed, session, place), durable=False)

    return Refinement(
        seed=seed,
        files=seat.files,
        place=seat.place,
        iterations=settings.iterations,
        models=settings.models,
        listen=listen,
    )


def _notes(refinement: Refinement, workflow: RefineWorkflow, original: Seed) -> Iterator[str]:
    """What a reader of the losses should know."""
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


# -- opening it ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RefineOptions:
    """What whoever opens a refinement wants of it."""

    models: Callable[[], Models] | None = None
    """Models that stand in for the real ones, new ones for each session."""
    listen: Callable[[Session], None] = lambda _: None
    stop: Callable[[], str] = lambda: ""


@dataclass(frozen=True, kw_only=True)
class OpenRefinement:
    """A refinement that holds its lock."""

    seat: Seat
    setup: Setup
    strategy: Refine
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

    async def run(self, listeners: Sequence[RunListener] = ()) -> Session:
        """To its end; then the lock is free."""
        try:
            with contextlib.suppress(SessionFailed):
                await launched(self._opened, listeners)
        finally:
            self.strategy.lock.release()
        return self.session

    def _opened(self) -> Run:
        if (self.folder / HEADER).exists():
            return resume(self.setup, self.folder)
        target = self.setup.target
        assert isinstance(target, WorkflowTarget)
        return start(
            self.setup,
            folder=self.folder,
            furnish=lambda spare: keep_policy(spare, target.policy),
        )


def open_refinement(
    seat: Seat,
    settings: RefineSettings,
    *,
    resume: str | None = None,
    options: RefineOptions | None = None,
) -> OpenRefinement:
    """Take the lock and begin a session, or take up an unfinished one by its id, or `last`.

    Raises SeedRefused where that cannot be; then nothing is held.
    """
    lock, chosen = seat.lock(), options or RefineOptions()
    lock.take()
    try:
        others = tuple(each for each in seat.files.sessions() if each.unfinished)
        folder: Path | None = None
        if resume is not None:
            session = seat.files.find(resume)
            others, folder, seat = (), seat.files.place(session), seat.as_it_was(session)
            settings = RefineSettings.model_validate(dict(session.settings))
        models = None if chosen.models is None else chosen.models()
        if folder is not None and (folder / HEADER).exists():
            setup = reload_project(folder, {}, models=models).setup
        else:  # a session that was killed before its run began is described once more
            described = seat.described(settings, seat.files.folder)
            setup = build(described, models=models, folder=folder)
        strategy = setup.strategy
        assert isinstance(strategy, Refine)
        strategy.lock, strategy.watch, strategy.stop = lock, chosen.listen, chosen.stop
        if folder is None:
            seat.files.write(strategy.session)
    except BaseException as error:
        lock.release()
        if isinstance(error, BurnishError) and not isinstance(error, SeedRefused):
            raise SeedRefused(error.message, remedy=error.remedy) from error
        raise
    return OpenRefinement(seat=seat, setup=setup, strategy=strategy, others=others)


# -- what it would do ------------------------------------------------------------------------


def plan_lines(seat: Seat, settings: RefineSettings, options: RefineOptions) -> Iterator[str]:
    """What a refinement would do, before anything is paid or written."""
    seed = seat.seed
    yield f"seed     {seed.run_id}, loss {seed.loss:.4f}"
    yield f"files    {seed.deliverable}"
    if seed.gradient.empty:
        yield "nothing to refine"
        return
    with _planned(seat, settings, options) as workflow:
        for k, (tier, made) in enumerate(workflow.iterations(seed), start=1):
            who = ", ".join(f"{role} {label}" for role, label in made.models.items())
            yield f"[{k}]{tier and f' {tier}'} {who or 'a program'}"
        yield from (f"! {note}" for note in _planned_notes(workflow))
    yield from halved(seed.budget).lines()
    yield "the manager's first plan would begin with:"
    yield from (f"  {line}" for line in refinement_prefix(seed.gradient).splitlines())
    yield "nothing was run or paid; leave out --dry-run to start"


def plan_json(seat: Seat, settings: RefineSettings, options: RefineOptions) -> dict[str, Json]:
    """The same for programs."""
    seed = seat.seed
    plan: dict[str, Json] = {
        "dry_run": True,
        "seed_run_id": seed.run_id,
        "seed_loss": round(seed.loss, 6),
        "deliverable": str(seed.deliverable),
        "gradient": seed.gradient.to_json(),
        "budget": halved(seed.budget).to_json(),
        "iterations": [],
        "notes": [],
    }
    if seed.gradient.empty:
        return plan
    with _planned(seat, settings, options) as workflow:
        plan["iterations"] = [
            {"k": k, "tier": tier or None, "models": dict[str, Json](made.models)}
            for k, (tier, made) in enumerate(workflow.iterations(seed), start=1)
        ]
        plan["notes"] = list(_planned_notes(workflow))
    return plan


@contextlib.contextmanager
def _planned(
    seat: Seat, settings: RefineSettings, options: RefineOptions
) -> Generator[RefineWorkflow, None, None]:
    """What it would run with; a plain workflow file is written to a place that goes again."""
    with tempfile.TemporaryDirectory(prefix="burnish-refine-") as folder:
        try:
            description = seat.described(settings, Path(folder))
            spec = description.spec
            team = Team(
                spec=spec.target,
                folder=Path(spec.source.folder),
                models=spec.models.models() if options.models is None else options.models(),
                places=description.places,
            )
            yield RefineWorkflow.of(team, spec.strategy.settings)
        except (ConfigError, FileTrouble) as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error


def _planned_notes(workflow: RefineWorkflow) -> Iterator[str]:
    yield from (*workflow.settings.warnings, *workflow.notes, *workflow.base.notes())
