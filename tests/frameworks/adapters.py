"""What the tests of adapters share: an agent's values, and the steps of one case."""

from typing import Any

from burnish import Case, evaluate
from burnish.core.cases import Step
from burnish.targets.frameworks import AgentAdapter, adapter_for


def known(agent: object, **options: Any) -> AgentAdapter:
    adapter = adapter_for(agent, **options)
    assert adapter is not None
    return adapter


def values(adapter: AgentAdapter) -> dict[str, Any]:
    return {part.surface.id: part.value for part in adapter.parts()}


def steps(agent: object, query: str, reply: str) -> tuple[Step, ...]:
    """The recorded steps of an agent that must give this reply."""
    found = evaluate(agent, cases=[Case.single(query, reply)], metric="equality")
    (result,) = found.evaluation.results
    assert found.passed, result.outcome
    return result.outcome.trace.steps
