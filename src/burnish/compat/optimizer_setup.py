"""From what a program gives AgentOptimizer to the Setup of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from burnish.compat.callbacks import Callbacks, Telling
from burnish.compat.optimizer_base import BaseOptimizer
from burnish.compat.optimizer_errors import WrongKind, as_wrong_input
from burnish.compat.watching import Scoring, WatchedTarget
from burnish.core.cases import Dataset
from burnish.core.errors import ConfigError
from burnish.projects.describing import describe
from burnish.projects.dialects import Document
from burnish.projects.prompts.optimizer_config import as_json
from burnish.projects.prompts.optimizer_file import OptimizerFile
from burnish.runs.building import Description, build
from burnish.runs.setup import Setup
from burnish.strategies.reflective.result_files import OPTIMIZER
from burnish.system import YamlTree
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
    with as_wrong_input():
        description = _described(optimizer)
    target = await PromptsTarget.load(
        _agent(optimizer), optimizer.target_prompt, mode=description.spec.target.isolation
    )
    with as_wrong_input():
        setup = build(description, live=target)
    config = {OPTIMIZER: as_json(optimizer.config), **setup.project.config}
    setup = replace(
        setup, stop_callbacks=stop_callbacks, project=replace(setup.project, config=config)
    )
    return _watched(setup, optimizer.callbacks)


def _described(optimizer: BaseOptimizer) -> Description:
    """The run as its optimizer.json describes it; the program says which cases.

    The environment has no say: a program does the same wherever it is started.
    """
    path = Path(optimizer.config_path)
    tree = YamlTree(path=path, data=as_json(optimizer.config), text="")
    cases = {"train": optimizer.train_dataset_path, "holdout": optimizer.validation_dataset_path}
    return describe(
        Document(path=path, tree=tree),
        {split: str(Path(name).absolute()) for split, name in cases.items()},
        environ={},
        dialect=OptimizerFile(),
    )


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
