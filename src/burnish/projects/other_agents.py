"""Measuring agents that are called: from a project file to a measurement."""

import os
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.errors import ConfigError, PriceUnknown
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.evaluation.configs.layering import make_agent_metrics
from burnish.evaluation.configs.making import MetricMaking
from burnish.evaluation.configs.reading import MetricsRead, read_metric_file
from burnish.evaluation.datasets.formats import read_cases
from burnish.evaluation.simulation import ROLE as USER_SIMULATOR
from burnish.evaluation.simulation import user_simulator
from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.projects.agent_blocks import KINDS, AnyAgentFile, PythonAgentFile, User
from burnish.projects.black_box import trajectory_problems
from burnish.projects.evaluating import RESULTS, Measurement, Wanted
from burnish.projects.gathering import Gathering
from burnish.projects.overrides import Overrides
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.runs.header import Project
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.system import YamlTree, validate_config
from burnish.targets.calling import CallingTarget
from burnish.targets.calling.notes import notes_for
from burnish.targets.calling.target import no_player


def prepare_other_agent(
    path: Path, tree: YamlTree, wanted: Wanted, *, models: Models | None = None
) -> Measurement:
    """A file of kind `python`, `http` or `command`, ready to be measured.

    Everything that is wrong with it, and with the files it names, is said at once.
    """
    kind = tree.data.get("kind") if isinstance(tree.data, dict) else None
    shape = KINDS[str(kind)]
    file = validate_config(tree.data, shape, source=path.name, tree=tree)
    return _Preparing(path, tree, file, wanted, models).measurement()


class _Preparing:
    """One file on its way to a measurement."""

    def __init__(
        self, path: Path, tree: YamlTree, file: AnyAgentFile, wanted: Wanted, models: Models | None
    ) -> None:
        self.path = path
        self.folder = path.resolve().parent
        self.file = file
        self.wanted = wanted
        self.models = models or file.models.models()
        self.wrong = Gathering(tree=tree)

    def measurement(self) -> Measurement:
        cases = self._cases()
        user = self._user(cases)
        block = self.file.target
        target = self.wrong.made("target", block, lambda: block.made(self.folder, user))
        read = self._read_metrics()
        metrics = self._metrics(read, cases)
        self.wrong.settle()
        assert target is not None
        measure = Measure(repeats=self.wanted.repeats or self.file.repeats)
        setup = self._setup(target, metrics, cases, measure, notes=tuple(read.notes))
        name = self.file.name or self.path.stem
        root = self.folder / RESULTS
        return Measurement(name=name, setup=setup, measure=measure, root=root)

    def _setup(
        self,
        target: CallingTarget,
        metrics: tuple[Metric, ...],
        cases: tuple[Case, ...],
        measure: Measure,
        *,
        notes: tuple[str, ...],
    ) -> Setup:
        file, flags = self.file, Overrides(concurrency=self.wanted.concurrency)
        weak = Overrides.from_environment(os.environ)
        return Setup(
            target=target,
            metrics=metrics,
            objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
            dataset=Dataset(train=cases),
            strategy=measure,
            seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
            budget=file.budget.budget(flags, weak),
            concurrency=flags.choose("concurrency", file.concurrency, weak, DEFAULT_CONCURRENCY),
            case_policy=file.case_policy(),
            project=Project(kind=file.kind, file=str(self.path.resolve())),
            notes=(*notes_for(target, cases), *_price_notes(target), *notes),
            resources=(self.models,),
        )

    def _cases(self) -> tuple[Case, ...]:
        said = self.file.cases
        if self.wanted.cases is None and said is None:
            remedy = "name a file of cases: cases: cases.jsonl, or --cases FILE"
            self.wrong.add((), "there are no cases", remedy)
            return ()
        path = self.wanted.cases or self.folder / str(said)
        cases = self.wrong.of(("cases",), lambda: read_cases(path).cases, ())
        if not cases and not self.wrong.problems:
            self.wrong.add(("cases",), f"there is no case in {path.name}")
        return cases

    def _user(self, cases: tuple[Case, ...]) -> User | None:
        scenarios = [case for case in cases if case.scenario is not None and case.recorded is None]
        block = self.file.user_simulator
        if block is None:
            self.wrong.problems += [no_player(case) for case in scenarios[:1]]
            return None
        if not scenarios:
            return None
        return self.wrong.of(("user_simulator",), lambda: self._player(block.reference()), None)

    def _player(self, ref: ModelRef) -> User:
        prompt = in_force(USER_SIMULATOR, self.folder)
        client = self.models.client(ref, prompt.settings)
        client.check()
        if self.file.budget.max_usd is not None and not client.priced:
            raise PriceUnknown(f"max_usd is set, but the price of {ref.label} is not known")
        return user_simulator(client, prompt)

    def _read_metrics(self) -> MetricsRead:
        given = MetricsRead(blocks=self.file.metrics)
        file = self.wanted.metric_file
        if file is None and self.file.metrics_file is not None:
            file = self.folder / self.file.metrics_file
            if self.file.metrics:
                self.wrong.add(("metrics_file",), "give metrics or metrics_file, not both")
        if file is not None:
            named = file
            given = self.wrong.of(("metrics_file",), lambda: read_metric_file(named), given)
        names = self.wanted.metrics
        given = self.wrong.of(("metrics",), lambda: given.only(names), given)
        if not isinstance(self.file, PythonAgentFile):
            self.wrong.of(("metrics",), lambda: _refuse_trajectories(given), None)
        return given

    def _metrics(self, read: MetricsRead, cases: tuple[Case, ...]) -> tuple[Metric, ...]:
        """What each metric is made of; with no metric at all there is nothing to measure."""
        before = len(self.wrong.problems)
        made = self.wrong.of(("metrics",), lambda: self._made(read, cases), ())
        if not made and not read.blocks and len(self.wrong.problems) == before:
            remedy = "add one: metrics: [{type: standard, metric: equality}]"
            self.wrong.add(("metrics",), "there are no metrics", remedy)
        return made

    def _made(self, read: MetricsRead, cases: tuple[Case, ...]) -> tuple[Metric, ...]:
        judge = read.judge
        if self.wanted.judge is not None:
            judge = ModelRef.parse(self.wanted.judge)
        elif self.file.judge is not None:
            judge = self.file.judge.reference()
        making = MetricMaking(models=self.models, folder=self.folder, judge=judge)
        return make_agent_metrics(read.blocks, cases, making)


def _price_notes(target: CallingTarget) -> tuple[str, ...]:
    if target.usd_per_call is not None:
        return ()
    told = "what a call of the agent costs is not known, unless it says so itself"
    return (f"{told}: US dollars leave it out (usd_per_call says it)",)


def _refuse_trajectories(read: MetricsRead) -> None:
    if found := trajectory_problems(read.blocks):
        raise ConfigError(found)
