"""Grids: every combination of models, candidates and values over the same cases.

Each column is a run of its own under the folder of the grid, so a column that fails leaves the
others alone, and one that is added pays for itself only.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from pydantic import JsonValue

from burnish.core.cases import Split
from burnish.core.content import codec, from_json, short_id
from burnish.core.errors import (
    BurnishError,
    ConfigError,
    FileTrouble,
    Interrupted,
    Problem,
    ResumeRefused,
)
from burnish.core.formatting import counted
from burnish.core.money import NOTHING, Spend
from burnish.core.surfaces import Value
from burnish.journal.limits import Budget
from burnish.models.factory import Models
from burnish.pages.run_page import NAME as PAGE
from burnish.pages.run_page import is_automatic
from burnish.projects.description import SET, Doors
from burnish.projects.dialects import Flags
from burnish.projects.grid_axes import (
    CANDIDATE_AXIS,
    MODEL_AXIS,
    ColumnChoice,
    GridAxes,
    check_axes,
    read_candidate,
)
from burnish.projects.measurements import (
    Forked,
    Measured,
    PreparedMeasurement,
    describe_measurement,
    from_description,
    measure,
)
from burnish.reports.evaluation import EvalReport
from burnish.reports.grid import (
    COLUMNS,
    GRID,
    GRID_RESULTS,
    NOT_YET,
    GridReport,
    MeasuredColumn,
    grid_home,
    grid_of,
    grid_sections,
)
from burnish.reports.rendering import NAME as REPORT
from burnish.reports.rendering import to_markdown
from burnish.runs.build import RunDescription
from burnish.runs.directory import LOCK, find_run, known_runs
from burnish.runs.directory import NAME as HEADER
from burnish.runs.events import Listener
from burnish.runs.plugins import TargetPlugin, Variant, target_plugin
from burnish.runs.progress import sweeps
from burnish.runs.spec_changes import spec_changes
from burnish.system import FileLock, Redactor, place_inside, read_bytes, write_inside

GRID_FILES = frozenset({GRID, GRID_RESULTS, COLUMNS, REPORT, PAGE, LOCK})
"""What is in the folder of a grid."""


@dataclass(frozen=True, kw_only=True)
class StoredGrid:
    """What a grid's folder says about it."""

    schema: int = 1
    file: str
    flags: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    axes: GridAxes = field(default_factory=GridAxes)

    @classmethod
    def read(cls, folder: Path) -> "StoredGrid":
        try:
            return codec(StoredGrid).decode(from_json(read_bytes(folder / GRID)))
        except ValueError:
            message = "this does not describe a grid"
            raise ConfigError([Problem(where=str(folder / GRID), message=message)]) from None

    def write(self, folder: Path) -> None:
        data = Redactor.from_environment().json(codec(StoredGrid).encode(self))
        write_inside(folder, GRID, json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def find_grid(name: str) -> Path | None:
    """The folder of a grid, by path, id, or the beginning of an id; None if there is none."""
    if name and (Path(name) / GRID).is_file():
        return Path(name).resolve()
    named: dict[Path, Path] = {}
    for run in known_runs():
        home = grid_home(run)
        if name and (home or run).name.startswith(name):
            named[home or run] = run
    found = [each for each in named if each.name == name] or [*named]
    # A name that a run has as well, or that begins like one, means the run, or is not clear.
    return found[0] if len(found) == 1 and found[0] != named[found[0]] else None


@dataclass(frozen=True, kw_only=True)
class PreparedColumn:
    """A column that is ready to be measured, or why it is not."""

    choice: ColumnChoice
    measurement: PreparedMeasurement | None = None
    failure: str = ""
    is_there: bool = False
    """Whether the grid has measured it before, or begun to."""

    @property
    def expected(self) -> Spend:
        """What it is expected to cost."""
        if self.measurement is None:
            return NOTHING
        setup = self.measurement.setup
        return sweeps(setup, Split.TRAIN, self.measurement.measure.repeats)


@dataclass(frozen=True, kw_only=True)
class PreparedGrid:
    """All columns of a grid, checked before anything is paid."""

    base: PreparedMeasurement
    stored: StoredGrid
    columns: tuple[PreparedColumn, ...]
    folder: Path | None = None
    """Where it is, if it is there already."""
    notes: tuple[str, ...] = ()


def load_grid(
    path: Path,
    flags: Flags,
    axes: GridAxes,
    *,
    resumed: Path | None = None,
    most: int = 24,
    models: Models | None = None,
    doors: Doors,
) -> PreparedGrid:
    """The grid of a file, or the one in `resumed` with the values that are added to its axes."""
    if resumed is not None:
        before = StoredGrid.read(resumed)
        newer = {name: value for name, value in flags.items() if value is not None}
        settings = [*_listed(before.flags.get(SET)), *_listed(newer.get(SET))]
        flags = {**before.flags, **newer, **({SET: settings} if settings else {})}
    description = describe_measurement(path, flags)
    base = from_description(description, models=models)
    plugin = target_plugin(base.setup.target.description.kind)
    axes = check_axes(axes, plugin, base.setup.target, doors)
    notes = [f"{each} was named twice: it is measured once" for each in axes.repeated]
    axes = (StoredGrid.read(resumed).axes if resumed is not None else GridAxes()).joined(axes)
    choices = axes.columns()
    if len(choices) > most:
        message = f"the grid has {counted(len(choices), 'column')}, and {most} are allowed"
        remedy = f"name fewer values, or allow it: --max-columns {len(choices)}"
        raise ConfigError([Problem(message=message, remedy=remedy)])
    maker = _ColumnMaker(description, base, plugin, models)
    columns, same = _distinct([maker.prepared(choice) for choice in choices])
    if all(each.measurement is None for each in columns):
        reasons = dict.fromkeys(f"{each.choice.label}: {each.failure}" for each in columns)
        raise ConfigError([Problem(message=reason) for reason in reasons])
    if resumed is not None:
        columns = [
            replace(each, is_there=(_column_folder(resumed, each.choice) / HEADER).exists())
            for each in columns
        ]
    stored = StoredGrid(file=str(path.resolve()), flags=dict(flags), axes=axes)
    return PreparedGrid(
        base=base,
        stored=stored,
        columns=tuple(columns),
        folder=resumed,
        notes=(*notes, *same),
    )


def _listed(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _column_folder(grid: Path, choice: ColumnChoice) -> Path:
    """The folder of a column's run."""
    return grid / COLUMNS / f"{grid.name}-{choice.key}"


def column_measurement(
    description: RunDescription, values: Mapping[str, JsonValue]
) -> PreparedMeasurement:
    """What a description measures, as one column of a grid."""
    base = from_description(description)
    plugin = target_plugin(base.setup.target.description.kind)
    maker = _ColumnMaker(description, base, plugin, None)
    return maker.measurement(ColumnChoice(values=values))


class _ColumnMaker:
    """Makes the measurement of a column from that of the file."""

    def __init__(
        self,
        description: RunDescription,
        base: PreparedMeasurement,
        plugin: TargetPlugin,
        models: Models | None,
    ) -> None:
        self._description = description
        self._base = base
        self._plugin = plugin
        self._models = models
        self._candidates: dict[str, Variant] = {}

    def prepared(self, choice: ColumnChoice) -> PreparedColumn:
        """A column; one whose model cannot be used has failed, and anything else is refused."""
        try:
            return PreparedColumn(choice=choice, measurement=self.measurement(choice))
        except BurnishError as error:
            if not choice.model:
                raise
            self.measurement(choice.without_model())  # raises where the model is not to blame
            return PreparedColumn(choice=choice, failure=_reason(error))

    def measurement(self, choice: ColumnChoice) -> PreparedMeasurement:
        """The measurement of a column; ConfigError if it cannot be compared with the others."""
        spec = self._plugin.varied(self._description.spec, self._variant(choice))
        name = spec.source.name or Path(spec.source.file).stem
        source = spec.source.model_copy(update={"name": f"{name} · {choice.label}"})
        spec = spec.model_copy(update={"source": source})
        own = spec_changes(self._description.spec.to_json(), spec.to_json())
        spec = spec.overriding(*(tuple(map(str, each.path)) for each in own))
        made = from_description(replace(self._description, spec=spec), models=self._models)
        made.setup.check()
        ours, theirs = made.setup.inputs(), self._base.setup.inputs()
        for name, remedy in _SAME.items():
            if ours[name] != theirs[name]:
                message = f"{choice.label}: it would not be measured with the same {name}"
                raise ConfigError([Problem(message=message, remedy=remedy)])
        return made

    def _variant(self, choice: ColumnChoice) -> Variant:
        place = str(choice.values.get(CANDIDATE_AXIS, ""))
        if place and place not in self._candidates:
            self._candidates[place] = read_candidate(place, self._plugin, self._base.setup.target)
        candidate = self._candidates.get(place, Variant())
        set_here = {
            name: cast("Value", value)
            for name, value in choice.values.items()
            if name not in (MODEL_AXIS, CANDIDATE_AXIS)
        }
        return replace(candidate, model=choice.model, values={**candidate.values, **set_here})


_SAME = {
    "data": "name the cases for all of them: --cases FILE",
    "metrics": "name the judge for all of them: --judge MODEL",
    "objective": "",
}
"""What all columns must share to be compared, with what to do about it."""


def _distinct(columns: Sequence[PreparedColumn]) -> tuple[list[PreparedColumn], list[str]]:
    """The columns that differ in more than their names, and what is said of the others."""
    first: dict[str, PreparedColumn] = {}
    notes: list[str] = []
    for place, column in enumerate(columns):
        made = column.measurement
        key = f"failed {place}" if made is None else short_id({**made.setup.inputs()})
        if key in first:
            label, same = column.choice.label, first[key].choice.label
            notes.append(f"{label} is the same as {same}: it is measured once")
        else:
            first[key] = column
    return list(first.values()), notes


def _reason(error: BurnishError) -> str:
    lines = (" ".join(line.split()) for line in str(error).splitlines())
    return "; ".join(line for line in lines if line)


# -- Measuring -------------------------------------------------------------------------------------


Views = Callable[[PreparedMeasurement, str], AbstractContextManager[Sequence[Listener]]]
"""How the progress of a column is shown, by its name."""


def _unwatched(
    measurement: PreparedMeasurement, name: str
) -> AbstractContextManager[Sequence[Listener]]:
    del measurement, name
    return nullcontext(())


@dataclass(frozen=True, kw_only=True)
class MeasuredGrid:
    """What came of a grid."""

    report: GridReport
    folder: Path
    reports: tuple[EvalReport, ...] = ()
    """Of the columns that were measured."""
    interrupted: bool = False


def make_grid_folder(grid: PreparedGrid, folder: Path | None) -> Path:
    """The folder of a grid."""
    home = grid.folder or folder
    if home is None:
        started = datetime.now(UTC)
        key = short_id([each.choice.key for each in grid.columns])[:8]
        name = f"{started:%Y-%m-%dT%H-%M-%S}_{key}"
        names = (name if n == 1 else f"{name}-{n}" for n in range(1, 1000))
        home = next(each for n in names if not (each := grid.base.root / n).exists())
    home.mkdir(parents=True, exist_ok=True)
    return home.resolve()


def measure_grid(
    grid: PreparedGrid,
    home: Path,
    *,
    forked: Forked | None = None,
    views: Views = _unwatched,
) -> MeasuredGrid:
    """Measure the columns one after the other, within one budget; each adds to the report.

    Those that were measured before come first: they cost nothing, and find the budget as it was.
    """
    with FileLock.acquire(home / LOCK, holding=f"the grid {home.name}"):
        grid.stored.write(home)
        return _measure_columns(grid, home, forked, views)


def _measure_columns(
    grid: PreparedGrid, home: Path, forked: Forked | None, views: Views
) -> MeasuredGrid:
    done = {
        each.choice.key: MeasuredColumn(
            label=each.choice.label, values=each.choice.values, failure=each.failure or NOT_YET
        )
        for each in grid.columns
    }
    interrupted = False
    budget = _GridBudget(grid.base.setup.budget)
    for column in sorted(grid.columns, key=lambda each: not each.is_there):
        made, limit = replace(done[column.choice.key], failure=""), budget.reached
        if column.measurement is None or interrupted:
            continue
        if limit:
            done[column.choice.key] = replace(made, failure=limit)
            continue
        setup = replace(column.measurement.setup, budget=budget.left)
        ready = replace(column.measurement, setup=setup)
        folder = _column_folder(home, column.choice)
        if not column.is_there:
            done[column.choice.key] = replace(made, failure=NOT_YET, run=str(folder))
            _keep(_side_by_side(grid, home, done), home)
        result = _measured(ready, folder, made, forked, views)
        if isinstance(result, MeasuredColumn):
            done[column.choice.key] = result
        else:
            budget.use(result.ending.spent, result.report)
            interrupted = result.ending.interrupted
            done[column.choice.key] = _of_ending(made, result)
        _keep(_side_by_side(grid, home, done), home)
    columns = [done[each.choice.key] for each in grid.columns]
    reports = tuple(each.report for each in columns if each.report is not None)
    report = _side_by_side(grid, home, done)
    _keep(report, home)
    return MeasuredGrid(report=report, folder=home, reports=reports, interrupted=interrupted)


def _keep(report: GridReport, home: Path) -> None:
    """Write the report into the folder of the grid."""
    from burnish.pages.document import BARE, write_document
    from burnish.pages.several_runs import GridPage

    write_inside(home, GRID_RESULTS, report.to_text())
    write_inside(home, REPORT, to_markdown(grid_sections(report)))
    if is_automatic():
        with suppress(FileTrouble, OSError):
            write_document(place_inside(home, PAGE), GridPage(report=report).to_html(BARE))


def _side_by_side(grid: PreparedGrid, home: Path, done: Mapping[str, MeasuredColumn]) -> GridReport:
    """The report about the columns as they are now."""
    measure_ = grid.base.measure
    about = GridReport(
        agent=measure_.subject,
        source=grid.stored.file,
        folder=str(home),
        cases=len(grid.base.cases),
        repeats=measure_.repeats,
        notes=grid.notes,
    )
    columns = [done[each.choice.key] for each in grid.columns]
    return grid_of(columns, grid.base.setup.objective.weights, about)


def _measured(
    ready: PreparedMeasurement,
    folder: Path,
    made: MeasuredColumn,
    forked: Forked | None,
    views: Views,
) -> Measured | MeasuredColumn:
    """What came of a column; what ends the whole grid is raised."""
    is_there = (folder / HEADER).exists()
    with views(ready, made.label) as listeners:
        try:
            return measure(
                ready,
                folder=None if is_there else folder,
                resumed=folder if is_there else None,
                forked=None if is_there else _same_column(forked, folder),
                listeners=listeners,
            )
        except (Interrupted, ResumeRefused):
            raise
        except BurnishError as error:
            run = str(folder) if (folder / HEADER).exists() else ""
            return replace(made, failure=_reason(error), run=run)


def _same_column(forked: Forked | None, folder: Path) -> Forked | None:
    """The run from which a column takes results: a run as it is, of a grid the same column."""
    if forked is None or (forked.run / HEADER).is_file():
        return forked
    key = folder.name.rpartition("-")[2]
    runs = sorted((forked.run / COLUMNS).glob(f"*-{key}"))
    return replace(forked, run=runs[0]) if runs else None


def fork_of(name: str, *, retry_missing: bool = False) -> Forked:
    """The run, or the grid, that a name means."""
    grid = find_grid(name)
    return Forked(run=grid or find_run(name), retry_missing=retry_missing)


def _of_ending(made: MeasuredColumn, result: Measured) -> MeasuredColumn:
    made = replace(made, run=str(result.ending.folder), report=result.report)
    if result.report is not None:
        return made
    code, detail = result.ending.reason.code, result.ending.reason.detail
    return replace(made, failure=f"stopped before the end: {detail or code}")


class _GridBudget:
    """What is left of a budget for all columns together."""

    def __init__(self, whole: Budget) -> None:
        self._whole = whole
        self._spent = NOTHING
        self._minutes = 0.0

    def use(self, spent: Spend, report: EvalReport | None) -> None:
        """Count what a column took."""
        self._spent += spent
        self._minutes += 0.0 if report is None else report.totals.active_seconds / 60

    @property
    def reached(self) -> str:
        """Why nothing more may be spent; empty if it may."""
        reason = self._whole.spend_limit(self._spent)
        minutes = self._whole.max_minutes
        if reason is None and minutes is not None and self._minutes >= minutes:
            return f"not measured: {minutes:g} minutes are over"
        return "" if reason is None else f"not measured: {reason.detail}"

    @property
    def left(self) -> Budget:
        whole, spent = self._whole, self._spent
        used = {
            "max_metric_calls": spent.metric_calls,
            "max_calls": spent.calls,
            "max_tokens": spent.tokens,
            "max_usd": spent.usd or 0.0,
            "max_minutes": self._minutes,
        }
        limits = {name: getattr(whole, name) for name in used}
        left = {name: limit - used[name] for name, limit in limits.items() if limit is not None}
        return replace(whole, **left)
