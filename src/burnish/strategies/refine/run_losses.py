"""The loss of a run, from its files: the same number whoever wrote them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from burnish.core.content import Json
from burnish.core.evaluations import mean
from burnish.strategies.refine.run_files import mapping, number, read_json
from burnish.targets.delegation.loss import Loss, delegation_loss

MAX_REJECTIONS = 2
_REJECTED = frozenset(("reject", "rejected", "fail", "failed"))


def run_loss(run: Path) -> Loss:
    """The loss of the run in this folder; a signal that is not there counts as neutral."""
    completion = mapping(read_json(run / "run_completion.json"))
    rows = list(_metric_rows(run / "metrics.jsonl"))
    left = number(mapping(completion.get("final_budget")).get("budget_remaining_pct"))
    most = number(mapping(completion.get("config_used")).get("max_rejected_completions")) or 0
    status = completion.get("status")
    return delegation_loss(
        eval_score=_eval(completion, rows),
        critique_score=_critique(completion, rows),
        rejections=len(_rejections(rows)),
        max_rejections=int(most) if most > 0 else _allowed(run),
        budget_remaining=None if left is None else left / 100,
        status=status if isinstance(status, str) else "",
    )


def _eval(completion: Mapping[str, Json], rows: list[Mapping[str, Json]]) -> float | None:
    told = number(mapping(completion.get("eval")).get("score"))
    told = (
        told
        if told is not None
        else number(mapping(completion.get("evaluation")).get("total_score"))
    )
    return told if told is not None else _mean(rows, "metric.eval")


def _critique(completion: Mapping[str, Json], rows: list[Mapping[str, Json]]) -> float | None:
    told = number(mapping(completion.get("critique")).get("score"))
    told = told if told is not None else number(completion.get("critique_score"))
    return told if told is not None else _mean(rows, "metric.critique")


def _mean(rows: list[Mapping[str, Json]], kind: str) -> float | None:
    scores = [number(row.get("score")) for row in rows if row.get("kind") == kind]
    known = [score for score in scores if score is not None]
    return mean(known) if known else None


def _rejections(rows: list[Mapping[str, Json]]) -> set[tuple[str, str]]:
    """Each rejection once: some gates are written down twice by awp-agents."""
    return {
        (str(row.get("iteration")), str(row.get("gate")))
        for row in rows
        if row.get("kind") == "metric.gate" and row.get("verdict") in _REJECTED
    }


def _allowed(run: Path) -> int:
    budget = mapping(mapping(read_json(run / "run_manifest.json")).get("budget"))
    found = number(budget.get("max_rejected_completions"))
    return int(found) if found else MAX_REJECTIONS


def _metric_rows(path: Path) -> Iterator[Mapping[str, Json]]:
    """The rows that can be read; a torn one at the end of a killed run is left out."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield mapping(cast("Json", json.loads(line)))
        except ValueError:
            continue
