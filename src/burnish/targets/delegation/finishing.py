"""The end of a delegation: deliverables put in place, the loss computed, the completion written."""

from dataclasses import dataclass

from burnish.core.money import Spend
from burnish.targets.delegation.command_worker import CommandWorker
from burnish.targets.delegation.evaluating import Evaluated
from burnish.targets.delegation.home import Home
from burnish.targets.delegation.loop import Ending, ManagerLoop
from burnish.targets.delegation.loss import delegation_loss
from burnish.targets.delegation.record import FINAL
from burnish.targets.delegation.result import (
    DelegationResult,
    completion_json,
    scorecard_json,
    summary_page,
)
from burnish.targets.delegation.ruling import Ruled
from burnish.targets.delegation.workflow import Workflow


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a delegation cost."""

    spent: Spend
    billed: Spend
    """With calls that were lost."""


def finish(
    loop: ManagerLoop,
    home: Home,
    ending: Ending,
    evaluated: Evaluated | None,
    fixed: Ruled | None = None,
    *,
    cost: Cost,
) -> DelegationResult:
    """Write the deliverables, the completion, and the page for people.

    `fixed` is the critique that counts where the critic's own does not.
    """
    record, checked = loop.telling.record, loop.completing()
    declared, made = checked.declared, checked.files()
    wanted = {path: made[path] for path in declared if path in made}
    final = wanted or ({} if declared else made)
    delivers = ending.status in ("complete", "partial") and bool(final)
    record.deliver(made, final if delivers else None)
    graded = Ruled(score=loop.memory.score) if fixed is None else fixed
    files = tuple(final) if delivers else ()
    result = _result(loop, home, ending, evaluated, graded, files, cost)
    at = loop.telling.chronicle.now
    record.completion(
        completion_json(result, manifest=home.manifest, completed=at),
        scorecard_json(result, declared, {path: len(c) for path, c in made.items()}, at),
        summary_page(result),
    )
    return result


def _result(
    loop: ManagerLoop,
    home: Home,
    ending: Ending,
    evaluated: Evaluated | None,
    graded: Ruled,
    final: tuple[str, ...],
    cost: Cost,
) -> DelegationResult:
    tally, memory, workflow = loop.desk.tally, loop.memory, loop.workflow
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
    sandbox, worker = loop.desk.commands.sandbox, loop.workflow.worker
    notes = [f"sandbox: {sandbox.isolation.told}"]
    if sandbox.isolation.kind != "none":
        notes += _open_doors(loop.workflow)
    if isinstance(worker, CommandWorker) and not loop.desk.tally.tokens_told:
        notes.append("the program did not say how many tokens it used: they are not counted")
    return notes


def _open_doors(workflow: Workflow) -> list[str]:
    """Who may use the network though commands are isolated."""
    worker = workflow.worker
    program = isinstance(worker, CommandWorker) and worker.network
    told = (("the program", program), ("commands", workflow.network))
    who = " and ".join(name for name, may in told if may)
    return [f"by the workflow, {who} may use the network"] if who else []
