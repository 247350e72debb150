"""Measurements of scripted agents, for reports to show."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.core.cases import Case, Dataset, Failure, FailureKind, Outcome, Split
from burnish.core.content import short_id
from burnish.core.evaluations import CaseResult, Evaluation, Objective, Score
from burnish.core.money import NOTHING, Spend
from burnish.core.protocols import Effects, Metric
from burnish.projects.measurements import PreparedMeasurement
from burnish.reports.evaluation import About, EvalReport
from burnish.runs.setup import Setup
from burnish.strategies.measure import Measure
from burnish.testing.doubles import CallCounter, ExpectedText, ScriptedTarget

Respond = Callable[[Case, int], object]
ABOUT = About(agent="clerk", source="agent.yaml", run="run-1", folder="/runs/run-1")
AWAY = Outcome(failure=Failure(kind=FailureKind.INFRASTRUCTURE, message="429 too many requests"))
CRASH = Outcome(failure=Failure(kind=FailureKind.AGENT, message="KeyError: 'order'"))


@dataclass(frozen=True, kw_only=True)
class Graded:
    """A metric: the reply is the score, and 0.5 passes."""

    name: str = "graded"
    threshold: float = 0.5

    @property
    def fingerprint(self) -> str:
        """A hash of its settings."""
        return short_id([self.name, self.threshold])

    def estimate(self, case: Case) -> Spend:
        """Nothing."""
        return NOTHING

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """The reply as a number."""
        value = float(outcome.output)
        passed = value >= self.threshold
        return [Score(metric=self.name, value=value, passed=passed, reason=f"said {value}")]


def asking(*names: str, expected: str = "yes") -> tuple[Case, ...]:
    """A case of each name."""
    return tuple(Case.single(f"{name}?", expected, name=name) for name in names)


def measurement(
    root: Path,
    respond: Respond,
    cases: Sequence[Case],
    *,
    metrics: tuple[Metric, ...] = (ExpectedText(),),
    repeats: int = 1,
    noise: bool = False,
    seconds: float = 0.0,
    counter: CallCounter | None = None,
) -> PreparedMeasurement:
    """A scripted agent, ready to be measured."""
    measure = Measure(repeats=repeats, noise=noise, subject="clerk")
    target = ScriptedTarget(
        respond=lambda _, case, draw: respond(case, draw),
        surfaces=(),
        values={},
        name="clerk",
        seconds=seconds,
        counter=counter,
        price=Spend(calls=1, tokens_in=10, tokens_out=2, nano_usd=1_000_000),
    )
    setup = Setup(
        wait_minutes=0,  # who is away stays away
        target=target,
        metrics=metrics,
        objective=Objective(weights={metric.name: 1.0 for metric in metrics}),
        dataset=Dataset(train=tuple(cases)),
        strategy=measure,
        concurrency=4,
    )
    return PreparedMeasurement(setup=setup, measure=measure, root=root)


def scored(case: str, *values: float | None, draw: int = 0, metric: str = "graded") -> CaseResult:
    """A run of a case with these scores, one a turn; 0.5 passes."""
    several = len(values) > 1
    scores = [
        Score(
            metric=metric,
            value=value,
            passed=None if value is None else value >= 0.5,
            reason="the judge was away" if value is None else f"scored {value}",
            turn=turn if several else None,
        )
        for turn, value in enumerate(values)
    ]
    replies = tuple(f"reply {turn}" for turn in range(len(values)))
    return CaseResult(
        case=case, draw=draw, outcome=Outcome(replies=replies, seconds=1.0), scores=tuple(scores)
    )


def failing(case: str, outcome: Outcome, *, draw: int = 0, metric: str = "graded") -> CaseResult:
    """A run of a case that gave no answer, as a run scores it."""
    reason = outcome.failure.message if outcome.failure else ""
    score = (Score.of_nothing if outcome.missing else Score.of_failure)(metric, reason)
    return CaseResult(case=case, draw=draw, outcome=outcome, scores=(score,))


def report(*results: CaseResult, about: About = ABOUT) -> EvalReport:
    """The report of these results, over cases of these names."""
    found = Evaluation(candidate="c", split=Split.TRAIN, results=results)
    return EvalReport.from_measurement(found, asking(*found.cases), about)


def sweeps(values: dict[str, Sequence[float | None]]) -> EvalReport:
    """A report of cases with one score a sweep each."""
    return report(
        *(
            scored(case, value, draw=draw)
            for case, row in values.items()
            for draw, value in enumerate(row)
        )
    )
