"""GEval: criteria, steps that are made once, parameters, and strict mode."""

from dataclasses import replace
from pathlib import Path

import pytest

from burnish.core.cases import Case, Outcome, Turn
from burnish.core.errors import ConfigError
from burnish.metrics.geval import GEval
from burnish.metrics.judges import Panel
from burnish.models.chat import ChatRequest
from burnish.models.errors import ModelUnavailable
from tests.journal.journals import effects_in
from tests.metrics.judge_bench import CASE, OUTCOME, panel, prompt, said, score, scores, scripted

STEPS = said(steps=["Look at the tone.", "Weigh it."])


def geval(asked: Panel, *params: str, steps: tuple[str, ...] = ("Look.",)) -> GEval:
    return GEval(
        name="Kindness",
        panel=asked,
        prompt=prompt("judge_geval"),
        steps_prompt=prompt("judge_geval_steps"),
        criteria="Be kind.",
        evaluation_steps=steps,
        evaluation_params=params or ("actual_output",),
    )


def about_steps(request: ChatRequest) -> bool:
    return "steps" in request.schema["properties"] if request.schema else False  # pyright: ignore[reportOperatorIssue]


@pytest.mark.parametrize(
    ("given", "strict", "value", "passed"),
    [
        (10, False, 1.0, None),
        (7, False, 0.7, None),
        (4, False, 0.4, None),
        (0, False, 0.0, None),
        (10, True, 1.0, True),
        (9, True, 0.0, False),
    ],
)
async def test_ten_is_the_best(given: int, strict: bool, value: float, passed: bool | None) -> None:
    metric = replace(geval(panel(said(reasoning="so so", score=given))), strict_mode=strict)
    found = await score(metric)
    assert (found.metric, found.value, found.passed) == ("Kindness", value, passed)
    assert found.reason == ("" if given == 10 else f"{given} of 10: so so")
    assert found.details == {"raw": given}


async def test_only_the_parameters_are_shown() -> None:
    backend = scripted(said(reasoning="r", score=5))
    await score(geval(panel(backend)))
    shown = backend.asked[0].messages[1].content
    assert "<steps>\n1. Look.\n</steps>" in shown
    assert f"<actual_output>\n{OUTCOME.output}\n</actual_output>" in shown
    assert "Paris is the capital of France." not in shown
    assert "<agent_input>\n(plays no part)\n</agent_input>" in shown
    every = ("input", "actual_output", "expected_output", "context", "retrieval_context")
    await score(geval(panel(backend), *every))
    shown = backend.asked[1].messages[1].content
    assert "(plays no part)" not in shown
    assert "<retrieval_context>\n1. Paris is the capital of France.\n2. Lyon is a city." in shown


@pytest.mark.parametrize("param", ["expected_output", "context", "retrieval_context"])
async def test_a_turn_that_lacks_a_parameter_is_not_judged(param: str) -> None:
    backend = scripted("never")
    metric = geval(panel(backend), "actual_output", param)
    bare = Case(turns=(Turn(input="q"),))
    assert not await scores(metric, bare, Outcome(replies=("r",)))
    assert backend.asked == []


def writing_steps(request: ChatRequest, draw: int) -> str:
    return STEPS if about_steps(request) else said(reasoning="r", score=8)


async def test_steps_are_made_from_the_criteria_once_a_run(tmp_path: Path) -> None:
    backend = scripted(writing_steps)
    metric = geval(panel(backend), steps=())
    effects = effects_in(tmp_path)
    try:
        for reply in ("one", "two", "three"):
            outcome = Outcome(replies=(reply,))
            found = await score(metric, CASE, outcome, effects.scope(trial=0))
            assert found.value == 0.8
    finally:
        effects.journal.close()
    assert list(map(about_steps, backend.asked)) == [True, False, False, False]
    assert "<criteria>\nBe kind.\n</criteria>" in backend.asked[0].messages[1].content
    assert "<texts_to_see>\nactual_output\n</texts" in backend.asked[0].messages[1].content
    assert "<steps>\n1. Look at the tone.\n2. Weigh it.\n" in backend.asked[1].messages[1].content


async def test_every_judge_goes_by_the_steps_of_the_first() -> None:
    first, second = scripted(writing_steps), scripted(said(reasoning="r", score=6))
    found = await score(geval(panel(first, second), steps=()))
    assert found.value == 0.6
    assert len(second.asked) == 1
    assert "Look at the tone." in second.asked[0].messages[1].content


@pytest.mark.parametrize("bad", ["nothing", said(steps=[]), said(steps=[""])])
async def test_without_steps_there_is_no_score(bad: str) -> None:
    found = await score(geval(panel(bad), steps=()))
    assert found.missing
    assert "judge_geval_steps answered twice" in found.reason


async def test_a_judge_that_is_down_leaves_no_steps() -> None:
    def down(request: ChatRequest, draw: int) -> str:
        raise ModelUnavailable("gone")

    assert (await score(geval(panel(down), steps=()))).missing


def test_what_no_geval_can_be() -> None:
    with pytest.raises(ConfigError) as raised:
        GEval(
            panel=panel("x"),
            prompt=prompt("judge_geval"),
            criteria=" ",
            evaluation_params=("actual_output", "mood"),
        )
    told = str(raised.value)
    assert "geval.criteria: the criteria are empty" in told
    assert "'mood' is not known" in told
    assert "no steps, and no prompt to write them with" in told
    with pytest.raises(ConfigError, match="evaluation_params: name at least one"):
        replace(geval(panel("x")), evaluation_params=())


def test_all_settings_are_part_of_the_fingerprint() -> None:
    one = geval(panel("x"))
    others = [
        replace(one, criteria="Be just."),
        replace(one, evaluation_steps=("Listen.",)),
        replace(one, evaluation_params=("input", "actual_output")),
        replace(one, strict_mode=True),
        replace(one, steps_prompt=replace(prompt("judge_geval_steps"), system="Other.")),
    ]
    assert len({each.fingerprint for each in (one, *others)}) == 6
