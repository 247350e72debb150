"""The metrics of a workflow file, by kind."""

import re
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from burnish.system.settings import AboveZero, Settings, Share
from burnish.system.workspaces import path_problem
from burnish.targets.delegation.expressions import BadExpression, parse

Text: TypeAlias = Annotated[str, Field(min_length=1)]


def _inside(path: str) -> str:
    if problem := path_problem(path):
        raise ValueError(f"it must lie in the workspace: {problem}")
    return path


Inside: TypeAlias = Annotated[str, AfterValidator(_inside)]
"""A path of a file in the workspace."""


def _expression(text: str) -> str:
    try:
        parse(text)
    except BadExpression as error:
        raise ValueError(f"this expression cannot be used: {error}") from error
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"this is no regular expression: {error}") from error
    return text


class MetricBlock(Settings):
    """What every metric has."""

    name: Text
    weight: AboveZero = 1.0
    threshold: Share | None = None
    """What it should reach; what is missing to it steers a refinement. `thresholds.accept`
    unless said."""


class ExpressionParams(Settings):
    """Of `deterministic_test`."""

    expr: Annotated[str, AfterValidator(_expression)]
    """Such as `result.confidence > 0.6` or `size("report.md") > 500`."""


class ExpressionBlock(MetricBlock):
    """An expression over the result, the files and the budget."""

    kind: Literal["deterministic_test"]
    params: ExpressionParams


class AssertionParams(Settings):
    """Of `deterministic_assertion`: all that is said must hold."""

    path: Inside
    contains: str | None = None
    lacks: str | None = None
    matches: Annotated[str, AfterValidator(_pattern)] | None = None


class AssertionBlock(MetricBlock):
    """A file is there, and has or lacks a text."""

    kind: Literal["deterministic_assertion"]
    params: AssertionParams


class JudgeParams(Settings):
    """Of `rubric_judge`."""

    rubric: Text


class JudgeBlock(MetricBlock):
    """A model judges the deliverables by a rubric."""

    kind: Literal["rubric_judge"]
    params: JudgeParams


class CommandParams(Settings):
    """Of `command`."""

    command: Text
    """Runs in the workspace and prints `{"score": 0.7}`."""
    timeout_seconds: AboveZero = 300.0


class CommandBlock(MetricBlock):
    """A command in the sandbox scores the workspace."""

    kind: Literal["command"]
    params: CommandParams


class PlainBlock(MetricBlock):
    """Metrics that need nothing to be said: what is left of the budget, and broken policies."""

    kind: Literal["budget_utility", "policy_score"]


Metric: TypeAlias = Annotated[
    ExpressionBlock | AssertionBlock | JudgeBlock | CommandBlock | PlainBlock,
    Field(discriminator="kind"),
]


class ZonesBlock(Settings):
    """What the total score means."""

    accept: Share = 0.85
    retry: Share = 0.65
    """Below it a completion is sent back."""
    fail: Share = 0.40
    """Below it the run has failed."""

    @model_validator(mode="after")
    def _in_order(self) -> "ZonesBlock":
        if not self.fail <= self.retry <= self.accept:
            raise ValueError("they rise: fail, retry, accept")
        return self


class EvaluationBlock(Settings):
    """How the result is measured."""

    enabled: bool = True
    metrics: list[Metric] = Field(default_factory=list[Metric])
    thresholds: ZonesBlock = Field(default_factory=ZonesBlock)

    @model_validator(mode="after")
    def _named_once(self) -> "EvaluationBlock":
        names = [metric.name for metric in self.metrics]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two metrics are called {', '.join(twice)}")
        return self
