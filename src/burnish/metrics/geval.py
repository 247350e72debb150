"""Judges that grade: by criteria of the user, by quality from 1 to 5, beside a reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, Field

from burnish.core.errors import Problem
from burnish.core.protocols import Effects
from burnish.metrics.judged import (
    REASON,
    Counted,
    Evidence,
    JudgeAnswer,
    JudgedMetric,
    Lowered,
    ask,
    excerpt,
    numbered,
    reply_text,
    shown,
)
from burnish.metrics.turns import NEEDS_PASSAGES, NEEDS_REFERENCE, Exchange, Verdict
from burnish.models.answers import Explanation
from burnish.models.roles import ModelRole, RolePrompt


class _FinalResponseRequest(Evidence):
    """What the judge is shown."""

    user_prompt: str
    conversation: str
    agent_response: str
    reference: str


class FinalResponseAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: Explanation
    is_the_agent_response_valid: Annotated[Literal["valid", "invalid"], Lowered]


@dataclass(frozen=True, kw_only=True)
class FinalResponseJudge(JudgedMetric[_FinalResponseRequest, FinalResponseAnswer]):
    """1 if a judge considers the reply as good as the reference, else 0."""

    name: str = "llm_final_response"

    role: ClassVar[str] = "judge_final_response"
    request_type: ClassVar[type[BaseModel]] = _FinalResponseRequest
    answer_type: ClassVar[type[BaseModel]] = FinalResponseAnswer
    needs: ClassVar[str] = NEEDS_REFERENCE

    @property
    def graded(self) -> bool:
        return False

    def request(self, exchange: Exchange) -> _FinalResponseRequest | None:
        return None if exchange.expected is None else self.filled(exchange)

    def read(self, request: _FinalResponseRequest, answer: FinalResponseAnswer) -> Verdict:
        del request
        reason = excerpt(answer.reasoning, REASON)
        valid = answer.is_the_agent_response_valid == "valid"
        return Verdict.of(held=valid, reason=f"not a valid answer: {reason}", reasoning=reason)


_BEST = 10
_PARAMS: Mapping[str, Callable[[Exchange], str | None]] = {
    "input": lambda exchange: exchange.asked,
    "actual_output": lambda exchange: shown(reply_text(exchange)),
    "expected_output": lambda exchange: exchange.expected,
    "context": lambda exchange: numbered(exchange.turn.context) if exchange.turn.context else None,
    "retrieval_context": lambda exchange: (
        numbered(exchange.passages) if exchange.passages else None
    ),
}
"""What a judge can be shown; None if a turn does not have it."""


class StepsRequest(Evidence):
    """What the steps are made from."""

    criteria: str
    evaluation_params: str


class StepsAnswer(JudgeAnswer):
    """How to judge by the criteria."""

    steps: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class _GEvalRequest(Evidence):
    """What the judge is shown."""

    criteria: str
    steps: str = ""
    input: str = "(plays no part)"
    actual_output: str = "(plays no part)"
    expected_output: str = "(plays no part)"
    context: str = "(plays no part)"
    retrieval_context: str = "(plays no part)"


class GEvalAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: Explanation
    score: Annotated[int, Field(ge=0, le=_BEST), Counted]


@dataclass(frozen=True, kw_only=True)
class GEval(JudgedMetric[_GEvalRequest, GEvalAnswer]):
    """A judge's score from 0 to 10 by the user's criteria, divided by 10.

    Without steps, the first judge writes them from the criteria: the same request for every
    case, so a run pays for it once and all judges use the same steps.
    """

    name: str = "geval"
    criteria: str
    evaluation_steps: tuple[str, ...] = ()
    evaluation_params: tuple[str, ...] = ("actual_output",)
    strict_mode: bool = False
    """1 for a perfect score, else 0."""
    steps_prompt: RolePrompt | None = None
    """Needed if there are no steps."""

    role: ClassVar[str] = "judge_geval"
    steps_role: ClassVar[str] = "judge_geval_steps"
    request_type: ClassVar[type[BaseModel]] = _GEvalRequest
    answer_type: ClassVar[type[BaseModel]] = GEvalAnswer
    needs: ClassVar[str] = "everything that evaluation_params names"

    @property
    def graded(self) -> bool:
        return not self.strict_mode

    def problems(self) -> list[Problem]:
        problems = super().problems()
        if not self.criteria.strip():
            problems.append(
                Problem(where=f"{self.name}.criteria", message="the criteria are empty")
            )
        where, remedy = f"{self.name}.evaluation_params", f"there are: {', '.join(_PARAMS)}"
        problems += [
            Problem(where=where, message=f"'{each}' is not known", remedy=remedy)
            for each in self.evaluation_params
            if each not in _PARAMS
        ]
        if not self.evaluation_params:
            problems.append(Problem(where=where, message="name at least one"))
        if not self.evaluation_steps and self.steps_prompt is None:
            message = "there are no steps, and no prompt to write them with"
            problems.append(Problem(where=f"{self.name}.evaluation_steps", message=message))
        return problems

    def request(self, exchange: Exchange) -> _GEvalRequest | None:
        values = {name: _PARAMS[name](exchange) for name in self.evaluation_params}
        texts = {name: text for name, text in values.items() if text is not None}
        if len(texts) < len(values):
            return None
        return _GEvalRequest(criteria=self.criteria, **texts)

    async def settle(self, request: _GEvalRequest, *, effects: Effects) -> Verdict:
        steps = await self._steps(effects)
        if isinstance(steps, Verdict):
            return steps
        with_steps = request.model_copy(update={"steps": numbered(steps)})
        return await super().settle(with_steps, effects=effects)

    def read(self, request: _GEvalRequest, answer: GEvalAnswer) -> Verdict:
        del request
        perfect = answer.score == _BEST
        value = float(perfect) if self.strict_mode else answer.score / _BEST
        reason = f"{answer.score} of {_BEST}: {excerpt(answer.reasoning, REASON)}"
        return Verdict(value=value, reason="" if perfect else reason, details={"raw": answer.score})

    async def _steps(self, effects: Effects) -> tuple[str, ...] | Verdict:
        if self.evaluation_steps or self.steps_prompt is None:
            return self.evaluation_steps
        writer = ModelRole(
            name=self.steps_prompt.name,
            request_type=StepsRequest,
            answer_type=StepsAnswer,
            prompt=self.steps_prompt,
            client=self.panel.judges[0].client,
        )
        params = ", ".join(self.evaluation_params)
        request = StepsRequest(criteria=self.criteria, evaluation_params=params)
        answer = await ask(writer, request, draw=0, effects=effects)
        return answer if isinstance(answer, Verdict) else tuple(answer.steps)


class _QualityRequest(Evidence):
    """What the judge is shown, and the rules that this project adds."""

    user_prompt: str
    conversation: str
    agent_response: str
    passages: str
    custom_prompt: str


class QualityAnswer(JudgeAnswer):
    """What the judge says."""

    reasoning: Explanation
    score: Annotated[int, Field(ge=1, le=5), Counted]


@dataclass(frozen=True, kw_only=True)
class QualityJudge(JudgedMetric[_QualityRequest, QualityAnswer]):
    """A judge's score from 1 to 5, as (score − 1) / 4; a threshold above 1 is on that scale."""

    custom_prompt: str = ""
    """Rules of the project; they override the prompt's own."""

    request_type: ClassVar[type[BaseModel]] = _QualityRequest
    answer_type: ClassVar[type[BaseModel]] = QualityAnswer
    needs_passages: ClassVar[bool] = False

    def problems(self) -> list[Problem]:
        if self.threshold is None or 0 <= self.threshold <= 5:
            return []
        message = (
            f"a threshold must be from 0 to 1, or above 1 and up to 5, found {self.threshold:g}"
        )
        return [Problem(where=f"{self.name}.threshold", message=message)]

    @property
    def bar(self) -> float:
        if self.threshold is None or self.threshold <= 1:
            return super().bar
        return (self.threshold - 1) / 4

    def request(self, exchange: Exchange) -> _QualityRequest | None:
        if self.needs_passages and not exchange.passages:
            return None
        return self.filled(exchange, custom_prompt=shown(self.custom_prompt))

    def read(self, request: _QualityRequest, answer: QualityAnswer) -> Verdict:
        del request
        score = answer.score
        reason = "" if score == 5 else f"{score} of 5: {excerpt(answer.reasoning, REASON)}"
        return Verdict(value=(score - 1) / 4, reason=reason, details={"raw": score})


@dataclass(frozen=True, kw_only=True)
class Groundedness(QualityJudge):
    """How well the passages support the reply."""

    name: str = "groundedness"

    role: ClassVar[str] = "judge_groundedness"
    needs_passages: ClassVar[bool] = True
    needs: ClassVar[str] = NEEDS_PASSAGES


@dataclass(frozen=True, kw_only=True)
class Relevance(QualityJudge):
    """How well the reply answers the question."""

    name: str = "relevance"

    role: ClassVar[str] = "judge_relevance"


@dataclass(frozen=True, kw_only=True)
class Coherence(QualityJudge):
    """How well the reply hangs together."""

    name: str = "coherence"

    role: ClassVar[str] = "judge_coherence"


@dataclass(frozen=True, kw_only=True)
class Fluency(QualityJudge):
    """How well the reply is written."""

    name: str = "fluency"

    role: ClassVar[str] = "judge_fluency"
