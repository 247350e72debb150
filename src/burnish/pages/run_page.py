"""The page about a run or a measurement, served or as report.html."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from burnish.core.cases import Dataset, Outcome, Split, Trace
from burnish.core.content import Json, codec
from burnish.core.errors import ConfigError, FileTrouble, in_shell
from burnish.core.formatting import Drawing, duration, moment, spending, visible
from burnish.datasets.checks import check, smallest_difference
from burnish.pages.charts import (
    Chart,
    case_chart,
    drawn,
    front_chart,
    score_chart,
    tree_chart,
)
from burnish.pages.document import (
    ALONE,
    BARE,
    Chapter,
    Place,
    chapters,
    render,
    write_document,
)
from burnish.pages.run_details import (
    Answers,
    CaseDetail,
    ComparedCases,
    TrialDetail,
    TrialLine,
    most_telling,
    trial_detail,
    trial_lines,
)
from burnish.pages.run_result import (
    DelegationPart,
    ShownChange,
    VerdictCard,
    shown_changes,
    verdict_card,
)
from burnish.pages.run_status import MOST_EFFECTS, RunCosts
from burnish.reports.cases import case_lines, group_counts
from burnish.reports.evaluation import EvalReport
from burnish.reports.evaluation_cases import CaseRow, CaseVerdict
from burnish.reports.evaluation_page import (
    change_counts,
    heading,
    metric_cells,
    totals_lines,
    verdict,
)
from burnish.runs.directory import RunRecord, look_into
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import steered_by
from burnish.runs.spec import tags_of
from burnish.system import place_inside

# -- Measurements ----------------------------------------------------------------------------------


_CASES = 1_000
"""Cases of one page; evaluation.json has them all."""
_WORDS = {
    CaseVerdict.FAIL: "fails",
    CaseVerdict.MISSING: "missing",
    CaseVerdict.UNJUDGED: "no verdict",
    CaseVerdict.PASS: "passes",
}


@dataclass(frozen=True, kw_only=True)
class EvaluationPage:
    """Everything on the page about a measurement."""

    report: EvalReport
    chapters: tuple[Chapter, ...] = ()
    grid: str = ""
    """The key of the page about the grid that it is a column of."""

    @classmethod
    def of(cls, run: RunRecord, report: EvalReport) -> "EvaluationPage":
        """The page of a run of `burnish eval`."""
        sections = strategy_plugin(run.header.strategy).report(run)
        return cls(report=report, chapters=chapters(sections))

    @property
    def title(self) -> str:
        return heading(self.report)

    @property
    def words(self) -> str:
        sentence = verdict(self.report)
        return f"{sentence[:1].upper()}{sentence[1:]}."

    @property
    def tone(self) -> Literal["good", "bad", "open"]:
        if self.report.ok:
            return "good"
        return "bad" if self.report.totals.failed else "open"

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        return tuple(totals_lines(self.report))

    @property
    def metrics(self) -> tuple[tuple[str, ...], ...]:
        return tuple((each.metric, *metric_cells(each)) for each in self.report.metrics)

    @property
    def chart(self) -> Chart | None:
        """The mean of each metric with its interval."""
        scored = [(each, each.mean) for each in self.report.metrics if each.mean is not None]
        if not scored:
            return None
        means: list[Json] = [mean for _, mean in scored]
        ups: list[Json] = [0 if each.high is None else each.high - mean for each, mean in scored]
        downs: list[Json] = [0 if each.low is None else mean - each.low for each, mean in scored]
        trace: dict[str, Json] = {
            "type": "scatter",
            "mode": "markers",
            "name": "mean and 95 % interval",
            "x": means,
            "y": [each.metric for each, _ in scored],
            "error_x": {"type": "data", "symmetric": False, "array": ups, "arrayminus": downs},
            "marker": {"size": 12},
            "meta": "train",
        }
        figure: dict[str, Json] = {"data": [trace], "x": "score", "y": ""}
        figure |= {"height": 120 + 40 * len(scored), "range": [0, 1]}
        return Chart(
            name="metrics",
            title="Metrics",
            figure=figure,
            head=("metric", "mean", "95 % interval", "threshold", "cases that pass", "missing"),
            rows=self.metrics,
        )

    @property
    def cases(self) -> tuple[CaseRow, ...]:
        """What fails first."""
        order = list(_WORDS)
        rows = sorted(self.report.cases, key=lambda row: order.index(row.verdict))
        return tuple(rows[:_CASES])

    @property
    def counts(self) -> dict[str, int]:
        counter = Counter(_WORDS[row.verdict] for row in self.report.cases)
        return {word: counter[word] for word in _WORDS.values() if counter[word]}

    @property
    def since(self) -> str:
        """What changed since the baseline, in words."""
        return "" if self.report.baseline is None else change_counts(self.report.baseline)

    def word(self, row: CaseRow) -> str:
        """The verdict on a case in a word or two."""
        return _WORDS[row.verdict]

    def to_html(self, place: Place = ALONE, *, key: str = "") -> str:
        """The whole document; with the key of the run, it leads to the same as one file."""
        context = {"page": self, "title": self.report.about.run or self.title, "key": key}
        return render("evaluation.html.j2", context, place=place)


# -- Runs ------------------------------------------------------------------------------------------


_RUNS = 40
"""Runs of cases whose steps are looked at: together they go most of the ways through a graph."""
_MOST = 30
"""Nodes of a drawing that can still be read."""
_WIDE, _HIGH, _STEP_X, _STEP_Y, _EDGE = 150, 46, 200, 72, 12


@dataclass(frozen=True, kw_only=True)
class DrawnNode:
    """A box of the drawing."""

    name: str
    words: str
    """What it weighs."""
    x: int
    y: int
    stroke: float
    """The width of its border: the more weight, the wider."""
    marked: bool


@dataclass(frozen=True, kw_only=True)
class GraphPicture:
    """Boxes and arrows with their places."""

    title: str
    unit: str
    nodes: tuple[DrawnNode, ...]
    lines: tuple[tuple[int, int, int, int], ...]
    width: int
    height: int
    box: tuple[int, int] = (_WIDE, _HIGH)


@dataclass(frozen=True, kw_only=True)
class StepGraph:
    """Which node followed which, and which surfaces each of them used."""

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    surfaces: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, traces: Sequence[Trace]) -> "StepGraph":
        """From the steps of some runs."""
        nodes: dict[str, frozenset[str]] = {}
        edges: dict[tuple[str, str], None] = {}
        for trace in traces:
            names = {step.id: step.node for step in trace.steps}
            for step in trace.steps:
                nodes[step.node] = nodes.get(step.node, frozenset()) | {*step.surfaces}
                before = (names[each] for each in step.predecessors if each in names)
                edges.update(((node, step.node), None) for node in before if node != step.node)
        return cls(nodes=tuple(nodes), edges=tuple(edges), surfaces=nodes)

    @property
    def columns(self) -> dict[str, int]:
        """How many steps after the first each node comes at the earliest."""
        entered = {end for _, end in self.edges}
        level = [node for node in self.nodes if node not in entered] or [*self.nodes[:1]]
        columns: dict[str, int] = {}
        while level:
            depth = max(columns.values(), default=-1) + 1
            columns.update(dict.fromkeys(level, depth))
            reached = dict.fromkeys(end for start, end in self.edges if start in level)
            level = [node for node in reached if node not in columns]
        return columns


def _blame_picture(
    run: RunRecord, weights: Mapping[str, float], *, title: str, unit: str
) -> GraphPicture | None:
    """Weights of surfaces on the nodes that use them; None if the agent has no graph."""
    graph = StepGraph.of([*_traces(run)])
    if not 2 <= len(graph.nodes) <= _MOST:
        return None
    by_node = {
        node: sum(weight for surface, weight in weights.items() if surface in graph.surfaces[node])
        for node in graph.nodes
    }
    return picture(graph, by_node, title=title, unit=unit)


def _traces(run: RunRecord) -> Iterator[Trace]:
    """The steps of the first runs of the baseline."""
    if run.baseline is None:
        return
    with look_into(run.folder) as journal:
        results = [*journal.values({run.baseline.number}, kinds=("run",))]
    for result in results[:_RUNS]:
        with suppress(ValueError):  # of an earlier version
            yield codec(Outcome).decode(result.value).trace


def picture(
    graph: StepGraph, weights: Mapping[str, float], *, title: str, unit: str
) -> GraphPicture:
    """Nodes from left to right in the order in which they are reached."""
    places: dict[str, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for node, column in graph.columns.items():
        row = filled.get(column, 0)
        filled[column] = row + 1
        places[node] = (_EDGE + column * _STEP_X, _EDGE + row * _STEP_Y)
    most = max(weights.values(), default=0.0)
    nodes = tuple(
        DrawnNode(
            name=visible(node),
            words=f"{weights[node]:g} {unit}" if weights[node] else f"no {unit}",
            x=x,
            y=y,
            stroke=round(1 + 5 * weights[node] / most, 1) if most else 1.0,
            marked=weights[node] > 0,
        )
        for node, (x, y) in places.items()
    )
    return GraphPicture(
        title=title,
        unit=unit,
        nodes=nodes,
        lines=tuple(_line(places[a], places[b]) for a, b in graph.edges if {a, b} <= {*places}),
        width=2 * _EDGE + max(filled) * _STEP_X + _WIDE,
        height=2 * _EDGE + (max(filled.values()) - 1) * _STEP_Y + _HIGH,
    )


def _line(start: tuple[int, int], end: tuple[int, int]) -> tuple[int, int, int, int]:
    """From the right side of one box to the left side of another; backwards below them."""
    (x, y), (to_x, to_y) = start, end
    if to_x > x:
        return x + _WIDE, y + _HIGH // 2, to_x, to_y + _HIGH // 2
    return x + _WIDE // 2, y + _HIGH, to_x + _WIDE // 2, to_y + _HIGH


_CHECKED = 400
"""Cases above which nearly equal ones are not looked for: that compares each with each."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much one page shows; the rest is on further pages, or left out of a file."""

    cases: int = 400
    case_details: int = 150
    trials: int = 400
    trial_details: int = 60
    effects: int = 1_000_000_000
    """Stored results above which costs are told apart by phase only."""


SERVED = Limits(cases=100, case_details=0, trials=100, trial_details=0, effects=MOST_EFFECTS)
"""Of served pages: details are loaded when they are opened."""


@dataclass(frozen=True, kw_only=True)
class Adoption:
    """What a page may offer: adopting the best, or undoing that."""

    action: str = ""
    """`adopt`, `undo`, or empty if neither is possible here."""
    why_not: str = ""
    diff: tuple[str, ...] = ()
    """What would change in the user's files."""
    command: str = ""


@dataclass(frozen=True, kw_only=True)
class SplitLine:
    """A split of the data, and the smallest change that it can show."""

    name: str
    cases: int
    use: str
    can_show: float


@dataclass(frozen=True, kw_only=True)
class RunReportPage:
    """Everything on the page about a run."""

    run: RunRecord
    verdict: VerdictCard
    facts: tuple[tuple[str, str], ...]
    changes: tuple[ShownChange, ...]
    cases: ComparedCases
    groups: dict[str, int]
    case_details: tuple[CaseDetail, ...]
    charts: tuple[Chart, ...]
    graphs: tuple[GraphPicture, ...]
    trials: tuple[TrialLine, ...]
    all_trials: int
    trial_details: tuple[TrialDetail, ...]
    chapters: tuple[Chapter, ...]
    costs: RunCosts
    splits: tuple[SplitLine, ...]
    findings: tuple[tuple[str, str], ...]
    adoption: Adoption
    delegation: DelegationPart | None = None

    @property
    def live(self) -> bool:
        return self.run.driven

    @classmethod
    def of(
        cls,
        run: RunRecord,
        *,
        cases: Dataset | None = None,
        adoption: Adoption | None = None,
        delegation: DelegationPart | None = None,
        limits: Limits | None = None,
    ) -> "RunReportPage":
        """Gather what the page shows; `cases` are the texts of the cases, if they are at hand."""
        limits = limits or Limits()
        lines, trials = case_lines(run, cases), trial_lines(run)
        table = lines[: limits.cases]
        best, start = run.best_candidate, run.baseline
        shown_trials = most_telling(trials, limits.trials)
        telling = most_telling(trials, limits.trial_details)
        drawings = tuple(strategy_plugin(run.header.strategy).drawings(run))
        answers = Answers.read(run) if limits.case_details and table else None
        return cls(
            run=run,
            verdict=verdict_card(run),
            facts=tuple(_facts(run)),
            changes=()
            if start is None or best is None
            else shown_changes(start.trial.candidate, best),
            cases=ComparedCases(lines=table, total=len(lines)),
            groups=group_counts(lines),
            case_details=()
            if answers is None
            else tuple(answers.detail(line, cases) for line in table[: limits.case_details]),
            charts=tuple(_charts(run, drawings)),
            graphs=tuple(_graphs(run, drawings)),
            trials=shown_trials,
            all_trials=len(trials),
            trial_details=tuple(trial_detail(run, line) for line in telling)
            if limits.trial_details
            else (),
            chapters=chapters(
                [*strategy_plugin(run.header.strategy).report(run), *steered_by(run)]
            ),
            costs=RunCosts.read(run, most=limits.effects),
            splits=tuple(_splits(run)),
            findings=tuple(_findings(cases)),
            adoption=adoption or _by_command(run),
            delegation=delegation,
        )

    def to_html(self, place: Place = ALONE) -> str:
        """The whole document."""
        return render("run.html.j2", {"page": self, "title": self.run.header.id}, place=place)


def _charts(run: RunRecord, drawings: Sequence[Drawing]) -> Iterator[Chart]:
    own = (drawn(each, f"own-{place}") for place, each in enumerate(drawings))
    yield from (chart for chart in (score_chart(run), *own) if chart is not None)
    others = (front_chart(run), tree_chart(run), case_chart(run))
    yield from (chart for chart in others if chart is not None)


def _graphs(run: RunRecord, drawings: Sequence[Drawing]) -> Iterator[GraphPicture]:
    for each in drawings:
        if each.of_surfaces:
            columns = zip(*each.series.values(), strict=True)
            totals = (sum(value or 0.0 for value in column) for column in columns)
            weights = dict(zip(each.labels, totals, strict=True))
            title = f"{each.title}, on the graph"
            graph = _blame_picture(run, weights, title=title, unit=each.unit)
            yield from () if graph is None else (graph,)


def _facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    reason = strategy_plugin(run.header.strategy).reason(run)
    yield "status", f"{run.status}: {reason}" if reason else run.status
    yield "trials", f"{run.trials:,}, {run.accepted} accepted"
    yield "spent", spending(run.spent)
    if run.billed != run.spent:
        also = "under way, lost or not used" if run.driven else "that were lost or not used"
        yield "billed", f"{spending(run.billed)}, with calls {also}"
    yield "time", duration(run.active_seconds)
    yield "strategy", run.header.strategy
    yield "started", moment(run.header.started_at)
    if tags := tags_of(run.folder, run.header):
        yield "tags", ", ".join(tags)
    if run.header.forked_from:
        yield "forked from", run.header.forked_from


def _by_command(run: RunRecord) -> Adoption:
    if run.best is None or run.best is run.baseline:
        return Adoption()
    return Adoption(command=f"burnish adopt {in_shell(run.header.id)}")


_USES = {
    Split.TRAIN: "fed the proposals",
    Split.HOLDOUT: "decided which of them were accepted",
    Split.TEST: "sealed: read once, after the search",
}


def _splits(run: RunRecord) -> Iterator[SplitLine]:
    for split, use in _USES.items():
        if count := run.header.cases.get(split.value, 0):
            can_show = smallest_difference(count)
            yield SplitLine(name=split.value, cases=count, use=use, can_show=can_show)


def _findings(cases: Dataset | None) -> Iterator[tuple[str, str]]:
    """What `burnish data check` says about these cases."""
    if cases is None or sum(len(cases.cases(split)) for split in Split) > _CHECKED:
        return
    splits = {split.value: cases.cases(split) for split in Split if cases.cases(split)}
    for finding in check(splits).found:
        yield finding.where, finding.message


NAME = "report.html"
_SWITCH = "BURNISH_HTML"
"""`never` in this variable keeps runs from writing report.html by themselves."""


def write_html(folder: Path, *, cases: Dataset | None = None) -> Path:
    """Write report.html from what the journal holds; `cases` are the texts of the cases."""
    path = place_inside(folder, NAME)
    write_document(path, html_report(RunRecord.read(folder), cases, place=BARE))
    return path


def html_report(run: RunRecord, cases: Dataset | None = None, *, place: Place = ALONE) -> str:
    """The whole document about a run, or about a measurement."""
    if (report := evaluation_of(run)) is not None:
        return EvaluationPage.of(run, report).to_html(place)
    return RunReportPage.of(run, cases=cases).to_html(place)


def evaluation_of(run: RunRecord) -> EvalReport | None:
    """What a run that only measured has found; None for any other, or before its end."""
    if strategy_plugin(run.header.strategy).proposes:
        return None
    try:
        return EvalReport.read(run.folder)
    except (ConfigError, FileTrouble):
        return None


def is_automatic() -> bool:
    """Whether runs write report.html when they end: nobody said never."""
    return os.environ.get(_SWITCH, "") != "never"
