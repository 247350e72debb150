"""EvalSets of the Python framework load in every spelling, and are written as they were."""

import json
from pathlib import Path

import pytest

from burnish.core.cases import Image, Message, Scenario, ToolCall, ToolUse, Turn
from burnish.core.content import Json
from burnish.metrics.turns import exchanges
from tests.datasets.dataset_files import check_evalset, problems, put, said


def evalset(*cases: Json) -> dict[str, Json]:
    return {"eval_set_id": "weather", "eval_cases": [*cases]}


def camel(*cases: Json) -> dict[str, Json]:
    return {"evalSetId": "weather", "evalCases": [*cases]}


def conversation(*turns: Json, name: str = "one") -> dict[str, Json]:
    return {"eval_id": name, "conversation": [*turns]}


SNAKE: Json = {
    "eval_set_id": "weather",
    "app_name": "weather_agent",
    "name": "Weather, two ways",
    "eval_cases": [
        {
            "eval_id": "oslo",
            "conversation": [
                {
                    "invocation_id": "i-1",
                    "user_content": said("Er det kaldt i Oslo? ❄"),
                    "final_response": said("−4 °C", "model"),
                    "intermediate_data": {
                        "tool_uses": [{"id": "t1", "name": "forecast", "args": {"city": "Oslo"}}],
                        "tool_responses": [
                            {"id": "t1", "name": "forecast", "response": {"degrees": -4}}
                        ],
                    },
                }
            ],
            "session_input": {"app_name": "weather_agent", "user_id": "u", "state": {"a_B": 1}},
        }
    ],
    "creation_timestamp": 1761134484.98,
}
CAMEL: Json = {
    "evalSetId": "weather",
    "appName": "weather_agent",
    "name": "Weather, two ways",
    "evalCases": [
        {
            "evalId": "oslo",
            "conversation": [
                {
                    "invocationId": "i-1",
                    "userContent": said("Er det kaldt i Oslo? ❄"),
                    "finalResponse": said("−4 °C", "model"),
                    "intermediateData": {
                        "toolUses": [{"id": "t1", "name": "forecast", "args": {"city": "Oslo"}}],
                        "toolResponses": [
                            {"id": "t1", "name": "forecast", "response": {"degrees": -4}}
                        ],
                    },
                }
            ],
            "sessionInput": {"appName": "weather_agent", "userId": "u", "state": {"a_B": 1}},
        }
    ],
    "creationTimestamp": 1761134484.98,
}


@pytest.mark.parametrize("whole", [SNAKE, CAMEL], ids=["snake", "camel"])
def test_both_spellings_say_the_same(tmp_path: Path, whole: Json) -> None:
    file = check_evalset(tmp_path, whole)
    assert file.eval_set_id == "weather"
    (case,) = file.cases
    assert case.turns == (
        Turn(
            input="Er det kaldt i Oslo? ❄",
            expected="−4 °C",
            expected_calls=(
                ToolCall(
                    name="forecast", arguments={"city": "Oslo"}, result={"degrees": -4}, id="t1"
                ),
            ),
        ),
    )
    session = {"app_name": "weather_agent", "user_id": "u", "state": {"a_B": 1}}
    assert case.extras == {"session_input": session}


def test_the_framework_s_own_kind_of_file_loads(tmp_path: Path) -> None:
    turn: Json = {
        "invocation_id": "e-1",
        "user_content": {"parts": [{"text": "杭州今天热吗"}], "role": "user"},
        "final_response": {"parts": [{"text": "31°C"}], "role": "model"},
        "intermediate_data": {
            "tool_uses": [{"id": "t1", "name": "get_weather", "args": {"city": "杭州"}}]
        },
    }
    (case,) = check_evalset(tmp_path, evalset(conversation(turn))).cases
    assert (case.input, case.expected) == ("杭州今天热吗", "31°C")
    assert [call.name for call in case.turns[0].expected_calls or ()] == ["get_weather"]


def test_the_name_of_the_file_may_end_in_test_json(tmp_path: Path) -> None:
    assert check_evalset(tmp_path, SNAKE, "weather.test.json").cases


class TestMessages:
    def test_texts_are_joined_by_line_without_thoughts(self, tmp_path: Path) -> None:
        content: Json = {
            "role": "user",
            "parts": [
                {"text": "first"},
                {"text": "hm", "thought": True},
                {"inline_data": {"mime_type": "image/png", "data": "aGk="}},
                {"text": "second"},
            ],
        }
        (case,) = check_evalset(tmp_path, evalset(conversation({"user_content": content}))).cases
        assert case.input == "first\nsecond"

    def test_context_messages_are_the_history(self, tmp_path: Path) -> None:
        call: Json = {"function_call": {"id": "1", "name": "f", "args": {"x": 1}}}
        back: Json = {"function_response": {"id": "1", "name": "f", "response": {"y": 2}}}
        picture: Json = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
        case: Json = {
            **conversation({"user_content": said("q")}),
            "context_messages": [
                {"role": "user", "parts": [{"text": "Be short."}, picture]},
                {"role": "model", "parts": [call]},
                {"role": "user", "parts": [back]},
                said("I will.", "model"),
            ],
        }
        (read,) = check_evalset(tmp_path, evalset(case)).cases
        use = ToolUse(id="1", name="f", arguments={"x": 1})
        image = Image(media_type="image/png", base64="aGk=")
        assert read.history == (
            Message(role="user", content="Be short.", images=(image,)),
            Message(role="assistant", content="", uses=(use,)),
            Message(role="tool", content='{"y": 2}', answers="1", tool="f"),
            Message(role="assistant", content="I will."),
        )


class TestCalls:
    @pytest.mark.parametrize(
        ("uses", "responses", "results"),
        [
            ([{"id": "1", "name": "f"}, {"id": "2", "name": "g"}],
             [{"id": "2", "name": "g", "response": {"r": "g"}},
              {"id": "1", "name": "f", "response": {"r": "f"}}], [{"r": "f"}, {"r": "g"}]),
            ([{"name": "f"}, {"name": "f"}],
             [{"name": "f", "response": {"r": 1}}, {"name": "f", "response": {"r": 2}}],
             [{"r": 1}, {"r": 2}]),
            ([{"name": "f"}, {"name": "g"}], [{"name": "g", "response": {"r": 1}}],
             [None, {"r": 1}]),
            ([{"id": "1", "name": "f"}], [{"id": "9", "name": "f", "response": {"r": 1}}], [None]),
            ([{"id": "1", "name": "f"}], [{"response": {"r": 1}}], [{"r": 1}]),
        ],
        ids=["by id", "in order", "by tool", "another's id", "no id, no name"],
    )  # fmt: skip
    def test_responses_go_to_their_calls(
        self, tmp_path: Path, uses: list[Json], responses: list[Json], results: list[Json]
    ) -> None:
        middle: Json = {"tool_uses": uses, "tool_responses": responses}
        turn: Json = {"user_content": said("q"), "intermediate_data": middle}
        (case,) = check_evalset(tmp_path, evalset(conversation(turn))).cases
        assert [call.result for call in case.turns[0].expected_calls or ()] == results

    def test_calls_among_events(self, tmp_path: Path) -> None:
        asked: Json = {"functionCall": {"id": "1", "name": "f", "args": {"some_Key": 1}}}
        given: Json = {"functionResponse": {"id": "1", "name": "f", "response": {"r": 2}}}
        events: Json = [
            {"author": "agent", "content": {"role": "model", "parts": [{"text": "hm"}, asked]}},
            {"author": "agent", "content": {"role": "user", "parts": [given]}},
        ]
        turn: Json = {"userContent": said("q"), "intermediateData": {"invocationEvents": events}}
        (case,) = check_evalset(tmp_path, camel({"evalId": "a", "conversation": [turn]})).cases
        [call] = case.turns[0].expected_calls or []
        assert call == ToolCall(name="f", arguments={"some_Key": 1}, result={"r": 2}, id="1")


class TestTraces:
    def test_what_was_recorded_stands_beside_the_reference(self, tmp_path: Path) -> None:
        use: Json = {"tool_uses": [{"name": "f", "args": {"x": 1}}]}
        case: Json = {
            "eval_id": "t",
            "eval_mode": "trace",
            "actual_conversation": [
                {"invocation_id": "a", "user_content": said("q1"),
                 "final_response": said("r1", "model"), "intermediate_data": use},
                {"user_content": said("q2"), "final_response": said("r2", "model")},
            ],
            "conversation": [
                {"user_content": said("q1"), "final_response": said("R1", "model")},
                {"user_content": said("q2"), "final_response": said("R2", "model")},
            ],
        }  # fmt: skip
        (read,) = check_evalset(tmp_path, evalset(case)).cases
        assert read.recorded is not None
        assert (read.recorded.asked, read.recorded.replies) == (("q1", "q2"), ("r1", "r2"))
        seen = exchanges(read, read.recorded)
        assert [(e.asked, e.reply, e.expected) for e in seen] == [
            ("q1", "r1", "R1"),
            ("q2", "r2", "R2"),
        ]
        assert [call.name for call in seen[0].tools] == ["f"]
        assert [(step.id, step.node) for step in read.recorded.trace.steps] == [
            ("turn-0", "agent"),
            ("turn-1", "agent"),
        ]

    def test_a_trace_needs_no_reference(self, tmp_path: Path) -> None:
        actual: Json = [{"userContent": said("q"), "finalResponse": said("r", "model")}]
        case: Json = {"evalId": "t", "evalMode": "trace", "actualConversation": actual}
        (read,) = check_evalset(tmp_path, camel(case)).cases
        assert (read.input, read.expected) == ("q", None)

    def test_a_turn_that_the_agent_never_came_to_has_no_reply(self, tmp_path: Path) -> None:
        case: Json = {
            "eval_id": "t",
            "eval_mode": "trace",
            "actual_conversation": [
                {"user_content": said("q1"), "final_response": said("r1", "model")}
            ],
            "conversation": [
                {"user_content": said("q1"), "final_response": said("R1", "model")},
                {"user_content": said("q2"), "final_response": said("R2", "model")},
            ],
        }
        (read,) = check_evalset(tmp_path, evalset(case)).cases
        assert read.recorded is not None
        assert [(e.reply, e.expected) for e in exchanges(read, read.recorded)] == [
            ("r1", "R1"),
            ("", "R2"),
        ]


def test_a_scenario_is_opened_by_its_first_turn(tmp_path: Path) -> None:
    scenario: Json = {"starting_prompt": "Hi", "conversation_plan": "Book a table for two."}
    case: Json = {"eval_id": "s", "conversation_scenario": scenario}
    file = check_evalset(tmp_path, evalset(case))
    assert file.cases[0].input == "Hi"
    assert file.cases[0].scenario == Scenario(plan="Book a table for two.")


def test_variables_stay_as_they_are(tmp_path: Path) -> None:
    (case,) = check_evalset(tmp_path, evalset(conversation({"user_content": said("${KEY}")}))).cases
    assert case.input == "${KEY}"


TURN: Json = {"user_content": said("q")}
SCENARIO: dict[str, Json] = {"starting_prompt": "a", "conversation_plan": "b"}


BAD: list[tuple[Json, str]] = [
    ({"eval_id": "a"}, ": there is neither conversation nor conversation_scenario — give one"
     " of them"),
    ({"eval_id": "a", "actual_conversation": [TURN]},
     ": there is neither conversation nor conversation_scenario — give one of them, or set"
     " eval_mode 'trace' to score the actual_conversation"),
    ({"eval_id": "a", "conversation": [TURN], "conversation_scenario": SCENARIO},
     ": conversation and conversation_scenario are both given — keep one of them"),
    ({"eval_id": "a", "conversation": []}, ": conversation is empty — add a turn, or leave it"
     " out"),
    ({"eval_id": "a", "eval_mode": "trace", "conversation": [TURN]},
     ": eval_mode 'trace' needs an actual_conversation — add what the agent did, or omit"
     " eval_mode to run the agent"),
    ({"eval_id": "a", "eval_mode": "trace", "actual_conversation": [TURN],
      "conversation_scenario": SCENARIO},
     ": eval_mode 'trace' cannot have a conversation_scenario — a trace is scored as it is:"
     " remove the scenario"),
    ({"eval_id": "a", "conversation": [{"user_content": {"role": "user"}}]},
     ": conversation[0].user_content is empty — add a part with text"),
    ({"eval_id": "a", "conversation": [{}]},
     ".conversation[0].user_content: required, but missing — add it"),
    ({"evalId": "a", "conversation": [{}]},
     ".conversation[0].userContent: required, but missing — add it"),
    ({"conversation": [TURN]}, ".eval_id: required, but missing — add it"),
    ({"eval_id": "", "conversation": [TURN]},
     ".eval_id: expected at least 1 character, found ''"),
    ({"eval_id": 7, "conversation": [TURN]}, ".eval_id: expected text, found 7"),
    ({"eval_id": "a", "conversations": [TURN], "conversation": [TURN]},
     ".conversations: unknown key 'conversations' — did you mean 'conversation'?"),
    ({"evalId": "a", "sesionInput": {}, "conversation": [TURN]},
     ".sesionInput: unknown key 'sesionInput' — did you mean 'sessionInput'?"),
    ({"eval_id": "a", "conversation": [{"user_content": {"parts": [{"txt": "q"}]}}]},
     ".conversation[0].user_content.parts[0].txt: unknown key 'txt' — did you mean 'text'?"),
    ({"eval_id": "a", "evalId": "b", "conversation": [TURN]},
     ".evalId: 'evalId' occurs twice, in two spellings — remove one"),
    ({"eval_id": "a", "conversation_scenario": {"starting_prompt": "x"}},
     ".conversation_scenario.conversation_plan: required, but missing — add it"),
    (5, ": expected a mapping, found 5"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "problem"), BAD)
def test_what_is_wrong_with_a_case(tmp_path: Path, case: Json, problem: str) -> None:
    path = put(tmp_path, "bad.evalset.json", json.dumps(evalset(case)))
    assert problems(path) == [f"bad.evalset.json:1 eval_cases[0]{problem}"]


def test_everything_is_said_at_once_with_its_line(tmp_path: Path) -> None:
    text = """{"eval_set": "x",
 "eval_cases": [
  {"eval_id": "a", "conversation": [{"user_content": {"parts": [{"text": 5}]}}]},
  {"eval_id": "b"},
  {"eval_id": "b", "conversation": [
     {"user_content": {"parts": [{"text": "q"}]}, "final_respnse": {}}]},
  {"eval_id": "b", "conversation": [{"user_content": {"parts": [{"text": "q"}]}}]}
 ]}"""
    assert problems(put(tmp_path, "bad.evalset.json", text)) == [
        "bad.evalset.json eval_set_id: required, but missing — add it",
        "bad.evalset.json:1 eval_set: unknown key 'eval_set' — did you mean 'eval_set_id'?",
        "bad.evalset.json:3 eval_cases[0].conversation[0].user_content.parts[0].text:"
        " expected text, found 5",
        "bad.evalset.json:4 eval_cases[1]: there is neither conversation nor"
        " conversation_scenario — give one of them",
        "bad.evalset.json:6 eval_cases[2].conversation[0].final_respnse: unknown key"
        " 'final_respnse' — did you mean 'final_response'?",
        "bad.evalset.json:7 eval_cases[3]: two cases have the name 'b'; the first is at"
        " bad.evalset.json:4 eval_cases[1] — give each case its own name",
    ]


def test_a_number_that_json_does_not_have(tmp_path: Path) -> None:
    text = json.dumps(
        evalset({"eval_id": "a", "session_input": {"state": {"x": float("nan")}}, **SCENARIO})
    )
    (problem,) = problems(put(tmp_path, "bad.evalset.json", text))
    assert problem.startswith("bad.evalset.json:1 eval_cases[0]: this value cannot be kept as JSON")


def test_half_a_character_in_what_the_set_says(tmp_path: Path) -> None:
    text = json.dumps({**evalset(), "description": "\ud800"})
    (problem,) = problems(put(tmp_path, "bad.evalset.json", text))
    assert problem.startswith("bad.evalset.json: this value cannot be kept as JSON")
