"""The manager: what it is shown, and who plays it: a model, or the loop around a program."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.system.workspaces import path_problem
from burnish.targets.delegation.words import Assignment, ManagerDecision

ROLE = "manager"
COMMAND = "command"
"""The worker of a command workflow."""


_NEEDED = {
    "plan": "subtasks",
    "delegate": "delegations",
    "diagnose": "hypotheses",
    "complete": "final_result",
    "fail": "reason",
}


class Situation(BaseModel):
    """What a manager is shown before it decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steer: str
    """Set before the task on the first iteration only; ends with an empty line."""
    task: str
    hint: str
    preamble: str
    patterns: str
    own_instructions: str
    iteration: int
    budget: str
    tools: str
    plan: str
    results: str
    critique: str
    rejection: str
    files: str


class Manager(Protocol):
    """Decides what comes next."""

    @property
    def fingerprint(self) -> str:
        """A hash of what makes it decide as it does."""
        ...

    @property
    def label(self) -> str:
        """The model, as it is written; '' where no model decides."""
        ...

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """The next decision. Raises RoleFailed."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelManager:
    """A manager that is a model."""

    role: ModelRole[Situation, ManagerDecision]

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "ModelManager":
        """With its prompt, and one repair of a decision that makes no sense."""
        role = ModelRole(
            name=ROLE,
            request_type=Situation,
            answer_type=ManagerDecision,
            prompt=prompt,
            client=client,
            check=_senseless,
        )
        return cls(role=role)

    @property
    def fingerprint(self) -> str:
        """Of prompt, model and schema."""
        return self.role.fingerprint

    @property
    def label(self) -> str:
        """The model."""
        return self.role.client.ref.label

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """Ask the model."""
        return (await self.role.answer(situation, draw=draw, effects=effects)).value


@dataclass(frozen=True, kw_only=True)
class CommandManager:
    """The manager of a command workflow: run the program, complete, and again when rejected.

    Nothing is decided by a model here: what the critic and the gates say goes back to the program
    as it is.
    """

    label: str = ""

    @property
    def fingerprint(self) -> str:
        """It always decides alike."""
        return short_id("command manager")

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """Every other time the program has just run, and what it made is submitted."""
        del draw, effects
        if situation.iteration % 2 == 0:
            # Not what it printed: that is talk, and the files are what counts.
            return ManagerDecision(decision="complete", final_result="The program has run.")
        parts = [situation.steer.strip(), situation.task]
        for title, text in (
            ("Sent back", situation.rejection),
            ("Critique of the last attempt", situation.critique),
        ):
            if situation.iteration > 1 and text:
                parts.append(f"## {title}\n\n{text}")
        instructions = "\n\n".join(part for part in parts if part)
        job = Assignment(worker_id=COMMAND, instructions=instructions)
        return ManagerDecision(decision="delegate", delegations=[job])


def _senseless(situation: Situation, decision: ManagerDecision) -> str:
    """What is wrong with a decision that keeps its schema."""
    del situation
    name = _NEEDED[decision.decision]
    if not getattr(decision, name):
        return f"the decision '{decision.decision}' needs {name}"
    return _outside(path for task in decision.subtasks for path in task.required_outputs)


def _outside(paths: Iterable[str]) -> str:
    for path in paths:
        if problem := path_problem(deliverable_path(path)):
            return f"required_outputs: '{path}' is refused: {problem}"
    return ""


def deliverable_path(path: str) -> str:
    """A path as the workspace knows it: other systems write `_output_dir/` before it."""
    return path.strip().removeprefix("./").removeprefix("_output_dir/")
