"""From what a program gives AgentOptimizer to the Setup of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from burnish.compat.callbacks import Callbacks, Telling
from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_errors import WrongKind, as_wrong_input
from burnish.compat.watching import Scoring, WatchedTarget
from burnish.core.cases import Dataset
from burnish.core.errors import ConfigError
from burnish.models.factory import Models
from burnish.projects.prompts.config import OptimizerFile
from burnish.projects.prompts.datasets import read_dataset
from burnish.projects.prompts.plan import PromptsPlan, setup_of
from burnish.runs.setup import Setup
from burnish.targets.calling import CallableTarget
from burnish.targets.prompts import PromptsTarget

_BEGIN = ("before_inference_set", "before_evaluate_set")
_END = ("after_inference_set", "after_evaluate_set")


@dataclass(kw_only=True)
class SetTelling(Telling):
    """Calls callbacks with the set that a case is of."""

    sets: Mapping[str, str] = field(default_factory=dict[str, str])
    """By case."""

    async def tell(self, point: str, **known: Any) -> None:
        """Call what is registered for this point, for the case's set or for each."""
        named = self.sets.get(str(known.get("eval_case_id")))
        for each in [named] if named else dict.fromkeys(self.sets.values()):
            self.eval_set_id = each
            await super().tell(point, **known)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run that is ready to be opened, and whom to tell about its sets."""

    setup: Setup
    telling: Telling | None = None

    async def tell_begin(self) -> None:
        """The sets are about to be run."""
        await self._tell(_BEGIN)

    async def tell_end(self) -> None:
        """They will not be run any more."""
        await self._tell(_END)

    async def _tell(self, points: tuple[str, ...]) -> None:
        if self.telling is not None:
            for point in points:
                await self.telling.tell(point)


async def prepared(
    optimizer: BaseOptimizer, stop_callbacks: Mapping[str, Callable[[], bool]]
) -> Prepared:
    """Everything that a run is made of; nothing is written, and nobody is called."""
    config = cast("OptimizerFile", optimizer.config)
    folder = Path(optimizer.config_path).parent
    sealed = config.optimize.sealed_dataset_path
    with as_wrong_input():
        dataset = read_dataset(
            Path(optimizer.train_dataset_path),
            Path(optimizer.validation_dataset_path),
            None if sealed is None else folder / sealed,
        )
    models = Models()
    agent = _agent(optimizer)
    target = await PromptsTarget.load(
        agent, optimizer.target_prompt, mode=config.optimize.isolation
    )
    with as_wrong_input():
        plan = PromptsPlan(
            config=config,
            target=target,
            dataset=dataset,
            folder=folder,
            models=models,
            stop_callbacks=stop_callbacks,
        )
        setup = setup_of(plan)
    return _watched(setup, optimizer.callbacks)


def _agent(optimizer: BaseOptimizer) -> CallableTarget:
    try:
        return CallableTarget(agent=optimizer.call_agent)
    except ConfigError as error:
        raise WrongKind(error.problems, remedy=error.remedy) from error


def _watched(setup: Setup, callbacks: Callbacks | None) -> Prepared:
    """With callbacks around each run of a case and each scoring of it."""
    if callbacks is None or not callbacks.named:
        return Prepared(setup=setup)
    telling = SetTelling(callbacks=callbacks, eval_set_id="", sets=_sets(setup.dataset))
    scoring = Scoring(telling=telling, metrics=len(setup.metrics))
    target = WatchedTarget(target=setup.target, telling=telling)
    watched = replace(setup, target=target, metrics=scoring.watch(setup.metrics))
    return Prepared(setup=watched, telling=telling)


def _sets(dataset: Dataset) -> dict[str, str]:
    named = {"train": dataset.train, "validation": dataset.holdout, "test": dataset.test}
    return {case.id: name for name, cases in named.items() for case in cases}
