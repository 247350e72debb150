"""The base of judged metrics: a prompt, a panel, a request about a turn, an answer read."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from burnish.core.cases import Case
from burnish.core.content import Json, short_id
from burnish.core.effects import Effects
from burnish.core.errors import ConfigError, Problem, RoleFailed
from burnish.core.money import Spend
from burnish.core.protocols import Metric
from burnish.effects.executors import together
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.evidence import sealed, tags_in
from burnish.evaluation.judges.panel import Judge, Panel, of_judges, of_samples
from burnish.evaluation.layers import Layered
from burnish.evaluation.turn_metric import EPSILON, TurnMetric, Verdict
from burnish.models.roles import ModelRole, RolePrompt

Request = TypeVar("Request", bound=BaseModel)
Answer = TypeVar("Answer", bound=BaseModel)

PASSES_AT = 0.5
"""Where a judged metric without a threshold passes."""
_APART = ("name", "threshold", "panel", "prompt")
"""Fields that the fingerprint knows by themselves."""


@dataclass(frozen=True, kw_only=True)
class JudgedMetric(TurnMetric, Generic[Request, Answer]):
    """Asks every judge of the panel, each as often as it is sampled, and settles on one verdict.

    A sample's number is its draw: the same text, judged again in the same run, is the same
    verdict and costs nothing.
    """

    panel: Panel
    prompt: RolePrompt

    role: ClassVar[str]
    """The shipped prompt it is made for."""
    request_type: ClassVar[type[BaseModel]]
    answer_type: ClassVar[type[BaseModel]]

    def __post_init__(self) -> None:
        problems = self.problems()
        if problems:
            raise ConfigError(problems)
        self.prompt.require_fields(self.request_type.model_fields)

    @abstractmethod
    def request(self, exchange: Exchange) -> Request | Verdict | None:
        """What to ask about a turn; a verdict where that is clear without asking.

        None where the metric does not apply.
        """

    @abstractmethod
    def read(self, request: Request, answer: Answer) -> Verdict:
        """What a judge's answer amounts to, in [0, 1], with its reason."""

    def check(self, request: Request, answer: Answer) -> str:
        """What is wrong with an answer that keeps its schema; the judge may mend it once."""
        del request, answer
        return ""

    def answers(self) -> type[Answer]:
        """The form of an answer."""
        return cast("type[Answer]", self.answer_type)

    def problems(self) -> list[Problem]:
        """What is wrong with the settings."""
        if self.threshold is None or 0 <= self.threshold <= 1:
            return []
        return [
            Problem(
                where=f"{self.name}.threshold",
                message=f"a threshold is from 0 to 1, found {self.threshold:g}",
            )
        ]

    @property
    def settings(self) -> Json:
        """What tells this metric from another with the same prompt and panel."""
        own = (each.name for each in fields(self) if each.name not in _APART)
        return {name: _plain(getattr(self, name)) for name in own}

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
        """Ask the panel about one turn, where there is something to ask."""
        request = self.request(exchange)
        if request is None:
            return None
        if isinstance(request, Verdict):
            return self._opined(request)
        return await self.settle(request, effects=effects)

    async def settle(self, request: Request, *, effects: Effects) -> Verdict:
        """Ask the panel, and make one verdict of what it says."""
        shown = sealed(request, tags_in(self.prompt.system, self.prompt.user))
        judges = self.panel.judges
        found = await together(
            self._judge(judge, role, shown, effects)
            for judge, role in zip(judges, self._roles, strict=True)
        )
        return of_judges(
            found,
            names=[judge.client.ref.label for judge in judges],
            weights=[judge.weight for judge in judges],
            rule=self.panel.rule,
            threshold=self.bar,
        )

    async def sample(
        self, role: ModelRole[Request, Answer], request: Request, *, draw: int, effects: Effects
    ) -> Verdict:
        """One judge's verdict, once."""
        answer = await ask(role, request, draw=draw, effects=effects)
        return answer if isinstance(answer, Verdict) else self.read(request, answer)

    async def _judge(
        self, judge: Judge, role: ModelRole[Request, Answer], request: Request, effects: Effects
    ) -> Verdict:
        draws = range(judge.samples)
        asked = (self.sample(role, request, draw=draw, effects=effects) for draw in draws)
        return of_samples([self._opined(verdict) for verdict in await together(asked)])

    def _opined(self, verdict: Verdict) -> Verdict:
        if verdict.value is None or verdict.passed is not None:
            return verdict
        return replace(verdict, passed=verdict.value >= self.bar - EPSILON)

    @cached_property
    def _roles(self) -> tuple[ModelRole[Request, Answer], ...]:
        return tuple(
            ModelRole(
                name=self.prompt.name,
                request_type=cast("type[Request]", self.request_type),
                answer_type=self.answers(),
                prompt=self.prompt,
                client=judge.client,
                check=self.check,
            )
            for judge in self.panel.judges
        )


async def ask(
    role: ModelRole[Request, Answer], request: Request, *, draw: int, effects: Effects
) -> Answer | Verdict:
    """The answer of a role; where there is none, a missing verdict that says why."""
    try:
        receipt = await role.answer(request, draw=draw, effects=effects)
    except RoleFailed as error:
        return Verdict.missing(
            f"{error.message}: {error.remedy}" if error.remedy else error.message
        )
    return receipt.value


def _plain(value: object) -> Json:
    # Where a prompt lies does not matter, and its path would be in its plain form.
    return value.fingerprint if isinstance(value, RolePrompt) else to_jsonable_python(value)


def judged_parts(metric: Metric) -> Iterator[JudgedMetric[Any, Any]]:
    """The judged metrics in a metric, those of single cases included."""
    inner: Sequence[TurnMetric | Metric | None] = [metric]
    if isinstance(metric, Layered):
        inner = [metric.default, *(each for turns in metric.places.values() for each in turns)]
    for each in inner:
        if isinstance(each, JudgedMetric):
            yield cast("JudgedMetric[Any, Any]", each)


def check_judges(metrics: Iterable[Metric]) -> None:
    """Raise what would keep a judge of these metrics from answering, before anything is paid."""
    for metric in metrics:
        for part in judged_parts(metric):
            for judge in part.panel.judges:
                judge.client.check()
