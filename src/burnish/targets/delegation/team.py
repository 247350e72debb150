"""Workers of one iteration: one after the other, then critique, then repair of what is critical."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from burnish.core.content import Json
from burnish.targets.delegation.chronicle import Chronicle
from burnish.targets.delegation.critic import Criticised
from burnish.targets.delegation.desk import Desk, Job, Worked
from burnish.targets.delegation.words import Assignment, Subtask
from burnish.targets.delegation.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Team:
    """Sets workers to work, and has their results criticised."""

    workflow: Workflow
    desk: Desk
    chronicle: Chronicle
    submanage: Callable[[Job], Awaitable[Worked]] | None
    """Hands a job to a manager below; None where the depth is used up."""

    async def work(
        self, jobs: Sequence[Job], told: Sequence[Assignment]
    ) -> tuple[list[Criticised], list[Json]]:
        """What came of every job, and the repairs that it took."""
        # In turn, since they share the workspace: each step starts from the state before it.
        done = [await self._done(job, each) for job, each in zip(jobs, told, strict=True)]
        found = await asyncio.gather(*map(self._criticised, jobs, done))
        repairs: list[Json] = []
        mended = [
            each if this.as_submanager else await self._repaired(each, repairs)
            for each, this in zip(found, told, strict=True)
        ]
        return mended, repairs

    async def _done(self, job: Job, told: Assignment) -> Worked:
        if told.as_submanager and self.submanage is not None:
            return await self.submanage(job)
        worked = await self.workflow.worker.work(job, self.desk)
        result = worked.result
        self.chronicle.event(
            "worker",
            f"{job.worker_id}: {result.status}: {result.summary[:200]}",
            level="INFO" if result.status == "done" else "WARNING",
            iteration=job.iteration,
            worker_id=job.worker_id,
        )
        return worked

    async def _criticised(self, job: Job, worked: Worked) -> Criticised:
        critic = self.workflow.critic
        if critic is None:
            return Criticised(job=job, worked=worked)
        if reason := self.desk.tally.no_more_calls():
            missing = f"the budget is used up: {reason}"
            return Criticised(job=job, worked=worked, missing=missing)
        return await critic.criticise(job, worked, self.desk)

    async def _repaired(self, found: Criticised, history: list[Json]) -> Criticised:
        """The same worker mends what is critical, a few times, while that changes anything."""
        for attempt in range(1, self.workflow.max_repairs + 1):
            if found.critique is None or not found.needs_repair:
                break
            if self.desk.tally.no_more_calls():
                break
            job = replace(found.job, attempt=attempt, defects=tuple(found.critique.defects))
            worked = await self.workflow.worker.work(job, self.desk)
            after = await self._criticised(job, replace(worked, before=found.worked.before))
            history.append(_repair_row(found, after, attempt))
            told = f"{job.worker_id}: repair {attempt}"
            self.chronicle.event("repair", told, iteration=job.iteration)
            if after.unchanged_since(found) or after.critique is None:
                break
            found = after
        return found


def jobs_for(
    number: int, task: str, chosen: Sequence[Assignment], plan: Sequence[Subtask]
) -> list[Job]:
    """The jobs of an iteration, each with a name of its own and the criteria of its subtask."""
    subtasks = {each.id: each for each in plan}
    jobs: dict[str, Job] = {}
    for told in chosen:
        name, again = told.worker_id, 2
        while name in jobs:
            name, again = f"{told.worker_id}-{again}", again + 1
        jobs[name] = Job(
            worker_id=name,
            task=task,
            instructions=told.instructions,
            criteria=_criteria(subtasks.get(told.subtask_id)),
            tools_allowed=tuple(told.tools_allowed),
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
