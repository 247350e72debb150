"""Reflective search as a plug-in: its plan, its lines, its report, the files of AgentOptimizer."""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from burnish.core.formatting import Section, number
from burnish.core.trials import Trial, TrialRow
from burnish.runs.directory import RunRecord
from burnish.runs.events import BASELINE
from burnish.runs.plugins import (
    Building,
    ResultFiles,
    RoleNeed,
    StrategyParts,
    StrategyPlugin,
    TargetParts,
)
from burnish.runs.progress import ProgressLines
from burnish.runs.report_sections import score_table
from burnish.runs.run import Run
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies.reflective.attempts import ReflectiveDetails
from burnish.strategies.reflective.report import ENDS, ReflectiveLines, plan_lines, report
from burnish.strategies.reflective.search import REFLECTOR, Reflective, build
from burnish.strategies.reflective.settings import ReflectiveSettings

_PROMPTS = "prompts"
"""The kind of target whose runs AgentOptimizer writes files about."""


class ReflectivePlugin(StrategyPlugin):
    """The words of reflective search."""

    name: ClassVar[str] = Reflective.name
    Settings: ClassVar[type[StrategySettings]] = ReflectiveSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (REFLECTOR,)
    needs_holdout: ClassVar[bool] = True
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"reflector": ("diagnosis",)}
    offers_fork: ClassVar[bool] = False

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        """The search over a target."""
        return build(building, parts)

    def plan(self, setup: Setup) -> Iterable[str]:
        """What would run, and what it may cost."""
        assert isinstance(setup.strategy, Reflective)
        return plan_lines(setup, setup.strategy)

    def progress(self) -> ProgressLines:
        """Who turns the events of one run into lines."""
        return ReflectiveLines(self.ends)

    def result_files(self, run: Run) -> ResultFiles | None:
        """The files of AgentOptimizer, where prompts are optimised."""
        if run.target.description.kind != _PROMPTS:
            return None
        from burnish.strategies.reflective.result_files import RoundFiles

        texts = {name: str(text) for name, text in run.target.baseline.values.items()}
        redactor = run.directory.redactor
        return RoundFiles(run.directory.folder, baseline=texts, redactor=redactor)

    def baseline(self, run: RunRecord, *, quiet: bool) -> Sequence[Section]:
        """What the prompts score on holdout: the search starts there."""
        del quiet
        table = score_table(run)
        return () if table is None else (table,)

    def report(self, run: RunRecord) -> Iterable[Section]:
        """What report.md says."""
        return report(run, self.reason(run))

    def turn(self, trial: Trial) -> str:
        """Rounds, once there is a minibatch."""
        return "cycle" if trial.phase == BASELINE else "round"

    def trial_lines(self, row: TrialRow) -> Iterable[str]:
        """The few cases that were reflected on, and how parent and candidate did on them."""
        details = ReflectiveDetails.of(row.trial)
        if details.minibatch:
            before, after = number(details.parent_score), number(details.candidate_score)
            cases = ", ".join(details.minibatch)
            yield f"minibatch {cases}: score of parent {before}, candidate {after}"
