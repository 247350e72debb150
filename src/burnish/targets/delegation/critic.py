"""Critique of workers' results: defects and a score, and the bounded repair of what is critical."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.outcomes import ToolCall
from burnish.evaluation.matching.excerpts import cut, without_middle
from burnish.models.chat import ModelClient
from burnish.models.roles import ModelRole, RolePrompt
from burnish.targets.delegation.desk import Desk, Job, Worked
from burnish.targets.delegation.showing import bullets, contents
from burnish.targets.delegation.words import Critique

ROLE = "delegation_critic"
_MOST_SAID = 8000


class CritiqueRequest(BaseModel):
    """What a critic is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    instructions: str
    criteria: str
    result: str
    tools_used: str
    files: str
    rubric: str


@dataclass(frozen=True, kw_only=True)
class Critic:
    """The role that finds defects."""

    role: ModelRole[CritiqueRequest, Critique]

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "Critic":
        """With its prompt."""
        role = ModelRole(
            name=ROLE,
            request_type=CritiqueRequest,
            answer_type=Critique,
            prompt=prompt,
            client=client,
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

    async def criticise(self, job: Job, worked: Worked, desk: Desk) -> "Criticised":
        """The critique; that there is none is a result too."""
        request = critique_request(job, worked, desk)
        try:
            answered = await self.role.answer(request, draw=job.draw, effects=desk.effects)
        except RoleFailed as error:
            return Criticised(job=job, worked=worked, missing=error.message)
        return Criticised(job=job, worked=worked, critique=answered.value)


@dataclass(frozen=True, kw_only=True)
class Criticised:
    """A result with what was said of it."""

    job: Job
    worked: Worked
    critique: Critique | None = None
    missing: str = ""
    """Why there is no critique; also '' where nobody was to give one."""

    @property
    def needs_repair(self) -> bool:
        """Whether something is wrong that cannot be left so."""
        return self.critique is not None and self.critique.count("critical") > 0

    def unchanged_since(self, before: "Criticised") -> bool:
        """Whether a repair changed nothing, so that another would not either."""
        return (self.worked.after, self.worked.result.result) == (
            before.worked.after,
            before.worked.result.result,
        )

    def to_json(self) -> dict[str, Json]:
        """As critique.json lists it."""
        critique = self.critique
        if critique is None:
            return {"worker_id": self.job.worker_id, "score": None, "defects": [],
                    "missing": self.missing}  # fmt: skip
        told = cast("dict[str, Json]", critique.model_dump(mode="json"))
        return {
            "worker_id": self.job.worker_id,
            **told,
            "score": round(critique.score, 4),
            "critical_count": critique.count("critical"),
            "warning_count": critique.count("warning"),
        }


def critique_request(job: Job, worked: Worked, desk: Desk) -> CritiqueRequest:
    """What the critic sees of a result: what was asked, what was said, what is in the files."""
    result = worked.result
    said = f"{result.status}: {result.summary}\n{result.result}".strip()
    store = desk.workspace.store
    old, new = store.entries(worked.before), store.entries(worked.after)
    changed = [
        path
        for path in store.files(worked.after)
        if path not in old or old[path].content != new[path].content
    ]
    return CritiqueRequest(
        task=job.task,
        instructions=job.instructions,
        criteria=bullets(job.criteria),
        result=without_middle(said, _MOST_SAID),
        tools_used=bullets([_call(call) for call in worked.calls]),
        files=contents(store, worked.after, changed),
        rubric=desk.policy["critique_rubric"],
    )


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={cut(str(value), 60)}" for name, value in call.arguments.items())
    told = f"error: {cut(call.error, 120)}" if call.error else cut(str(call.result), 120)
    return f"{call.name}({arguments}) → {told}"


def mean_score(found: Sequence[Criticised]) -> float | None:
    """The mean of the scores that there are; None where there are none."""
    scores = [each.critique.score for each in found if each.critique is not None]
    return math.fsum(scores) / len(scores) if scores else None
