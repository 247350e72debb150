"""PromptIter's evaluation stack: sets, metrics, results, and the teacher."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from burnish.compat.callbacks import AroundMetric
from burnish.compat.promptiter.requests import EvalSetInput, RunRequest
from burnish.compat.promptiter.results import CaseResult, EvalSetResult, EvaluationResult
from burnish.compat.promptiter.runners import as_model
from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, codec, short_id
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.evaluations import Score
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Call, Effects, Metric, Receipt, Scope, Target
from burnish.datasets.formats import read_cases
from burnish.journal.executors import failure_of
from burnish.metrics.eval_factory import make_metric
from burnish.metrics.eval_metrics import MetricItem, read_metrics
from burnish.metrics.factory import MetricMaking, check_names
from burnish.metrics.judged import check_judges
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.evaluate import How, target_of
from burnish.projects.measurements import threshold_of
from burnish.projects.prompts.datasets import unfit_cases
from burnish.system import write_atomic


@dataclass(frozen=True, kw_only=True)
class _InTurn(AroundMetric):
    """Another metric, which waits until nobody else scores; what it says is the same."""

    turn: asyncio.Lock = field(compare=False)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Score when it is this case's turn."""
        async with self.turn:
            return await super().score(case, outcome, effects=effects)


def in_turn(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    """The metrics, no two of which score at the same time."""
    turn = asyncio.Lock()
    return tuple(_InTurn(metric=metric, turn=turn) for metric in metrics)


@dataclass(frozen=True, kw_only=True)
class EvalResultFiles:
    """Writes the results of one run, a file for each set and stage."""

    folder: Path
    app_name: str
    run_id: str
    thresholds: Mapping[str, float]
    at: float
    """When the run began, in seconds: a replay writes the same files."""

    def write(self, evaluation: EvaluationResult, stage: str) -> None:
        """Write an evaluation; one that is there already stays as it is."""
        for each in evaluation.eval_sets:
            name = f"{self.app_name}_{each.eval_set_id}_{self.run_id}_{stage}"
            path = self.folder / self.app_name / f"{name}.evalset_result.json"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps(self._set(name, each), indent=2, ensure_ascii=False)
                write_atomic(path, f"{text}\n")

    def _set(self, name: str, result: EvalSetResult) -> dict[str, Json]:
        return {
            "evalSetResultId": name,
            "evalSetResultName": name,
            "evalSetId": result.eval_set_id,
            "evalCaseResults": [self._case(case) for case in result.cases],
            "creationTimestamp": self.at,
        }

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


# -- Metrics that belong to sets ------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _SetMetric:
    """One name, and by set the metric that goes by it; other sets are not scored."""

    name: str
    by_set: Mapping[str, Metric]
    sets: Mapping[str, str]
    """The set of each case."""

    @property
    def fingerprint(self) -> str:
        """A hash of all of them."""
        return short_id([[name, each.fingerprint] for name, each in sorted(self.by_set.items())])

    @property
    def threshold(self) -> float | None:
        """What it wants, where all sets agree."""
        thresholds = {threshold_of(metric) for metric in self.by_set.values()}
        return thresholds.pop() if len(thresholds) == 1 else None

    def of(self, case: Case) -> Metric | None:
        """The metric of a case's set."""
        return self.by_set.get(self.sets.get(case.id, ""))

    def estimate(self, case: Case) -> Spend:
        """What the set's own metric costs."""
        metric = self.of(case)
        return NOTHING if metric is None else metric.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """What the set's own metric says."""
        metric = self.of(case)
        return [] if metric is None else await metric.score(case, outcome, effects=effects)


def joined(by_set: Mapping[str, Sequence[Metric]], sets: Mapping[str, str]) -> tuple[Metric, ...]:
    """The metrics of all sets; one that is everywhere the same stays as it is."""
    names = dict.fromkeys(metric.name for metrics in by_set.values() for metric in metrics)
    return tuple(_joined(name, by_set, sets) for name in names)


def _joined(name: str, by_set: Mapping[str, Sequence[Metric]], sets: Mapping[str, str]) -> Metric:
    matches = {
        each: metric
        for each, metrics in by_set.items()
        for metric in metrics
        if metric.name == name
    }
    first = next(iter(matches.values()))
    same = {metric.fingerprint for metric in matches.values()} == {first.fingerprint}
    return (
        first
        if same and len(matches) == len(by_set)
        else _SetMetric(name=name, by_set=matches, sets=sets)
    )


# -- The teacher ----------------------------------------------------------------------------------


_EXPECTED_RUNNER = "expected_runner_enabled"
"""The extra of a case that asks for the teacher's answer, whatever the file expects."""


def _wants_teacher(case: Case) -> bool:
    """Whether the case says that its reference comes from the teacher."""
    return case.extras.get(_EXPECTED_RUNNER) is True


@dataclass(frozen=True, kw_only=True)
class _Teacher:
    """Answers cases, so that others can be compared with it."""

    target: Target

    @property
    def fingerprint(self) -> str:
        """A hash of the target."""
        return self.target.description.fingerprint

    def teaches(self, case: Case) -> bool:
        """Whether a case needs an answer: it asks for one, or has none."""
        bare = case.scenario is None and all(turn.expected is None for turn in case.turns)
        return bare or _wants_teacher(case)

    def estimate(self, case: Case) -> Spend:
        """What an answer costs."""
        return self.target.estimate(case) if self.teaches(case) else NOTHING

    async def answer(self, case: Case, effects: Effects) -> Outcome:
        """The answer, paid once for all candidates and metrics."""
        call = Call(
            kind="teacher",
            request={"target": self.fingerprint, "case": case.content_id},
            codec=codec(Outcome),
            estimate=self.target.estimate(case) if self.target.leaf else NOTHING,
        )
        return await effects.once(call, lambda inner: self._perform(case, inner))

    async def _perform(self, case: Case, effects: Scope) -> Receipt[Outcome]:
        baseline = self.target.baseline
        try:
            receipt = await self.target.run(baseline, case, draw=0, effects=effects)
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's teacher: law 4
            failed = Outcome(failure=failure_of(error))
            return Receipt(value=failed, spend=self.target.estimate(case), missing=failed.missing)
        return replace(receipt, missing=receipt.value.missing)


@dataclass(frozen=True, kw_only=True)
class _TaughtMetric(AroundMetric):
    """Another metric, with the teacher's answer where a case has none."""

    teacher: _Teacher

    @property
    def fingerprint(self) -> str:
        """A hash of the metric and of who teaches."""
        return short_id([self.metric.fingerprint, self.teacher.fingerprint])

    def estimate(self, case: Case) -> Spend:
        """Both together."""
        return self.metric.estimate(case) + self.teacher.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Score against the teacher's answer; missing where the teacher has none."""
        if not self.teacher.teaches(case):
            return await self.metric.score(case, outcome, effects=effects)
        taught = await self.teacher.answer(case, effects)
        if taught.failure is not None:
            message = f"the teacher gave no reference answer: {taught.failure.message}"
            return [Score.of_nothing(self.name, message)]
        return await self.metric.score(_with_answers(case, taught), outcome, effects=effects)


def _with_answers(case: Case, taught: Outcome) -> Case:
    turns = tuple(
        replace(turn, expected=taught.replies[place]) if place < len(taught.replies) else turn
        for place, turn in enumerate(case.turns)
    )
    return replace(case, turns=turns)


# -- Where eval sets and metrics come from --------------------------------------------------------


T = TypeVar("T")
_OUTPUT = Path("results") / "promptiter"


@dataclass(frozen=True, kw_only=True)
class CaseOrigin:
    """Where a case is from: the same case id may be in two sets."""

    eval_set: str
    case: str

    @property
    def name(self) -> str:
        """What a run calls the case."""
        return f"{self.eval_set}/{self.case}"


@dataclass(frozen=True, kw_only=True)
class Assets:
    """What a request is evaluated on, and by."""

    dataset: Dataset
    metrics: tuple[Metric, ...]
    origins: Mapping[str, CaseOrigin]
    """By the name that the run gives a case."""
    names: Mapping[str, tuple[str, ...]]
    """By set, the names of its metrics."""
    models: Models


@dataclass(frozen=True, kw_only=True)
class EvaluationStack:
    """The evaluation assets of an app, in files or in memory.

    Files lie as `<data_dir>/<app_name>/<set>.evalset.json` and `<set>.metrics.json`.
    """

    app_name: str
    data_dir: Path = Path("data")
    output_dir: Path = _OUTPUT
    shared_metrics: str = ""
    """The id of one metrics file for all sets."""
    sets: Mapping[str, Sequence[Case]] = field(default_factory=dict[str, Sequence[Case]])
    """Sets that are in no file."""
    metrics: Sequence[Metric] = ()
    """Metrics of one's own, in place of metrics files."""
    evaluators: Mapping[str, Callable[[MetricItem], Metric]] = field(
        default_factory=dict[str, Callable[[MetricItem], Metric]]
    )
    """What makes metrics of one's own from items of a metrics file, by evaluator name."""
    judge: ModelRef | str | None = None
    """Who judges where neither a metric nor a request names anybody."""
    models: Models = field(default_factory=Models)
    scenarios: bool = True
    """Whether there is somebody to play the user of a case."""

    def load(self, request: RunRequest) -> Assets:
        """Everything a request names; all that is wrong with it is said at once."""
        return _Loading(self, request).assets()

    def cases_of(self, eval_set: str) -> Sequence[Case]:
        """The cases of a set."""
        if eval_set in self.sets:
            return self.sets[eval_set]
        return read_cases(self._path(eval_set, "evalset")).cases

    def metrics_of(self, eval_set: str, making: Callable[[Path], MetricMaking]) -> list[Metric]:
        """The metrics of a set."""
        if self.metrics:
            return list(self.metrics)
        path = self._path(self.shared_metrics or eval_set, "metrics")
        items = read_metrics(path)
        check_names([item.metric_name for item in items])
        if not items:
            raise ConfigError([Problem(where=path.name, message="there is no metric in it")])
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
    """A request on its way to assets."""

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
        """The assets, or everything that is wrong."""
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
        return Assets(
            dataset=dataset,
            metrics=self._taught(joined(by_set, sets)),
            origins=self._origins,
            names={
                name: tuple(metric.name for metric in metrics) for name, metrics in by_set.items()
            },
            models=self._models,
        )

    def _cases(self, inputs: Sequence[EvalSetInput]) -> Iterator[Case]:
        """The cases of a split; a set that is named twice gives what either entry asks for."""
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
            yield from (self._with_origin(name, c) for c in cases if every or c.id in ids)

    def _with_origin(self, eval_set: str, case: Case) -> Case:
        origin = CaseOrigin(eval_set=eval_set, case=case.id)
        self._origins[origin.name] = origin
        return replace(case, name=origin.name)

    def _metrics(self, eval_set: str) -> list[Metric]:
        def metrics() -> list[Metric]:
            made = self._stack.metrics_of(eval_set, self._making)
            check_judges(made)
            return made

        return self._read(eval_set, metrics)

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
                message = "this case takes its reference from the teacher, and there is none"
                yield Problem(where=case.id, message=message, remedy="give the request a teacher")

    def _taught(self, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        if self._request.teacher is None:
            return metrics
        target, _ = target_of(self._request.teacher, (), How(), self._models)
        teacher = _Teacher(target=target)
        return tuple(_TaughtMetric(metric=metric, teacher=teacher) for metric in metrics)
