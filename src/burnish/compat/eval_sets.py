"""AgentEvaluator and AgentOptimizer: EvalSets with their configuration."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from burnish.compat.callbacks import CallbackDispatcher, Callbacks, ScoringCallbacks, WatchedTarget
from burnish.compat.optimizer.base import BaseOptimizer, CallAgent, run_custom
from burnish.compat.optimizer.display import Reporter
from burnish.compat.optimizer.reflective import (
    OPTIMIZER_REGISTRY,
    ReflectiveOptimizer,
    check_arguments,
    read_config,
    warn_of_merge,
)
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import CaseResult, Evaluation, mean
from burnish.core.protocols import Metric, Target
from burnish.datasets.case_files import CaseFile
from burnish.datasets.formats import read_cases, read_folder
from burnish.metrics.eval_factory import make_metrics
from burnish.metrics.eval_metrics import EvalConfig
from burnish.metrics.factory import MetricMaking
from burnish.metrics.turns import EPSILON
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.evaluate import How, as_reference, measurement_of, player_for
from burnish.projects.measurements import (
    Evaluated,
    explained,
    measured,
    measured_anew,
    threshold_of,
)
from burnish.projects.measures import trajectory_problems
from burnish.reports.evaluation_cases import Trouble, complaints_of
from burnish.reports.evaluation_page import two
from burnish.strategies.reflective.result_files import write_files
from burnish.strategies.reflective.results import OptimizeResult
from burnish.system import read_tree, validate_config
from burnish.targets.callables import CallableTarget
from burnish.targets.prompts import TargetPrompt, write_back
from burnish.targets.recorded import RecordedTarget

_AnyPath = str | PathLike[str]


class AgentOptimizer:
    """Makes the prompts of an agent better, and says what came of it."""

    @classmethod
    async def optimize(
        cls,
        *,
        config_path: _AnyPath,
        call_agent: CallAgent,
        target_prompt: TargetPrompt,
        train_dataset_path: _AnyPath,
        validation_dataset_path: _AnyPath,
        output_dir: _AnyPath,
        callbacks: Callbacks | None = None,
        update_source: bool = False,
        verbose: int = 1,
        extra_stop_callbacks: Sequence[Callable[..., bool]] | None = None,
        extra_gepa_callbacks: Sequence[Any] | None = None,
    ) -> OptimizeResult:
        """Optimise the prompts of `target_prompt`.

        Everything happens in the caller's event loop. `output_dir` is a new folder, or that of an
        earlier call with the same inputs, which is then gone on with. A run that fails gives a
        result that says so; wrong arguments raise ValueError or TypeError before anything is
        written. With `update_source` the best prompts are written where they came from after
        success, all or none, and only if nobody changed them meanwhile.
        """
        stoppers = tuple(extra_stop_callbacks or ())
        train, validation = str(train_dataset_path), str(validation_dataset_path)
        check_arguments(
            call_agent=call_agent,
            target_prompt=target_prompt,
            paths=(train, validation),
            output_dir=str(output_dir),
            verbose=verbose,
            stoppers=stoppers,
        )
        config = read_config(str(config_path), OPTIMIZER_REGISTRY.names())
        warn_of_merge(config, target_prompt)
        algorithm = OPTIMIZER_REGISTRY.get(config.optimize.algorithm.name)
        optimizer = algorithm(
            config=config,
            config_path=str(config_path),
            call_agent=call_agent,
            target_prompt=target_prompt,
            train_dataset_path=train,
            validation_dataset_path=validation,
            # The agent may change the folder that the program stands in.
            output_dir=os.path.join(os.getcwd(), output_dir),  # noqa: PTH109, PTH118
            callbacks=callbacks,
            extra_stop_callbacks=stoppers,
            extra_gepa_callbacks=tuple(extra_gepa_callbacks or ()),
        )
        reporter = Reporter(verbose=verbose)
        result = await _run(optimizer, reporter)
        return await _settled(optimizer, result, reporter, update_source=update_source)


async def _run(optimizer: BaseOptimizer, reporter: Reporter) -> OptimizeResult:
    if isinstance(optimizer, ReflectiveOptimizer):
        return await optimizer.run(reporter=reporter)
    return await run_custom(optimizer, reporter)


async def _settled(
    optimizer: BaseOptimizer, result: OptimizeResult, reporter: Reporter, *, update_source: bool
) -> OptimizeResult:
    """Write back what is to be written back, and say last what came of it all."""
    if update_source and result.status == "SUCCEEDED":
        result = await _written_back(optimizer, result)
    write_files(optimizer.folder, result, update_source=update_source)
    summary = result.format_summary(output_dir=optimizer.folder, update_source=update_source)
    for line in summary.splitlines():
        reporter.say(line)
    return result


async def _written_back(optimizer: BaseOptimizer, result: OptimizeResult) -> OptimizeResult:
    """The result once its best prompts are in the source; it says so where they are not."""
    try:
        best = optimizer.best_texts(result)
        if dict(best) == dict(optimizer.baseline):
            return result
        await write_back(optimizer.target_prompt, best, expected=optimizer.baseline)
    except (Exception, asyncio.CancelledError) as error:
        message = f"the best prompts were not written back: {error or type(error).__name__}"
        failed = result.model_copy(update={"error_message": message, "source_updated": False})
        write_files(optimizer.folder, failed, update_source=True)
        raise
    return result.model_copy(update={"source_updated": True})


# -- EvalSets with their configuration, ready to be evaluated -------------------------------------


_CONFIG = "test_config.json"


@dataclass(frozen=True, kw_only=True)
class _EvaluationArguments:
    """What the caller says, for every set alike."""

    call_agent: Callable[..., Any] | None
    config: Path | None
    name: str
    output: Path | None
    callbacks: Callbacks
    how: How


@dataclass(frozen=True, kw_only=True)
class _PreparedSet:
    """One EvalSet, ready to be evaluated."""

    id: str
    file: CaseFile
    target: Target
    metrics: tuple[Metric, ...]
    how: How
    arguments: _EvaluationArguments

    @classmethod
    def read(cls, file: CaseFile, path: Path, arguments: _EvaluationArguments) -> "_PreparedSet":
        """Everything that is needed, checked before any set is run."""
        models = arguments.how.models or Models()
        config = _config_path(path, arguments.config)
        read = _read_config(config)
        runs = arguments.how.repeats or read.num_runs
        how = replace(arguments.how, repeats=runs, models=models)
        judge = None if how.judge is None else as_reference(how.judge)
        making = MetricMaking(models=models, folder=config.resolve().parent, judge=judge)
        _refuse(file, path, read, arguments)
        return cls(
            id=file.eval_set_id or path.name,
            file=file,
            target=_target(file, arguments, models),
            metrics=make_metrics(read.metrics, making),
            how=how,
            arguments=arguments,
        )

    async def evaluated(self) -> Evaluated:
        """Run and score, with the callbacks around it."""
        dispatcher = CallbackDispatcher(callbacks=self.arguments.callbacks, eval_set_id=self.id)
        scoring = ScoringCallbacks(dispatcher=dispatcher, metrics=len(self.metrics))
        target = WatchedTarget(target=self.target, dispatcher=dispatcher)
        metrics = scoring.watch(self.metrics)
        subject = self.arguments.name or self.id
        measurement = measurement_of(target, self.file.cases, metrics, self.how, subject=subject)
        await dispatcher.dispatch("before_inference_set")
        await dispatcher.dispatch("before_evaluate_set")
        output = self.arguments.output
        evaluated = await (measured_anew(measurement, output) if output else measured(measurement))
        await self._dispatch_unscored(dispatcher, evaluated.evaluation)
        await dispatcher.dispatch("after_inference_set", evaluation=evaluated.evaluation)
        await dispatcher.dispatch("after_evaluate_set", evaluation=evaluated.evaluation)
        return evaluated

    async def _dispatch_unscored(
        self, dispatcher: CallbackDispatcher, evaluation: Evaluation
    ) -> None:
        """Runs without a reply never reach a metric; their scores are told all the same."""
        cases = {case.id: case for case in self.file.cases}
        for result in evaluation.results:
            if result.outcome.failure is None:
                continue
            fields = {"eval_case_id": result.case, "case": cases[result.case]}
            fields |= {"outcome": result.outcome, "run_id": result.draw + 1}
            await dispatcher.dispatch("before_evaluate_case", **fields)
            await dispatcher.dispatch("after_evaluate_case", **fields, scores=result.scores)


def _prepared_sets(place: Path, arguments: _EvaluationArguments) -> list[_PreparedSet]:
    """The set of a file, or every set of a folder; everything that is wrong with any of them."""
    files = read_folder(place) if place.is_dir() else {place: read_cases(place)}
    sets: dict[str, _PreparedSet] = {}
    problems: list[Problem] = []
    for path, file in files.items():
        try:
            each = _PreparedSet.read(file, path, arguments)
        except ConfigError as error:
            problems += error.problems
            continue
        if each.id in sets:
            problems.append(Problem(where=path.name, message=f"another set is called {each.id!r}"))
        sets[each.id] = each
    if problems:
        raise ConfigError(problems)
    return list(sets.values())


def _config_path(path: Path, config: Path | None) -> Path:
    chosen = config or path.parent / _CONFIG
    chosen = chosen / _CONFIG if chosen.is_dir() else chosen
    if not chosen.exists():
        remedy = f"put {_CONFIG} beside the eval set, or name a file: test_config_path"
        message = f"there are no metrics: {chosen} does not exist"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    return chosen


def _read_config(path: Path) -> EvalConfig:
    tree = read_tree(path)
    inner = tree.data.get("evaluate") if isinstance(tree.data, dict) else None
    if isinstance(inner, dict):
        return validate_config(inner, EvalConfig, source=f"{path.name} evaluate")
    return validate_config(tree.data, EvalConfig, source=path.name, tree=tree)


def _refuse(
    file: CaseFile, path: Path, config: EvalConfig, arguments: _EvaluationArguments
) -> None:
    problems = trajectory_problems(config.metrics) if arguments.call_agent is not None else []
    live = [case.id for case in file.cases if case.recorded is None]
    if arguments.call_agent is None and live:
        message = f"there is no call_agent, and {len(live)} cases are not recorded ({live[0]}, …)"
        problems.append(Problem(where=path.name, message=message, remedy="give call_agent"))
    if not config.metrics:
        problems.append(Problem(where=path.name, message="its configuration has no metrics"))
    if problems:
        raise ConfigError(problems)


def _target(file: CaseFile, arguments: _EvaluationArguments, models: Models) -> Target:
    if arguments.call_agent is None:
        return RecordedTarget()
    user = player_for(file.cases, arguments.how.user_simulator, models)
    return CallableTarget(agent=arguments.call_agent, user=user)


# -- Whether an eval set passes, as in AgentEvaluator ---------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """How a case does by one metric, over all its turns and runs."""

    passed: bool | None
    """None where a score is missing: that is no pass, and no 0 either."""
    value: float | None
    threshold: float | None

    def __str__(self) -> str:
        if self.passed is None:
            return "missing"
        bar = "" if self.threshold is None else f" of {self.threshold:g} needed"
        return f"{two(self.value)}{bar}"


def _standings(
    evaluated: Evaluated, thresholds: Mapping[str, float | None]
) -> dict[str, dict[str, _Standing]]:
    """By case and metric; metrics that do not apply to a case are left out."""
    return {
        case: dict(_of_case(evaluated.evaluation.of_case(case), thresholds))
        for case in evaluated.evaluation.cases
    }


def _of_case(
    results: Sequence[CaseResult], thresholds: Mapping[str, float | None]
) -> Iterator[tuple[str, _Standing]]:
    for metric, threshold in thresholds.items():
        values = [result.value(metric) for result in results if result.applies(metric)]
        numbers = [value for value in values if value is not None]
        verdicts = {s.passed for r in results for s in r.scores if s.metric == metric} - {None}
        if len(numbers) < len(values):
            yield metric, _Standing(passed=None, value=None, threshold=threshold)
        elif numbers and verdicts:
            value = mean(numbers)
            passed = verdicts == {True} or (
                # One voice is the metric's own; of several the mean decides.
                len(verdicts) > 1 and threshold is not None and value >= threshold - EPSILON
            )
            yield metric, _Standing(passed=passed, value=value, threshold=threshold)


def _failing(table: Mapping[str, Mapping[str, _Standing]]) -> dict[str, dict[str, _Standing]]:
    """The cases that do not pass, with the metrics that keep them from it."""
    bad = {
        case: {metric: each for metric, each in row.items() if each.passed is not True}
        for case, row in table.items()
    }
    return {case: row for case, row in bad.items() if row}


def _explanation(
    eval_set: str, evaluated: Evaluated, table: Mapping[str, Mapping[str, _Standing]]
) -> str:
    """Which cases of a set fail, with expected, actual and reason; empty where none does."""
    bad = _failing(table)
    if not bad:
        judged = any(row for row in table.values())
        return "" if judged else f"{eval_set}: no metric gives a verdict on any case"
    rows = {row.case: row for row in evaluated.report.cases}
    lines = [f"{eval_set}: {len(bad)} of {len(table)} cases do not pass"]
    for case, metrics in bad.items():
        complaints = [
            complaint
            for complaint in complaints_of(rows[case])
            if complaint.metric in metrics or complaint.trouble is Trouble.CRASHED
            or not complaint.metric
        ]  # fmt: skip
        scores = ", ".join(f"{metric} {each}" for metric, each in metrics.items())
        lines.append(f"{explained(rows[case], tuple(complaints))}\n  in all: {scores}")
    return "\n".join(lines)


def _summary(eval_set: str, table: Mapping[str, Mapping[str, _Standing]]) -> Iterator[str]:
    """A line for the set and one for each case."""
    bad = _failing(table)
    yield f"{eval_set}: {len(table) - len(bad)} of {len(table)} cases pass"
    for case, row in table.items():
        scores = ", ".join(f"{metric} {each}" for metric, each in row.items())
        yield f"  {'✗' if case in bad else '✓'} {case}: {scores or 'no metric applies'}"


# -- AgentEvaluator -------------------------------------------------------------------------------


class CasesFailed(AssertionError):
    """Cases that do not pass; the message explains each, `result` has everything."""

    def __init__(self, message: str, result: "EvaluateResult") -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, kw_only=True)
class EvaluateResult:
    """What was found, by eval set."""

    results_by_eval_set_id: Mapping[str, Evaluated]
    standings: Mapping[str, Mapping[str, Mapping[str, _Standing]]]
    """How each case does by each metric: the mean over turns and runs."""


class AgentEvaluator:
    """Runs the cases of EvalSets through an agent and asserts that they pass."""

    @classmethod
    async def evaluate(
        cls,
        eval_set_path: str | Path | None = None,
        *,
        call_agent: Callable[..., Any] | None = None,
        test_config_path: str | Path | None = None,
        num_runs: int | None = None,
        agent_name: str = "",
        print_detailed_results: bool = True,
        eval_result_output_dir: str | Path | None = None,
        case_parallelism: int | None = None,
        callbacks: Callbacks | None = None,
        judge: ModelRef | str | None = None,
        user_simulator: ModelRef | str | None = None,
        models: Models | None = None,
        eval_dataset_file_path_or_dir: str | Path | None = None,
        eval_metrics_file_path_or_dir: str | Path | None = None,
    ) -> EvaluateResult:
        """Evaluate an EvalSet, or every EvalSet of a folder.

        The metrics are in `test_config_path`, or in the `test_config.json` beside each set;
        `num_runs` is what it says there unless it is given. Without `call_agent` the cases must
        be recorded. Raises CasesFailed, an AssertionError, when a case does not pass. The last
        two parameters are other names of the two paths.
        """
        place = eval_set_path or eval_dataset_file_path_or_dir
        if place is None:
            raise ConfigError([Problem(message="no eval set is named", where="eval_set_path")])
        config = test_config_path or eval_metrics_file_path_or_dir
        arguments = _EvaluationArguments(
            call_agent=call_agent,
            config=None if config is None else Path(config),
            name=agent_name,
            output=None if eval_result_output_dir is None else Path(eval_result_output_dir),
            callbacks=callbacks or Callbacks(),
            how=How(
                repeats=num_runs,
                concurrency=case_parallelism,
                judge=judge,
                user_simulator=user_simulator,
                models=models,
            ),
        )
        result, troubles = await _evaluated(_prepared_sets(Path(place), arguments))
        if print_detailed_results:
            _show(result)
        if troubles:
            raise CasesFailed("\n".join(troubles), result)
        return result


async def _evaluated(sets: Sequence[_PreparedSet]) -> tuple[EvaluateResult, list[str]]:
    results: dict[str, Evaluated] = {}
    tables: dict[str, dict[str, dict[str, _Standing]]] = {}
    troubles: list[str] = []
    for each in sets:
        results[each.id] = await each.evaluated()
        bars = {metric.name: threshold_of(metric) for metric in each.metrics}
        tables[each.id] = _standings(results[each.id], bars)
        if explanation := _explanation(each.id, results[each.id], tables[each.id]):
            troubles.append(explanation)
    return EvaluateResult(results_by_eval_set_id=results, standings=tables), troubles


def _show(result: EvaluateResult) -> None:
    for eval_set, table in result.standings.items():
        sys.stdout.writelines(f"{line}\n" for line in _summary(eval_set, table))
