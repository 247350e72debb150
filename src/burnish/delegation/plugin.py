"""A workflow as a target, and the strategy that does one task with it."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Objective
from burnish.core.formatting import (
    Drawing,
    Facts,
    Heading,
    Page,
    Section,
    duration,
    number,
    spending,
)
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Surface
from burnish.core.trials import SplitResult, Trial
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.experiments import (
    Experiment,
    ExperimentTask,
    TaskBest,
    TaskInput,
    find_task,
)
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.delegation.record import (
    POLICY,
    SUMMARY,
    Listener,
    is_delegation,
    kept_policy,
    new_run_id,
)
from burnish.delegation.refine.gradients import mapping, text
from burnish.delegation.refine.seeds import read_seed
from burnish.delegation.result import WEIGHTS, DelegationResult, ending_words
from burnish.delegation.target import NAME, DelegationLoss, DelegationTarget, outcome_of
from burnish.delegation.team import Team
from burnish.delegation.training.setup import texts_for_refining, texts_to_read
from burnish.delegation.workflow_spec import DelegateSettings, WorkflowSpec
from burnish.runs.directory import RunRecord, loss_of
from burnish.runs.events import BASELINE, Exported, SearchEnded, SessionBegun, TrialRecorded
from burnish.runs.plugins import (
    ONE_TASK,
    Ability,
    Building,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import status_words
from burnish.runs.run import Run
from burnish.runs.spec import StrategySettings, TargetSpec
from burnish.system import Redactor, read_text
from burnish.system.sandbox import resolve

_KEY = "experiment"


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A new task with its first run."""

    folder: Path
    task: Path
    seed_deliverable: Path | None = None
    steer: str = ""


def attach(target: str, prompt: str, *, primary: str | None = None) -> Attached:
    """Add a task to an experiment; with `primary`, it continues the BEST of that task."""
    experiment, before = _experiment_and_task(target, primary)
    if before is None:
        task = experiment.add_task(prompt)
        return Attached(folder=task.runs / new_run_id(), task=task.folder.resolve())
    seed = read_seed(TaskBest(before).winner())
    source = TaskInput(task_id=before.id, run_id=seed.run_id)
    task = experiment.add_task(prompt, mode="continuation", inputs=(source,))
    steer = (
        "## CONTINUATION\n"
        f"This task goes on from the result of an earlier one, {before.id}:\n"
        f"{before.record.user_prompt}\n"
        "Its deliverable is available at: input/\n"
        "Start from these files; keep what the task below does not ask to change.\n"
    )
    return Attached(
        folder=task.runs / new_run_id(),
        task=task.folder.resolve(),
        seed_deliverable=seed.deliverable,
        steer=steer,
    )


def would_attach(target: str, *, primary: str | None = None) -> str:
    """Describe what `attach` would do; it raises the same errors and changes nothing."""
    experiment, before = _experiment_and_task(target, primary)
    if before is None:
        return f"a new one of {experiment.folder.name}"
    run_id = read_seed(TaskBest(before).winner()).run_id
    return f"a new one of {experiment.folder.name}, from run {run_id} of {before.id}"


def _experiment_and_task(
    target: str, primary: str | None
) -> tuple[Experiment, ExperimentTask | None]:
    if ":" in target:
        message = "a delegation adds a task to an experiment"
        remedy = "name the experiment alone; `burnish refine --target EXP:TASK` refines a task"
        raise ConfigError([Problem(where="--target", message=message, remedy=remedy)])
    experiment = Experiment.find(target)
    if primary is None:
        return experiment, None
    return experiment, find_task(primary) if ":" in primary else experiment.task(primary)


def attachment(task: str) -> dict[str, Json]:
    """The entry in a run's manifest for the task of an experiment."""
    return {_KEY: {"task": task}}


def offer(origin: Mapping[str, Json], run: Path) -> str:
    """Offer a finished run to its task; returns one line, empty if it has no task."""
    folder = text(mapping(origin.get(_KEY)).get("task"))
    if not folder:
        return ""
    task = ExperimentTask(Path(folder))
    why_not = TaskBest(task).offer(run)
    return f"{task.target}, {f'not its BEST: {why_not}' if why_not else 'its BEST'}"


class Delegate:
    """One trial: the task, delegated in the run's own folder."""

    name = "delegate"
    searches = False

    def __init__(
        self,
        delegation: Delegation,
        *,
        listen: Listener | None = None,
        stop: Callable[[], str] = lambda: "",
        ended: Callable[[DelegationResult], str] = lambda _: "",
    ) -> None:
        self.delegation = delegation
        self.listen = listen
        """Receives every event, also on a replay."""
        self._stop = stop
        self._ended = ended
        """Called with the result once it is recorded."""
        self.notice = ""
        """What `ended` returned."""
        self.result: DelegationResult | None = None

    @property
    def fingerprint(self) -> str:
        return short_id([self.name, 1])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        del target
        return ()

    async def search(self, run: Run) -> None:
        directory = run.directory
        self.result = result = await run.perform(
            lambda scope: delegate(
                self.delegation,
                Site(
                    folder=directory.folder,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    billed=lambda: run.billed,
                    listen=self.listen,
                    stop=lambda: self._stop() or run.closing.stop_words(),
                ),
            )
        )
        outcome = outcome_of(result, self.delegation.workflow)
        (case,) = run.dataset.train
        start = run.target.baseline
        measured = await run.evaluate(
            start, split=Split.TRAIN, cases=(replace(case, recorded=outcome),)
        )
        train = SplitResult.of(measured, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, train=train))
        ending = result.status
        if result.reason != result.status:
            ending = f"{result.status}, {ending_words(result.reason)}"
        run.tell(SearchEnded(reason=ending), f"delegation:{result.status}")
        self.notice = self._ended(result)


_KIND = "delegation"


class WorkflowTarget(DelegationTarget):
    """The unchanged policy texts and the team that uses them."""

    def __init__(self, policy: PolicyTexts, team: Team) -> None:
        super().__init__(policy, (), frozen=NAMES)
        self.team = team

    def secrets(self) -> tuple[str, ...]:
        return self.team.secrets()


class WorkflowPlugin(TargetPlugin):
    """One task for a workflow, measured by the loss of delegations."""

    kind: ClassVar[str] = _KIND
    Spec: ClassVar[type[TargetSpec]] = WorkflowSpec
    takes_cases: ClassVar[bool] = False
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    abilities: ClassVar[tuple[Ability, ...]] = (ONE_TASK,)

    runs_elsewhere: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        spec: WorkflowSpec = building.spec.target
        if _KIND not in strategy.over:
            message = f"'{strategy.name}' searches, but a workflow has nothing to change"
            remedy = "train the policy texts of workflows with a suite: `burnish optimize SUITE`"
            building.problems.add("strategy.name", message, remedy)
            return None
        if not spec.task.strip():
            building.problems.add("target.task", "the task is empty", 'name the task: --task "…"')
            return None
        team = Team(
            spec=spec,
            folder=building.folder,
            models=building.models,
            places=building.problems.places,
        )
        folder = building.run_folder
        if folder is not None and (folder / POLICY).is_file():
            policy = kept_policy(folder)
        elif spec.graded_by is not None:
            policy = texts_for_refining(Path(spec.graded_by), spec.experiment)
        else:
            policy = texts_to_read(spec.db, spec.experiment)
        isolation = building.problems.attempt("target.sandbox", lambda: resolve(spec.sandbox), None)
        weak = [] if isolation is None or not isolation.remedy else [isolation.notice]
        target = WorkflowTarget(policy, team)
        # The name is made of the task, so that runs of one task can be compared.
        case = Case.single(spec.task, name=short_id(spec.task))
        return TargetParts(
            target=target,
            dataset=Dataset(train=(case,)),
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            exporter=_nothing,
            resources=(target,),
            notes=tuple(f"commands run with {words}" for words in weak),
        )


def _nothing(candidate: Candidate, folder: Path, number: int) -> Exported:
    """Export no files: what an iteration delivered is in its own folder."""
    del candidate, folder, number
    return Exported(files={})


class TaskLines(ProgressLines):
    """The progress lines of a run about one task, which has one loss and no holdout."""

    step: ClassVar[str] = "iteration"

    def beginning(self, begun: SessionBegun) -> str:
        return f"{begun.strategy} · one task"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        del width
        return [f"{'loss':<18}{number(trial.train)}"]


class TaskPlugin(StrategyPlugin):
    """What runs about one task share: their own command, and a page that they write."""

    over: ClassVar[tuple[str, ...]] = (_KIND,)
    needs: ClassVar[tuple[type[Surface], ...]] = ()
    requires: ClassVar[tuple[Ability, ...]] = (ONE_TASK,)
    # A single call takes minutes; who will not wait for its end asks once more.
    grace_seconds: ClassVar[float] = math.inf
    page: ClassVar[str] = ""
    """The page that such a run writes."""

    def progress(self) -> ProgressLines:
        return TaskLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        return f"loss     {_losses(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        yield Heading(run.header.id, level=1)
        facts = [
            ("status", status_words(run, self.reason(run))),
            ("loss", _losses(run)),
            ("spent", spending(run.spent)),
        ]
        if run.billed != run.spent:
            facts.append(("billed", f"{spending(run.billed)} (with calls that were lost)"))
        yield Facts((*facts, ("time", duration(run.active_seconds))))
        page = run.folder / self.page
        if page.is_file():
            yield Page(tuple(read_text(page).rstrip("\n").split("\n")))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return _parts_of_loss(run)


def _parts_of_loss(run: RunRecord) -> Iterator[Drawing]:
    """What the loss of the first run and of each iteration is made of."""
    results = [(row, row.trial.train) for row in run.rows]
    measured = [(row, each.measurement.values) for row, each in results if each is not None]
    if not any(name in values for _, values in measured for name in WEIGHTS):
        return
    yield Drawing(
        title="Where the loss comes from",
        labels=tuple(row.trial.candidate.origin.note or "the first run" for row, _ in measured),
        series={
            name.replace("_", " "): tuple(
                None if values.get(name) is None else weight * values[name]
                for _, values in measured
            )
            for name, weight in WEIGHTS.items()
            if any(values.get(name) for _, values in measured)
        },
        unit="loss",
        kind="bars",
        label="iteration",
        note="The parts add up to the loss; lower is better.",
    )


class DelegatePlugin(TaskPlugin):
    """The strategy behind `burnish delegate`."""

    name: ClassVar[str] = "delegate"
    Settings: ClassVar[type[StrategySettings]] = DelegateSettings
    page: ClassVar[str] = SUMMARY

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        target = parts.target
        assert isinstance(target, WorkflowTarget)
        settings: DelegateSettings = building.spec.strategy.settings
        workflow = building.problems.as_raised(lambda: target.team.workflow(settings), None)
        if workflow is None:
            return None
        spec, origin = target.team.spec, _origin(building)
        delegation = Delegation(
            workflow=workflow,
            task=spec.task,
            policy=target.policy,
            steer=spec.steer,
            seed_deliverable=None if spec.seed_deliverable is None else Path(spec.seed_deliverable),
            inputs=tuple(map(building.path, spec.inputs)),
            kept=origin,
        )
        folder = building.run_folder
        if folder is not None and is_delegation(folder):
            delegation.check(folder, Redactor.from_environment(extra=workflow.secrets))
        strategy = Delegate(delegation, ended=lambda run: offer(origin, run.run_dir))
        return StrategyParts(strategy=strategy)


def _origin(building: Building) -> dict[str, Json]:
    spec: WorkflowSpec = building.spec.target
    settings: DelegateSettings = building.spec.strategy.settings
    origin: dict[str, Json] = {
        "file": building.spec.source.file,
        "overrides": settings.to_json(),
        "inputs": [str(building.path(each).resolve()) for each in spec.inputs],
    }
    if spec.experiment_task is not None:
        origin |= {**attachment(spec.experiment_task), "seed_deliverable": spec.seed_deliverable}
    return origin


def _losses(run: RunRecord) -> str:
    losses = (number(loss_of(row, "train")) for row in (run.baseline, run.best))
    return " → ".join(dict.fromkeys(losses))
