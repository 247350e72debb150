"""The artifact loop as a plug-in: how it is built, its plan, its lines, its report."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from burnish.core.drawings import Drawing
from burnish.core.formatting import Section, counted
from burnish.core.protocols import Role
from burnish.core.surfaces import FileSurface, Surface
from burnish.models.chat import ModelClient
from burnish.runs.directory import RunRecord
from burnish.runs.plugins import Building, RoleNeed, StrategyParts, StrategyPlugin, TargetParts
from burnish.runs.progress import ProgressLines, budget_limits, luck_line, role_label
from burnish.runs.setup import Setup
from burnish.runs.spec import StrategySettings
from burnish.strategies import pruning_report
from burnish.strategies.edits.editors import (
    RECIPES,
    ROLE,
    CommandEditor,
    Edit,
    EditorHome,
    EditRequest,
    editor,
)
from burnish.strategies.edits.report import (
    ENDS,
    EditLines,
    primary_by_trial,
    report,
    result_words,
)
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.strategy import Edits
from burnish.targets.artifacts.target import ArtifactsTarget

_EDITOR = RoleNeed(name=ROLE, help="The model that edits files: provider:name.", panel="Files")
_NOBODY = (
    "name a model: editor: openai:gpt-4o, --editor MODEL or BURNISH_EDITOR; or let a program edit: "
    "edits: {mode: command, command: …} or {recipe: claude}"
)


class EditsPlugin(StrategyPlugin):
    """The artifact loop for the command line and report.md; its plan is that of the task."""

    name: ClassVar[str] = Edits.name
    Settings: ClassVar[type[StrategySettings]] = EditsSettings
    roles: ClassVar[tuple[RoleNeed, ...]] = (_EDITOR,)
    ends: ClassVar[Mapping[str, str]] = ENDS
    rationales: ClassVar[Mapping[str, Sequence[str]]] = {"editor": ("rationale",)}
    compares_scores: ClassVar[bool] = False
    needs: ClassVar[tuple[type[Surface], ...]] = (FileSurface,)

    def build(self, building: Building, parts: TargetParts) -> StrategyParts | None:
        objective = building.spec.objective
        settings: EditsSettings = building.spec.strategy.settings.model_copy(
            update={
                "task": parts.purpose,
                "primary": parts.primary,
                "direction": objective.direction,
                "tolerance": objective.tolerance,
            }
        )
        role, client = _editor(building, parts, settings)
        if role is None:
            return None
        budget = building.spec.budget.budget()
        if budget.max_trials is None:
            budget = replace(budget, max_trials=50 * settings.candidates_per_iteration)
        strategy = Edits(editor=role, settings=settings)
        return StrategyParts(strategy=strategy, budget=budget, client=client)

    def plan_title(self, setup: Setup) -> str:
        editor = _strategy(setup).editor
        who = role_label(editor) or getattr(editor, "command", "")
        return f"{super().plan_title(setup)}{f', editor {who}'.rstrip()}"

    def plan_decision(self, setup: Setup) -> Iterable[str]:
        settings = _strategy(setup).settings
        tie = f"; within {settings.tolerance:g} is a tie" if settings.tolerance else ""
        yield f"keeps     what has a better {settings.primary} ({settings.direction}){tie}"

    def plan_bounds(self, setup: Setup) -> Iterable[str]:
        settings = _strategy(setup).settings
        files = counted(settings.max_files or 0, "file")
        lines = counted(settings.max_changed_lines or 0, "changed line")
        yield f"an edit   at most {files} and {lines}"
        many = settings.candidates_per_iteration
        if many > 1:
            yield f"          {many} edits an iteration, side by side"
        if words := _strategy(setup).by_luck(setup):
            yield luck_line(words)
        noise = f"; within {settings.accept_sigma:g} × its noise is a tie"
        yield f"repeats   {settings.repeats}{noise if settings.repeats > 1 else ''}"
        yield from pruning_report.plan_lines(setup, settings)

    def limits(self, setup: Setup) -> list[str]:
        settings = _strategy(setup).settings
        own = [f"max_failures {settings.max_failures}"] if settings.max_failures else []
        own += [] if settings.target_score is None else [f"target_score {settings.target_score:g}"]
        return [*budget_limits(setup.budget), *own]

    def repeats(self, setup: Setup) -> int:
        return _strategy(setup).settings.repeats

    def progress(self) -> ProgressLines:
        return EditLines(self.ends)

    def result_words(self, run: RunRecord) -> str:
        return f"result   {result_words(run)}"

    def report(self, run: RunRecord) -> Iterable[Section]:
        return report(run, self.reason(run))

    def drawings(self, run: RunRecord) -> Iterable[Drawing]:
        return primary_by_trial(run)


def _strategy(setup: Setup) -> Edits:
    assert isinstance(setup.strategy, Edits)
    return setup.strategy


def _editor(
    building: Building, parts: TargetParts, settings: EditsSettings
) -> tuple[Role[EditRequest, Edit] | None, ModelClient | None]:
    """A model if one is named, else the program."""
    ref = building.named(_EDITOR)
    if ref is not None:
        model = building.asked(ROLE, ref)
        return (None, None) if model is None else (editor(*model), model[0])
    command = settings.command or settings.recipe
    if command is not None and isinstance(parts.target, ArtifactsTarget):
        _check_program(building, settings)
        program = CommandEditor(
            command=command,
            target=parts.target,
            recipe=None if settings.recipe is None else RECIPES[settings.recipe],
            arguments=settings.arguments,
            home=_home(building, settings),
            max_files=settings.max_files,
            max_changed_lines=settings.max_changed_lines,
            timeout_seconds=settings.timeout_seconds,
            # An editing program may need a key and the network; what it edits never gets them.
            env=settings.env,
            network=settings.network,
            usd_per_edit=settings.usd_per_edit,
        )
        return program, None
    if ROLE not in building.spec.roles:
        building.problems.add(f"roles.{ROLE}", parts.no_model, _NOBODY)
    return None, None


def _check_program(building: Building, settings: EditsSettings) -> None:
    name = settings.recipe
    if name is not None and shutil.which(name) is None:
        message = f"there is no program '{name}' on the PATH"
        building.problems.add("strategy.settings.recipe", message, "install it, or edit by a model")
    seed = _seed(building, settings)
    if seed is not None and not seed.is_dir():
        building.problems.add("strategy.settings.home", f"{seed} is not a folder")


def _seed(building: Building, settings: EditsSettings) -> Path | None:
    if settings.home is None:
        return None
    return building.path(str(Path(settings.home).expanduser()))


def _home(building: Building, settings: EditsSettings) -> EditorHome | None:
    if settings.recipe is None and settings.home is None:
        return None
    return EditorHome(_seed(building, settings))
