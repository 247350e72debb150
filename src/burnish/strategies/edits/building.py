"""The artifact loop from a description: who edits, what counts, and a budget that ends it."""

from dataclasses import dataclass, replace

from burnish.core.protocols import Role
from burnish.models.chat import ModelClient
from burnish.runs.parts import Building, RoleNeed, StrategyParts, TargetParts
from burnish.strategies.edits.command_editor import CommandEditor
from burnish.strategies.edits.settings import EditsSettings
from burnish.strategies.edits.strategy import Edits
from burnish.strategies.edits.wording import ROLE, Edit, EditRequest, editor
from burnish.targets.artifacts.target import ArtifactsTarget

EDITOR = RoleNeed(name=ROLE, help="Who edits files: provider:name.", panel="Files")
MAX_ITERATIONS = 50
"""Where no limit on trials is named."""
NOBODY = (
    "name a model: editor: openai:gpt-4o, --editor MODEL or BURNISH_EDITOR; or let a program edit: "
    "edits: {mode: command, command: …}"
)


@dataclass(frozen=True, kw_only=True)
class _Editor:
    """Who edits, and the model where one does."""

    role: Role[EditRequest, Edit]
    client: ModelClient | None = None


def build(building: Building, parts: TargetParts) -> StrategyParts | None:
    """The loop over the files of a target; None, with what is wrong kept, where it cannot be."""
    objective = building.spec.objective
    settings: EditsSettings = building.spec.strategy.settings.model_copy(
        update={
            "task": parts.purpose,
            "primary": parts.primary,
            "direction": objective.direction,
            "tolerance": objective.tolerance,
        }
    )
    who = _editor(building, parts, settings)
    if who is None:
        return None
    budget = building.spec.budget.budget()
    if budget.max_trials is None:
        most = MAX_ITERATIONS * settings.candidates_per_iteration
        budget = replace(budget, max_trials=most)
    return StrategyParts(
        strategy=Edits(editor=who.role, settings=settings), budget=budget, client=who.client
    )


def _editor(building: Building, parts: TargetParts, settings: EditsSettings) -> _Editor | None:
    """A model where one is named, else the program."""
    ref = building.named(EDITOR)
    if ref is not None:
        model = building.asked(ROLE, ref)
        return None if model is None else _Editor(role=editor(*model), client=model[0])
    if settings.command is not None and isinstance(parts.target, ArtifactsTarget):
        return _Editor(role=_program(settings, settings.command, parts.target))
    if ROLE not in building.spec.roles:
        building.problems.add(f"roles.{ROLE}", parts.no_model, NOBODY)
    return None


def _program(settings: EditsSettings, command: str, target: ArtifactsTarget) -> CommandEditor:
    return CommandEditor(
        command=command,
        target=target,
        max_files=settings.max_files,
        max_changed_lines=settings.max_changed_lines,
        timeout_seconds=settings.timeout_seconds,
        # An editing program may need a key and the network; what it edits never gets them.
        env=settings.env,
        network=settings.network,
        usd_per_edit=settings.usd_per_edit,
    )
