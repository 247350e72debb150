"""Grading by a fixed rubric: a text that is on trial may not be the judge of itself."""

import math
from dataclasses import dataclass

from burnish.core.errors import RoleFailed
from burnish.targets.delegation.critic import critique_request
from burnish.targets.delegation.desk import Desk
from burnish.targets.delegation.memory import Memory
from burnish.targets.delegation.workflow import Workflow

RUBRIC = "critique_rubric"


@dataclass(frozen=True, kw_only=True)
class Ruled:
    """The mean score of the last results by the fixed rubric; None where it cannot be had."""

    score: float | None


async def ruled(workflow: Workflow, memory: Memory, desk: Desk, ruler: str) -> Ruled | None:
    """The last results graded once more; None where the critic has graded by this rubric."""
    critic = workflow.critic
    if critic is None or desk.policy[RUBRIC] == ruler or not memory.last:
        return None
    scores: list[float] = []
    for each in memory.last:
        request = critique_request(each.job, each.worked, desk)
        told = request.model_copy(update={"rubric": ruler})
        try:
            said = await critic.role.answer(told, draw=each.job.draw, effects=desk.effects)
        except RoleFailed:
            return Ruled(score=None)
        scores.append(said.value.score)
    return Ruled(score=math.fsum(scores) / len(scores))
