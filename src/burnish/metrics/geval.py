"""Judges that grade: by criteria of the user, by quality from 1 to 5, beside a reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from burnish.core.errors import Problem
from burnish.core.protocols import Effects
from burnish.metrics.judged import (
    REASON,
    JudgeAnswer,
    JudgedMetric,
    Lowered,
    Number,
    ask,
    before,
    excerpt,
    numbered,
    reply_text,
    shown,
)
from burnish.metrics.turns import Exchange, Verdict
from burnish.models.roles import ModelRole, RolePrompt


class FinalResponseRequest(BaseModel):
    """What the judge is shown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    conversation: str
    agent_response: str
    reference: str


class FinalResponseAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    is_the_agent_response_valid: Annotated[Literal["valid", "invalid"], Lowered]


@dataclass(frozen=True, kw_only=True)
class FinalResponseJudge(JudgedMetric[FinalResponseRequest, FinalResponseAnswer]):
    """1 where a judge takes the reply for as good as the reference, else 0."""

    name: str = "llm_final_response"

    role: ClassVar[str] = "judge_final_response"
    request_type: ClassVar[type[BaseModel]] = FinalResponseRequest
    answer_type: ClassVar[type[BaseModel]] = FinalResponseAnswer

    def request(self, exchange: Exchange) -> FinalResponseRequest | None:
        """Both answers; nothing without a reference."""
        if exchange.expected is None:
            return None
        return FinalResponseRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(reply_text(exchange)),
            reference=shown(exchange.expected),
        )

    def read(self, request: FinalResponseRequest, answer: FinalResponseAnswer) -> Verdict:
        """Valid or not."""
        del request
        reason = excerpt(answer.reasoning, REASON)
        valid = answer.is_the_agent_response_valid == "valid"
        return Verdict.of(held=valid, reason=f"not a valid answer: {reason}", reasoning=reason)


# -- A judge by criteria in the user's own words --------------------------------------------------


_BEST = 10
_NOT_SHOWN = "(plays no part)"

_PARAMS: Mapping[str, Callable[[Exchange], str | None]] = {
    "input": lambda exchange: exchange.asked,
    "actual_output": lambda exchange: shown(reply_text(exchange)),
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
    input: str = _NOT_SHOWN
    actual_output: str = _NOT_SHOWN
    expected_output: str = _NOT_SHOWN
    context: str = _NOT_SHOWN
    retrieval_context: str = _NOT_SHOWN


class GEvalAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    score: Annotated[Number, Field(ge=0, le=_BEST)]


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
        problems = [*super().problems()]
        if not self.criteria.strip():
            problems.append(Problem(where=f"{self.name}.criteria", message="there are none"))
        unknown = [each for each in self.evaluation_params if each not in _PARAMS]
        problems += [
            Problem(
                where=f"{self.name}.evaluation_params",
                message=f"'{each}' is not known",
                remedy=f"there are: {', '.join(_PARAMS)}",
            )
            for each in unknown
        ]
        if not self.evaluation_params:
            problems.append(Problem(where=f"{self.name}.evaluation_params", message="name one"))
        if not self.evaluation_steps and self.steps_prompt is None:
            message = "there are no steps, and no prompt to make them with"
            problems.append(Problem(where=f"{self.name}.evaluation_steps", message=message))
        return problems

    def request(self, exchange: Exchange) -> GEvalRequest | None:
        """What the parameters ask for; nothing where the turn lacks one of them."""
        values = {name: _PARAMS[name](exchange) for name in self.evaluation_params}
        texts = {name: text for name, text in values.items() if text is not None}
        if len(texts) < len(values):
            return None
        return GEvalRequest(criteria=self.criteria, **texts)

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
        perfect = answer.score == _BEST
        value = float(perfect) if self.strict_mode else answer.score / _BEST
        reason = f"{answer.score} of {_BEST}: {excerpt(answer.reasoning, REASON)}"
        return Verdict(value=value, reason="" if perfect else reason, details={"raw": answer.score})

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


WORST, HIGHEST_GRADE = 1, 5


# -- Groundedness, relevance, coherence and fluency -----------------------------------------------


class QualityRequest(BaseModel):
    """What the judge is shown, and the rules that this project adds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user_prompt: str
    conversation: str
    agent_response: str
    passages: str
    custom_prompt: str


class QualityAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: str
    score: Annotated[Number, Field(ge=WORST, le=HIGHEST_GRADE)]


@dataclass(frozen=True, kw_only=True)
class QualityJudge(JudgedMetric[QualityRequest, QualityAnswer]):
    """A judge's 1 to 5, as (score − 1) / 4. A threshold above 1 is on the judge's own scale."""

    custom_prompt: str = ""
    """Rules of the project; where they differ from the prompt's own, they win."""

    request_type: ClassVar[type[BaseModel]] = QualityRequest
    answer_type: ClassVar[type[BaseModel]] = QualityAnswer
    needs_passages: ClassVar[bool] = False

    def problems(self) -> list[Problem]:
        """A threshold may be on either scale."""
        if self.threshold is None or 0 <= self.threshold <= HIGHEST_GRADE:
            return []
        message = f"a threshold is from 0 to 1, or above 1 and up to {HIGHEST_GRADE}"
        where = f"{self.name}.threshold"
        return [Problem(where=where, message=f"{message}, found {self.threshold:g}")]

    @property
    def bar(self) -> float:
        """From here on a judge's score passes, in [0, 1]."""
        if self.threshold is None or self.threshold <= 1:
            return super().bar
        return _share(self.threshold)

    def request(self, exchange: Exchange) -> QualityRequest | None:
        """The reply with what went before it."""
        if self.needs_passages and not exchange.passages:
            return None
        return QualityRequest(
            user_prompt=shown(exchange.asked),
            conversation=before(exchange),
            agent_response=shown(reply_text(exchange)),
            passages=numbered(exchange.passages),
            custom_prompt=shown(self.custom_prompt),
        )

    def read(self, request: QualityRequest, answer: QualityAnswer) -> Verdict:
        """The score brought to [0, 1]; the judge's own number is kept beside it."""
        del request
        reason = f"{answer.score} of {HIGHEST_GRADE}: {excerpt(answer.reasoning, REASON)}"
        return Verdict(
            value=_share(answer.score),
            reason="" if answer.score == HIGHEST_GRADE else reason,
            details={"raw": answer.score},
        )


@dataclass(frozen=True, kw_only=True)
class Groundedness(QualityJudge):
    """How far the reply rests on the passages of the turn."""

    name: str = "groundedness"

    role: ClassVar[str] = "judge_groundedness"
    needs_passages: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Relevance(QualityJudge):
    """How far the reply answers what was asked."""

    name: str = "relevance"

    role: ClassVar[str] = "judge_relevance"


@dataclass(frozen=True, kw_only=True)
class Coherence(QualityJudge):
    """How well the parts of the reply hang together."""

    name: str = "coherence"

    role: ClassVar[str] = "judge_coherence"


@dataclass(frozen=True, kw_only=True)
class Fluency(QualityJudge):
    """How well the reply is written."""

    name: str = "fluency"

    role: ClassVar[str] = "judge_fluency"


def _share(score: float) -> float:
    return (score - WORST) / (HIGHEST_GRADE - WORST)
