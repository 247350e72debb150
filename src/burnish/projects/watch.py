"""Watching production: judge a sample of logged traces, and tell drift from noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import Json, stream
from burnish.core.control_chart import ChartAlarm, ChartDesign, ChartReading, read_chart
from burnish.core.errors import ConfigError, Interrupted, Problem
from burnish.core.evaluations import CaseResult, Evaluation
from burnish.core.formatting import counted
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Metric
from burnish.datasets.agent_cases import mapped
from burnish.datasets.trace_formats import read_traces
from burnish.datasets.trace_selection import redacted
from burnish.datasets.traces import SOURCE, LoggedTrace, ReplyUse, case_of_trace
from burnish.metrics.judged import judged_parts
from burnish.models.factory import Models
from burnish.projects.launch import known_judges, load_project, optimize
from burnish.projects.measurements import PreparedMeasurement, load_measurement
from burnish.projects.watch_folder import (
    LOCK,
    JudgedTrace,
    WatchCheck,
    WatchFolder,
    WatchTerms,
    seen_key,
)
from burnish.runs.directory import NAME as RUN
from burnish.runs.directory import RunRecord
from burnish.runs.events import Listener
from burnish.runs.setup import Setup
from burnish.system import read_tree
from burnish.system.locks import FileLock
from burnish.system.personal_data import DataRedactor

WATCH_RESULTS = Path("results") / "watch"


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
    unchecked_judge: bool = False
    max_calls: int | None = None
    max_usd: float | None = None
    optimize: bool = False
    new_baseline: bool = False

    @property
    def home(self) -> Path:
        """The folder of the watch: `results/watch/LOG` beside the project file."""
        beside = self.project.resolve().parent / WATCH_RESULTS
        return self.folder or beside / (self.log.resolve().name.partition(".")[0] or "log")


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
    judges: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """By judged metric, what its check against labels found; empty if it was not checked."""
    optimization: Path | None = None

    @property
    def spent(self) -> Spend:
        return sum((check.spent for check in self.checks), NOTHING)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Looks at a log again and again; each check is a run, and no trace is judged twice."""

    options: WatchOptions
    models: Models | None = None
    """Replace the real ones, for tests."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def check(self, listeners: Sequence[Listener] = ()) -> WatchState:
        """Judge a sample of what is new, or finish the check that was interrupted."""
        folder = WatchFolder(self.options.home)
        folder.path.mkdir(parents=True, exist_ok=True)
        with FileLock.acquire(folder.path / LOCK, holding="this watch"):
            if self.options.optimize:
                self._refuse_without_limit()
            number, fresh, broken = self._begun(folder)
            if not folder.cases(number):
                return self._idle(folder)
            return self._judged(folder, number, (fresh, broken), listeners)

    def _begun(self, folder: WatchFolder) -> tuple[int, int, int]:
        """The check to make, its new traces, and the broken records."""
        options = self.options
        if (number := folder.unfinished()) is not None:
            return number, len(folder.cases(number)), 0
        log = read_traces(options.log, format=options.read_as, fields=options.fields)
        seen = folder.seen()
        fresh = [trace for trace in log.traces if seen_key(trace.id) not in seen]
        number = max(folder.numbers(), default=0) + 1
        if fresh:
            cases = tuple(self._case(trace) for trace in self._sample(fresh, number))
            folder.begin(number, cases, [trace.id for trace in fresh])
        return number, len(fresh), len(log.broken)

    def _sample(self, traces: Sequence[LoggedTrace], number: int) -> list[LoggedTrace]:
        """A plain random sample: a balanced one would move the mean that the chart shows."""
        ordered = sorted(traces, key=lambda trace: (trace.time, trace.id))
        size = min(self.options.sample, len(ordered))
        chosen = stream(self.options.design.seed, "watch", number).sample(range(len(ordered)), size)
        return [ordered[position] for position in sorted(chosen)]

    def _case(self, trace: LoggedTrace) -> Case:
        return redacted(case_of_trace(trace, ReplyUse.RECORD), self.options.redactor)

    def _idle(self, folder: WatchFolder) -> WatchState:
        checks = folder.checks()
        terms = WatchTerms(log=str(self.options.log), project=str(self.options.project))
        reading = read_chart(charted_values(checks), self.options.design)
        state = WatchState(folder=folder, terms=terms, checks=checks, reading=reading)
        # A search that was interrupted goes on even if nothing new was logged.
        return (
            replace(state, optimization=self._optimized(state)) if self.options.optimize else state
        )

    def _judged(
        self,
        folder: WatchFolder,
        number: int,
        counts: tuple[int, int],
        listeners: Sequence[Listener],
    ) -> WatchState:
        options, before = self.options, folder.checks()
        measurement = self._measurement(folder, number, before)
        terms = self._terms(measurement.setup)
        folder.agree(terms)
        judges = self._judges(measurement.setup.metrics)
        ending = optimize(measurement.setup, folder.run(number), listeners=listeners)
        if measurement.evaluation is None:
            raise _cut_short(
                ending.reason.detail or ending.reason.code, interrupted=ending.interrupted
            )
        check = WatchCheck(
            number=number,
            at=self.clock().isoformat(timespec="seconds"),
            fresh=counts[0],
            broken=counts[1],
            judged=tuple(self._verdicts(folder.cases(number), measurement.evaluation)),
            spent=RunRecord.read(ending.folder).billed,
            new_baseline=options.new_baseline,
        )
        if not check.values:
            raise _nothing_judged(check, options.charted)
        reading = read_chart(charted_values((*before, check)), options.design)
        new = _new_alarm(reading, len(check.values))
        check = replace(check, alarm="" if new is None else alarm_words(reading, new, terms))
        proposed = folder.propose(_failures(folder, check), _proposed_before(folder, before))
        folder.finish(check)
        state = WatchState(
            folder=folder,
            terms=terms,
            checks=(*before, check),
            reading=reading,
            check=check,
            proposed=proposed,
            judges=judges,
        )
        return replace(state, optimization=self._optimized(state)) if options.optimize else state

    def _measurement(
        self, folder: WatchFolder, number: int, before: Sequence[WatchCheck]
    ) -> PreparedMeasurement:
        """The judging of a check: a measurement of recorded replies."""
        options, names = self.options, list[Json](self.options.metrics)
        flags: dict[str, Json] = {
            "judge": options.judge,
            "metric": names or None,
            **self._left(sum((check.spent for check in before), self._optimizing(folder))),
        }
        if _has_kind(options.project):
            cases = folder.cases(number)
            return load_measurement(options.project, flags, models=self.models, cases=cases)
        flags["metrics"] = str(options.project.resolve())
        return load_measurement(folder.cases_file(number), flags, models=self.models)

    def _left(self, spent: Spend) -> dict[str, Json]:
        """What is left of the limits of the whole watch."""
        options = self.options
        calls = None if options.max_calls is None else options.max_calls - spent.calls
        usd = None if options.max_usd is None else options.max_usd - (spent.nano_usd / 1e9)
        if (calls is not None and calls < 1) or (usd is not None and usd <= 0):
            raise _cut_short("the limits of the watch are used up", interrupted=False)
        return {"max_calls": calls, "max_usd": usd}

    def _terms(self, setup: Setup) -> WatchTerms:
        options, names = self.options, [metric.name for metric in setup.metrics]
        if options.charted and options.charted not in names:
            message = f"no metric is called '{options.charted}'"
            remedy = f"the metrics are: {', '.join(names)}"
            raise ConfigError([Problem(where="--chart", message=message, remedy=remedy)])
        return WatchTerms(
            log=str(options.log.resolve()),
            project=str(options.project.resolve()),
            metrics={metric.name: metric.fingerprint for metric in setup.metrics},
            charted=options.charted,
            sample=options.sample,
            design=options.design,
        )

    def _judges(self, metrics: Sequence[Metric]) -> dict[str, tuple[str, ...]]:
        """What is known of the judges; refuses those that nobody has checked."""
        judged = [metric for metric in metrics if any(True for _ in judged_parts(metric))]
        known = known_judges() if judged else {}
        found = {metric.name: known.get(metric.fingerprint, ()) for metric in judged}
        unknown = [name for name, sentences in found.items() if not sentences]
        if unknown and not self.options.unchecked_judge:
            problems = [
                Problem(where=name, message="this judge was not checked against labels")
                for name in unknown
            ]
            remedy = (
                f"check it: burnish data judge-check LABELS --metrics {self.options.project}; "
                "or trust it unchecked: --unchecked-judge"
            )
            raise ConfigError(problems, remedy=remedy)
        return found

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

    def _optimized(self, state: WatchState) -> Path | None:
        """The search that the first alarm since the baseline starts; it ends before this returns.

        One for each baseline: as long as nothing changes, a second one would search the same.
        """
        since = [check for check in _since_baseline(state.checks) if check.alarm]
        if not since:
            return None
        home = state.folder.path / "optimizations" / f"{since[0].number:04}"
        if (home / "report.md").exists() and not _is_open(home):
            return None
        # The search itself counts what it has spent when it goes on.
        left = self._left(state.spent + self._optimizing(state.folder, but=home))
        project = load_project(self.options.project, left, models=self.models)
        return optimize(project.setup, home).folder

    def _optimizing(self, folder: WatchFolder, *, but: Path | None = None) -> Spend:
        """What searches have spent, without this one."""
        homes = (home for home in (folder.path / "optimizations").glob("*") if home != but)
        return sum((RunRecord.read(h).billed for h in homes if (h / RUN).exists()), NOTHING)


def _is_open(home: Path) -> bool:
    return RunRecord.read(home).ending is None


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


def _reasons(result: CaseResult) -> dict[str, str]:
    error = result.outcome.failure
    failing = {s.metric: s.reason for s in result.scores if s.passed is False or s.missing}
    return {**({"error": error.message} if error else {}), **failing}


def _since_baseline(checks: Sequence[WatchCheck]) -> tuple[WatchCheck, ...]:
    starts = [position for position, check in enumerate(checks) if check.new_baseline]
    return tuple(checks[starts[-1] if starts else 0 :])


def charted_values(checks: Sequence[WatchCheck]) -> list[float]:
    """The scores on the chart: those since the last baseline began, in order."""
    return [value for check in _since_baseline(checks) for value in check.values]


def _new_alarm(reading: ChartReading, added: int) -> ChartAlarm | None:
    """The first alarm among the scores that were added."""
    fresh = (alarm for alarm in reading.alarms if alarm.at >= reading.scores - added)
    return next(fresh, None)


def alarm_words(reading: ChartReading, alarm: ChartAlarm, terms: WatchTerms) -> str:
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
