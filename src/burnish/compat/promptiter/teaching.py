"""The teacher: reference answers for cases that have none, written once and kept."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from burnish.core.cases import Case
from burnish.core.codec import codec
from burnish.core.content import short_id
from burnish.core.effects import Call, Effects, Receipt, Scope
from burnish.core.errors import BurnishError
from burnish.core.money import NOTHING, Spend
from burnish.core.outcomes import Outcome
from burnish.core.protocols import Metric, Target
from burnish.core.scores import Score
from burnish.effects.failures import failure_of
from burnish.projects.measurements import threshold_of

EXPECTED_RUNNER = "expected_runner_enabled"
"""The extra of a case that asks for the teacher's answer, whatever the file expects."""


def wants_teacher(case: Case) -> bool:
    """Whether the case says that its reference comes from the teacher."""
    return case.extras.get(EXPECTED_RUNNER) is True


@dataclass(frozen=True, kw_only=True)
class Teacher:
    """Answers cases, so that others can be compared with it."""

    target: Target

    @property
    def fingerprint(self) -> str:
        """A hash of the target."""
        return self.target.description.fingerprint

    def teaches(self, case: Case) -> bool:
        """Whether a case needs an answer: it asks for one, or has none."""
        bare = case.scenario is None and all(turn.expected is None for turn in case.turns)
        return bare or wants_teacher(case)

    def estimate(self, case: Case) -> Spend:
        """What an answer costs."""
        return self.target.estimate(case) if self.teaches(case) else NOTHING

    async def answer(self, case: Case, effects: Effects) -> Outcome:
        """The answer, paid once for all candidates and metrics."""
        call = Call(
            kind="teacher",
            request={"target": self.fingerprint, "case": case.content_id},
            codec=codec(Outcome),
            estimate=self.target.estimate(case) if self.target.leaf else NOTHING,
        )
        return await effects.once(call, lambda inner: self._perform(case, inner))

    async def _perform(self, case: Case, effects: Scope) -> Receipt[Outcome]:
        baseline = self.target.baseline
        try:
            receipt = await self.target.run(baseline, case, draw=0, effects=effects)
        except BurnishError:
            raise
        except Exception as error:  # noqa: BLE001 - the border to the user's teacher: law 4
            failed = Outcome(failure=failure_of(error))
            return Receipt(value=failed, spend=self.target.estimate(case), missing=failed.missing)
        return replace(receipt, missing=receipt.value.missing)


@dataclass(frozen=True, kw_only=True)
class TaughtMetric:
    """Another metric, with the teacher's answer where a case has none."""

    metric: Metric
    teacher: Teacher

    @property
    def name(self) -> str:
        """The other's."""
        return self.metric.name

    @property
    def fingerprint(self) -> str:
        """A hash of the metric and of who teaches."""
        return short_id([self.metric.fingerprint, self.teacher.fingerprint])

    @property
    def threshold(self) -> float | None:
        """The other's."""
        return threshold_of(self.metric)

    def estimate(self, case: Case) -> Spend:
        """Both together."""
        return self.metric.estimate(case) + self.teacher.estimate(case)

    async def score(self, case: Case, outcome: Outcome, *, effects: Effects) -> Sequence[Score]:
        """Score against the teacher's answer; missing where the teacher has none."""
        if not self.teacher.teaches(case):
            return await self.metric.score(case, outcome, effects=effects)
        taught = await self.teacher.answer(case, effects)
        if taught.failure is not None:
            told = f"the teacher gave no reference answer: {taught.failure.message}"
            return [Score.of_nothing(self.name, told)]
        return await self.metric.score(_with_answers(case, taught), outcome, effects=effects)


def _with_answers(case: Case, taught: Outcome) -> Case:
    turns = tuple(
        replace(turn, expected=taught.replies[place]) if place < len(taught.replies) else turn
        for place, turn in enumerate(case.turns)
    )
    return replace(case, turns=turns)
