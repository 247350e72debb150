"""A delegation as a plug-in of its strategy: its lines, its report, and how it is resumed."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import ClassVar

from burnish.core.sections import Facts, Heading, Page, Section
from burnish.core.words import duration, number, spending
from burnish.runs.events import SessionBegun, TrialRecorded
from burnish.runs.plugins import StrategyPlugin
from burnish.runs.progress import ProgressLines
from burnish.runs.record import RunRecord, loss_of
from burnish.runs.report_sections import status_words
from burnish.runs.setup import Setup
from burnish.system import read_text
from burnish.targets.delegation.record import SUMMARY


class TaskLines(ProgressLines):
    """The lines of a run about one task: there is one loss, and nothing is held out."""

    stopping = "stopping after this iteration; once more stops at once"

    def beginning(self, begun: SessionBegun) -> str:
        """The first line of a run."""
        return f"{begun.strategy} · one task"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        """The loss of what was delegated."""
        del width
        return [f"{'loss':<18}{number(trial.train)}"]


class TaskPlugin(StrategyPlugin):
    """What runs about one task share: a command starts them, and they write a page of their own."""

    described: ClassVar[bool] = False
    page: ClassVar[str] = ""
    """The page that such a run writes itself."""

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return TaskLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        """The loss, or what it was and what it became."""
        return f"loss     {_losses(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        """How the run stands, and the page that it wrote."""
        yield Heading(run.header.id, level=1)
        yield Facts(tuple(_standing(run, self.reason(run))))
        page = run.folder / self.page
        if page.is_file():
            yield Page(tuple(read_text(page).rstrip("\n").split("\n")))


class DelegatePlugin(TaskPlugin):
    """The words of `burnish delegate`."""

    name: ClassVar[str] = "delegate"
    page: ClassVar[str] = SUMMARY

    def reload(self, folder: Path) -> Setup:
        """From the manifest and the policy texts in its folder."""
        from burnish.projects.delegation.runs import reload_delegation

        return reload_delegation(folder)


def _standing(run: RunRecord, reason: str) -> Iterator[tuple[str, str]]:
    yield "status", status_words(run, reason)
    yield "loss", _losses(run)
    yield "spent", spending(run.spent)
    if run.billed != run.spent:
        yield "billed", f"{spending(run.billed)} (with calls that were lost)"
    yield "time", duration(run.active_seconds)


def _losses(run: RunRecord) -> str:
    losses = (number(loss_of(row, "train")) for row in (run.baseline, run.best))
    return " → ".join(dict.fromkeys(losses))
