"""How the policy texts are trained: by epochs, by reflection, or by coordinate descent."""

from dataclasses import dataclass, replace

from burnish.core.cases import Dataset
from burnish.effects.budget import Budget
from burnish.models.factory import Models
from burnish.models.model_block import ModelBlock
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.projects.gathering import Gathering, Keys
from burnish.projects.loading import Given
from burnish.projects.suites.roles import reflector_of, writers_by
from burnish.projects.suites.suite_file import SuiteFile
from burnish.runs.parts import reached
from burnish.runs.strategy import Strategy
from burnish.strategies.coordinate.strategy import Coordinate
from burnish.strategies.epochs.settings import EpochSettings
from burnish.strategies.epochs.strategy import Epochs
from burnish.strategies.epochs.wording import ROLE, textgrad
from burnish.strategies.reflective.building import ending, too_small
from burnish.strategies.reflective.strategy import Reflective
from burnish.targets.delegation.manager import ModelManager
from burnish.targets.delegation.target import DelegationTarget

AT: Keys = ("optimizer",)
STRATEGIES = (Epochs.name, Reflective.name, Coordinate.name)
_USUAL = EpochSettings()
REPEATS = _USUAL.repeats
_OF_EPOCHS = ("epochs", "learning_rate", "with_textgrad", "no_rollback")


@dataclass(frozen=True, kw_only=True)
class Training:
    """A strategy, and what goes with it."""

    strategy: Strategy
    budget: Budget
    repeats: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SuiteSearch:
    """Makes the training that a suite asks for; what is wrong is kept."""

    given: Given
    file: SuiteFile
    target: DelegationTarget
    dataset: Dataset
    models: Models
    wrong: Gathering

    def made(self) -> Training | None:
        """The training; None where it cannot be."""
        said, block = self.given.flags, self.file.optimizer
        name = said.choose("strategy", block.strategy, self.given.environment, Epochs.name)
        ways = {
            Epochs.name: self._epochs,
            Reflective.name: self._reflective,
            Coordinate.name: self._coordinate,
        }
        if name not in ways:
            told = f"no strategy '{name}' for suites"
            self.wrong.add((*AT, "strategy"), told, f"there are: {', '.join(STRATEGIES)}")
            return None
        if name != Epochs.name:
            self._refuse(_OF_EPOCHS, Epochs.name)
        return ways[name]()

    def _epochs(self) -> Training | None:
        self._refuse(("textual_max_trials", "textual_patience", "max_cycles"), Coordinate.name)
        flags, weak, block = self.given.flags, self.given.environment, self.file.optimizer
        settings = EpochSettings(
            epochs=flags.choose("epochs", block.epochs, weak, _USUAL.epochs),
            learning_rate=flags.choose(
                "learning_rate", block.learning_rate, weak, _USUAL.learning_rate
            ),
            rollback=False if flags.no_rollback else block.rollback,
            repeats=self._repeats(REPEATS),
            accept_sigma=flags.choose(
                "accept_sigma", block.accept_sigma, weak, _USUAL.accept_sigma
            ),
        )
        if not flags.choose("with_textgrad", block.with_textgrad, weak, None):
            told = "nothing is proposed: the suite is only measured; --with-textgrad trains"
            return self._training(Epochs(settings=settings), settings.repeats, (told,))
        ref = self._model("proposer") or self._managers(ROLE)
        if ref is None:
            return None
        prompt = in_force(ROLE, self.given.folder)
        role = self.wrong.of(
            (*AT, "proposer"), lambda: textgrad(reached(self.models, ref, prompt), prompt), None
        )
        notes = _few(settings)
        strategy = Epochs(settings=settings, proposer=role)
        return None if role is None else self._training(strategy, settings.repeats, notes)

    def _reflective(self) -> Training | None:
        if not self.file.holdout:
            remedy = "name tasks under `holdout`, or train by epochs"
            self.wrong.add(("holdout",), "reflection decides on tasks that it never saw", remedy)
            return None
        repeats, block = self._repeats(1), self.file.optimizer
        names = tuple(surface.id for surface in self.target.surfaces)
        settings = block.reflective.settings(repeats=repeats, fields=names)
        budget, notes = ending(self._budget())
        small = too_small(budget, self.dataset, settings)
        if small is not None and not self.given.flags.baseline_only:
            where = self.wrong.place(("budget", "max_metric_calls"))
            self.wrong.problems.append(replace(small, where=where))
        ref = self._model("reflector") or self._model("proposer") or self._managers("reflector")
        if ref is None:
            return None
        role = self.wrong.of(
            (*AT, "reflector"), lambda: reflector_of(ref, self.models, self.given.folder), None
        )
        if role is None:
            return None
        made = self._training(Reflective(reflector=role, settings=settings), repeats, notes)
        return replace(made, budget=budget)

    def _coordinate(self) -> Training | None:
        repeats, flags = self._repeats(REPEATS), self.given.flags
        told = {
            "accept_sigma": flags.accept_sigma,
            "max_cycles": flags.max_cycles,
            "max_trials": flags.textual_max_trials,
            "patience": flags.textual_patience,
        }
        said = {name: value for name, value in told.items() if value is not None}
        block = self.file.optimizer.coordinate.model_copy(update=said)
        first = self._model("critic") or self._model("proposer") or self._managers("critic")
        if first is None:
            return None
        second = self._model("applier") or first
        writers = self.wrong.of(
            (*AT, "critic"),
            lambda: writers_by(first, second, self.models, self.given.folder),
            None,
        )
        if writers is None:
            return None
        names = tuple(surface.id for surface in self.target.surfaces)
        settings = block.settings(repeats=repeats, fields=names)
        strategy = Coordinate(settings=settings, critic=writers.critic, applier=writers.applier)
        return self._training(strategy, repeats)

    def _training(self, strategy: Strategy, repeats: int, notes: tuple[str, ...] = ()) -> Training:
        return Training(strategy=strategy, budget=self._budget(), repeats=repeats, notes=notes)

    def _budget(self) -> Budget:
        return self.file.budget.budget(self.given.flags, self.given.environment)

    def _repeats(self, usual: int) -> int:
        in_file = self.file.optimizer.repeats
        return self.given.flags.choose("repeats", in_file, self.given.environment, usual)

    def _refuse(self, names: tuple[str, ...], owner: str) -> None:
        for name in names:
            if getattr(self.given.flags, name) is not None:
                told = f"only the strategy '{owner}' can be told --{name.replace('_', '-')}"
                self.wrong.add((*AT, "strategy"), told)

    def _model(self, role: str) -> ModelRef | None:
        block: ModelBlock | None = getattr(self.file.optimizer, role)
        flag = getattr(self.given.flags, role)
        if flag is None and block is not None:
            return self.wrong.of((*AT, role), block.reference, None)
        said = flag or getattr(self.given.environment, role)
        return None if said is None else self.wrong.as_told(lambda: ModelRef.parse(said), None)

    def _managers(self, role: str) -> ModelRef | None:
        """The model of the first task that a model manages."""
        for task in self.target.tasks.values():
            if isinstance(task.workflow.manager, ModelManager):
                return task.workflow.manager.role.client.ref
        remedy = "name a model: proposer: openai:gpt-4o, or --proposer MODEL"
        self.wrong.add((*AT, role), "there is nobody to write texts", remedy)
        return None


def _few(settings: EpochSettings) -> tuple[str, ...]:
    told: list[str] = []
    if settings.epochs < 2:
        told.append("one epoch only measures: an update takes --epochs 2 or more")
    if settings.repeats < 2:
        told.append("one repeat shows no noise: any gain counts; --repeats 2 or more show it")
    return tuple(told)
