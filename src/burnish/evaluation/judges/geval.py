"""A judge by criteria in the user's own words: `geval`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.effects import Effects
from burnish.core.errors import Problem
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.answers import JudgeAnswer, Number
from burnish.evaluation.judges.evidence import REASON, excerpt, numbered, said, shown
from burnish.evaluation.judges.judged import JudgedMetric, ask
from burnish.evaluation.turn_metric import Verdict
from burnish.models.roles import ModelRole, RolePrompt

BEST = 10
NOT_SHOWN = "(plays no part)"

_PARAMS: Mapping[str, Callable[[Exchange], str | None]] = {
    "input": lambda exchange: exchange.asked,
    "actual_output": lambda exchange: shown(said(exchange)),
    "expected_output": lambda exchange: exchange.expected,
    "context": lambda exchange: numbered(exchange.turn.context) if exchange.turn.context else None,
    "retrieval_context": lambda exchange: (
        numbered(exchange.passages) if exchange.passages else None
    ),
}
"""What a judge can be shown, and how a turn gives it; None where it does not."""


class StepsRequest(BaseModel):
    """What the steps are made from."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: str
    evaluation_params: str


class StepsAnswer(JudgeAnswer):
    """How to judge by the criteria."""

    steps: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class GEvalRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: str
    steps: str = ""
    input: str = NOT_SHOWN
    actual_output: str = NOT_SHOWN
    expected_output: str = NOT_SHOWN
    context: str = NOT_SHOWN
    retrieval_context: str = NOT_SHOWN


class GEvalAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    score: Annotated[Number, Field(ge=0, le=BEST)]


@dataclass(frozen=True, kw_only=True)
class GEval(JudgedMetric[GEvalRequest, GEvalAnswer]):
    """A judge's 0 to 10 by the user's criteria, as a share of 10.

    Without steps, the first judge of the panel writes them from the criteria: the same request
    for every case, so a run pays for it once, and every judge works by the same steps.
    """

    name: str = "geval"
    criteria: str
    evaluation_steps: tuple[str, ...] = ()
    evaluation_params: tuple[str, ...] = ("actual_output",)
    strict_mode: bool = False
    """Only a perfect score counts: 1, anything less 0."""
    steps_prompt: RolePrompt | None = None
    """Needed where there are no steps."""

    role: ClassVar[str] = "judge_geval"
    steps_role: ClassVar[str] = "judge_geval_steps"
    request_type: ClassVar[type[BaseModel]] = GEvalRequest
    answer_type: ClassVar[type[BaseModel]] = GEvalAnswer

    def problems(self) -> list[Problem]:
        """Criteria, known parameters, and steps or the means to make them."""
        found = [*super().problems()]
        if not self.criteria.strip():
            found.append(Problem(where=f"{self.name}.criteria", message="there are none"))
        unknown = [each for each in self.evaluation_params if each not in _PARAMS]
        found += [
            Problem(
                where=f"{self.name}.evaluation_params",
                message=f"'{each}' is not known",
                remedy=f"there are: {', '.join(_PARAMS)}",
            )
            for each in unknown
        ]
        if not self.evaluation_params:
            found.append(Problem(where=f"{self.name}.evaluation_params", message="name one"))
        if not self.evaluation_steps and self.steps_prompt is None:
            message = "there are no steps, and no prompt to make them with"
            found.append(Problem(where=f"{self.name}.evaluation_steps", message=message))
        return found

    def request(self, exchange: Exchange) -> GEvalRequest | None:
        """What the parameters ask for; nothing where the turn lacks one of them."""
        given = {name: _PARAMS[name](exchange) for name in self.evaluation_params}
        known = {name: text for name, text in given.items() if text is not None}
        if len(known) < len(given):
            return None
        return GEvalRequest(criteria=self.criteria, **known)

    async def settle(self, request: GEvalRequest, *, effects: Effects) -> Verdict:
        """Have the steps, then ask the panel."""
        steps = await self._steps(effects)
        if isinstance(steps, Verdict):
            return steps
        return await super().settle(
            request.model_copy(update={"steps": numbered(steps)}), effects=effects
        )

    def read(self, request: GEvalRequest, answer: GEvalAnswer) -> Verdict:
        """The share of ten; in strict mode all or nothing."""
        del request
        perfect = answer.score == BEST
        value = float(perfect) if self.strict_mode else answer.score / BEST
        told = f"{answer.score} of {BEST}: {excerpt(answer.reasoning, REASON)}"
        return Verdict(value=value, reason="" if perfect else told, details={"raw": answer.score})

    async def _steps(self, effects: Effects) -> tuple[str, ...] | Verdict:
        if self._writer is None:
            return self.evaluation_steps
        shown_params = ", ".join(self.evaluation_params)
        request = StepsRequest(criteria=self.criteria, evaluation_params=shown_params)
        answer = await ask(self._writer, request, draw=0, effects=effects)
        return answer if isinstance(answer, Verdict) else tuple(answer.steps)

    @cached_property
    def _writer(self) -> ModelRole[StepsRequest, StepsAnswer] | None:
        if self.evaluation_steps or self.steps_prompt is None:
            return None
        return ModelRole(
            name=self.steps_prompt.name,
            request_type=StepsRequest,
            answer_type=StepsAnswer,
            prompt=self.steps_prompt,
            client=self.panel.judges[0].client,
        )
