"""Rubric judges: whose rubrics count, which are matched, and what each of them earned."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from burnish.core.cases import Case, Outcome, Rubric, Step, ToolCall, Trace, Turn
from burnish.core.content import Json
from burnish.core.errors import ConfigError
from burnish.metrics.judges import Panel
from burnish.metrics.rubrics import (
    RubricCritic,
    RubricKnowledgeRecall,
    RubricReferenceCritic,
    RubricResponse,
)
from tests.metrics.judge_bench import (
    CASE,
    OUTCOME,
    RUBRICS,
    panel,
    prompt,
    score,
    scores,
    scripted,
)


def judged(verdicts: Mapping[str, str]) -> str:
    """A judge's answer with these verdicts."""
    return json.dumps(
        {
            "items": [
                {
                    "id": each,
                    "evidence": f"e {each}",
                    "reason": f"because {each}",
                    "verdict": verdict,
                }
                for each, verdict in verdicts.items()
            ]
        }
    )


def response(asked: Panel, rubrics: tuple[Rubric, ...] = RUBRICS) -> RubricResponse:
    return RubricResponse(panel=asked, prompt=prompt("judge_rubric_response"), rubrics=rubrics)


@pytest.mark.parametrize(
    ("verdicts", "value", "words"),
    [
        ({"r1": "yes", "r2": "yes"}, 1.0, ""),
        ({"r2": "YES ", "r1": "no"}, 0.5, "'r1' (It names the city.): because r1"),
        ({"r1": "no", "r2": "no"}, 0.0, "because r1; 'r2' (It is short.): because r2"),
    ],
)
async def test_the_share_of_rubrics_that_hold(
    verdicts: dict[str, str], value: float, words: str
) -> None:
    found = await score(response(panel(judged(verdicts))))
    assert found.value == value
    assert words in found.reason
    assert bool(found.reason) == (value < 1)


async def test_every_verdict_is_kept_in_the_order_of_the_rubrics() -> None:
    found = await score(response(panel(judged({"r2": "no", "r1": "yes"}))))
    assert found.details["rubrics"] == [
        {"id": "r1", "verdict": "yes", "reason": "because r1", "evidence": "e r1"},
        {"id": "r2", "verdict": "no", "reason": "because r2", "evidence": "e r2"},
    ]
    assert found.reason == "1 of 2 rubrics did not hold: 'r2' (It is short.): because r2"


def verdicts_in(details: Json) -> list[Json]:
    assert isinstance(details, dict)
    kept = details["rubrics"]
    assert isinstance(kept, list)
    return [each["verdict"] for each in kept if isinstance(each, dict)]


async def test_verdicts_survive_samples_and_panels() -> None:
    def respond(_: object, draw: int) -> str:
        return judged({"r1": "yes" if draw else "no", "r2": "no"})

    found = await score(response(panel(respond, judged({"r1": "yes", "r2": "yes"}), samples=3)))
    judges = found.details["judges"]
    assert isinstance(judges, list)
    first, second = judges
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    # r1 holds in two samples of three, and half of the rubrics is a pass: the majority's first.
    assert verdicts_in(first["details"]) == ["yes", "no"]
    assert verdicts_in(second["details"]) == ["yes", "yes"]
    assert isinstance(first["details"], dict)
    samples = first["details"]["samples"]
    assert isinstance(samples, list)
    told = [each["details"] for each in samples if isinstance(each, dict)]
    assert [verdicts_in(each) for each in told] == [["no", "no"], ["yes", "no"], ["yes", "no"]]


async def test_a_case_adds_the_rubrics_that_are_meant_for_this_metric() -> None:
    own = (
        Rubric(id="all", text="For every metric."),
        Rubric(id="mine", text="For this one.", metric="llm_rubric_response"),
        Rubric(id="other", text="For another.", metric="llm_rubric_critic"),
    )
    backend = scripted(judged({"r1": "yes", "r2": "yes", "all": "yes", "mine": "no"}))
    found = await score(response(panel(backend)), replace(CASE, rubrics=own))
    assert found.value == 0.75
    shown = backend.asked[0].messages[1].content
    assert "<rubrics>\nr1: It names the city.\nr2: It is short.\nall: For every" in shown
    assert "For another." not in shown


async def test_the_rubrics_of_a_case_alone_will_do_and_none_at_all_does_not_apply() -> None:
    metric = response(panel(judged({"c": "yes"})), ())
    assert not await scores(metric)
    found = await score(metric, replace(CASE, rubrics=(Rubric(id="c", text="t"),)))
    assert found.value == 1.0


async def test_a_case_whose_rubrics_clash_has_no_score() -> None:
    backend = scripted("never")
    clashing = replace(CASE, rubrics=(Rubric(id="r1", text="again"), Rubric(id="", text="x")))
    found = await score(response(panel(backend)), clashing)
    assert found.missing
    assert found.reason == "case 'capital': two rubrics have the id 'r1'; a rubric has no id"
    assert backend.asked == []


def test_rubrics_of_the_metric_must_have_ids_of_their_own() -> None:
    bad = (Rubric(id="a", text="x"), Rubric(id="a", text="y"), Rubric(id=" ", text=""))
    with pytest.raises(ConfigError) as raised:
        response(panel("x"), bad)
    told = str(raised.value)
    assert "two rubrics have the id 'a'" in told
    assert "a rubric has no id" in told
    assert "has no text" in told


async def test_numbers_will_do_as_ids() -> None:
    rubrics = (Rubric(id="1", text="x"), Rubric(id="2", text="y"))
    answer = json.dumps(
        {"items": [{"id": n, "evidence": "", "reason": "", "verdict": "yes"} for n in (1, 2)]}
    )
    assert (await score(response(panel(answer), rubrics))).value == 1.0


async def test_the_reference_is_given_where_there_is_one() -> None:
    backend = scripted(judged({"r1": "yes", "r2": "yes"}))
    metric = response(panel(backend))
    await score(metric)
    await score(metric, Case(turns=(Turn(input="?"),)))
    shown = [request.messages[1].content for request in backend.asked]
    reference = "<reference_response>\n{}\n</reference_response>"
    assert reference.format("Paris is the capital of France.") in shown[0]
    assert reference.format("(none)") in shown[1]


async def test_descriptions_are_for_people() -> None:
    backend = scripted(judged({"d": "yes"}))
    await score(response(panel(backend), (Rubric(id="d", text="t", description="secret"),)))
    assert "secret" not in backend.asked[0].messages[1].content


@pytest.mark.parametrize("kind", [RubricCritic, RubricReferenceCritic])
async def test_critics_go_by_the_reference_and_need_one(
    kind: type[RubricCritic] | type[RubricReferenceCritic],
) -> None:
    backend = scripted(judged({"r1": "yes", "r2": "no"}))
    metric = kind(panel=panel(backend), prompt=prompt(kind.role), rubrics=RUBRICS)
    assert (await score(metric)).value == 0.5
    assert "Paris is the capital of France." in backend.asked[0].messages[1].content
    assert not await scores(metric, Case(turns=(Turn(input="?"),)))


def recall(asked: Panel, *names: str) -> RubricKnowledgeRecall:
    role = prompt("judge_rubric_knowledge_recall")
    if names:
        return RubricKnowledgeRecall(
            panel=asked, prompt=role, rubrics=RUBRICS, knowledge_tool_names=names
        )
    return RubricKnowledgeRecall(panel=asked, prompt=role, rubrics=RUBRICS)


def used(*tools: ToolCall) -> Outcome:
    return Outcome(replies=("r",), trace=Trace(steps=(Step(id="s", node="n", tools=tools),)))


async def test_recall_is_judged_by_what_the_knowledge_tools_gave() -> None:
    backend = scripted(judged({"r1": "yes", "r2": "no"}))
    outcome = used(
        ToolCall(name="docs", passages=("p1", "p2")),
        ToolCall(name="wiki", result={"title": "Paris"}),
        ToolCall(name="calculator", result="42"),
    )
    assert (await score(recall(panel(backend), "docs", "wiki"), CASE, outcome)).value == 0.5
    shown = backend.asked[0].messages[1].content
    assert '<retrieved_knowledge>\n1. p1\n2. p2\n3. {"title":"Paris"}\n</retrieved_know' in shown
    assert "42" not in shown
    assert "agent_response" not in shown


@pytest.mark.parametrize(
    ("tools", "words"),
    [
        ((), "knowledge_search was not called in this turn, and neither was any other tool"),
        ((ToolCall(name="add"),), "knowledge_search was not called in this turn, only add"),
        ((ToolCall(name="knowledge_search"),), "knowledge_search was called and returned nothing"),
        (
            (ToolCall(name="knowledge_search", error="no index"),),
            "knowledge_search was called and returned nothing (no index)",
        ),
    ],
)
async def test_where_nothing_was_retrieved_the_score_is_zero(
    tools: tuple[ToolCall, ...], words: str
) -> None:
    backend = scripted("never")
    found = await score(recall(panel(backend)), CASE, used(*tools))
    assert (found.value, found.passed) == (0.0, None)
    assert found.reason == f"nothing was retrieved: {words}"
    assert backend.asked == []


async def test_recall_without_rubrics_does_not_apply() -> None:
    metric = replace(recall(panel("never")), rubrics=())
    assert not await scores(metric, CASE, OUTCOME)


def test_rubrics_and_tool_names_are_part_of_the_fingerprint() -> None:
    one = recall(panel("x"))
    others = [recall(panel("x"), "docs"), replace(one, rubrics=RUBRICS[:1])]
    assert len({each.fingerprint for each in (one, *others)}) == 3
