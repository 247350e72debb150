"""Where eval sets and metrics come from, and where results go: PromptIter's evaluation stack."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from burnish.compat.promptiter.requests import EvalSetInput, RunRequest
from burnish.compat.promptiter.runners import asked_by
from burnish.compat.promptiter.set_metrics import joined
from burnish.compat.promptiter.teaching import TaughtMetric, Teacher, wants_teacher
from burnish.core.cases import Case, Dataset
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.protocols import Metric
from burnish.evaluation.configs.eval_making import make_metric
from burnish.evaluation.configs.eval_metrics import MetricItem, read_metrics
from burnish.evaluation.configs.making import MetricMaking, check_names
from burnish.evaluation.datasets.formats import read_cases
from burnish.evaluation.judges.judged import check_judges
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.projects.given_agents import How, target_of
from burnish.projects.prompts.datasets import unfit_cases

T = TypeVar("T")
OUTPUT = Path("results") / "promptiter"


@dataclass(frozen=True, kw_only=True)
class Home:
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
    homes: Mapping[str, Home]
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
    output_dir: Path = OUTPUT
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
        self._homes: dict[str, Home] = {}
        models, self._judge = stack.models, stack.judge
        if request.judge is not None:
            self._judge, models = asked_by(request.judge, models)
        self._models = models

    def assets(self) -> Assets:
        """The assets, or everything that is wrong."""
        train = self._cases(self._request.train_inputs)
        holdout = self._cases(self._request.validation_inputs)
        dataset = Dataset(train=tuple(train), holdout=tuple(holdout))
        names = dict.fromkeys(home.eval_set for home in self._homes.values())
        by_set = {name: self._metrics(name) for name in names}
        if not self._problems:
            self._problems += unfit_cases(dataset, scenarios=self._stack.scenarios)
            self._problems += self._untaught(dataset)
        if self._problems:
            raise ConfigError(self._problems)
        sets = {name: home.eval_set for name, home in self._homes.items()}
        return Assets(
            dataset=dataset,
            metrics=self._taught(joined(by_set, sets)),
            homes=self._homes,
            names={name: tuple(metric.name for metric in found) for name, found in by_set.items()},
            models=self._models,
        )

    def _cases(self, inputs: Sequence[EvalSetInput]) -> Iterator[Case]:
        """The cases of a split; a set that is named twice gives what either entry asks for."""
        for name in dict.fromkeys(each.eval_set_id for each in inputs):
            entries = [each for each in inputs if each.eval_set_id == name]
            every = any(not each.eval_case_ids for each in entries)
            wanted = [case for each in entries for case in each.eval_case_ids]
            cases = self._read(name, lambda name=name: list(self._stack.cases_of(name)))
            gone = sorted(set(wanted) - {case.id for case in cases}) if cases else []
            self._problems += [
                Problem(where=name, message=f"there is no case '{case}' in this set")
                for case in gone
            ]
            yield from (self._at_home(name, c) for c in cases if every or c.id in wanted)

    def _at_home(self, eval_set: str, case: Case) -> Case:
        home = Home(eval_set=eval_set, case=case.id)
        self._homes[home.name] = home
        return replace(case, name=home.name)

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
            told = Problem(where=where, message=error.message, remedy=error.remedy)
            self._problems.append(told)
        return []

    def _untaught(self, dataset: Dataset) -> Iterator[Problem]:
        if self._request.teacher is not None:
            return
        for case in (*dataset.train, *dataset.holdout):
            if wants_teacher(case):
                told = "this case takes its reference from the teacher, and there is none"
                yield Problem(where=case.id, message=told, remedy="give the request a teacher")

    def _taught(self, metrics: tuple[Metric, ...]) -> tuple[Metric, ...]:
        if self._request.teacher is None:
            return metrics
        target, _ = target_of(self._request.teacher, (), How(), self._models)
        teacher = Teacher(target=target)
        return tuple(TaughtMetric(metric=metric, teacher=teacher) for metric in metrics)
