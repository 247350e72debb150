"""Policy texts as a target: the suite they are trained on, and the registry they are kept in."""

from collections.abc import Iterable
from typing import ClassVar

from pydantic import JsonValue

from burnish.core.cases import Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.core.surfaces import Surface, TextSurface
from burnish.models.references import ModelRef
from burnish.projects.suites.keeping import KEPT, RegistryKeeper, SuiteRecord
from burnish.projects.suites.registries import find_registry
from burnish.projects.suites.suite_spec import PolicySpec
from burnish.projects.suites.tasks import SuiteTasks
from burnish.runs.events import read_all
from burnish.runs.parts import DELEGATIONS, Ability, Building, TargetParts
from burnish.runs.plugins import ResultFiles, StrategyPlugin, TargetPlugin
from burnish.runs.record import RunRecord
from burnish.runs.run import Run
from burnish.runs.spec import TargetSpec
from burnish.strategies.epochs.strategy import PolicyChanged
from burnish.targets.delegation.loss_metric import NAME, DelegationLoss
from burnish.targets.delegation.manager import ModelManager
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.registry import PolicyRegistry
from burnish.targets.delegation.target import DelegationTarget

_NO_HOLDOUT = "the suite has no holdout: its score is a training score"


class PolicyPlugin(TargetPlugin):
    """Trained texts go into the policy registry."""

    kind: ClassVar[str] = "policy"
    Spec: ClassVar[type[TargetSpec]] = PolicySpec
    surfaces: ClassVar[tuple[type[Surface], ...]] = (TextSurface,)
    abilities: ClassVar[tuple[Ability, ...]] = (DELEGATIONS,)
    takes_cases: ClassVar[bool] = False

    def build(self, building: Building, strategy: StrategyPlugin) -> TargetParts | None:
        """The tasks with their workflows, and the texts to start from."""
        spec: PolicySpec = building.spec.target
        registry = find_registry(spec.db, spec.experiment)
        tasks = SuiteTasks(spec=spec, building=building)
        train, holdout = tasks.read("tasks"), tasks.read("holdout")
        policy = building.problems.attempt(
            "target.baseline_artifacts", lambda: _policy(spec, registry), PolicyTexts.shipped()
        )
        if strategy.needs_holdout and not spec.holdout:
            remedy = "name tasks under `holdout`, or train by epochs"
            message = f"{strategy.name} decides on tasks that it never saw"
            building.problems.add("target.holdout", message, remedy)
        if building.problems.found:
            return None
        target = DelegationTarget(policy, (*train, *holdout), frozen=registry.pins())
        models = {id(each.models): each.models for each in tasks.loaded.values()}
        # The roles of the strategy share the limits and prices of the first workflow.
        building.models = next(iter(models.values()))
        notes = (f"policy registry: {registry.path}", *tasks.notes)
        return TargetParts(
            target=target,
            dataset=Dataset(
                train=tuple(task.case for task in train),
                holdout=tuple(task.case for task in holdout),
            ),
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            own_model=_managers_model(target),
            settled=_settled(spec, registry, policy),
            record={KEPT: _record(spec, registry)},
            notes=notes if holdout else (*notes, _NO_HOLDOUT),
            resources=(target, *models.values()),
        )

    def result_files(self, run: Run) -> ResultFiles | None:
        """What keeps the registry, where texts of it are trained."""
        assert isinstance(run.target, DelegationTarget)
        # Delegations that were under way when a run was killed go on from here.
        run.target.move_in(run.directory)
        record = SuiteRecord.of(run.directory.header.project.config)
        return None if record is None else RegistryKeeper(run, record)

    def last_words(self, run: RunRecord) -> Iterable[str]:
        """Which texts a run has made active, and where."""
        record = SuiteRecord.of(run.header.project.config)
        changed: dict[str, int] = {}
        for change in read_all(run.events, PolicyChanged):
            changed.update(change.versions)
        if record is None or not changed:
            return
        for name, version in changed.items():
            yield f"policy   {name} v{version} is active"
        yield f"         burnish policy list --db {record.registry}"


def _policy(spec: PolicySpec, registry: PolicyRegistry) -> PolicyTexts:
    """What the training starts from: as the suite says, else what is in force.

    A run that goes on starts from where it started, whatever it has put there since.
    """
    if spec.policy_versions is not None:
        return registry.at(spec.policy_versions)
    versions, pins = spec.baseline_artifacts, registry.pins()
    problems = [
        Problem(
            where=name,
            message=f"the registry holds it at version {pins[name]}, the suite at {number}",
            remedy=f"`burnish policy unpin {name}`, or change the suite",
        )
        for name, number in versions.items()
        if pins.get(name, number) != number
    ]
    if problems:
        raise ConfigError(problems)
    return registry.at(versions)


def _managers_model(target: DelegationTarget) -> ModelRef | None:
    """The model of the first task that a model manages."""
    managers = (task.workflow.manager for task in target.tasks.values())
    first = next((each for each in managers if isinstance(each, ModelManager)), None)
    return None if first is None else first.role.client.ref


def _record(spec: PolicySpec, registry: PolicyRegistry) -> Json:
    return SuiteRecord(
        name=spec.name,
        tasks=[task.model_dump(mode="json", exclude_none=True) for task in spec.tasks],
        baseline=dict(spec.baseline_artifacts),
        registry=str(registry.path),
        active=registry.active(),
    ).to_json()


def _settled(
    spec: PolicySpec, registry: PolicyRegistry, policy: PolicyTexts
) -> dict[str, JsonValue]:
    """Where the training starts, and which registry is meant, whatever variables say later."""
    settled: dict[str, JsonValue] = {"policy_versions": dict[str, JsonValue](policy.versions)}
    if spec.experiment is None:
        settled["db"] = str(registry.path)
    return settled
