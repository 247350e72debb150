"""How a delegation ended: its completion, its loss, its page."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.formatting import counted
from burnish.core.money import NOTHING, Spend
from burnish.delegation.answers import Defect, bullets, defect_lines
from burnish.delegation.evaluation import DelegationEvaluation, MetricMeasurement
from burnish.delegation.gates import GateVerdict
from burnish.delegation.loop import LoopEnding, ManagerLoop, Status
from burnish.delegation.manager import critique_request
from burnish.delegation.record import FINAL, Home
from burnish.delegation.workers import CommandWorker
from burnish.system.workspaces import shown

_LIMIT = "the budget is used up"
_WORDS = {
    "stall": "the manager made the same decision three times in a row",
    "fail": "the manager gave up",
    "eval_fail": "the metrics are below the threshold `fail`",
    "completion_circuit_breaker": "the gates rejected it too often for the same reason",
    "max_loops": _LIMIT,
    "max_total_workers": _LIMIT,
    "max_total_tokens": _LIMIT,
    "max_wall_time": _LIMIT,
}
_MORE = "run the task again in another folder with a higher limit: `budget` in the file, or a flag"
_NEXT = {
    "stall": "name a stronger manager or rephrase the task, and run it again",
    "fail": "fix what the manager reports, and run the task again",
    "manager_failed": "name a manager that follows the answer format, and run the task again",
    "manager_missing": "make sure that the model can be reached, and run the task again in another "
    "folder: a resume does not repeat the call",
    **{name: _MORE for name, words in _WORDS.items() if words is _LIMIT},
}


def ending_words(reason: str) -> str:
    """The reason with its meaning, if it needs one."""
    meaning = _WORDS.get(reason)
    return reason if meaning is None else f"{reason}: {meaning}"


def next_step(reason: str) -> str:
    """What to do about a run that delivered nothing; empty if its report says it."""
    return _NEXT.get(reason.partition(":")[0], "")


WEIGHTS = {
    "eval": 0.40,
    "critique": 0.30,
    "gate_reject": 0.15,
    "budget_burn": 0.05,
    "terminal": 0.10,
}
_NEUTRAL = 0.5


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The parts, each from 0 to its weight, and their sum."""

    eval: float
    critique: float
    gate_reject: float
    budget_burn: float
    terminal: float

    @property
    def total(self) -> float:
        """From 0 (perfect) to 1."""
        return math.fsum(vars(self).values())

    def to_json(self) -> dict[str, Json]:
        parts: dict[str, Json] = {name: round(getattr(self, name), 6) for name in WEIGHTS}
        return {**parts, "total": round(self.total, 6)}


def delegation_loss(
    *,
    eval_score: float | None,
    critique_score: float | None,
    rejections: int,
    max_rejections: int,
    budget_remaining: float | None,
    status: str,
) -> Loss:
    """The loss of these signals; None is a missing signal. NaN is rejected."""
    penalties = {"complete": 0.0, "partial": 0.5, "failed": 1.0, "aborted": 1.0}
    raw = {
        "eval": 1 - _share("eval_score", eval_score),
        "critique": 1 - _share("critique_score", critique_score),
        "gate_reject": min(1.0, rejections / max(1, max_rejections)),
        "budget_burn": 1 - _share("budget_remaining", budget_remaining, missing=1.0),
        "terminal": penalties.get(status, _NEUTRAL),
    }
    return Loss(**{name: WEIGHTS[name] * value for name, value in raw.items()})


def _share(name: str, value: float | None, missing: float = _NEUTRAL) -> float:
    if value is None:
        return missing
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is not a score")
    return min(1.0, max(0.0, value))


@dataclass(frozen=True, kw_only=True)
class DelegationResult:
    """The result of a delegation, as it is also stored in its folder."""

    run_id: str
    run_dir: Path
    status: Status
    """complete: all gates passed. partial: a limit, a stall or the gates ended it. failed: the
    manager gave up or could not be asked, or the metrics are too low. aborted: interrupted."""
    reason: str
    """What ended it: complete, the name of a limit, completion_circuit_breaker, stall, fail, …"""
    task: str
    result: str
    confidence: float | None
    iterations: int
    loss: Loss
    deliverables: tuple[Path, ...]
    """The files in FINAL/; empty if nothing was delivered."""
    evaluation: DelegationEvaluation | None
    """None if the workflow has no metrics."""
    critique: float | None
    """The critic's mean score of the last results; None without a critique."""
    defects: tuple[Defect, ...]
    rejections: tuple[GateVerdict, ...]
    """Every rejection of a completion, in order."""
    budget: Mapping[str, Json]
    models: Mapping[str, str]
    notes: tuple[str, ...]
    spent: Spend = NOTHING
    billed: Spend = NOTHING
    """Including calls whose answers were lost."""

    @property
    def final(self) -> Path:
        return self.run_dir / FINAL

    @property
    def names(self) -> list[str]:
        return [shown(str(path.relative_to(self.final))) for path in self.deliverables]


def _completion_json(
    result: DelegationResult, *, manifest: Mapping[str, Json], completed: str
) -> dict[str, Json]:
    evaluation = result.evaluation
    total = None if evaluation is None else evaluation.total
    budget = manifest.get("budget")
    limits = budget if isinstance(budget, dict) else {}
    data: dict[str, Json] = {
        "run_id": result.run_id,
        "status": result.status,
        "reason": result.reason,
        "total_iterations": result.iterations,
        "final_budget": dict(result.budget),
        "completed": completed,
        "parent_run_id": manifest.get("parent_run_id"),
        "tags": manifest.get("tags", []),
        "task": result.task,
        "induced_tools": [],
        "result": result.result,
        "confidence": result.confidence,
        "models": dict[str, Json](result.models),
        "max_depth": limits.get("max_depth"),
        "config_used": {"max_rejected_completions": limits.get("max_rejected_completions")},
        "critique": {
            "score": None if result.critique is None else round(result.critique, 4),
            # Under their own names, and under those that other readers look for.
            "defects": [{**d.model_dump(mode="json"), "summary": d.description,
                         "evidence": d.location} for d in result.defects],
        },
        "rejections": [{"gate": v.gate, "reason": v.reason} for v in result.rejections],
        "deliverables": list[Json](result.names),
        "loss": result.loss.to_json(),
        "loss_total": round(result.loss.total, 6),
        "spent": {"calls": result.spent.calls, "tokens": result.spent.tokens,
                  "usd": result.spent.usd},
        "notes": list(result.notes),
    }  # fmt: skip
    if evaluation is not None:
        data["evaluation"] = evaluation.to_json()
    if total is not None:
        data["eval"] = {"score": round(total, 6)}
    return data


def _scorecard_json(
    result: DelegationResult, declared: tuple[str, ...], made: Mapping[str, int], at: str
) -> Json:
    rows: list[Json] = [
        {
            "path": path,
            "exists": path in made,
            "size_bytes": made.get(path, 0),
            "gates_failed": [v.gate for v in result.rejections if v.first and v.first.file == path],
        }
        for path in declared
    ]
    complete = result.status == "complete"
    return {
        "run_id": result.run_id,
        "status": result.status,
        "verified": complete,
        "generated_at": at,
        "deliverables_total": len(declared),
        "deliverables_verified": sum(path in made for path in declared) if complete else 0,
        "paths_source": "required_outputs" if declared else "",
        "deliverables": rows,
    }


def _metric_line(measurement: MetricMeasurement) -> str:
    score = measurement.score
    value = f"missing: {measurement.error}" if score is None else str(score)
    target = measurement.threshold
    goal = "" if target is None else f"(should reach {target:g})"
    return " ".join(filter(None, (f"{measurement.name}: {value}", goal, measurement.evidence)))


def _summary_page(result: DelegationResult) -> str:
    loss, iterations = result.loss.to_json(), counted(result.iterations, "iteration")
    parts = [
        f"# Delegation {result.run_id}",
        f"Status: **{result.status}** ({ending_words(result.reason)}) after {iterations}.",
        f"## Task\n\n{result.task}",
        f"## Result\n\n{result.result or '(none reported)'}",
        f"## Files\n\n{bullets(result.names)}",
        "## Loss\n\nA training score: the same checks that steered the run.\n\n"
        + bullets([f"{name}: {value}" for name, value in loss.items()]),
    ]
    if result.evaluation is not None:
        lines = [_metric_line(each) for each in result.evaluation.measured]
        parts.append(f"## Metrics\n\n{bullets(lines)}")
    sections = {
        "Defects that remain": defect_lines(result.defects),
        "Rejected by gates": [f"{v.gate}: {v.reason}" for v in result.rejections],
        "Who": [f"{role}: {label}" for role, label in result.models.items()],
        "Notes": list(result.notes),
    }
    parts += [f"## {title}\n\n{bullets(lines)}" for title, lines in sections.items()]
    return "\n\n".join(parts) + "\n"


RUBRIC = "critique_rubric"


async def graded(loop: ManagerLoop, ruler: str | None) -> float | None:
    """The critique that counts: regraded by `ruler` if the critic used another rubric."""
    critic, memory, context = loop.workflow.critic, loop.memory, loop.context
    if not ruler or critic is None or context.policy[RUBRIC] == ruler or not memory.last:
        return memory.score
    scores: list[float] = []
    for each in memory.last:
        request = critique_request(each.job, each.outcome, context)
        regrade = request.model_copy(update={"rubric": ruler})
        try:
            answer = await critic.critique(regrade, draw=each.job.draw, effects=context.effects)
        except RoleFailed:
            return None
        scores.append(answer.score)
    return math.fsum(scores) / len(scores)


def finish(
    loop: ManagerLoop,
    home: Home,
    ending: LoopEnding,
    *,
    critique: float | None,
    spent: Spend,
    billed: Callable[[], Spend] | None,
) -> DelegationResult:
    """Write the deliverables, the completion, and the page for people."""
    recording, checked = loop.recording, loop.completion_check()
    declared, made = checked.declared, checked.files()
    delivered = {path: made[path] for path in declared if path in made}
    final = delivered or ({} if declared else made)
    delivers = ending.status in ("complete", "partial") and bool(final)
    recording.deliver(made, final if delivers else None)
    result = replace(
        _result(loop, home, ending, critique, tuple(final) if delivers else ()),
        spent=spent,
        billed=spent if billed is None else billed(),
    )
    at = recording.now
    recording.completion(
        _completion_json(result, manifest=home.manifest, completed=at),
        _scorecard_json(result, declared, {path: len(c) for path, c in made.items()}, at),
        _summary_page(result),
    )
    return result


def _result(
    loop: ManagerLoop,
    home: Home,
    ending: LoopEnding,
    critique: float | None,
    final: tuple[str, ...],
) -> DelegationResult:
    tally, memory, workflow = loop.context.tally, loop.memory, loop.workflow
    evaluated = ending.evaluation
    loss = delegation_loss(
        eval_score=None if evaluated is None else evaluated.total,
        critique_score=critique,
        rejections=len(memory.rejections),
        max_rejections=workflow.envelope.max_rejected_completions,
        budget_remaining=tally.remaining,
        status=ending.status,
    )
    return DelegationResult(
        run_id=home.run_id,
        run_dir=home.folder,
        status=ending.status,
        reason=ending.reason,
        task=loop.task,
        result=ending.result,
        confidence=ending.confidence,
        iterations=tally.loops,
        loss=loss,
        deliverables=tuple(home.folder / FINAL / path for path in final),
        evaluation=evaluated,
        critique=critique,
        defects=tuple(memory.defects),
        rejections=tuple(memory.rejections),
        budget=tally.snapshot(),
        models=workflow.models,
        notes=(*workflow.notes(), *_notes(loop)),
    )


def _notes(loop: ManagerLoop) -> list[str]:
    sandbox, worker = loop.context.commands.sandbox, loop.workflow.worker
    program = isinstance(worker, CommandWorker)
    notes = [f"sandbox: {sandbox.isolation.notice}"]
    doors = {"the program": program and worker.network, "commands": loop.workflow.network}
    who = " and ".join(name for name, may in doors.items() if may)
    if sandbox.isolation.kind != "none" and who:
        notes.append(f"the workflow allows network access for {who}")
    if program and not loop.context.tally.tokens_reported:
        notes.append("the program did not report its tokens: they are not counted")
    return notes
