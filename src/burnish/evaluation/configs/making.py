"""What every metric is made with: models, prompts, and who judges unless a metric says."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.errors import ConfigError, Problem
from burnish.evaluation.configs.judge_shapes import LlmJudgeCriterion
from burnish.evaluation.judges.panel import Judge, Panel, PanelRule
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, in_force


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
