"""EvalSets of the Go framework, which PromptIter uses, load and are written as they were."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Message, Rubric, Scenario, ToolCall, ToolUse
from burnish.core.content import Json
from tests.datasets.dataset_files import check_evalset, problems, put, said


def talk(text: str, role: str = "user") -> dict[str, Json]:
    return {"role": role, "content": text}


def whole(*cases: Json) -> dict[str, Json]:
    return {"evalSetId": "recap-train", "name": "recap-train", "evalCases": [*cases]}


RECAP: dict[str, Json] = {
    "evalId": "recap-1",
    "expectedRunnerEnabled": True,
    "contextMessages": [talk("Write for fans.", "system"), talk("Sure.", "assistant")],
    "conversation": [
        {
            "invocationId": "recap-1-1",
            "metricNames": ["length", "quality"],
            "contextMessages": [talk("only here", "system")],
            "userContent": talk("Sum up the game: 3:1 <at home>"),
            "finalResponse": talk("They won 3:1 — at home.", "assistant"),
            "tools": [
                {"id": "c1", "name": "lookup", "arguments": {"game": 7}, "result": {"goals": 4}},
                {"name": "clock", "result": "21:00"},
            ],
            "toolMock": {"lookup": [{"when": {}, "give": 1}]},
            "intermediateResponses": [talk("Let me look.", "assistant")],
        }
    ],
    "sessionInput": {"appName": "recap", "userId": "u1", "state": {"theTeam": "x"}},
    "rubrics": [
        {
            "metricName": "quality",
            "id": "r1",
            "content": {"text": "Names the score."},
            "description": "the score",
            "type": "FACTS",
        }
    ],
}


def test_a_case_with_all_that_the_format_has(tmp_path: Path) -> None:
    file = check_evalset(tmp_path, whole(RECAP))
    (case,) = file.cases
    assert case.history == (
        Message(role="system", content="Write for fans."),
        Message(role="assistant", content="Sure."),
    )
    (turn,) = case.turns
    assert (turn.input, turn.metrics) == ("Sum up the game: 3:1 <at home>", ("length", "quality"))
    assert turn.expected == "They won 3:1 — at home."
    assert turn.expected_calls == (
        ToolCall(name="lookup", arguments={"game": 7}, result={"goals": 4}, id="c1"),
        ToolCall(name="clock", result="21:00"),
    )
    assert case.rubrics == (
        Rubric(id="r1", text="Names the score.", description="the score", kind="FACTS",
               metric="quality"),
    )  # fmt: skip
    assert case.extras["session_input"] == {
        "app_name": "recap",
        "user_id": "u1",
        "state": {"theTeam": "x"},
    }


@pytest.mark.parametrize("arguments", ['{"x": 1}', "eyJ4IjogMX0="], ids=["JSON", "Go's bytes"])
def test_a_history_with_tools(tmp_path: Path, arguments: str) -> None:
    call: Json = {"type": "function", "id": "1", "function": {"name": "f", "arguments": arguments}}
    case: Json = {
        "evalId": "a",
        "contextMessages": [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "two", "tool_id": "1", "tool_name": "f"},
        ],
        "conversation": [{"userContent": talk("q")}],
    }
    (read,) = check_evalset(tmp_path, whole(case)).cases
    use = ToolUse(id="1", name="f", arguments={"x": 1})
    assert read.history == (
        Message(role="assistant", content="", uses=(use,)),
        Message(role="tool", content="two", answers="1", tool="f"),
    )


def test_a_scenario_with_its_driver(tmp_path: Path) -> None:
    scenario: Json = {
        "driver": "llm",
        "startingPrompt": "Hello",
        "conversationPlan": "Ask for a refund.",
        "stopSignal": "<done>",
        "maxAllowedInvocations": 6,
    }
    file = check_evalset(tmp_path, whole({"evalId": "s", "conversationScenario": scenario}))
    (case,) = file.cases
    assert case.scenario == Scenario(plan="Ask for a refund.", stop_signal="<done>", max_turns=6)


def test_a_trace(tmp_path: Path) -> None:
    turn: Json = {
        "invocationId": "a",
        "userContent": talk("add 1 2"),
        "finalResponse": talk("3", "assistant"),
        "tools": [{"id": "x", "name": "add", "arguments": {"a": 1, "b": 2}, "result": 3}],
    }
    case: Json = {
        "evalId": "t",
        "evalMode": "trace",
        "conversation": [turn],
        "actualConversation": [turn],
        "sessionInput": {"appName": "a", "userId": "u"},
    }
    (read,) = check_evalset(tmp_path, whole(case)).cases
    assert read.recorded is not None
    assert read.recorded.replies == ("3",)
    assert read.recorded.trace.steps[0].tools == read.turns[0].expected_calls


@pytest.mark.parametrize(
    ("arguments", "meaning"),
    [
        ({"a": 1}, {"a": 1}),
        ('{"a":  1}', {"a": 1}),
        ("{}", {}),
        ("", {}),
        (None, {}),
    ],
)
def test_arguments_as_text_mean_the_same_and_stay_text(
    tmp_path: Path, arguments: Json, meaning: Json
) -> None:
    tools: Json = [{"name": "f", "arguments": arguments}]
    case: Json = {"evalId": "a", "conversation": [{"userContent": talk("q"), "tools": tools}]}
    (read,) = check_evalset(tmp_path, whole(case)).cases
    [call] = read.turns[0].expected_calls or []
    assert call.arguments == meaning


OTHERS: list[Json] = [
    {"EVALID": "a", "Conversation": [{"UserContent": {"Role": "user", "CONTENT": "q"}}]},
    {"evalId": "a", "conversation": [{"userContent": said("q"), "finalResponse": talk("r")}]},
    {"evalId": "a", "conversation": [
        {"userContent": {"role": "user", "content_parts": [{"type": "text", "text": "q"}]}}]},
    {"evalId": "a", "rubrics": [], "conversation": [{"userContent": talk("q"), "tools": []}]},
    {"evalId": "a", "conversation": [{"userContent": talk("q")}], "contextMessages": [
        talk("a"), {"role": "tool", "tool_id": "1", "content": "b"}]},
]  # fmt: skip


@pytest.mark.parametrize(
    "case",
    OTHERS,
    ids=["any case", "both kinds of message", "content parts", "empty lists", "a tool's message"],
)  # fmt: skip
def test_other_ways_to_write_it(tmp_path: Path, case: Json) -> None:
    assert check_evalset(tmp_path, whole(case)).cases[0].input == "q"


def test_a_set_may_be_in_any_json_file(tmp_path: Path) -> None:
    assert check_evalset(tmp_path, whole(RECAP), "recap.json").cases


BAD: list[tuple[dict[str, Json], str]] = [
    ({"tools": [{"name": "f", "arguments": [1]}]},
     "tools[0].arguments: expected a mapping, or JSON of one, found a list"),
    ({"tools": [{"name": "f", "arguments": "x=1"}]},
     "tools[0].arguments: expected a mapping, or JSON of one, found 'x=1'"),
    ({"tools": [{"args": {}}]}, "tools[0].name: required, but missing — add it"),
    ({"metricName": ["m"]},
     "metricName: unknown key 'metricName' — did you mean 'metricNames'?"),
    ({"metricNames": "m"}, "metricNames: expected a list, found 'm'"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "problem"), BAD)
def test_what_is_wrong_with_a_turn(tmp_path: Path, change: dict[str, Json], problem: str) -> None:
    turn: Json = {"userContent": talk("q"), **change}
    text = json.dumps(whole({"evalId": "a", "conversation": [turn]}))
    found = problems(put(tmp_path, "bad.evalset.json", text))
    assert f"bad.evalset.json:1 evalCases[0].conversation[0].{problem}" in found
