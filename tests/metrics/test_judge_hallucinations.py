"""Hallucinations: every sentence against everything the reply may rest on."""

import json

import pytest

from burnish.core.cases import Case, Message, Outcome, Step, ToolCall, Trace, Turn
from burnish.metrics.judges import Panel
from burnish.metrics.numbered_judges import Hallucinations
from tests.metrics.judge_bench import CASE, panel, prompt, score, scores, scripted


def judged(*verdicts: str) -> str:
    items = [{"number": n, "reason": f"why {n}", "verdict": v} for n, v in enumerate(verdicts, 1)]
    return json.dumps({"items": items[::-1]})


def metric(asked: Panel) -> Hallucinations:
    return Hallucinations(panel=asked, prompt=prompt("judge_hallucinations"))


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [
        (("supported", "supported", "supported", "not_applicable"), 1.0),
        (("supported", "unsupported", "supported", "not_applicable"), 0.75),
        (("contradictory", "disputed", "unsupported", "Not_Applicable"), 0.25),
        (("contradictory", "disputed", "unsupported", "unsupported"), 0.0),
    ],
)
async def test_the_share_of_sentences_with_support(verdicts: tuple[str, ...], value: float) -> None:
    outcome = Outcome(replies=("Paris it is. It is big.\n- It is old.\nAnything else?",))
    found = await score(metric(panel(judged(*verdicts))), CASE, outcome)
    assert found.value == value
    assert bool(found.reason) == (value < 1)


async def test_the_reason_quotes_what_is_not_supported() -> None:
    outcome = Outcome(replies=("Paris it is. It has nine rivers.",))
    found = await score(metric(panel(judged("supported", "contradictory"))), CASE, outcome)
    assert found.reason == (
        "1 of 2 sentences have no support: 'It has nine rivers.' is contradictory: why 2"
    )
    assert found.details["sentences"] == [
        {"sentence": "Paris it is.", "verdict": "supported", "reason": "why 1"},
        {"sentence": "It has nine rivers.", "verdict": "contradictory", "reason": "why 2"},
    ]


async def test_an_empty_reply_scores_nothing_and_asks_nobody() -> None:
    backend = scripted("never")
    found = await score(metric(panel(backend)), CASE, Outcome(replies=(" ",)))
    assert (found.value, found.passed) == (0.0, None)
    assert found.reason == "the reply is empty: there is nothing to judge"
    assert backend.asked == []


async def test_a_turn_may_rest_on_everything_up_to_it() -> None:
    backend = scripted(judged("supported"))
    case = Case(
        turns=(
            Turn(input="first question", context=("early passage",)),
            Turn(input="second question", context=("late passage",)),
            Turn(input="third question"),
        ),
        history=(Message(role="system", content="The shop opens at nine."),),
    )
    steps = (
        Step(id="a", node="n", turn=0, tools=(ToolCall(name="early_tool", result="early result"),)),
        Step(id="b", node="n", turn=1, tools=(ToolCall(name="late_tool", result="late result"),)),
        Step(id="c", node="n", turn=2, tools=(ToolCall(name="last_tool", result="last result"),)),
    )
    outcome = Outcome(replies=("one.", "two.", "three."), trace=Trace(steps=steps))
    assert [each.turn for each in await scores(metric(panel(backend)), case, outcome)] == [0, 1, 2]
    first, second, _ = (request.messages[1].content for request in backend.asked)
    assert "system: The shop opens at nine." in first
    for text in ("early passage", "early_tool", "early result"):
        assert text in first
        assert text in second
    for text in ("late passage", "late_tool", "late result"):
        assert text not in first
        assert text in second
    assert "last" not in second
    assert "agent: one." in second
    assert "<sentences>\n1. two.\n</sentences>" in second


async def test_turns_that_are_not_judged_are_evidence_all_the_same() -> None:
    backend = scripted(judged("supported"))
    turns = (Turn(input="a", metrics=("other",)), Turn(input="b"))
    step = Step(id="s", node="n", turn=0, tools=(ToolCall(name="tool", result="told earlier"),))
    outcome = Outcome(replies=("one.", "two."), trace=Trace(steps=(step,)))
    (found,) = await scores(metric(panel(backend)), Case(turns=turns), outcome)
    assert found.turn == 1
    assert "told earlier" in backend.asked[0].messages[1].content
