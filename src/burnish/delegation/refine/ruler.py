"""One ruler: the seed and the iterations graded by the same metrics, critic and rule."""

import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json, short_id
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend, total
from burnish.delegation.answers import Defect, WorkerResult
from burnish.delegation.delegation import Delegation, Site, work_context
from burnish.delegation.envelope import Envelope
from burnish.delegation.evaluation import DelegationJudge, DelegationMetric, Final, measure
from burnish.delegation.manager import critique_request
from burnish.delegation.refine.gradients import (
    COMPLETION,
    RunSignals,
    mapping,
    number,
    read_json,
    text,
)
from burnish.delegation.refine.seeds import Seed
from burnish.delegation.result import RUBRIC
from burnish.delegation.team import Workflow
from burnish.delegation.workers import JobOutcome, WorkContext, WorkerJob
from burnish.journal.once import NamedScope
from burnish.system.workspaces import shown
from burnish.targets.artifacts.task import finished

_USED = {
    "max_loops": ("loops", "used"),
    "max_total_workers": ("workers", "spawned"),
    "max_total_tokens": ("tokens", "consumed"),
    "max_tool_calls": ("tool_calls", "used"),
    "max_wall_time": ("wall_time", "elapsed_s"),
}


@dataclass(frozen=True, kw_only=True)
class Grade:
    """What the metrics and the critic say of one deliverable."""

    scores: Mapping[str, float]
    """By metric; those without a score are missing."""
    critique: float | None


@dataclass(frozen=True, kw_only=True)
class Ruler:
    """Grades a deliverable by the files alone, and by what the seed reported too."""

    delegation: Delegation
    metrics: tuple[DelegationMetric, ...]
    """Those that can be measured on both sides."""
    left_out: tuple[str, ...]
    """The names of the others."""
    reports: bool
    """Whether the seed reported a result, so that judges may see those of the iterations."""

    @property
    def id(self) -> str:
        """A hash of the graders: losses under another one are not comparable."""
        inputs, delegation = self.delegation.workflow.inputs(), self.delegation
        names: list[Json] = [each.name for each in self.metrics]
        rubric = delegation.policy[RUBRIC]
        return short_id([inputs["critic"], inputs["checks"], rubric, names, self.reports])

    @property
    def cost(self) -> Spend:
        """What it costs to grade one deliverable: the critic and the judges among the metrics."""
        critic = self.delegation.workflow.critic
        roles = [] if critic is None else [critic.role.client]
        roles += [each.role.client for each in self.metrics if isinstance(each, DelegationJudge)]
        return total(client.estimate() for client in roles)

    async def grade(self, name: str, run: Path, deliverable: Path, site: Site) -> Grade:
        """Grade what a run delivered, in a workspace of its own."""
        delegation = self.delegation.redacted(site.redactor)
        workflow = delegation.workflow
        scope = NamedScope(site.effects, f"grade {name}")
        context = work_context(workflow, site, delegation.policy, scope, {})
        workspace = context.workspace

        async def fill() -> Json:
            await finished(delegation.starting_files.fill, workspace.folder)
            return None

        async def deliver() -> Json:
            await finished(_copy_into, deliverable, workspace.folder)
            return None

        await workspace.step("begin", {"grade": name}, fill)
        origin = workspace.state
        await workspace.step("deliver", {"grade": name}, deliver)
        completion = mapping(read_json(run / COMPLETION))
        result = text(completion.get("result")) if self.reports else ""
        critique, defects = await _critique(delegation, context, origin, result)
        files = {shown(path): workspace.read(path) for path in workspace.changed_since(origin)}
        final = Final(
            task=delegation.task,
            result=result,
            confidence=number(completion.get("confidence")),
            files=files,
            declared=tuple(files),
            defects=defects,
            remaining=1.0,
            draw=1,
        )
        evaluated = await measure(self.metrics, final, context, workflow.zones)
        await workspace.clear()
        return Grade(scores=evaluated.per_metric, critique=critique)

    def signals(self, own: RunSignals, grade: Grade, seed: Grade) -> RunSignals:
        """The signals of a run under this ruler: only what the seed has, too."""
        weights = {each.name: each.weight for each in self.metrics if each.name in seed.scores}
        complete = bool(weights) and weights.keys() <= grade.scores.keys()
        weighted = [grade.scores[name] * weights[name] for name in weights] if complete else []
        score = math.fsum(weighted) / math.fsum(weights.values()) if complete else None
        critique = None if seed.critique is None else grade.critique
        return replace(own, eval_score=score, critique_score=critique)


async def _critique(
    delegation: Delegation, context: WorkContext, origin: str, result: str
) -> tuple[float | None, tuple[Defect, ...]]:
    """The critic's score of all files, as if one worker had made them in one go."""
    critic, task = delegation.workflow.critic, delegation.task
    if critic is None:
        return None, ()
    job = WorkerJob(worker_id="graded", task=task, instructions=task, iteration=1)
    report = WorkerResult(summary="delivered", result=result)
    outcome = JobOutcome(result=report, before=origin, after=context.workspace.state)
    request = critique_request(job, outcome, context)
    try:
        answer = await critic.critique(request, draw=job.draw, effects=context.effects)
    except RoleFailed:
        return None, ()
    return answer.score, tuple(answer.defects)


def ruler_for(seed: Seed, delegation: Delegation) -> Ruler | None:
    """The ruler of a refinement; None if the seed was graded just as its iterations will be."""
    workflow, completion = delegation.workflow, mapping(read_json(seed.folder / COMPLETION))
    reports = bool(text(completion.get("result")))
    known = {"result.text", "result.length"} if reports else set[str]()
    known |= set() if number(completion.get("confidence")) is None else {"result.confidence"}
    metrics = tuple(each for each in workflow.metrics if each.reads <= known)
    if metrics == workflow.metrics and _graded_alike(seed, workflow, completion):
        return None
    left_out = tuple(each.name for each in workflow.metrics if each not in metrics)
    return Ruler(delegation=delegation, metrics=metrics, left_out=left_out, reports=reports)


def _graded_alike(seed: Seed, workflow: Workflow, completion: Mapping[str, Json]) -> bool:
    """Whether the same critic and metrics graded the seed, and left nothing out."""
    before, now = mapping(seed.manifest.get("inputs")), workflow.inputs()
    same = all(before.get(name) == now[name] for name in ("critic", "checks"))
    signals = seed.signals
    scored = not workflow.metrics or signals.eval_score is not None
    scored &= workflow.critic is None or signals.critique_score is not None
    return same and scored and not mapping(completion.get("evaluation")).get("missing")


def share_left(run: Path, whole: Envelope) -> float | None:
    """How much of the seed's whole budget a run left, whatever its own budget was."""
    budget = mapping(mapping(read_json(run / COMPLETION)).get("final_budget"))
    shares: list[float] = []
    for limit, (outer, inner) in _USED.items():
        used = number(mapping(budget.get(outer)).get(inner))
        shares += [] if used is None else [1 - used / getattr(whole, limit)]
    return max(0.0, min(shares)) if shares else None


def _copy_into(deliverable: Path, folder: Path) -> None:
    shutil.copytree(deliverable, folder, dirs_exist_ok=True, ignore_dangling_symlinks=True)
