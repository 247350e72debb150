"""What measures a candidate: the cases of a task, its metrics, and its number as a score."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from burnish.core.cases import Case, Dataset
from burnish.core.content import short_id
from burnish.core.effects import Effects
from burnish.core.errors import ConfigError, Problem
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric
from burnish.core.scores import Score
from burnish.evaluation.configs.making import MetricMaking, check_names
from burnish.evaluation.layers import Layered
from burnish.evaluation.metric_plugins import make_agent_metric, metric_name
from burnish.evaluation.turn_metric import TurnMetric
from burnish.projects.artifacts.spec import ScorerBlock
from burnish.targets.artifacts.task import HOLDOUT, TASK, Scoring, Task


@dataclass(frozen=True, kw_only=True)
class ScaledScore:
    """How far a number in its own unit lies on the way from the worst to the best."""

    measure: str
    worst: float
    best: float
    clamped: bool = False
    """Whether what lies beyond counts as the end; else it is no score."""
    name: str = "scaled_score"

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.measure, self.worst, self.best, self.clamped])

    def estimate(self, case: Case) -> Spend:
        """It computes."""
        del case
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Where the number lies."""
        del case, effects
        number = outcome.measures.get(self.measure)
        if number is None:
            return [Score.of_nothing(self.name, f"the scorer gave no '{self.measure}'")]
        share = (number - self.worst) / (self.best - self.worst)
        reason = f"{self.measure} {number:g}"
        if not 0 <= share <= 1 and not self.clamped:
            outside = f"{reason} is not between {self.worst:g} and {self.best:g}"
            return [Score.of_nothing(self.name, f"{outside}: say objective.worst and best")]
        return [Score(metric=self.name, value=min(1.0, max(0.0, share)), reason=reason)]


def task_dataset(purpose: str, *, holdout: bool) -> Dataset:
    """One case, and one more where something else decides; judges read what the files are for."""
    train = Case.single(purpose, name=TASK)
    # No proposer may see the text of a holdout case, so it says nothing of its own.
    held = (Case.single(f"{purpose} (held out)", name=HOLDOUT),) if holdout else ()
    return Dataset(train=(train,), holdout=held)


def task_metrics(
    scorer: ScorerBlock, holdout: ScorerBlock | None, makings: Mapping[str, MetricMaking]
) -> tuple[Metric, ...]:
    """The metrics of a task; a holdout with a scorer of its own has metrics of its own."""
    here = _made(scorer, makings[TASK])
    if holdout is None:
        return tuple(here.values())
    there = _made(holdout, makings[HOLDOUT])
    names = dict.fromkeys((*here, *there))
    return tuple(
        Layered(
            name=name,
            default=None,
            places={TASK: (here.get(name),), HOLDOUT: (there.get(name),)},
        )
        for name in names
    )


def with_reads(task: Task, files: Sequence[str]) -> Task:
    """The task with the file that its metrics read: the one that is named, or the only one."""
    held = task.holdout_scoring
    return replace(
        task,
        scoring=_reading(task.scoring, files),
        holdout_scoring=None if held is None else _reading(held, files),
    )


def _reading(scoring: Scoring, files: Sequence[str]) -> Scoring:
    if scoring.kind != "metrics" or scoring.reads in files:
        return scoring
    if scoring.reads or len(files) != 1:
        amiss = f"'{scoring.reads}' is none of them" if scoring.reads else f"there are {len(files)}"
        message = f"metrics score one file, and {amiss}"
        remedy = f"name it: scorer: {{reads: …}}, one of {', '.join(files)}"
        raise ConfigError([Problem(where="scorer.reads", message=message, remedy=remedy)])
    return replace(scoring, reads=files[0])


def _made(scorer: ScorerBlock, making: MetricMaking) -> dict[str, TurnMetric]:
    made: dict[str, TurnMetric] = {}
    problems: list[Problem] = []
    check_names(scorer.names)
    for block in scorer.metrics:
        if not getattr(block, "enabled", True):
            continue
        try:
            made[metric_name(block)] = make_agent_metric(block, making)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return made
