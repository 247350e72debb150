"""The artifact loop as a plug-in: its plan, its lines, its report."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from burnish.core.formatting import Section, counted
from burnish.core.surfaces import FileSurface, Surface
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, StrategyPlugin, TargetParts
from burnish.runs.progress import ProgressLines, budget_limits, role_label
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.edits.report import ENDS, EditLines, report, result_words
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.strategy import EDITOR, Edits, build


class EditsPlugin(StrategyPlugin):
    """The words of the artifact loop; the plan is that of the task whose files it edits."""

    name: ClassVar[str] = Edits.name
    Settings: ClassVar[type[StrategySettings]] = EditsSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (EDITOR,)
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"editor": ("rationale",)}
    compares_scores: ClassVar[bool] = False
    needs: ClassVar[tuple[type[Surface], ...]] = (FileSurface,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The loop over the files of a target."""
        return build(building, parts)

    def plan_title(self, setup: Setup) -> str:
        """The loop, and who edits."""
        editor = _strategy(setup).editor
        who = role_label(editor) or getattr(editor, "command", "")
        return f"{super().plan_title(setup)}{f', editor {who}'.rstrip()}"

    def plan_decision(self, setup: Setup) -> Iterable[str]:
        """What is kept."""
        settings = _strategy(setup).settings
        tie = f"; within {settings.tolerance:g} is a tie" if settings.tolerance else ""
        yield f"keeps     what has a better {settings.primary} ({settings.direction}){tie}"

    def plan_bounds(self, setup: Setup) -> Iterable[str]:
        """How much one edit may change, and how often its result is measured."""
        settings = _strategy(setup).settings
        files = counted(settings.max_files or 0, "file")
        lines = counted(settings.max_changed_lines or 0, "changed line")
        yield f"an edit   at most {files} and {lines}"
        many = settings.candidates_per_iteration
        if many > 1:
            yield f"          {many} edits an iteration, side by side"
        noise = f"; within {settings.accept_sigma:g} × its noise is a tie"
        yield f"repeats   {settings.repeats}{noise if settings.repeats > 1 else ''}"

    def limits(self, setup: Setup) -> list[str]:
        """What ends a search."""
        failures = _strategy(setup).settings.max_failures
        own = [f"max_failures {failures}"] if failures else []
        return [*budget_limits(setup.budget), *own]

    def repeats(self, setup: Setup) -> int:
        """How often a trial runs the task."""
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return EditLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        """The primary number, at the start and of the best."""
        return f"result   {result_words(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return report(run, self.reason(run))


def _strategy(setup: Setup) -> Edits:
    assert isinstance(setup.strategy, Edits)
    return setup.strategy
