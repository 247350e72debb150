"""Who rewrites prompts: the reflector, or critic and applier."""

from pathlib import Path

from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.projects.optimizer_roles import Writers, reached
from burnish.strategies.coordinate.wording import applier, critic
from burnish.strategies.reflective.wording import ROLE, Reflection, ReflectRequest, reflector


def reflector_of(
    ref: ModelRef, models: Models, folder: Path
) -> ModelRole[ReflectRequest, Reflection]:
    """The role that rewrites a text from what failed, seen to be within reach."""
    prompt = in_force(ROLE, folder)
    return reflector(reached(models, ref, prompt), prompt)


def writers_by(diagnosing: ModelRef, editing: ModelRef, models: Models, folder: Path) -> Writers:
    """Critic and applier, seen to be within reach."""
    first, second = in_force("critic", folder), in_force("applier", folder)
    return Writers(
        critic=critic(reached(models, diagnosing, first), first),
        applier=applier(reached(models, editing, second), second),
    )
