"""The page about one run: verdict, changes, cases, search, money, data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from burnish.core.cases import Dataset, Split
from burnish.core.drawings import Drawing
from burnish.core.formatting import duration, moment, spending
from burnish.datasets.checks import check, smallest_difference
from burnish.metrics.agreement import CheckedJudge
from burnish.pages.cases import Answers, CaseDetail, ComparedCases
from burnish.pages.changes import PrunedPart, ShownChange, pruned_parts, shown_changes
from burnish.pages.charts import (
    Chart,
    case_chart,
    drawn,
    front_chart,
    score_chart,
    tree_chart,
)
from burnish.pages.delegations import DelegationPart
from burnish.pages.document import ALONE, Place, render
from burnish.pages.graph import GraphPicture, blame_picture
from burnish.pages.markup import Chapter, chapters
from burnish.pages.money import MOST_EFFECTS, RunCosts
from burnish.pages.trials import TrialDetail, TrialLine, most_telling, trial_detail, trial_lines
from burnish.pages.verdict import VerdictCard, verdict_card
from burnish.reports.case_lines import case_lines, group_counts
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin
from burnish.runs.report_sections import steered_by
from burnish.runs.tags import tags_of

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
    pruned: tuple[PrunedPart, ...]
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
    judges: tuple[CheckedJudge, ...] = ()

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
        judges: tuple[CheckedJudge, ...] = (),
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
            pruned=pruned_parts(run),
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
            judges=judges,
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
            graph = blame_picture(run, weights, title=title, unit=each.unit)
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
    return Adoption(command=f"burnish adopt {run.header.id}")


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
