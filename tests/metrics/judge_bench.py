"""A small bench for judged metrics: scripted judges, and one case that suits every metric."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from burnish.core.cases import Case, Outcome, Rubric, Step, ToolCall, Trace, Turn
from burnish.core.content import Json
from burnish.core.evaluations import Score
from burnish.core.protocols import Effects
from burnish.journal.once import DirectEffects
from burnish.journal.outages import RetryPolicy
from burnish.metrics.eval_factory import Binding, TemplateJudge
from burnish.metrics.geval import (
    Coherence,
    FinalResponseJudge,
    Fluency,
    GEval,
    Groundedness,
    Relevance,
)
from burnish.metrics.judged import JudgedMetric
from burnish.metrics.judges import Judge, Panel, PanelRule
from burnish.metrics.numbered_judges import (
    AnswerRelevancy,
    ContextualPrecision,
    ContextualRecall,
    ContextualRelevancy,
    Faithfulness,
    Hallucinations,
)
from burnish.metrics.rubrics import (
    PairwiseVerifier,
    RubricCritic,
    RubricKnowledgeRecall,
    RubricReferenceCritic,
    RubricResponse,
)
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.factory import Models
from burnish.models.references import ModelRef
from burnish.models.roles import RolePrompt, in_force
from burnish.testing.doubles import ScriptedBackend

Respond = Callable[[ChatRequest, int], str | ChatReply]
AnyJudged = JudgedMetric[Any, Any]

RUBRICS = (Rubric(id="r1", text="It names the city."), Rubric(id="r2", text="It is short."))
CASE = Case(
    name="capital",
    turns=(
        Turn(
            input="What is the capital of France?",
            expected="Paris is the capital of France.",
            context=("Paris is the capital of France.", "Lyon is a city."),
        ),
    ),
)
REPLY = "The capital is Paris. It has four rivers."
OUTCOME = Outcome(
    replies=(REPLY,),
    trace=Trace(
        steps=(
            Step(
                id="s1",
                node="writer",
                input="What is the capital of France?",
                output={"text": REPLY},
                tools=(
                    ToolCall(
                        name="knowledge_search",
                        arguments={"query": "capital"},
                        passages=("Paris is the capital of France.",),
                    ),
                ),
            ),
        )
    ),
)


@cache
def prompt(role: str) -> RolePrompt:
    """The prompt that is shipped for a role."""
    return in_force(role, Path("/nowhere"))


def scripted(respond: Respond | str) -> ScriptedBackend:
    """A judge's model that answers by a function, or always the same."""
    return ScriptedBackend(respond=respond if callable(respond) else lambda _, __: respond)


def panel(
    *judges: Respond | str | ScriptedBackend,
    rule: PanelRule = PanelRule.ALL_PASS,
    samples: int = 1,
    weights: Sequence[float] = (),
) -> Panel:
    """One judge for each script."""
    made: list[Judge] = []
    for number, given in enumerate(judges):
        backend = given if isinstance(given, ScriptedBackend) else scripted(given)
        models = Models(retries=RetryPolicy(attempts=1), backends={"openai": backend})
        client = models.client(ModelRef.parse(f"openai:judge-{number + 1}"))
        weight = weights[number] if weights else 1.0
        made.append(Judge(client=client, samples=samples, weight=weight))
    return Panel(judges=tuple(made), rule=rule)


def said(**answer: Json) -> str:
    """An answer as a judge writes it."""
    return json.dumps(answer)


async def scores(
    metric: AnyJudged,
    case: Case = CASE,
    outcome: Outcome = OUTCOME,
    effects: Effects | None = None,
) -> Sequence[Score]:
    """The scores of one outcome."""
    return await metric.score(case, outcome, effects=effects or DirectEffects())


async def score(
    metric: AnyJudged,
    case: Case = CASE,
    outcome: Outcome = OUTCOME,
    effects: Effects | None = None,
) -> Score:
    """The one score of one outcome."""
    (found,) = await scores(metric, case, outcome, effects)
    return found


@dataclass(frozen=True)
class Kind:
    """One judged metric: how it is made, and an answer of its judge that earns a score."""

    make: Callable[[Panel], AnyJudged]
    good: str
    value: float


def _numbered(*verdicts: str) -> str:
    return json.dumps(
        {"items": [{"number": n, "reason": "so", "verdict": v} for n, v in enumerate(verdicts, 1)]}
    )


_RUBRIC_ANSWER = json.dumps(
    {
        "items": [
            {"id": "r1", "evidence": "Paris", "reason": "named", "verdict": "yes"},
            {"id": "r2", "evidence": "none", "reason": "too long", "verdict": "no"},
        ]
    }
)
_FOUR = said(reasoning="good", score=4)


def _rubric_kind(metric: Any) -> Kind:
    return Kind(
        lambda p: metric(panel=p, prompt=prompt(metric.role), rubrics=RUBRICS, threshold=0.5),
        _RUBRIC_ANSWER,
        0.5,
    )


def _plain_kind(metric: Any, good: str, value: float) -> Kind:
    return Kind(lambda p: metric(panel=p, prompt=prompt(metric.role), threshold=0.5), good, value)


def _geval(judges: Panel) -> GEval:
    return GEval(
        panel=judges,
        prompt=prompt("judge_geval"),
        criteria="Be kind.",
        evaluation_steps=("Look.",),
        threshold=0.5,
    )


def _template(judges: Panel) -> TemplateJudge:
    bound = Binding(variable="reply", scope="actual", field="finalResponse")
    return TemplateJudge(
        panel=judges,
        prompt=prompt("judge_template"),
        template="Rate {{ reply }}",
        threshold=0.5,
        bindings=(bound,),
    )


KINDS: dict[str, Kind] = {
    "llm_final_response": _plain_kind(
        FinalResponseJudge, said(reasoning="same", is_the_agent_response_valid="valid"), 1.0
    ),
    "llm_rubric_response": _rubric_kind(RubricResponse),
    "llm_rubric_critic": _rubric_kind(RubricCritic),
    "llm_rubric_reference_critic": _rubric_kind(RubricReferenceCritic),
    "llm_rubric_knowledge_recall": _rubric_kind(RubricKnowledgeRecall),
    "llm_hallucinations": _plain_kind(Hallucinations, _numbered("supported", "unsupported"), 0.5),
    "llm_judge_template": Kind(_template, said(reason="fine", score=0.75), 0.75),
    "llm_verifier_pairwise": _plain_kind(
        PairwiseVerifier, said(reasoning="alike", first_grade="C", second_grade="C"), 0.5
    ),
    "geval": Kind(_geval, said(reasoning="kind", score=7), 0.7),
    "faithfulness": _plain_kind(
        Faithfulness, said(claims=[{"claim": "c", "reason": "r", "verdict": "yes"}]), 1.0
    ),
    "answer_relevancy": _plain_kind(AnswerRelevancy, _numbered("yes", "no"), 0.5),
    "contextual_relevancy": _plain_kind(ContextualRelevancy, _numbered("yes", "no"), 0.5),
    "contextual_precision": _plain_kind(ContextualPrecision, _numbered("yes", "no"), 1.0),
    "contextual_recall": _plain_kind(ContextualRecall, _numbered("yes"), 1.0),
    "groundedness": _plain_kind(Groundedness, _FOUR, 0.75),
    "relevance": _plain_kind(Relevance, _FOUR, 0.75),
    "coherence": _plain_kind(Coherence, _FOUR, 0.75),
    "fluency": _plain_kind(Fluency, _FOUR, 0.75),
}
"""Every judged metric by its name."""
