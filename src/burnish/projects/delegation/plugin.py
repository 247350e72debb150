"""A workflow as a target, and the plug-in of the strategy that does one task with it."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from burnish.core.candidates import Candidate
from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, short_id
from burnish.core.objectives import Objective
from burnish.core.sections import Facts, Heading, Page, Section
from burnish.core.surfaces import Surface
from burnish.core.words import duration, number, spending
from burnish.projects.delegation.team import Team
from burnish.projects.delegation.workflow_spec import DelegateSettings, WorkflowSpec
from burnish.projects.experiments.attaching import attachment, offer
from burnish.projects.suites.registries import texts_for_refining, texts_to_read
from burnish.runs.events import SessionBegun, TrialRecorded
from burnish.runs.exporting import Exported
from burnish.runs.parts import ONE_TASK, Ability, Building, StrategyParts, TargetParts
from burnish.runs.plugins import StrategyPlugin, TargetPlugin
from burnish.runs.progress import ProgressLines
from burnish.runs.record import RunRecord, loss_of
from burnish.runs.report_sections import status_words
from burnish.runs.spec import StrategySettings, TargetSpec
from burnish.strategies.delegate import Delegate
from burnish.system import Redactor, read_text
from burnish.targets.delegation.delegating import Delegation
from burnish.targets.delegation.home import POLICY, is_delegation, kept_policy
from burnish.targets.delegation.loss_metric import NAME, DelegationLoss
from burnish.targets.delegation.policy import NAMES, PolicyTexts
from burnish.targets.delegation.record import SUMMARY
from burnish.targets.delegation.target import DelegationTarget

KIND = "delegation"


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

    kind: ClassVar[str] = KIND
    Spec: ClassVar[type[TargetSpec]] = WorkflowSpec
    takes_cases: ClassVar[bool] = False
    surfaces: ClassVar[tuple[type[Surface], ...]] = ()
    abilities: ClassVar[tuple[Ability, ...]] = (ONE_TASK,)

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The team, the policy texts that it reads, and the task as the only case."""
        spec: WorkflowSpec = building.spec.target
        if KIND not in strategy.over:
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

    over: ClassVar[tuple[str, ...]] = (KIND,)
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
        spec, kept = target.team.spec, _kept(building)
        delegation = Delegation(
            workflow=workflow,
            task=spec.task,
            policy=target.policy,
            steer=spec.steer,
            seed_deliverable=None if spec.seed_deliverable is None else Path(spec.seed_deliverable),
            inputs=tuple(map(building.path, spec.inputs)),
            kept=kept,
        )
        folder = building.run_folder
        if folder is not None and is_delegation(folder):
            delegation.check(folder, Redactor.from_environment(extra=workflow.secrets))
        strategy = Delegate(delegation, ended=lambda run: offer(kept, run.run_dir))
        return StrategyParts(strategy=strategy)


def _kept(building: Building) -> dict[str, Json]:
    """What the manifest says of where the delegation came from."""
    spec: WorkflowSpec = building.spec.target
    settings: DelegateSettings = building.spec.strategy.settings
    kept: dict[str, Json] = {
        "file": building.spec.source.file,
        "overrides": settings.to_json(),
        "inputs": [str(building.path(each).resolve()) for each in spec.inputs],
    }
    if spec.experiment_task is not None:
        kept |= {**attachment(spec.experiment_task), "seed_deliverable": spec.seed_deliverable}
    return kept


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
