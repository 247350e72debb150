"""Measurements: runs of the strategy `measure`, driven to their end, and what they show."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, cast

from pydantic import JsonValue

from burnish.core.cases import Case
from burnish.core.content import Repeats
from burnish.core.errors import BurnishError, ConfigError, Problem, ResumeRefused
from burnish.core.evaluations import Evaluation
from burnish.core.formatting import Section
from burnish.metrics.turns import Layered
from burnish.models.factory import Models
from burnish.projects.description import Doors, describe, described_again
from burnish.projects.dialects import Dialect, Document, Flags, dialect_of, recognised
from burnish.projects.file_kinds import RecordedCases
from burnish.projects.launch import launch, launched
from burnish.reports.evaluation import NAME, About, Bill, EvalReport
from burnish.reports.evaluation_cases import CaseRow, Complaint, Trouble, complaints_of, unwell
from burnish.reports.evaluation_page import MeasureLines, evaluation_page, two, verdict
from burnish.reports.rendering import write_report
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import NAME as HEADER
from burnish.runs.directory import Header, RunRecord, forget_run
from burnish.runs.draft import Draft
from burnish.runs.driver import Ending
from burnish.runs.evaluation import Conditions
from burnish.runs.events import Event, Listener, Tick
from burnish.runs.plugins import (
    Building,
    ResultFiles,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
    TargetPlugin,
    strategy_plugin,
    target_plugin,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.run import Run
from burnish.runs.setup import Setup, resume, start
from burnish.runs.spec import AnySpec, StrategySettings
from burnish.strategies.measure import Measure
from burnish.system import YamlTree
from burnish.system.settings import Door, SettingField

_LONGEST = 600


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """An agent's outcomes and scores over all cases, and what they come to."""

    # Left out of the repr: asyncio spells out the result of what it ran, in full.
    cases: tuple[Case, ...] = field(repr=False)
    evaluation: Evaluation = field(repr=False)
    report: EvalReport = field(repr=False)
    """Rows by case, metrics with intervals, totals; `to_json` makes it a file."""
    ending: Ending
    folder: Path | None = None
    """The run's folder, where it was kept."""

    @property
    def passed(self) -> bool:
        """Whether every case passes every metric in every repeat, and none is missing."""
        return self.report.ok

    @property
    def failures(self) -> dict[str, tuple[Complaint, ...]]:
        """By case, what keeps it from passing: metric, expected, actual and reason."""
        return {row.case: complaints_of(row) for row in unwell(self.report.cases)}

    def score(self, metric: str) -> float | None:
        """The mean of a metric over cases and repeats; None where nothing is scored."""
        return self.evaluation.mean_of(metric)

    def explain(self) -> str:
        """The verdict, and each case that does not pass with expected, actual and reason."""
        explanations = (explained(row, complaints_of(row)) for row in unwell(self.report.cases))
        return "\n".join([verdict(self.report), *explanations])

    def require(self) -> "Evaluated":
        """Itself when everything passes; else an AssertionError that explains."""
        if not self.passed:
            raise AssertionError(self.explain())
        return self


def explained(row: CaseRow, complaints: tuple[Complaint, ...]) -> str:
    """A case that does not pass, in a few lines."""
    return "\n".join([f"✗ {row.case}", *(line for c in complaints for line in _lines(row, c))])


def _lines(row: CaseRow, complaint: Complaint) -> Iterator[str]:
    value = two(complaint.value) if complaint.trouble is Trouble.FAILED else complaint.trouble.value
    often = f" in {complaint.tries} of {len(row.tries)} runs" if len(row.tries) > 1 else ""
    yield f"  {complaint.where}: {value}{often}"
    if complaint.expected is not None:
        yield f"    expected  {_cut(complaint.expected)}"
    if complaint.trouble is Trouble.FAILED:
        yield f"    actual    {_cut(complaint.actual)}"
    if complaint.reason:
        yield f"    reason    {_cut(complaint.reason)}"


def _cut(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return shown.replace("\n", "\n              ") or "(empty)"


# -- Measurements ---------------------------------------------------------------------------------


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
class PreparedMeasurement:
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
) -> PreparedMeasurement:
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
) -> PreparedMeasurement:
    """A measurement as its run describes it, with newer flags over it.

    `file` is where its file lies now, where it was moved.
    """
    return _built(described_again(folder, flags, file=file), models=models)


def measurement_for(
    path: Path, flags: Flags, *, resume: Path | None = None, models: Models | None = None
) -> PreparedMeasurement:
    """A measurement of what a file describes, or the one that a run began."""
    if resume is None:
        return load_measurement(path, flags, models=models)
    same = path.resolve() == Path(Header.read(resume).project.file)
    return resume_measurement(resume, flags, file=None if same else path, models=models)


def from_description(description: RunDescription) -> PreparedMeasurement:
    """A measurement that was described before."""
    return _built(description)


def _built(
    description: RunDescription,
    *,
    models: Models | None = None,
    cases: tuple[Case, ...] | None = None,
) -> PreparedMeasurement:
    spec = description.spec
    setup = build(description, models=models, cases=cases)
    measure = setup.strategy
    assert isinstance(measure, Measure)
    root = Path(spec.source.folder) / RESULTS
    return PreparedMeasurement(setup=setup, measure=measure, root=root, spec=spec)


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


@dataclass(frozen=True, kw_only=True)
class MeasurementPlace:
    """Where a measurement is made: a new folder, this very one, or a run that goes on."""

    folder: Path | None = None
    resume: Path | None = None

    def open(self, measurement: PreparedMeasurement) -> Run:
        """The run, open for driving."""
        if self.resume is not None:
            return _going_on(measurement, self.resume)
        return start(measurement.setup, root=measurement.root, folder=self.folder)


# -- Driving a measurement to its end -------------------------------------------------------------


def _going_on(measurement: PreparedMeasurement, folder: Path) -> Run:
    try:
        return resume(measurement.setup, folder)
    except ResumeRefused as error:
        remedy = "put it back as it was to go on, or leave --resume out to measure anew"
        raise ResumeRefused(error.message, remedy=remedy) from None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How a measurement ended, and what it found."""

    ending: Ending
    report: EvalReport | None
    """None when it was stopped before its end."""


def measure(
    measurement: PreparedMeasurement,
    place: MeasurementPlace | None = None,
    *,
    listeners: Sequence[Listener] = (),
    baseline: EvalReport | None = None,
    opened: list[Path] | None = None,
) -> Measured:
    """Measure; `evaluation.json` and `report.md` stand in the run's folder afterwards.

    The folder goes into `opened` as soon as it is known, for whoever must say how to go on.
    """

    def open_run() -> Run:
        run = (place or MeasurementPlace()).open(measurement)
        if opened is not None:
            opened.append(run.directory.folder)
        return run

    ending = launch(open_run, listeners)
    report = report_of(measurement, ending)
    if report is not None and baseline is not None:
        report = report.against(baseline)
        report.write(ending.folder / NAME)
        write_report(ending.folder)
    return Measured(ending=ending, report=report)


def report_of(measurement: PreparedMeasurement, ending: Ending) -> EvalReport | None:
    """What was found; None where it was stopped before its end."""
    return None if measurement.evaluation is None else EvalReport.read(ending.folder)


async def measured(measurement: PreparedMeasurement, folder: Path | None = None) -> Evaluated:
    """Measure in `folder`, going on with the run that is there; without one nothing is kept."""
    if folder is not None:
        return await _driven(measurement, lambda: _opened(measurement, folder))
    with tempfile.TemporaryDirectory(prefix="burnish-") as temporary:
        home = Path(temporary) / "run"
        try:
            evaluated = await _driven(measurement, lambda: start(measurement.setup, folder=home))
        finally:
            forget_run(home)
    about = replace(evaluated.report.about, folder="")
    return replace(evaluated, folder=None, report=replace(evaluated.report, about=about))


async def measured_anew(measurement: PreparedMeasurement, root: Path) -> Evaluated:
    """Measure in a new folder under `root`, whatever was measured before."""
    return await _driven(measurement, lambda: start(measurement.setup, root=root))


def _opened(measurement: PreparedMeasurement, folder: Path) -> Run:
    is_run = (folder / HEADER).exists()
    setup = measurement.setup
    return resume(setup, folder) if is_run else start(setup, folder=folder)


async def _driven(measurement: PreparedMeasurement, open_run: Callable[[], Run]) -> Evaluated:
    ending = await launched(open_run)
    report = report_of(measurement, ending)
    if measurement.evaluation is None or report is None:
        raise ConfigError([_cut_short(ending)])
    return Evaluated(
        cases=measurement.cases,
        evaluation=measurement.evaluation,
        report=report,
        ending=ending,
        folder=ending.folder,
    )


def _cut_short(ending: Ending) -> Problem:
    return Problem(
        message=f"the measurement was cut short ({ending.reason.detail or ending.reason.code})",
        remedy="give it more budget; with a folder it goes on where it was",
    )
