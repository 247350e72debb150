"""Every judged metric: answers that cannot be used are mended once, else the score is missing."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Turn
from burnish.core.evaluations import Score
from burnish.journal.once import DirectEffects
from burnish.metrics.geval import FinalResponseJudge
from burnish.models.chat import ChatReply, ChatRequest
from burnish.models.errors import ModelRejected, ModelUnavailable
from tests.journal.journals import effects_in
from tests.metrics.judge_bench import (
    CASE,
    KINDS,
    OUTCOME,
    REPLY,
    panel,
    prompt,
    said,
    score,
    scores,
    scripted,
)

VALID = said(reasoning="same", is_the_agent_response_valid="valid")
EACH = pytest.mark.parametrize("name", KINDS)


def first(bad: str, good: str) -> Callable[[ChatRequest, int], str]:
    """Answers badly, and well when it is asked to mend it."""
    return lambda request, _: good if len(request.messages) > 2 else bad


def without_verdicts(good: str) -> str:
    """The same answer with its last field gone."""
    whole = json.loads(good)
    whole.popitem()
    return json.dumps(whole)


@EACH
async def test_a_good_answer_is_a_score_with_whatever_around_it(name: str) -> None:
    kind = KINDS[name]
    trailing = f"{kind.good[:-1]},\n}}"
    for answer in (
        kind.good,
        f"```json\n{kind.good}\n```",
        f"Here you are: {kind.good}",
        f"{kind.good}\n\nI hope that helps.",
        f"<think>Hm. {{}}?</think>\n```\n{trailing}\n```",
    ):
        backend = scripted(answer)
        metric = kind.make(panel(backend))
        found = await score(metric)
        assert (found.metric, found.value, found.passed) == (name, pytest.approx(kind.value), True)
        calls = 2 if name == "llm_verifier_pairwise" else 1
        assert len(backend.asked) == metric.estimate(CASE).calls == calls


SPOILED: dict[str, Callable[[str], str]] = {
    "nothing": lambda good: "",
    "prose": lambda good: "I would say it is fine.",
    "an empty object": lambda good: "{}",
    "a list": lambda good: "[]",
    "null": lambda good: "null",
    "half an answer": lambda good: good[: len(good) // 2],
    "two answers": lambda good: f'{good}\n\nOr rather: {{"other": 1}}',
    "no verdict": without_verdicts,
}


@EACH
async def test_a_malformed_answer_is_mended_once_and_else_missing(name: str) -> None:
    kind = KINDS[name]
    for how, spoil in SPOILED.items():
        bad = spoil(kind.good)
        mended = await score(kind.make(panel(first(bad, kind.good))))
        assert mended.value == pytest.approx(kind.value), how
        backend = scripted(bad)
        metric = kind.make(panel(backend))
        gone = await score(metric)
        assert (gone.value, gone.passed) == (None, None), how
        assert f"{metric.role} answered twice without a valid answer" in gone.reason, how
        assert len(backend.asked) == 2 * metric.estimate(CASE).calls, how


def raising(error: Exception) -> Callable[[ChatRequest, int], str]:
    def respond(request: ChatRequest, draw: int) -> str:
        raise error

    return respond


GIVES_NOTHING: dict[str, Callable[[ChatRequest, int], str | ChatReply]] = {
    "cut off at its token limit": lambda _, __: ChatReply(text="{", finish="length"),
    "could not be asked: 429 slow down": raising(ModelUnavailable("429 slow down")),
    "could not be asked: too long": raising(ModelRejected("too long")),
}


@EACH
async def test_a_judge_that_gives_nothing_leaves_the_score_missing(name: str) -> None:
    for words, respond in GIVES_NOTHING.items():
        found = await score(KINDS[name].make(panel(respond)))
        assert (found.value, found.passed) == (None, None)
        assert words in found.reason


async def test_a_cut_off_answer_says_what_to_do() -> None:
    cut = scripted(lambda _, __: ChatReply(text=VALID, finish="length"))
    found = await score(KINDS["llm_final_response"].make(panel(cut)))
    assert "raise max_tokens" in found.reason


def valid(verdict: object) -> str:
    return json.dumps({"reasoning": "r", "is_the_agent_response_valid": verdict})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("llm_final_response", valid("perhaps")),
        ("llm_final_response", valid(True)),
        ("llm_final_response", valid(["valid", "invalid"])),
        ("llm_final_response", valid(None)),
        ("geval", said(reasoning="r", score=11)),
        ("geval", said(reasoning="r", score=-1)),
        ("geval", said(reasoning="r", score=7.5)),
        ("geval", said(reasoning="r", score=True)),
        ("geval", '{"reasoning": "r", "score": NaN}'),
        ("geval", '{"reasoning": "r", "score": Infinity}'),
        ("fluency", said(reasoning="r", score=0)),
        ("fluency", said(reasoning="r", score=6)),
        ("fluency", said(reasoning="r", score="good")),
        ("llm_judge_template", '{"reason": "r", "score": NaN}'),
        ("llm_judge_template", said(reason="r", score=1.01)),
        ("llm_judge_template", said(reason="r", score=False)),
        ("llm_verifier_pairwise", said(reasoning="r", first_grade="U", second_grade="A")),
        ("llm_verifier_pairwise", said(reasoning="r", first_grade="A+", second_grade="A")),
        ("llm_hallucinations", said(items=[{"number": 1, "reason": "r", "verdict": "true"}])),
        ("faithfulness", said(claims=[{"claim": "c", "reason": "r", "verdict": "maybe"}])),
    ],
)
async def test_a_verdict_that_is_none_is_never_a_score(name: str, bad: str) -> None:
    kind = KINDS[name]
    assert (await score(kind.make(panel(bad)))).missing
    mended = await score(kind.make(panel(first(bad, kind.good))))
    assert mended.value == pytest.approx(kind.value)


def item(each: str | int, verdict: str, key: str) -> dict[str, str | int]:
    return {key: each, "evidence": "e", "reason": "r", "verdict": verdict}


@pytest.mark.parametrize(
    ("name", "key", "ids", "words"),
    [
        ("llm_rubric_response", "id", ["r1"], "r2 is missing"),
        ("llm_rubric_response", "id", ["r1", "r2", "r3"], "r3 is not among those asked about"),
        ("llm_rubric_response", "id", ["r1", "r2", "r1"], "r1 is there more than once"),
        ("llm_rubric_response", "id", ["1", "2"], "r1, r2 is missing; 1, 2 is not among"),
        ("llm_rubric_response", "id", [], "r1, r2 is missing"),
        ("answer_relevancy", "number", [1], "2 is missing"),
        ("answer_relevancy", "number", [1, 2, 3], "3 is not among"),
        ("answer_relevancy", "number", [1, 2, 2], "2 is there more than once"),
        ("answer_relevancy", "number", [0, 1], "2 is missing; 0 is not among"),
    ],
)
async def test_items_are_matched_with_what_was_asked(
    name: str, key: str, ids: list[str | int], words: str
) -> None:
    # The second of two equal ids says the opposite of the first.
    verdicts = ["yes", "yes", "no"]
    bad = json.dumps({"items": [item(i, v, key) for i, v in zip(ids, verdicts, strict=False)]})
    kind = KINDS[name]
    backend = scripted(first(bad, kind.good))
    assert (await score(kind.make(panel(backend)))).value == pytest.approx(kind.value)
    assert words in backend.asked[1].messages[-1].content
    gone = await score(kind.make(panel(bad)))
    assert gone.missing
    assert words in gone.reason


@pytest.mark.parametrize("verdict", ["valid", "VALID", " Valid\n"])
async def test_letter_case_is_no_fault(verdict: str) -> None:
    metric = KINDS["llm_final_response"].make(panel(valid(verdict)))
    assert (await score(metric)).value == 1.0


async def test_what_a_judge_says_besides_is_left_alone() -> None:
    talkative = said(reasoning="r", confidence=3, is_the_agent_response_valid="invalid")
    assert (await score(KINDS["llm_final_response"].make(panel(talkative)))).value == 0.0


async def test_an_over_long_reason_is_cut_and_the_verdict_stands() -> None:
    long = said(reasoning="word " * 50_000, is_the_agent_response_valid="invalid")
    found = await score(KINDS["llm_final_response"].make(panel(long)))
    assert found.value == 0.0
    assert len(found.reason) < 500
    assert found.reason.endswith("…")


async def test_final_response_says_why_not_and_shows_both_answers() -> None:
    backend = scripted(said(reasoning="names Lyon", is_the_agent_response_valid="invalid"))
    metric = FinalResponseJudge(panel=panel(backend), prompt=prompt("judge_final_response"))
    found = await score(metric)
    assert found == Score(
        metric="llm_final_response",
        value=0.0,
        passed=False,
        reason="not a valid answer: names Lyon",
        details={"reasoning": "names Lyon"},
    )
    shown = backend.asked[0].messages[1].content
    assert f"<agent_response>\n{REPLY}\n</agent_response>" in shown
    assert "<reference_response>\nParis is the capital of France.\n</reference_response>" in shown
    assert "<conversation>\n(none)\n</conversation>" in shown


REFERENCE_NEEDED = {
    "llm_final_response",
    "llm_rubric_critic",
    "llm_rubric_reference_critic",
    "llm_verifier_pairwise",
    "contextual_precision",
    "contextual_recall",
}
PASSAGES_NEEDED = {
    "faithfulness",
    "contextual_relevancy",
    "contextual_precision",
    "contextual_recall",
    "groundedness",
}


@EACH
async def test_what_a_metric_needs_decides_whether_it_applies(name: str) -> None:
    bare = Case(turns=(Turn(input="What is the capital of France?"),))
    with_reference = Case(turns=(Turn(input="Capital?", expected="Paris is the capital."),))
    metric = KINDS[name].make(panel(KINDS[name].good))
    needs = REFERENCE_NEEDED | PASSAGES_NEEDED
    no_passages = Outcome(replies=(REPLY,))
    assert bool(await scores(metric, bare, no_passages)) == (name not in needs)
    applies = name not in PASSAGES_NEEDED
    assert bool(await scores(metric, with_reference, no_passages)) == applies
    backend = scripted("never")
    other = Case(turns=(Turn(input="x", expected="y", metrics=("another",)),))
    assert not await scores(KINDS[name].make(panel(backend)), other, OUTCOME)
    assert backend.asked == []


@EACH
def test_a_fingerprint_knows_prompt_panel_and_threshold(name: str) -> None:
    kind = KINDS[name]
    one = kind.make(panel("a"))
    assert kind.make(panel("b")).fingerprint == one.fingerprint
    others = [
        replace(one, threshold=0.9),
        replace(one, name="other"),
        replace(one, panel=panel("a", samples=3)),
        replace(one, panel=panel("a", "a")),
        replace(one, prompt=replace(one.prompt, system="Judge kindly.")),
        replace(one, explicit=True),
    ]
    assert len({each.fingerprint for each in (one, *others)}) == 7
    assert replace(one, prompt=replace(one.prompt, source=Path("x"))).fingerprint == one.fingerprint


async def test_the_same_text_is_judged_once_in_a_run(tmp_path: Path) -> None:
    backend = scripted(VALID)
    metric = KINDS["llm_final_response"].make(panel(backend))
    again = Case(name="the same under another name", turns=CASE.turns)
    effects = effects_in(tmp_path)
    try:
        for case in (CASE, again, CASE):
            found = await score(metric, case, effects=effects.scope(trial=0))
            assert found.value == 1.0
        assert len(backend.asked) == 1
        other = Outcome(replies=("Another reply.",))
        await score(metric, CASE, other, effects=effects.scope(trial=0))
        assert len(backend.asked) == 2
    finally:
        effects.journal.close()


async def test_every_turn_is_judged_and_knows_the_ones_before() -> None:
    backend = scripted(VALID)
    metric = KINDS["llm_final_response"].make(panel(backend))
    case = Case(turns=(Turn(input="one", expected="1"), Turn(input="two", expected="2")))
    effects = DirectEffects()
    found = await scores(metric, case, Outcome(replies=("1", "2")), effects)
    assert [each.turn for each in found] == [0, 1]
    assert effects.spent.calls == metric.estimate(case).calls == 2
    assert "<conversation>\nuser: one\nagent: 1\n</conversation>" in (
        backend.asked[1].messages[1].content
    )
