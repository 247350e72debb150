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
from burnish.models.roles import RolePrompt, in_force


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
    """One model that judges, how often it is asked, and how much its word weighs."""

    client: ModelClient
    samples: int = 1
    weight: float = 1.0

    def __post_init__(self) -> None:
        name = self.client.ref.label
        if self.samples < 1:
            raise _bad(name, f"a judge is asked at least once, found samples {self.samples}")
        if not 0 < self.weight < math.inf:
            raise _bad(name, f"a weight is a number above 0, found {self.weight:g}")


@dataclass(frozen=True, kw_only=True)
class Panel:
    """The judges of one metric."""

    judges: tuple[Judge, ...]
    rule: PanelRule = PanelRule.ALL_PASS

    def __post_init__(self) -> None:
        if not self.judges:
            raise _bad("judges", "there is no judge: name at least one model")

    @property
    def fingerprint(self) -> str:
        """A hash of the models, samples, weights and rule."""
        judges: list[Json] = [[j.client.fingerprint, j.samples, j.weight] for j in self.judges]
        return short_id([judges, self.rule.value])

    def estimate(self, case: Case, *, calls: int = 1) -> Spend:
        """What judging every turn of a case costs, at `calls` a sample."""
        turns = (case.scenario.max_turns or DEFAULT_TURNS) if case.scenario else len(case.turns)
        once = (judge.client.estimate().times(judge.samples) for judge in self.judges)
        return total(once).times(turns * calls)


def of_samples(samples: Sequence[Verdict]) -> Verdict:
    """The majority's first sample; a tie is a fail. Every sample says whether it passed."""
    if len(samples) == 1:
        return samples[0]
    details: dict[str, Json] = {"samples": [_record(sample) for sample in samples]}
    held = [sample for sample in samples if sample.passed]
    fell = [sample for sample in samples if sample.passed is False]
    if 2 * len(held) > len(samples):
        return _with(held[0], details)
    if 2 * len(fell) >= len(samples):
        return _with(fell[0], details)
    gone = next(sample for sample in samples if sample.value is None)
    return _with(gone, details)


def of_judges(
    verdicts: Sequence[Verdict],
    *,
    names: Sequence[str],
    weights: Sequence[float],
    rule: PanelRule,
    threshold: float,
) -> Verdict:
    """One verdict of several; each judge says whether it passed."""
    if len(verdicts) == 1:
        return verdicts[0]
    opinions = "; ".join(
        f"{name}: {_word(verdict)}{f' ({verdict.reason})' if verdict.reason else ''}"
        for name, verdict in zip(names, verdicts, strict=True)
    )
    details: dict[str, Json] = {
        "judges": [
            {"judge": name, **_record(verdict)}
            for name, verdict in zip(names, verdicts, strict=True)
        ]
    }
    settled = _settle(verdicts, weights=weights, rule=rule, threshold=threshold)
    if settled is None:
        return Verdict(value=None, reason=opinions, details=details)
    value, passed = settled
    agreed = passed and all(verdict.passed for verdict in verdicts)
    word = f"{rule.value} {'passed' if passed else 'failed'} at {value:.3g}"
    reason = "" if agreed else f"{word}: {opinions}"
    return Verdict(value=value, passed=passed, reason=reason, details=details)


def _settle(
    verdicts: Sequence[Verdict], *, weights: Sequence[float], rule: PanelRule, threshold: float
) -> tuple[float, bool] | None:
    """The value and whether it passes; None where a hole could change it."""
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
    """What is kept of one verdict among several."""
    record: dict[str, Json] = {
        "value": verdict.value,
        "passed": verdict.passed,
        "reason": verdict.reason,
    }
    return {**record, "details": dict(verdict.details)} if verdict.details else record


def _with(verdict: Verdict, more: dict[str, Json]) -> Verdict:
    return replace(verdict, details={**verdict.details, **more})


def _bad(where: str, message: str) -> ConfigError:
    return ConfigError([Problem(where=where, message=message)])


# -- What every metric is made with ---------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MetricMaking:
    """The workbench of metrics."""

    models: Models
    folder: Path
    """Where graders and installed prompts lie."""
    judge: ModelRef | None = None
    """Who judges where a metric names nobody."""

    def prompt(self, role: str) -> RolePrompt:
        """The prompt in force for a judge's role."""
        return in_force(role, self.folder)

    def one_judge(self, metric: str, prompt: RolePrompt, ref: ModelRef | None = None) -> Panel:
        """A panel of one: the model that the metric names, or the one that judges by default."""
        chosen = ref or self.judge
        if chosen is None:
            raise _nobody(metric)
        return Panel(judges=(self._judge(chosen, prompt),))

    def panel(self, metric: str, prompt: RolePrompt, criterion: LlmJudgeCriterion) -> Panel:
        """The judges that a criterion names, or the one that judges by default."""
        rule = PanelRule(criterion.models_aggregator)
        if not criterion.judges:
            alone = self.one_judge(metric, prompt)
            return Panel(judges=alone.judges, rule=rule)
        judges = [
            self._judge(named.reference(), prompt, named.num_samples, named.weight)
            for named in criterion.judges
        ]
        return Panel(judges=tuple(judges), rule=rule)

    def _judge(
        self, ref: ModelRef, prompt: RolePrompt, samples: int = 1, weight: float = 1.0
    ) -> Judge:
        client = self.models.client(ref, prompt.settings)
        return Judge(client=client, samples=samples, weight=weight)


def check_names(names: Sequence[str]) -> None:
    """Refuse two metrics of one name: their scores could not be told apart."""
    twice = sorted({name for name in names if names.count(name) > 1})
    message, remedy = "two metrics have this name", "give each metric a name of its own"
    if twice:
        raise ConfigError([Problem(where=n, message=message, remedy=remedy) for n in twice])


def _nobody(metric: str) -> ConfigError:
    return ConfigError(
        [
            Problem(
                where=metric,
                message="this metric asks a judge, and no model is named to judge",
                remedy="name one: judge_model in the metric, model under evaluations, or --judge",
            )
        ]
    )
