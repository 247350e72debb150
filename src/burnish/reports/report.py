"""report.md: what a person reads to decide whether to adopt the result."""

from pathlib import Path

from burnish.reports.markdown import to_markdown
from burnish.runs.plugins import strategy_plugin
from burnish.runs.record import RunRecord
from burnish.system import write_atomic

NAME = "report.md"


def write_report(folder: Path) -> Path:
    """Write report.md from what the journal holds."""
    path = folder / NAME
    write_atomic(path, render(RunRecord.read(folder)))
    return path


def render(run: RunRecord) -> str:
    """The report as Markdown."""
    return to_markdown(strategy_plugin(run.header.strategy).report(run))
