"""The manager's loop: the workers of each iteration, and a completion passing through the gates."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import Literal, TypeAlias, cast

from burnish.core.content import Json
from burnish.core.errors import FileTrouble, Interrupted, RoleFailed
from burnish.delegation import gates
from burnish.delegation.answers import (
    Assignment,
    ManagerDecision,
    Subtask,
    WorkerResult,
    listing,
    plan_lines,
)
from burnish.delegation.evaluation import DelegationEvaluation, Final, MetricMeasurement, measure
from burnish.delegation.gates import Completion, GateFinding, GateVerdict, suffix
from burnish.delegation.manager import CritiquedResult, ManagerMemory, Situation, deliverable_path
from burnish.delegation.record import Recording
from burnish.delegation.team import Workflow
from burnish.delegation.workers import JobOutcome, WorkContext, WorkerJob
from burnish.delegation.workspace import INPUT
from burnish.system.workspaces import shown
from burnish.targets.artifacts.task import finished

_LOOKING: Mapping[str, Callable[[Completion], Iterator[GateFinding]] | None] = {
    "l0": gates.l0,
    "critique": gates.critique,
    "deliverable_presence": gates.deliverable_presence,
    "placeholder": gates.placeholder,
    "file": gates.file,
    "deliverable": gates.deliverable,
    "syntax_compile": gates.syntax_compile,
    "schema": gates.schema,
    "cross_reference": gates.cross_reference,
    "success_criteria": gates.success_criteria,
    "smoke_test": None,
    "structural_integrity": gates.structural_integrity,
    "eval": None,
}
"""Every gate in order; None marks a gate that runs something and is passed in."""
ORDER = tuple(_LOOKING)


def look(gate: str, completion: Completion) -> GateVerdict:
    """The verdict of a gate that runs nothing."""
    check = _LOOKING[gate]
    assert check is not None
    return GateVerdict(gate=gate, findings=tuple(check(completion)))


async def pass_through(
    completion: Completion, acting: Mapping[str, Callable[[Completion], Awaitable[GateVerdict]]]
) -> AsyncIterator[GateVerdict]:
    """Each gate's verdict in turn, up to the first that rejects."""
    for gate in ORDER:
        run = acting.get(gate)
        verdict = look(gate, completion) if run is None else await run(completion)
        yield verdict
        if not verdict.passed:
            return


_NAMED_IN_TASK = re.compile(r"_output_dir/[\w./-]+\.\w+")


@dataclass(kw_only=True)
class CompletionCheck:
    """Checks the workspace when the manager reports the task as done."""

    workflow: Workflow
    context: WorkContext
    task: str
    origin: str
    memory: ManagerMemory
    evaluated: DelegationEvaluation | None = field(default=None, init=False)
    """The scores of the metrics, once the gate `eval` was reached."""

    def verdicts(self, decision: ManagerDecision, number: int) -> AsyncIterator[GateVerdict]:
        """Each gate's verdict, up to the first that rejects."""
        workflow, memory, workspace = self.workflow, self.memory, self.context.workspace
        entries = workspace.store.entries(workspace.state)
        # A deliverable that continues an input file of its name is compared with that.
        input_sizes = {
            path.removeprefix(f"{INPUT}/"): entry.size
            for path, entry in entries.items()
            if path.startswith(f"{INPUT}/") and entry.kind == "file"
        }
        completion = Completion(
            task=self.task,
            result=decision.final_result,
            declared=self.declared,
            files=self._shown_files(),
            earlier_sizes={**input_sizes, **memory.sizes},
            criticised=workflow.critic is not None and bool(memory.last),
            critique=memory.score,
            open_subtasks=memory.open_subtasks,
            schemas={each.path: each.schema for each in workflow.deliverables if each.schema},
            settings=workflow.gates,
        )
        memory.sizes |= {path: len(c) for path, c in completion.delivered.items()}
        final = self.final(decision.final_result, decision.confidence, number)

        async def evaluate(_: Completion) -> GateVerdict:
            self.evaluated = await measure(workflow.metrics, final, self.context, workflow.zones)
            return _eval_verdict(self.evaluated)

        return pass_through(completion, {"smoke_test": self._smoke, "eval": evaluate})

    @property
    def declared(self) -> tuple[str, ...]:
        """The deliverables of the workflow and of the plan, and those that the task names."""
        named = [deliverable_path(path) for path in _NAMED_IN_TASK.findall(self.task)]
        own = [each.path for each in self.workflow.deliverables]
        return tuple(dict.fromkeys([*own, *self.memory.declared, *named]))

    def files(self) -> dict[str, bytes]:
        """Every file that is new or changed since the run began, and every deliverable."""
        workspace = self.context.workspace
        there = set(workspace.files)
        paths = [*workspace.changed_since(self.origin), *(p for p in self.declared if p in there)]
        return {path: workspace.read(path) for path in dict.fromkeys(paths)}

    def _shown_files(self) -> dict[str, bytes]:
        return {shown(path): content for path, content in self.files().items()}

    def final(self, result: str, confidence: float | None, number: int) -> Final:
        """The input of the metrics."""
        return Final(
            task=self.task,
            result=result,
            confidence=confidence,
            files=self._shown_files(),
            declared=self.declared,
            defects=tuple(self.memory.defects),
            remaining=self.context.tally.remaining,
            draw=number,
        )

    async def _smoke(self, completion: Completion) -> GateVerdict:
        """Run the scripts that the workflow marks; their changes are undone."""
        findings: list[GateFinding] = []
        for each in self.workflow.deliverables:
            if not each.smoke or each.path not in completion.delivered:
                continue
            if problem := await self._problem_of_script(each.path):
                findings.append(GateFinding(each.path, problem, "smoke_test"))
        return GateVerdict(gate="smoke_test", findings=tuple(findings))

    async def _problem_of_script(self, path: str) -> str:
        runner = {".py": "python", ".sh": "sh"}.get(suffix(path))
        if runner is None:
            return f"{PurePosixPath(path).name} cannot be run: only .py and .sh files can"
        commands, seconds = self.context.commands, self.workflow.gates.smoke_seconds

        async def act() -> Json:
            try:
                ran = await commands.run([runner, path], seconds=seconds)
            except FileTrouble as error:
                return error.message
            return "" if ran.ok else commands.why(ran)

        request: dict[str, Json] = {"script": path, "seconds": seconds}
        return cast(
            "str", await self.context.workspace.step("smoke", request, act, leaves="litter")
        )


def _low_score(measurement: MetricMeasurement) -> str:
    target = "" if measurement.threshold is None else f" of {measurement.threshold:g}"
    return f"{measurement.name} {measurement.score:.2f}{target}"


def _eval_verdict(evaluated: DelegationEvaluation) -> GateVerdict:
    if not evaluated.measured or evaluated.action in ("accept", "pass"):
        return GateVerdict(gate="eval")
    zones, measured, action = evaluated.zones, evaluated.measured, evaluated.action
    if action == "cannot_tell":
        errors = [f"{each.name}: {each.error}" for each in measured if each.score is None]
        detail = f"cannot tell: {'; '.join(errors)}"
    else:
        low = [_low_score(each) for each in measured if each.below(zones.accept)]
        bar = zones.fail if action == "fail" else zones.retry
        detail = f"the total score is {evaluated.total:.3f}, below {bar:g} ({', '.join(low)})"
    finding = GateFinding("", detail, "eval")
    return GateVerdict(gate="eval", findings=(finding,), ends=action == "fail")


def _jobs_for(
    number: int, task: str, chosen: Sequence[Assignment], plan: Sequence[Subtask]
) -> list[WorkerJob]:
    subtasks = {each.id: each for each in plan}
    jobs: dict[str, WorkerJob] = {}
    for assignment in chosen:
        name, again = assignment.worker_id, 2
        while name in jobs:
            name, again = f"{assignment.worker_id}-{again}", again + 1
        criteria: tuple[str, ...] = ()
        if subtask := subtasks.get(assignment.subtask_id):
            files = (f"the file {path} is there" for path in subtask.required_outputs)
            criteria = (*subtask.success_criteria, *files)
        jobs[name] = WorkerJob(
            worker_id=name,
            task=task,
            instructions=assignment.instructions,
            criteria=criteria,
            tools_allowed=tuple(assignment.tools_allowed),
            iteration=number,
            place=len(jobs),
        )
    return list(jobs.values())


def _repair_row(before: CritiquedResult, after: CritiquedResult, attempt: int) -> Json:
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


Status: TypeAlias = Literal["complete", "partial", "failed", "aborted"]


@dataclass(frozen=True, kw_only=True)
class LoopEnding:
    """How a loop ended."""

    status: Status
    reason: str
    result: str = ""
    confidence: float | None = None
    evaluation: DelegationEvaluation | None = None
    """The evaluation of the completion that passed or failed for good."""


@dataclass(kw_only=True)
class ManagerLoop:
    """One manager with its task; managers below it run their own loops in the same context."""

    workflow: Workflow
    context: WorkContext
    recording: Recording
    task: str
    origin: str
    stop: Callable[[], str]
    """Why the run should stop here, to be resumed later; '' if it should not."""
    steer: str = ""
    depth: int = 1
    memory: ManagerMemory = field(default_factory=ManagerMemory)

    async def run(self) -> LoopEnding:
        """Run iterations until one ends the loop."""
        tally, recording = self.context.tally, self.recording
        while True:
            await recording.tick(f"loop {tally.loops + 1}")
            if reason := self.stop():
                raise Interrupted(
                    reason, remedy="everything journaled is kept; resume the run to continue"
                )
            if limit := tally.exhausted():
                recording.event("budget", f"the budget is used up: {limit}", level="WARNING")
                return LoopEnding(status="partial", reason=limit)
            tally.loops += 1
            number = tally.loops
            ending = await self._iteration(number)
            self.recording.budget(number, tally.snapshot())
            if ending is not None:
                return ending

    async def _iteration(self, number: int) -> LoopEnding | None:
        recording = self.recording
        try:
            decision = await self._decide(number)
        except RoleFailed as error:
            recording.event("manager", error.message, level="ERROR", iteration=number)
            kind = "manager_missing" if error.missing else "manager_failed"
            return LoopEnding(status="failed", reason=f"{kind}: {error.message}")
        self.recording.decision(number, decision)
        message = f"decided: {decision.decision}"
        recording.event("manager", message, iteration=number, depth=self.depth)
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
        inputs = [path for path in map(shown, workspace.files) if path.startswith(f"{INPUT}/")]
        hint = policy["experiment_context_hint_template"]
        # Without the time that went by, which would make every request another one.
        timed = ("wall_time", "budget_remaining_pct")
        snapshot = self.context.tally.snapshot()
        budget = {name: each for name, each in snapshot.items() if name not in timed}
        notes = self.context.board.text() if self.context.board else ""
        budget["depth"] = {"used": self.depth, "max": self.workflow.envelope.max_depth}
        situation = Situation(
            steer=f"{self.steer.rstrip()}\n\n" if first and self.steer.strip() else "",
            task=self.task,
            hint=hint.replace("{{ inputs }}", ", ".join(inputs) or "none"),
            preamble=policy["manager_planning_preamble"],
            patterns=policy["pattern_library"],
            own_instructions=self.workflow.own_instructions,
            iteration=number,
            budget=json.dumps(budget),
            tools=self.context.toolkit.listed(),
            plan=plan_lines(memory.plan, memory.subtasks),
            results=f"{memory.results_text()}\n\nBlackboard:\n{notes}"
            if notes
            else memory.results_text(),
            critique=memory.critique_text(),
            rejection=memory.rejection_text(),
            files=listing(workspace),
        )
        return await self.workflow.manager.decide(
            situation, draw=number, effects=self.context.effects
        )

    async def _delegate(self, number: int, assignments: Sequence[Assignment]) -> LoopEnding | None:
        tally, most = self.context.tally, self.workflow.envelope
        recording = self.recording
        chosen = assignments[: max(0, min(most.max_workers_per_iteration, tally.workers_left))]
        if not chosen:
            return LoopEnding(status="partial", reason="max_total_workers")
        if len(chosen) < len(assignments):
            left_out = len(assignments) - len(chosen)
            message = f"{left_out} of {len(assignments)} delegations have no room"
            recording.event("budget", message, level="WARNING", iteration=number)
        tally.workers += len(chosen)
        jobs = _jobs_for(number, self.task, chosen, self.memory.plan)
        results, repairs = await self._work(jobs, chosen)
        self.memory.keep(results, [each.subtask_id for each in chosen])
        await recording.tick(f"delegated {number}")
        self.recording.results(number, results, repairs)
        if self.context.board is not None:
            self.recording.board(self.context.board.notes)
        if self.workflow.critic is not None:
            self.recording.critiques(number, results, self.memory.score)
        return None

    async def _work(
        self, jobs: Sequence[WorkerJob], assignments: Sequence[Assignment]
    ) -> tuple[list[CritiquedResult], list[Json]]:
        done: list[JobOutcome] = []
        while len(done) < len(jobs):
            size = self._batch_size(assignments[len(done) :])
            batch = list(zip(jobs, assignments, strict=True))[len(done) : len(done) + size]
            outcomes = await self._at_once([job for job, _ in batch])
            # Otherwise in turn, since they share the workspace: each starts from the state before.
            done += outcomes or [await self._done(job, each) for job, each in batch]
        criticised = await asyncio.gather(*map(self._criticised, jobs, done))
        repairs: list[Json] = []
        mended = [
            each if this.as_submanager else await self._repaired(each, repairs)
            for each, this in zip(criticised, assignments, strict=True)
        ]
        return mended, repairs

    def _batch_size(self, assignments: Sequence[Assignment]) -> int:
        """How many of these may run at once; a manager below runs alone."""
        most = self.workflow.envelope.max_parallel_workers
        workers = takewhile(lambda each: not each.as_submanager, assignments[:most])
        return max(1, len(list(workers)))

    async def _at_once(self, jobs: Sequence[WorkerJob]) -> list[JobOutcome]:
        """The outcomes of workers that each begin with the same state; empty if they cannot."""
        whole, count = self.context, len(jobs)
        if whole.branch is None or count < 2:
            return []
        made = [whole.branch(place, count) for place in range(count)]
        branches = [branch for branch in made if branch is not None]
        if len(branches) < count:
            return []
        works = [
            asyncio.ensure_future(self.workflow.worker.work(job, branch))
            for job, branch in zip(jobs, branches, strict=True)
        ]
        try:
            outcomes = await asyncio.gather(*works)
        finally:
            for work, branch in zip(works, branches, strict=True):
                work.cancel()
                await branch.workspace.abandon()
            await asyncio.gather(*works, return_exceptions=True)
        whole.join(branches)
        await self._merge(jobs, outcomes)
        for job, branch, outcome in zip(jobs, branches, outcomes, strict=True):
            await branch.workspace.clear()
            self._report(job, outcome.result)
        return outcomes

    async def _merge(self, jobs: Sequence[WorkerJob], outcomes: Sequence[JobOutcome]) -> None:
        """Put the changes of all workers into the workspace; of a file, the last one counts."""
        workspace = self.context.workspace
        store, before = workspace.store, workspace.state
        owners: dict[str, tuple[str, JobOutcome]] = {}
        for job, outcome in zip(jobs, outcomes, strict=True):
            own = job.worker_id
            for path in store.changed(before, outcome.after):
                name, other = owners.get(path, (own, outcome))
                if store.read(other.after, path) != store.read(outcome.after, path):
                    message = f"{name} and {own} both wrote {shown(path)}: that of {own} is kept"
                    number = job.iteration
                    self.recording.event("worker", message, level="WARNING", iteration=number)
                owners[path] = (own, outcome)

        async def act() -> Json:
            for outcome in outcomes:
                await finished(store.apply, before, outcome.after, workspace.folder)
            return None

        states: list[Json] = [outcome.after for outcome in outcomes]
        await workspace.step("merge", {"states": states}, act)

    async def _done(self, job: WorkerJob, assignment: Assignment) -> JobOutcome:
        if assignment.as_submanager and self.depth < self.workflow.envelope.max_depth:
            return await self._submanage(job)
        outcome = await self.workflow.worker.work(job, self.context)
        self._report(job, outcome.result)
        return outcome

    def _report(self, job: WorkerJob, result: WorkerResult) -> None:
        self.recording.event(
            "worker",
            f"{job.worker_id}: {result.status}: {result.summary[:200]}",
            level="INFO" if result.status == "done" else "WARNING",
            iteration=job.iteration,
            worker_id=job.worker_id,
        )

    async def _criticised(self, job: WorkerJob, outcome: JobOutcome) -> CritiquedResult:
        critic = self.workflow.critic
        if critic is None:
            return CritiquedResult(job=job, outcome=outcome)
        if reason := self.context.tally.no_more_calls():
            missing = f"the budget is used up: {reason}"
            return CritiquedResult(job=job, outcome=outcome, missing=missing)
        return await critic.criticise(job, outcome, self.context)

    async def _repaired(self, current: CritiquedResult, history: list[Json]) -> CritiquedResult:
        """Let the same worker repair critical defects, as long as that changes anything."""
        for attempt in range(1, self.workflow.max_repairs + 1):
            if current.critique is None or not current.needs_repair:
                break
            if self.context.tally.no_more_calls():
                break
            job = replace(current.job, attempt=attempt, defects=tuple(current.critique.defects))
            outcome = await self.workflow.worker.work(job, self.context)
            after = await self._criticised(job, replace(outcome, before=current.outcome.before))
            history.append(_repair_row(current, after, attempt))
            message = f"{job.worker_id}: repair {attempt}"
            self.recording.event("repair", message, iteration=job.iteration)
            if after.unchanged_since(current) or after.critique is None:
                break
            current = after
        return current

    async def _submanage(self, job: WorkerJob) -> JobOutcome:
        """Give the job as a task to a manager below this one, on the same budget."""
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
        return JobOutcome(result=result, before=before, after=self.context.workspace.state)

    async def _complete(self, number: int, decision: ManagerDecision) -> LoopEnding | None:
        """Check a completion by the gates; only the top manager's completes the run."""
        done = LoopEnding(
            status="complete",
            reason="complete",
            result=decision.final_result,
            confidence=decision.confidence,
        )
        if self.depth > 1:
            return done
        await self.recording.tick(f"completing {number}")
        checking = self.completion_check()
        rejected: GateVerdict | None = None
        async for verdict in checking.verdicts(decision, number):
            self.recording.gate(number, verdict)
            rejected = None if verdict.passed else verdict
        if checking.evaluated is not None and checking.evaluated.measured:
            self.recording.evaluation(number, checking.evaluated)
            done = replace(done, evaluation=checking.evaluated)
        if rejected is None:
            return done
        memory, most = self.memory, self.workflow.envelope.max_rejected_completions
        memory.rejections.append(rejected)
        times, total = memory.repeated(), len(memory.rejections)
        self.recording.rejection(number, rejected, times=times, most=most, all_=total)
        if rejected.ends:
            return replace(done, status="failed", reason="eval_fail")
        if times < most:
            return None
        if not self._may_repair(rejected, checking.evaluated):
            return replace(done, status="partial", reason="completion_circuit_breaker")
        return await self._forced_repair(number, rejected)

    def _may_repair(self, rejected: GateVerdict, evaluated: DelegationEvaluation | None) -> bool:
        """Once, within the budget, and not if a grader was away: no worker can mend that."""
        tally = self.context.tally
        if self.memory.mended or tally.exhausted() or not tally.workers_left:
            return False
        if rejected.gate == "critique":
            return self.memory.score is not None
        return evaluated is None or evaluated.action != "cannot_tell"

    async def _forced_repair(self, number: int, rejected: GateVerdict) -> LoopEnding | None:
        """Instead of giving up, once, let a worker repair what the gate rejects.

        The manager has twice said that this is done; whether it now is, the gates decide.
        """
        self.memory.mended = True
        message = f"the circuit breaker delegates a repair: {rejected.gate}: {rejected.reason}"
        self.recording.event("repair", message, level="WARNING", iteration=number)
        files = ", ".join(dict.fromkeys(f.file for f in rejected.findings if f.file))
        place = f" The files in question: {files}." if files else ""
        repair = Assignment(
            worker_id="repair",
            instructions=f"A check rejects the result as it is: {rejected.reason}.{place} "
            "Repair exactly this, and leave everything else as it is.",
        )
        return await self._delegate(number, [repair])

    def completion_check(self) -> CompletionCheck:
        """A check of the present state of the run."""
        return CompletionCheck(
            workflow=self.workflow,
            context=self.context,
            task=self.task,
            origin=self.origin,
            memory=self.memory,
        )
