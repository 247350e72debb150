"""EvalSets with their configuration, ready to be evaluated."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burnish.compat.callbacks import Callbacks, Telling
from burnish.compat.watching import Scoring, WatchedTarget
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import Evaluation
from burnish.core.protocols import Metric, Target
from burnish.evaluation.configs.eval_making import make_metrics
from burnish.evaluation.configs.eval_metrics import EvalConfig
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.datasets.case_files import CaseFile
from burnish.evaluation.datasets.formats import read_cases, read_folder
from burnish.models.factory import Models
from burnish.projects.black_box import trajectory_problems
from burnish.projects.evaluate_api import measurement_of
from burnish.projects.evaluated import Evaluated
from burnish.projects.given_agents import How, as_reference, player_for
from burnish.projects.measuring import measured, measured_anew
from burnish.system import read_tree, validate_config
from burnish.targets.calling import CallableTarget
from burnish.targets.recorded import RecordedTarget

CONFIG = "test_config.json"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the caller says, for every set alike."""

    call_agent: Callable[..., Any] | None
    config: Path | None
    name: str
    output: Path | None
    callbacks: Callbacks
    how: How


@dataclass(frozen=True, kw_only=True)
class PreparedSet:
    """One EvalSet, ready to be evaluated."""

    id: str
    file: CaseFile
    target: Target
    metrics: tuple[Metric, ...]
    how: How
    asked: Asked

    @classmethod
    def read(cls, file: CaseFile, path: Path, asked: Asked) -> "PreparedSet":
        """Everything that is needed, checked before any set is run."""
        models = asked.how.models or Models()
        config = _config_path(path, asked.config)
        read = _read_config(config)
        runs = asked.how.repeats or read.num_runs
        how = replace(asked.how, repeats=runs, models=models)
        judge = None if how.judge is None else as_reference(how.judge)
        making = MetricMaking(models=models, folder=config.resolve().parent, judge=judge)
        _refuse(file, path, read, asked)
        return cls(
            id=file.eval_set_id or path.name,
            file=file,
            target=_target(file, asked, models),
            metrics=make_metrics(read.metrics, making),
            how=how,
            asked=asked,
        )

    async def evaluated(self) -> Evaluated:
        """Run and score, with the callbacks around it."""
        telling = Telling(callbacks=self.asked.callbacks, eval_set_id=self.id)
        scoring = Scoring(telling=telling, metrics=len(self.metrics))
        target = WatchedTarget(target=self.target, telling=telling)
        metrics = scoring.watch(self.metrics)
        subject = self.asked.name or self.id
        measurement = measurement_of(target, self.file.cases, metrics, self.how, subject=subject)
        await telling.tell("before_inference_set")
        await telling.tell("before_evaluate_set")
        output = self.asked.output
        found = await (measured_anew(measurement, output) if output else measured(measurement))
        await self._tell_unscored(telling, found.evaluation)
        await telling.tell("after_inference_set", evaluation=found.evaluation)
        await telling.tell("after_evaluate_set", evaluation=found.evaluation)
        return found

    async def _tell_unscored(self, telling: Telling, evaluation: Evaluation) -> None:
        """Runs without a reply never reach a metric; their scores are told all the same."""
        cases = {case.id: case for case in self.file.cases}
        for result in evaluation.results:
            if result.outcome.failure is None:
                continue
            known = {"eval_case_id": result.case, "case": cases[result.case]}
            known |= {"outcome": result.outcome, "run_id": result.draw + 1}
            await telling.tell("before_evaluate_case", **known)
            await telling.tell("after_evaluate_case", **known, scores=result.scores)


def prepared_sets(place: Path, asked: Asked) -> list[PreparedSet]:
    """The set of a file, or every set of a folder; everything that is wrong with any of them."""
    files = read_folder(place) if place.is_dir() else {place: read_cases(place)}
    sets: dict[str, PreparedSet] = {}
    problems: list[Problem] = []
    for path, file in files.items():
        try:
            each = PreparedSet.read(file, path, asked)
        except ConfigError as error:
            problems += error.problems
            continue
        if each.id in sets:
            problems.append(Problem(where=path.name, message=f"another set is called {each.id!r}"))
        sets[each.id] = each
    if problems:
        raise ConfigError(problems)
    return list(sets.values())


def _config_path(path: Path, given: Path | None) -> Path:
    chosen = given or path.parent / CONFIG
    chosen = chosen / CONFIG if chosen.is_dir() else chosen
    if not chosen.exists():
        remedy = f"put {CONFIG} beside the eval set, or name a file: test_config_path"
        message = f"there are no metrics: {chosen} does not exist"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return chosen


def _read_config(path: Path) -> EvalConfig:
    tree = read_tree(path)
    inner = tree.data.get("evaluate") if isinstance(tree.data, dict) else None
    if isinstance(inner, dict):
        return validate_config(inner, EvalConfig, source=f"{path.name} evaluate")
    return validate_config(tree.data, EvalConfig, source=path.name, tree=tree)


def _refuse(file: CaseFile, path: Path, config: EvalConfig, asked: Asked) -> None:
    problems = trajectory_problems(config.metrics) if asked.call_agent is not None else []
    live = [case.id for case in file.cases if case.recorded is None]
    if asked.call_agent is None and live:
        message = f"there is no call_agent, and {len(live)} cases are not recorded ({live[0]}, …)"
        problems.append(Problem(where=path.name, message=message, remedy="give call_agent"))
    if not config.metrics:
        problems.append(Problem(where=path.name, message="its configuration has no metrics"))
    if problems:
        raise ConfigError(problems)


def _target(file: CaseFile, asked: Asked, models: Models) -> Target:
    if asked.call_agent is None:
        return RecordedTarget()
    user = player_for(file.cases, asked.how.user_simulator, models)
    return CallableTarget(agent=asked.call_agent, user=user)
