"""The strategy `refine` as a plug-in: its construction, progress lines and report."""

from collections.abc import Mapping
from typing import ClassVar

from burnish.core.formatting import number
from burnish.delegation.plugin import TaskLines, TaskPlugin
from burnish.delegation.refine.loop import REASONS
from burnish.delegation.refine.report import PAGE
from burnish.delegation.refine.settings import RefineSettings
from burnish.delegation.refine.setup import refinement_parts
from burnish.runs.events import TrialRecorded
from burnish.runs.plugins import Building, StrategyParts, TargetParts
from burnish.runs.progress import ProgressLines, outcome, shorten_after, spent_words
from burnish.runs.spec import StrategySettings


class _RefineLines(TaskLines):
    """One line per iteration, after that of the seed."""

    stopping = "stopping after this loop; once more stops at once"

    def baseline(self, trial: TrialRecorded, width: int) -> list[str]:
        del width
        return [f"{'seed':<18}loss {number(trial.train)}"]

    def trial(self, trial: TrialRecorded, width: int) -> str:
        """One iteration in one line."""
        spent = " ".join(spent_words(trial)).strip()
        head = f"{trial.note:<18}loss {number(trial.train)}  {outcome(trial)}  {spent}  "
        return shorten_after(head, trial.reason, width)


class RefinePlugin(TaskPlugin):
    """The strategy behind `burnish refine`."""

    name: ClassVar[str] = "refine"
    Settings: ClassVar[type[StrategySettings]] = RefineSettings
    page: ClassVar[str] = PAGE
    ends: ClassVar[Mapping[str, str]] = REASONS

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        return refinement_parts(building, parts)

    def progress(self) -> ProgressLines:
        return _RefineLines(self.ends)
