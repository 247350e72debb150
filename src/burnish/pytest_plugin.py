"""The pytest plug-in: agents are evaluated in tests, and compared with an earlier version.

It is loaded by every pytest run where burnish is installed, so nothing is imported before a test
asks for it.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pytest

if TYPE_CHECKING:
    from burnish.projects.measurements import Evaluated
    from burnish.reports.baseline import BaselineComparison
    from burnish.reports.evaluation import EvalReport, MetricSummary
    from burnish.reports.evaluation_cases import CaseRow

_MARK = "burnish"
_MARK_HELP = (
    "burnish(cases, metric, min_score, repeats, …): what the fixture `evaluate` measures an agent "
    "with, and the least mean score, one for all metrics or by metric"
)
_SHOWN = 10
"""Cases that do not pass and are listed without -v."""
_MinScore: TypeAlias = float | Mapping[str, float] | None


def pytest_addoption(parser: pytest.Parser) -> None:
    """The command line's options."""
    group = parser.getgroup("burnish", "agents evaluated by burnish")
    group.addoption(
        "--burnish-baseline",
        metavar="FOLDER",
        help="compare each evaluation with the one kept in this folder; a test fails if a metric "
        "got worse by more than chance",
    )
    group.addoption(
        "--burnish-write-baseline",
        action="store_true",
        help="keep this run's evaluations in the folder of --burnish-baseline",
    )
    group.addoption(
        "--burnish-cache",
        action="store_true",
        help="pay for an evaluation once, until agent, cases or metrics change; of an agent's "
        "code, only the file that defines it is watched",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and refuse options that do not fit."""
    config.addinivalue_line("markers", _MARK_HELP)
    if config.getoption("burnish_cache") and not config.pluginmanager.has_plugin("cacheprovider"):
        raise pytest.UsageError("--burnish-cache needs pytest's cacheprovider")
    if config.getoption("burnish_write_baseline") and not config.getoption("burnish_baseline"):
        raise pytest.UsageError("--burnish-write-baseline needs --burnish-baseline FOLDER")


@dataclass
class PytestEvaluator:
    """Evaluates agents with what the test's marker says; an argument overrides it."""

    request: pytest.FixtureRequest = field(repr=False)
    done: list["Evaluated"] = field(default_factory=list["Evaluated"], repr=False)

    def __call__(self, agent: Any, **given: Any) -> "Evaluated":
        """Measure an agent, and fail if it is worse than `min_score` or than the baseline.

        Takes `min_score` and the arguments of `burnish.evaluate`. Without `min_score`, every case
        has to pass every metric that has a threshold.
        """
        __tracebackhide__ = True
        settings = {**self._marked(), **given}
        least: _MinScore = settings.pop("min_score", None)
        settings["cases"] = self._near_the_test(settings.get("cases"), "cases" in given)
        evaluated = self._measured(agent, settings)
        self.done.append(evaluated)
        number = len(self.done)
        report = self._beside_baseline(evaluated.report, number)
        self._note(report, number)
        if least is None:
            evaluated.require()
        else:
            require_score(report, least)
        if report.baseline is not None:
            require_no_regression(report.baseline)
        return evaluated

    def _marked(self) -> dict[str, Any]:
        mark = self.request.node.get_closest_marker(_MARK)
        if mark is None:
            return {}
        if mark.args:
            pytest.fail(f"@pytest.mark.{_MARK} takes keywords only: cases=…", pytrace=False)
        return dict(mark.kwargs)

    def _near_the_test(self, cases: Any, given: bool) -> Any:  # noqa: FBT001
        """A marker's file lies beside the test file; one that is passed, where the test says."""
        if given or not isinstance(cases, str | Path):
            return cases
        return self.request.path.parent / cases

    def _measured(self, agent: Any, settings: dict[str, Any]) -> "Evaluated":
        from burnish.projects.evaluate_call import MeasureOptions, measurement_of
        from burnish.projects.measurements import measured
        from burnish.system.shutdown import run_to_end

        texts, cases = settings.pop("texts", None), settings.pop("cases", None)
        metric = settings.pop("metric", None)
        folder: Path | None = settings.pop("folder", None)
        try:
            options = MeasureOptions(**settings)
        except TypeError as error:
            named = str(error).replace("MeasureOptions.__init__() ", "")
            pytest.fail(f"evaluate: {named}", pytrace=False)
        measurement = measurement_of(agent, texts, cases=cases, metric=metric, options=options)
        if folder is None and self.request.config.getoption("burnish_cache"):
            folder = self._cached(measurement.setup.inputs())
        return run_to_end(measured(measurement, folder))

    def _cached(self, inputs: Mapping[str, str]) -> Path:
        """The folder of this evaluation's journal."""
        cache = self.request.config.cache
        text = "\n".join(f"{name} {value}" for name, value in sorted(inputs.items()))
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        return cache.mkdir("burnish") / f"{_file_name(self.request.node.nodeid)}-{key}"

    def _beside_baseline(self, report: "EvalReport", number: int) -> "EvalReport":
        """The report, compared with the one that is kept."""
        folder: str | None = self.request.config.getoption("burnish_baseline")
        if folder is None:
            return report
        suffix = "" if number == 1 else f"-{number}"
        file = Path(folder) / f"{_file_name(self.request.node.nodeid)}{suffix}.json"
        if self.request.config.getoption("burnish_write_baseline"):
            file.parent.mkdir(parents=True, exist_ok=True)
            report.write(file)
            return report
        return report.against(_read(file)) if file.exists() else report

    def _note(self, report: "EvalReport", number: int) -> None:
        """Keep the lines of the report, also if the test runs in another process."""
        item, config = self.request.node, self.request.config
        title = item.nodeid if number == 1 else f"{item.nodeid} ({number})"
        if config.getoption("burnish_write_baseline"):
            since = " · kept as baseline"
        elif config.getoption("burnish_baseline"):
            since = " · no baseline yet" if report.baseline is None else _since(report.baseline)
        else:
            since = ""
        every = config.get_verbosity() > 0
        cases = _case_lines(report.cases, most=None if every else _SHOWN, every=every)
        item.user_properties.append((_MARK, [f"{title}: {_headline(report)}{since}", *cases]))


@pytest.fixture
def evaluate(request: pytest.FixtureRequest) -> PytestEvaluator:
    """`evaluate(agent)` measures an agent with what `@pytest.mark.burnish` says."""
    return PytestEvaluator(request)


@dataclass(frozen=True)
class PytestComparer:
    """Compares the test's last evaluation with an earlier one."""

    evaluator: PytestEvaluator = field(repr=False)

    def __call__(self, baseline: "EvalReport | Path | str") -> "BaselineComparison":
        """Compare with a report or its file, and fail if a metric got worse by more than chance.

        The file is what `burnish eval --json` and `--burnish-write-baseline` write.
        """
        __tracebackhide__ = True
        if not self.evaluator.done:
            pytest.fail("compare_to: call `evaluate(agent)` first", pytrace=False)
        report = self.evaluator.done[-1].report
        earlier = _read(Path(baseline)) if isinstance(baseline, str | Path) else baseline
        comparison = report.against(earlier).baseline
        assert comparison is not None
        require_no_regression(comparison)
        return comparison


@pytest.fixture
def compare_to(evaluate: PytestEvaluator) -> PytestComparer:
    """`compare_to("baseline.json")` after `evaluate(agent)`."""
    return PytestComparer(evaluate)


def require_score(report: "EvalReport", least: float | Mapping[str, float]) -> None:
    """Raise an AssertionError if a metric's mean is too low, or anything is missing."""
    from burnish.core.formatting import counted

    __tracebackhide__ = True
    scored = [each for each in report.metrics if not each.silent]
    wanted = least if isinstance(least, Mapping) else {each.metric: least for each in scored}
    faults = [
        f"{name}: no such metric, or it applies to no case"
        for name in wanted
        if name not in {each.metric for each in scored}
    ]
    for each in scored:
        bar = wanted.get(each.metric)
        if bar is None:
            continue
        if each.missing:
            faults.append(f"{each.metric}: {counted(each.missing, 'case')} could not be measured")
        if each.mean is None or each.mean < bar:
            unsure = each.high is not None and each.high >= bar
            end = "; so few cases could show that by chance" if unsure else ""
            faults.append(f"{_metric_words(each)}, and at least {bar:g} is required{end}")
    if not scored:
        faults.append("no metric applies to any case")
    if faults:
        raise AssertionError("\n".join([*faults, *_case_lines(report.cases, most=_SHOWN)]))


def require_no_regression(comparison: "BaselineComparison") -> None:
    """Raise an AssertionError if a metric got worse by more than chance, or says nothing now."""
    from burnish.core.formatting import number
    from burnish.reports.baseline import ChangeKind

    __tracebackhide__ = True
    faults = [f"{name}: the baseline has it, and now it says nothing" for name in comparison.silent]
    faults += [
        f"{each.metric}: {number(each.before)} → {number(each.after)}, {number(each.difference)} "
        f"[{number(each.low)}, {number(each.high)}] over {each.cases} shared cases"
        for each in comparison.metrics
        if each.distinguishable and each.difference < 0
    ]
    if faults:
        broken = [each.case for each in comparison.cases if each.change is ChangeKind.NEW_FAIL]
        listed = [f"newly failing: {', '.join(broken)}"] if broken else []
        head = f"worse than {comparison.baseline or 'the baseline'} by more than chance"
        raise AssertionError("\n".join([head, *faults, *listed]))


def _read(file: Path) -> "EvalReport":
    from burnish.reports.evaluation import EvalReport

    return EvalReport.read(file)


def _file_name(nodeid: str) -> str:
    """A node id as a file name: readable, and different for different ids."""
    short = hashlib.sha256(nodeid.encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', nodeid)[-80:].strip('-.')}-{short}"


# -- In the report ---------------------------------------------------------------------------------


def _headline(report: "EvalReport") -> str:
    """Metrics with their intervals, verdicts, and the cost."""
    from burnish.core.formatting import counted, money

    totals = report.totals
    verdicts = {"passed": totals.passed, "failed": totals.failed, "missing": totals.missing}
    shown = ", ".join(f"{count} {name}" for name, count in verdicts.items() if count)
    return " · ".join(
        filter(
            None,
            (
                ", ".join(_metric_words(each) for each in report.metrics if not each.silent),
                counted(totals.cases, "case") + (f": {shown}" if shown else ""),
                money(totals.spent.usd) if totals.spent.calls else "",
            ),
        )
    )


def _since(comparison: "BaselineComparison") -> str:
    """What changed since the baseline."""
    from burnish.reports.baseline import ChangeKind

    kinds = {"newly failing": ChangeKind.NEW_FAIL, "newly passing": ChangeKind.NEW_PASS}
    counts = {words: comparison.counts.get(kind, 0) for words, kind in kinds.items()}
    changed = ", ".join(f"{count} {words}" for words, count in counts.items() if count)
    return f" · {changed or 'no verdict changed'} since the baseline"


def _metric_words(summary: "MetricSummary") -> str:
    from burnish.core.formatting import number

    ends = "" if summary.low is None else f" [{number(summary.low)}, {number(summary.high)}]"
    return f"{summary.metric} {number(summary.mean)}{ends}"


def _case_lines(
    rows: "tuple[CaseRow, ...]", *, most: int | None, every: bool = False
) -> Iterator[str]:
    """One line per case: all of them, or those that do not pass."""
    from burnish.core.formatting import number, shorten
    from burnish.reports.evaluation_cases import complaints_of, unwell

    shown = list(rows) if every else unwell(rows)
    for row in shown[:most]:
        values = ", ".join(f"{name} {number(value)}" for name, value in row.values.items())
        reason = next((each.reason for each in complaints_of(row) if each.reason), "")
        yield f"  {row.verdict}  {shorten(row.case, 60)}  {values}" + (
            f"  {shorten(reason, 100)}" if reason else ""
        )
    if most is not None and len(shown) > most:
        yield f"  … and {len(shown) - most} more; -v lists every case"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured, test by test."""
    lines = [
        line
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == _MARK
        for line in cast("list[str]", value)
    ]
    if lines:
        terminalreporter.section("burnish")
        for line in lines:
            terminalreporter.line(line)
