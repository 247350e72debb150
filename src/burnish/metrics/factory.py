"""What metrics are made with: models, prompts, and panels of judges."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.errors import ConfigError, Problem
from burnish.core.evaluations import mean
from burnish.core.money import Spend, total
from burnish.metrics.judge_shapes import LlmJudgeCriterion
from burnish.metrics.turns import DEFAULT_TURNS, EPSILON, Verdict
from burnish.models.chat import ModelClient
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, RoleTool, in_force


class PanelRule(StrEnum):
    """How the verdicts of several judges become one."""

    ALL_PASS = "all_pass"  # noqa: S105 - no password
    ANY_PASS = "any_pass"  # noqa: S105 - no password
    MAJORITY_PASS = "majority_pass"  # noqa: S105 - no password
    AVG = "avg"
    WEIGHTED_AVG = "weighted_avg"
    WEIGHTED_MAJORITY = "weighted_majority"


@dataclass(frozen=True, kw_only=True)
class Judge:
    """One model that judges, how often it is asked, and the weight of its verdict."""

    client: ModelClient
    samples: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        name = self.client.ref.label
        message = ""
        if self.samples < 1:
            message = f"samples must be at least 1, found {self.samples}"
        elif not 0 < self.weight < math.inf:
            message = f"the weight must be above 0, found {self.weight:g}"
        if message:
            raise ConfigError([Problem(where=name, message=message)])


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The judges of one metric."""

    judges: tuple[Judge, ...]
    rule: PanelRule = PanelRule.ALL_PASS
    tools: tuple[RoleTool, ...] = ()
    """What each judge may call before it answers."""

    def __post_init__(self) -> None:
        if not self.judges:
            message = "there is no judge: name at least one model"
            raise ConfigError([Problem(where="judges", message=message)])

    @property
    def fingerprint(self) -> str:
        judges: list[Json] = [[j.client.fingerprint, j.samples, j.weight] for j in self.judges]
        tools: list[Json] = [tool.fingerprint for tool in self.tools]
        return short_id([judges, self.rule.value, *([tools] if tools else [])])

    def estimate(self, case: Case, *, calls: int = 1) -> Spend:
        """The cost of judging every turn of a case, at `calls` per sample."""
        turns = (case.scenario.max_turns or DEFAULT_TURNS) if case.scenario else len(case.turns)
        once = (judge.client.estimate().times(judge.samples) for judge in self.judges)
        return total(once).times(turns * calls * (2 if self.tools else 1))


def of_samples(samples: Sequence[Verdict]) -> Verdict:
    """The first sample of the majority; a tie is a fail."""
    if len(samples) == 1:
        return samples[0]
    held = [sample for sample in samples if sample.passed]
    failed = [sample for sample in samples if sample.passed is False]
    if 2 * len(held) > len(samples):
        chosen = held[0]
    elif 2 * len(failed) >= len(samples):
        chosen = failed[0]
    else:
        chosen = next(sample for sample in samples if sample.value is None)
    records: list[Json] = [_record(sample) for sample in samples]
    return replace(chosen, details={**chosen.details, "samples": records})


def of_judges(
    verdicts: Sequence[Verdict],
    *,
    names: Sequence[str],
    weights: Sequence[float],
    rule: PanelRule,
    threshold: float,
) -> Verdict:
    """One verdict from those of several judges."""
    if len(verdicts) == 1:
        return verdicts[0]
    named = list(zip(names, verdicts, strict=True))
    opinions = "; ".join(
        f"{name}: {_word(verdict)}{f' ({verdict.reason})' if verdict.reason else ''}"
        for name, verdict in named
    )
    records: list[Json] = [{"judge": name, **_record(verdict)} for name, verdict in named]
    details: dict[str, Json] = {"judges": records}
    settled = _settle(verdicts, weights=weights, rule=rule, threshold=threshold)
    if settled is None:
        away = any(verdict.unreachable for verdict in verdicts)
        return Verdict(value=None, reason=opinions, details=details, unreachable=away)
    value, passed = settled
    agreed = passed and all(verdict.passed for verdict in verdicts)
    word = f"{rule.value} {'passed' if passed else 'failed'} at {value:.3g}"
    reason = "" if agreed else f"{word}: {opinions}"
    return Verdict(value=value, passed=passed, reason=reason, details=details)


def _settle(
    verdicts: Sequence[Verdict], *, weights: Sequence[float], rule: PanelRule, threshold: float
) -> tuple[float, bool] | None:
    """The value and whether it passes; None if a missing verdict could change it."""
    pairs = zip(verdicts, weights, strict=True)
    votes = [(v.value, bool(v.passed), weight) for v, weight in pairs if v.value is not None]
    whole = len(votes) == len(verdicts)
    values = [value for value, _, _ in votes]
    if rule is PanelRule.ALL_PASS and (whole or 0.0 in values):
        return min(values), all(passed for _, passed, _ in votes)
    if rule is PanelRule.ANY_PASS and (whole or 1.0 in values):
        return max(values), any(passed for _, passed, _ in votes)
    if not whole:
        return None
    equal = rule in (PanelRule.AVG, PanelRule.MAJORITY_PASS)
    shares = [1.0 if equal else weight for _, _, weight in votes]
    if rule in (PanelRule.AVG, PanelRule.WEIGHTED_AVG):
        value = _weighted(values, shares)
        return value, value >= threshold - EPSILON
    share = _weighted([float(passed) for _, passed, _ in votes], shares)
    return share, share > 0.5 + EPSILON


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    if len(set(weights)) == 1:
        return mean(values)
    parts = [value * weight for value, weight in zip(values, weights, strict=True)]
    return min(1.0, mean(parts) / mean(weights))


def _word(verdict: Verdict) -> str:
    if verdict.value is None:
        return "no verdict"
    return f"{'pass' if verdict.passed else 'fail'} at {verdict.value:.3g}"


def _record(verdict: Verdict) -> dict[str, Json]:
    details = {"details": dict(verdict.details)} if verdict.details else {}
    return {
        "value": verdict.value,
        "passed": verdict.passed,
        "reason": verdict.reason,
        **details,
    }


@dataclass(frozen=True, kw_only=True)
class MetricMaking:
    """What metrics are made with: models, prompts and a default judge."""

    models: Models
    folder: Path
    """The folder of graders and installed prompts."""
    judge: ModelRef | None = None
    """The judge for metrics that do not name one."""

    def prompt(self, role: str) -> RolePrompt:
        """The prompt in use for a judge's role."""
        return in_force(role, self.folder)

    def one_judge(self, metric: str, prompt: RolePrompt, ref: ModelRef | None = None) -> Panel:
        """A panel of one: the given model, or the default judge."""
        chosen = ref or self.judge
        if chosen is None:
            message = "this metric needs a judge, but no model is named"
            remedy = "name one: judge_model in the metric, model under evaluations, or --judge"
            raise ConfigError([Problem(where=metric, message=message, remedy=remedy)])
        return Panel(judges=(Judge(client=self.models.client(chosen, prompt.settings)),))

    def panel(self, metric: str, prompt: RolePrompt, criterion: LlmJudgeCriterion) -> Panel:
        """The judges of a criterion, or the default judge."""
        rule = PanelRule(criterion.models_aggregator)
        if not criterion.judges:
            return replace(self.one_judge(metric, prompt), rule=rule)
        judges = tuple(
            Judge(
                client=self.models.client(model.reference(), prompt.settings),
                samples=model.num_samples,
                weight=model.weight,
            )
            for model in criterion.judges
        )
        return Panel(judges=judges, rule=rule)


def check_names(names: Sequence[str]) -> None:
    """Reject two metrics of the same name: their scores could not be told apart."""
    twice = sorted({name for name in names if names.count(name) > 1})
    message, remedy = "two metrics have this name", "give each metric its own name"
    if twice:
        raise ConfigError([Problem(where=n, message=message, remedy=remedy) for n in twice])
