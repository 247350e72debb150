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
from burnish.core.formatting import Facts, Heading, Page, Section, duration, number, spending
from burnish.core.protocols import Role, Target
from burnish.core.surfaces import Candidate, Surface
from burnish.core.trials import SplitResult, Trial
from burnish.delegation.delegation import Delegation, Site, delegate
from burnish.delegation.envelope import Stopwatch
from burnish.delegation.experiments import (
    Experiment,
    ExperimentTask,
    TaskBest,
    TaskInput,
    find_task,
)
from burnish.delegation.home import POLICY, is_delegation, kept_policy, new_run_id
from burnish.delegation.policy import NAMES, PolicyTexts
from burnish.delegation.record import SUMMARY, Listener
from burnish.delegation.refine.gradients import mapping, text
from burnish.delegation.refine.seeds import read_seed
from burnish.delegation.result import DelegationResult, ending_words
from burnish.delegation.target import NAME, Account, DelegationLoss, DelegationTarget
from burnish.delegation.team import Team
from burnish.delegation.training.registries import texts_for_refining, texts_to_read
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

_KEY = "experiment"


@dataclass(frozen=True, kw_only=True)
class Attached:
    """A new task with its first run."""

    folder: Path
    """Of the run."""
    task: Path
    """Of the task."""
    seed_deliverable: Path | None = None
    steer: str = ""


def attach(target: str, prompt: str, *, primary: str | None = None) -> Attached:
    """Add a task to an experiment; with `primary`, a task whose BEST it goes on from."""
    experiment, before = _experiment_and_task(target, primary)
    if before is None:
        return _attached(experiment.add_task(prompt))
    seed = read_seed(TaskBest(before).winner())
    source = TaskInput(task_id=before.id, run_id=seed.run_id)
    task = experiment.add_task(prompt, mode="continuation", inputs=(source,))
    return _attached(task, seed_deliverable=seed.deliverable, steer=_steer(before))


def would_attach(target: str, *, primary: str | None = None) -> str:
    """What `attach` would do, in words; it raises where that would, and changes nothing."""
    experiment, before = _experiment_and_task(target, primary)
    if before is None:
        return f"a new one of {experiment.folder.name}"
    best = read_seed(TaskBest(before).winner())
    return f"a new one of {experiment.folder.name}, from run {best.run_id} of {before.id}"


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
    """What the manifest of a run says of the task of an experiment, by its folder."""
    return {_KEY: {"task": task}}


def offer(origin: Mapping[str, Json], run: Path) -> str:
    """Offer a finished run to its task, in one line; empty where it belongs to none."""
    folder = text(mapping(origin.get(_KEY)).get("task"))
    if not folder:
        return ""
    task = ExperimentTask(Path(folder))
    why_not = TaskBest(task).offer(run)
    return f"{task.target}, {f'not its BEST: {why_not}' if why_not else 'its BEST'}"


def _attached(
    task: ExperimentTask, *, seed_deliverable: Path | None = None, steer: str = ""
) -> Attached:
    return Attached(
        folder=task.runs / new_run_id(),
        task=task.folder.resolve(),
        seed_deliverable=seed_deliverable,
        steer=steer,
    )


def _steer(before: ExperimentTask) -> str:
    return (
        "## CONTINUATION\n"
        f"This task goes on from the result of an earlier one, {before.id}:\n"
        f"{before.record.user_prompt}\n"
        "Its deliverable is available at: input/\n"
        "Start from these files; keep what the task below does not ask to change.\n"
    )


# -- The strategy `delegate` ----------------------------------------------------------------------


class Delegate:
    """One trial: the task, delegated in the run's own folder.

    A delegation is a run like any other, so it is journaled, listed, resumed and compared like one.
    """

    name = "delegate"

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
        """Is told what happens, on a replay too."""
        self._stop = stop
        self._ended = ended
        """Is shown the result once it is on record."""
        self.notice = ""
        """What became of the result then, in words."""
        self.result: DelegationResult | None = None
        """What came of it, once the search is over."""

    @property
    def fingerprint(self) -> str:
        """A hash of its version; what is delegated is the target's and the data's."""
        return short_id([self.name, 1])

    @property
    def roles(self) -> Sequence[Role[Any, Any]]:
        """It proposes nothing; the roles of the workflow are its own."""
        return ()

    def mismatch(self, target: Target) -> Sequence[Problem]:
        """It brings its own target."""
        del target
        return ()

    async def search(self, run: Run) -> None:
        """Delegate, and record the loss."""
        directory = run.directory
        self.result = result = await run.perform(
            lambda scope: delegate(
                self.delegation,
                Site(
                    folder=directory.folder,
                    effects=scope,
                    children=directory.children,
                    redactor=directory.redactor,
                    clock=Stopwatch(directory.journal.active_before),
                    billed=lambda: run.billed,
                    listen=self.listen,
                    stop=lambda: self._stop() or run.stop_words(),
                ),
            )
        )
        outcome = Account(result=result, workflow=self.delegation.workflow).outcome()
        (case,) = run.dataset.train
        start = run.target.baseline
        measured = await run.evaluate(
            start, split=Split.TRAIN, cases=(replace(case, recorded=outcome),)
        )
        train = SplitResult.of(measured, run.objective)
        run.record(Trial(candidate=start, phase=BASELINE, train=train))
        run.tell(SearchEnded(reason=_ending(result)), f"delegation:{result.status}")
        self.notice = self._ended(result)


def _ending(result: DelegationResult) -> str:
    if result.reason == result.status:
        return result.status
    return f"{result.status}, {ending_words(result.reason)}"


# -- A workflow as a target -----------------------------------------------------------------------


_KIND = "delegation"


class WorkflowTarget(DelegationTarget):
    """The policy texts as they are, and the team that works by them."""

    def __init__(self, policy: PolicyTexts, team: Team) -> None:
        super().__init__(policy, (), frozen=NAMES)
        self.team = team

    def secrets(self) -> tuple[str, ...]:
        """Keys of models and programs."""
        return self.team.secrets()


class WorkflowPlugin(TargetPlugin):
    """One task for a workflow, measured by the loss of delegations."""

    kind: ClassVar[str] = _KIND
    Spec: ClassVar[type[TargetSpec]] = WorkflowSpec
    takes_cases: ClassVar[bool] = False
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    abilities: ClassVar[tuple[Ability, ...]] = (ONE_TASK,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The team, the policy texts that it reads, and the task as the only case."""
        spec: WorkflowSpec = building.spec.target
        if _KIND not in strategy.over:
            message = f"'{strategy.name}' searches, and a workflow has nothing that it could change"
            remedy = "train the policy texts of workflows with a suite: burnish optimize SUITE"
            building.problems.add("strategy.name", message, remedy)
            return None
        if not spec.task.strip():
            building.problems.add("target.task", "it is empty", 'say what to do: --task "…"')
            return None
        team = Team(
            spec=spec,
            folder=building.folder,
            models=building.models,
            places=building.problems.places,
        )
        target = WorkflowTarget(_policy(building), team)
        # The name is made of the task, so that runs of one task can be compared.
        case = Case.single(spec.task, name=short_id(spec.task))
        return TargetParts(
            target=target,
            dataset=Dataset(train=(case,)),
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            exporter=_nothing,
            resources=(target,),
        )


def _nothing(candidate: Candidate, folder: Path, number: int) -> Exported:
    """A candidate is what an iteration was told; what it delivered lies in its own folder."""
    del candidate, folder, number
    return Exported(files={})


def _policy(building: Building) -> PolicyTexts:
    """The texts that the run was started with, else those in force."""
    spec: WorkflowSpec = building.spec.target
    folder = building.run_folder
    if folder is not None and (folder / POLICY).is_file():
        return kept_policy(folder)
    if spec.graded_by is not None:
        return texts_for_refining(Path(spec.graded_by), spec.experiment)
    return texts_to_read(spec.db, spec.experiment)


class TaskLines(ProgressLines):
    """The lines of a run about one task: there is one loss, and nothing is held out."""

    stopping = "stopping after this iteration; once more stops at once"

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        return f"{begun.strategy} · one task"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """The loss of what was delegated."""
        del width
        return [f"{'loss':<18}{number(trial.train)}"]


class TaskPlugin(StrategyPlugin):
    """What runs about one task share: a command of their own, and a page that they write."""

    over: ClassVar[tuple[str, ...]] = (_KIND,)
    needs: ClassVar[tuple[type[Surface], ...]] = ()
    requires: ClassVar[tuple[Ability, ...]] = (ONE_TASK,)
    # A single call takes minutes; who will not wait for its end asks once more.
    grace_seconds: ClassVar[float] = math.inf
    page: ClassVar[str] = ""
    """The page that such a run writes itself."""

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return TaskLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        """The loss, or what it was and what it became."""
        return f"loss     {_losses(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        """How the run stands, and the page that it wrote."""
        yield Heading(run.header.id, level=1)
        yield Facts(tuple(_facts(run, self.reason(run))))
        page = run.folder / self.page
        if page.is_file():
            yield Page(tuple(read_text(page).rstrip("\n").split("\n")))


class DelegatePlugin(TaskPlugin):
    """The words of `burnish delegate`."""

    name: ClassVar[str] = "delegate"
    Settings: ClassVar[type[StrategySettings]] = DelegateSettings
    page: ClassVar[str] = SUMMARY

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The task, to be delegated; one of an experiment is offered to its task in the end."""
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
    """What the manifest says of where the delegation came from."""
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


def _facts(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield "status", status_words(run, reason)
    yield "loss", _losses(run)
    yield "spent", spending(run.spent)
    if run.billed != run.spent:
        yield "billed", f"{spending(run.billed)} (with calls that were lost)"
    yield "time", duration(run.active_seconds)


def _losses(run: RunRecord) -> str:
    losses = (number(loss_of(row, "train")) for row in (run.baseline, run.best))
    return " → ".join(dict.fromkeys(losses))
