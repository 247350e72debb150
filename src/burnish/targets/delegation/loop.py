"""The manager's loop, top to bottom: decide, then plan, delegate, diagnose, complete or fail."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from burnish.core.content import Json
from burnish.core.errors import Interrupted, RoleFailed
from burnish.system.workspaces import shown
from burnish.targets.delegation.completing import Completing
from burnish.targets.delegation.desk import Desk, Job, Worked
from burnish.targets.delegation.evaluating import Evaluated
from burnish.targets.delegation.gates.completion import Verdict
from burnish.targets.delegation.manager import Situation
from burnish.targets.delegation.memory import Memory
from burnish.targets.delegation.showing import listing, plan_lines
from burnish.targets.delegation.team import Team, jobs_for
from burnish.targets.delegation.telling import Telling
from burnish.targets.delegation.words import Assignment, ManagerDecision, WorkerResult
from burnish.targets.delegation.workflow import Workflow
from burnish.targets.delegation.workspace import INPUT

Status: TypeAlias = Literal["complete", "partial", "failed", "aborted"]


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a loop ended."""

    status: Status
    reason: str
    result: str = ""
    confidence: float | None = None
    evaluation: Evaluated | None = None
    """Of the completion that passed, or failed for good."""


@dataclass(kw_only=True)
class ManagerLoop:
    """One manager with its task; managers below it run loops of their own on the same desk."""

    workflow: Workflow
    desk: Desk
    telling: Telling
    task: str
    origin: str
    """The workspace's state when the run began."""
    stop: Callable[[], str]
    """Why the run should stop here, to be resumed later; '' where it should not."""
    steer: str = ""
    depth: int = 1
    memory: Memory = field(default_factory=Memory)

    async def run(self) -> Ending:
        """Go on until something ends it."""
        tally, chronicle = self.desk.tally, self.telling.chronicle
        while True:
            await chronicle.tick(f"loop {tally.loops + 1}")
            if told := self.stop():
                raise Interrupted(told, remedy="everything journaled is kept; resume it to go on")
            if limit := tally.exhausted():
                chronicle.event("budget", f"the budget is used up: {limit}", level="WARNING")
                return Ending(status="partial", reason=limit)
            tally.loops += 1
            number = tally.loops
            ending = await self._iteration(number)
            self.telling.record.budget(number, tally.snapshot())
            chronicle.metric("budget", number, **tally.snapshot())
            if ending is not None:
                return ending

    async def _iteration(self, number: int) -> Ending | None:
        chronicle = self.telling.chronicle
        try:
            decision = await self._decide(number)
        except RoleFailed as error:
            chronicle.event("manager", error.message, level="ERROR", iteration=number)
            kind = "manager_missing" if error.missing else "manager_failed"
            return Ending(status="failed", reason=f"{kind}: {error.message}")
        self.telling.record.decision(number, decision)
        told = f"decided: {decision.decision}"
        chronicle.event("manager", told, iteration=number, depth=self.depth)
        if self.memory.stalled(decision):
            return Ending(status="partial", reason="stall")
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
                return Ending(status="failed", reason="fail", result=decision.reason)
        return None

    async def _decide(self, number: int) -> ManagerDecision:
        policy, memory, workspace = self.desk.policy, self.memory, self.desk.workspace
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
            tools=self.desk.toolkit.listed(),
            plan=plan_lines(memory.plan, memory.subtasks),
            results=memory.results_text(),
            critique=memory.critique_text(),
            rejection=memory.rejection_text(),
            files=listing(workspace),
        )
        return await self.workflow.manager.decide(situation, draw=number, effects=self.desk.effects)

    def _hint(self) -> str:
        files = map(shown, self.desk.workspace.files)
        given = [path for path in files if path.startswith(f"{INPUT}/")]
        template = self.desk.policy["experiment_context_hint_template"]
        return template.replace("{{ inputs }}", ", ".join(given) or "none")

    def _shown_budget(self) -> dict[str, Json]:
        """Without the time that went by, which would make every request another one."""
        told = self.desk.tally.snapshot()
        depth: Json = {"used": self.depth, "max": self.workflow.envelope.max_depth}
        timed = ("wall_time", "budget_remaining_pct")
        return {**{name: each for name, each in told.items() if name not in timed}, "depth": depth}

    # -- delegating ------------------------------------------------------------------------

    async def _delegate(self, number: int, wanted: Sequence[Assignment]) -> Ending | None:
        tally, most, chronicle = self.desk.tally, self.workflow.envelope, self.telling.chronicle
        chosen = wanted[: max(0, min(most.max_workers_per_iteration, tally.workers_left))]
        if not chosen:
            return Ending(status="partial", reason="max_total_workers")
        if len(chosen) < len(wanted):
            told = f"{len(wanted) - len(chosen)} of {len(wanted)} delegations have no room"
            chronicle.event("budget", told, level="WARNING", iteration=number)
        tally.workers += len(chosen)
        team = Team(
            workflow=self.workflow,
            desk=self.desk,
            chronicle=chronicle,
            submanage=self._submanage if self.depth < most.max_depth else None,
        )
        jobs = jobs_for(number, self.task, chosen, self.memory.plan)
        found, repairs = await team.work(jobs, chosen)
        self.memory.keep(found, [each.subtask_id for each in chosen])
        await chronicle.tick(f"delegated {number}")
        self.telling.results(number, found, repairs)
        if self.workflow.critic is not None:
            self.telling.critiques(number, found, self.memory.score)
        return None

    async def _submanage(self, job: Job) -> Worked:
        """A manager below this one takes the job as its task, on the same budget."""
        before = self.desk.workspace.state
        below = replace(
            self, task=job.instructions, steer="", depth=self.depth + 1, memory=Memory()
        )
        ending = await below.run()
        result = WorkerResult(
            summary=ending.result or f"the manager below ended: {ending.reason}",
            confidence=ending.confidence,
            status="done" if ending.status == "complete" else "failed",
        )
        return Worked(result=result, before=before, after=self.desk.workspace.state)

    # -- completing ------------------------------------------------------------------------

    async def _complete(self, number: int, decision: ManagerDecision) -> Ending | None:
        """Through the gates; only the first manager's completion is the run's."""
        done = Ending(
            status="complete",
            reason="complete",
            result=decision.final_result,
            confidence=decision.confidence,
        )
        if self.depth > 1:
            return done
        await self.telling.chronicle.tick(f"completing {number}")
        checking = self.completing()
        rejected: Verdict | None = None
        async for verdict in checking.verdicts(decision, number):
            self.telling.gate(number, verdict)
            rejected = None if verdict.passed else verdict
        if checking.evaluated is not None and checking.evaluated.measured:
            self.telling.evaluation(number, checking.evaluated)
            done = replace(done, evaluation=checking.evaluated)
        return done if rejected is None else self._sent_back(number, rejected, done)

    def completing(self) -> Completing:
        """What checks a completion, as things are now."""
        return Completing(
            workflow=self.workflow,
            desk=self.desk,
            task=self.task,
            origin=self.origin,
            memory=self.memory,
        )

    def _sent_back(self, number: int, verdict: Verdict, done: Ending) -> Ending | None:
        memory, most = self.memory, self.workflow.envelope.max_rejected_completions
        memory.rejections.append(verdict)
        times = memory.repeated()
        self.telling.rejection(number, verdict, times=times, most=most, all_=len(memory.rejections))
        if verdict.ends:
            return replace(done, status="failed", reason="eval_fail")
        if times >= most:
            return replace(done, status="partial", reason="completion_circuit_breaker")
        return None
