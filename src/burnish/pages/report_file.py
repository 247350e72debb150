"""report.html: the page about a run as one file that can be mailed."""

import os
from pathlib import Path

from burnish.core.cases import Dataset
from burnish.core.errors import ConfigError, FileTrouble
from burnish.pages.document import can_render
from burnish.reports.evaluation import EvalReport
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import strategy_plugin
from burnish.system import write_atomic

NAME = "report.html"
SWITCH = "BURNISH_HTML"
"""`never` in this variable keeps runs from writing report.html by themselves."""


def write_html(folder: Path, *, cases: Dataset | None = None) -> Path:
    """Write report.html from what the journal holds; `cases` are the texts of the cases."""
    path = folder / NAME
    write_atomic(path, html_report(RunRecord.read(folder), cases))
    return path


def html_report(run: RunRecord, cases: Dataset | None = None) -> str:
    """The whole document about a run, or about a measurement."""
    from burnish.pages.evaluation_page import EvaluationPage
    from burnish.pages.run_page import RunReportPage

    if (report := evaluation_of(run)) is not None:
        return EvaluationPage.of(run, report).to_html()
    return RunReportPage.of(run, cases=cases).to_html()


def evaluation_of(run: RunRecord) -> EvalReport | None:
    """What a run that only measured has found; None for any other, or before its end."""
    if strategy_plugin(run.header.strategy).proposes:
        return None
    try:
        return EvalReport.read(run.folder)
    except (ConfigError, FileTrouble):
        return None


def is_automatic() -> bool:
    """Whether runs write report.html when they end: the extra is there, and nobody said never."""
    return os.environ.get(SWITCH, "") != "never" and can_render()
