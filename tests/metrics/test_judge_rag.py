"""The five retrieval metrics: what each counts, and what an empty list is worth."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.core.cases import Case, Outcome, Step, ToolCall, Trace, Turn
from burnish.metrics.judges import Panel
from burnish.metrics.numbered_judges import (
    AnswerRelevancy,
    ContextualPrecision,
    ContextualRecall,
    ContextualRelevancy,
    Faithfulness,
    NumberedJudge,
)
from tests.metrics.judge_bench import CASE, panel, prompt, said, score, scripted


def judged(*verdicts: str) -> str:
    items = [{"number": n, "reason": f"why {n}", "verdict": v} for n, v in enumerate(verdicts, 1)]
    return json.dumps({"items": items})


def claims(*verdicts: str) -> str:
    found = [{"claim": f"c{n}", "reason": "r", "verdict": v} for n, v in enumerate(verdicts, 1)]
    return json.dumps({"claims": found})


Numbered = (
    type[AnswerRelevancy]
    | type[ContextualPrecision]
    | type[ContextualRecall]
    | type[ContextualRelevancy]
)


def made(kind: Numbered, asked: Panel) -> NumberedJudge:
    return kind(panel=asked, prompt=prompt(kind.role))


def faithful(asked: Panel, *, include_reason: bool = True) -> Faithfulness:
    role = prompt("judge_faithfulness")
    return Faithfulness(panel=asked, prompt=role, include_reason=include_reason)


@pytest.mark.parametrize(
    ("verdicts", "value"),
    [
        (("yes", "yes"), 1.0),
        (("yes", "no"), 0.5),
        (("yes", "unsure", "no", "yes"), 0.5),
        (("no",), 0.0),
        ((), 1.0),
    ],
)
async def test_faithfulness_is_the_share_of_claims_borne_out(
    verdicts: tuple[str, ...], value: float
) -> None:
    found = await score(faithful(panel(claims(*verdicts))))
    assert found.value == value


async def test_faithfulness_quotes_the_claims_that_fail() -> None:
    answer = claims("yes", "no", "unsure")
    found = await score(faithful(panel(answer)))
    assert found.reason == (
        "2 of 3 claims are not supported by the passages: "
        "'c2' is contradicted: r; 'c3' is not in the passages: r"
    )
    silent = await score(faithful(panel(answer), include_reason=False))
    assert silent.reason == "2 of 3 claims are not supported by the passages"
    assert silent.details == found.details


@pytest.mark.parametrize("kind", [Faithfulness, AnswerRelevancy])
async def test_an_empty_reply_is_no_good_one(
    kind: type[Faithfulness] | type[AnswerRelevancy],
) -> None:
    backend = scripted("never")
    metric = kind(panel=panel(backend), prompt=prompt(kind.role))
    found = await score(metric, CASE, Outcome(replies=("",)))
    assert (found.value, found.passed) == (0.0, None)
    assert found.reason.startswith("the reply is empty")
    assert backend.asked == []


@pytest.mark.parametrize(
    ("kind", "verdicts", "value"),
    [
        (AnswerRelevancy, ("yes", "yes"), 1.0),
        (AnswerRelevancy, ("yes", "no"), 0.5),
        (ContextualRelevancy, ("yes", "no"), 0.5),
        (ContextualRelevancy, ("no", "no"), 0.0),
        (ContextualPrecision, ("yes", "yes"), 1.0),
        (ContextualPrecision, ("yes", "no"), 1.0),
        (ContextualPrecision, ("no", "yes"), 0.5),
        (ContextualPrecision, ("no", "no"), 0.0),
        (ContextualRecall, ("yes",), 1.0),
        (ContextualRecall, ("no",), 0.0),
    ],
)
async def test_what_each_counts(kind: Numbered, verdicts: tuple[str, ...], value: float) -> None:
    metric = made(kind, panel(judged(*verdicts)))
    found = await score(metric)
    assert found.value == pytest.approx(value)
    assert bool(found.reason) == ("no" in verdicts)
    assert found.passed is None
    assert (await score(replace(metric, threshold=0.5))).passed is (value >= 0.5)


@pytest.mark.parametrize(
    ("held", "worth"),
    [
        ([True, False, True], (1 + 2 / 3) / 2),
        ([False, True, True], (1 / 2 + 2 / 3) / 2),
        ([False, False, True], 1 / 3),
        ([True, True, False], 1.0),
    ],
)
def test_precision_weighs_ranks(held: list[bool], worth: float) -> None:
    assert made(ContextualPrecision, panel("x")).worth(held) == pytest.approx(worth)


@given(st.lists(st.booleans(), min_size=1, max_size=12))
@settings(max_examples=50)
def test_precision_is_a_share_and_best_first_is_best(held: list[bool]) -> None:
    metric = made(ContextualPrecision, panel("x"))
    assert 0 <= metric.worth(held) <= metric.worth(sorted(held, reverse=True)) <= 1


async def test_the_reason_names_what_failed() -> None:
    found = await score(made(AnswerRelevancy, panel(judged("yes", "no"))))
    assert found.reason == (
        "1 of 2 sentences of the reply are not relevant to the question: "
        "'It has four rivers.': why 2"
    )
    assert found.details["items"] == [
        {"item": "The capital is Paris.", "verdict": "yes", "reason": "why 1"},
        {"item": "It has four rivers.", "verdict": "no", "reason": "why 2"},
    ]


async def test_what_is_numbered() -> None:
    case = Case(turns=(Turn(input="q", expected="One. Two.", context=("First. Half.", "Second.")),))
    shown: dict[str, str] = {}
    for kind, count in (
        (AnswerRelevancy, 2),
        (ContextualRelevancy, 3),
        (ContextualPrecision, 2),
        (ContextualRecall, 2),
    ):
        backend = scripted(judged(*["yes"] * count))
        await score(made(kind, panel(backend)), case)
        shown[kind.__name__] = backend.asked[0].messages[1].content
    assert "1. The capital is Paris.\n2. It has four rivers." in shown["AnswerRelevancy"]
    assert "1. First.\n2. Half.\n3. Second." in shown["ContextualRelevancy"]
    assert "1. First. Half.\n2. Second." in shown["ContextualPrecision"]
    assert "1. One.\n2. Two." in shown["ContextualRecall"]


async def test_what_tools_retrieved_will_do_where_the_case_has_no_context() -> None:
    backend = scripted(claims("yes"))
    tool = ToolCall(name="search", passages=("Found it.",))
    trace = Trace(steps=(Step(id="s", node="n", tools=(tool,)),))
    outcome = Outcome(replies=("r",), trace=trace)
    found = await score(faithful(panel(backend)), Case.single("q"), outcome)
    assert found.value == 1.0
    assert "<passages>\n1. Found it.\n</passages>" in backend.asked[0].messages[1].content


async def test_a_judge_may_not_skip_an_item() -> None:
    found = await score(made(AnswerRelevancy, panel(said(items=[]))))
    assert found.missing
    assert "1, 2 is missing" in found.reason
