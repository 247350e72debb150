"""Who diagnoses, edits or rewrites texts in a search over an agent file."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from burnish.models.calling import ModelClient
from burnish.models.factory import Models
from burnish.models.prompts import RolePrompt, in_force
from burnish.models.references import ModelRef
from burnish.models.roles import ModelRole
from burnish.models.troubles import ModelRefused
from burnish.projects.agent_files import agent_judge
from burnish.projects.optimizer_block import AT
from burnish.projects.optimizer_findings import Findings
from burnish.projects.optimizer_plan import TuningPlan
from burnish.strategies.coordinate.wording import (
    CritiqueRequest,
    Edit,
    EditRequest,
    Gradient,
    applier,
    critic,
)
from burnish.targets.agent.loading import LoadedAgent

if TYPE_CHECKING:
    from burnish.strategies.reflective.wording import Reflection, ReflectRequest

TOO_SMALL = (
    "the textual phase is left out: the agent's own model is a local one, and texts need a "
    "stronger critic. Name one under optimizer.critic, or with --critic PROVIDER:NAME or "
    "BURNISH_CRITIC"
)


@dataclass(frozen=True, kw_only=True)
class Writers:
    """The two roles of a textual phase."""

    critic: ModelRole[CritiqueRequest, Gradient]
    applier: ModelRole[EditRequest, Edit]


def writers_of(
    agent: LoadedAgent, plan: TuningPlan, models: Models, findings: Findings
) -> Writers | None:
    """Critic and applier; None, with a note, where nobody is named and the agent is a local one."""
    named = plan.critic or plan.applier
    if named is None and agent.block.model.provider == "local":
        findings.note(TOO_SMALL)
        return None
    own = named or agent_judge(agent)
    making = _Making(agent, models, findings)
    diagnosing = making.client("critic", plan.critic or own)
    editing = making.client("applier", plan.applier or own)
    if diagnosing is None or editing is None:
        return None
    return Writers(critic=critic(*diagnosing), applier=applier(*editing))


def reflector_for(
    agent: LoadedAgent, plan: TuningPlan, models: Models, findings: Findings
) -> "ModelRole[ReflectRequest, Reflection] | None":
    """Who rewrites texts: whoever is named, the critic's model, or the agent's own."""
    from burnish.strategies.reflective.wording import ROLE, reflector

    named = plan.reflector or plan.critic
    if named is None and agent.block.model.provider == "local":
        told = "the agent's own model is a local one, and rewriting texts takes a stronger one"
        findings.wrong((ROLE,), told, "name one, or say --reflector PROVIDER:NAME")
        return None
    made = _Making(agent, models, findings).client(ROLE, named or agent_judge(agent))
    return None if made is None else reflector(*made)


@dataclass(frozen=True)
class _Making:
    agent: LoadedAgent
    models: Models
    findings: Findings

    def client(self, role: str, ref: ModelRef) -> tuple[ModelClient, RolePrompt] | None:
        """The role's model, which was seen to be within reach, and its prompt."""
        at = (*AT, role)

        def made() -> tuple[ModelClient, RolePrompt]:
            prompt = in_force(role, self.agent.folder)
            return reached(self.models, ref, prompt), prompt

        return self.findings.of(at, made, None)


def reached(models: Models, ref: ModelRef, prompt: RolePrompt) -> ModelClient:
    """A role's model, seen to be within reach; its prompt's temperature gives way if need be."""
    client = models.client(ref, prompt.settings)
    try:
        client.check()
    except ModelRefused:
        client = models.client(ref)
        client.check()
    return client
