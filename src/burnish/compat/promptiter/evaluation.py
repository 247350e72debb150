"""PromptIter's evaluation stack: sets, metrics, results, the teacher, and runners as models."""

import asyncio
import inspect
import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar, cast

from burnish.compat.agent_calls import AroundMetric
from burnish.compat.promptiter.requests import EvalSetInput, RunRequest
from burnish.compat.promptiter.results import CaseResult, EvaluationResult
from burnish.core.cases import Case, Dataset, Outcome, Usage
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Call, Effects, Metric, Receipt, Scope, Target
from burnish.datasets.formats import read_cases
from burnish.journal.executors import failure_of, is_infrastructure
from burnish.journal.once import DirectEffects
from burnish.metrics.eval_factory import make_metric
from burnish.metrics.eval_metrics import MetricItem, read_metrics
from burnish.metrics.judged import check_judges
from burnish.metrics.judges import MetricMaking, check_names
from burnish.models.chat import ChatReply, ChatRequest, ModelClient
from burnish.models.errors import ModelRejected, ModelUnavailable
from burnish.models.factory import Models, ModelUse
from burnish.models.references import ModelRef, ModelSettings
from burnish.projects.call_arguments import reference_of, target_of
from burnish.projects.evaluation_setup import unfit_cases
from burnish.projects.measurements import threshold_of
from burnish.system import write_atomic
from burnish.system.user_code import file_fingerprint
from burnish.targets.user_code import in_thread, of_value

Runner: TypeAlias = Callable[..., Any] | Target
"""`runner(message)`, async or not, or an agent target.

The parameters `user_id`, `session_id`, `schema` and those of the run options are passed if it has
them.
"""
Supplier: TypeAlias = Callable[[], str]


def new_id() -> str:
    """A random id."""
    return str(uuid.uuid4())


@dataclass(frozen=True, kw_only=True)
class RunnerBackend:
    """Calls a runner like a model: journaled, retried, limited."""

    runner: Runner
    run_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    user_id: Supplier = new_id
    session_id: Supplier = new_id

    async def complete(self, ref: ModelRef, request: ChatRequest, *, draw: int) -> ChatReply:
        try:
            outcome = await self._run(_message_of(request), request.schema, draw)
        except BurnishError:
            raise
        except Exception as error:  # the border to the user's runner
            message = f"{ref.name} raised {type(error).__name__}: {error}"
            kind = ModelUnavailable if is_infrastructure(error) else ModelRejected
            raise kind(message) from error
        if outcome.failure is not None:
            kind = ModelUnavailable if outcome.missing else ModelRejected
            raise kind(outcome.failure.message)
        return ChatReply(text=outcome.output, usage=outcome.usage or Usage(), model=ref.name)

    async def _run(self, message: str, schema: Mapping[str, Json] | None, draw: int) -> Outcome:
        runner = self.runner
        if _is_target(runner):
            case = Case.single(message, name="message")
            effects = DirectEffects()
            return (await runner.run(runner.baseline, case, draw=draw, effects=effects)).value
        assert callable(runner)
        arguments = {"user_id": self.user_id(), "session_id": self.session_id(), "schema": schema}
        call = partial(runner, message, **_accepted_by(runner, {**arguments, **self.run_options}))
        value = call() if _is_async(runner) else await in_thread(call)
        return of_value(await value if inspect.isawaitable(value) else value)

    def check(self, ref: ModelRef) -> None:
        del ref

    def identity(self, ref: ModelRef) -> str:
        del ref
        return code_identity(self.runner)

    async def close(self) -> None:
        """The owner of a runner closes it."""


class _RunnerModels(Models):
    """The models of a project plus one runner."""

    def __init__(self, models: Models, backend: RunnerBackend) -> None:
        super().__init__(prices=models.prices)
        self._models = models
        self._runner = backend

    def client(
        self,
        ref: ModelRef,
        settings: ModelSettings | None = None,
        *,
        role: str = "model",
        tools: bool = False,
    ) -> ModelClient:
        if ref.provider != "runner":
            return self._models.client(ref, settings, role=role, tools=tools)
        return ModelClient(ref=ref, backend=self._runner, prices=self.prices)

    def uses(self) -> tuple[ModelUse, ...]:
        return self._models.uses()

    def secrets(self, environ: Mapping[str, str] | None = None) -> list[str]:
        return self._models.secrets(environ)

    async def close(self) -> None:
        await self._models.close()


def as_model(
    who: Runner | ModelRef | str, models: Models, backend: RunnerBackend | None = None
) -> tuple[ModelRef, Models]:
    """A model, or a runner as a model: its reference, and the models that include it."""
    if isinstance(who, str | ModelRef):
        return reference_of(who), models
    ref = ModelRef(provider="runner", name=name_of(who))
    return ref, _RunnerModels(models, backend or RunnerBackend(runner=who))


def _message_of(request: ChatRequest) -> str:
    text = "\n\n".join(message.content for message in request.messages)
    if request.schema is None:
        return text
    schema = json.dumps(dict(request.schema), ensure_ascii=False)
    return f"{text}\n\nThe JSON schema of the answer:\n{schema}"


def _is_target(runner: object) -> TypeGuard[Target]:
    return hasattr(runner, "baseline") and hasattr(runner, "description")


def name_of(code: object) -> str:
    """The qualified name of a function or of an object's class."""
    if _is_target(code):
        return code.description.kind
    named = _named(code)
    return f"{named.__module__}:{named.__qualname__}"


def code_identity(code: object) -> str:
    """A fingerprint of code: its own, else its name and its file."""
    if _is_target(code):
        return code.description.fingerprint
    own = getattr(code, "fingerprint", None)
    if isinstance(own, str):
        return own
    try:
        source = file_fingerprint(inspect.getsourcefile(_named(code)))
    except TypeError:
        source = ""  # made in C, or typed into a console
    return f"{name_of(code)} {source}".strip()


def _named(code: object) -> Any:
    inner: object = cast("object", code.func) if isinstance(code, partial) else code
    return inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)


def _is_async(runner: Callable[..., Any]) -> bool:
    called = getattr(runner, "__call__", runner)  # noqa: B004 - an object's method, not a check
    return inspect.iscoroutinefunction(runner) or inspect.iscoroutinefunction(called)


def _accepted_by(runner: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(runner).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return dict(arguments)
    return {name: value for name, value in arguments.items() if name in parameters}


@dataclass(frozen=True, kw_only=True)
class _InTurn(AroundMetric):
    """Wraps a metric so that only one case is scored at a time."""

    turn: asyncio.Lock = field(compare=False)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        async with self.turn:
            return await super().score(case, outcome, effects=effects)


def in_turn(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics, wrapped so that no two score at the same time."""
    turn = asyncio.Lock()
    return tuple(_InTurn(metric=metric, turn=turn) for metric in metrics)


EVALSET_RESULTS = "evalset_results"
"""The folder of a run that has the results in PromptIter's files."""


@dataclass(frozen=True, kw_only=True)
class EvalResultFiles:
    """Writes the results of one run, one file per set and stage."""

    folder: Path
    app_name: str
    run_id: str
    thresholds: Mapping[str, float]
    at: float
    """The start of the run in seconds, so that a replay writes the same files."""

    def write(self, evaluation: EvaluationResult, stage: str) -> None:
        """Write an evaluation; existing files are not changed."""
        for each in evaluation.eval_sets:
            name = f"{self.app_name}_{each.eval_set_id}_{self.run_id}_{stage}"
            path = self.folder / self.app_name / f"{name}.evalset_result.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                data = {
                    "evalSetResultId": name,
                    "evalSetResultName": name,
                    "evalSetId": each.eval_set_id,
                    "evalCaseResults": [self._case(case) for case in each.cases],
                    "creationTimestamp": self.at,
                }
                write_atomic(path, f"{json.dumps(data, indent=2, ensure_ascii=False)}\n")

    def _case(self, case: CaseResult) -> Json:
        statuses = {metric.status for metric in case.metrics}
        usual = "passed" if statuses == {"passed"} else "not_evaluated"
        return {
            "evalSetId": case.eval_set_id,
            "evalId": case.eval_case_id,
            "finalEvalStatus": "failed" if "failed" in statuses else usual,
            "overallEvalMetricResults": [
                {
                    "metricName": metric.metric_name,
                    "score": metric.score,
                    "evalStatus": metric.status,
                    "threshold": self.thresholds.get(metric.metric_name),
                    "details": {"reason": metric.reason, "score": metric.score},
                }
                for metric in case.metrics
            ],
            "sessionId": case.session_id,
        }


@dataclass(frozen=True, kw_only=True)
class _SetMetric:
    """A metric that differs between sets; cases of other sets are not scored."""

    name: str
    by_set: Mapping[str, Metric]
    sets: Mapping[str, str]
    """By case, its set."""

    @property
    def fingerprint(self) -> str:
        return short_id([[name, each.fingerprint] for name, each in sorted(self.by_set.items())])

    @property
    def threshold(self) -> float | None:
        thresholds = {threshold_of(metric) for metric in self.by_set.values()}
        return thresholds.pop() if len(thresholds) == 1 else None

    def _of(self, case: Case) -> Metric | None:
        return self.by_set.get(self.sets.get(case.id, ""))

    def estimate(self, case: Case) -> Spend:
        metric = self._of(case)
        return NOTHING if metric is None else metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        metric = self._of(case)
        return [] if metric is None else await metric.score(case, outcome, effects=effects)


def _joined(name: str, by_set: Mapping[str, Sequence[Metric]], sets: Mapping[str, str]) -> Metric:
    """One metric for all sets; it is unchanged if it is the same in each."""
    matches = {
        each: metric
        for each, metrics in by_set.items()
        for metric in metrics
        if metric.name == name
    }
    first = next(iter(matches.values()))
    same = {metric.fingerprint for metric in matches.values()} == {first.fingerprint}
    if same and len(matches) == len(by_set):
        return first
    return _SetMetric(name=name, by_set=matches, sets=sets)


def _wants_teacher(case: Case) -> bool:
    return case.extras.get("expected_runner_enabled") is True


@dataclass(frozen=True, kw_only=True)
class _TaughtMetric(AroundMetric):
    """Wraps a metric; the teacher answers cases that have no reference or ask for one."""

    teacher: Target

    @property
    def fingerprint(self) -> str:
        return short_id([self.metric.fingerprint, self.teacher.description.fingerprint])

    def estimate(self, case: Case) -> Spend:
        cost = self.teacher.estimate(case) if self._teaches(case) else NOTHING
        return self.metric.estimate(case) + cost

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        if not self._teaches(case):
            return await self.metric.score(case, outcome, effects=effects)
        # Paid once for all candidates and metrics.
        call = Call(
            kind="teacher",
            request={
                "target": self.teacher.description.fingerprint,
                "case": case.content_id,
            },
            codec=codec(Outcome),
            estimate=self.teacher.estimate(case) if self.teacher.leaf else NOTHING,
        )
        taught = await effects.once(call, lambda inner: self._answer(case, inner))
        if taught.failure is not None:
            message = f"the teacher gave no reference answer: {taught.failure.message}"
            return [Score.of_nothing(self.name, message)]
        return await self.metric.score(_with_answers(case, taught), outcome, effects=effects)

    def _teaches(self, case: Case) -> bool:
        bare = case.scenario is None and all(turn.expected is None for turn in case.turns)
        return bare or _wants_teacher(case)

    async def _answer(self, case: Case, effects: Scope) -> Receipt[Outcome]:
        try:
            receipt = await self.teacher.run(self.teacher.baseline, case, draw=0, effects=effects)
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's teacher: what they raise is the case's failure
            failed = Outcome(failure=failure_of(error))
            spend = self.teacher.estimate(case)
            return Receipt(value=failed, spend=spend, missing=failed.missing)
        return replace(receipt, missing=receipt.value.missing)


def _with_answers(case: Case, taught: Outcome) -> Case:
    turns = tuple(
        replace(turn, expected=taught.replies[place]) if place < len(taught.replies) else turn
        for place, turn in enumerate(case.turns)
    )
    return replace(case, turns=turns)


T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class CaseOrigin:
    """The set and id of a case, since two sets may use the same case id."""

    eval_set: str
    case: str

    @property
    def name(self) -> str:
        return f"{self.eval_set}/{self.case}"

    @property
    def ids(self) -> dict[str, str]:
        """The fields that identify a case in PromptIter's JSON."""
        return {"eval_set_id": self.eval_set, "eval_case_id": self.case}


@dataclass(frozen=True, kw_only=True)
class Assets:
    """The cases and metrics of a request."""

    dataset: Dataset
    metrics: tuple[Metric, ...]
    origins: Mapping[str, CaseOrigin]
    """By the case's name in the run."""
    names: Mapping[str, tuple[str, ...]]
    """The names of each set's metrics."""
    models: Models


@dataclass(frozen=True, kw_only=True)
class EvaluationStack:
    """The evaluation assets of an app, in files or in memory.

    Files are `<data_dir>/<app_name>/<set>.evalset.json` and `<set>.metrics.json`.
    """

    app_name: str
    data_dir: Path = Path("data")
    output_dir: Path | None = Path("results") / "promptiter"
    """Where results are written; None for the folder of the run."""
    shared_metrics: str = ""
    """The id of one metrics file for all sets."""
    sets: Mapping[str, Sequence[Case]] = field(default_factory=dict[str, Sequence[Case]])
    """Sets in memory, by id."""
    metrics: Sequence[Metric] = ()
    """Custom metrics that replace the metrics files."""
    evaluators: Mapping[str, Callable[[MetricItem], Metric]] = field(
        default_factory=dict[str, Callable[[MetricItem], Metric]]
    )
    """Factories of custom metrics for items of a metrics file, by evaluator name."""
    judge: ModelRef | str | None = None
    """The default judge."""
    models: Models = field(default_factory=Models)
    scenarios: bool = True
    """Whether simulated users are available."""

    def load(self, request: RunRequest) -> Assets:
        """Load the cases and metrics of a request; all problems are raised together."""
        return _Loading(self, request).assets()

    def cases_of(self, eval_set: str) -> Sequence[Case]:
        if eval_set in self.sets:
            return self.sets[eval_set]
        return read_cases(self._path(eval_set, "evalset")).cases

    def metrics_of(self, eval_set: str, making: Callable[[Path], MetricMaking]) -> list[Metric]:
        if self.metrics:
            return list(self.metrics)
        path = self._path(self.shared_metrics or eval_set, "metrics")
        items = read_metrics(path)
        check_names([item.metric_name for item in items])
        if not items:
            raise ConfigError([Problem(where=path.name, message="the file contains no metrics")])
        bench = making(path.resolve().parent)
        return [
            self.evaluators[item.kind](item)
            if item.kind in self.evaluators
            else make_metric(item, bench)
            for item in items
        ]

    def _path(self, name: str, kind: str) -> Path:
        return self.data_dir / self.app_name / f"{name}.{kind}.json"


class _Loading:
    """Loads the assets of one request."""

    def __init__(self, stack: EvaluationStack, request: RunRequest) -> None:
        self._stack = stack
        self._request = request
        self._problems: list[Problem] = []
        self._origins: dict[str, CaseOrigin] = {}
        models, self._judge = stack.models, stack.judge
        if request.judge is not None:
            self._judge, models = as_model(request.judge, models)
        self._models = models

    def assets(self) -> Assets:
        train = self._cases(self._request.train_inputs)
        holdout = self._cases(self._request.validation_inputs)
        dataset = Dataset(train=tuple(train), holdout=tuple(holdout))
        names = dict.fromkeys(origin.eval_set for origin in self._origins.values())
        by_set = {name: self._metrics(name) for name in names}
        if not self._problems:
            self._problems += unfit_cases(dataset, scenarios=self._stack.scenarios)
            self._problems += self._untaught(dataset)
        if self._problems:
            raise ConfigError(self._problems)
        sets = {name: origin.eval_set for name, origin in self._origins.items()}
        metric_names = dict.fromkeys(m.name for metrics in by_set.values() for m in metrics)
        return Assets(
            dataset=dataset,
            metrics=self._taught([_joined(name, by_set, sets) for name in metric_names]),
            origins=self._origins,
            names={
                name: tuple(metric.name for metric in metrics) for name, metrics in by_set.items()
            },
            models=self._models,
        )

    def _cases(self, inputs: Sequence[EvalSetInput]) -> Iterator[Case]:
        """The cases of a split; several entries for one set are combined."""
        for name in dict.fromkeys(each.eval_set_id for each in inputs):
            entries = [each for each in inputs if each.eval_set_id == name]
            every = any(not each.eval_case_ids for each in entries)
            ids = [case for each in entries for case in each.eval_case_ids]
            cases = self._read(name, lambda name=name: list(self._stack.cases_of(name)))
            gone = sorted(set(ids) - {case.id for case in cases}) if cases else []
            self._problems += [
                Problem(where=name, message=f"there is no case '{case}' in this set")
                for case in gone
            ]
            for case in cases:
                if every or case.id in ids:
                    origin = CaseOrigin(eval_set=name, case=case.id)
                    self._origins[origin.name] = origin
                    yield replace(case, name=origin.name)

    def _metrics(self, eval_set: str) -> list[Metric]:
        def read() -> list[Metric]:
            metrics = self._stack.metrics_of(eval_set, self._making)
            check_judges(metrics)
            return metrics

        return self._read(eval_set, read)

    def _making(self, folder: Path) -> MetricMaking:
        judge = self._judge
        ref = ModelRef.parse(judge) if isinstance(judge, str) else judge
        return MetricMaking(models=self._models, folder=folder, judge=ref)

    def _read(self, where: str, read: Callable[[], list[T]]) -> list[T]:
        try:
            return read()
        except ConfigError as error:
            self._problems += error.problems
        except BurnishError as error:
            problem = Problem(where=where, message=error.message, remedy=error.remedy)
            self._problems.append(problem)
        return []

    def _untaught(self, dataset: Dataset) -> Iterator[Problem]:
        if self._request.teacher is not None:
            return
        for case in (*dataset.train, *dataset.holdout):
            if _wants_teacher(case):
                message = "this case takes its reference from a teacher, but the request has none"
                yield Problem(where=case.id, message=message, remedy="set a teacher in the request")

    def _taught(self, metrics: Sequence[Metric]) -> tuple[Metric, ...]:
        if self._request.teacher is None:
            return tuple(metrics)
        teacher = target_of(self._request.teacher, None)
        return tuple(_TaughtMetric(metric=metric, teacher=teacher) for metric in metrics)
