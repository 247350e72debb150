"""Task files as projects of `burnish optimize`: from the file to a Setup."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from burnish.core.protocols import Metric
from burnish.evaluation.configs.making import MetricMaking
from burnish.models.factory import Models
from burnish.projects.artifacts.checking import check_task, checked_axes, primary_of
from burnish.projects.artifacts.editors import Editors
from burnish.projects.artifacts.notes import task_notes
from burnish.projects.artifacts.originals import kept_task
from burnish.projects.artifacts.paths_inside import plain
from burnish.projects.artifacts.scoring import dataset_of, metrics_of, with_reads
from burnish.projects.artifacts.searching import COORDINATE, Search, Searching
from burnish.projects.artifacts.step_blocks import ScorerBlock
from burnish.projects.artifacts.task_file import TaskFile
from burnish.projects.gathering import Gathering
from burnish.projects.loading import TASK as KIND
from burnish.projects.loading import Given, LoadedProject, loaded_from
from burnish.projects.overrides import Overrides
from burnish.projects.settings import DEFAULT_CONCURRENCY, DEFAULT_SEED
from burnish.runs.header import Project
from burnish.runs.opening import RESULTS
from burnish.runs.outputs import with_outputs
from burnish.runs.setup import Setup
from burnish.system import validate_config
from burnish.system.workspaces.paths import covers
from burnish.targets.artifacts.target import ArtifactsTarget
from burnish.targets.artifacts.task import HOLDOUT, TASK, Task


def load(given: Given) -> Setup:
    """A task file as a Setup: the loader of the project kind `task`."""
    return searching_of(given, None)


def prepare_task(
    path: Path,
    flags: Overrides,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
) -> LoadedProject:
    """A task file ready to run; `models` stand in for the real ones."""
    given = Given.read(path, flags, environ=environ)
    return loaded_from(given, KIND, searching_of(given, models))


def searching_of(given: Given, models: Models | None) -> Setup:
    """Everything the search is made of; everything that is wrong is said at once."""
    source = given.tree.path.name
    file = validate_config(given.tree.data, TaskFile, source=source, tree=given.tree)
    return with_outputs(_Preparing(given, file, models).setup(), given.flags)


class _Preparing:
    """One task on its way to a search."""

    def __init__(self, given: Given, file: TaskFile, models: Models | None) -> None:
        self.given = given
        self.file = file
        self.name = file.id or given.folder.name
        self.models = models or file.models.models()
        self.wrong = Gathering(tree=given.tree)

    def setup(self) -> Setup:
        check_task(self.file, self.given.folder, self.wrong)
        metrics = self._metrics()
        editors = Editors(self.given, self.file, self.models, self.wrong)
        search = Search(self.given, self.file, self.name, editors, self.wrong)
        target = self._target(coordinate=search.strategy == COORDINATE)
        found = None if target is None else search.over(target, metrics)
        self.wrong.settle()
        assert target is not None
        assert found is not None
        return self._assembled(target, found)

    def _assembled(self, target: ArtifactsTarget, search: Searching) -> Setup:
        flags, weak, file = self.given.flags, self.given.environment, self.file
        kept = kept_task(file, target, name=self.name, repeats=search.repeats)
        notes = task_notes(file, search.metrics, repeats=search.repeats, client=search.client)
        return Setup(
            target=target,
            metrics=search.metrics,
            objective=search.objective,
            dataset=dataset_of(file, self.name),
            strategy=search.strategy,
            seed=flags.choose("seed", file.seed, weak, DEFAULT_SEED),
            budget=search.budget,
            concurrency=self._concurrency,
            project=Project(config=kept),
            notes=(*target.notes, *notes),
            resources=(target, self.models),
        )

    @property
    def _concurrency(self) -> int:
        flags, weak = self.given.flags, self.given.environment
        return flags.choose("concurrency", self.file.concurrency, weak, DEFAULT_CONCURRENCY)

    def _metrics(self) -> tuple[Metric, ...]:
        held = self.file.holdout.scorer if self.file.holdout else None

        def made() -> tuple[Metric, ...]:
            makings = {TASK: self._making(self.file.scorer)}
            makings[HOLDOUT] = makings[TASK] if held is None else self._making(held)
            return metrics_of(self.file.scorer, held, makings)

        return self.wrong.of(("scorer", "metrics"), made, ())

    def _making(self, scorer: ScorerBlock) -> MetricMaking:
        judge = scorer.judge or self.file.scorer.judge
        ref = None if judge is None else judge.reference()
        return MetricMaking(models=self.models, folder=self.given.folder, judge=ref)

    def _target(self, *, coordinate: bool) -> ArtifactsTarget | None:
        target = self.wrong.of(("artifacts",), lambda: self._opened(self._task()), None)
        if target is None:
            return None
        files = list(target.texts)
        task = self.wrong.of(("scorer",), lambda: with_reads(target.task, files), target.task)
        axes = checked_axes(self.file, target.texts, self.wrong) if coordinate else ()
        return ArtifactsTarget(task=task, sandbox=target.sandbox, axes=axes)

    def _opened(self, task: Task) -> ArtifactsTarget:
        """What holdout said stands in the results, and no command may hear of it."""
        logging = self.file.logging
        written = (logging.results_file, logging.candidate_dir, RESULTS)
        hidden = [task.folder / name for name in written]
        return ArtifactsTarget.open(task, mode=self.file.sandbox, hidden=hidden)

    def _task(self) -> Task:
        file, held = self.file, self.file.holdout
        return Task(
            folder=self.given.folder,
            include=tuple(file.artifacts.include),
            exclude=(*file.artifacts.exclude, *self._own_files()),
            scratch=tuple(self._scratch()),
            allowed_file_types=tuple(file.mutation.allowed_file_types),
            protect=tuple(file.protect),
            runner=file.runner.made() if file.runner else None,
            scoring=file.scorer.made(),
            holdout_runner=held.runner.made() if held and held.runner else None,
            holdout_scoring=held.scorer.made() if held and held.scorer else None,
            holdout_files=tuple(held.files) if held else (),
            primary=primary_of(file),
            env=tuple(file.env),
            limits=file.limits.made(),
            copy_git=file.copy_git,
        )

    def _scratch(self) -> Iterator[str]:
        """What runs write: a pattern of `exclude` under which results lie names such files."""
        yield from self.file.scratch
        yield from self._own_files()
        logging = self.file.logging
        written = (plain(logging.results_file), plain(logging.candidate_dir))
        for pattern in self.file.artifacts.exclude:
            if any(covers([pattern], path) for path in written):
                yield pattern

    def _own_files(self) -> tuple[str, ...]:
        """What burnish writes into the folder, and the task file: another budget is no change."""
        logging = self.file.logging
        written = (logging.results_file, logging.candidate_dir, RESULTS.as_posix())
        return (*map(plain, written), self.given.path.name)
