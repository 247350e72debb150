"""The pages that a viewer serves, each made from its address, with forms to steer a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args
from urllib.parse import urlencode

from burnish.core.errors import RunNotFound
from burnish.core.formatting import visible
from burnish.core.surfaces import Value
from burnish.pages.document import Place, render
from burnish.pages.library import Library, RunSummary, grid_status, run_key
from burnish.pages.run_details import (
    Answers,
    CaseDetail,
    ComparedCases,
    TrialDetail,
    TrialLine,
    trial_detail,
    trial_lines,
)
from burnish.pages.run_page import SERVED, EvaluationPage, RunReportPage, evaluation_of, html_report
from burnish.pages.run_result import REFINEMENTS, loss_chart
from burnish.pages.several_runs import MOST, GridPage, comparison_html
from burnish.reports.cases import CaseLine, case_lines, group_counts
from burnish.reports.grid import GridReport, grid_home
from burnish.runs.directory import RunRecord
from burnish.runs.steering import Action, Note, pinned_in, waiting

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, kw_only=True)
class SteeringForm:
    """What a page offers for a run that goes on."""

    texts: tuple[tuple[str, str], ...] = ()
    """The surfaces of which another value can be tried, each with what leads now."""
    takes_hints: bool = False
    free: tuple[str, ...] = ()
    """Surfaces that can be pinned."""
    pinned: tuple[str, ...] = ()
    waiting: int = 0
    """Notes that the run has not taken in yet."""

    @classmethod
    def of(cls, run: RunRecord) -> "SteeringForm | None":
        """None for a run that takes no notes, or that has ended."""
        takes = run.header.steering
        if not takes or not run.driven:
            return None
        notes = waiting(run.folder)
        pinned = pinned_in(run.events, notes)
        best = run.best_candidate
        values: Mapping[str, Value] = {} if best is None else best.values
        leading = {name: values.get(name, "") for name in takes.get("try", ())}
        return cls(
            texts=tuple(
                (name, str(value))
                for name, value in leading.items()
                if name not in pinned and isinstance(value, str | int | float)
            ),
            takes_hints="tell" in takes,
            free=tuple(name for name in takes.get("pin", ()) if name not in pinned),
            pinned=tuple(sorted(pinned)),
            waiting=len(notes),
        )


def note_in(action: str, form: Mapping[str, Sequence[str]], *, by: str = "") -> Note:
    """The note that a form of an action makes."""
    surfaces = tuple(form.get("surface", ()))
    # Browsers send every line end as two characters.
    text = "".join(form.get("text", ())[:1]).replace("\r\n", "\n")
    if action == "try":
        return Note(action="try", by=by, values=dict.fromkeys(surfaces[:1], text))
    if action == "tell":
        return Note(action="tell", by=by, text=text)
    return Note(action="pin" if action == "pin" else "unpin", by=by, surfaces=surfaces)


Query = Mapping[str, Sequence[str]]
FIRST_PARTS = frozenset({"", "compare", "experiments", "policy", "runs"})
"""The first parts of the addresses of pages."""
_ROWS = 100
"""Rows of one page of a table."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One page of a long list, and the way to the others."""

    number: int
    pages: int
    total: int
    previous: str = ""
    next: str = ""

    @classmethod
    def of(cls, total: int, query: Query) -> "Cut":
        pages = max(1, -(-total // _ROWS))
        text = first(query, "page")
        number = min(max(1, int(text) if text.isdecimal() and len(text) < 9 else 1), pages)
        rest = {name: values for name, values in query.items() if name != "page"}

        def link(page: int) -> str:
            inside = 1 <= page <= pages
            return f"?{urlencode({**rest, 'page': [str(page)]}, doseq=True)}" if inside else ""

        return cls(
            number=number,
            pages=pages,
            total=total,
            previous=link(number - 1),
            next=link(number + 1),
        )

    @property
    def rows(self) -> slice:
        return slice((self.number - 1) * _ROWS, self.number * _ROWS)


@dataclass(frozen=True, kw_only=True)
class _PartOfRun:
    """One page of the cases or trials of a run, without the rest of what its own page shows."""

    run: RunRecord
    groups: Mapping[str, int] = field(default_factory=dict[str, int])
    cases: ComparedCases | None = None
    trials: tuple[TrialLine, ...] = ()
    case_details: tuple[CaseDetail, ...] = ()
    trial_details: tuple[TrialDetail, ...] = ()
    all_trials: int = 0
    """None further than these."""


def joined(parts: Sequence[str]) -> list[str]:
    """The parts of an address, where a run and a refinement below it are one."""
    match parts:
        case ["runs", key, "refinements", name, *rest] if name:
            return ["runs", f"{key}/{REFINEMENTS}/{name}", *rest]
        case _:
            return [*parts]


def first(query: Query, name: str) -> str:
    """The first value of a name in a query, or nothing."""
    return next(iter(query.get(name, ())), "")


@dataclass(frozen=True, kw_only=True)
class ServedPages:
    """Makes each page of a viewer."""

    library: Library
    place: Place

    def at(self, parts: Sequence[str], query: Query, *, message: str = "") -> str | None:
        """The page at an address, given by its parts; None if there is none.

        A message is shown on the page of a run.
        """
        match joined(parts):
            case [""]:
                return self.runs(query)
            case ["compare"]:
                return self.compare(query)
            case ["runs", key]:
                return self.run(key, message=message)
            case ["runs", key, "cases"]:
                return self.cases(key, query)
            case ["runs", key, "cases", split, name]:
                return self.case(key, split, name)
            case ["runs", key, "trials"]:
                return self.trials(key, query)
            case ["runs", key, "trials", number] if number.isdecimal() and len(number) < 9:
                return self.trial(key, int(number))
            case ["runs", key, "report.html"]:
                return self.file(key)
            case _:
                return self._of_delegations(parts, query) if self.place.has_texts else None

    def _of_delegations(self, parts: Sequence[str], query: Query) -> str | None:
        match parts:
            case ["experiments"]:
                return self.experiments()
            case ["policy"]:
                return self.policy(query)
            case ["policy", name]:
                return self.policy_text(name, query)
            case _:
                return None

    def runs(self, query: Query) -> str:
        """The list of runs."""
        after = first(query, "after")
        listed = self.library.runs(after)
        summaries = listed.runs
        names = ("find", "status", "verdict", "tag")
        search = {name: visible(first(query, name)) for name in names}
        fitting = [each for each in summaries if each.fits(**search)]
        cut = Cut.of(len(fitting), query)
        older = {**{name: value for name, value in search.items() if value}, "after": listed.older}
        context: dict[str, object] = {
            "title": "Runs",
            "after": after,
            "older": f"?{urlencode(older)}" if listed.older else "",
            "runs": fitting[cut.rows],
            "cut": cut,
            "search": search,
            "statuses": _distinct(summaries, "status"),
            "verdicts": _distinct(summaries, "verdict"),
            "tags": sorted({tag for each in summaries for tag in each.tags}),
            "total": len(summaries),
        }
        return render("runs.html.j2", context, place=self.place)

    def run(self, key: str, *, message: str = "") -> str:
        """The page about a run, a measurement, or a grid of them."""
        if (home := self.library.grid(key)) is not None:
            return self._grid(home).to_html(self.place, key=key)
        record = self.library.record(key)
        if (report := evaluation_of(record)) is not None:
            page = EvaluationPage.of(record, report)
            home = grid_home(record.folder)
            grid = "" if home is None or self.library.grid(run_key(home)) is None else run_key(home)
            return replace(page, grid=grid).to_html(self.place, key=key)
        part = self.library.delegations.part(record.folder)
        page = RunReportPage.of(
            record,
            cases=self.library.cases(record),
            adoption=self.library.adopter.state(record),
            delegation=part,
            limits=SERVED,
        )
        above = self.library.key_above(key, part)
        steering = SteeringForm.of(record) if self._may_steer() else None
        return self._of_run(
            "run.html.j2", key, page, message=message, above=above, steering=steering
        )

    def _may_steer(self) -> bool:
        """Whoever may stop a run may steer it; in a viewer, that is its only visitor."""
        controls = self.place.controls
        return controls.action == "stop" if controls is not None else self.place.has_texts

    def _grid(self, home: Path) -> GridPage:
        """The page about a grid, with the pages about its columns."""
        report = GridReport.read(home)
        keys = {folder.name: run_key(folder) for folder in self.library.columns(home)}
        runs = {each.number: Path(each.run).name for each in report.columns if each.run}
        statuses = [self.library.record(key).status for key in keys.values()]
        return GridPage(
            report=report,
            key=run_key(home),
            status=grid_status(home, statuses),
            links={number: keys[name] for number, name in runs.items() if name in keys},
        )

    def cases(self, key: str, query: Query) -> str:
        """All cases of a run, page by page."""
        record, lines = self._lines(key)
        group = first(query, "group")
        fitting = [line for line in lines if group in ("", line.group)]
        cut = Cut.of(len(fitting), query)
        shown = ComparedCases(lines=tuple(fitting[cut.rows]), total=0)
        page = _PartOfRun(run=record, groups=group_counts(lines), cases=shown)
        return self._of_run("case_list.html.j2", key, page, cut=cut)

    def case(self, key: str, split: str, name: str) -> str:
        """What is known about one case, to be put into a page."""
        record, lines = self._lines(key)
        line = next((each for each in lines if (each.split, each.case) == (split, name)), None)
        if line is None:
            raise RunNotFound(f"the run has no case '{name}' in {split}")
        detail = Answers.read(record).detail(line, self.library.cases(record))
        return render("case.html.j2", {"detail": detail}, place=self.place)

    def trials(self, key: str, query: Query) -> str:
        """All trials of a run, page by page."""
        record = self.library.record(key)
        lines = trial_lines(record)
        cut = Cut.of(len(lines), query)
        page = _PartOfRun(run=record, trials=lines[cut.rows])
        return self._of_run("trial_list.html.j2", key, page, cut=cut)

    def trial(self, key: str, number: int) -> str:
        """Everything about one trial, to be put into a page."""
        record = self.library.record(key)
        line = next((each for each in trial_lines(record) if each.number == number), None)
        if line is None:
            raise RunNotFound(f"the run has no trial {number}")
        context = {"detail": trial_detail(record, line)}
        return render("trial.html.j2", context, place=self.place)

    def compare(self, query: Query) -> str:
        """Two runs case by case, or more of them side by side."""
        marked = [(key, self.library.grid(key)) for key in query.get("run", ())]
        keys = [
            each
            for key, grid in marked
            for each in ([key] if grid is None else map(run_key, self.library.columns(grid)))
        ]
        if not 2 <= len(keys) <= MOST:
            remedy = "mark them in the list of runs"
            raise RunNotFound(f"choose 2 to {MOST} runs to compare", remedy=remedy)
        return comparison_html([self.library.record(key) for key in keys], self.place)

    def experiments(self) -> str:
        """Every experiment with its tasks, their runs and the best of each."""
        context: dict[str, object] = {
            "title": "Experiments",
            "experiments": self.library.delegations.experiments(),
            "key_of": self.library.key_of,
        }
        return render("experiments.html.j2", context, place=self.place)

    def policy(self, query: Query) -> str:
        """The policy texts, and the suites that they were trained on."""
        experiment = first(query, "experiment")
        suites = self.library.delegations.suites(experiment)
        context: dict[str, object] = {
            "title": "Policy texts",
            "experiment": experiment,
            "texts": self.library.delegations.policy(experiment),
            "suites": suites,
            "chart": loss_chart(suites),
        }
        return render("policy.html.j2", context, place=self.place)

    def policy_text(self, name: str, query: Query) -> str:
        """One policy text with all of its versions."""
        experiment = first(query, "experiment")
        texts = self.library.delegations.policy(experiment)
        text = next((each for each in texts if each.name == name), None)
        if text is None:
            raise RunNotFound(f"there is no policy text '{name}'")
        context: dict[str, object] = {"title": name, "text": text, "experiment": experiment}
        return render("policy_text.html.j2", context, place=self.place)

    def file(self, key: str) -> str:
        """The page about a run, or about a grid, as one file."""
        if (home := self.library.grid(key)) is not None:
            return GridPage(report=GridReport.read(home)).to_html()
        record = self.library.record(key)
        return html_report(record, self.library.cases(record))

    def _lines(self, key: str) -> tuple[RunRecord, Sequence[CaseLine]]:
        record = self.library.record(key)
        return record, case_lines(record, self.library.cases(record))

    def _of_run(
        self, template: str, key: str, page: RunReportPage | _PartOfRun, **more: object
    ) -> str:
        context = {"page": page, "title": page.run.header.id, "key": key, **more}
        return render(template, context, place=self.place)


def _distinct(summaries: Sequence[RunSummary], name: str) -> list[str]:
    return sorted({getattr(each, name) for each in summaries})
