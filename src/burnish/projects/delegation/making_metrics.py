"""From the metrics of a workflow file to metrics."""

from collections.abc import Callable
from typing import Any

from burnish.models.roles import ModelRole
from burnish.projects.delegation.metric_blocks import (
    AssertionBlock,
    CommandBlock,
    ExpressionBlock,
    JudgeBlock,
    Metric,
    PlainBlock,
)
from burnish.targets.delegation.evaluating import DelegationMetric
from burnish.targets.delegation.metrics import (
    Assertion,
    BudgetUtility,
    CommandScore,
    Expression,
    JudgeRequest,
    PolicyScore,
    RubricJudge,
)
from burnish.targets.delegation.words import Judgement

MakeJudge = Callable[[], ModelRole[JudgeRequest, Judgement]]


def make_metric(block: Metric, judge: MakeJudge) -> DelegationMetric:
    """One metric; `judge` gives the role that judges, where one is needed."""
    settings = {} if isinstance(block, PlainBlock) else block.params.model_dump(mode="json")
    common: dict[str, Any] = {
        "name": block.name,
        "kind": block.kind,
        "weight": block.weight,
        "threshold": block.threshold,
        "settings": settings,
    }
    match block:
        case ExpressionBlock() | AssertionBlock() | CommandBlock():
            made = {
                "deterministic_test": Expression,
                "deterministic_assertion": Assertion,
                "command": CommandScore,
            }[block.kind]
            return made(**common, **settings)
        case JudgeBlock():
            role = judge()
            common["settings"] = {**settings, "role": role.fingerprint}
            return RubricJudge(**common, rubric=block.params.rubric, role=role)
        case PlainBlock():
            return (BudgetUtility if block.kind == "budget_utility" else PolicyScore)(**common)
