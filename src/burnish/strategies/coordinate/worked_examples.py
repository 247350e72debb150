"""Worked examples made from cases: of a run that went right, or of what the labels say."""

import json
from collections.abc import Sequence

from burnish.core.cases import Case
from burnish.core.content import Json
from burnish.core.demonstrations import DemonstratedCall, Demonstration
from burnish.core.evaluations import Evaluation
from burnish.core.outcomes import Outcome, ToolCall

RESULT_CHARS = 600
"""How much of what a tool gave is shown: how it is used can be seen from the beginning of it."""


def right_runs(measured: Evaluation, metrics: Sequence[str]) -> dict[str, Outcome]:
    """By case, a run that passed; one in which no tool failed, where there is one."""
    found: dict[str, Outcome] = {}
    for result in measured.results:
        outcome = result.outcome
        if not result.passed(metrics) or not outcome.output:
            continue
        kept = found.setdefault(result.case, outcome)
        if _stumbled(kept) and not _stumbled(outcome):
            found[result.case] = outcome
    return found


def traced(case: Case, outcome: Outcome) -> Demonstration:
    """What happened, in the agent's own words: what it was asked, the tools it used, its answer."""
    calls = tuple(map(_shown, calls_of(outcome)))
    return Demonstration(input=case.input, output=outcome.output, case=case.id, calls=calls)


def labelled(case: Case) -> Demonstration:
    """What should happen. Calls are shown where the case knows what each of them gives back."""
    wanted = case.turns[-1].expected_calls or ()
    known = all(call.result is not None for call in wanted)
    calls = tuple(map(_shown, wanted)) if known else ()
    return Demonstration(input=case.input, output=case.expected or "", case=case.id, calls=calls)


def calls_of(outcome: Outcome) -> list[ToolCall]:
    """Every use of a tool, in order."""
    return [call for step in outcome.trace.steps for call in step.tools]


def _shown(call: ToolCall) -> DemonstratedCall:
    told = f"the tool failed: {call.error}" if call.error else _text(call.result)
    return DemonstratedCall.of(call.name, call.arguments, _beginning(told))


def _text(result: Json) -> str:
    """A result as a model reads it."""
    if isinstance(result, str):
        return result
    return json.dumps(result, ensure_ascii=False, separators=(",", ":"))


def _beginning(text: str) -> str:
    if len(text) <= RESULT_CHARS:
        return text
    return f"{text[:RESULT_CHARS]}… [the first {RESULT_CHARS} of {len(text)} characters]"


def _stumbled(outcome: Outcome) -> bool:
    return any(call.error for call in calls_of(outcome))
