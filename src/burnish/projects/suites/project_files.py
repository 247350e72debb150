"""Suite files as projects of `burnish optimize`."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.cases import Dataset
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.models.factory import Models
from burnish.projects.gathering import Gathering
from burnish.projects.loading import FOUND, SUITE, Given, LoadedProject, loaded_from
from burnish.projects.overrides import Overrides
from burnish.projects.settings import DEFAULT_SEED
from burnish.projects.suites.keeping import KEPT, SuiteRecord
from burnish.projects.suites.registries import find_registry
from burnish.projects.suites.strategies import SuiteSearch, Training
from burnish.projects.suites.suite_file import SuiteFile
from burnish.projects.suites.tasks import SuiteTasks
from burnish.runs.evaluating import CasePolicy
from burnish.runs.header import Project
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.system import validate_config
from burnish.targets.delegation.loss_metric import NAME, DelegationLoss
from burnish.targets.delegation.policy import PolicyTexts
from burnish.targets.delegation.target import DelegationTarget

CONCURRENCY = 4
"""Delegations at once, unless said: each runs several agents and commands."""
_NO_HOLDOUT = "the suite has no holdout: its score is a training score"


def load(given: Given) -> Setup:
    """A suite file as a Setup: the loader of that project kind."""
    return training_of(given, None)


def prepare_suite(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """A suite ready to be trained on; `models` stand in for the real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, SUITE, training_of(given, models))


def training_of(given: Given, models: Models | None) -> Setup:
    """Everything the training is made of; everything that is wrong is said at once."""
    tree = given.tree
    file = validate_config(tree.data, SuiteFile, source=tree.path.name, tree=tree)
    return with_outputs(_Preparing(given, file, models).setup(), given.flags)


class _Preparing:
    """One suite on its way to a training."""

    def __init__(self, given: Given, file: SuiteFile, models: Models | None) -> None:
        self.given = given
        self.file = file
        self.wrong = Gathering(tree=given.tree)
        self.tasks = SuiteTasks(file=file, folder=given.folder, wrong=self.wrong, models=models)
        self.registry = find_registry(given.flags.policy_db, given.flags.experiment)

    def setup(self) -> Setup:
        train, holdout = self.tasks.read("tasks"), self.tasks.read("holdout")
        policy = self.wrong.of(("baseline_artifacts",), self._policy, PolicyTexts.shipped())
        dataset = Dataset(
            train=tuple(task.case for task in train), holdout=tuple(task.case for task in holdout)
        )
        target = DelegationTarget(policy, (*train, *holdout), frozen=self.registry.pins())
        self.wrong.settle()
        loaded = list(self.tasks.loaded.values())
        search = SuiteSearch(
            given=self.given,
            file=self.file,
            target=target,
            dataset=dataset,
            models=loaded[0].models,
            wrong=self.wrong,
        ).made()
        self.wrong.settle()
        assert search is not None
        return self._assembled(target, dataset, search)

    def _assembled(self, target: DelegationTarget, dataset: Dataset, search: Training) -> Setup:
        flags, weak, file = self.given.flags, self.given.environment, self.file
        models = {id(each.models): each.models for each in self.tasks.loaded.values()}
        notes = (f"policy registry: {self.registry.path}", *search.notes, *self.tasks.notes)
        return Setup(
            target=target,
            metrics=(DelegationLoss(),),
            objective=Objective(weights={NAME: 1.0}),
            dataset=dataset,
            strategy=search.strategy,
            seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
            budget=search.budget,
            concurrency=flags.choose("concurrency", file.concurrency, weak, CONCURRENCY),
            case_policy=CasePolicy(time_limit=file.time_limit),
            test_repeats=search.repeats,
            project=Project(config=self._config(target.policy)),
            notes=notes if dataset.holdout else (*notes, _NO_HOLDOUT),
            resources=(target, *models.values()),
        )

    def _policy(self) -> PolicyTexts:
        """What the training starts from: as the suite says, else what is in force.

        A run that goes on starts from where it started, whatever it has put there since.
        """
        before = self.given.flags.policy_versions
        if before is not None:
            return self.registry.at(before)
        wanted, pins = self.file.baseline_artifacts, self.registry.pins()
        problems = [
            Problem(
                where=name,
                message=f"the registry holds it at version {pins[name]}, the suite at {number}",
                remedy=f"`burnish policy unpin {name}`, or change the suite",
            )
            for name, number in wanted.items()
            if pins.get(name, number) != number
        ]
        if problems:
            raise ConfigError(problems)
        return self.registry.at(wanted)

    def _config(self, policy: PolicyTexts) -> dict[str, Json]:
        file = self.file
        record = SuiteRecord(
            name=file.name,
            tasks=[task.model_dump(mode="json", exclude_none=True) for task in file.tasks],
            baseline=dict(file.baseline_artifacts),
            registry=str(self.registry.path),
            active=self.registry.active(),
        )
        found: dict[str, Json] = {"policy_versions": dict[str, Json](policy.versions)}
        if self.given.flags.experiment is None:
            found["policy_db"] = str(self.registry.path)
        return {KEPT: record.to_json(), FOUND: found}
