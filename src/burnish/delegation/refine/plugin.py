"""The strategy `refine` as a plug-in: opening a refinement, its progress lines and its report."""

import contextlib
import tempfile
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

from burnish.core.content import Json
from burnish.core.errors import BurnishError, ConfigError, FileTrouble, SeedRefused
from burnish.core.formatting import counted, number, spending
from burnish.delegation.delegation import Delegation
from burnish.delegation.experiments import ExperimentTask, TaskBest, find_task
from burnish.delegation.plugin import TaskLines, TaskPlugin, WorkflowTarget
from burnish.delegation.policy import PolicyTexts
from burnish.delegation.record import POLICY, keep_policy, kept_policy
from burnish.delegation.refine.gradients import refinement_prefix
from burnish.delegation.refine.loop import REASONS, IterationJob, Refine, Refinement, SessionFailed
from burnish.delegation.refine.seeds import WHOLE_BUDGET, Ruler, Seed, halved, read_seed, ruler_for
from burnish.delegation.refine.sessions import (
    SESSIONS,
    BestPlace,
    SeedBest,
    SeedLock,
    Session,
    SessionFiles,
)
from burnish.delegation.refine.setup import RefineSettings, RefineWorkflow, find_workflow
from burnish.delegation.runs import PAGE, describe_task, refine_page
from burnish.delegation.team import Team
from burnish.models.addresses import addresses_of
from burnish.models.factory import Models
from burnish.projects.description import STRATEGY
from burnish.projects.dialects import Document
from burnish.projects.launch import launched, reload_project
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Listener as RunListener
from burnish.runs.events import TrialRecorded
from burnish.runs.plugins import Building, StrategyParts, TargetParts
from burnish.runs.progress import (
    ProgressLines,
    model_lines,
    outcome,
    shorten_after,
    spent_words,
)
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.runs.spec import StrategySettings
from burnish.system import Redactor, write_inside
from burnish.system.sandbox import resolve


@dataclass(frozen=True, kw_only=True)
class Seat:
    """The place of a refinement: beside its seed, or in a task."""

    seed: Seed
    files: SessionFiles
    place: BestPlace
    home: Path
    """The folder that contains BEST."""
    task: str = ""
    """EXP:TASK if it is in a task."""

    @classmethod
    def of(cls, settings: RefineSettings) -> Self:
        """The seat that the settings name."""
        if settings.task:
            return cls.in_task(find_task(settings.task))
        return cls.beside(Path(settings.run))

    @classmethod
    def beside(cls, folder: Path) -> Self:
        """The seat of a run; raises SeedRefused if it cannot be refined."""
        seed = read_seed(folder)
        files = SessionFiles(folder=seed.folder / SESSIONS)
        return cls(seed=seed, files=files, place=SeedBest(seed.folder), home=seed.folder)

    @classmethod
    def in_task(cls, task: ExperimentTask) -> Self:
        """The seat of a task's best run; sessions and BEST are in the task's folder."""
        best = TaskBest(task)
        files = SessionFiles(folder=task.refinements, prefix="session_", pointer=True)
        seed = read_seed(best.winner())
        return cls(seed=seed, files=files, place=best, home=task.folder, task=task.target)

    def lock(self) -> SeedLock:
        """The lock to hold while refining."""
        return SeedLock(files=self.files, run_id=self.seed.run_id, home=self.home)

    def as_it_was(self, session: Session) -> "Seat":
        """The seat with the session's seed, since a task's best run may have changed."""
        if self.seed.run_id == session.seed_run_id or not isinstance(self.place, TaskBest):
            return self
        for run in self.place.runs():
            seed = read_seed(run)
            if seed.run_id == session.seed_run_id:
                return replace(self, seed=seed)
        raise SeedRefused(f"the run {session.seed_run_id} that this session refines is gone")

    def described(self, settings: RefineSettings, folder: Path) -> RunDescription:
        """Describe a refinement; if its workflow is unknown, a plain one is written to `folder`."""
        if self.seed.gradient.empty:
            document = Document.of_flags(folder, {"workflow": {"name": "refinement"}})
        else:
            document, settings = find_workflow(self.seed, settings, folder)
        values = {name: getattr(settings, name) for name in settings.model_fields_set}
        place = {"task": self.task} if self.task else {"run": str(self.seed.folder)}
        target = {"graded_by": str(self.seed.folder)}
        if self.task:
            target["experiment"] = self.task.partition(":")[0]
        return describe_task(
            document,
            {STRATEGY: Refine.name, "task": self.seed.task},
            target=target,
            settings={**values, **place},
        )


def _refinement_parts(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The session of a description: a new one, or that of a resumed run."""
    target, settings = parts.target, building.spec.strategy.settings
    assert isinstance(target, WorkflowTarget)
    assert isinstance(settings, RefineSettings)
    if not (settings.run or settings.task):
        message = "no run to refine is named"
        building.problems.add("strategy.name", message, "use `burnish refine RUN_DIR`")
        return None
    seat, folder = Seat.of(settings), building.run_folder
    if folder is None:
        session = seat.files.new(seat.seed.run_id, settings.to_json())
    else:
        session = seat.files.find(folder.name, ended=True)
        seat = seat.as_it_was(session)
        most = session.most_iterations or settings.iterations
        settings = settings.model_copy(update={"iterations": most})
    if seat.seed.gradient.empty:

        def never(job: IterationJob) -> Delegation:
            raise AssertionError(f"there is nothing to refine: {job.folder}")

        refinement = _refinement(seat, seat.seed, settings)
        strategy = Refine(refinement, session, delegation=never, lock=seat.lock())
        return StrategyParts(strategy=strategy)

    def prepare() -> tuple[RefineWorkflow, Refinement]:
        workflow = RefineWorkflow.of(target.team, settings)
        return workflow, _prepared(seat, workflow, target.policy)

    prepared = building.problems.as_raised(prepare, None)
    if prepared is None:
        return None
    workflow, refinement = prepared
    kept: dict[str, Json] = {
        "file": building.spec.source.file,
        "overrides": workflow.overrides.to_json(),
        "inputs": [],
        WHOLE_BUDGET: refinement.seed.budget.envelope.to_json(),
    }
    delegation = partial(_delegation, workflow, target.policy, kept)
    strategy = Refine(refinement, session, delegation=delegation, lock=seat.lock())
    return StrategyParts(strategy=strategy)


def _delegation(
    workflow: RefineWorkflow, policy: PolicyTexts, kept: Mapping[str, Json], job: IterationJob
) -> Delegation:
    return Delegation(
        workflow=workflow.for_models(job.models).within(job.envelope),
        task=job.task,
        policy=policy,
        steer=job.steer,
        seed_deliverable=job.deliverable,
        inputs=job.inputs,
        parent_run_id=job.parent_run_id,
        tags=job.tags,
        kept={**kept, "inputs": [str(path) for path in job.inputs]},
    )


def _prepared(seat: Seat, workflow: RefineWorkflow, policy: PolicyTexts) -> Refinement:
    settings, seed = workflow.settings, workflow.comparable(seat.seed)
    refinement = replace(
        _refinement(seat, seed, settings),
        ruler=_ruler(seat, workflow, policy),
        tiers=settings.tiers(workflow.usual_tiers),
        redactor=Redactor.from_environment(extra=workflow.base.secrets),
    )
    notes = (
        *settings.warnings,
        *_notes(refinement, workflow, seat.seed),
        *_text_notes(seat.seed, policy),
    )
    return replace(refinement, notes=tuple(dict.fromkeys(notes)))


def _text_notes(seed: Seed, policy: PolicyTexts) -> Iterator[str]:
    """Whether iterations read other policy texts than the seed's."""
    if not (seed.folder / POLICY).is_file():
        yield "the policy texts are the current ones: the run does not contain its own"
        return
    own = kept_policy(seed.folder).texts
    if changed := [name for name in policy.texts if policy.texts[name] != own.get(name)]:
        names = ", ".join(changed)
        yield f"these policy texts have changed since the run, and are current: {names}"


def _ruler(seat: Seat, workflow: RefineWorkflow, policy: PolicyTexts) -> Ruler | None:
    """What grades the seed and the iterations; None if the seed's own grades are used."""
    seed = workflow.comparable(seat.seed)
    graded = Delegation(
        workflow=workflow.base.within(seed.budget.envelope),
        task=seed.task,
        policy=policy,
        inputs=seed.inputs,
    )
    return ruler_for(seat.seed, graded)


def _refinement(seat: Seat, seed: Seed, settings: RefineSettings) -> Refinement:
    def listen(session: Session) -> None:
        place = seat.files.place(session)
        write_inside(place, PAGE, refine_page(seed, session, place), durable=False)

    return Refinement(
        seed=seed,
        files=seat.files,
        place=seat.place,
        iterations=settings.iterations,
        models=settings.models,
        allow_missing_files=settings.allow_missing_files,
        listen=listen,
    )


def _notes(refinement: Refinement, workflow: RefineWorkflow, original: Seed) -> Iterator[str]:
    yield from workflow.notes
    for k in range(1, refinement.iterations + 1):
        yield from workflow.for_models(refinement.models_of(k)).notes()
    used, there = refinement.seed.signals, original.signals
    pairs = (
        ("evaluated", used.eval_score, there.eval_score),
        ("criticised", used.critique_score, there.critique_score),
    )
    for word, now, before in pairs:
        if now is None and before is not None:
            yield f"the seed was {word}, but iterations are not: that part is neutral for both"
    if refinement.ruler is not None:
        yield from _grading_notes(refinement.ruler)


def _grading_notes(ruler: Ruler) -> Iterator[str]:
    yield "the seed is graded again, so that one critic and the same metrics grade all"
    if names := ", ".join(ruler.left_out):
        yield f"left out of both sides, since the seed cannot be measured by it: {names}"


@dataclass(frozen=True, kw_only=True)
class RefineOptions:
    """Options for opening a refinement."""

    models: Callable[[], Models] | None = None
    """Makes models that replace the real ones, new for each session."""
    listen: Callable[[Session], None] = lambda _: None
    stop: Callable[[], str] = lambda: ""


async def _nothing() -> None:
    """Nobody waits for the end."""


@dataclass(frozen=True, kw_only=True)
class OpenRefinement:
    """A refinement that holds its lock."""

    seat: Seat
    setup: Setup
    strategy: Refine
    others: tuple[Session, ...] = ()
    """Sessions of the same seed that were never finished."""
    ended: Callable[[], Awaitable[None]] = _nothing
    """Awaited when the session has ended, however it did."""

    @property
    def session(self) -> Session:
        return self.strategy.session

    @property
    def folder(self) -> Path:
        return self.seat.files.place(self.session)

    @property
    def page(self) -> Path:
        return self.folder / PAGE

    async def run(self, listeners: Sequence[RunListener] = ()) -> Session:
        """Run the session to its end and release the lock."""
        try:
            with contextlib.suppress(SessionFailed):
                await launched(self._opened, listeners)
        finally:
            self.strategy.lock.release()
            await self.ended()
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
    """Take the lock and begin a session, or resume an unfinished one by its id or `last`.

    A resumed session may get another number of iterations; its other settings stay. Raises
    SeedRefused if that fails; then no lock is held.
    """
    lock, chosen = seat.lock(), options or RefineOptions()
    lock.take()
    try:
        others = tuple(each for each in seat.files.sessions() if each.resumable)
        folder, session = None, None
        if resume is not None:
            session = _resumed(seat.files, resume, settings)
            others, folder, seat = (), seat.files.place(session), seat.as_it_was(session)
            fields = {**session.settings, **session.resumed_with}
            settings = RefineSettings.model_validate(fields)
        models = None if chosen.models is None else chosen.models()
        if folder is not None and (folder / HEADER).exists():
            setup = reload_project(folder, {}, models=models).setup
        else:  # a session that was killed before its run began is described once more
            described = seat.described(settings, seat.files.folder)
            setup = build(described, models=models, folder=folder)
        strategy = setup.strategy
        assert isinstance(strategy, Refine)
        strategy.lock, strategy.watch, strategy.stop = lock, chosen.listen, chosen.stop
        if session is None:
            seat.files.write(strategy.session)
        else:
            strategy.refinement = _lengthened(strategy.refinement, session)
            strategy.session = session
    except BaseException as error:  # whatever it was, the lock is released
        lock.release()
        if isinstance(error, BurnishError) and not isinstance(error, SeedRefused):
            raise SeedRefused(error.message, remedy=error.remedy) from error
        raise
    return OpenRefinement(seat=seat, setup=setup, strategy=strategy, others=others)


def _resumed(files: SessionFiles, name: str, settings: RefineSettings) -> Session:
    """The session to continue, with the number of iterations that the settings name, if any."""
    if "iterations" not in settings.model_fields_set:
        return files.find(name)
    most = settings.iterations
    session = files.find(name, iterations=most)
    if most < len(session.iterations):
        run = counted(len(session.iterations), "iteration")
        raise SeedRefused(f"{run} were run already", remedy=f"name more than {most}")
    return replace(session, resumed_with={"iterations": most})


def _lengthened(refinement: Refinement, session: Session) -> Refinement:
    """The refinement with the session's number of iterations.

    Refuses one that gives other models to those that were run.
    """
    most = session.most_iterations or refinement.iterations
    longer = replace(refinement, iterations=most)
    run = range(1, len(session.iterations) + 1)
    if any(longer.models_of(k) != refinement.models_of(k) for k in run):
        raise SeedRefused(
            f"with {most} iterations, those that were run would have other models",
            remedy="tiers divide the iterations: resume it with as many as before, or refine again",
        )
    return longer


def plan_lines(seat: Seat, settings: RefineSettings, options: RefineOptions) -> Iterator[str]:
    """What a refinement would do, for `--dry-run`."""
    seed = seat.seed
    yield f"seed     {seed.run_id}, loss {seed.loss:.4f}"
    yield f"files    {seed.deliverable}"
    if seed.gradient.empty:
        yield "nothing to refine"
        return
    with _planned(seat, settings, options) as workflow:
        forms: dict[str, str] = {}
        for k, (tier, made) in enumerate(workflow.iterations(seed), start=1):
            forms |= made.answer_forms
            who = ", ".join(f"{role} {label}" for role, label in made.models.items())
            yield f"[{k}]{tier and f' {tier}'} {who or 'a program'}"
        yield from model_lines(workflow.team.models.uses(), column=9)
        yield from (f"answers  {label}: {words}" for label, words in forms.items())
        yield f"sandbox  {resolve(workflow.base.sandbox).notice}"
        yield from (f"! {note}" for note in workflow.all_notes)
        yield from (f"! {note}" for note in _planned_grading(seat, workflow))
    yield from halved(seed.budget).lines()
    yield "the manager's first plan would begin with:"
    yield from (f"  {line}" for line in refinement_prefix(seed.gradient).splitlines())
    yield "nothing was run or paid; leave out --dry-run to start"


def plan_json(seat: Seat, settings: RefineSettings, options: RefineOptions) -> dict[str, Json]:
    """The same as JSON."""
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
        iterations = [*workflow.iterations(seed)]
        plan["iterations"] = [
            {"k": k, "tier": tier or None, "models": dict[str, Json](made.models)}
            for k, (tier, made) in enumerate(iterations, start=1)
        ]
        forms = [each for _, made in iterations for each in made.answer_forms.items()]
        plan["addresses"] = [each.to_json() for each in addresses_of(workflow.team.models.uses())]
        plan["answers"] = dict[str, Json](forms)
        plan["sandbox"] = resolve(workflow.base.sandbox).notice
        plan["notes"] = [*workflow.all_notes, *_planned_grading(seat, workflow)]
    return plan


def _planned_grading(seat: Seat, workflow: RefineWorkflow) -> Iterator[str]:
    """That the seed would be graded again, and what that costs."""
    ruler = _ruler(seat, workflow, PolicyTexts.shipped())
    if ruler is None:
        return
    yield from _grading_notes(ruler)
    times = workflow.settings.iterations + 1
    whole, iterations = spending(ruler.cost.times(times)), counted(times - 1, "iteration")
    yield f"grading costs about {whole}: once for the seed and once for each of {iterations}"


@contextlib.contextmanager
def _planned(
    seat: Seat, settings: RefineSettings, options: RefineOptions
) -> Generator[RefineWorkflow, None, None]:
    """The workflow that it would run with; a plain one is written to a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="burnish-refine-") as folder:
        try:
            description = seat.described(settings, Path(folder))
            models = None if options.models is None else options.models()
            team = Team.of(description, models)
            yield RefineWorkflow.of(team, description.spec.strategy.settings)
        except (ConfigError, FileTrouble) as error:
            raise SeedRefused(error.message, remedy=error.remedy) from error


class _RefineLines(TaskLines):
    """One line per iteration, after that of the seed."""

    step: ClassVar[str] = "loop"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        del width
        return [f"{'seed':<18}loss {number(trial.train)}"]

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One iteration in one line."""
        spent = " ".join(spent_words(trial)).strip()
        head = f"{trial.note:<18}loss {number(trial.train)}  {outcome(trial)}  {spent}  "
        return shorten_after(head, trial.reason, width)


class RefinePlugin(TaskPlugin):
    """The strategy behind `burnish refine`."""

    name: ClassVar[str] = "refine"
    Settings: ClassVar[type[StrategySettings]] = RefineSettings
    page: ClassVar[str] = PAGE
    ends: ClassVar[Mapping[str, str]] = REASONS

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        return _refinement_parts(building, parts)

    def progress(self) -> ProgressLines:
        return _RefineLines(self.ends)
