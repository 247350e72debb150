"""Watching production: judge a sample of logged traces, and tell drift from noise."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from burnish.core.cases import Case, Dataset
from burnish.core.content import Json, stream
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.formatting import counted
from burnish.core.money import NOTHING, Spend
from burnish.core.statistics import ChartAlarm, ChartDesign, ChartReading, read_chart
from burnish.datasets.agent_cases import mapped
from burnish.datasets.trace_exports import read_traces
from burnish.datasets.traces import SOURCE, LoggedTrace, ReplyUse, case_of_trace, redacted
from burnish.models.factory import Models
from burnish.projects.launch import launch_in, load_project
from burnish.projects.measurements import PreparedMeasurement, load_measurement
from burnish.projects.watch_folder import (
    LOCK,
    BegunCheck,
    JudgedTrace,
    WatchCheck,
    WatchFolder,
    WatchTerms,
    seen_key,
)
from burnish.runs.claims import verdict_cell
from burnish.runs.directory import RunRecord
from burnish.runs.events import Listener
from burnish.runs.plugins import LiveParts
from burnish.runs.setup import Setup
from burnish.system import read_tree
from burnish.system.files import FileLock
from burnish.system.redaction import DataRedactor

_WATCH_RESULTS = Path("results") / "watch"
_USED_UP = "the limits of the watch are used up"


@dataclass(frozen=True, kw_only=True)
class WatchOptions:
    """What is watched, how it is judged, and what may be spent on it."""

    log: Path
    project: Path
    redactor: DataRedactor
    folder: Path | None = None
    read_as: str | None = None
    fields: tuple[str, ...] = ()
    judge: str | None = None
    metrics: tuple[str, ...] = ()
    charted: str = ""
    sample: int = 50
    design: ChartDesign = field(default_factory=ChartDesign)
    max_calls: int | None = None
    max_usd: float | None = None
    optimize: bool = False
    new_baseline: bool = False

    @property
    def home(self) -> Path:
        """The folder of the watch: `results/watch/LOG` beside the project file."""
        beside = self.project.resolve().parent / _WATCH_RESULTS
        return self.folder or beside / (self.log.resolve().name.partition(".")[0] or "log")


@dataclass(frozen=True, kw_only=True)
class WatchSearch:
    """A search that an alarm has started."""

    folder: Path
    status: str
    """As in the list of runs."""
    verdict: str
    """What it claims of its best candidate, in one or two words."""
    spent: Spend
    has_result: bool = False
    """Whether it has a candidate that can be adopted."""

    @classmethod
    def read(cls, folder: Path) -> "WatchSearch":
        run = RunRecord.read(folder)
        return cls(
            folder=folder,
            status=run.status,
            verdict=verdict_cell(run.claim),
            spent=run.billed,
            has_result=run.best is not None and run.best is not run.baseline,
        )


@dataclass(frozen=True, kw_only=True)
class WatchState:
    """What a watch knows after a check."""

    folder: WatchFolder
    terms: WatchTerms
    checks: tuple[WatchCheck, ...]
    reading: ChartReading
    check: WatchCheck | None = None
    """The check that was just made; None if there was no new trace."""
    proposed: int = 0
    """Failures that became proposals in this check."""
    searches: tuple[WatchSearch, ...] = ()
    """The searches that alarms have started, oldest first."""
    not_searched: str = ""
    """Why no search was started although there is an alarm."""

    @property
    def spent(self) -> Spend:
        """What checks and searches have spent."""
        return sum((each.spent for each in (*self.checks, *self.searches)), NOTHING)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Looks at a log again and again; each check is a run, and no trace is judged twice."""

    options: WatchOptions
    models: Models | None = None
    """Replace the real ones, for tests."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def check(self, listeners: Sequence[Listener] = ()) -> WatchState:
        """Judge a sample of what is new, or finish the check that was interrupted."""
        with self._held() as folder:
            if self.options.optimize:
                self._refuse_without_limit()
            begun = folder.unfinished() or self._begun(folder)
            if begun is None:
                return self._state(folder)
            return self._judged(folder, begun, listeners)

    def search(self, state: WatchState, listeners: Sequence[Listener] = ()) -> WatchState:
        """Run the search that the first alarm since the baseline starts, or continue it.

        One for each baseline: as long as nothing changes, a second one would search the same.
        Nothing is adopted.
        """
        since = [check for check in _since_baseline(state.checks) if check.alarm]
        if not since:
            return state
        with self._held() as folder:
            home = folder.search(since[0].number)
            if home in folder.searches() and RunRecord.read(home).ending is not None:
                return state
            # The search itself counts what it has spent when it goes on.
            others = (each.spent for each in state.searches if each.folder != home)
            left = self._left(sum(others, sum((each.spent for each in state.checks), NOTHING)))
            if left is None:
                return replace(state, not_searched=_USED_UP)
            project = load_project(self.options.project, left, models=self.models)
            ending = launch_in(project.setup, home, listeners=listeners)
            if ending.interrupted:
                remedy = "the same command continues it; nothing is paid twice"
                raise Interrupted("the search was not finished", remedy=remedy)
            return replace(state, searches=_searches(folder))

    @contextmanager
    def _held(self) -> Generator[WatchFolder, None, None]:
        """The folder of the watch, which no other process changes meanwhile."""
        folder = WatchFolder(self.options.home)
        folder.path.mkdir(parents=True, exist_ok=True)
        with FileLock.acquire(folder.path / LOCK, holding="this watch"):
            yield folder

    def _begun(self, folder: WatchFolder) -> BegunCheck | None:
        """A check of what is new in the log; None if nothing is."""
        options = self.options
        folder.refuse_others(self._terms())
        if folder.numbers() and _is_empty(options.log):
            return None  # it was rotated, and nothing was logged since
        log = read_traces(options.log, format=options.read_as, fields=options.fields)
        seen = folder.seen()
        fresh = [trace for trace in log.traces if seen_key(trace.id) not in seen]
        if not fresh:
            return None
        check = BegunCheck(
            number=max(folder.numbers(), default=0) + 1,
            fresh=len(fresh),
            broken=len(log.broken),
            new_baseline=options.new_baseline,
        )
        cases = tuple(self._case(trace) for trace in self._sample(fresh, check.number))
        folder.begin(check, cases, [trace.id for trace in fresh])
        return check

    def _sample(self, traces: Sequence[LoggedTrace], number: int) -> list[LoggedTrace]:
        """A plain random sample: a balanced one would move the mean that the chart shows."""
        ordered = sorted(traces, key=lambda trace: (trace.time, trace.id))
        size = min(self.options.sample, len(ordered))
        chosen = stream(self.options.design.seed, "watch", number).sample(range(len(ordered)), size)
        return [ordered[position] for position in sorted(chosen)]

    def _case(self, trace: LoggedTrace) -> Case:
        return redacted(case_of_trace(trace, ReplyUse.RECORD), self.options.redactor)

    def _state(self, folder: WatchFolder) -> WatchState:
        checks = folder.checks()
        return WatchState(
            folder=folder,
            terms=folder.terms() or self._terms(),
            checks=checks,
            reading=read_chart(_charted_values(checks), self.options.design),
            searches=_searches(folder),
        )

    def _judged(
        self, folder: WatchFolder, begun: BegunCheck, listeners: Sequence[Listener]
    ) -> WatchState:
        options, before = self.options, self._state(folder)
        measurement = self._measurement(folder, begun.number, before.spent)
        terms = self._terms(measurement.setup)
        folder.agree(terms)
        ending = launch_in(measurement.setup, folder.run(begun.number), listeners=listeners)
        if measurement.evaluation is None:
            raise _cut_short(
                ending.reason.detail or ending.reason.code, interrupted=ending.interrupted
            )
        check = WatchCheck(
            **vars(begun),
            at=self.clock().isoformat(timespec="seconds"),
            judged=tuple(self._verdicts(folder.cases(begun.number), measurement.evaluation)),
            spent=RunRecord.read(ending.folder).billed,
        )
        if not check.values and not _missing(measurement.evaluation):
            raise _nothing_judged(check, options.charted)
        reading = read_chart(_charted_values((*before.checks, check)), options.design)
        new = _new_alarm(reading, len(check.values))
        check = replace(check, alarm="" if new is None else _alarm_words(reading, new, terms))
        proposed = folder.propose(_failures(folder, check), _proposed_before(folder, before.checks))
        folder.finish(check)
        return replace(self._state(folder), check=check, proposed=proposed)

    def _measurement(self, folder: WatchFolder, number: int, spent: Spend) -> PreparedMeasurement:
        """The judging of a check: a measurement of recorded replies, each once."""
        options, names = self.options, list[Json](self.options.metrics)
        left = self._left(spent)
        if left is None:
            raise _cut_short(_USED_UP, interrupted=False)
        flags: dict[str, Json] = {
            "judge": options.judge,
            "metric": names or None,
            "repeats": 1,
            **left,
        }
        if _has_kind(options.project):
            live = LiveParts(dataset=Dataset(train=folder.cases(number)))
            return load_measurement(options.project, flags, models=self.models, live=live)
        flags["metrics"] = str(options.project.resolve())
        return load_measurement(folder.cases_file(number), flags, models=self.models)

    def _left(self, spent: Spend) -> dict[str, Json] | None:
        """What is left of the limits of the whole watch, as flags; None if that is nothing."""
        options = self.options
        calls = None if options.max_calls is None else options.max_calls - spent.calls
        usd = None if options.max_usd is None else options.max_usd - (spent.nano_usd / 1e9)
        if (calls is not None and calls < 1) or (usd is not None and usd <= 0):
            return None
        return {"max_calls": calls, "max_usd": usd}

    def _terms(self, setup: Setup | None = None) -> WatchTerms:
        """The terms of these options; without a setup, the metrics are not known yet."""
        options, metrics = self.options, () if setup is None else setup.metrics
        names = [metric.name for metric in metrics]
        if names and options.charted and options.charted not in names:
            message = f"no metric is called '{options.charted}'"
            remedy = f"the metrics are: {', '.join(names)}"
            raise ConfigError([Problem(where="--chart", message=message, remedy=remedy)])
        return WatchTerms(
            log=str(options.log.resolve()),
            project=str(options.project.resolve()),
            metrics={metric.name: metric.fingerprint for metric in metrics},
            charted=options.charted,
            sample=options.sample,
            design=options.design,
        )

    def _verdicts(self, cases: Sequence[Case], evaluation: Evaluation) -> list[JudgedTrace]:
        verdicts: list[JudgedTrace] = []
        for case in cases:
            (result,) = evaluation.of_case(case.id)
            passed = result.passed(evaluation.metrics)
            charted = self.options.charted
            value = result.value(charted) if charted else passed
            verdicts.append(
                JudgedTrace(
                    case=case.id,
                    value=None if value is None else float(value),
                    failed=passed is False,
                    reasons=_reasons(result),
                    time=str(mapped(case.extras.get(SOURCE)).get("time") or ""),
                )
            )
        return verdicts

    def _refuse_without_limit(self) -> None:
        if self.options.max_calls is None and self.options.max_usd is None:
            message = "an optimisation that starts by itself needs a limit"
            remedy = "add --max-usd or --max-calls: both hold for the whole watch"
            raise ConfigError([Problem(where="--optimize", message=message, remedy=remedy)])
        load_project(self.options.project, {}, models=self.models)


def _searches(folder: WatchFolder) -> tuple[WatchSearch, ...]:
    return tuple(map(WatchSearch.read, folder.searches()))


def _is_empty(log: Path) -> bool:
    """Whether a log is not there or has nothing in it, as just after it was rotated."""
    files = log.rglob("*") if log.is_dir() else (log,)
    return not any(each.stat().st_size for each in files if each.is_file())


def _has_kind(path: Path) -> bool:
    """Whether a file describes a project by its kind, rather than metrics or an agent."""
    data = read_tree(path).data
    return isinstance(data, dict) and "kind" in data


def _cut_short(reason: str, *, interrupted: bool) -> ConfigError | Interrupted:
    message = f"the check was not finished ({reason})"
    if interrupted:
        return Interrupted(message, remedy="the same command continues it; nothing is paid twice")
    remedy = "raise --max-calls or --max-usd, which hold for the whole watch, and run it again"
    return ConfigError([Problem(message=message, remedy=remedy)])


def _nothing_judged(check: WatchCheck, charted: str) -> ConfigError:
    message = f"none of {counted(len(check.judged), 'trace')} has a verdict"
    remedy = (
        f"look at the run of the check: the metric '{charted}' gave no score"
        if charted
        else "give a metric a threshold, or put the mean of one on the chart: --chart METRIC"
    )
    return ConfigError([Problem(message=message, remedy=remedy)])


def _missing(evaluation: Evaluation) -> bool:
    """Whether an endpoint gave no answer, rather than a metric no verdict."""
    return bool(evaluation.missing_cases(evaluation.metrics))


def _reasons(result: CaseResult) -> dict[str, str]:
    error = result.outcome.failure
    failing = {s.metric: s.reason for s in result.scores if s.passed is False or s.missing}
    return {**({"error": error.message} if error else {}), **failing}


def _since_baseline(checks: Sequence[WatchCheck]) -> tuple[WatchCheck, ...]:
    starts = [position for position, check in enumerate(checks) if check.new_baseline]
    return tuple(checks[starts[-1] if starts else 0 :])


def _charted_values(checks: Sequence[WatchCheck]) -> list[float]:
    """The scores on the chart: those since the last baseline began, in order."""
    return [value for check in _since_baseline(checks) for value in check.values]


def _new_alarm(reading: ChartReading, added: int) -> ChartAlarm | None:
    """The first alarm among the scores that were added."""
    fresh = (alarm for alarm in reading.alarms if alarm.at >= reading.scores - added)
    return next(fresh, None)


def _alarm_words(reading: ChartReading, alarm: ChartAlarm, terms: WatchTerms) -> str:
    """An alarm in a sentence."""
    what = f"the mean of {terms.charted}" if terms.charted else "the pass rate"
    design, last = reading.design, alarm.at - alarm.since + 1
    return (
        f"{what} has fallen: {alarm.level:.2f} over {counted(last, 'judged trace')}, "
        f"{reading.usual:.2f} in the baseline of {design.baseline}. Without any change, "
        f"{design.false_alarms:.0%} of all periods of {design.period:,} traces raise an alarm"
    )


def _failures(folder: WatchFolder, check: WatchCheck) -> tuple[Case, ...]:
    """The failed traces as cases that can be run again, with why they failed."""
    cases = {case.id: case for case in folder.cases(check.number)}
    proposals: list[Case] = []
    for each in check.judged:
        if not each.failed:
            continue
        case = cases[each.case]
        recorded = case.recorded
        source: dict[str, Json] = {
            **mapped(case.extras.get(SOURCE)),
            "reply": recorded.output if recorded else "",
            "watch": {
                "check": check.number,
                "run": str(folder.run(check.number)),
                "reasons": dict(each.reasons),
            },
        }
        proposals.append(replace(case, recorded=None, extras={**case.extras, SOURCE: source}))
    return tuple(proposals)


def _proposed_before(folder: WatchFolder, checks: Sequence[WatchCheck]) -> set[str]:
    """The questions that earlier checks proposed: what was removed from the file stays away."""
    return {case.question_id for check in checks for case in _failures(folder, check)}
