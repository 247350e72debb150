"""The manager, the critic, and the memory of a manager's loop."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Generic, Protocol

from pydantic import BaseModel, ConfigDict

from burnish.core.cases import ToolCall
from burnish.core.content import Json, canonical, short_id
from burnish.core.errors import RoleFailed
from burnish.core.protocols import Effects
from burnish.delegation.answers import (
    DECISION_KEYS,
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
from burnish.delegation.workers import JobOutcome, WorkContext, WorkerJob
from burnish.metrics.judged import fenced
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
    role: ModelRole[Request, Answer]

    @property
    def fingerprint(self) -> str:
        return self.role.fingerprint

    @property
    def label(self) -> str:
        return self.role.client.ref.label


@dataclass(frozen=True, kw_only=True)
class Critic(_PlayedByModel[ResultCritiqueRequest, Critique]):
    """The role that finds defects."""

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "Critic":
        """The critic for a model."""
        role = ModelRole(
            name=ROLE,
            request_type=ResultCritiqueRequest,
            answer_type=Critique,
            prompt=prompt,
            client=client,
        )
        return cls(role=role)

    async def criticise(
        self, job: WorkerJob, outcome: JobOutcome, context: WorkContext
    ) -> "CritiquedResult":
        """Criticise a result; a missing critique is not an error."""
        request = critique_request(job, outcome, context)
        try:
            critique = await self.critique(request, draw=job.draw, effects=context.effects)
        except RoleFailed as error:
            return CritiquedResult(job=job, outcome=outcome, missing=error.message)
        return CritiquedResult(job=job, outcome=outcome, critique=critique)

    async def critique(
        self, request: ResultCritiqueRequest, *, draw: int, effects: Effects
    ) -> Critique:
        """The critic's answer; what it is shown is fenced as data. Raises RoleFailed."""
        shown = fenced(request, self.role.prompt)
        return (await self.role.answer(shown, draw=draw, effects=effects)).value


@dataclass(frozen=True, kw_only=True)
class CritiquedResult:
    """A worker's result with its critique."""

    job: WorkerJob
    outcome: JobOutcome
    critique: Critique | None = None
    missing: str = ""
    """Why there is no critique; '' if there is no critic."""

    @property
    def needs_repair(self) -> bool:
        return self.critique is not None and self.critique.count("critical") > 0

    def issues(self, files: Collection[str]) -> list[str]:
        """What is wrong at first sight, where these files are there."""
        result = self.outcome.result
        found = [] if result.status == "done" else [f"it ended as {result.status}"]
        named = [(path, deliverable_path(path)) for path in result.outputs]
        found += [f"{path} is not there" for path, plain in named if plain not in files]
        if self.critique is not None:
            critical = [each for each in self.critique.defects if each.severity == "critical"]
            found += [f"critical: {defect.description}" for defect in critical]
        return found

    def unchanged_since(self, before: "CritiquedResult") -> bool:
        """Whether a repair changed nothing, so that another one would not help either."""
        new, old = self.outcome, before.outcome
        return (new.after, new.result.result) == (old.after, old.result.result)

    def to_json(self) -> dict[str, Json]:
        critique, worker = self.critique, self.job.worker_id
        if critique is None:
            return {"worker_id": worker, "score": None, "defects": [], "missing": self.missing}
        return {
            "worker_id": worker,
            **critique.model_dump(mode="json"),
            "score": round(critique.score, 4),
            "critical_count": critique.count("critical"),
            "warning_count": critique.count("warning"),
        }


def critique_request(
    job: WorkerJob, outcome: JobOutcome, context: WorkContext
) -> ResultCritiqueRequest:
    """What the critic sees of a result: the job, the answer and the changed files."""
    result = outcome.result
    answer = f"{result.status}: {result.summary}\n{result.result}".strip()
    store = context.workspace.store
    return ResultCritiqueRequest(
        task=job.task,
        instructions=job.instructions,
        criteria=bullets(job.criteria),
        result=without_middle(answer, _MOST_SAID),
        tools_used=bullets([_call(call) for call in outcome.calls]),
        files=contents(store, outcome.after, store.changed(outcome.before, outcome.after)),
        rubric=context.policy["critique_rubric"],
    )


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={cut(str(value), 60)}" for name, value in call.arguments.items())
    outcome = f"error: {cut(call.error, 120)}" if call.error else cut(str(call.result), 120)
    return f"{call.name}({arguments}) → {outcome}"


MANAGER = "manager"


class Situation(BaseModel):
    """What a manager is shown before it decides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steer: str
    """Precedes the task in the first iteration only; ends with an empty line."""
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
    def fingerprint(self) -> str: ...

    @property
    def label(self) -> str:
        """The model; '' if no model decides."""
        ...

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """The next decision. Raises RoleFailed."""
        ...


@dataclass(frozen=True, kw_only=True)
class ModelManager(_PlayedByModel[Situation, ManagerDecision]):
    """A manager that is a model."""

    @classmethod
    def of(cls, client: ModelClient, prompt: RolePrompt) -> "ModelManager":
        """The manager for a model, which may repair an invalid decision once."""
        role = ModelRole(
            name=MANAGER,
            request_type=Situation,
            answer_type=ManagerDecision,
            prompt=prompt,
            client=client,
            check=_senseless,
        )
        return cls(role=role)

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """Ask the model."""
        return (await self.role.answer(situation, draw=draw, effects=effects)).value


@dataclass(frozen=True, kw_only=True)
class CommandManager:
    """The manager of a command workflow: run the program, complete, and repeat when rejected.

    No model decides here: the program receives the critique and the rejection unchanged.
    """

    label: str = ""

    @property
    def fingerprint(self) -> str:
        return short_id("command manager")

    async def decide(self, situation: Situation, *, draw: int, effects: Effects) -> ManagerDecision:
        """Run the program, then submit what it made, in turn."""
        del draw, effects
        if situation.iteration % 2 == 0:
            # Not what it printed: that is talk, and the files are what counts.
            return ManagerDecision(decision="complete", final_result="The program has run.")
        parts = [situation.steer.strip(), situation.task]
        if situation.iteration > 1 and situation.rejection:
            parts.append(f"## Sent back\n\n{situation.rejection}")
        if situation.iteration > 1 and situation.critique:
            parts.append(f"## Critique of the last attempt\n\n{situation.critique}")
        instructions = "\n\n".join(filter(None, parts))
        job = Assignment(worker_id="command", instructions=instructions)
        return ManagerDecision(decision="delegate", delegations=[job])


def _senseless(situation: Situation, decision: ManagerDecision) -> str:
    del situation
    name = DECISION_KEYS[decision.decision]
    if not getattr(decision, name):
        return f"the decision '{decision.decision}' needs {name}"
    for path in (path for task in decision.subtasks for path in task.required_outputs):
        if problem := path_problem(deliverable_path(path)):
            return f"required_outputs: '{path}' is refused: {problem}"
    return ""


def deliverable_path(path: str) -> str:
    """A path in the workspace, without the prefix `_output_dir/` of other systems."""
    return path.strip().removeprefix("./").removeprefix("_output_dir/")


@dataclass(kw_only=True)
class ManagerMemory:
    """What happened in one loop so far."""

    plan: list[Subtask] = field(default_factory=list[Subtask])
    latest: dict[str, CritiquedResult] = field(default_factory=dict[str, CritiquedResult])
    last: list[CritiquedResult] = field(default_factory=list[CritiquedResult])
    """The results of the last iteration that delegated."""
    subtasks: dict[str, CritiquedResult] = field(default_factory=dict[str, CritiquedResult])
    hypotheses: list[str] = field(default_factory=list[str])
    rejections: list[GateVerdict] = field(default_factory=list[GateVerdict])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Sizes of the deliverables at the last attempt to complete."""
    decided: list[bytes] = field(default_factory=list[bytes])
    mended: bool = False
    """Whether a repair was delegated at the circuit breaker."""

    def stalled(self, decision: ManagerDecision) -> bool:
        """Whether this very decision was taken three times in a row."""
        self.decided.append(canonical(decision.model_dump(mode="json")))
        last = self.decided[-3:]
        return len(last) == 3 and len(set(last)) == 1 and decision.decision != "complete"

    def keep(self, results: Sequence[CritiquedResult], subtasks: Sequence[str]) -> None:
        """Remember the results of an iteration and their subtasks."""
        self.last = list(results)
        for each, subtask in zip(results, subtasks, strict=True):
            self.latest[each.job.worker_id] = each
            if subtask:
                self.subtasks[subtask] = each

    def repeated(self) -> int:
        """How many times in a row a completion was rejected for the same reason."""
        reasons = [(verdict.gate, verdict.reason) for verdict in reversed(self.rejections)]
        return len(list(takewhile(lambda each: each == reasons[0], reasons)))

    @property
    def declared(self) -> list[str]:
        paths = [path for task in self.plan for path in task.required_outputs]
        return list(dict.fromkeys(map(deliverable_path, paths)))

    @property
    def open_subtasks(self) -> tuple[str, ...]:
        """Subtasks with criteria that nobody worked on, or whose last result needs repair."""
        return tuple(
            task.id
            for task in self.plan
            if task.success_criteria
            and (task.id not in self.subtasks or self.subtasks[task.id].needs_repair)
        )

    @property
    def score(self) -> float | None:
        """The critic's mean score of the last results; None if one of them has no score."""
        scores = [each.critique.score for each in self.last if each.critique is not None]
        return math.fsum(scores) / len(scores) if scores and len(scores) == len(self.last) else None

    @property
    def defects(self) -> list[Defect]:
        return [d for each in self.last if each.critique for d in each.critique.defects]

    def results_text(self) -> str:
        """The results of workers, for the manager."""
        lines: list[str] = []
        for name, each in self.latest.items():
            result = each.outcome.result
            outputs = f" (files: {', '.join(result.outputs)})" if result.outputs else ""
            lines.append(f"{name} [{result.status}]: {result.summary}{outputs}")
            if result.result:
                lines.append(f"{name} says: {result.result[:2000]}")
        lines += [f"hypothesis: {each}" for each in self.hypotheses]
        return bullets(lines, empty="")

    def critique_text(self) -> str:
        """The critique of the last results."""
        lines: list[str] = []
        for each in self.last:
            name = each.job.worker_id
            if each.critique is None:
                lines += [f"{name}: no critique ({each.missing})"] if each.missing else []
                continue
            lines.append(f"{name}: score {each.critique.score:.2f}. {each.critique.summary}")
            lines += [f"{name}: {line}" for line in defect_lines(each.critique.defects)]
        return bullets(lines, empty="")

    def rejection_text(self) -> str:
        """Why the last completion was rejected."""
        if not self.rejections:
            return ""
        verdict = self.rejections[-1]
        lines = [f"{each.file}: {each.detail}".strip(": ") for each in verdict.findings]
        findings = bullets(lines, empty="")
        return f"gate {verdict.gate}: {verdict.reason}\n{findings}".rstrip()
