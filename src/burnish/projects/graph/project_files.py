"""Files of kind `graph` as projects of `burnish optimize`."""

from collections.abc import Mapping
from pathlib import Path

from burnish.core.cases import Case, Dataset, Split
from burnish.core.content import Json
from burnish.core.errors import ConfigError, Problem
from burnish.core.objectives import Objective
from burnish.core.protocols import Metric
from burnish.models.factory import Models
from burnish.projects.called_parts import CalledParts
from burnish.projects.case_splits import splits_of
from burnish.projects.gathering import Gathering
from burnish.projects.graph.asking import asked_dataset, asked_of, with_asked
from burnish.projects.graph.exports import exporter_of
from burnish.projects.graph.graph_file import GraphFile
from burnish.projects.graph.originals import graph_files
from burnish.projects.graph.reaching import check_reach
from burnish.projects.graph.reading import read_graph
from burnish.projects.graph.strategies import GraphSearch
from burnish.projects.graph.surfaces import GraphSurfaces, spelled_out, surfaces_for
from burnish.projects.loading import GRAPH, Given, LoadedProject, loaded_from
from burnish.projects.overrides import Overrides
from burnish.projects.prompts.notes import judge_notes
from burnish.projects.prompts.strategies import Searching
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.runs.header import Project
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.system import validate_config
from burnish.targets.agent.documents_checks import check_attachments, pinned
from burnish.targets.graph import Graph, GraphTarget


def load(given: Given) -> Setup:
    """A file of kind `graph` as a Setup: the loader of that project kind."""
    return improving_of(given, None)


def prepare_graph(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """A graph file ready to be made better; `models` stand in for the real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, GRAPH, improving_of(given, models))


def improving_of(given: Given, models: Models | None) -> Setup:
    """Everything the search is made of; everything that is wrong is said at once."""
    file, graph = read_file(given)
    return with_outputs(_Preparing(given, file, graph, models).setup(), given.flags)


def read_file(given: Given) -> tuple[GraphFile, Graph]:
    """The file and its graph; the mistakes of both together."""
    source, tree = given.tree.path.name, given.tree
    problems: list[Problem] = []
    file: GraphFile | None = None
    graph: Graph | None = None
    try:
        data = with_asked(tree.data, asked_of(given.flags))
        file = validate_config(data, GraphFile, source=source, tree=tree)
    except ConfigError as error:
        problems += error.problems
    try:
        graph = read_graph(given.path, tree)
    except ConfigError as error:
        problems += error.problems
    if problems or file is None or graph is None:
        raise ConfigError(_once(problems))
    return file, graph


def _once(problems: list[Problem]) -> list[Problem]:
    """An unknown key is unknown to both readers; the project's knows more keys to name."""
    told: dict[tuple[str, str], Problem] = {}
    for problem in problems:
        told.setdefault((problem.where, problem.message), problem)
    return list(told.values())


class _Preparing:
    """One file on its way to a search."""

    def __init__(self, given: Given, file: GraphFile, graph: Graph, models: Models | None) -> None:
        self.given = given
        self.file = file
        self.graph = graph
        self.block = spelled_out(file.optimizer, graph)
        self.wrong = Gathering(tree=given.tree)
        self.parts = CalledParts(file, given.folder, models, self.wrong)

    def setup(self) -> Setup:
        dataset = self._dataset()
        cases = tuple(case for split in Split for case in dataset.cases(split)) if dataset else ()
        metrics = self._metrics(cases)
        surfaces = surfaces_for(self.block, self.graph, self.wrong)
        target = None if surfaces is None else self._target(surfaces, cases)
        search = None
        if dataset is not None and target is not None and surfaces is not None:
            search = GraphSearch(
                given=self.given,
                file=self.file,
                block=self.block,
                parts=self.parts,
                target=target,
                surfaces=surfaces,
                dataset=dataset,
                metrics=metrics,
            ).made()
        self.wrong.settle()
        assert dataset is not None
        assert target is not None
        assert search is not None
        return self._assembled(target, dataset, metrics, search)

    def _assembled(
        self, target: GraphTarget, dataset: Dataset, metrics: tuple[Metric, ...], search: Searching
    ) -> Setup:
        flags, weak, file = self.given.flags, self.given.environment, self.file
        judged = judge_notes(metrics, repeats=search.repeats, reflector=search.client)
        config: dict[str, Json] = graph_files(self.graph)
        return Setup(
            target=target,
            metrics=metrics,
            objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
            dataset=dataset,
            strategy=search.strategy,
            seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
            budget=search.budget,
            concurrency=flags.choose("concurrency", file.concurrency, weak, DEFAULT_CONCURRENCY),
            case_policy=file.case_policy(),
            test_repeats=search.repeats,
            exporter=exporter_of(target),
            project=Project(config=config),
            notes=(*target.notes, *search.notes, *judged),
            resources=(target, self.parts.models),
        )

    def _dataset(self) -> Dataset | None:
        found = self._cases()
        if found is None:
            return None
        cases = [case for split in Split for case in found.cases(split)]
        if problems := check_attachments(cases, self.given.folder):
            self.wrong.problems += problems
            return found
        seen = {split: pinned(found.cases(split), self.given.folder) for split in Split}
        return Dataset(train=seen[Split.TRAIN], holdout=seen[Split.HOLDOUT], test=seen[Split.TEST])

    def _cases(self) -> Dataset | None:
        asked = asked_of(self.given.flags)
        if not asked.train and not asked.holdout:
            return splits_of(self.given, self.file, self.wrong)
        return self.wrong.as_told(lambda: asked_dataset(self.given, self.file, asked), None)

    def _metrics(self, cases: tuple[Case, ...]) -> tuple[Metric, ...]:
        named = self.given.flags.metric_file
        read = self.parts.read_metrics(None if named is None else Path(named), replies_only=False)
        return self.parts.metrics(read, cases)

    def _target(self, surfaces: GraphSurfaces, cases: tuple[Case, ...]) -> GraphTarget | None:
        user = self.parts.user(cases)

        def made() -> GraphTarget:
            return GraphTarget(self.graph, self.parts.models, surfaces=surfaces.surfaces, user=user)

        target = self.wrong.of((), made, None)
        if target is not None:
            check_reach(target, self.parts.models, self.wrong)
        return target
