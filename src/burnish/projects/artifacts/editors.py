"""Who edits the files of a task: a model, or a program of the user's own."""

from dataclasses import dataclass

from burnish.core.protocols import Role
from burnish.models.calling import ModelClient
from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.projects.artifacts.task_file import TaskFile
from burnish.projects.gathering import Gathering
from burnish.projects.loading import Given
from burnish.projects.optimizer_roles import reached
from burnish.strategies.edits.command_editor import CommandEditor
from burnish.strategies.edits.wording import ROLE, Edit, EditRequest, editor
from burnish.targets.artifacts.target import ArtifactsTarget

AT = ("mutation", "editor")
NOBODY = (
    "name a model: mutation: {editor: openai:gpt-4o}, --editor MODEL or BURNISH_EDITOR; or let a "
    "program edit: mutation: {mode: command, command: …}"
)


@dataclass(frozen=True, kw_only=True)
class Editing:
    """Who edits."""

    role: Role[EditRequest, Edit]
    client: ModelClient | None = None
    """The model, where one edits."""


@dataclass(frozen=True)
class Editors:
    """Finds the editor of one task; what is wrong is kept."""

    given: Given
    file: TaskFile
    models: Models
    wrong: Gathering

    def over(self, target: ArtifactsTarget) -> Editing | None:
        """Who edits the files of a target: a flag is stronger than the file."""
        if self.file.mutation.mode == "command" and self.given.flags.editor is None:
            return Editing(role=self._program(target))
        ref = self._reference()
        if ref is None:
            return None
        role = self.wrong.of(AT, lambda: self._model(ref), None)
        return None if role is None else Editing(role=role, client=role.client)

    def _program(self, target: ArtifactsTarget) -> Role[EditRequest, Edit]:
        mutation = self.file.mutation
        return CommandEditor(
            command=str(mutation.command),
            target=target,
            max_files=self.file.artifacts.max_files_per_iteration,
            max_changed_lines=mutation.max_changed_lines,
            timeout_seconds=mutation.timeout_seconds,
            # An editing program may need a key and the network; what it edits never gets them.
            env=tuple(mutation.env),
            network=mutation.network,
            usd_per_edit=mutation.usd_per_edit,
        )

    def _model(self, ref: ModelRef) -> ModelRole[EditRequest, Edit]:
        prompt = in_force(ROLE, self.given.folder)
        return editor(reached(self.models, ref, prompt), prompt)

    def _reference(self) -> ModelRef | None:
        flag, weaker = self.given.flags.editor, self.given.environment.editor
        block = self.file.editing_model
        if flag is None and block is not None:
            return self.wrong.of(AT, block.reference, None)
        said = flag or weaker
        if said is None:
            self.wrong.add(AT, "there is nobody to edit the files", NOBODY)
            return None
        return self.wrong.as_told(lambda: ModelRef.parse(said), None, where="--editor")
