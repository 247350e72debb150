"""Who rewrites policy texts: the reflector, or critic and applier."""

from dataclasses import dataclass
from pathlib import Path

from burnish.models.factory import Models
from burnish.models.prompts import in_force
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.runs.parts import reached
from burnish.strategies.coordinate.wording import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    applier,
    critic,
)
from burnish.strategies.reflective.wording import ROLE, Reflection, ReflectRequest, reflector


@dataclass(frozen=True, kw_only=True)
class Writers:
    """The two roles of a textual phase."""

    critic: ModelRole[CritiqueRequest, Gradient]
    applier: ModelRole[EditRequest, Edit]


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
