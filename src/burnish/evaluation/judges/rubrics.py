"""Replies, and what was retrieved for them, judged by rubrics: `llm_rubric_…`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from burnish.core.cases import Rubric
from burnish.core.outcomes import ToolCall
from burnish.evaluation.exchanges import Exchange
from burnish.evaluation.judges.evidence import brought, excerpt
from burnish.evaluation.judges.rubric_judge import RubricJudge, RubricRequest
from burnish.evaluation.turn_metric import Verdict


@dataclass(frozen=True, kw_only=True)
class RubricResponse(RubricJudge):
    """Whether the reply fulfils the rubrics; the reference is there to check facts by."""

    name: str = "llm_rubric_response"

    role: ClassVar[str] = "judge_rubric_response"


@dataclass(frozen=True, kw_only=True)
class RubricCritic(RubricJudge):
    """A strict reviewer: the reference is the golden answer, and any doubt is a no."""

    name: str = "llm_rubric_critic"

    role: ClassVar[str] = "judge_rubric_critic"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricReferenceCritic(RubricJudge):
    """The reference shows how good is good enough; other words for it will do."""

    name: str = "llm_rubric_reference_critic"

    role: ClassVar[str] = "judge_rubric_reference_critic"
    needs_reference: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class RubricKnowledgeRecall(RubricJudge):
    """The share of rubrics that the retrieved knowledge bears out; the reply is not looked at.

    A turn that retrieved nothing has recalled nothing: that is 0, and no judge is asked.
    """

    name: str = "llm_rubric_knowledge_recall"
    knowledge_tool_names: tuple[str, ...] = ("knowledge_search",)

    role: ClassVar[str] = "judge_rubric_knowledge_recall"

    def knowledge(self, exchange: Exchange) -> Sequence[str]:
        """What the knowledge tools brought back in this turn."""
        return [text for tool in self._uses(exchange) for text in brought(tool)]

    def about(self, exchange: Exchange, rubrics: Sequence[Rubric]) -> RubricRequest | Verdict:
        """The retrieved knowledge beside the rubrics."""
        if self.knowledge(exchange):
            return super().about(exchange, rubrics)
        return Verdict(value=0.0, reason=f"nothing was retrieved: {self._why(exchange)}")

    def _uses(self, exchange: Exchange) -> list[ToolCall]:
        return [tool for tool in exchange.tools if tool.name in self.knowledge_tool_names]

    def _why(self, exchange: Exchange) -> str:
        used = self._uses(exchange)
        if used:
            errors = "; ".join(excerpt(tool.error) for tool in used if tool.error)
            told = f"{_names(used)} was called and gave nothing"
            return f"{told} ({errors})" if errors else told
        wanted = " or ".join(self.knowledge_tool_names)
        others = _names(exchange.tools)
        called = f"only {others}" if others else "and neither was any other tool"
        return f"{wanted} was not called in this turn, {called}"


def _names(tools: Sequence[ToolCall]) -> str:
    return ", ".join(dict.fromkeys(tool.name for tool in tools))
