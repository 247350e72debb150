"""Measuring agents that are called: from a project file to a measurement."""

import os
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.evaluation.datasets.formats import read_some_cases
from burnish.models.factory import Models
from burnish.projects.agent_blocks import KINDS, AnyAgentFile, PythonAgentFile
from burnish.projects.called_parts import CalledParts, price_notes
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
        self.wrong = Gathering(tree=tree)
        self.parts = CalledParts(file, self.folder, models, self.wrong)

    def measurement(self) -> Measurement:
        cases = self._cases()
        user = self.parts.user(cases)
        block = self.file.target
        target = self.wrong.made("target", block, lambda: block.made(self.folder, user))
        read = self.parts.read_metrics(
            self.wanted.metric_file,
            names=tuple(self.wanted.metrics),
            replies_only=not isinstance(self.file, PythonAgentFile),
        )
        metrics = self.parts.metrics(read, cases, judge=self.wanted.judge)
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
            notes=(*notes_for(target, cases), *price_notes(target), *notes),
            resources=(self.parts.models,),
        )

    def _cases(self) -> tuple[Case, ...]:
        said = self.file.cases
        if self.wanted.replaces_cases:
            return self.wrong.as_told(self.wanted.read_cases, ())
        if said is None:
            remedy = "name a file of cases: cases: cases.jsonl, or --cases FILE"
            self.wrong.add((), "there are no cases", remedy)
            return ()
        return self.wrong.of(("cases",), lambda: read_some_cases(self.folder / said), ())
