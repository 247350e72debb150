"""The manager's loop, and the workers of one iteration."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import Interrupted, RoleFailed
from burnish.delegation.answers import (
    Assignment,
    ManagerDecision,
    Subtask,
    WorkerResult,
    listing,
    plan_lines,
)
from burnish.delegation.completion import Completing
from burnish.delegation.evaluation import DelegationEvaluation
from burnish.delegation.gates import GateVerdict
from burnish.delegation.manager import Criticised, ManagerMemory, Situation
from burnish.delegation.record import Chronicle, Recording
from burnish.delegation.team import Workflow
from burnish.delegation.workers import WorkContext, Worked, WorkerJob
from burnish.delegation.workspace import INPUT
from burnish.system.workspaces import shown


@dataclass(frozen=True, kw_only=True)
class _Team:
    """Sets workers to work, and has their results criticised."""

    workflow: Workflow
    context: WorkContext
    chronicle: Chronicle
    submanage: Callable[[WorkerJob], Awaitable[Worked]] | None
    """Hands a job to a manager below; None where the depth is used up."""

    async def work(
        self, jobs: Sequence[WorkerJob], assignments: Sequence[Assignment]
    ) -> tuple[list[Criticised], list[Json]]:
        """What came of every job, and the repairs that it took."""
        # In turn, since they share the workspace: each step starts from the state before it.
        done = [await self._done(job, each) for job, each in zip(jobs, assignments, strict=True)]
        criticised = await asyncio.gather(*map(self._criticised, jobs, done))
        repairs: list[Json] = []
        mended = [
            each if this.as_submanager else await self._repaired(each, repairs)
            for each, this in zip(criticised, assignments, strict=True)
        ]
        return mended, repairs

    async def _done(self, job: WorkerJob, assignment: Assignment) -> Worked:
        if assignment.as_submanager and self.submanage is not None:
            return await self.submanage(job)
        worked = await self.workflow.worker.work(job, self.context)
        result = worked.result
        self.chronicle.event(
            "worker",
            f"{job.worker_id}: {result.status}: {result.summary[:200]}",
            level="INFO" if result.status == "done" else "WARNING",
            iteration=job.iteration,
            worker_id=job.worker_id,
        )
        return worked

    async def _criticised(self, job: WorkerJob, worked: Worked) -> Criticised:
        critic = self.workflow.critic
        if critic is None:
            return Criticised(job=job, worked=worked)
        if reason := self.context.tally.no_more_calls():
            missing = f"the budget is used up: {reason}"
            return Criticised(job=job, worked=worked, missing=missing)
        return await critic.criticise(job, worked, self.context)

    async def _repaired(self, current: Criticised, history: list[Json]) -> Criticised:
        """The same worker mends what is critical, a few times, while that changes anything."""
        for attempt in range(1, self.workflow.max_repairs + 1):
            if current.critique is None or not current.needs_repair:
                break
            if self.context.tally.no_more_calls():
                break
            job = replace(current.job, attempt=attempt, defects=tuple(current.critique.defects))
            worked = await self.workflow.worker.work(job, self.context)
            after = await self._criticised(job, replace(worked, before=current.worked.before))
            history.append(_repair_row(current, after, attempt))
            message = f"{job.worker_id}: repair {attempt}"
            self.chronicle.event("repair", message, iteration=job.iteration)
            if after.unchanged_since(current) or after.critique is None:
                break
            current = after
        return current


def _jobs_for(
    number: int, task: str, chosen: Sequence[Assignment], plan: Sequence[Subtask]
) -> list[WorkerJob]:
    """The jobs of an iteration, each with a name of its own and the criteria of its subtask."""
    subtasks = {each.id: each for each in plan}
    jobs: dict[str, WorkerJob] = {}
    for assignment in chosen:
        name, again = assignment.worker_id, 2
        while name in jobs:
            name, again = f"{assignment.worker_id}-{again}", again + 1
        jobs[name] = WorkerJob(
            worker_id=name,
            task=task,
            instructions=assignment.instructions,
            criteria=_criteria(subtasks.get(assignment.subtask_id)),
            tools_allowed=tuple(assignment.tools_allowed),
            iteration=number,
            place=len(jobs),
        )
    return list(jobs.values())


def _criteria(subtask: Subtask | None) -> tuple[str, ...]:
    if subtask is None:
        return ()
    files = (f"the file {path} is there" for path in subtask.required_outputs)
    return (*subtask.success_criteria, *files)


def _repair_row(before: Criticised, after: Criticised, attempt: int) -> Json:
    old = before.critique.defects if before.critique else []
    new = after.critique.defects if after.critique else []
    left = {defect.description for defect in new}
    return {
        "worker_id": before.job.worker_id,
        "attempt": attempt,
        "original_score": before.critique.score if before.critique else None,
        "repaired_score": after.critique.score if after.critique else None,
        "defects_fixed": sum(defect.description not in left for defect in old),
        "defects_remaining": len(new),
        "critique_after": after.to_json(),
    }


# -- The manager's loop, top to bottom ------------------------------------------------------------


Status: TypeAlias = Literal["complete", "partial", "failed", "aborted"]


@dataclass(frozen=True, kw_only=True)
class LoopEnding:
    """How a loop ended."""

    status: Status
    reason: str
    result: str = ""
    confidence: float | None = None
    evaluation: DelegationEvaluation | None = None
    """Of the completion that passed, or failed for good."""


@dataclass(kw_only=True)
class ManagerLoop:
    """One manager with its task; managers below it run loops of their own on the same context."""

    workflow: Workflow
    context: WorkContext
    recording: Recording
    task: str
    origin: str
    """The workspace's state when the run began."""
    stop: Callable[[], str]
    """Why the run should stop here, to be resumed later; '' where it should not."""
    steer: str = ""
    depth: int = 1
    memory: ManagerMemory = field(default_factory=ManagerMemory)

    async def run(self) -> LoopEnding:
        """Go on until something ends it."""
        tally, chronicle = self.context.tally, self.recording.chronicle
        while True:
            await chronicle.tick(f"loop {tally.loops + 1}")
            if reason := self.stop():
                raise Interrupted(reason, remedy="everything journaled is kept; resume it to go on")
            if limit := tally.exhausted():
                chronicle.event("budget", f"the budget is used up: {limit}", level="WARNING")
                return LoopEnding(status="partial", reason=limit)
            tally.loops += 1
            number = tally.loops
            ending = await self._iteration(number)
            self.recording.record.budget(number, tally.snapshot())
            chronicle.metric("budget", number, **tally.snapshot())
            if ending is not None:
                return ending

    async def _iteration(self, number: int) -> LoopEnding | None:
        chronicle = self.recording.chronicle
        try:
            decision = await self._decide(number)
        except RoleFailed as error:
            chronicle.event("manager", error.message, level="ERROR", iteration=number)
            kind = "manager_missing" if error.missing else "manager_failed"
            return LoopEnding(status="failed", reason=f"{kind}: {error.message}")
        self.recording.record.decision(number, decision)
        message = f"decided: {decision.decision}"
        chronicle.event("manager", message, iteration=number, depth=self.depth)
        if self.memory.stalled(decision):
            return LoopEnding(status="partial", reason="stall")
        match decision.decision:
            case "plan":
                self.memory.plan = list(decision.subtasks)
            case "delegate":
                return await self._delegate(number, decision.delegations)
            case "diagnose":
                self.memory.hypotheses = list(decision.hypotheses)
            case "complete":
                return await self._complete(number, decision)
            case "fail":
                return LoopEnding(status="failed", reason="fail", result=decision.reason)
        return None

    async def _decide(self, number: int) -> ManagerDecision:
        policy, memory, workspace = self.context.policy, self.memory, self.context.workspace
        first = number == 1 and self.depth == 1
        situation = Situation(
            steer=f"{self.steer.rstrip()}\n\n" if first and self.steer.strip() else "",
            task=self.task,
            hint=self._hint(),
            preamble=policy["manager_planning_preamble"],
            patterns=policy["pattern_library"],
            own_instructions=self.workflow.own_instructions,
            iteration=number,
            budget=json.dumps(self._shown_budget()),
            tools=self.context.toolkit.listed(),
            plan=plan_lines(memory.plan, memory.subtasks),
            results=memory.results_text(),
            critique=memory.critique_text(),
            rejection=memory.rejection_text(),
            files=listing(workspace),
        )
        return await self.workflow.manager.decide(
            situation, draw=number, effects=self.context.effects
        )

    def _hint(self) -> str:
        files = map(shown, self.context.workspace.files)
        inputs = [path for path in files if path.startswith(f"{INPUT}/")]
        template = self.context.policy["experiment_context_hint_template"]
        return template.replace("{{ inputs }}", ", ".join(inputs) or "none")

    def _shown_budget(self) -> dict[str, Json]:
        """Without the time that went by, which would make every request another one."""
        budget = self.context.tally.snapshot()
        depth: Json = {"used": self.depth, "max": self.workflow.envelope.max_depth}
        timed = ("wall_time", "budget_remaining_pct")
        return {
            **{name: each for name, each in budget.items() if name not in timed},
            "depth": depth,
        }

    # -- delegating ------------------------------------------------------------------------

    async def _delegate(self, number: int, assignments: Sequence[Assignment]) -> LoopEnding | None:
        tally, most, chronicle = (
            self.context.tally,
            self.workflow.envelope,
            self.recording.chronicle,
        )
        chosen = assignments[: max(0, min(most.max_workers_per_iteration, tally.workers_left))]
        if not chosen:
            return LoopEnding(status="partial", reason="max_total_workers")
        if len(chosen) < len(assignments):
            message = (
                f"{len(assignments) - len(chosen)} of {len(assignments)} delegations have no room"
            )
            chronicle.event("budget", message, level="WARNING", iteration=number)
        tally.workers += len(chosen)
        team = _Team(
            workflow=self.workflow,
            context=self.context,
            chronicle=chronicle,
            submanage=self._submanage if self.depth < most.max_depth else None,
        )
        jobs = _jobs_for(number, self.task, chosen, self.memory.plan)
        results, repairs = await team.work(jobs, chosen)
        self.memory.keep(results, [each.subtask_id for each in chosen])
        await chronicle.tick(f"delegated {number}")
        self.recording.results(number, results, repairs)
        if self.workflow.critic is not None:
            self.recording.critiques(number, results, self.memory.score)
        return None

    async def _submanage(self, job: WorkerJob) -> Worked:
        """A manager below this one takes the job as its task, on the same budget."""
        before = self.context.workspace.state
        below = replace(
            self, task=job.instructions, steer="", depth=self.depth + 1, memory=ManagerMemory()
        )
        ending = await below.run()
        result = WorkerResult(
            summary=ending.result or f"the manager below ended: {ending.reason}",
            confidence=ending.confidence,
            status="done" if ending.status == "complete" else "failed",
        )
        return Worked(result=result, before=before, after=self.context.workspace.state)

    # -- completing ------------------------------------------------------------------------

    async def _complete(self, number: int, decision: ManagerDecision) -> LoopEnding | None:
        """Through the gates; only the first manager's completion is the run's."""
        done = LoopEnding(
            status="complete",
            reason="complete",
            result=decision.final_result,
            confidence=decision.confidence,
        )
        if self.depth > 1:
            return done
        await self.recording.chronicle.tick(f"completing {number}")
        checking = self.completing()
        rejected: GateVerdict | None = None
        async for verdict in checking.verdicts(decision, number):
            self.recording.gate(number, verdict)
            rejected = None if verdict.passed else verdict
        if checking.evaluated is not None and checking.evaluated.measured:
            self.recording.evaluation(number, checking.evaluated)
            done = replace(done, evaluation=checking.evaluated)
        return done if rejected is None else self._sent_back(number, rejected, done)

    def completing(self) -> Completing:
        """What checks a completion, as things are now."""
        return Completing(
            workflow=self.workflow,
            context=self.context,
            task=self.task,
            origin=self.origin,
            memory=self.memory,
        )

    def _sent_back(self, number: int, verdict: GateVerdict, done: LoopEnding) -> LoopEnding | None:
        memory, most = self.memory, self.workflow.envelope.max_rejected_completions
        memory.rejections.append(verdict)
        times = memory.repeated()
        self.recording.rejection(
            number, verdict, times=times, most=most, all_=len(memory.rejections)
        )
        if verdict.ends:
            return replace(done, status="failed", reason="eval_fail")
        if times >= most:
            return replace(done, status="partial", reason="completion_circuit_breaker")
        return None
