"""Measurements: runs of the strategy `measure` over whatever a file is about.

`burnish eval`, `burnish.evaluate` and the service describe one by the file, with flags over it. The
plug-in builds the strategy, and leaves `evaluation.json` in the folder of every such run.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, cast

from pydantic import JsonValue

from burnish.core.cases import Case
from burnish.core.errors import BurnishError, ConfigError, Problem
from burnish.core.evaluations import Evaluation
from burnish.core.sections import Section
from burnish.evaluation.layers import Layered
from burnish.models.factory import Models
from burnish.projects.describing import Doors, Flags, describe, described_again
from burnish.projects.dialects import Dialect, Document, dialect_of, recognised
from burnish.projects.file_kinds import RecordedCases
from burnish.reports.evaluation import NAME, About, Bill, EvalReport
from burnish.reports.evaluation_page import MeasureLines, evaluation_page
from burnish.runs.building import Description, build
from burnish.runs.conditions import Conditions
from burnish.runs.draft import Draft
from burnish.runs.events import Event, Tick
from burnish.runs.header import Header
from burnish.runs.parts import Building, StrategyParts, TargetParts
from burnish.runs.plugins import (
    ResultFiles,
    StrategyPlugin,
    TargetPlugin,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.record import RunRecord
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import AnySpec, StrategySettings
from burnish.strategies.measure import Measure
from burnish.system import YamlTree
from burnish.system.settings import Door, Repeats, SettingField

RESULTS = Path("results") / "eval"
_AGENTS = (".yaml", ".yml", ".json")
"""What agents are written in; everything else is cases."""


class MeasureSettings(StrategySettings):
    """How a measurement is made."""

    repeats: Annotated[
        Repeats, Door(flag="*", panel="What is measured", metavar="N", http=True)
    ] = 1
    """Run every case so often."""
    noise: bool = False
    """Read the repeats as one agent measured against itself."""

    @property
    def uses_holdout(self) -> bool:
        """Nothing is decided."""
        return False


class MeasurePlugin(StrategyPlugin):
    """The strategy that proposes nothing: its lines, its report, its file."""

    name: ClassVar[str] = Measure.name
    Settings: ClassVar[type[StrategySettings]] = MeasureSettings
    proposes: ClassVar[bool] = False
    resume_command: ClassVar[str] = "eval"

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """Anything can be measured."""
        del parts
        settings: MeasureSettings = building.spec.strategy.settings
        source = building.spec.source
        return StrategyParts(
            strategy=Measure(
                repeats=settings.repeats,
                noise=settings.noise,
                subject=source.name or Path(source.file).stem,
            )
        )

    def repeats(self, setup: Setup) -> int:
        """How often each case is run."""
        return cast("Measure", setup.strategy).repeats

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return MeasureLines(self.ends)

    def report(self, run: RunRecord) -> Iterable[Section]:
        """The page about a measurement, or what is known of one that did not end."""
        return evaluation_page(run, self.reason(run))

    def result_files(self, run: Run) -> ResultFiles | None:
        """The report that tables, files and comparisons are made of."""
        strategy = run.setup.strategy
        assert isinstance(strategy, Measure)
        return EvaluationFile(run.setup, strategy, run.directory.folder)


class EvaluationFile:
    """Writes `evaluation.json` once a measurement has come to its end."""

    def __init__(self, conditions: Conditions, measure: Measure, folder: Path) -> None:
        self._conditions = conditions
        self._measure = measure
        self._folder = folder

    def event(self, event: Event) -> None:
        """Nothing is written before the end."""

    def tick(self, tick: Tick) -> None:
        """Nothing is written before the end."""

    def finish(self) -> None:
        """Write the report; nothing where the measurement was stopped before its end."""
        if self._measure.evaluation is None:
            return
        report = self._report(self._measure.evaluation, RunRecord.read(self._folder))
        (report.with_noise() if self._measure.noise else report).write(self._folder / NAME)

    def _report(self, evaluation: Evaluation, run: RunRecord) -> EvalReport:
        conditions = self._conditions
        return EvalReport.from_measurement(
            evaluation,
            conditions.dataset.train,
            About(
                agent=self._measure.subject,
                source=conditions.project.file,
                run=run.header.id,
                folder=str(run.folder),
                at=run.header.started_at,
                seed=conditions.seed,
            ),
            bill=Bill(spent=run.spent, billed=run.billed, active_seconds=run.active_seconds),
            thresholds={metric.name: threshold_of(metric) for metric in conditions.metrics},
        )


def threshold_of(metric: object) -> float | None:
    """From where a metric passes, if that is one number for all cases."""
    same = metric.default if isinstance(metric, Layered) else metric
    threshold = getattr(same, "threshold", None)
    return float(threshold) if isinstance(threshold, int | float) else None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """An agent, its cases and metrics, ready to be measured."""

    setup: Setup
    measure: Measure
    root: Path
    """Where its runs lie."""
    spec: AnySpec | None = None
    """What it was built from; None where a program did that."""

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases that are measured."""
        return self.setup.dataset.train

    @property
    def evaluation(self) -> Evaluation | None:
        """What was found; None before the run, and when a limit stopped it."""
        return self.measure.evaluation


class _Measuring:
    """What a measurement asks of any file: that nothing is searched."""

    strategy = Measure.name

    def put(self, draft: Draft, document: Document) -> None:
        """Nothing more: flags say the rest."""


def load_measurement(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    cases: tuple[Case, ...] | None = None,
) -> Measurement:
    """What a file describes, ready to be measured; everything that is wrong is said at once.

    `models` stand in for the real ones, and `cases` for those that would be measured.
    """
    document, dialect = _read(path)
    if not dialect.evaluates:
        message = f"files of the kind '{dialect.kind}' are not measured by themselves"
        remedy = f"measure where a search would start: burnish optimize {path} --print-baseline"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    description = describe(document, flags, environ=environ, dialect=dialect, request=_Measuring())
    return _built(description, models=models, cases=cases)


def resume_measurement(
    folder: Path, flags: Flags, *, file: Path | None = None, models: Models | None = None
) -> Measurement:
    """A measurement as its run describes it, with newer flags over it.

    `file` is where its file lies now, where it was moved.
    """
    return _built(described_again(folder, flags, file=file), models=models)


def measurement_for(
    path: Path, flags: Flags, *, resume: Path | None = None, models: Models | None = None
) -> Measurement:
    """A measurement of what a file describes, or the one that a run began."""
    if resume is None:
        return load_measurement(path, flags, models=models)
    same = path.resolve() == Path(Header.read(resume).project.file)
    return resume_measurement(resume, flags, file=None if same else path, models=models)


def from_description(description: Description) -> Measurement:
    """A measurement that was described before."""
    return _built(description)


def _built(
    description: Description,
    *,
    models: Models | None = None,
    cases: tuple[Case, ...] | None = None,
) -> Measurement:
    spec = description.spec
    setup = build(description, models=models, cases=cases)
    measure = setup.strategy
    assert isinstance(measure, Measure)
    root = Path(spec.source.folder) / RESULTS
    return Measurement(setup=setup, measure=measure, root=root, spec=spec)


def _read(path: Path) -> tuple[Document, Dialect]:
    """A file that describes what is measured, or a file of recorded cases."""
    if path.suffix in _AGENTS and path.is_file():
        document = Document.read(path)
        dialect = dialect_of(document) if "kind" in document.data else recognised(document)
        if dialect is not None:
            return document, dialect
    tree = YamlTree(path=path, data={}, text="")
    return Document(path=path, tree=tree), RecordedCases()


def measurement_doors(path: Path | None = None) -> Doors:
    """What may be set of every measurement, or of one of what a file is about."""
    target = TargetPlugin()
    if path is not None:
        with suppress(BurnishError):  # what is wrong with it is said when it is described
            target = target_plugin(_read(path)[1].target)
    return Doors(target=target, strategy=strategy_plugin(Measure.name))


def measuring_flags(spec: AnySpec) -> Iterator[tuple[SettingField, JsonValue]]:
    """The flags that turn what a file says by itself into a description, with their values."""
    try:
        document, dialect = _read(Path(spec.source.file))
        plain = describe(document, {}, dialect=dialect, request=_Measuring()).spec
    except BurnishError:
        return  # the file has changed since: it may say anything now
    doors = Doors(
        target=target_plugin(spec.target.kind), strategy=strategy_plugin(spec.strategy.name)
    )
    before, after = plain.to_json(), spec.to_json()
    for setting in doors.named().values():
        value = _at(after, setting.path)
        if value is not None and value != _at(before, setting.path):
            yield setting, value


def _at(data: JsonValue, path: tuple[str, ...]) -> JsonValue:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data
