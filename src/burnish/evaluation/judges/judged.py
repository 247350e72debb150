"""The base of judged metrics: a prompt, a panel, a request about a turn, an answer read."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects
from burnish.core.errors import RoleFailed
from burnish.core.money import Spend
from burnish.effects.executors import together
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.panel import Judge, Panel, of_judges, of_samples
from burnish.evaluation.turn_metric import EPSILON, TurnMetric, Verdict
from burnish.models.prompts import RolePrompt
from burnish.models.roles import ModelRole

Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)

PASSES_AT = 0.5
"""Where a judged metric without a threshold passes."""


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(TurnMetric, Generic[Request, Answer]):
    """Asks every judge of the panel, each as often as it is sampled, and settles on one verdict.

    A sample's number is its draw: the same text, judged again in the same run, is the same
    verdict and costs nothing.
    """

    panel: Panel
    prompt: RolePrompt

    request_type: ClassVar[type[BaseModel]]
    answer_type: ClassVar[type[BaseModel]]

    @abstractmethod
    def request(self, exchange: Exchange) -> Request | None:
        """What to ask about a turn; None where there is nothing to judge."""

    @abstractmethod
    def read(self, request: Request, answer: Answer) -> Verdict:
        """What a judge's answer amounts to, in [0, 1], with its reason."""

    def check(self, request: Request, answer: Answer) -> str:
        """What is wrong with an answer that keeps its schema; the judge may mend it once."""
        del request, answer
        return ""

    @property
    def settings(self) -> Json:
        """What tells this metric from another with the same prompt and panel."""
        return None

    @property
    def fingerprint(self) -> str:
        """A hash of prompt, panel, threshold and settings."""
        told: list[Json] = [self.prompt.fingerprint, self.panel.fingerprint, self.settings]
        return short_id([type(self).__name__, self.version, self.name, self.threshold, *told])

    def estimate(self, case: Case) -> Spend:
        """One call for each turn, judge and sample."""
        return self.panel.estimate(case)

    def passes(self, verdict: Verdict) -> bool | None:
        """The panel has decided already."""
        return verdict.passed

    @property
    def bar(self) -> float:
        """From here on a judge's score passes."""
        return PASSES_AT if self.threshold is None else self.threshold

    async def verdicts(
        self, seen: Sequence[Exchange], *, effects: Effects
    ) -> Sequence[Verdict | None]:
        """All turns at once: judges take their time."""
        return await together(self.verdict(exchange, effects=effects) for exchange in seen)

    async def verdict(self, exchange: Exchange, *, effects: Effects) -> Verdict | None:
        """Ask the panel about one turn."""
        request = self.request(exchange)
        if request is None:
            return None
        judges = self.panel.judges
        found = await together(
            self._judge(judge, role, request, effects)
            for judge, role in zip(judges, self._roles, strict=True)
        )
        return of_judges(
            found,
            names=[judge.client.ref.label for judge in judges],
            weights=[judge.weight for judge in judges],
            rule=self.panel.rule,
            threshold=self.bar,
        )

    async def _judge(
        self, judge: Judge, role: ModelRole[Request, Answer], request: Request, effects: Effects
    ) -> Verdict:
        samples = range(judge.samples)
        asked = (self._sample(role, request, draw, effects) for draw in samples)
        return of_samples(await together(asked))

    async def _sample(
        self, role: ModelRole[Request, Answer], request: Request, draw: int, effects: Effects
    ) -> Verdict:
        try:
            receipt = await role.answer(request, draw=draw, effects=effects)
        except RoleFailed as error:
            return Verdict.missing(error.message)
        verdict = self.read(request, receipt.value)
        if verdict.value is None or verdict.passed is not None:
            return verdict
        return replace(verdict, passed=verdict.value >= self.bar - EPSILON)

    @cached_property
    def _roles(self) -> tuple[ModelRole[Request, Answer], ...]:
        return tuple(
            ModelRole(
                name=self.prompt.name,
                request_type=cast("type[Request]", self.request_type),
                answer_type=cast("type[Answer]", self.answer_type),
                prompt=self.prompt,
                client=judge.client,
                check=self.check,
            )
            for judge in self.panel.judges
        )
