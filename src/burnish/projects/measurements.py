"""Measurements: runs of the strategy `measure`, and their results."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, cast

from pydantic import Field, JsonValue

from burnish.core.cases import Case
from burnish.core.content import Repeats, codec
from burnish.core.errors import BurnishError, ConfigError, Problem, ResumeRefused, in_shell
from burnish.core.evaluations import Evaluation
from burnish.core.formatting import Section
from burnish.core.protocols import DescribedMetric
from burnish.core.surfaces import Value
from burnish.metrics.turns import Layered
from burnish.models.factory import Models
from burnish.projects.description import Doors, Request, describe
from burnish.projects.dialects import (
    Dialect,
    Document,
    Flags,
    dialect_of,
    names_agent,
    recognised,
    value_under,
)
from burnish.projects.file_kinds import RecordedCases
from burnish.projects.launch import launch, launched, start_or_resume, write_page
from burnish.projects.resuming import described_again
from burnish.reports.evaluation import NAME, About, Bill, EvalReport
from burnish.reports.evaluation_cases import CaseRow, Complaint, Trouble, complaints_of, unwell
from burnish.reports.evaluation_page import (
    MeasureLines,
    evaluation_page,
    summary,
    two,
    verdict,
)
from burnish.reports.rendering import to_markdown, write_report
from burnish.runs.build import RunDescription, build
from burnish.runs.directory import COLUMNS, Header, RunDirectory, RunRecord, forget_run
from burnish.runs.draft import Draft
from burnish.runs.driver import Ending
from burnish.runs.evaluation import Conditions
from burnish.runs.events import Event, Listener, Tick
from burnish.runs.plugins import (
    Building,
    LiveParts,
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
from burnish.runs.setup import Setup, fork, resume, start
from burnish.runs.spec import AnySpec, StrategySettings
from burnish.strategies.measure import Measure
from burnish.system import YamlTree, place_inside
from burnish.system.settings import Access, Door, SettingField


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluated:
    """An agent's outcomes and scores over all cases, and their report."""

    cases: tuple[Case, ...]
    evaluation: Evaluation
    report: EvalReport
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
        """The mean of a metric over cases and repeats; None if nothing was scored."""
        return self.evaluation.mean_of(metric)

    def __repr__(self) -> str:
        scored = (each for each in self.report.metrics if not each.silent)
        means = ", ".join(f"{each.metric} {two(each.mean)}" for each in scored)
        kept = [] if self.folder is None else [f"the run is in {self.folder}"]
        return "\n".join([verdict(self.report), means, *kept])

    def explain(self) -> str:
        """The verdict, and each case that does not pass with expected, actual and reason."""
        explanations = (explained(row, complaints_of(row)) for row in unwell(self.report.cases))
        return "\n".join([verdict(self.report), *explanations])

    def _repr_html_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        from burnish.pages.document import html_text

        return html_text(summary(self.report))

    def _repr_markdown_(self) -> str:  # pyright: ignore[reportUnusedFunction] - notebooks call it
        return to_markdown(summary(self.report))

    def require(self) -> "Evaluated":
        """Returns itself if everything passes; otherwise raises an AssertionError that explains."""
        if not self.passed:
            raise AssertionError(self.explain())
        return self


def explained(row: CaseRow, complaints: tuple[Complaint, ...]) -> str:
    """A case that does not pass, in a few lines."""
    return "\n".join([f"✗ {row.title}", *(line for c in complaints for line in _lines(row, c))])


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
    shown = text if len(text) <= 600 else f"{text[:600]}…"
    return shown.replace("\n", "\n              ") or "(empty)"


RESULTS = Path("results") / "eval"


class MeasureSettings(StrategySettings):
    """Settings of a measurement."""

    repeats: Annotated[
        Repeats, Door(flag="*", panel="What is measured", metavar="N", http=Access.CLIENT)
    ] = 1
    """Run every case this many times."""
    noise: bool = False
    """Treat the repeats as one agent measured against itself."""
    values: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """By surface, the value that is measured instead of the one in the files."""

    @property
    def uses_holdout(self) -> bool:
        return False


class MeasurePlugin(StrategyPlugin):
    """The strategy that proposes nothing: its progress, its report, its file."""

    name: ClassVar[str] = Measure.name
    Settings: ClassVar[type[StrategySettings]] = MeasureSettings
    proposes: ClassVar[bool] = False
    resume_command: ClassVar[str] = "eval"

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        del parts
        settings: MeasureSettings = building.spec.strategy.settings
        source = building.spec.source
        subject = source.name or Path(source.file).stem
        measure = Measure(
            repeats=settings.repeats,
            noise=settings.noise,
            subject=subject,
            values=codec(dict[str, Value]).decode({**settings.values}),
        )
        return StrategyParts(strategy=measure)

    def repeats(self, setup: Setup) -> int:
        return cast("Measure", setup.strategy).repeats

    def progress(self) -> ProgressLines:
        return MeasureLines(self.ends)

    def report(self, run: RunRecord) -> Iterable[Section]:
        return evaluation_page(run, self.reason(run))

    def result_files(self, run: Run) -> ResultFiles | None:
        strategy = run.setup.strategy
        assert isinstance(strategy, Measure)
        return EvaluationFile(run.setup, strategy, run.directory)


class EvaluationFile:
    """Writes `evaluation.json` at the end of a measurement."""

    def __init__(self, conditions: Conditions, measure: Measure, directory: RunDirectory) -> None:
        self._conditions = conditions
        self._measure = measure
        self._directory = directory

    def event(self, event: Event) -> None:
        """Nothing is written before the end."""

    def tick(self, tick: Tick) -> None:
        """Nothing is written before the end."""

    def finish(self) -> None:
        """Write the report, unless the measurement was stopped before its end."""
        measure, conditions = self._measure, self._conditions
        if measure.evaluation is None:
            return
        folder = self._directory.folder
        run = RunRecord.read(folder)
        report = EvalReport.from_measurement(
            measure.evaluation,
            conditions.dataset.train,
            About(
                agent=measure.subject,
                source=conditions.project.file,
                run=run.header.id,
                folder=str(run.folder),
                at=run.header.started_at,
                seed=conditions.seed,
                columns=codec(dict[str, str]).decode(conditions.project.config.get(COLUMNS, {})),
            ),
            bill=Bill(spent=run.spent, billed=run.billed, active_seconds=run.active_seconds),
            thresholds={metric.name: threshold_of(metric) for metric in conditions.metrics},
            needs={m.name: m.needs for m in conditions.metrics if isinstance(m, DescribedMetric)},
            redactor=self._directory.redactor,
        )
        (report.with_noise() if measure.noise else report).write(place_inside(folder, NAME))


def threshold_of(metric: object) -> float | None:
    """The threshold of a metric, if it is one number for all cases."""
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
    spec: "AnySpec | None" = None
    """What it was built from; None where a program did that."""

    @property
    def cases(self) -> tuple[Case, ...]:
        return self.setup.dataset.train

    @property
    def evaluation(self) -> Evaluation | None:
        """The result; None before the run, and if a limit stopped it."""
        return self.measure.evaluation


class _Measuring:
    """The request to measure what a file describes, not to search."""

    strategy = Measure.name

    def put(self, draft: Draft, document: Document, doors: Doors) -> None:
        """Nothing more: flags say the rest."""


def load_measurement(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    models: Models | None = None,
    live: LiveParts | None = None,
    request: Request | None = None,
) -> PreparedMeasurement:
    """A measurement of what a file describes; all problems are reported at once.

    `models` replace the real ones, and `live` parts those of the file. A `request` overrides the
    file.
    """
    description = describe_measurement(path, flags, environ=environ, request=request)
    return from_description(description, models=models, live=live)


def describe_measurement(
    path: Path,
    flags: Flags,
    *,
    environ: Mapping[str, str] | None = None,
    request: Request | None = None,
) -> RunDescription:
    """The description of a measurement of what a file describes."""
    document, dialect = _read(path)
    if not dialect.evaluates:
        message = f"files of the kind '{dialect.kind}' cannot be measured on their own"
        command = f"burnish optimize {in_shell(path)} --print-baseline"
        remedy = f"measure the baseline of a search: {command}"
        raise ConfigError([Problem(where=path.name, message=message, remedy=remedy)])
    changes = request or _Measuring()
    return describe(document, flags, environ=environ, dialect=dialect, request=changes)


def measurement_for(
    path: Path, flags: Flags, *, resume: Path | None = None, models: Models | None = None
) -> PreparedMeasurement:
    """A measurement of what a file describes, or the one of a run to resume."""
    if resume is None:
        return load_measurement(path, flags, models=models)
    same = path.resolve() == Path(Header.read(resume).project.file)
    again = described_again(resume, flags, file=None if same else path)
    return from_description(again, models=models)


def from_description(
    description: RunDescription,
    *,
    models: Models | None = None,
    live: LiveParts | None = None,
) -> PreparedMeasurement:
    """A measurement from its description."""
    spec = description.spec
    setup = build(description, models=models, live=live)
    measure = setup.strategy
    assert isinstance(measure, Measure)
    root = Path(spec.source.folder) / RESULTS
    return PreparedMeasurement(setup=setup, measure=measure, root=root, spec=spec)


def _read(path: Path) -> tuple[Document, Dialect]:
    """A file that describes what is measured, or a file of recorded cases."""
    # Agents are written in these formats; everything else is cases.
    is_agent = path.suffix in (".yaml", ".yml", ".json") and path.is_file()
    if is_agent or names_agent(path):
        document = Document.read(path)
        dialect = dialect_of(document) if "kind" in document.data else recognised(document)
        if dialect is not None:
            return document, dialect
    tree = YamlTree(path=path, data={}, text="")
    return Document(path=path, tree=tree), RecordedCases()


def measurement_doors(path: Path | None = None) -> Doors:
    """The doors of every measurement, or of one of a file."""
    target = TargetPlugin()
    if path is not None:
        with suppress(BurnishError):  # what is wrong with it is said when it is described
            target = target_plugin(_read(path)[1].target)
    return Doors(target=target, strategy=strategy_plugin(Measure.name))


def measuring_flags(spec: AnySpec) -> Iterator[tuple[SettingField, JsonValue]]:
    """The flags, with values, that turn the description of a file into this one."""
    try:
        document, dialect = _read(Path(spec.source.file))
        plain = describe(document, {}, dialect=dialect, request=_Measuring()).spec
    except BurnishError:
        return  # the file has changed since: it may say anything now
    before, after = plain.to_json(), spec.to_json()
    for setting in Doors.of(spec.target.kind, spec.strategy.name).named().values():
        value = value_under(after, setting.path)
        if value is not None and value != value_under(before, setting.path):
            yield setting, value


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How a measurement ended, and its report."""

    ending: Ending
    report: EvalReport | None
    """None when it was stopped before its end."""


@dataclass(frozen=True, kw_only=True)
class Forked:
    """An earlier run whose results a new one takes instead of paying again."""

    run: Path
    retry_missing: bool = False


def measure(
    measurement: PreparedMeasurement,
    *,
    folder: Path | None = None,
    resumed: Path | None = None,
    forked: Forked | None = None,
    listeners: Sequence[Listener] = (),
    baseline: EvalReport | None = None,
    opened: list[Path] | None = None,
) -> Measured:
    """Measure; afterwards the run's folder has `evaluation.json` and `report.md`.

    A new run is made in `folder`, with results of the one in `forked`; the one in `resumed`
    continues. The folder is added to `opened` as soon as it is known.
    """

    def open_run() -> Run:
        try:
            if resumed is not None:
                run = resume(measurement.setup, resumed)
            elif forked is not None:
                run = fork(
                    measurement.setup,
                    forked.run,
                    root=measurement.root,
                    folder=folder,
                    retry_missing=forked.retry_missing,
                )
            else:
                run = start(measurement.setup, root=measurement.root, folder=folder)
        except ResumeRefused as error:
            remedy = (
                "put it back as it was to continue; --fork in place of --resume measures what has "
                "changed and pays for nothing else"
            )
            raise ResumeRefused(error.message, remedy=remedy) from None
        if opened is not None:
            opened.append(run.directory.folder)
        return run

    ending = launch(open_run, listeners)
    report = report_of(measurement, ending)
    if report is not None and baseline is not None:
        report = report.against(baseline)
        report.write(place_inside(ending.folder, NAME))
        write_report(ending.folder)
        write_page(ending.folder, measurement.setup.dataset)
    return Measured(ending=ending, report=report)


def report_of(measurement: PreparedMeasurement, ending: Ending) -> EvalReport | None:
    """The report; None if the measurement was stopped before its end."""
    return None if measurement.evaluation is None else EvalReport.read(ending.folder)


async def measured(measurement: PreparedMeasurement, folder: Path | None = None) -> Evaluated:
    """Measure in `folder`, resuming the run that is there; without a folder nothing is kept."""
    if folder is not None:
        return await _driven(measurement, lambda: start_or_resume(measurement.setup, folder))
    with tempfile.TemporaryDirectory(prefix="burnish-") as temporary:
        home = Path(temporary) / "run"
        try:
            evaluated = await _driven(measurement, lambda: start(measurement.setup, folder=home))
        finally:
            forget_run(home)
    about = replace(evaluated.report.about, folder="")
    return replace(evaluated, folder=None, report=replace(evaluated.report, about=about))


async def measured_anew(measurement: PreparedMeasurement, root: Path) -> Evaluated:
    """Measure in a new folder under `root`."""
    return await _driven(measurement, lambda: start(measurement.setup, root=root))


async def _driven(measurement: PreparedMeasurement, open_run: Callable[[], Run]) -> Evaluated:
    ending = await launched(open_run)
    report = report_of(measurement, ending)
    if measurement.evaluation is None or report is None:
        reason = ending.reason.detail or ending.reason.code
        message = f"the measurement was cut short ({reason})"
        remedy = "raise the budget; with a folder, the same call continues where it stopped"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    return Evaluated(
        cases=measurement.cases,
        evaluation=measurement.evaluation,
        report=report,
        ending=ending,
        folder=ending.folder,
    )
