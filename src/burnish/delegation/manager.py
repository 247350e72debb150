"""The manager, the critic, and what a manager's loop remembers."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, cast

from pydantic import BaseModel, ConfigDict

from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import RoleFailed
from burnish.core.outcomes import ToolCall
from burnish.core.protocols import Effects
from burnish.delegation.answers import (
    NONE,
    Assignment,
    Critique,
    Defect,
    ManagerDecision,
    Subtask,
    bullets,
    contents,
    defect_lines,
)
from burnish.delegation.gates import GateVerdict
from burnish.delegation.workers import WorkContext, Worked, WorkerJob
from burnish.metrics.text_matching import cut, without_middle
from burnish.models.chat import ModelClient
from burnish.models.roles import Answer, ModelRole, Request, RolePrompt
from burnish.system.workspaces import path_problem

ROLE = "delegation_critic"
_MOST_SAID = 8000


class ResultCritiqueRequest(BaseModel):
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
class _PlayedByModel(Generic[Request, Answer]):
    """One of the team that is a model in a role."""

    role: ModelRole[Request, Answer]

    @property
    def fingerprint(self) -> str:
        """Of prompt, model and schema."""
        return self.role.fingerprint

    @property
    def label(self) -> str:
        """The model."""
        return self.role.client.ref.label


def _role(
    name: str,
    request: type[Request],
    answer: type[Answer],
    client: ModelClient,
    prompt: RolePrompt,
) -> ModelRole[Request, Answer]:
    return ModelRole(
        name=name, request_type=request, answer_type=answer, prompt=prompt, client=client
    )


@dataclass(frozen=True, kw_only=True)
class Critic(_PlayedByModel[ResultCritiqueRequest, Critique]):
    """The role that finds defects."""

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "Critic":
        """With its prompt."""
        return cls(role=_role(ROLE, ResultCritiqueRequest, Critique, client, prompt))

    async def criticise(self, job: WorkerJob, worked: Worked, context: WorkContext) -> "Criticised":
        """The critique; that there is none is a result too."""
        request = critique_request(job, worked, context)
        try:
            answered = await self.role.answer(request, draw=job.draw, effects=context.effects)
        except RoleFailed as error:
            return Criticised(job=job, worked=worked, missing=error.message)
        return Criticised(job=job, worked=worked, critique=answered.value)


@dataclass(frozen=True, kw_only=True)
class Criticised:
    """A result with what was said of it."""

    job: WorkerJob
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
        fields = cast("dict[str, Json]", critique.model_dump(mode="json"))
        return {
            "worker_id": self.job.worker_id,
            **fields,
            "score": round(critique.score, 4),
            "critical_count": critique.count("critical"),
            "warning_count": critique.count("warning"),
        }


def critique_request(job: WorkerJob, worked: Worked, context: WorkContext) -> ResultCritiqueRequest:
    """What the critic sees of a result: what was asked, what was said, what is in the files."""
    result = worked.result
    answer = f"{result.status}: {result.summary}\n{result.result}".strip()
    store = context.workspace.store
    old, new = store.entries(worked.before), store.entries(worked.after)
    changed = [
        path
        for path in store.files(worked.after)
        if path not in old or old[path].content != new[path].content
    ]
    return ResultCritiqueRequest(
        task=job.task,
        instructions=job.instructions,
        criteria=bullets(job.criteria),
        result=without_middle(answer, _MOST_SAID),
        tools_used=bullets([_call(call) for call in worked.calls]),
        files=contents(store, worked.after, changed),
        rubric=context.policy["critique_rubric"],
    )


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={cut(str(value), 60)}" for name, value in call.arguments.items())
    outcome = f"error: {cut(call.error, 120)}" if call.error else cut(str(call.result), 120)
    return f"{call.name}({arguments}) → {outcome}"


def _mean_score(results: Sequence[Criticised]) -> float | None:
    """The mean of the scores that there are; None where there are none."""
    scores = [each.critique.score for each in results if each.critique is not None]
    return math.fsum(scores) / len(scores) if scores else None


# -- The manager ----------------------------------------------------------------------------------


MANAGER = "manager"
_COMMAND = "command"
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
class ModelManager(_PlayedByModel[Situation, ManagerDecision]):
    """A manager that is a model."""

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "ModelManager":
        """With its prompt, and one repair of a decision that makes no sense."""
        role = _role(MANAGER, Situation, ManagerDecision, client, prompt)
        return cls(role=replace(role, check=_senseless))

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
        job = Assignment(worker_id=_COMMAND, instructions=instructions)
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


# -- What a manager's loop knows so far -----------------------------------------------------------


_STALL = 3
"""Equal decisions in a row after which nothing new is to be hoped for."""


@dataclass(kw_only=True)
class ManagerMemory:
    """The story of one loop."""

    plan: list[Subtask] = field(default_factory=list[Subtask])
    latest: dict[str, Criticised] = field(default_factory=dict[str, Criticised])
    """Each worker's last result."""
    last: list[Criticised] = field(default_factory=list[Criticised])
    """The results of the last iteration that delegated."""
    subtasks: dict[str, Criticised] = field(default_factory=dict[str, Criticised])
    """The last result for each subtask."""
    hypotheses: list[str] = field(default_factory=list[str])
    rejections: list[GateVerdict] = field(default_factory=list[GateVerdict])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Of the deliverables at the last attempt to complete."""
    decided: list[bytes] = field(default_factory=list[bytes])

    def stalled(self, decision: ManagerDecision) -> bool:
        """Whether this very decision was taken again and again."""
        self.decided.append(canonical(decision.model_dump(mode="json")))
        last = self.decided[-_STALL:]
        return len(last) == _STALL and len(set(last)) == 1 and decision.decision != "complete"

    def keep(self, results: Sequence[Criticised], subtasks: Sequence[str]) -> None:
        """Results of an iteration, with the subtasks that they are for."""
        self.last = list(results)
        for each, subtask in zip(results, subtasks, strict=True):
            self.latest[each.job.worker_id] = each
            if subtask:
                self.subtasks[subtask] = each

    def repeated(self) -> int:
        """How many times in a row a completion was rejected for the same reason."""
        reasons = [(verdict.gate, verdict.reason) for verdict in self.rejections]
        count = 0
        for each in reversed(reasons):
            if each != reasons[-1]:
                break
            count += 1
        return count

    @property
    def declared(self) -> list[str]:
        """The deliverables of the plan."""
        paths = [path for task in self.plan for path in task.required_outputs]
        return list(dict.fromkeys(map(deliverable_path, paths)))

    @property
    def open_subtasks(self) -> tuple[str, ...]:
        """Subtasks with criteria that nobody worked on, or whose last result is broken."""
        return tuple(
            task.id
            for task in self.plan
            if task.success_criteria
            and (task.id not in self.subtasks or self.subtasks[task.id].needs_repair)
        )

    @property
    def score(self) -> float | None:
        """The critic's mean score of the last results; None where one of them has none."""
        if any(each.critique is None for each in self.last):
            return None
        return _mean_score(self.last)

    @property
    def defects(self) -> list[Defect]:
        """What the last critiques found."""
        return [d for each in self.last if each.critique for d in each.critique.defects]

    def results_text(self) -> str:
        """What workers gave back, for the manager."""
        lines: list[str] = []
        for name, each in self.latest.items():
            result = each.worked.result
            outputs = f" (files: {', '.join(result.outputs)})" if result.outputs else ""
            lines.append(f"{name} [{result.status}]: {result.summary}{outputs}")
            if result.result:
                lines.append(f"{name} says: {result.result[:2000]}")
        lines += [f"hypothesis: {each}" for each in self.hypotheses]
        return bullets(lines)

    def critique_text(self) -> str:
        """What the critic said of the last results."""
        lines: list[str] = []
        for each in self.last:
            name = each.job.worker_id
            if each.critique is None:
                lines += [f"{name}: no critique ({each.missing})"] if each.missing else []
                continue
            lines.append(f"{name}: score {each.critique.score:.2f}. {each.critique.summary}")
            lines += [f"{name}: {line}" for line in defect_lines(each.critique.defects)]
        return bullets(lines)

    def rejection_text(self) -> str:
        """Why the last completion was sent back."""
        if not self.rejections:
            return NONE
        verdict = self.rejections[-1]
        lines = [f"{each.file}: {each.detail}".strip(": ") for each in verdict.findings]
        return f"gate {verdict.gate}: {verdict.reason}\n{bullets(lines)}"
