"""The loss of a run, from its files: the same number whoever wrote them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.content import Json
from burnish.core.evaluations import mean
from burnish.strategies.refine.run_files import (
    COMPLETION,
    MANIFEST,
    json_rows,
    mapping,
    number,
    read_json,
    text,
)
from burnish.targets.delegation.loss import Loss, delegation_loss

MAX_REJECTIONS = 2
_REJECTED = frozenset(("reject", "rejected", "fail", "failed"))


@dataclass(frozen=True, kw_only=True)
class RunSignals:
    """What the loss is made of; None where a run does not say, which counts as neutral."""

    eval_score: float | None
    critique_score: float | None
    rejections: int
    max_rejections: int
    budget_remaining: float | None
    status: str

    @property
    def loss(self) -> Loss:
        """The five parts and their sum."""
        return delegation_loss(**vars(self))

    def to_json(self) -> dict[str, Json]:
        """As a manifest keeps them."""
        return dict(vars(self))


def run_signals(run: Path) -> RunSignals:
    """What the run in this folder came to."""
    completion = mapping(read_json(run / COMPLETION))
    rows = list(json_rows(run / "metrics.jsonl"))
    left = number(mapping(completion.get("final_budget")).get("budget_remaining_pct"))
    return RunSignals(
        eval_score=_eval(completion, rows),
        critique_score=_critique(completion, rows),
        rejections=len(_rejections(rows)),
        max_rejections=_allowed(run, completion),
        budget_remaining=None if left is None else left / 100,
        status=text(completion.get("status")),
    )


def _eval(completion: Mapping[str, Json], rows: Sequence[Mapping[str, Json]]) -> float | None:
    told = (
        mapping(completion.get("eval")).get("score"),
        mapping(completion.get("evaluation")).get("total_score"),
    )
    return _first(told) if _first(told) is not None else _mean(rows, "metric.eval")


def _critique(completion: Mapping[str, Json], rows: Sequence[Mapping[str, Json]]) -> float | None:
    told = (mapping(completion.get("critique")).get("score"), completion.get("critique_score"))
    return _first(told) if _first(told) is not None else _mean(rows, "metric.critique")


def _first(told: Sequence[Json]) -> float | None:
    return next((found for each in told if (found := number(each)) is not None), None)


def _mean(rows: Sequence[Mapping[str, Json]], kind: str) -> float | None:
    scores = [number(row.get("score")) for row in rows if row.get("kind") == kind]
    known = [score for score in scores if score is not None]
    return mean(known) if known else None


def _rejections(rows: Sequence[Mapping[str, Json]]) -> set[tuple[str, str]]:
    """Each rejection once: some gates are written down twice by awp-agents."""
    return {
        (str(row.get("iteration")), str(row.get("gate")))
        for row in rows
        if row.get("kind") == "metric.gate" and row.get("verdict") in _REJECTED
    }


def _allowed(run: Path, completion: Mapping[str, Json]) -> int:
    name = "max_rejected_completions"
    budget = mapping(mapping(read_json(run / MANIFEST)).get("budget"))
    told = (number(mapping(completion.get("config_used")).get(name)), number(budget.get(name)))
    return next((int(each) for each in told if each and each >= 1), MAX_REJECTIONS)
