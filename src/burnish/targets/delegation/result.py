"""How a delegation ended: for callers as data, for readers as run_completion.json and a page."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.money import NOTHING, Spend
from burnish.system.workspaces import shown
from burnish.targets.delegation.endings import ending_words
from burnish.targets.delegation.evaluating import Evaluated
from burnish.targets.delegation.gates.completion import Verdict
from burnish.targets.delegation.loop import Status
from burnish.targets.delegation.loss import Loss
from burnish.targets.delegation.record import FINAL
from burnish.targets.delegation.showing import bullets, defect_lines
from burnish.targets.delegation.words import Defect


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
    evaluation: Evaluated | None
    """None where the workflow has no metrics."""
    critique: float | None
    """The critic's mean score of the last results; None where there is none."""
    defects: tuple[Defect, ...]
    """What the critic found in the last results."""
    rejections: tuple[Verdict, ...]
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


def completion_json(
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


def scorecard_json(
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


def summary_page(result: DelegationResult) -> str:
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
