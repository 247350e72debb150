"""AgentEvaluator: EvalSets in a test."""

import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from burnish.compat.agent_calls import (
    CallbackDispatcher,
    Callbacks,
    RunnerAgent,
    WatchedTarget,
    watched_metrics,
)
from burnish.compat.eval_types import (
    EvalCaseResult,
    EvalSet,
    EvalStatus,
    PassNC,
    case_results,
    pass_at_k,
    pass_hat_k,
)
from burnish.compat.evaluators import EVALUATOR_REGISTRY, LLM_EVALUATOR_REGISTRY
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import CaseResult, Evaluation, mean
from burnish.core.protocols import Metric, Target
from burnish.datasets.agent_cases import CaseFile
from burnish.datasets.formats import read_cases, read_folder
from burnish.metrics.eval_metrics import EvalConfig
from burnish.metrics.judges import MetricMaking
from burnish.metrics.turns import EPSILON
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.call_arguments import reference_of
from burnish.projects.evaluate_call import MeasureOptions, measurement_of
from burnish.projects.evaluation_setup import player_for
from burnish.projects.measurements import (
    Evaluated,
    explained,
    measured,
    measured_anew,
    threshold_of,
)
from burnish.reports.evaluation_cases import Trouble, complaints_of
from burnish.reports.evaluation_page import two
from burnish.system import read_tree, validate_config
from burnish.targets.callables import CallableTarget
from burnish.targets.callables.target import RecordedTarget

_CONFIG = "test_config.json"


@dataclass(frozen=True, kw_only=True)
class _EvaluationArguments:
    """The arguments that apply to every set."""

    call_agent: Callable[..., Any] | None
    config: Path | EvalConfig | None
    name: str
    output: Path | None
    callbacks: Callbacks
    how: MeasureOptions


@dataclass(frozen=True, kw_only=True)
class _PreparedSet:
    """One EvalSet, ready to be evaluated."""

    id: str
    file: CaseFile
    target: Target
    metrics: tuple[Metric, ...]
    how: MeasureOptions
    arguments: _EvaluationArguments

    @classmethod
    def read(cls, file: CaseFile, path: Path, arguments: _EvaluationArguments) -> "_PreparedSet":
        """Read and check everything before any set is run."""
        models = arguments.how.models or Models()
        folder, config = _configuration(path, arguments.config)
        runs = arguments.how.repeats or config.num_runs
        how = replace(arguments.how, repeats=runs, models=models)
        judge = reference_of(how.judge)
        making = MetricMaking(models=models, folder=folder, judge=judge)
        if problems := list(_problems(file, path, config, arguments)):
            raise ConfigError(problems)
        target: Target = RecordedTarget()
        if arguments.call_agent is not None:
            user = player_for(file.cases, reference_of(how.user_simulator), models)
            target = CallableTarget(agent=arguments.call_agent, user=user)
        return cls(
            id=file.eval_set_id or path.name,
            file=file,
            target=target,
            metrics=LLM_EVALUATOR_REGISTRY.with_tools(
                EVALUATOR_REGISTRY.make(config.metrics, making)
            ),
            how=how,
            arguments=arguments,
        )

    async def evaluated(self) -> Evaluated:
        """Run and score the set, with callbacks."""
        dispatcher = CallbackDispatcher(callbacks=self.arguments.callbacks, eval_set_id=self.id)
        target = WatchedTarget(target=self.target, dispatcher=dispatcher)
        metrics = watched_metrics(self.metrics, dispatcher)
        subject = self.arguments.name or self.id
        measurement = measurement_of(
            target, cases=self.file.cases, metric=metrics, options=self.how, subject=subject
        )
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
        """Call the scoring callbacks for failed runs, which never reach a metric."""
        cases = {case.id: case for case in self.file.cases}
        for result in evaluation.results:
            if result.outcome.failure is None:
                continue
            fields = {"eval_case_id": result.case, "case": cases[result.case]}
            fields |= {"outcome": result.outcome, "run_id": result.draw + 1}
            await dispatcher.dispatch("before_evaluate_case", **fields)
            await dispatcher.dispatch("after_evaluate_case", **fields, scores=result.scores)


def _prepared_sets(place: Path, arguments: _EvaluationArguments) -> list[_PreparedSet]:
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
            message = f"another eval set is called {each.id!r}"
            problems.append(Problem(where=path.name, message=message))
        sets[each.id] = each
    if problems:
        raise ConfigError(problems)
    return list(sets.values())


def _configuration(path: Path, config: Path | EvalConfig | None) -> tuple[Path, EvalConfig]:
    """The metrics of a set, and the folder that their paths start from."""
    if isinstance(config, EvalConfig):
        return Path.cwd(), config
    place = _config_path(path, config)
    return place.resolve().parent, _read_config(place)


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


def _problems(
    file: CaseFile, path: Path, config: EvalConfig, arguments: _EvaluationArguments
) -> Iterator[Problem]:
    live = [case.id for case in file.cases if case.recorded is None]
    if arguments.call_agent is None and live:
        message = f"call_agent is missing, but {len(live)} cases are not recorded ({live[0]}, …)"
        yield Problem(where=path.name, message=message, remedy="pass call_agent or runner")
    if not config.metrics:
        yield Problem(where=path.name, message="the configuration has no metrics")


@dataclass(frozen=True, kw_only=True)
class _Standing:
    """The result of one case on one metric, over all turns and runs."""

    passed: bool | None
    """None if a score is missing, which is neither a pass nor a 0."""
    value: float | None
    threshold: float | None

    def __str__(self) -> str:
        if self.passed is None:
            return "missing"
        bar = "" if self.threshold is None else f" of {self.threshold:g} needed"
        return f"{two(self.value)}{bar}"


_Table: TypeAlias = Mapping[str, Mapping[str, _Standing]]
"""By case and metric."""


def _of_case(
    results: Sequence[CaseResult], thresholds: Mapping[str, float | None]
) -> Iterator[tuple[str, _Standing]]:
    for metric, threshold in thresholds.items():
        values = [result.value(metric) for result in results if result.applies(metric)]
        numbers = [value for value in values if value is not None]
        verdicts = {s.passed for r in results for s in r.scores if s.metric == metric} - {None}
        verdicts |= {False for r in results if r.outcome.failed}
        if len(numbers) < len(values):
            yield metric, _Standing(passed=None, value=None, threshold=threshold)
        elif numbers and verdicts:
            value = mean(numbers)
            passed = verdicts == {True} or (
                # If verdicts differ between turns or runs, the mean decides.
                len(verdicts) > 1 and threshold is not None and value >= threshold - EPSILON
            )
            yield metric, _Standing(passed=passed, value=value, threshold=threshold)


def _failing(table: _Table) -> dict[str, dict[str, _Standing]]:
    bad = {
        case: {metric: each for metric, each in row.items() if each.passed is not True}
        for case, row in table.items()
    }
    return {case: row for case, row in bad.items() if row}


def _explanation(eval_set: str, evaluated: Evaluated, table: _Table) -> str:
    """The failing cases of a set with expected, actual and reason; empty if none fails."""
    bad = _failing(table)
    if not bad:
        judged = any(row for row in table.values())
        return "" if judged else f"{eval_set}: no metric gives a verdict on any case"
    rows = {row.case: row for row in evaluated.report.cases}
    lines = [f"{eval_set}: {len(bad)} of {len(table)} cases do not pass"]
    for case, metrics in bad.items():
        complaints = [
            each
            for each in complaints_of(rows[case])
            if each.metric in metrics or each.trouble is Trouble.CRASHED or not each.metric
        ]
        scores = ", ".join(f"{metric} {each}" for metric, each in metrics.items())
        lines.append(f"{explained(rows[case], tuple(complaints))}\n  overall: {scores}")
    return "\n".join(lines)


def _summary(eval_set: str, table: _Table) -> Iterator[str]:
    bad = _failing(table)
    yield f"{eval_set}: {len(table) - len(bad)} of {len(table)} cases pass"
    for case, row in table.items():
        scores = ", ".join(f"{metric} {each}" for metric, each in row.items())
        yield f"  {'✗' if case in bad else '✓'} {case}: {scores or 'no metric applies'}"


class CasesFailed(AssertionError):
    """Some cases do not pass; the message explains each, `result` has the details."""

    def __init__(self, message: str, result: "EvaluateResult") -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True, kw_only=True)
class SetResult(Evaluated):
    """One EvalSet: what burnish measured, and the same as the runs of each case."""

    eval_results_by_eval_id: Mapping[str, list[EvalCaseResult]] = field(repr=False)
    num_runs: int

    @property
    def pass_nc(self) -> PassNC:
        """How many runs there were, and in how many of them every case passed."""
        runs = zip(*self.eval_results_by_eval_id.values(), strict=True)
        passed = [all(each.final_eval_status is EvalStatus.PASSED for each in run) for run in runs]
        return PassNC(self.num_runs, sum(passed))


@dataclass(frozen=True, kw_only=True)
class EvaluateResult:
    """The results by eval set."""

    results_by_eval_set_id: Mapping[str, SetResult]
    standings: Mapping[str, _Table]
    """By set, case and metric: the mean over turns and runs."""


class EvalExecuter:
    """An evaluation that is run later, and whose result stays even if cases fail."""

    def __init__(self, evaluation: Callable[[], Awaitable[EvaluateResult]]) -> None:
        self._evaluation = evaluation
        self._result: EvaluateResult | None = None

    async def evaluate(self) -> None:
        """Run it; raises CasesFailed if a case does not pass."""
        try:
            self._result = await self._evaluation()
        except CasesFailed as failed:
            self._result = failed.result
            raise

    def get_result(self) -> EvaluateResult | None:
        """The result; None before the evaluation."""
        return self._result


class AgentEvaluator:
    """Runs the cases of EvalSets and asserts that they pass."""

    @classmethod
    async def evaluate(
        cls,
        eval_set_path: str | Path | None = None,
        *,
        call_agent: Callable[..., Any] | None = None,
        runner: Any = None,
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

        The agent is `call_agent`, or a `runner` whose `run_async` yields events; without either,
        all cases must be recorded. The metrics and the default of `num_runs` are in
        `test_config_path`, or in the `test_config.json` beside each set. Raises CasesFailed, an
        AssertionError, if a case does not pass. The last two parameters are aliases of the two
        paths.
        """
        place = eval_set_path or eval_dataset_file_path_or_dir
        if place is None:
            raise ConfigError([Problem(message="no eval set was given", where="eval_set_path")])
        config = test_config_path or eval_metrics_file_path_or_dir
        how = MeasureOptions(
            repeats=num_runs,
            concurrency=case_parallelism,
            judge=judge,
            user_simulator=user_simulator,
            models=models,
        )
        arguments = _EvaluationArguments(
            call_agent=_one_agent(call_agent, runner),
            config=None if config is None else Path(config),
            name=agent_name,
            output=None if eval_result_output_dir is None else Path(eval_result_output_dir),
            callbacks=callbacks or Callbacks(),
            how=how,
        )
        return await _asserted(_prepared_sets(Path(place), arguments), print_detailed_results)

    @classmethod
    async def evaluate_eval_set(
        cls,
        eval_set: EvalSet,
        *,
        eval_config: EvalConfig,
        call_agent: Callable[..., Any] | None = None,
        runner: Any = None,
        num_runs: int | None = None,
        agent_name: str = "",
        print_detailed_results: bool = True,
        case_parallelism: int | None = None,
        callbacks: Callbacks | None = None,
        models: Models | None = None,
    ) -> EvaluateResult:
        """Evaluate an EvalSet that a program has made; like `evaluate` in everything else."""
        arguments = _EvaluationArguments(
            call_agent=_one_agent(call_agent, runner),
            config=eval_config,
            name=agent_name,
            output=None,
            callbacks=callbacks or Callbacks(),
            how=MeasureOptions(repeats=num_runs, concurrency=case_parallelism, models=models),
        )
        prepared = _PreparedSet.read(eval_set.case_file, Path(eval_set.eval_set_id), arguments)
        return await _asserted([prepared], print_detailed_results)

    @classmethod
    def get_executer(cls, *paths: str | Path, **options: Any) -> EvalExecuter:
        """The same as `evaluate` with these arguments, to be run later."""
        return EvalExecuter(partial(cls.evaluate, *paths, **options))

    @staticmethod
    def parse_pass_nc(result: EvaluateResult) -> dict[str, PassNC]:
        """By EvalSet, the runs, and those in which every case passed."""
        return {name: each.pass_nc for name, each in result.results_by_eval_set_id.items()}

    pass_at_k = staticmethod(pass_at_k)
    pass_hat_k = staticmethod(pass_hat_k)


def _one_agent(call_agent: Callable[..., Any] | None, runner: Any) -> Callable[..., Any] | None:
    if call_agent is not None and runner is not None:
        message = "call_agent and runner are two agents"
        raise ConfigError([Problem(where="runner", message=message, remedy="pass one of them")])
    return call_agent if runner is None else RunnerAgent(runner)


async def _asserted(sets: Sequence[_PreparedSet], show: bool) -> EvaluateResult:  # noqa: FBT001
    result, troubles = await _evaluated(sets)
    if show:
        for eval_set, table in result.standings.items():
            sys.stdout.writelines(f"{line}\n" for line in _summary(eval_set, table))
    if troubles:
        raise CasesFailed("\n".join(troubles), result)
    return result


async def _evaluated(sets: Sequence[_PreparedSet]) -> tuple[EvaluateResult, list[str]]:
    results: dict[str, SetResult] = {}
    tables: dict[str, _Table] = {}
    troubles: list[str] = []
    for each in sets:
        evaluated = await each.evaluated()
        evaluation = evaluated.evaluation
        thresholds = {metric.name: threshold_of(metric) for metric in each.metrics}
        results[each.id] = SetResult(
            **{name: getattr(evaluated, name) for name in Evaluated.__dataclass_fields__},
            eval_results_by_eval_id=case_results(each.id, evaluated, thresholds),
            num_runs=each.how.repeats or 1,
        )
        tables[each.id] = {
            case: dict(_of_case(evaluation.of_case(case), thresholds)) for case in evaluation.cases
        }
        if explanation := _explanation(each.id, evaluated, tables[each.id]):
            troubles.append(explanation)
    return EvaluateResult(results_by_eval_set_id=results, standings=tables), troubles
