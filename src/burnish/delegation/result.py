"""How a delegation ended: its completion, its loss, its page."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.errors import RoleFailed
from burnish.core.money import NOTHING, Spend
from burnish.delegation.answers import Defect, bullets, defect_lines
from burnish.delegation.evaluation import DelegationEvaluation
from burnish.delegation.gates import GateVerdict
from burnish.delegation.home import Home
from burnish.delegation.loop import LoopEnding, ManagerLoop, Status
from burnish.delegation.manager import ManagerMemory, critique_request
from burnish.delegation.record import FINAL
from burnish.delegation.team import Workflow
from burnish.delegation.workers import CommandWorker, WorkContext
from burnish.system.workspaces import shown

_LIMIT = "the budget is used up"
_WORDS = {
    "stall": "the manager decided the very same three times in a row",
    "fail": "the manager gave up",
    "eval_fail": "the metrics are below the threshold `fail`",
    "completion_circuit_breaker": "the gates sent it back too often for the same reason",
    "max_loops": _LIMIT,
    "max_total_workers": _LIMIT,
    "max_total_tokens": _LIMIT,
    "max_wall_time": _LIMIT,
}
_MORE = "run the task again in another folder with more of it: `budget` in the file, or a flag"
_NEXT = {
    "stall": "name a stronger manager, or say the task in other words, and run it again",
    "fail": "mend what the manager complains of, and run the task again",
    "manager_failed": "name a manager that answers in the form asked for, and run the task again",
    "manager_missing": "see that the model can be reached, and run the task again in another "
    "folder: a resume asks nobody twice",
    **{name: _MORE for name, words in _WORDS.items() if words is _LIMIT},
}


def ending_words(reason: str) -> str:
    """The reason with what it means; one that explains itself stays as it is."""
    meaning = _WORDS.get(reason)
    return reason if meaning is None else f"{reason}: {meaning}"


def next_step(reason: str) -> str:
    """What to do about a run that delivered nothing; empty where its report says it."""
    return _NEXT.get(reason.partition(":")[0], "")


# -- The loss of a delegation ---------------------------------------------------------------------


WEIGHTS = {
    "eval": 0.40,
    "critique": 0.30,
    "gate_reject": 0.15,
    "budget_burn": 0.05,
    "terminal": 0.10,
}
_NEUTRAL = 0.5
_PENALTIES = {"complete": 0.0, "partial": 0.5, "failed": 1.0, "aborted": 1.0}


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
        """From 0, which is perfect, to 1."""
        parts = (self.eval, self.critique, self.gate_reject, self.budget_burn, self.terminal)
        return math.fsum(parts)

    def to_json(self) -> dict[str, Json]:
        """By part, with the total."""
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
    """The loss of these signals; None is a signal that is missing. NaN is refused."""
    left = 1.0 if budget_remaining is None else _share("budget_remaining", budget_remaining)
    raw = {
        "eval": 1 - _or_neutral("eval_score", eval_score),
        "critique": 1 - _or_neutral("critique_score", critique_score),
        "gate_reject": min(1.0, rejections / max(1, max_rejections)),
        "budget_burn": 1 - left,
        "terminal": _PENALTIES.get(status, _NEUTRAL),
    }
    return Loss(**{name: WEIGHTS[name] * value for name, value in raw.items()})


def _or_neutral(name: str, value: float | None) -> float:
    return _NEUTRAL if value is None else _share(name, value)


def _share(name: str, value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}, which is no score")
    return min(1.0, max(0.0, value))


# -- How a delegation ended -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class DelegationResult:
    """What a delegation came to. The same stands in its folder."""

    run_id: str
    run_dir: Path
    status: Status
    """complete: all gates passed. partial: a limit, a stall or the gates ended it. failed: the
    manager gave up or could not be asked, or the metrics are too low. aborted: interrupted."""
    reason: str
    """What ended it: complete, the name of a limit, completion_circuit_breaker, stall, fail, …"""
    task: str
    result: str
    """What the manager reported."""
    confidence: float | None
    iterations: int
    loss: Loss
    deliverables: tuple[Path, ...]
    """The files in FINAL/; none where nothing was delivered."""
    evaluation: DelegationEvaluation | None
    """None where the workflow has no metrics."""
    critique: float | None
    """The critic's mean score of the last results; None where there is none."""
    defects: tuple[Defect, ...]
    """What the critic found in the last results."""
    rejections: tuple[GateVerdict, ...]
    """Every time that a gate sent a completion back, in order."""
    budget: Mapping[str, Json]
    models: Mapping[str, str]
    notes: tuple[str, ...]
    spent: Spend = NOTHING
    billed: Spend = NOTHING
    """With what was lost in flight."""

    @property
    def final(self) -> Path:
        """The folder of the deliverables."""
        return self.run_dir / FINAL

    @property
    def names(self) -> list[str]:
        """The deliverables by paths that can be shown."""
        return [shown(str(path.relative_to(self.final))) for path in self.deliverables]


def _completion_json(
    result: DelegationResult, *, manifest: Mapping[str, Json], completed: str
) -> dict[str, Json]:
    """run_completion.json."""
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
            "defects": [_defect(defect) for defect in result.defects],
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


def _defect(defect: Defect) -> Json:
    """Under its own names, and under those that other readers look for."""
    return {
        **defect.model_dump(mode="json"),
        "summary": defect.description,
        "evidence": defect.location,
    }


def _scorecard_json(
    result: DelegationResult, declared: tuple[str, ...], made: Mapping[str, int], at: str
) -> Json:
    """deliverable_scorecard.json."""
    failed = {path: [v.gate for v in result.rejections if v.first and v.first.file == path]
              for path in declared}  # fmt: skip
    rows: list[Json] = [
        {
            "path": path,
            "exists": path in made,
            "size_bytes": made.get(path, 0),
            "gates_failed": list[Json](failed[path]),
        }
        for path in declared
    ]
    there = [path for path in declared if path in made]
    return {
        "run_id": result.run_id,
        "status": result.status,
        "verified": result.status == "complete",
        "generated_at": at,
        "deliverables_total": len(declared),
        "deliverables_verified": len(there) if result.status == "complete" else 0,
        "paths_source": "required_outputs" if declared else "",
        "deliverables": rows,
    }


def _loops(result: DelegationResult) -> str:
    return f"{result.iterations} iteration{'' if result.iterations == 1 else 's'}"


def _summary_page(result: DelegationResult) -> str:
    """RUN_SUMMARY.md."""
    loss = result.loss.to_json()
    parts = [
        f"# Delegation {result.run_id}",
        f"Status: **{result.status}** ({ending_words(result.reason)}) after {_loops(result)}.",
        f"## Task\n\n{result.task}",
        f"## Result\n\n{result.result or '(none reported)'}",
        f"## Files\n\n{bullets(result.names)}",
        "## Loss\n\nA training score: the same checks that steered the run.\n\n"
        + bullets([f"{name}: {value}" for name, value in loss.items()]),
    ]
    if result.evaluation is not None:
        lines = [
            f"{each.name}: {'missing: ' + each.error if each.score is None else each.score} "
            f"(should reach {each.threshold:g}) {each.evidence}".rstrip()
            for each in result.evaluation.measured
        ]
        parts.append(f"## Metrics\n\n{bullets(lines)}")
    parts.append(f"## Defects that remain\n\n{bullets(defect_lines(result.defects))}")
    sent_back = [f"{v.gate}: {v.reason}" for v in result.rejections]
    parts.append(f"## Sent back by gates\n\n{bullets(sent_back)}")
    roles = [f"{role}: {label}" for role, label in result.models.items()]
    parts.append(f"## Who\n\n{bullets(roles)}")
    parts.append(f"## Notes\n\n{bullets(list(result.notes))}")
    return "\n\n".join(parts) + "\n"


# -- Grading by a fixed rubric --------------------------------------------------------------------


RUBRIC = "critique_rubric"


@dataclass(frozen=True, kw_only=True)
class _Ruled:
    """The mean score of the last results by the fixed rubric; None where it cannot be had."""

    score: float | None


async def ruled(
    workflow: Workflow, memory: ManagerMemory, context: WorkContext, ruler: str
) -> _Ruled | None:
    """The last results graded once more; None where the critic has graded by this rubric."""
    critic = workflow.critic
    if critic is None or context.policy[RUBRIC] == ruler or not memory.last:
        return None
    scores: list[float] = []
    for each in memory.last:
        request = critique_request(each.job, each.worked, context)
        regrade = request.model_copy(update={"rubric": ruler})
        try:
            answer = await critic.role.answer(regrade, draw=each.job.draw, effects=context.effects)
        except RoleFailed:
            return _Ruled(score=None)
        scores.append(answer.value.score)
    return _Ruled(score=math.fsum(scores) / len(scores))


# -- The end of a delegation ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a delegation cost."""

    spent: Spend
    billed: Spend
    """With calls that were lost."""


def finish(
    loop: ManagerLoop,
    home: Home,
    ending: LoopEnding,
    evaluated: DelegationEvaluation | None,
    fixed: _Ruled | None = None,
    *,
    cost: Cost,
) -> DelegationResult:
    """Write the deliverables, the completion, and the page for people.

    `fixed` is the critique that counts where the critic's own does not.
    """
    record, checked = loop.recording.record, loop.completing()
    declared, made = checked.declared, checked.files()
    delivered = {path: made[path] for path in declared if path in made}
    final = delivered or ({} if declared else made)
    delivers = ending.status in ("complete", "partial") and bool(final)
    record.deliver(made, final if delivers else None)
    graded = _Ruled(score=loop.memory.score) if fixed is None else fixed
    files = tuple(final) if delivers else ()
    result = _result(loop, home, ending, evaluated, graded, files, cost)
    at = loop.recording.chronicle.now
    record.completion(
        _completion_json(result, manifest=home.manifest, completed=at),
        _scorecard_json(result, declared, {path: len(c) for path, c in made.items()}, at),
        _summary_page(result),
    )
    return result


def _result(
    loop: ManagerLoop,
    home: Home,
    ending: LoopEnding,
    evaluated: DelegationEvaluation | None,
    graded: _Ruled,
    final: tuple[str, ...],
    cost: Cost,
) -> DelegationResult:
    tally, memory, workflow = loop.context.tally, loop.memory, loop.workflow
    loss = delegation_loss(
        eval_score=None if evaluated is None else evaluated.total,
        critique_score=graded.score,
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
        critique=graded.score,
        defects=tuple(memory.defects),
        rejections=tuple(memory.rejections),
        budget=tally.snapshot(),
        models=workflow.models,
        notes=(*workflow.notes(), *_notes(loop)),
        spent=cost.spent,
        billed=cost.billed,
    )


def _notes(loop: ManagerLoop) -> list[str]:
    sandbox, worker = loop.context.commands.sandbox, loop.workflow.worker
    notes = [f"sandbox: {sandbox.isolation.summary}"]
    if sandbox.isolation.kind != "none":
        notes += _open_doors(loop.workflow)
    if isinstance(worker, CommandWorker) and not loop.context.tally.tokens_told:
        notes.append("the program did not say how many tokens it used: they are not counted")
    return notes


def _open_doors(workflow: Workflow) -> list[str]:
    """Who may use the network though commands are isolated."""
    worker = workflow.worker
    program = isinstance(worker, CommandWorker) and worker.network
    doors = (("the program", program), ("commands", workflow.network))
    who = " and ".join(name for name, may in doors if may)
    return [f"by the workflow, {who} may use the network"] if who else []
