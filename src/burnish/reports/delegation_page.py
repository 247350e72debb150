"""report.md of a delegation and of a refinement: how the run stands, and the page it wrote."""

from collections.abc import Iterator, Mapping

from burnish.reports.reading import RunRecord, loss_of
from burnish.reports.refine_page import PAGE
from burnish.reports.words import cell, duration, number, spending
from burnish.strategies.delegate import Delegate
from burnish.strategies.refine.strategy import Refine
from burnish.system import read_text
from burnish.targets.delegation.record import SUMMARY

PAGES: Mapping[str, str] = {Delegate.name: SUMMARY, Refine.name: PAGE}
"""By strategy, the page that such a run writes itself."""


def delegation_page(run: RunRecord) -> str:
    """The report as Markdown."""
    page = run.folder / PAGES[run.header.strategy]
    head = "\n".join(_standing(run)) + "\n"
    return f"{head}\n{read_text(page)}" if page.is_file() else head


def _standing(run: RunRecord) -> Iterator[str]:
    yield from (f"# {run.header.id}", "", "| | |", "|---|---|")
    reason = f" ({cell(run.reason, 160)})" if run.reason else ""
    yield f"| status | {run.status}{reason} |"
    losses = [number(loss_of(row, "train")) for row in (run.baseline, run.best)]
    yield f"| loss | {' → '.join(dict.fromkeys(losses))} |"
    yield f"| spent | {spending(run.spent)} |"
    if run.billed != run.spent:
        yield f"| billed | {spending(run.billed)} (with calls that were lost) |"
    yield f"| time | {duration(run.active_seconds)} |"
